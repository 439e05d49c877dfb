//! Workloads that a HorizontalPodAutoscaler scales.

use std::{collections::HashMap, sync::Arc};

use decide::{
    hpa::{
        self, Answer, Condition, Memory, Metric, Model, Observed, Phase, Pod, Reading, Ready, Requests,
        Sample, Settings, Source, input::SpecForm,
    },
    quantity::{Figure, Quantity},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use scaling::Record;

use super::{Line, Refusal, Replayed, Window, count_before};

/// A pod that was ready for so long has no start to wait for.
const LONG_READY: SignedDuration = SignedDuration::from_hours(1);

/// The `spec` of the autoscaler, as a manifest has it.
pub fn form(autoscaler: &HorizontalPodAutoscaler) -> Result<SpecForm, Refusal> {
    let (_, form) = api::hpa::spec(&autoscaler.spec, Settings::default())
        .map_err(|error| Refusal::Unknown(error.to_string()))?;
    Ok(form)
}

/// What all pods together used of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    /// Thousandths.
    total: i64,
    /// Of one pod, in thousandths, where that was recorded.
    request: Option<i64>,
}

pub fn replay(form: &SpecForm, records: &[Arc<Record>], window: &Window<'_>) -> Result<Replayed, Refusal> {
    let spec = form.resolve(Settings::default()).map_err(|error| Refusal::Bad(error.to_string()))?;
    let recorded: Vec<(Timestamp, HashMap<String, Load>)> = records
        .iter()
        .map(|record| (record.at, loads(record)))
        .filter(|(_, loads)| !loads.is_empty())
        .collect();
    let (first, _) = recorded.first().ok_or_else(|| {
        Refusal::Unknown("no decision with a metric was recorded yet, so there is nothing to replay".into())
    })?;
    let from = (*first).max(window.from);
    let mut replicas = count_before(records, from).unwrap_or(0);
    let (mut memory, mut line) = (Memory::default(), Line::default());
    for now in window.moments(from) {
        window.check()?;
        let Some((_, loads)) = recorded.iter().rfind(|(at, _)| *at <= now) else { continue };
        let observed = Observed {
            current: replicas,
            status_replicas: replicas,
            scaled_to_zero: replicas == 0,
            pods: vec![ready_pod(now); usize::try_from(replicas).unwrap_or(0)],
            answers: spec.metrics.iter().map(|metric| answer(metric, loads, replicas)).collect(),
        };
        let decision = hpa::decide(now, &spec, &observed, memory);
        line.push(now, decision.desired, decision.reason.code, || decision.why());
        (replicas, memory) = (decision.desired, decision.memory);
    }
    let known = |metric: &&Metric| recorded.iter().any(|(_, loads)| loads.contains_key(&*metric.label));
    let mut notes: Vec<String> = spec
        .metrics
        .iter()
        .filter(|metric| !known(metric))
        .map(|metric| format!("nothing was recorded of {}", metric.label))
        .collect();
    notes.push(
        "figures are known of each decision that was recorded, and taken to stay as they are until the next"
            .into(),
    );
    Ok(Replayed { from, to: window.to, points: line.0, notes })
}

/// By the names of metrics in reasons.
fn loads(record: &Record) -> HashMap<String, Load> {
    let steps = record.steps.values();
    let metrics = steps.into_iter().filter(|step| step["rule"] == "metric");
    let read = metrics.filter_map(|step| serde_json::from_value::<Reading>(step["input"].clone()).ok());
    read.map(|reading| (reading.metric.to_string(), load(&reading))).collect()
}

fn load(reading: &Reading) -> Load {
    let n_pods = i64::from(reading.pods.ready.max(1));
    match reading.model {
        Model::Utilization { average } => {
            let request = (reading.usage > 0).then(|| average.saturating_mul(100) / reading.usage);
            Load { total: average.saturating_mul(n_pods), request }
        }
        Model::Average => Load { total: reading.usage.saturating_mul(n_pods), request: None },
        Model::Value | Model::AverageValue => Load { total: reading.usage, request: None },
    }
}

fn answer(metric: &Metric, loads: &HashMap<String, Load>, replicas: i32) -> Answer {
    let Some(Load { total, request }) = loads.get(&*metric.label).copied() else {
        return Answer::Failed("nothing was recorded of it".into());
    };
    let n_pods = usize::try_from(replicas).unwrap_or(0);
    let each = total / i64::from(replicas.max(1));
    let sample = Some(Sample { value: each, at: None, window_seconds: 0 });
    let samples = vec![sample; n_pods];
    match (&metric.source, request) {
        (Source::Resource { target: hpa::ResourceTarget::Utilization(_), .. }, None) => {
            Answer::Failed("what its pods request was not recorded".into())
        }
        (Source::Resource { .. } | Source::Pods { .. }, request) => {
            let requests = request.map(|request| vec![request; n_pods]).unwrap_or_default();
            Answer::Pods { samples, requests: Requests::Known(requests) }
        }
        (Source::Object { .. } | Source::External { .. }, _) => {
            Answer::Total { values: vec![Figure(Some(Quantity(total)))], at: None }
        }
    }
}

