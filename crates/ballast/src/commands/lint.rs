//! `ballast lint`: manifests checked without a cluster.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};

use crate::{
    lint::{self, Severity, sarif},
    output,
};

/// Longer files are no manifests.
const LONGEST: u64 = 16 << 20;

#[derive(Debug, clap::Args)]
pub struct Lint {
    /// Files and directories (their *.yaml, *.yml and *.json, with all below); - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    /// Exit with 1 for warnings too
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    /// For what shows findings beside the code
    Sarif,
}

impl Lint {
    pub fn run(self) -> Result<ExitCode> {
        let mut files = Vec::new();
        for path in &self.files {
            collect(path, &mut files)?;
        }
        ensure!(!files.is_empty(), "there is no *.yaml, *.yml or *.json in what was named");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let findings = runtime.block_on(lint::lint(&files))?;
        let n_errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        let n_warnings = findings.len() - n_errors;
        match self.output {
            Format::Json => output::answer(serde_json::to_string_pretty(&findings)?),
            Format::Sarif => output::answer(serde_json::to_string_pretty(&sarif::log(&findings))?),
            Format::Text => {
                findings.iter().for_each(output::answer);
                let count = |n: usize, what| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
                let [files, errors, warnings] =
                    [count(files.len(), "file"), count(n_errors, "error"), count(n_warnings, "warning")];
                output::answer(format!("{files}: {errors}, {warnings}"));
            }
        }
        let is_bad = n_errors > 0 || self.strict && n_warnings > 0;
        Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn collect(path: &Path, files: &mut Vec<(String, String)>) -> Result<()> {
    let name = path.display().to_string();
    if name == "-" {
        files.push(("<stdin>".to_owned(), read(std::io::stdin(), "standard input")?));
        return Ok(());
    }
    let unreadable = || format!("failed to read {name}");
    if !path.is_dir() {
        files.push((name.clone(), read(fs::File::open(path).with_context(unreadable)?, &name)?));
        return Ok(());
    }
    let entries: std::io::Result<Vec<_>> = fs::read_dir(path).with_context(unreadable)?.collect();
    let mut below: Vec<PathBuf> =
        entries.with_context(unreadable)?.into_iter().map(|entry| entry.path()).collect();
    below.sort();
    for path in below {
        let is_manifest =
            path.extension().is_some_and(|ext| ["yaml", "yml", "json"].iter().any(|known| ext == *known));
        // A link may lead back here. A chart's templates are no manifests before Helm has rendered them.
        let is_searched = path.is_dir() && !path.is_symlink() && !path.join("Chart.yaml").is_file();
        if is_manifest || is_searched {
            collect(&path, files)?;
        }
    }
    Ok(())
}

fn read(from: impl Read, name: &str) -> Result<String> {
    let mut text = String::new();
    from.take(LONGEST + 1).read_to_string(&mut text).with_context(|| format!("failed to read {name}"))?;
    ensure!(text.len() as u64 <= LONGEST, "{name} is longer than 16 MiB: that is no manifest");
    Ok(text)
}
