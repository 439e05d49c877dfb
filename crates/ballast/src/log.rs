//! The log: structured lines on standard error. `RUST_LOG` overrides what the flags say.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::output::Format;

pub fn start(quiet: bool, verbose: u8, format: Format) {
    let level = match (quiet, verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info,async_nats=warn",
        (false, 2) => "debug,hyper=info,h2=info,rustls=info,tower=info,kube_client=info,async_nats=warn",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // a second start in one process (tests) keeps the first
    let _ = match format {
        // a file with escape sequences in it is hard to search
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
}
