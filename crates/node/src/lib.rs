//! The process node: runs pods as processes.
