//! `ballast simulate`: what would happen, without waiting for it to happen.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};

use crate::output::{self, Format};

#[derive(Debug, clap::Args)]
pub struct Simulate {
    /// The scenario: load, pods, metrics and one or two policies (see examples/scenarios)
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    scenario: Option<PathBuf>,
    /// Draw the chart into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a report to open in a browser into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    /// Print the JSON Schema of scenarios, and simulate nothing
    #[arg(long)]
    schema: bool,
}

impl Simulate {
    pub fn run(self) -> Result<ExitCode> {
        if self.schema {
            output::answer(serde_json::to_string_pretty(&sim::Scenario::schema())?);
            return Ok(ExitCode::SUCCESS);
        }
        let path = self.scenario.context("a scenario is needed")?;
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let beside = |name: &str| {
            let file = path.parent().unwrap_or(Path::new("")).join(name);
            fs::read_to_string(&file).map_err(|error| format!("{} cannot be read: {error}", file.display()))
        };
        let scenario = match sim::Scenario::read(&text, &beside) {
            Ok(scenario) => scenario,
            Err(error) => {
                return Ok(output::failure(output::BAD_INPUT, &anyhow!("{}: {error}", path.display())));
            }
        };
        let report = sim::run(&scenario);
        match self.output {
            Format::Text => output::answer(report.timeline_text().trim_end()),
            Format::Json => output::answer(serde_json::to_string_pretty(&report.json())?),
        }
        if let Some(file) = &self.svg {
            write(file, &report.svg())?;
        }
        if let Some(file) = &self.html {
            write(file, &report.html())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
}
