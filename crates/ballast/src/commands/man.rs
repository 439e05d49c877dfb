//! `ballast man DIR`: a manual page for each command.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};

#[derive(Debug, clap::Args)]
pub struct Man {
    /// Where to write them, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub fn run(self, program: clap::Command) -> Result<ExitCode> {
        let write = || {
            fs::create_dir_all(&self.directory)?;
            clap_mangen::generate_to(program, &self.directory)
        };
        write()
            .with_context(|| format!("failed to write the manual pages into {}", self.directory.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
