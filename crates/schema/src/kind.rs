//! A kind, built in or custom, as an API server uses it.

/// What a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself.
    Whole,
    /// Its `status` subresource.
    Status,
}
