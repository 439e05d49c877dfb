//! The recommender of the Vertical Pod Autoscaler and ours learn from the same random histories and recommend the same.
//!
//! The other one is built from its pinned Go module (`tests/oracle`), which takes some minutes the first time.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test, though its helpers are not marked as such

use decide::recommender::{
    Bound, Buckets, ContainerRecommendation, Memory, Observed, Options, OutOfMemory, Recommendation, Rule,
    Sample, Spec,
    amount::{Resource, Usage},
    recommend,
};
use jiff::Timestamp;
use oracle::vpa::{self, Event};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::Value;

const HISTORIES: u32 = 200;
const PODS: [&str; 3] = ["web-1", "web-2", "web-3"];
const CONTAINERS: [&str; 2] = ["app", "log"];
const MINUTE: i64 = 60_000;
/// Some day in 2026.
const BEGIN: i64 = 1_772_409_600_000;

/// What one step of a history is made of, before it has a time.
#[derive(Clone, Debug)]
struct Draw {
    gap: i64,
    pod: usize,
    container: usize,
    cpu: f64,
    memory: f64,
    what: u8,
}

/// From a few minutes to some days of a workload of some size, with samples that come late and kills.
fn history() -> impl Strategy<Value = Vec<Event>> {
    let draw =
        (1_000..40 * MINUTE, 0..PODS.len(), 0..CONTAINERS.len(), 0.0..3.0f64, 0.1..2.0f64, any::<u8>())
            .prop_map(|(gap, pod, container, cpu, memory, what)| Draw {
                gap,
                pod,
                container,
                cpu,
                memory,
                what,
            });
    let sizes = (1.0..3_000.0f64, 1e6..4e9f64);
    (sizes, 1..=PODS.len(), 1..=CONTAINERS.len(), prop::collection::vec(draw, 1..500))
        .prop_map(|(sizes, n_pods, n_containers, draws)| events(sizes, n_pods, n_containers, &draws))
}

fn events((cpu, memory): (f64, f64), n_pods: usize, n_containers: usize, draws: &[Draw]) -> Vec<Event> {
    let milli = |factor: f64| Some((cpu * factor) as u64);
    let bytes = |factor: f64| Some((memory * factor) as u64);
    let mut now = BEGIN;
    let mut all = Vec::new();
    for pod in &PODS[..n_pods] {
        for container in &CONTAINERS[..n_containers] {
            // Without a sample of both there is a figure for one of them, and ours gives none for the other.
            let (pod, container) = ((*pod).to_owned(), (*container).to_owned());
            all.push(Event { at: now, pod, container, cpu: milli(1.0), memory: bytes(1.0), killed: None });
        }
    }
    for draw in draws {
        now += draw.gap;
        let mut event = Event {
            at: now,
            pod: PODS[draw.pod % n_pods].to_owned(),
            container: CONTAINERS[draw.container % n_containers].to_owned(),
            ..Event::default()
        };
        match draw.what {
            0..=7 => event.killed = bytes(draw.memory),
            8..=11 => (event.at, event.killed) = (now - 10 * MINUTE, bytes(draw.memory)),
            12..=19 => {
                (event.at, event.cpu, event.memory) = (now - 30 * MINUTE, milli(draw.cpu), bytes(draw.memory))
            }
            20..=29 => event.cpu = milli(draw.cpu),
            _ => (event.cpu, event.memory) = (milli(draw.cpu), bytes(draw.memory)),
        }
        all.push(event);
    }
    all
}

fn ours(history: &[Event]) -> Recommendation {
    let (spec, mut memory) = (Spec::default(), Memory::default());
    let mut now = Timestamp::from_millisecond(BEGIN).unwrap();
    for event in history {
        let at = Timestamp::from_millisecond(event.at).unwrap();
        let (pod, container) = (event.pod.clone(), event.container.clone());
        let mut observed = Observed::default();
        if let Some(request) = event.killed {
            let (pod, container, request) = (pod.clone(), container.clone(), request as f64);
            observed.out_of_memory.push(OutOfMemory { at, pod, container, request });
        }
        if event.cpu.is_some() || event.memory.is_some() {
            let cpu = event.cpu.map(|milli| Resource::Cpu.units(milli));
            let memory = event.memory.map(|bytes| Resource::Memory.units(bytes));
            observed.samples.push(Sample { at, pod, container, usage: Usage { cpu, memory } });
        }
        now = now.max(at);
        memory.learn(now, &Options::default(), &observed);
    }
    recommend(now, &spec, &Observed::default(), &memory)
}

/// How far another figure may be off: by the bucket that the percentile is in, times all that came after.
fn one_bucket(one: &ContainerRecommendation, resource: Resource, bound: Bound, figure: u64) -> f64 {
    let buckets = if resource == Resource::Cpu { Buckets::cpu() } else { Buckets::memory() };
    let is_it = |estimate: &&decide::recommender::Estimate| {
        (estimate.resource, estimate.bound, estimate.is_total) == (resource, bound, false)
    };
    let mut steps = one.estimates.iter().find(is_it).unwrap().steps.iter();
    let percentile = steps.find_map(|step| match step.rule {
        Rule::Percentile { value, .. } => Some(value),
        _ => None,
    });
    let end = percentile.unwrap();
    let bucket = buckets.find(end);
    let size = buckets.start(bucket.saturating_add(1)) - buckets.start(bucket);
    figure as f64 * size / end
}

#[test]
fn the_vertical_pod_autoscaler_recommends_the_same_within_one_bucket() {
    let mut runner = TestRunner::new(repeatable::cases(HISTORIES));
    let n = runner.config().cases;
    let histories: Vec<Vec<Event>> =
        (0..n).map(|_| history().new_tree(&mut runner).unwrap().current()).collect();
    let (mut n_figures, mut n_same) = (0, 0);
    for (history, theirs) in histories.iter().zip(vpa::recommend(&histories)) {
        let ours = ours(history);
        let names: Vec<&str> = ours.containers.iter().map(|one| one.container_name.as_str()).collect();
        let known: Vec<&str> = theirs.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, known);
        for one in &ours.containers {
            let sides = [
                (Bound::Target, "target", one.target),
                (Bound::Lower, "lower", one.lower_bound),
                (Bound::Upper, "upper", one.upper_bound),
            ];
            for (bound, field, figures) in sides {
                for resource in Resource::ALL {
                    let figure = figures.get(resource).unwrap();
                    let other: &Value = &theirs[&one.container_name][field][resource.name()];
                    let other = other.as_u64().unwrap();
                    let allowed = one_bucket(one, resource, bound, figure);
                    let difference = figure.abs_diff(other);
                    assert!(
                        difference as f64 <= allowed,
                        "{} {field} {resource}: {figure}, not {other} (one bucket is {allowed}) after {history:?}",
                        one.container_name
                    );
                    n_figures += 1;
                    n_same += usize::from(difference == 0);
                }
            }
        }
    }
    println!("{n_same} of {n_figures} figures are the same");
    // A bucket is for sums that differ in their last bits at the edge of two.
    assert!(n_same * 100 >= n_figures * 99, "only {n_same} of {n_figures} figures are the same");
}
