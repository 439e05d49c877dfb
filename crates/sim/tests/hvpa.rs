//! An Hvpa in closed loop: what it decides changes what it sees. Each property over hours of simulated load, in every mode that
//! promises it.

// Each user of the traces needs only some of them.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

#[path = "closed_loop/traces.rs"]
mod traces;

use expect_test::expect;
use proptest::prelude::*;
use sim::{Point, Report, Run};
use traces::{MODES, TARGET, Trace, hpa_alone, hvpa, traces, vpa_alone};

fn run(trace: &Trace, initial: (u32, &str), fields: &str) -> Run {
    let policies = [("hvpa".to_owned(), hvpa(fields))];
    traces::run(trace, initial, &policies, 1).unwrap().runs.remove(0)
}

fn flat(name: &'static str, hours: f64, load: &str) -> Trace {
    Trace { name, hours, load: format!("\n  - {load}") }
}

fn need(point: &Point) -> f64 {
    point.load / 100.0 / TARGET
}

/// The last hour of a run.
fn at_rest(run: &Run) -> &[Point] {
    let end = run.points.last().unwrap().at;
    let from = run.points.iter().position(|point| point.at >= end - 3600.0).unwrap();
    &run.points[from..]
}

/// How many times the need, at most, is held from `from` hours on.
fn overshoot(run: &Run, from: f64) -> f64 {
    let later = run.points.iter().filter(|point| point.at >= from * 3600.0);
    later.map(|point| point.cores / need(point)).fold(0.0, f64::max)
}

/// A jump from 1 to 5 cores: VPA biased and Mixed held 23 while both sides counted as two signals.
#[test]
fn a_jump_is_not_answered_twice() {
    let trace = flat("jump", 8.0, "{shape: constant, value: 100}\n  - {shape: step, at: 2h, value: 400}");
    for (name, fields) in MODES {
        let run = run(&trace, (1, "1000m"), fields);
        let jump = overshoot(&run, 2.0);
        assert!(jump <= 1.5, "{name}: {jump:.2} times the need during the jump\n{}", changes(&run));
        let settled = overshoot(&run, 5.0);
        assert!(settled <= 1.3, "{name}: {settled:.2} times the need at rest\n{}", changes(&run));
        let last = run.points.last().unwrap();
        assert!(last.cores >= 5.0, "{name}: only {} cores for 5\n{}", last.cores, changes(&run));
    }
}

#[test]
fn nothing_moves_under_a_constant_load() {
    for (name, fields) in MODES {
        for load in [40.0, 130.0, 700.0] {
            let trace = flat(
                "steady",
                6.0,
                &format!(
                    "{{shape: constant, value: {load}}}\n  - {{shape: noise, amplitude: {}, every: 40s}}",
                    load * 0.03
                ),
            );
            let run = run(&trace, (2, "500m"), fields);
            let late: Vec<_> = run.changes.iter().filter(|change| change.at.0 > 4.0 * 3600.0).collect();
            assert!(late.is_empty(), "{name} at {load}: still changing after four hours\n{}", changes(&run));
            let held = overshoot(&run, 5.0);
            assert!(held <= 1.3, "{name} at {load}: {held:.2} times the need\n{}", changes(&run));
        }
    }
}

/// The path: replicas^(1/(1-w)) is proportional to the need, from (1, 250m) on.
#[test]
fn at_rest_the_split_is_the_users_ratio() {
    let mut splits = Vec::new();
    for ratio in [0.1, 1.0, 9.0] {
        let trace = flat("steady", 6.0, "{shape: constant, value: 400}");
        let run = run(&trace, (2, "500m"), &format!("ratioBasedScalingSpec: {{vToHScalingRatio: {ratio}}}"));
        let last = run.points.last().unwrap();
        let on_path = (need(last) / 0.25f64).powf(1.0 / (1.0 + ratio));
        let replicas = f64::from(last.desired);
        assert!(
            (replicas - on_path).abs() <= 1.0,
            "{ratio}: {replicas} replicas, the path says {on_path:.2}\n{}",
            changes(&run)
        );
        splits.push(last.desired);
    }
    assert!(splits[0] > 2 * splits[1] && splits[1] > 2 * splits[2], "the ratio decides: {splits:?}");
}

