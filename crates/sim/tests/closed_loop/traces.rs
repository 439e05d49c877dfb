//! A workload of one load and one set of bounds, under every way of scaling it: what the property tests and the table of the
//! benchmark share. A pod of one core serves 100 a second, so a load of 500 takes 5 cores.

use sim::{Report, Scenario};

/// The share of its requests that the horizontal side wants used.
pub const TARGET: f64 = 0.8;

pub const MODES: [(&str, &str); 5] = [
    ("HPA preferred", "mode: HpaPreferred"),
    ("HPA biased", "mode: HpaBiased"),
    ("VPA biased", "mode: VpaBiased"),
    ("Mixed", "mode: Mixed, mixed: {preference: vertical}"),
    ("Ratio based", "mode: RatioBased, ratioBasedScalingSpec: {vToHScalingRatio: 1}"),
];

/// A load over time, as a scenario writes it.
#[derive(Clone, Debug)]
pub struct Trace {
    pub name: &'static str,
    pub hours: f64,
    pub load: String,
}

pub fn traces() -> Vec<Trace> {
    let trace = |name, hours, load: &str| {
        let noise = "\n  - {shape: noise, amplitude: 8, every: 45s}";
        Trace { name, hours, load: format!("{load}{noise}") }
    };
    let saw: String = (0..12)
        .map(|n| {
            let (up, down) = (n * 7200, n * 7200 + 6600);
            format!(
                "\n  - {{shape: ramp, at: {up}s, length: 6600s, from: 0, to: 300}}\n  - {{shape: ramp, at: {down}s, length: 600s, from: 0, to: -300}}"
            )
        })
        .collect();
    let spikes: String = (0..6)
        .map(|n| format!("\n  - {{shape: spike, at: {}h, length: 10m, value: 400}}", n * 4 + 2))
        .collect();
    vec![
        trace("steady", 24.0, "\n  - {shape: constant, value: 300}"),
        trace("jump", 24.0, "\n  - {shape: constant, value: 100}\n  - {shape: step, at: 2h, value: 400}"),
        trace("day", 48.0, "\n  - {shape: wave, low: 100, high: 500, peak: 14h}"),
        trace("saw", 24.0, &format!("\n  - {{shape: constant, value: 100}}{saw}")),
        trace("spike", 24.0, &format!("\n  - {{shape: constant, value: 100}}{spikes}")),
        trace(
            "noisy",
            24.0,
            "\n  - {shape: constant, value: 300}\n  - {shape: noise, amplitude: 120, every: 30s}",
        ),
    ]
}

const HPA: &str = "{minReplicas: 1, maxReplicas: 20, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}";

const VPA: &str = "{resourcePolicy: {containerPolicies: [{containerName: '*', minAllowed: {cpu: 250m}, maxAllowed: {cpu: '4'}, controlledResources: [cpu]}]}}";

/// An Hvpa with these fields beside its two recommenders.
pub fn hvpa(fields: &str) -> String {
    format!(
        "{{apiVersion: autoscaling.k8s.io/v1alpha1, kind: Hvpa, spec: {{targetRef: {{kind: Deployment, name: web}}, {fields}, hpa: {{deploy: true, template: {{spec: {HPA}}}}}, vpa: {{deploy: true, template: {{spec: {VPA}}}}}}}}}"
    )
}

pub fn hpa_alone() -> String {
    format!("{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {HPA}}}")
}

pub fn vpa_alone() -> String {
    format!("{{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, spec: {VPA}}}")
}

pub fn unsynchronized() -> String {
    format!("{{apiVersion: v1, kind: List, items: [{}, {}]}}", hpa_alone(), vpa_alone())
}

/// Half of each recommendation to each axis, as two signals.
pub fn upstream() -> String {
    hvpa("coupling: \"Off\", combination: Additive, ratioBasedScalingSpec: {vpaWeight: 50}")
}

/// Pods start in 30 s, are resized in 5 s, and are seen 15 s later, by a horizontal side that looks every 15 s and a vertical one that
/// looks every 60 s.
pub fn run(
    trace: &Trace,
    initial: (u32, &str),
    policies: &[(String, String)],
    seed: u64,
) -> Result<Report, sim::Error> {
    let (replicas, size) = initial;
    let milli: f64 = size.trim_end_matches('m').parse().unwrap_or(1000.0);
    let policies: String = policies
        .iter()
        .map(|(name, manifest)| format!("\n  - {{name: {name:?}, manifest: {manifest}}}"))
        .collect();
    let scenario = format!(
        "name: {}\nseed: {seed}\nduration: {}s\ntick: 15s\nstep: 5s\nload:{}\npods: {{initial: {replicas}, startUp: 30s, resize: 5s, \
         capacity: {}, patience: 0s, requests: {{cpu: {size}, memory: 256Mi}}}}\nmetrics: {{interval: 15s, delay: 15s}}\npolicies:{policies}\n",
        trace.name,
        trace.hours * 3600.0,
        trace.load,
        milli / 10.0,
    );
    Ok(sim::run(&Scenario::from_yaml(&scenario)?))
}
