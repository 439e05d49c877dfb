//! End-to-end suites, each run on the embedded API and on a real one.
