//! The Ballast program: the only crate that reads arguments and the environment.

mod commands;
mod control_plane;
mod demo;
mod log;
mod output;
mod running;
mod signals;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    commands::Program::parse().run()
}
