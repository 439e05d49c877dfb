use expect_test::{Expect, expect};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::decision::{self, Rule as _};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MI: u64 = 1 << 20;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_234_567_890 + seconds).unwrap()
}

fn filled(buckets: &Buckets, samples: &[(f64, f64)]) -> Histogram {
    let mut histogram = Histogram::default();
    for &(value, weight) in samples {
        histogram.add(buckets, value, weight);
    }
    histogram
}

fn close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-9 * expected.abs().max(1.0), "{actual} is not {expected}");
}

#[test]
fn bucket_edges() {
    let linear = Buckets::linear(5.0, 0.3);
    assert_eq!(linear.count(), 18);
    close(linear.start(17), 5.1);
    assert_eq!([1.3, 100.0, -1.0].map(|value| linear.find(value)), [4, 17, 0]);

    let exponential = Buckets::exponential(500.0, 40.0, 1.5);
    assert_eq!(exponential.count(), 6);
    for (bucket, start) in [0.0, 40.0, 100.0, 190.0, 325.0, 527.5].into_iter().enumerate() {
        close(exponential.start(bucket as u16), start);
    }
    assert_eq!([39.99, 40.0, 100.0, 900.0].map(|value| exponential.find(value)), [0, 1, 2, 5]);
    assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|value| exponential.find(value)), [0, 5, 0]);

    assert_eq!((Buckets::cpu().count(), Buckets::memory().count()), (176, 176));
}

#[test]
fn percentiles_are_ends_of_buckets() {
    let buckets = Buckets::linear(10.0, 1.0);
    let histogram = filled(&buckets, &[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]);
    for (percentiles, expected) in
        [(&[0.0, 0.1][..], 2.0), (&[0.2, 0.3], 3.0), (&[0.4, 0.5, 0.6], 4.0), (&[0.7, 0.8, 0.9, 1.0], 5.0)]
    {
        for &percentile in percentiles {
            close(histogram.percentile(&buckets, percentile), expected);
        }
    }
    for percentile in [-0.5, 0.0, 0.5, 1.0, 1.5] {
        close(Histogram::default().percentile(&buckets, percentile), 0.0);
    }

    let fine = Buckets::linear(1.0, 0.1);
    let mut histogram = filled(&fine, &[(0.1, 0.1), (0.2, 0.2)]);
    close(histogram.percentile(&fine, -0.1), 0.2);
    close(histogram.percentile(&fine, 1.1), 0.3);
    histogram.add(&fine, 0.0, 0.1);
    histogram.add(&fine, 1.0, 0.1);
    close(histogram.percentile(&fine, -0.1), 0.1);
    close(histogram.percentile(&fine, 1.1), 1.0);
}

#[test]
fn old_samples_fade() {
    let buckets = Buckets::linear(10.0, 1.0);
    let decaying = |samples: &[(i64, f64, f64)]| {
        let mut histogram = Decaying::default();
        for &(hour, value, weight) in samples {
            histogram.add(&buckets, HOUR, at(hour * 3600), value, weight);
        }
        histogram
    };
    let check = |histogram: &Decaying, expected: &[(f64, f64)]| {
        for &(percentile, value) in expected {
            close(histogram.percentile(&buckets, percentile), value);
        }
    };
    check(&decaying(&[(0, 2.0, 1000.0), (20, 1.0, 1.0)]), &[(0.999, 2.0), (1.0, 3.0)]);
    check(&decaying(&[(0, 2.0, 1000.0), (101, 1.0, 1.0)]), &[(1.0, 2.0)]);
    check(
        &decaying(&[(0, 1.0, 1.0), (1, 2.0, 2.0), (2, 3.0, 3.0), (3, 4.0, 4.0)]),
        &[
            (0.0, 2.0),
            (0.02, 2.0),
            (0.03, 3.0),
            (0.10, 3.0),
            (0.11, 4.0),
            (0.34, 4.0),
            (0.35, 5.0),
            (1.0, 5.0),
        ],
    );

    // Merging aligns references: the two halves give what the whole gives.
    let mut merged = decaying(&[(0, 1.0, 1.0), (1, 2.0, 2.0)]);
    merged.merge(HOUR, decaying(&[(202, 3.0, 3.0), (203, 4.0, 4.0)]));
    check(&merged, &[(0.0, 4.0), (1.0, 5.0)]);
}

