//! The Ballast program.

fn main() {}
