//! Pure scaling decisions: values that carry their reasons.
