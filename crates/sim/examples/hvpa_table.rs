//! How an Hvpa compares with its parts: `cargo run -p sim --example hvpa_table [FILE]`. With a file, the table replaces what stands
//! there between the two marks; without, it is printed.

#![allow(clippy::print_stdout, dead_code)]

#[path = "../tests/closed_loop/traces.rs"]
mod traces;

use std::{env, error::Error, fmt::Write as _, fs};

use sim::Summary;
use traces::{MODES, TARGET, hpa_alone, hvpa, traces, unsynchronized, upstream, vpa_alone};

const BEGIN: &str = "<!-- hvpa_table begins -->\n";
const END: &str = "<!-- hvpa_table ends -->";

fn main() -> Result<(), Box<dyn Error>> {
    let table = table()?;
    let Some(file) = env::args().nth(1) else {
        println!("{table}");
        return Ok(());
    };
    let text = fs::read_to_string(&file)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("the file has no mark where the table begins")?;
    let (_, after) = rest.split_once(END).ok_or("the file has no mark where the table ends")?;
    fs::write(&file, format!("{before}{BEGIN}{table}{END}{after}"))?;
    Ok(())
}

fn table() -> Result<String, Box<dyn Error>> {
    let mut policies = vec![
        ("HPA alone".to_owned(), hpa_alone()),
        ("VPA alone".to_owned(), vpa_alone()),
        ("both, unsynchronized".to_owned(), unsynchronized()),
        ("upstream's weighting, 50 %".to_owned(), upstream()),
    ];
    let peers = policies.len();
    policies.extend(MODES.map(|(name, fields)| (name.to_owned(), hvpa(fields))));
    let mut out = String::from(
        "| load | policy | core-hours | unmet core-hours | resizes | opposed moves | trades | peak cores, × need |\n\
         |---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut verdicts = String::new();
    for trace in traces() {
        let report = traces::run(&trace, (2, "500m"), &policies, 1)?;
        let peak_need =
            report.runs[0].points.iter().map(|point| point.load).fold(0.0, f64::max) / 100.0 / TARGET;
        for run in &report.runs {
            let Summary { core_hours, unmet_core_hours, resizes, opposed, trades, peak_cores, .. } =
                run.summary;
            let over = peak_cores / peak_need;
            writeln!(
                out,
                "| {} | {} | {core_hours:.1} | {unmet_core_hours:.3} | {resizes} | {opposed} | {trades} | {over:.2} |",
                trace.name, run.policy
            )?;
        }
        let (rivals, ours) = report.runs.split_at(peers);
        let by_unmet = |summary: &Summary| (summary.unmet_core_hours * 1000.0).round();
        let best = rivals
            .iter()
            .min_by(|a, b| {
                let key = |summary: &Summary| (by_unmet(summary), summary.core_hours);
                key(&a.summary).partial_cmp(&key(&b.summary)).unwrap_or(std::cmp::Ordering::Equal)
            })
            .ok_or("there is nothing to compare with")?;
        let ours = ours.last().ok_or("there is no mode")?;
        let more = (ours.summary.core_hours / best.summary.core_hours - 1.0) * 100.0;
        let is_as_good = by_unmet(&ours.summary) <= by_unmet(&best.summary) && more <= 10.0;
        writeln!(
            verdicts,
            "- {}: {}. {} leaves {:.3} core-hours unmet with {:+.0} % of the core-hours of the best of the others ({}, {:.3}).",
            trace.name,
            if is_as_good { "kept" } else { "not kept" },
            ours.policy,
            ours.summary.unmet_core_hours,
            more,
            best.policy,
            best.summary.unmet_core_hours,
        )?;
    }
    Ok(format!(
        "{out}\nIs the coupled ratio at least as good as the best of the others on unmet demand, within 10 % of its core-hours?\n\n{verdicts}"
    ))
}