fn ready_pod(now: Timestamp) -> Pod {
    let since = now.checked_sub(LONG_READY).unwrap_or(now);
    Pod {
        phase: Phase::Running,
        deleting: false,
        start: Some(since),
        ready: Some(Ready { status: Condition::True, since }),
    }
}

#[cfg(test)]
mod tests {
    use engine::effect::Target;
    use scaling::Outcome;

    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-03-02T{text}Z").parse().unwrap()
    }

    fn spec(text: &str) -> SpecForm {
        super::super::parse(text).unwrap()
    }

    const HALF: &str = "
        maxReplicas: 10
        metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
        behavior: {scaleDown: {stabilizationWindowSeconds: 0}}";

    /// Two pods that request 100 m each; all together they use so many millicores.
    fn recorded(rows: &[(&str, i32, i64)]) -> Vec<Arc<Record>> {
        let spec = spec(HALF).resolve(Settings::default()).unwrap();
        let target = Target::absent(&engine::kind::DEPLOYMENT, Some("default"), "web");
        let record = |(now, current, total): &(&str, i32, i64)| {
            let load = Load { total: *total, request: Some(100) };
            let loads = HashMap::from([("cpu".to_owned(), load)]);
            let observed = Observed {
                current: *current,
                status_replicas: *current,
                scaled_to_zero: false,
                pods: vec![ready_pod(at(now)); usize::try_from(*current).unwrap()],
                answers: spec.metrics.iter().map(|metric| answer(metric, &loads, *current)).collect(),
            };
            let decision = hpa::decide(at(now), &spec, &observed, Memory::default());
            Arc::new(Record::new(at(now), "hpa", &target, &decision, Outcome::Written))
        };
        rows.iter().map(record).collect()
    }

    fn replayed(policy: &str) -> String {
        let records = recorded(&[("12:00:00", 2, 100), ("12:10:00", 2, 400), ("12:20:00", 8, 80)]);
        let window = Window { from: at("12:00:00"), to: at("12:25:00"), is_over: &|| false };
        let replayed = replay(&spec(policy), &records, &window).unwrap();
        let lines = replayed.points.iter();
        let lines =
            lines.map(|one| format!("{} {} {}", one.at.strftime("%H:%M:%S"), one.replicas, one.reason));
        lines.chain(replayed.notes).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn another_target_needs_another_count_for_the_same_load() {
        expect_test::expect![[r#"
            12:00:00 2 OnTarget
            12:10:00 6 ScaleUpLimit
            12:10:15 8 AboveTarget
            12:10:20 8 OnTarget
            12:20:00 2 BelowTarget
            12:20:05 2 MetricAsksForNoChange
            figures are known of each decision that was recorded, and taken to stay as they are until the next"#]].assert_eq(&replayed(HALF));
        expect_test::expect![[r#"
            12:00:00 1 BelowTarget
            12:00:05 1 OnTarget
            12:10:00 4 AboveTarget
            12:10:05 4 OnTarget
            12:20:00 1 BelowTarget
            12:20:05 1 MetricAsksForNoChange
            figures are known of each decision that was recorded, and taken to stay as they are until the next"#]].assert_eq(&replayed(&HALF.replace(": 50", ": 100")));
        expect_test::expect![[r#"
            12:00:00 2 OnTarget
            12:10:00 3 TooManyReplicas
            12:20:00 2 BelowTarget
            12:20:05 2 MetricAsksForNoChange
            figures are known of each decision that was recorded, and taken to stay as they are until the next"#]].assert_eq(&replayed(&HALF.replace("maxReplicas: 10", "maxReplicas: 3")));
    }

    #[test]
    fn a_metric_that_was_not_recorded_is_named() {
        expect_test::expect![[r#"
            12:00:00 2 NoValidMetric
            nothing was recorded of memory
            figures are known of each decision that was recorded, and taken to stay as they are until the next"#]].assert_eq(&replayed(&HALF.replace("name: cpu", "name: memory")));
    }

    #[test]
    fn without_a_record_there_is_nothing_to_replay() {
        let window = Window { from: at("12:00:00"), to: at("12:25:00"), is_over: &|| false };
        let Err(Refusal::Unknown(why)) = replay(&spec(HALF), &[], &window) else {
            panic!("expected a refusal")
        };
        assert!(why.contains("nothing to replay"), "{why}");
    }
}
