//! The HTTP path of functions on demand.
