//! The chart: for each policy, load against capacity, desired against ready replicas, and where sizes change, what a pod
//! requests.

use std::fmt::Write as _;

use super::{
    Change, Point, Report, Run,
    text::{moved, number},
};
use crate::Seconds;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
const TITLE_HEAD: f64 = 34.0;
const LEGEND_HEAD: f64 = 26.0;
const LOAD_HEIGHT: f64 = 170.0;
const REPLICA_HEIGHT: f64 = 120.0;
const SIZE_HEIGHT: f64 = 70.0;
const GAP: f64 = 26.0;
const RUN_HEAD: f64 = 46.0;
const RUN_FOOT: f64 = 44.0;

/// Colors that differ in lightness as well as in hue, on light and on dark ground.
const STYLE: &str = "\
.chart{--ground:#fff;--ink:#1f2430;--soft:#5d6675;--grid:#e3e7ee;--load:#7aa6d8;--capacity:#155e9c;--ready:#9bd0b4;--desired:#a3470f;--event:#b3261e}\
@media (prefers-color-scheme:dark){.chart{--ground:#14181f;--ink:#e8ebf0;--soft:#a2abba;--grid:#2b323d;--load:#3f648f;--capacity:#7fbcf5;--ready:#2f6b4d;--desired:#f0a36b;--event:#ff8a80}}\
.chart text{font:12px system-ui,sans-serif;fill:var(--soft)}\
.chart .title{font-size:17px;font-weight:600;fill:var(--ink)}\
.chart .policy{font-size:14px;font-weight:600;fill:var(--ink)}\
.chart .ground{fill:var(--ground)}\
.chart .grid{stroke:var(--grid);stroke-width:1}\
.chart .load{fill:var(--load);fill-opacity:.45;stroke:var(--load);stroke-width:1}\
.chart .capacity{fill:none;stroke:var(--capacity);stroke-width:1.8}\
.chart .ready{fill:var(--ready);fill-opacity:.7}\
.chart .desired{fill:none;stroke:var(--desired);stroke-width:1.8}\
.chart .size{fill:none;stroke:var(--capacity);stroke-width:1.8;stroke-dasharray:6 2}\
.chart .event{stroke:var(--event);stroke-width:1.2;stroke-dasharray:3 3}\
.chart .event-text{fill:var(--event)}\
.chart .change circle{fill:var(--ground);stroke:var(--desired);stroke-width:1.8}\
.chart .change .catch{fill:transparent;stroke:none}\
.chart .change:hover circle:not(.catch),.chart .change:focus circle:not(.catch){fill:var(--desired)}\
.chart .change:focus{outline:none}\
";

/// As a file of its own the chart carries its title; in a page the page does.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    Alone,
    InPage,
}

pub(super) fn svg(report: &Report, place: Place) -> String {
    let head = if place == Place::Alone { TITLE_HEAD } else { 0.0 } + LEGEND_HEAD;
    let sizes = SizePanel::of(report);
    let size_height = sizes.map_or(0.0, |_| SIZE_HEIGHT + GAP);
    let run_height = RUN_HEAD + LOAD_HEIGHT + GAP + REPLICA_HEIGHT + size_height + RUN_FOOT;
    let height = head + run_height * report.runs.len() as f64;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_svg(report, place, head, height, run_height, sizes, &mut out);
    out
}

