//! A vertex is judged in closed loop: under constant load it comes to rest, under a load that only grows it never shrinks,
//! and what it cannot see never makes it smaller.

use decide::vertex::{Kind, Limits, Scale, Spec, VertexModel};
use proptest::prelude::*;
use sim::vertices::{Outcome, Stage, Story, run};

fn stage(name: &'static str, kind: Kind, model: VertexModel, initial: usize, start_up: f64) -> Stage {
    let spec = Spec {
        kind,
        scale: Scale::default(),
        limits: Limits::default(),
        back_pressure_threshold: 0.9,
        model,
        target_saturation: 0.85,
    };
    Stage { name, spec, capacity: 100.0, start_up, initial }
}

fn chain(model: VertexModel, initial: usize, start_up: f64) -> Vec<Stage> {
    [("in", Kind::Source), ("map", Kind::Udf), ("out", Kind::Sink)]
        .map(|(name, kind)| stage(name, kind, model, initial, start_up))
        .into()
}

/// Two hours of a constant load with 3 % of noise and looks that are 10 s old.
fn story<'a>(stages: &'a [Stage], load: &'a dyn Fn(f64) -> f64) -> Story<'a> {
    Story {
        stages,
        load,
        speed: &|_| 1.0,
        answers: &|_| true,
        seconds: 7200,
        lag: 10,
        noise: 0.03,
        seed: 1,
        tick: 30,
        follows_next_check: true,
    }
}

/// Steps of 2 every 90 s reach 33 pods from one after 24 minutes; what has piled up by then takes the rest of the hour.
fn initial(need: f64) -> usize {
    if need > 20.0 { (need / 3.0) as usize } else { 1 }
}

/// The promise under constant load: what is broken of it.
fn unrest(outcome: &Outcome) -> Vec<String> {
    let mut broken = Vec::new();
    for vertex in &outcome.vertices {
        if vertex.late_highest - vertex.late_lowest > 1 {
            broken
                .push(format!("{} between {} and {}", vertex.name, vertex.late_lowest, vertex.late_highest));
        }
    }
    if outcome.reversals_per_hour() > 1.0 {
        broken.push(format!("{} reversals an hour", outcome.reversals_per_hour()));
    }
    if outcome.late_delivered_share() < 0.999 {
        broken.push(format!("{:.4} delivered", outcome.late_delivered_share()));
    }
    // Twice the default target of 20 s.
    if outcome.late_backlog_seconds() > 40.0 {
        broken.push(format!("a backlog of {:.0} s", outcome.late_backlog_seconds()));
    }
    broken
}

fn counts(outcome: &Outcome) -> String {
    let of = |vertex: &sim::vertices::Vertex| format!("{}: {:?}", vertex.name, vertex.counts);
    outcome.vertices.iter().map(of).collect::<Vec<_>>().join("\n")
}

#[test]
fn constant_load_comes_to_rest() {
    for kind in [Kind::Source, Kind::Udf, Kind::Sink, Kind::MonoVertex] {
        for start_up in [0.0, 60.0] {
            for need in [1.5, 3.0, 7.0, 10.2, 20.0, 33.0] {
                let stages = [stage("vertex", kind, VertexModel::Learned, initial(need), start_up)];
                let outcome = run(&story(&stages, &|_| need * 100.0));
                let broken = unrest(&outcome);
                let what = format!("{kind:?}, start-up {start_up} s, load of {need} pods");
                assert!(broken.is_empty(), "{what}: {}\n{}", broken.join(", "), counts(&outcome));
            }
        }
    }
}