#[test]
fn histogram_checkpoints() {
    let buckets = Buckets::linear(10.0, 1.0);
    let saved = |weights: &[(f64, f64)]| {
        let checkpoint = filled(&buckets, weights).save();
        (checkpoint.bucket_weights.into_iter().collect::<Vec<_>>(), checkpoint.total_weight)
    };
    assert_eq!(
        saved(&[(1.0, 1.0), (2.0, 10_000.0), (3.0, 50.0)]),
        (vec![(1, 1), (2, 10_000), (3, 50)], 10_051.0)
    );
    assert_eq!(saved(&[(1.0, 1.0), (2.0, 100_000.0)]), (vec![(2, 10_000)], 100_001.0));

    let stored = |json: &str| {
        Histogram::load(&buckets, &serde_json::from_str(json).unwrap()).map_err(|error| error.to_string())
    };
    let loaded = stored(r#"{"totalWeight": 6, "bucketWeights": {"0": 1, "1": 2}}"#).unwrap();
    assert_eq!(loaded.weights.into_iter().collect::<Vec<_>>(), [(0, 2.0), (1, 4.0)]);
    expect!["checkpoint total weight is -1, expected a finite number of 0 or more"]
        .assert_eq(&stored(r#"{"totalWeight": -1}"#).unwrap_err());
    expect!["checkpoint bucket 11 does not exist, expected 0 to 10"]
        .assert_eq(&stored(r#"{"totalWeight": 1, "bucketWeights": {"11": 1}}"#).unwrap_err());
}

/// Replays peaks in bytes at hours; the expectation lists what reached the histogram.
fn check_peaks(samples: &[(i64, u64)], expected: &Expect) {
    let mut window = PodWindow::default();
    let mut log = String::new();
    for &(hour, bytes) in samples {
        let update = window.observe(SignedDuration::from_hours(24), at(hour * 3600), bytes, false);
        let words = update.map_or("nothing".to_owned(), |update| {
            let end = (update.window_end.as_second() - at(0).as_second()) / 3600;
            let subtract = update.subtract.map_or(String::new(), |old| format!("subtract {old}, "));
            format!("{subtract}add {} at {end} h", update.add)
        });
        log.push_str(&format!("{hour} h, {bytes}: {words}\n"));
    }
    expected.assert_eq(&log);
}

#[test]
fn one_memory_peak_a_day() {
    check_peaks(
        &[(0, 5), (12, 10), (13, 7), (24, 2), (73, 1)],
        &expect![[r#"
            0 h, 5: add 5 at 24 h
            12 h, 10: subtract 5, add 10 at 24 h
            13 h, 7: nothing
            24 h, 2: add 2 at 48 h
            73 h, 1: add 1 at 96 h
        "#]],
    );
}

#[test]
fn out_of_memory_bumps() {
    /// `usage` and `kills` are (hour, Mi); gives what the pod's peak became, or why the last kill was discarded.
    fn after(usage: &[(f64, u64)], kills: &[(f64, u64)]) -> Result<u64, Discarded> {
        let (options, mut container) = (Options::default(), Container::default());
        let when = |hour: f64| at((hour * 3600.0) as i64);
        let now = at(1_000_000);
        for &(hour, mi) in usage {
            container.memory_sample(&options, now, "pod", when(hour), (mi * MI) as f64).unwrap();
        }
        let mut last = Ok(());
        for &(hour, mi) in kills {
            last = container.out_of_memory(&options, now, "pod", when(hour), (mi * MI) as f64);
        }
        last?;
        // Each peak is alone in the histogram, because the one it replaced was subtracted.
        assert_eq!(container.memory.histogram.weights.len(), 1);
        Ok(container.memory.percentile(&Buckets::memory(), 1.0) as u64)
    }
    let end_of_bucket = |mi: u64| {
        let buckets = Buckets::memory();
        buckets.start(buckets.find((mi * MI) as f64) + 1) as u64
    };
    type Events = &'static [(f64, u64)];
    let table: [(Events, Events, Result<u64, Discarded>); 7] = [
        (&[], &[(0.0, 1000)], Ok(1200)),
        (&[], &[(0.0, 1000), (0.1, 999)], Ok(1200)),
        (&[], &[(0.0, 1000), (0.1, 999), (0.2, 2000)], Ok(2400)),
        (&[], &[(0.0, 1)], Ok(101)),
        (&[(0.0, 3000)], &[(0.1, 1000)], Ok(3600)),
        (&[(30.0, 1000)], &[(0.0, 2000)], Err(Discarded::OomTooOld)),
        // The window of the first sample ends at 24 h; the kill a second before the next one began still counts.
        (&[(0.0, 1000)], &[(24.0 - 1.0 / 3600.0, 2000)], Ok(2400)),
    ];
    for (usage, kills, expected) in table {
        assert_eq!(after(usage, kills), expected.map(end_of_bucket), "usage {usage:?}, kills {kills:?}");
    }
}

/// A container that used the same all day, sampled every minute.
fn steady(cores: f64, bytes: f64, minutes: i64) -> Observed {
    let sample = |minute: i64| Sample {
        at: at(minute * 60),
        pod: "web-0".to_owned(),
        container: "web".to_owned(),
        usage: Usage { cpu: Some(cores), memory: Some(bytes) },
    };
    Observed { samples: (0..minutes).map(sample).collect(), out_of_memory: Vec::new() }
}

fn learnt(spec: &Spec, observed: &Observed) -> Recommendation {
    let now = observed.samples.iter().map(|sample| sample.at).max().unwrap_or(at(0));
    recommend(now, spec, observed, &Memory::default())
}

#[test]
fn targets_of_steady_usage() {
    // Bucket end, then 15 %, truncated: 0.5 cores end in the bucket up to 511m, and 511m * 1.15 = 587m.
    for (cores, milli) in [(0.1, 126), (0.5, 587), (1.0, 1168), (2.0, 2406), (0.001, 25)] {
        let target = learnt(&Spec::default(), &steady(cores, 256.0 * MI as f64, 10)).containers[0].target;
        assert_eq!(target, Resources { cpu: Some(milli), memory: Some(323_522_422) }, "{cores} cores");
    }
    let target = learnt(&Spec::default(), &steady(1.0, 1e9, 10)).containers[0].target;
    assert_eq!(target.memory, Some(1_168_723_596));
}

#[test]
fn percentile_estimates() {
    let percentile = |buckets: Buckets, samples: &[f64], percentile: f64| {
        let samples: Vec<_> = samples.iter().map(|&value| (value, 1.0)).collect();
        filled(&buckets, &samples).percentile(&buckets, percentile)
    };
    assert!((percentile(Buckets::cpu(), &[1.0, 2.0, 3.0], 0.2) - 1.0).abs() < 0.05);
    assert!((percentile(Buckets::memory(), &[1e9, 2e9, 3e9], 0.5) / 2e9 - 1.0).abs() < 0.05);
}

#[test]
fn confidence_and_margin_multiply() {
    let rule = |rule: Rule, amount: u64| rule.apply(&Amount { resource: Resource::Cpu, amount }).amount;
    let widened = |confidence, exponent, amount| {
        rule(Rule::Confidence { confidence, multiplier: 0.1, exponent }, amount)
    };
    // 9 samples two minutes apart: 16 of 1440 minutes, but only 9 of 1440 samples.
    let mut nine = steady(3.2, 1e9, 17);
    nine.samples = nine.samples.into_iter().step_by(2).collect();
    let container = &learnt(&Spec::default(), &nine).memory.containers["web"];
    let confidence = container.confidence(&Options::default());
    close(confidence, 0.00625);
    assert_eq!(widened(confidence, 2, 3140), 907_460);
    let short = Options { confidence_interval_seconds: 18 * 60, ..Options::default() };
    close(container.confidence(&short), 0.5);
    assert_eq!(widened(0.5, 2, 3140), 4521);
    assert_eq!(widened(0.5, 2, 3_140_000_000), 4_521_600_000);

    assert_eq!((widened(0.0, 1, 3140), widened(0.0, -1, 3140)), (amount::MAX, 0));
    assert_eq!(widened(0.0, 1, 0), amount::MAX);
    assert_eq!(rule(Rule::Margin { fraction: 0.1 }, 3140), 3454);
}

#[test]
fn every_figure_tells_how_it_came_about() {
    let spec: Spec = serde_json::from_value(serde_json::json!({
        "containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "500m"}, "minAllowed": {"memory": "400Mi"}}],
        "options": {"rounding": {"cpu": "10m"}},
    }))
    .unwrap();
    let recommendation = learnt(&spec, &steady(0.5, 256.0 * MI as f64, 1441));
    let container = &recommendation.containers[0];
    for estimate in &container.estimates {
        decision::replay(Amount { resource: estimate.resource, amount: 0 }, &estimate.steps).unwrap();
    }
    expect![[r#"
        web  cpu 500m, memory 400Mi  (confidence 1.000)
          cpu target
            0 -> 511m  90 % of the usage was at or below 511m
            511m -> 587m  15 % safety margin
            587m -> 587m  a container of this pod gets at least 25m
            587m -> 590m  rounded up to a multiple of 10m
            590m -> 500m  the policy allows - to 500m
          cpu lower bound
            0 -> 511m  50 % of the usage was at or below 511m
            511m -> 587m  15 % safety margin
            587m -> 585m  confidence 1.000 multiplies by 0.998
            585m -> 585m  a container of this pod gets at least 25m
            585m -> 590m  rounded up to a multiple of 10m
            590m -> 500m  the policy allows - to 500m
          cpu upper bound
            0 -> 511m  95 % of the usage was at or below 511m
            511m -> 587m  15 % safety margin
            587m -> 1174m  confidence 1.000 multiplies by 2.000
            1174m -> 1174m  a container of this pod gets at least 25m
            1174m -> 1180m  rounded up to a multiple of 10m
            1180m -> 500m  the policy allows - to 500m
          memory target
            0 -> 268.3Mi  90 % of the usage was at or below 268.3Mi
            268.3Mi -> 308.5Mi  15 % safety margin
            308.5Mi -> 308.5Mi  a container of this pod gets at least 250Mi
            308.5Mi -> 400Mi  the policy allows 400Mi to -
          memory lower bound
            0 -> 268.3Mi  50 % of the usage was at or below 268.3Mi
            268.3Mi -> 308.5Mi  15 % safety margin
            308.5Mi -> 307.9Mi  confidence 1.000 multiplies by 0.998
            307.9Mi -> 307.9Mi  a container of this pod gets at least 250Mi
            307.9Mi -> 400Mi  the policy allows 400Mi to -
          memory upper bound
            0 -> 268.3Mi  95 % of the usage was at or below 268.3Mi
            268.3Mi -> 308.5Mi  15 % safety margin
            308.5Mi -> 617.1Mi  confidence 1.000 multiplies by 2.000
            617.1Mi -> 617.1Mi  a container of this pod gets at least 250Mi
            617.1Mi -> 617.1Mi  the policy allows 400Mi to -"#]]
    .assert_eq(&recommendation.explain().to_string());
    assert_eq!(container.uncapped_target.cpu, Some(590));
}

#[test]
fn containers_share_the_pod_minimum() {
    let mut observed = steady(0.001, 1e6, 2);
    assert_eq!(
        learnt(&Spec::default(), &observed).containers[0].target,
        Resources { cpu: Some(25), memory: Some(250 * MI) }
    );
    let beside: Vec<_> = observed
        .samples
        .iter()
        .map(|sample| Sample { container: "proxy".to_owned(), ..sample.clone() })
        .collect();
    observed.samples.extend(beside);
    for container in learnt(&Spec::default(), &observed).containers {
        assert_eq!(container.target, Resources { cpu: Some(12), memory: Some(125 * MI) });
    }
}

#[test]
fn no_data_is_no_recommendation() {
    let mut observed = steady(0.5, 1e9, 3);
    for sample in &mut observed.samples {
        sample.usage.memory = None;
    }
    let spec = Spec::default();
    let target = |observed: &Observed| learnt(&spec, observed).containers.first().map(|found| found.target);
    assert_eq!(target(&observed), Some(Resources { cpu: Some(587), memory: None }));
    assert_eq!(target(&Observed::default()), None);
    for absurd in [f64::NAN, f64::INFINITY, -1.0] {
        let recommendation = learnt(&spec, &steady(absurd, absurd, 3));
        assert_eq!((recommendation.containers.len(), recommendation.discarded.len()), (0, 6), "{absurd}");
    }
    // A node whose clock runs a day ahead must not outweigh everybody else.
    let ahead = recommend(at(-86_400), &spec, &steady(0.5, 1e9, 1), &Memory::default());
    assert!(ahead.containers.is_empty() && ahead.discarded[0].why == Discarded::InTheFuture);
}

#[test]
fn history_ends_after_eight_silent_days() {
    let learnt = learnt(&Spec::default(), &steady(0.5, 1e9, 3)).memory;
    let after_days = |days: i64| {
        recommend(at(days * 86_400), &Spec::default(), &Observed::default(), &learnt).memory.containers
    };
    let kept = after_days(7);
    assert!(kept["web"].pods.is_empty(), "a pod silent for a day holds no open window");
    assert!(after_days(9).is_empty());
}

#[test]
fn update_priorities() {
    const M: u64 = 1_000_000;
    let sizes = |request: (u64, u64), target: (u64, u64)| Sizes {
        request: Resources { cpu: Some(request.0), memory: Some(request.1) },
        target: Resources { cpu: Some(target.0), memory: Some(target.1) },
        ..Sizes::default()
    };
    for (request, target, diff, grows) in [
        ((2000, M), (10_000, M), 4.0, true),
        ((4000, M), (2000, M), 0.5, false),
        ((10, M), (900, M), 89.0, true),
        ((3000, 10 * M), (6000, 20 * M), 2.0, true),
        ((4000, 10 * M), (2000, 20 * M), 1.5, true),
    ] {
        let found = priority(&[sizes(request, target)]);
        assert_eq!((found.diff, found.grows, found.outside_range), (diff, grows, false));
        assert_eq!(
            [(1, false), (1, true), (12, false)].map(|(h, oom)| found.is_due(HOUR * h, oom)),
            [false, true, true]
        );
    }
    let cpu = |milli| Resources { cpu: Some(milli), memory: None };
    let ranged = |request, target, lower, upper| {
        priority(&[Sizes {
            request: cpu(request),
            target: cpu(target),
            lower: cpu(lower),
            upper: cpu(upper),
        }])
    };
    assert!(ranged(4000, 10_000, 6000, 14_000).outside_range);
    let shrinking = ranged(8000, 2000, 1000, 3000);
    assert_eq!((shrinking.outside_range, shrinking.diff), (true, 0.75));
    assert!(shrinking.is_due(SignedDuration::ZERO, false));
}

#[test]
fn amounts_are_written_as_quantities() {
    let read = |json: &str| serde_json::from_str::<Resources>(json).map_err(|error| error.to_string());
    let amounts = read(r#"{"cpu": 0.3, "memory": "1.5Ki"}"#).unwrap();
    assert_eq!(amounts, Resources { cpu: Some(300), memory: Some(1536) });
    assert_eq!(serde_json::to_string(&amounts).unwrap(), r#"{"cpu":"300m","memory":"1536"}"#);
    expect![[r#""lots" is not a quantity; expected a number with an optional suffix, such as 100m, 2 or 1Gi at line 1 column 14"#]].assert_eq(&read(r#"{"cpu": "lots"}"#).unwrap_err());
    expect!["expected a quantity of 0 or more, found -1 at line 1 column 11"]
        .assert_eq(&read(r#"{"cpu": -1}"#).unwrap_err());
    let usage: Usage = serde_json::from_str(r#"{"cpu": "123456n", "memory": "NaN"}"#).unwrap();
    assert!(usage.cpu == Some(0.001) && usage.memory.is_some_and(f64::is_nan));
}

#[test]
fn by_name() {
    let input = serde_json::json!({
        "now": "2027-01-15T08:00:00Z",
        "observed": {
            "samples": [
                {"at": "2027-01-15T07:59:00Z", "pod": "web-0", "container": "web", "usage": {"cpu": "480m", "memory": "200Mi"}},
                {"at": "2027-01-15T07:59:00Z", "pod": "web-1", "container": "web", "usage": {"cpu": "NaN"}},
            ],
            "outOfMemory": [{"at": "2027-01-15T07:59:30Z", "pod": "web-0", "container": "web", "request": "256Mi"}],
        },
    });
    let outcome = crate::policy::decide("recommender", &input.to_string()).unwrap();
    expect![[r#"
        web  cpu 587m, memory 422.3Mi  (confidence 0.000)
          cpu target
            0 -> 511m  90 % of the usage was at or below 511m
            511m -> 587m  15 % safety margin
            587m -> 587m  a container of this pod gets at least 25m
            587m -> 587m  no policy bounds
          cpu lower bound
            0 -> 511m  50 % of the usage was at or below 511m
            511m -> 587m  15 % safety margin
            587m -> 0  confidence 0.000 multiplies by 0.000
            0 -> 25m  a container of this pod gets at least 25m
            25m -> 25m  no policy bounds
          cpu upper bound
            0 -> 511m  95 % of the usage was at or below 511m
            511m -> 587m  15 % safety margin
            587m -> unbounded  confidence 0.000 multiplies by inf
            unbounded -> unbounded  a container of this pod gets at least 25m
            unbounded -> unbounded  no policy bounds
          memory target
            0 -> 367.2Mi  90 % of the usage was at or below 367.2Mi
            367.2Mi -> 422.3Mi  15 % safety margin
            422.3Mi -> 422.3Mi  a container of this pod gets at least 250Mi
            422.3Mi -> 422.3Mi  no policy bounds
          memory lower bound
            0 -> 367.2Mi  50 % of the usage was at or below 367.2Mi
            367.2Mi -> 422.3Mi  15 % safety margin
            422.3Mi -> 0  confidence 0.000 multiplies by 0.000
            0 -> 250Mi  a container of this pod gets at least 250Mi
            250Mi -> 250Mi  no policy bounds
          memory upper bound
            0 -> 367.2Mi  95 % of the usage was at or below 367.2Mi
            367.2Mi -> 422.3Mi  15 % safety margin
            422.3Mi -> unbounded  confidence 0.000 multiplies by inf
            unbounded -> unbounded  a container of this pod gets at least 250Mi
            unbounded -> unbounded  no policy bounds
          not used: cpu of web-1/web at 2027-01-15T07:59:00Z is not a finite number"#]]
    .assert_eq(&outcome.explanation);
    let refused = |spec: serde_json::Value| {
        let mut input = input.clone();
        input["spec"] = spec;
        crate::policy::decide("recommender", &input.to_string()).unwrap_err().to_string()
    };
    let errors = [
        refused(serde_json::json!({"options": {"targetPercentile": 90}})),
        refused(serde_json::json!({"options": {"cpuHalfLifeSeconds": 0}})),
        refused(
            serde_json::json!({"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "much"}}]}),
        ),
    ];
    expect![[r#"
        spec.options.targetPercentile: expected a number from 0 to 1
        spec.options.cpuHalfLifeSeconds: expected 1 second or more
        spec.containerPolicies[0].maxAllowed.cpu: "much" is not a quantity; expected a number with an optional suffix, such as 100m, 2 or 1Gi at line 1 column 413"#]].assert_eq(&errors.join("\n"));
}

fn any_observed() -> impl Strategy<Value = Observed> {
    let value = prop_oneof![
        4 => (0.0..1e13f64).boxed(),
        1 => prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX, i64::MAX as f64]).boxed(),
    ];
    let sample =
        (0..400_000i64, 0..3u8, 0..2u8, value.clone(), value).prop_map(|(s, pod, container, cpu, memory)| {
            Sample {
                at: at(s),
                pod: format!("pod-{pod}"),
                container: format!("c{container}"),
                usage: Usage { cpu: Some(cpu / 1e9), memory: Some(memory) },
            }
        });
    let kill = (0..400_000i64, 0..3u8, 0.0..1e12f64).prop_map(|(s, pod, request)| OutOfMemory {
        at: at(s),
        pod: format!("pod-{pod}"),
        container: "c0".to_owned(),
        request,
    });
    (prop::collection::vec(sample, 0..60), prop::collection::vec(kill, 0..4))
        .prop_map(|(samples, out_of_memory)| Observed { samples, out_of_memory })
}

fn end() -> Timestamp {
    at(400_000)
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn order_of_samples_does_not_matter(observed in any_observed(), rotation in 0usize..60) {
        let mut shuffled = observed.clone();
        let n = shuffled.samples.len().max(1);
        shuffled.samples.rotate_left(rotation % n);
        shuffled.samples.reverse();
        shuffled.out_of_memory.reverse();
        let spec = Spec::default();
        let of = |observed: &Observed| recommend(end(), &spec, observed, &Memory::default()).containers;
        prop_assert_eq!(of(&observed), of(&shuffled));
    }

    #[test]
    fn bounds_enclose_the_target_and_respect_policy(observed in any_observed(), min in 1..5000u64, more in 0..5000u64) {
        let policy = ContainerPolicy {
            container_name: "*".to_owned(),
            mode: ContainerMode::Auto,
            min_allowed: Resources { cpu: Some(min), memory: None },
            max_allowed: Resources { cpu: Some(min + more), memory: None },
            controlled_resources: Resource::all(),
            controlled_values: ControlledValues::default(),
        };
        let spec = Spec { container_policies: vec![policy], ..Spec::default() };
        for container in recommend(end(), &spec, &observed, &Memory::default()).containers {
            for resource in Resource::ALL {
                let of = |resources: &Resources| resources.get(resource);
                let (Some(lower), Some(target), Some(upper)) =
                    (of(&container.lower_bound), of(&container.target), of(&container.upper_bound)) else { continue };
                prop_assert!(lower <= target && target <= upper);
                prop_assert!(upper <= amount::MAX);
                if resource == Resource::Cpu {
                    prop_assert!(min <= lower && upper <= min + more);
                }
            }
        }
    }

    #[test]
    fn memory_survives_storage_at_any_point(observed in any_observed(), cut in 0..400_000i64) {
        let part = |keep: &dyn Fn(Timestamp) -> bool| Observed {
            samples: observed.samples.iter().filter(|sample| keep(sample.at)).cloned().collect(),
            out_of_memory: observed.out_of_memory.iter().filter(|kill| keep(kill.at)).cloned().collect(),
        };
        let (early, late) = (part(&|ts| ts < at(cut)), part(&|ts| ts >= at(cut)));
        let spec = Spec::default();
        let first = recommend(at(cut), &spec, &early, &Memory::default());
        let stored = serde_json::to_string(&first.memory).unwrap();
        let restored: Memory = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&restored, &first.memory);
        prop_assert_eq!(recommend(end(), &spec, &late, &restored), recommend(end(), &spec, &late, &first.memory));
    }

    #[test]
    fn checkpoints_keep_percentiles(observed in any_observed()) {
        let options = Options::default();
        let memory = recommend(end(), &Spec::default(), &observed, &Memory::default()).memory;
        for container in memory.containers.values() {
            let saved = container.save(&options, end());
            let json = serde_json::to_string(&saved).unwrap();
            let restored = Container::load(&serde_json::from_str(&json).unwrap()).unwrap();
            // Four digits of each weight survive, so a percentile may move by a sliver of the total.
            let of = |container: &Container, p: f64| container.cpu.percentile(&Buckets::cpu(), p);
            for p in [0.5, 0.9, 0.95] {
                prop_assert!(of(container, p - 0.01) <= of(&restored, p) && of(&restored, p) <= of(container, p + 0.01));
            }
            prop_assert_eq!(restored.confidence(&options), container.confidence(&options));
        }
    }
}

/// A sum over pods does not depend on how many pods share it; a figure for one pod does.
#[test]
fn totals_do_not_depend_on_the_count() {
    let options = Options { learn_totals: true, ..Options::default() };
    let spec = Spec { options, ..Spec::default() };
    let learnt = |pods: &dyn Fn(i64) -> usize| {
        let mut memory = Memory::default();
        let mut last = None;
        for minute in 0..120 {
            let n = pods(minute);
            let samples = (0..n).map(|pod| Sample {
                // Pods are scraped at different seconds of the minute.
                at: at(minute * 60 + pod as i64),
                pod: format!("{minute}-{pod}"),
                container: "app".to_owned(),
                usage: Usage { cpu: Some(4.0 / n as f64), memory: Some(4e9 / n as f64) },
            });
            let observed = Observed { samples: samples.collect(), out_of_memory: Vec::new() };
            let stored = serde_json::to_string(&memory).unwrap();
            let memory_again: Memory = serde_json::from_str(&stored).unwrap();
            let recommendation = recommend(at(minute * 60 + 59), &spec, &observed, &memory_again);
            memory = recommendation.memory.clone();
            last = recommendation.containers.into_iter().next();
        }
        last.unwrap()
    };
    let few = learnt(&|_| 2);
    let many = learnt(&|_| 16);
    let changing = learnt(&|minute| if minute < 60 { 2 } else { 16 });
    assert_eq!((few.total, many.total), (changing.total, changing.total));
    // 4 cores lie in the bucket that ends at 4.124, with 15 % on top.
    assert_eq!(few.total.target.cpu, Some(4742));
    assert!(few.target.cpu > many.target.cpu, "a figure for one pod remembers the count");
    // Without being asked for, nothing of it is learnt.
    let plain = recommend(at(0), &Spec::default(), &Observed::default(), &Memory::default());
    assert!(plain.memory.totals.is_empty());
}

/// Before its first interval is over, and while pods are replaced, a sum is still a sum.
#[test]
fn totals_are_known_from_the_first_look_and_count_nobody_twice() {
    let options = Options { learn_totals: true, ..Options::default() };
    let spec = Spec { options, ..Spec::default() };
    let mut memory = Memory::default();
    let mut look = |second: i64, pods: &[&str]| {
        let samples = pods.iter().map(|pod| Sample {
            at: at(second),
            pod: (*pod).to_owned(),
            container: "app".to_owned(),
            usage: Usage { cpu: Some(4.0 / pods.len() as f64), memory: None },
        });
        let observed = Observed { samples: samples.collect(), out_of_memory: Vec::new() };
        let recommendation = recommend(at(second), &spec, &observed, &memory);
        memory = recommendation.memory.clone();
        recommendation.containers[0].total.target.cpu
    };
    let looks = [
        look(0, &["a"]),
        look(15, &["a", "b", "c", "d"]),
        look(30, &["e", "f"]),
        look(60, &["e", "f"]),
        look(75, &["g"]),
        look(120, &["g"]),
    ];
    assert_eq!(looks, [Some(4742); 6]);
}
