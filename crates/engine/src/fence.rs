//! Whether this process may write, asked right before each write.
//!
//! A process that was stopped for longer than its lease wakes up in the middle of a plan and still believes to be the
//! leader. So it is not enough to ask before planning: [`crate::Executor`] asks before every single request, and a
//! request that is already on its way is stopped by the version it carries.

use std::{fmt, sync::Arc};

/// A handle; clones ask the same.
#[derive(Clone, Default)]
pub struct Fence(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Fence {
    /// For a process that shares its work with no other.
    pub const fn open() -> Self {
        Self(None)
    }

    /// For one of several: `holds_lease` is true only as long as no other may write.
    pub fn new(holds_lease: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(holds_lease)))
    }

    pub fn may_write(&self) -> bool {
        self.0.as_ref().is_none_or(|holds_lease| holds_lease())
    }

    /// Whether another process may do the same work. Then an object without a name of its own must not be created: two
    /// leaders in a row would make two of it.
    pub fn is_shared(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_shared() { "Fence(by lease)" } else { "Fence(open)" })
    }
}
