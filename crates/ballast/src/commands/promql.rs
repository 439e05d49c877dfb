//! `ballast promql`: queries without a server.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use metrics::text;
use promql::{
    Engine, Labels, Limits, METRIC_NAME, MemorySource, Options, Value, autoscaling_value, testfile,
};
use serde_json::json;

use crate::output::{self, Format};

#[derive(Debug, clap::Args)]
pub struct Promql {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Evaluate a query on a file of metrics, and tell what an autoscaler would read from it
    Eval {
        query: String,
        /// Metrics in the text format of Prometheus; `-` reads standard input. Lines without a time count as just read
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The moment to evaluate at [default: now]
        #[arg(long, value_name = "TIME")]
        at: Option<jiff::Timestamp>,
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
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
            Command::Eval { query, file, at, output } => eval(&query, file.as_deref(), at, output),
            Command::Test { files, output } => test(&files, output),
        }
    }
}

fn eval(query: &str, file: Option<&Path>, at: Option<Timestamp>, format: Format) -> Result<ExitCode> {
    let now = at.unwrap_or_else(Timestamp::now).as_millisecond();
    let bad_input = |error: anyhow::Error| Ok(output::failure(output::BAD_INPUT, &error));
    let source = match file.map(|file| read_metrics(file, now)).transpose() {
        Ok(source) => source.unwrap_or_default(),
        Err(error) => return bad_input(error),
    };
    let plan = match promql::parse(query) {
        Ok(plan) => plan,
        Err(error) => return bad_input(anyhow!("the query is wrong: {error}")),
    };
    let engine = Engine::new(Options::default());
    let result = match engine.query_instant(&plan, &source, now, Limits::default()) {
        Ok(result) => result,
        Err(error) => return bad_input(anyhow!("the query cannot be evaluated: {error}")),
    };
    let reading = autoscaling_value(&engine, &plan, &source, now, Limits::default());
    let reading = reading.map(|value| format!("{value:?}")).unwrap_or_else(|error| error.to_string());
    let elements = elements(&result.value);
    match format {
        Format::Text => {
            for (labels, value) in &elements {
                output::answer(format_args!("{labels} {value}"));
            }
            output::answer(format_args!("an autoscaler reads {reading}, a figure per {:?}", plan.per()));
        }
        Format::Json => output::answer(serde_json::to_string_pretty(&json!({
            "result": elements
                .iter()
                .map(|(labels, value)| json!({"series": labels, "value": value}))
                .collect::<Vec<_>>(),
            "annotations": result.annotations.iter().map(|note| note.to_string()).collect::<Vec<_>>(),
            "autoscaling": reading,
            "per": format!("{:?}", plan.per()),
        }))?),
    }
    Ok(ExitCode::SUCCESS)
}

fn read_metrics(file: &Path, now: i64) -> Result<MemorySource> {
    let mut body = Vec::new();
    let name = file.display();
    if file == Path::new("-") {
        io::stdin().read_to_end(&mut body).context("failed to read standard input")?;
    } else {
        body = fs::read(file).with_context(|| format!("failed to read {name}"))?;
    }
    let mut source = MemorySource::new();
    let mut parser = text::Parser::new(&body, text::Format::Prometheus, text::Limits::default())
        .map_err(|error| anyhow!("{name}: {error}"))?;
    while let Some(sample) = parser.next_sample().map_err(|error| anyhow!("{name}: {error}"))? {
        let labels = sample.labels.iter().map(|label| (&*label.name, &*label.value));
        let labels = Labels::from_pairs(labels.chain([(METRIC_NAME, &*sample.name)]));
        let time = sample.timestamp.unwrap_or(now);
        source.push(&labels, time, sample.value).map_err(|error| anyhow!("{name}: {labels}: {error}"))?;
    }
    Ok(source)
}

/// Each element of a result as its series and its value. Ranges show their last point.
fn elements(value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Scalar(point) => vec![("scalar".to_owned(), point.value.to_string())],
        Value::String(text) => vec![("string".to_owned(), text.clone())],
        Value::Vector(samples) => {
            samples.iter().map(|sample| (sample.labels.to_string(), sample.point.value.to_string())).collect()
        }
        Value::Matrix(series) => series
            .iter()
            .filter_map(|one| Some((one.labels.to_string(), one.points.last()?.value.to_string())))
            .collect(),
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
