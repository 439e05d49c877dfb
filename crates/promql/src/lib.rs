//! The query language of Prometheus: parse, plan, evaluate.