/// Four modes move one axis at a time, and both the way of the load. On the path of a ratio a count that grows by one of a few may
/// leave the sizes too large, and then they shrink once the new pods run; the pods are never too few or too small meanwhile.
#[test]
fn two_axes_do_not_move_against_each_other_under_a_monotone_load() {
    for (from, to) in [(100.0, 700.0), (700.0, 100.0)] {
        for hours in [1.0, 4.0] {
            let load = format!("{{shape: ramp, at: 1h, length: {hours}h, from: {from}, to: {to}}}");
            let trace = flat("ramp", 3.0 + hours, &load);
            for (name, fields) in MODES {
                let initial = if from < to { (2, "700m") } else { (5, "1800m") };
                let run = run(&trace, initial, fields);
                let in_ramp: Vec<_> = run.changes.iter().filter(|change| change.at.0 > 3600.0).collect();
                assert!(!in_ramp.is_empty(), "{name} slept through {from} to {to}");
                let points: Vec<_> = run.points.iter().filter(|point| point.at > 4200.0).collect();
                let short = points.iter().find(|point| point.cores < point.load / 100.0);
                assert!(short.is_none(), "{name}: {short:?}\n{}", changes(&run));
                if name == "Ratio based" {
                    let smaller =
                        in_ramp.iter().filter(|change| change.from == change.to && change.code == "OnPath");
                    let many = smaller.filter(|change| from < to && change.to > 5).count();
                    assert_eq!(many, 0, "{name}: more than 5 pods need no trade\n{}", changes(&run));
                    continue;
                }
                assert_eq!(run.summary.opposed, 0, "{name}, {from} to {to} in {hours} h\n{}", changes(&run));
                // Half an hour after a rise its last whole pod may be given back in part.
                let end = if from < to { 3600.0 * (1.0 + hours) + 600.0 } else { f64::INFINITY };
                let points: Vec<_> = points.into_iter().filter(|point| point.at <= end).collect();
                for pair in points.windows(2) {
                    let (a, b) = (pair[0].cores, pair[1].cores);
                    let goes_along = (from < to && b >= a) || (from > to && b <= a);
                    assert!(goes_along, "{name}: {a} then {b} cores\n{}", changes(&run));
                }
            }
        }
    }
}

#[test]
fn more_need_never_gives_less_capacity() {
    for (name, fields) in MODES {
        let mut held = Vec::new();
        for load in [60.0, 120.0, 240.0, 480.0, 960.0] {
            let run = run(
                &flat("steady", 5.0, &format!("{{shape: constant, value: {load}}}")),
                (2, "500m"),
                fields,
            );
            let last = *run.points.last().unwrap();
            assert!(last.cores >= load / 100.0, "{name}: {} cores for {}", last.cores, load / 100.0);
            held.push(last.cores);
        }
        assert!(held.windows(2).all(|pair| pair[0] <= pair[1]), "{name}: {held:?}");
    }
}

