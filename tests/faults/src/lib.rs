//! Controllers under faults: crashes, stale reads, lost events, errors, delays.
