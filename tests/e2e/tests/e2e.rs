//! Runs every test of the suite on the embedded cluster and on the real one.

mod suite;

use std::process::ExitCode;

use cluster::{Flavor, program};

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for test in suite::ALL {
        for flavor in [Flavor::Embedded, Flavor::Real] {
            if test.only.is_none_or(|only| only == flavor) {
                tests.push(program::Test {
                    name: format!("{}::{flavor}", test.name),
                    flavor,
                    body: test.body,
                });
            }
        }
    }
    program::main(tests)
}
