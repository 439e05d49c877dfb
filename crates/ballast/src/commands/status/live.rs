//! `ballast status --watch`: the same, drawn anew every two seconds, with the last decisions below.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp, Unit};
use scaling::{Object, Outcome, Record};

use super::{Report, Status};
use crate::{
    operator::OperatorPort,
    output::{self, Format},
    signals::StopSignals,
};

const EVERY: Duration = Duration::from_secs(2);
/// So many of the last decisions are shown.
const DECISIONS: usize = 8;
/// Of a terminal that does not say.
const USUAL: Size = Size { columns: 100, rows: 30 };

/// Of the terminal, in characters.
#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    rows: usize,
}

/// A second screen, so that what was in the terminal is there again afterwards.
struct Screen;

/// Until interrupted. A Ballast that is gone is waited for: it may be restarted.
pub async fn show(status: &Status) -> Result<ExitCode> {
    let mut stop = StopSignals::new()?;
    // a wrong directory is told at once
    let mut report = Ok(status.collect().await?);
    let screen = (status.output == Format::Text && io::stdout().is_terminal()).then(Screen::open);
    loop {
        let text = match (&report, status.output) {
            (Ok(report), Format::Json) => serde_json::to_string(report)?,
            (Err(error), Format::Json) => serde_json::json!({"trouble": [format!("{error:#}")]}).to_string(),
            (Ok(report), Format::Text) => {
                // what is written without a terminal is not cut
                let size = screen.as_ref().map(|_| terminal_size());
                frame(report, &last_decisions(report).await, Timestamp::now(), size)
            }
            (Err(error), Format::Text) => format!("{error:#}\nasking again every {} s", EVERY.as_secs()),
        };
        match &screen {
            Some(screen) => screen.draw(&text),
            None => output::answer(text),
        }
        tokio::select! {
            () = stop.received() => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(EVERY) => report = status.collect().await,
        }
    }
}

/// None if they cannot be had: what is wrong is among the report's troubles.
async fn last_decisions(report: &Report) -> Vec<Record> {
    let port = OperatorPort::new(&report.running.operator, None);
    port.decisions(&[("limit", &DECISIONS.to_string())]).await.unwrap_or_default()
}

fn terminal_size() -> Size {
    terminal_size::terminal_size()
        .map_or(USUAL, |(width, height)| Size { columns: width.0.into(), rows: height.0.into() })
}

/// What fits into the terminal. What changes comes first, since that is what somebody watches for.
fn frame(report: &Report, decisions: &[Record], now: Timestamp, size: Option<Size>) -> String {
    let mut lines = report.summary();
    lines.push(String::new());
    let mut below: Vec<String> = report.not_starting().collect();
    if !decisions.is_empty() {
        below.extend([String::new(), "last decisions".to_owned()]);
        below.extend(decisions.iter().map(|record| decision(record, now)));
    }
    let mut objects = report.objects();
    objects.sort_by_key(|object| !object.is_changing);
    let room = size.map_or(usize::MAX, |size| size.rows.saturating_sub(lines.len() + below.len()).max(1));
    let hidden = if objects.len() > room { objects.len() + 1 - room } else { 0 };
    objects.truncate(objects.len() - hidden);
    lines.extend(objects.into_iter().map(|object| object.line));
    if hidden > 0 {
        lines.push(format!("… and {hidden} more"));
    }
    lines.extend(below);
    if let Some(size) = size {
        lines.truncate(size.rows);
        for line in &mut lines {
            *line = line.chars().take(size.columns).collect();
        }
    }
    lines.join("\n")
}

fn decision(record: &Record, now: Timestamp) -> String {
    let Record { at, object, current, desired, reason, why, outcome, .. } = record;
    let age = now.duration_since(*at).max(SignedDuration::ZERO).round(Unit::Second).unwrap_or_default();
    let held = match outcome {
        Outcome::Held(why) => format!(", not written: {why}"),
        Outcome::Nothing | Outcome::Written => String::new(),
    };
    let Object { kind, namespace, name } = object;
    format!(
        "{:>8} ago  {kind} {namespace}/{name} {current} -> {desired}  {reason}: {why}{held}",
        format!("{age:#}")
    )
}

// === impl Screen ===

impl Screen {
    fn open() -> Self {
        write("\x1b[?1049h\x1b[?25l");
        Self
    }

    /// Line by line over what was there: a cleared screen flickers over a slow line.
    fn draw(&self, text: &str) {
        let lines = text.replace('\n', "\x1b[K\r\n");
        write(&format!("\x1b[H{lines}\x1b[K\x1b[J"));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h\x1b[?1049l");
    }
}

fn write(text: &str) {
    let mut out = io::stdout();
    // a terminal that is gone ends the process by a signal
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::{
        commands::status::{Share, Workload},
        running::Running,
    };

    fn report(workloads: &[(&str, i32, i32)]) -> Report {
        let running: Running = serde_json::from_value(
            json!({"api": "https://k", "gateway": "http://g", "operator": "http://o", "pid": 7}),
        )
        .expect("test data");
        let workload = |(name, ready, desired): &(&str, i32, i32)| Workload {
            kind: "Deployment",
            namespace: "shop".into(),
            name: (*name).into(),
            ready: *ready,
            desired: *desired,
        };
        Report {
            running,
            version: "v1".into(),
            trouble: vec!["the gateway: no store".into()],
            nodes: Share { ready: 1, total: 1 },
            pods: Share { ready: 3, total: 5 },
            workloads: workloads.iter().map(workload).collect(),
            scaled: Vec::new(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn what_changes_comes_first_and_what_does_not_fit_is_counted() {
        let report = report(&[("asleep", 0, 0), ("calm", 2, 2), ("waking", 0, 1), ("calm-too", 1, 1)]);
        let target = engine::effect::Target::absent(&engine::kind::DEPLOYMENT, Some("shop"), "waking");
        let at: Timestamp = "2026-03-02T12:00:00Z".parse().expect("test data");
        let record = Record::new(
            at,
            "demand",
            &target,
            &scaling::fixed(0, 1, "somebody"),
            Outcome::Held("paused".into()),
        );
        let now = at + SignedDuration::from_secs(75);
        let shown = |size| frame(&report, std::slice::from_ref(&record), now, size);
        expect![[r#"
            Ballast runs as process 7, its Kubernetes API (v1) is https://k
            functions on http://g, operators on http://o
            nodes  1 of 1 ready
            pods   3 of 5 ready
            not well: the gateway: no store

            Deployment   shop/waking: 0 of 1 ready
            Deployment   shop/asleep: asleep
            Deployment   shop/calm: 2 of 2 ready
            Deployment   shop/calm-too: 1 of 1 ready

            last decisions
              1m 15s ago  Deployment shop/waking 0 -> 1  FixedCount: somebody fixes the count to 1, not written: paused"#]]
        .assert_eq(&shown(None));
        expect![[r#"
            Ballast runs as process 7, its
            functions on http://g, operato
            nodes  1 of 1 ready
            pods   3 of 5 ready
            not well: the gateway: no stor

            Deployment   shop/waking: 0 of
            … and 3 more

            last decisions
              1m 15s ago  Deployment shop/"#]]
        .assert_eq(&shown(Some(Size { columns: 30, rows: 11 })));
    }
}
