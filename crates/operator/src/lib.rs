//! What an operator may ask over HTTP: queries, the metric store, and Ballast's own metrics.
