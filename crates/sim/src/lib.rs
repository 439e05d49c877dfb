//! Timelines: load, pods and a virtual clock in, decisions out.