#[test]
fn no_more_unmet_than_the_better_side_alone_and_where_there_are_more_resizes() {
    let mut more_resizes = String::new();
    for trace in traces() {
        let mut policies = vec![("hpa".to_owned(), hpa_alone()), ("vpa".to_owned(), vpa_alone())];
        policies.extend(MODES.map(|(name, fields)| (name.to_owned(), hvpa(fields))));
        let Report { runs, .. } = traces::run(&trace, (2, "500m"), &policies, 1).unwrap();
        let (alone, modes) = runs.split_at(2);
        let unmet = alone.iter().map(|run| run.summary.unmet_core_hours).fold(f64::INFINITY, f64::min);
        for run in modes {
            let ours = run.summary.unmet_core_hours;
            // Two seconds of one core.
            assert!(ours <= unmet + 0.0006, "{} {}: {ours:.4} beside {unmet:.4}", trace.name, run.policy);
            let (ours, vpa) = (run.summary.resizes, alone[1].summary.resizes);
            if ours > vpa {
                more_resizes
                    .push_str(&format!("{} {}: {ours} resizes beside {vpa}\n", trace.name, run.policy));
            }
        }
    }
    // A load that comes and goes within hours is followed by the sizes too where the mode gives them a part in it. A vertical
    // autoscaler alone, which remembers a day, stays at the size of the peak.
    expect![[r#"
        day VPA biased: 54 resizes beside 13
        day Mixed: 54 resizes beside 13
        day Ratio based: 35 resizes beside 13
        saw VPA biased: 127 resizes beside 12
        saw Mixed: 127 resizes beside 12
        saw Ratio based: 84 resizes beside 12
        spike HPA biased: 9 resizes beside 1
        spike VPA biased: 38 resizes beside 1
        spike Mixed: 38 resizes beside 1
        spike Ratio based: 33 resizes beside 1
        noisy VPA biased: 62 resizes beside 11
        noisy Mixed: 62 resizes beside 11
    "#]]
    .assert_eq(&more_resizes);
}

/// One manifest a mode, and the scenario of the documentation is made of them.
#[test]
fn the_examples_are_those_of_the_scenario() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let scenario = std::fs::read_to_string(examples.join("scenarios/hvpa-modes.yaml")).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(examples.join("hvpa"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        // one to try, which is no mode
        .filter(|name| name != "demo")
        .collect();
    names.sort();
    assert_eq!(names, ["hpa-biased", "hpa-preferred", "mixed", "ratio-based", "vpa-biased"]);
    for name in names {
        let manifest = std::fs::read_to_string(examples.join(format!("hvpa/{name}.yaml"))).unwrap();
        let indented: String = manifest.lines().skip(1).map(|line| format!("      {line}\n")).collect();
        let policy = format!("  - name: {name}\n    manifest:\n{indented}");
        assert!(scenario.contains(policy.trim_end()), "{name} differs from what the scenario runs");
    }
}

proptest! {
    #![proptest_config(repeatable::cases(12))]

    /// The pair at rest depends on the load, not on where it started.
    #[test]
    fn the_same_need_from_any_start_gives_the_same_pair(
        load in 60.0..900.0f64,
        starts in prop::collection::vec((1u32..12, 250u32..2000), 2),
    ) {
        let trace = flat("steady", 6.0, &format!("{{shape: constant, value: {load:.0}}}"));
        let ends: Vec<(i32, f64)> = starts
            .iter()
            .map(|(replicas, milli)| {
                let run = run(&trace, (*replicas, &format!("{milli}m")), "ratioBasedScalingSpec: {vToHScalingRatio: 1}");
                let rest = at_rest(&run);
                assert!(rest.iter().all(|point| point.cores == rest[0].cores), "{}", changes(&run));
                (rest[0].desired, rest[0].cores)
            })
            .collect();
        // A need is known to a tenth, which may be a step of the count.
        prop_assert!(ends[0].0.abs_diff(ends[1].0) <= 1, "{starts:?} ended at {ends:?}");
for (_, cores) in &ends {
            let held = cores / (load / 100.0 / TARGET);
            prop_assert!((0.9..=1.3).contains(&held), "{starts:?} ended at {ends:?}, {held:.2} times the need");
        }
    }
}

fn changes(run: &Run) -> String {
    let line = |change: &sim::Change| {
        let size = change.size.as_deref().unwrap_or("");
        format!(
            "{} load {:.0}: {} -> {} {size} {}: {}\n{}",
            change.at, change.load, change.from, change.to, change.code, change.why, change.explanation
        )
    };
    run.changes.iter().map(line).collect::<Vec<_>>().join("\n")
}
