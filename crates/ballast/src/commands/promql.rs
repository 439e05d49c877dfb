//! `ballast promql`: queries without a server.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, anyhow};
use promql::{Engine, Options, testfile};
use serde_json::json;

use crate::output::{self, Format};

#[derive(Debug, clap::Args)]
pub struct Promql {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run test files in Prometheus's format (load, eval, …)
    Test {
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
}

impl Promql {
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Test { files, output } => test(&files, output),
        }
    }
}

fn test(files: &[PathBuf], format: Format) -> Result<ExitCode> {
    let engine = Engine::new(Options::default());
    let (mut reports, mut n_failed) = (Vec::new(), 0);
    for path in files {
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let report = match testfile::run(&text, &engine) {
            Ok(report) => report,
            Err(error) => {
                return Ok(output::failure(output::BAD_INPUT, &anyhow!("{}: {error}", path.display())));
            }
        };
        n_failed += report.failures().count();
        reports.push((path.display().to_string(), report));
    }
    match format {
        Format::Text => reports.iter().for_each(|(file, report)| print_text(file, report)),
        Format::Json => {
            let all: Vec<_> = reports.iter().map(|(file, report)| as_json(file, report)).collect();
            output::answer(serde_json::to_string_pretty(&all)?);
        }
    }
    Ok(if n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_text(file: &str, report: &testfile::Report) {
    for (case, why) in report.failures() {
        output::answer(format_args!("{file}:{}: {}\n  {why}", case.line, case.query));
    }
    for (case, why) in report.skipped() {
        output::answer(format_args!("{file}:{}: skipped ({why}): {}", case.line, case.query));
    }
    let (failed, skipped) = (report.failures().count(), report.skipped().count());
    output::answer(format_args!("{file}: {} passed, {failed} failed, {skipped} skipped", report.passed()));
}

fn as_json(file: &str, report: &testfile::Report) -> serde_json::Value {
    let failures: Vec<_> = report
        .failures()
        .map(|(case, why)| json!({"line": case.line, "query": case.query, "why": why}))
        .collect();
    let skipped: Vec<_> = report
        .skipped()
        .map(|(case, why)| json!({"line": case.line, "query": case.query, "why": why.to_string()}))
        .collect();
    json!({"file": file, "passed": report.passed(), "failed": failures, "skipped": skipped})
}
