//! How much the log tells, and in which form.

use crate::{log, output::Format};

#[derive(Debug, clap::Args)]
pub struct LogFlags {
    /// Say nothing but errors
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more; twice for everything
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Lines for people, or one JSON object a line
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, env = "BALLAST_LOG_FORMAT")]
    log_format: Format,
}

impl LogFlags {
    /// `usual` is how verbose the command is without being asked.
    pub fn start(&self, usual: u8) {
        log::start(self.quiet, self.verbose.saturating_add(usual), self.log_format);
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
}
