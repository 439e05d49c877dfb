//! How the program speaks: answers on standard output, everything else on standard error.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

/// For people, or for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// The input is wrong: 2, as with wrong arguments.
pub const BAD_INPUT: u8 = 2;

/// Writes an answer. A closed pipe (`ballast … | head`) is no error.
pub fn answer(text: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Says what went wrong, with its causes, and gives the exit code for it.
pub fn failure(code: u8, error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "ballast: {error:#}");
    ExitCode::from(code)
}
