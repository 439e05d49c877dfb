//! Functions on demand come to rest: under a constant load the metrics side turns round at most twice in the second hour
//! and in every later one, whatever the trigger follows, however slowly pods start, metrics arrive and loads waver.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use sim::{Scenario, run};

const HOURS: usize = 4;

#[derive(Clone, Debug)]
struct Case {
    trigger: Trigger,
    load: f64,
    /// As a share of the load.
    noise: f64,
    noise_every: u32,
    start_up: u32,
    interval: u32,
    delay: u32,
    window: u32,
    tick: u32,
    seed: u64,
}

/// What a trigger follows. Pods serve 10 calls a second, each takes 0.1 s while the pod has nothing else to do.
#[derive(Clone, Copy, Debug)]
enum Trigger {
    /// Five times the latency of an idle pod: the pods are four fifths busy then, and the next more are hardly busy.
    Latency,
    /// What waits and what is under way, 5 for each pod.
    Queue,
    /// Calls a second, 7 for each pod.
    Total,
    /// The same as an average over the pods.
    PerPod,
}

impl Trigger {
    fn json(self) -> &'static str {
        match self {
            Trigger::Latency => {
                r#"{"MetricName": "latency", "Query": "avg(latency_seconds)", "Threshold": 0.5}"#
            }
            Trigger::Queue => r#"{"MetricName": "queue", "Query": "sum(queue_length)", "Threshold": 5}"#,
            Trigger::Total => {
                r#"{"MetricName": "calls", "Query": "sum(rate(calls_total[1m]))", "Threshold": 7}"#
            }
            Trigger::PerPod => r#"{"MetricName": "calls", "Query": "avg(calls_per_second)", "Threshold": 7}"#,
        }
    }
}

impl Trigger {
    fn series(self) -> &'static str {
        match self {
            Trigger::Latency => "{name: latency_seconds, follows: latency}",
            Trigger::Queue => "{name: queue_length, follows: backlog}",
            Trigger::Total => "{name: calls_total, follows: load, counter: true}",
            Trigger::PerPod => "{name: calls_per_second, follows: served, perPod: true}",
        }
    }
}

impl Case {
    fn yaml(&self) -> String {
        let Case { load, start_up, interval, delay, window, tick, seed, noise_every, .. } = self;
        let amplitude = load * self.noise;
        let (trigger, series) = (self.trigger.json(), self.trigger.series());
        format!(
            r#"
name: rest
duration: {HOURS}h
tick: {tick}s
seed: {seed}
load:
  - {{shape: constant, value: {load}}}
  - {{shape: noise, amplitude: {amplitude}, every: {noise_every}s}}
pods: {{initial: 2, startUp: {start_up}s, capacity: 10, serviceTime: 100ms, patience: 60s}}
metrics:
  interval: {interval}s
  delay: {delay}s
  series: [{series}]
policies:
  - name: p
    manifest:
      apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: f
        annotations:
          SlimFaas/ReplicasMin: "1"
          SlimFaas/Scale: '{{"ReplicaMax": 80, "Triggers": [{trigger}],
            "Behavior": {{"ScaleDown": {{"StabilizationWindowSeconds": {window}}}}}}}'
"#
        )
    }

    /// How often the count turned round, by the hour.
    fn reversals(&self) -> Vec<usize> {
        let report = run(&Scenario::from_yaml(&self.yaml()).unwrap());
        let mut by_hour = vec![0; HOURS];
        let mut last_up = None;
        for change in &report.runs[0].changes {
            let is_up = change.to > change.from;
            if last_up.is_some_and(|last_up: bool| last_up != is_up) {
                by_hour[(change.at.0 / 3600.0) as usize] += 1;
            }
            last_up = Some(is_up);
        }
        by_hour
    }
}

fn case(trigger: Trigger) -> impl Strategy<Value = Case> {
    let pace = (1..60u32, 10..31u32, 0..30u32, prop::sample::select(vec![10u32, 15, 30]));
    let noise = (prop_oneof![Just(0.0), 0.01..0.2f64], 15..120u32);
    (20.0..250.0f64, noise, pace, prop::sample::select(vec![60u32, 120, 300]), any::<u64>()).prop_map(
        move |(load, (noise, noise_every), (start_up, interval, delay, tick), window, seed)| Case {
            trigger,
            load,
            noise,
            noise_every,
            start_up,
            interval,
            delay,
            window,
            tick,
            seed,
        },
    )
}

fn comes_to_rest(case: &Case) -> Result<(), TestCaseError> {
    let reversals = case.reversals();
    prop_assert!(reversals[1..].iter().all(|n| *n <= 2), "{:?} by the hour\n{case:?}", reversals);
    Ok(())
}

proptest! {
    #![proptest_config(repeatable::cases(12))]

    #[test]
    fn by_latency(case in case(Trigger::Latency)) {
        comes_to_rest(&case)?;
    }

    #[test]
    fn by_queue_length(case in case(Trigger::Queue)) {
        comes_to_rest(&case)?;
    }

    #[test]
    fn by_totals(case in case(Trigger::Total)) {
        comes_to_rest(&case)?;
    }

    #[test]
    fn by_rates_of_pods(case in case(Trigger::PerPod)) {
        comes_to_rest(&case)?;
    }
}

/// Without the guard these loops never rest, so the laws above can fail.
#[test]
fn without_the_guard_latency_never_rests() {
    let case = Case {
        trigger: Trigger::Latency,
        load: 50.0,
        noise: 0.0,
        noise_every: 30,
        start_up: 10,
        interval: 15,
        delay: 0,
        window: 300,
        tick: 15,
        seed: 1,
    };
    let off = case.yaml().replace(
        r#""StabilizationWindowSeconds": 300"#,
        r#""StabilizationWindowSeconds": 300, "FlapGuard": false"#,
    );
    let report = run(&Scenario::from_yaml(&off).unwrap());
    let later = report.runs[0].changes.iter().filter(|change| change.at.0 >= 3600.0).count();
    assert!(later > 20, "{later} changes after the first hour");
    let guarded = case.reversals();
    assert!(guarded[1..].iter().all(|n| *n <= 2), "{guarded:?}");
}
