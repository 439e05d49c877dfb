//! The loop: decide, let time pass, measure.

use crate::{
    Change, Happening, Report, Run, Scenario,
    metrics::Pipeline,
    policy::{Policy, View},
    report::{Recorder, Totals},
    world::World,
};

/// No policy gets more pods than this, whatever it asks for: the model's time and memory are finite.
const MAX_PODS: i32 = 20_000;

/// Runs every policy of the scenario against the same load and the same luck.
pub fn run(scenario: &Scenario) -> Report {
    let runs = scenario.policies.iter().map(|policy| run_policy(scenario, policy)).collect();
    Report::new(scenario, runs)
}

fn run_policy(scenario: &Scenario, policy: &Policy) -> Run {
    let Scenario { seed, pods, metrics, .. } = scenario;
    let (step, tick) = (scenario.step.0, scenario.tick.0);
    let n_steps = (scenario.duration.0 / step).round() as u64;
    let mut scaler = policy.scaler.clone();
    let mut world = World::new(pods, *seed);
    let mut pipeline = Pipeline::default();
    let mut recorder = Recorder::new(n_steps, step);
    let mut totals = Totals::default();
    let mut happenings: Vec<Happening> = scenario
        .metrics
        .outages
        .iter()
        .filter(|outage| outage.at.0 < scenario.duration.0)
        .map(|outage| Happening { at: outage.at, what: format!("no metrics for {}", outage.length.words()) })
        .collect();
    let mut changes = Vec::new();
    let mut replicas = i32::try_from(pods.initial).unwrap_or(i32::MAX).min(MAX_PODS);
    let (mut last_call, mut last_scaled) = (None, None);
    let (mut next_tick, mut next_measure) = (0.0, metrics.interval.0);
    let mut next_crash = 0;
    let mut crashes = pods.crashes.clone();
    crashes.sort_by(|a, b| a.at.0.total_cmp(&b.at.0));

    for idx in 0..n_steps {
        let t = idx as f64 * step;
        while let Some(crash) = crashes.get(next_crash).filter(|crash| crash.at.0 <= t) {
            let n = world.crash(pods, t, crash.pods);
            happenings.push(Happening { at: crash.at, what: format!("{n} pods crash") });
            next_crash += 1;
        }
        let load = scenario.load.at(t);
        if load > 0.0 {
            last_call = Some(t);
        }
        let must_wake = scaler.wakes_on_calls() && replicas == 0 && load > 0.0;
        if t >= next_tick || must_wake {
            if t >= next_tick {
                next_tick += tick;
            }
            let sample = pipeline.latest(metrics, t);
            let view = View {
                series: pipeline.series(metrics, scenario.start, t),
                start: scenario.start,
                t,
                world: &world,
                pods,
                replicas,
                sample,
                last_call,
                last_scaled,
            };
            let outcome = scaler.decide(&view);
            totals.decided(outcome.code);
            let wanted = outcome.replicas.clamp(0, MAX_PODS);
            let size = outcome.size.unwrap_or(world.size());
            let resized = size != world.size();
            if wanted != replicas || resized {
                changes.push(Change {
                    at: crate::Seconds(t),
                    from: replicas,
                    to: wanted,
                    size: resized.then(|| size.change_from(world.size())),
                    load,
                    ready: world.n_ready(t),
                    code: outcome.code,
                    why: outcome.words.why(),
                    explanation: outcome.words.explain(),
                });
                totals.changed(t, (replicas, wanted), (world.size(), size));
                world.resize(pods, t, size);
                if pods.resize.is_some() || !world.is_rolling() {
                    world.scale(pods, *seed, t, usize::try_from(wanted).unwrap_or(0));
                }
                (replicas, last_scaled) = (wanted, Some(t));
            }
        }
        let target = usize::try_from(replicas).unwrap_or(0);
        if pods.resize.is_some() {
            world.finish_resizes(t);
        }
        match world.is_rolling() && pods.resize.is_none() {
            true => world.roll(pods, *seed, t, target),
            // What a rollout left over or left out.
            false if world.pods().len() != target => world.scale(pods, *seed, t, target),
            false => {}
        }
        let passed = world.step(pods, t, step, load);
        pipeline.observe(&passed, step);
        let end = t + step;
        if end >= next_measure {
            next_measure += metrics.interval.0;
            pipeline.measure(metrics, pods, *seed, end, &world);
        }
        totals.step(pods, step, load, &passed, &world);
        recorder.step(t, load, &passed, replicas, &world);
    }
    happenings.sort_by(|a, b| a.at.0.total_cmp(&b.at.0));
    Run {
        policy: policy.name.clone(),
        kind: policy.scaler.kind().to_owned(),
        summary: totals.summary(),
        reasons: totals.reasons(),
        changes,
        happenings,
        points: recorder.points(),
    }
}