/// While a chain starts, a vertex may turn up to 4 times, as what reaches it depends on the others; then no more.
#[test]
fn a_chain_comes_to_rest() {
    let mut wrong = Vec::new();
    for start_up in [0.0, 60.0] {
        for (need, initial) in [(1.5, 1), (7.0, 1), (10.2, 1), (20.0, 10), (33.0, 16)] {
            let stages = chain(VertexModel::Learned, initial, start_up);
            let outcome = run(&story(&stages, &|_| need * 100.0));
            let mut broken = unrest(&outcome);
            broken.retain(|text| !text.contains("reversals"));
            for vertex in &outcome.vertices {
                if vertex.reversals(3600) > 0 || vertex.reversals(0) > 4 {
                    broken.push(format!("{} reversals of {}", vertex.reversals(0), vertex.name));
                }
            }
            if !broken.is_empty() {
                let what = format!("start-up {start_up} s, load of {need} pods");
                wrong.push(format!("{what}: {}\n{}", broken.join(", "), counts(&outcome)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The formulas alone do not, so the tests above can fail.
#[test]
fn the_formulas_alone_do_not_rest() {
    for kind in [Kind::Source, Kind::Sink] {
        let stages = [stage("vertex", kind, VertexModel::Formula, 1, 0.0)];
        let outcome = run(&story(&stages, &|_| 1000.0));
        assert!(outcome.reversals_per_hour() > 5.0, "{kind:?}\n{}", counts(&outcome));
    }
}

proptest! {
    #![proptest_config(repeatable::cases(24))]

    #[test]
    fn wherever_it_starts_it_comes_to_rest(
        source in any::<bool>(), need in 1.5..20.0f64, initial in 1..30usize, start_up in 0.0..60.0f64,
        lag in 0..30u64, noise in 0.0..0.04f64, seed in any::<u64>(),
    ) {
        let kind = if source { Kind::Source } else { Kind::Sink };
        let stages = [stage("vertex", kind, VertexModel::Learned, initial, start_up)];
        let load = |_: f64| need * 100.0;
        let outcome = run(&Story { lag, noise, seed, ..story(&stages, &load) });
        let broken = unrest(&outcome);
        prop_assert!(broken.is_empty(), "{}\n{}", broken.join(", "), counts(&outcome));
    }
}

/// 3 replicas, and what arrives needs more than 50: how long until all are there, and how often the count turns.
#[test]
fn from_3_to_50_sooner_than_by_the_public_algorithm() {
    let told = |model, follows_next_check| {
        let stages = [stage("in", Kind::Source, model, 3, 20.0)];
        let load = |t: f64| if t < 3600.0 { 6000.0 } else { 1000.0 };
        run(&Story { seconds: 10_800, follows_next_check, ..story(&stages, &load) })
    };
    let (ours, public) = (told(VertexModel::Learned, true), told(VertexModel::Formula, false));
    let reached = |outcome: &Outcome| outcome.vertices[0].reached(50).unwrap();
    assert!(reached(&ours) < reached(&public), "{} {}", reached(&ours), reached(&public));
    assert!(
        ours.vertices[0].reversals(0) < public.vertices[0].reversals(0),
        "{}\n{}",
        counts(&ours),
        counts(&public)
    );
}

#[test]
fn loads_that_change() {
    let check = |what: &str, load: &dyn Fn(f64) -> f64, reversals: usize| {
        let stages = [stage("in", Kind::Source, VertexModel::Learned, 2, 20.0)];
        let outcome = run(&story(&stages, load));
        assert!(outcome.vertices[0].reversals(0) <= reversals, "{what}\n{}", counts(&outcome));
        assert!(outcome.late_delivered_share() > 0.999, "{what}: {}", outcome.late_delivered_share());
        outcome
    };
    // It only grows, so it never shrinks.
    check("a ramp", &|t| 200.0 + t / 4.0, 0);
    let halved = check("half of it from one hour on", &|t| if t < 3600.0 { 1000.0 } else { 500.0 }, 1);
    assert_eq!(halved.vertices[0].counts.last().map(|(_, count)| *count), Some(6), "{}", counts(&halved));
    check("a spike", &|t| if (3600.0..3900.0).contains(&t) { 3000.0 } else { 800.0 }, 3);
}

#[test]
fn pods_that_slow_down_become_more() {
    let stages = [stage("in", Kind::Source, VertexModel::Learned, 4, 20.0)];
    let load = |_: f64| 1000.0;
    let speed = |t: f64| if t < 3600.0 { 1.0 } else { 0.6 };
    let outcome = run(&Story { seconds: 14_400, speed: &speed, ..story(&stages, &load) });
    let last = outcome.vertices[0].counts.last().map_or(0, |(_, count)| *count);
    // 1000/s at 85 % of 60/s.
    assert!((19..=22).contains(&last), "{}", counts(&outcome));
    assert!(outcome.vertices[0].reversals(0) <= 3, "{}", counts(&outcome));
    assert!(outcome.late_delivered_share() > 0.999, "{}", outcome.late_delivered_share());
}

/// A quarter of the looks is missing, as when a pod does not answer.
#[test]
fn looks_that_are_missing_move_nothing() {
    let stages = [stage("in", Kind::Source, VertexModel::Learned, 1, 20.0)];
    let load = |_: f64| 1000.0;
    let answers = |t: f64| (t as u64 / 5) % 4 != 3;
    let outcome = run(&Story { answers: &answers, ..story(&stages, &load) });
    let broken = unrest(&outcome);
    assert!(broken.is_empty(), "{}\n{}", broken.join(", "), counts(&outcome));
}

/// Nobody answers for half an hour, beginning at rest or in the middle of growing.
#[test]
fn what_cannot_be_seen_never_shrinks() {
    for kind in [Kind::Source, Kind::Udf] {
        for from in [600.0, 4000.0] {
            let stages = [stage("vertex", kind, VertexModel::Learned, 1, 20.0)];
            let load = |_: f64| 1000.0;
            let answers = |t: f64| !(from..from + 1800.0).contains(&t);
            let outcome = run(&Story { answers: &answers, ..story(&stages, &load) });
            // Looks of before count for the lookback.
            let blind = (from as u64 + 130)..(from as u64 + 1800);
            let changes: Vec<_> =
                outcome.vertices[0].counts.iter().filter(|(at, _)| blind.contains(at)).collect();
            assert!(changes.is_empty(), "{kind:?} {changes:?}\n{}", counts(&outcome));
            assert!(outcome.vertices[0].late_lowest >= 10, "{kind:?}\n{}", counts(&outcome));
        }
    }
}
