//! The log: structured lines on standard error. `RUST_LOG` overrides what the flags say.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

pub fn start(quiet: bool, verbose: u8) {
    let level = match (quiet, verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info,async_nats=warn",
        (false, 2) => "debug,hyper=info,h2=info,rustls=info,tower=info,kube_client=info,async_nats=warn",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // a second start in one process (tests) keeps the first
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // a file with escape sequences in it is hard to search
        .with_ansi(io::stderr().is_terminal())
        .try_init();
}
