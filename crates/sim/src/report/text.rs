//! For a terminal.

use std::fmt::Write as _;

use super::{Change, Report, Run, Summary};

/// A figure by which policies are compared.
pub(super) struct Row {
    pub name: &'static str,
    pub value: fn(&Summary) -> f64,
    pub words: fn(&Summary) -> String,
}

/// Less is better in every row.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "missed demand",
        value: |summary| summary.missed,
        words: |summary| format!("{} ({:.2} %)", number(summary.missed), summary.missed_percent),
    },
    Row {
        name: "worst backlog",
        value: |summary| summary.worst_backlog,
        words: |summary| number(summary.worst_backlog),
    },
    Row {
        name: "time to recover",
        value: |summary| summary.time_to_recover.0,
        words: |summary| summary.time_to_recover.to_string(),
    },
    Row {
        name: "time behind",
        value: |summary| summary.time_behind.0,
        words: |summary| summary.time_behind.to_string(),
    },
    Row {
        name: "replica-hours",
        value: |summary| summary.replica_hours,
        words: |summary| format!("{:.2}", summary.replica_hours),
    },
    Row {
        name: "core-hours",
        value: |summary| summary.core_hours,
        words: |summary| format!("{:.2}", summary.core_hours),
    },
    Row {
        name: "peak replicas",
        value: |summary| summary.peak_replicas as f64,
        words: |summary| summary.peak_replicas.to_string(),
    },
    Row {
        name: "changes",
        value: |summary| summary.changes as f64,
        words: |summary| format!("{} ({} reversals)", summary.changes, summary.reversals),
    },
    Row {
        name: "cold starts",
        value: |summary| summary.cold_starts as f64,
        words: |summary| summary.cold_starts.to_string(),
    },
];

pub(super) fn timeline(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_timeline(report, &mut out);
    out
}

fn write_timeline(report: &Report, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", report.scenario)?;
    if !report.description.is_empty() {
        writeln!(out, "{}", report.description)?;
    }
    writeln!(out, "{} from {}", report.duration.words(), report.start)?;
    for run in &report.runs {
        writeln!(out, "\n{} ({})", run.policy, run.kind)?;
        write_run(run, out)?;
    }
    writeln!(out)?;
    write_comparison(report, out)
}

fn write_run(run: &Run, out: &mut String) -> std::fmt::Result {
    let mut happenings = run.happenings.iter().peekable();
    for change in &run.changes {
        while let Some(happening) = happenings.next_if(|happening| happening.at.0 <= change.at.0) {
            writeln!(out, "  {:>8}  -- {}", happening.at.to_string(), happening.what)?;
        }
        writeln!(
            out,
            "  {:>8}  load {:>7}  {:>3} ready  {:9}  {}: {}",
            change.at.to_string(),
            number(change.load),
            change.ready,
            moved(change),
            change.code,
            change.why
        )?;
    }
    for happening in happenings {
        writeln!(out, "  {:>8}  -- {}", happening.at.to_string(), happening.what)?;
    }
    let reasons: Vec<String> = run.reasons.iter().map(|(code, n)| format!("{n} {code}")).collect();
    writeln!(out, "  decisions: {}", reasons.join(", "))
}

fn write_comparison(report: &Report, out: &mut String) -> std::fmt::Result {
    let name_width = ROWS.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let widths: Vec<usize> = report
        .runs
        .iter()
        .map(|run| {
            let cells = ROWS.iter().map(|row| (row.words)(&run.summary).chars().count());
            cells.chain([run.policy.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    write!(out, "{:name_width$}", "")?;
    for (run, width) in report.runs.iter().zip(&widths) {
        write!(out, "  {:>width$}", run.policy)?;
    }
    writeln!(out)?;
    for row in ROWS {
        write!(out, "{:name_width$}", row.name)?;
        for (run, width) in report.runs.iter().zip(&widths) {
            write!(out, "  {:>width$}", (row.words)(&run.summary))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// `2 -> 4`, with the size where that changed too.
pub(super) fn moved(change: &Change) -> String {
    let replicas = match change.from == change.to {
        true => change.from.to_string(),
        false => format!("{} -> {}", change.from, change.to),
    };
    match &change.size {
        None => replicas,
        Some(size) => format!("{replicas} x {size}"),
    }
}

/// Three digits that matter.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        below if below < 10.0 => format!("{value:.2}"),
        below if below < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
