//! Patches: strategic merge and server-side apply.