fn write_svg(
    report: &Report,
    place: Place,
    head: f64,
    height: f64,
    run_height: f64,
    sizes: Option<SizePanel>,
    out: &mut String,
) -> std::fmt::Result {
    let label = escape(&format!("{}: load, capacity and replicas over {}", report.scenario, report.duration));
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">"#
    )?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(out, r#"<rect class="ground" width="{WIDTH}" height="{height}"/>"#)?;
    if place == Place::Alone {
        writeln!(out, r#"<text class="title" x="{LEFT}" y="26">{}</text>"#, escape(&report.scenario))?;
    }
    write_legend(head - 11.0, sizes.is_some(), out)?;
    // The same scales for all policies, or the eye would compare the wrong things.
    let points = || report.runs.iter().flat_map(|run| &run.points);
    let load_top = points().map(|point| point.load.max(point.capacity)).fold(1.0, f64::max);
    let replica_top = points().map(|point| point.desired.max(point.ready as i32)).fold(1, i32::max);
    for (idx, run) in report.runs.iter().enumerate() {
        let top = head + run_height * idx as f64;
        write_run(report.duration, run, top, Axis::new(load_top), Axis::whole(replica_top), sizes, out)?;
    }
    out.push_str("</svg>\n");
    Ok(())
}

/// The panel for what a pod requests, for runs in which that changes.
#[derive(Clone, Copy)]
struct SizePanel {
    /// In thousandths of a core.
    axis: Axis,
}

impl SizePanel {
    fn of(report: &Report) -> Option<SizePanel> {
        let sizes = || report.runs.iter().flat_map(|run| &run.points).map(|point| point.size);
        let (least, most) = (sizes().min()?, sizes().max()?);
        (least != most).then(|| SizePanel { axis: Axis::new(most as f64) })
    }
}

fn write_legend(base: f64, has_sizes: bool, out: &mut String) -> std::fmt::Result {
    let mut x = LEFT;
    let (top, middle) = (base - 9.0, base - 4.0);
    let series = [
        ("load", "load", true),
        ("capacity", "capacity", false),
        ("ready", "ready", true),
        ("desired", "desired", false),
        ("size", "CPU request", false),
    ];
    for (class, name, is_area) in series.into_iter().filter(|(class, ..)| has_sizes || *class != "size") {
        match is_area {
            true => writeln!(out, r#"<rect class="{class}" x="{x}" y="{top}" width="14" height="10"/>"#)?,
            false => writeln!(out, r#"<path class="{class}" d="M{x} {middle}h14"/>"#)?,
        }
        writeln!(out, r#"<text x="{}" y="{base}">{name}</text>"#, x + 19.0)?;
        x += 44.0 + 7.0 * name.len() as f64;
    }
    writeln!(out, r#"<g class="change"><circle cx="{}" cy="{middle}" r="3.4"/></g>"#, x + 5.0)?;
    writeln!(out, r#"<text x="{}" y="{base}">decision (hover for its reason)</text>"#, x + 14.0)
}

fn write_run(
    duration: Seconds,
    run: &Run,
    top: f64,
    load_axis: Axis,
    replica_axis: Axis,
    sizes: Option<SizePanel>,
    out: &mut String,
) -> std::fmt::Result {
    let x = |t: f64| LEFT + (WIDTH - LEFT - RIGHT) * (t / duration.0).clamp(0.0, 1.0);
    let title = format!("{} ({})", run.policy, run.kind);
    writeln!(out, r#"<text class="policy" x="{LEFT}" y="{}">{}</text>"#, top + 16.0, escape(&title))?;
    let summary = &run.summary;
    let figures = format!(
        "missed {:.2} %, {:.2} replica-hours, {} changes, recovers in {}, {} cold starts",
        summary.missed_percent,
        summary.replica_hours,
        summary.changes,
        summary.time_to_recover,
        summary.cold_starts
    );
    writeln!(out, r#"<text x="{LEFT}" y="{}">{figures}</text>"#, top + 33.0)?;

    let load_bottom = top + RUN_HEAD + LOAD_HEIGHT;
    let replica_bottom = load_bottom + GAP + REPLICA_HEIGHT;
    load_axis.write("per second", load_bottom, LOAD_HEIGHT, out)?;
    replica_axis.write("replicas", replica_bottom, REPLICA_HEIGHT, out)?;
    let size_bottom = replica_bottom + GAP + SIZE_HEIGHT;
    let mut panels = vec![(load_bottom, LOAD_HEIGHT), (replica_bottom, REPLICA_HEIGHT)];
    if let Some(SizePanel { axis }) = sizes {
        axis.write("millicores", size_bottom, SIZE_HEIGHT, out)?;
        panels.push((size_bottom, SIZE_HEIGHT));
    }
    write_times(duration, x, &panels, out)?;

    let load_y = |value: f64| load_axis.y(value, load_bottom, LOAD_HEIGHT);
    let replica_y = |value: f64| replica_axis.y(value, replica_bottom, REPLICA_HEIGHT);
    let end = x(duration.0);
    let series = |value: fn(&Point) -> f64| run.points.iter().map(move |point| (x(point.at), value(point)));
    let load = path(series(|point| point.load).map(|(x, v)| (x, load_y(v))), false, end);
    write_area("load", &load, load_bottom, out)?;
    let capacity = path(series(|point| point.capacity).map(|(x, v)| (x, load_y(v))), true, end);
    writeln!(out, r#"<path class="capacity" d="{capacity}"/>"#)?;
    let ready = path(series(|point| point.ready as f64).map(|(x, v)| (x, replica_y(v))), true, end);
    write_area("ready", &ready, replica_bottom, out)?;
    let desired = path(series(|point| f64::from(point.desired)).map(|(x, v)| (x, replica_y(v))), true, end);
    writeln!(out, r#"<path class="desired" d="{desired}"/>"#)?;

    if let Some(SizePanel { axis }) = sizes {
        let y = |value: f64| axis.y(value, size_bottom, SIZE_HEIGHT);
        let size = path(series(|point| point.size as f64).map(|(x, v)| (x, y(v))), true, end);
        writeln!(out, r#"<path class="size" d="{size}"/>"#)?;
    }
    for happening in &run.happenings {
        let at = x(happening.at.0);
        writeln!(out, r#"<path class="event" d="M{at:.1} {}V{replica_bottom}"/>"#, top + RUN_HEAD)?;
        let (anchor, at) = if at > WIDTH * 0.8 { ("end", at - 4.0) } else { ("start", at + 4.0) };
        let y = load_bottom + 17.0;
        let what = escape(&happening.what);
        writeln!(
            out,
            r#"<text class="event-text" text-anchor="{anchor}" x="{at:.1}" y="{y}">{what}</text>"#
        )?;
    }
    for change in &run.changes {
        write_change(change, x(change.at.0), replica_y(f64::from(change.to)), out)?;
    }
    Ok(())
}

fn write_change(change: &Change, x: f64, y: f64, out: &mut String) -> std::fmt::Result {
    let tip = format!("{}  {}\n{}: {}", change.at, moved(change), change.code, change.why);
    writeln!(
        out,
        r#"<g class="change" tabindex="0"><title>{}</title><circle class="catch" cx="{x:.1}" cy="{y:.1}" r="9"/><circle cx="{x:.1}" cy="{y:.1}" r="3.4"/></g>"#,
        escape(&tip)
    )
}

fn write_area(class: &str, path: &str, bottom: f64, out: &mut String) -> std::fmt::Result {
    if path.is_empty() {
        return Ok(());
    }
    writeln!(out, r#"<path class="{class}" d="{path}V{bottom:.1}H{LEFT}Z"/>"#)
}

/// A line through the points; with `steps`, each value holds until the next. Points that change nothing are left out.
fn path(points: impl Iterator<Item = (f64, f64)>, steps: bool, end: f64) -> String {
    let mut out = String::new();
    let mut last_y = String::new();
    for (x, y) in points {
        let y = format!("{y:.1}");
        if out.is_empty() {
            let _ = write!(out, "M{x:.1} {y}");
        } else if steps && y == last_y {
            continue;
        } else if steps {
            let _ = write!(out, "H{x:.1}V{y}");
        } else {
            let _ = write!(out, "L{x:.1} {y}");
        }
        last_y = y;
    }
    if !out.is_empty() {
        let _ = write!(out, "H{end:.1}");
    }
    out
}

fn write_times(
    duration: Seconds,
    x: impl Fn(f64) -> f64,
    panels: &[(f64, f64)],
    out: &mut String,
) -> std::fmt::Result {
    const STEPS: [f64; 17] = [
        1.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0,
        14_400.0, 21_600.0, 43_200.0,
    ];
    let step = STEPS
        .into_iter()
        .find(|step| duration.0 / step <= 9.0)
        .unwrap_or((duration.0 / 9.0 / 86_400.0).ceil() * 86_400.0);
    let mut t = 0.0;
    while t <= duration.0 {
        let at = x(t);
        let lines: String = panels
            .iter()
            .map(|(bottom, height)| format!("M{at:.1} {:.1}V{bottom:.1}", bottom - height))
            .collect();
        writeln!(out, r#"<path class="grid" d="{lines}"/>"#)?;
        let anchor = if t + step > duration.0 && at > WIDTH - RIGHT - 20.0 { "end" } else { "middle" };
        let y = panels.last().map_or(0.0, |(bottom, _)| bottom + 17.0);
        writeln!(out, r#"<text text-anchor="{anchor}" x="{at:.1}" y="{y:.1}">{}</text>"#, Seconds(t))?;
        t += step;
    }
    Ok(())
}

/// A scale from 0 to a round number.
#[derive(Clone, Copy)]
struct Axis {
    top: f64,
    step: f64,
}

impl Axis {
    fn new(max: f64) -> Axis {
        let raw = max / 4.0;
        let magnitude = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|m| m * magnitude)
            .into_iter()
            .find(|step| *step >= raw)
            .unwrap_or(raw);
        Axis { step, top: (max / step).ceil() * step }
    }

    fn whole(max: i32) -> Axis {
        let Axis { step, .. } = Axis::new(f64::from(max));
        let step = step.ceil().max(1.0);
        Axis { step, top: (f64::from(max) / step).ceil() * step }
    }

    fn y(&self, value: f64, bottom: f64, height: f64) -> f64 {
        bottom - height * (value / self.top).clamp(0.0, 1.0)
    }

    fn write(&self, name: &str, bottom: f64, height: f64, out: &mut String) -> std::fmt::Result {
        let n = (self.top / self.step).round() as u32;
        for idx in 0..=n {
            let value = self.step * f64::from(idx);
            let y = self.y(value, bottom, height);
            writeln!(out, r#"<path class="grid" d="M{LEFT} {y:.1}H{}"/>"#, WIDTH - RIGHT)?;
            let (x, text_y) = (LEFT - 8.0, y + 4.0);
            writeln!(out, r#"<text text-anchor="end" x="{x}" y="{text_y:.1}">{}</text>"#, number(value))?;
        }
        let middle = bottom - height / 2.0;
        writeln!(
            out,
            r#"<text text-anchor="middle" transform="translate(14 {middle:.1}) rotate(-90)">{name}</text>"#
        )
    }
}

/// Text as XML and HTML take it.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no place for them, not even escaped.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
