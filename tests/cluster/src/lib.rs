//! A Kubernetes to test on: embedded, or the real one built from pinned modules.
