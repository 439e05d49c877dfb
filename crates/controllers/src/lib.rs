//! Controllers of what Ballast adds to Kubernetes: each a synchronous planner and a thin executor.
