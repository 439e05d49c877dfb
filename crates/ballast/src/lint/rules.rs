//! What no API server knows: what annotations, queries and specs mean, and whether manifests contradict each other.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::{
    hpa, hvpa, numaflow,
    slimfaas::{self, Annotations, Settings},
};
use decide::{
    demand::{Graph, MetricType, Node},
    input::InputError,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde::de::DeserializeOwned;

use super::{Finding, Severity, manifest::Document};

/// What the nodes remember of metrics.
const RETENTION_MILLIS: i64 = 30 * 60 * 1000;

pub fn check(documents: &[Document], findings: &mut Vec<Finding>) {
    let mut functions = Vec::new();
    for document in documents {
        match (document.group(), document.kind()) {
            ("apps", "Deployment" | "StatefulSet") | ("serverless.kyma-project.io", "Function") => {
                functions.extend(annotated(document, findings).map(|settings| (document, settings)));
            }
            ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(document, findings),
            ("autoscaling.k8s.io", "Hvpa") => {
                spec::<hvpa::Hvpa>(document, findings, |hvpa| hvpa.spec.resolve().map(drop))
            }
            ("numaflow.numaproj.io", "Pipeline") => {
                spec::<numaflow::Pipeline>(document, findings, |pipeline| {
                    numaflow::validate_pipeline(document.text("/metadata/name"), &pipeline.spec)
                })
            }
            ("numaflow.numaproj.io", "MonoVertex") => {
                spec::<numaflow::MonoVertex>(document, findings, |vertex| {
                    numaflow::validate_mono_vertex(document.text("/metadata/name"), &vertex.spec)
                })
            }
            ("numaflow.numaproj.io", "InterStepBufferService") => {
                spec::<numaflow::InterStepBufferService>(document, findings, |service| {
                    numaflow::validate_isb_service(&service.spec)
                });
            }
            _ => {}
        }
    }
    dependencies(&functions, findings);
    writers(documents, &functions, findings);
}

/// What is wrong with the spec of a kind, as its controller would say. One that cannot be read is the server's to tell.
fn spec<K: DeserializeOwned>(
    document: &Document,
    findings: &mut Vec<Finding>,
    check: impl Fn(&K) -> Result<(), InputError>,
) {
    let Some(object) = document.read::<K>() else { return };
    if let Err(error) = check(&object) {
        let error = match error.path.starts_with("metadata") {
            true => error,
            false => error.under("spec"),
        };
        findings.push(Finding::at(document, Severity::Error, "spec", &error.path, error.message));
    }
}

fn autoscaler(document: &Document, findings: &mut Vec<Finding>) {
    if document.text("/apiVersion") != "autoscaling/v2" {
        return;
    }
    spec::<HorizontalPodAutoscaler>(document, findings, |object| {
        let spec = object.spec.clone();
        hpa::spec(&spec, decide::hpa::Settings::default()).map(drop)
    });
}

/// The settings of a workload that is a function on demand.
fn annotated(document: &Document, findings: &mut Vec<Finding>) -> Option<Settings> {
    let annotations = |pointer: &str| -> Option<Annotations> {
        document.value.pointer(pointer).and_then(|value| serde_json::from_value(value.clone()).ok())
    };
    let (object, template) =
        (annotations("/metadata/annotations"), annotations("/spec/template/metadata/annotations"));
    let place = |annotation: &str| match template.as_ref().is_some_and(|all| all.contains_key(annotation)) {
        true => format!("spec.template.metadata.annotations[{annotation}]"),
        false => format!("metadata.annotations[{annotation}]"),
    };
    let mut tell = |severity, annotation: &str, rule, message: String| {
        findings.push(Finding::at(document, severity, rule, &place(annotation), message));
    };
    if let Some(problem) = slimfaas::refused(template.as_ref(), object.as_ref()) {
        tell(Severity::Error, &problem.annotation, "annotation", problem.message);
    }
    let (settings, problems) = slimfaas::read(
        document.namespace(),
        document.text("/metadata/name"),
        template.as_ref(),
        object.as_ref(),
    )?;
    for problem in problems {
        tell(Severity::Error, &problem.annotation, "annotation", problem.message);
    }
    const SCALE: &str = "SlimFaas/Scale";
    if let Some(scale) = settings.scaling.scale.as_ref().filter(|scale| !scale.triggers.is_empty()) {
        match scale.replica_max {
            None => tell(
                Severity::Warning,
                SCALE,
                "no-maximum",
                "there is no ReplicaMax: a wrong metric may ask for any number of pods".to_owned(),
            ),
            Some(max) if max < settings.scaling.min => tell(
                Severity::Error,
                SCALE,
                "bounds",
                format!(
                    "ReplicaMax {max} is below ReplicasMin {}: it is never below the minimum",
                    settings.scaling.min
                ),
            ),
            Some(_) => {}
        }
        for (idx, trigger) in scale.triggers.iter().enumerate() {
            let Ok(plan) = promql::parse(&trigger.query) else { continue };
            if plan.has_quantile() && trigger.metric_type == MetricType::AverageValue {
                let message = format!(
                    "Triggers[{idx}]: AverageValue divides by the number of pods, and a quantile does not grow with it; \
                     choose MetricType Value"
                );
                tell(Severity::Warning, SCALE, "average-of-quantile", message);
            }
            if plan.reach() > RETENTION_MILLIS {
                let message = format!(
                    "Triggers[{idx}]: the query looks back {} minutes, and metrics are remembered for 30",
                    plan.reach() / 60_000
                );
                tell(Severity::Warning, SCALE, "window", message);
            }
        }
    }
    Some(settings)
}

/// Functions that wait for each other, or for what is in none of the files.
fn dependencies(functions: &[(&Document, Settings)], findings: &mut Vec<Finding>) {
    let mut by_namespace: BTreeMap<&str, Vec<&(&Document, Settings)>> = BTreeMap::new();
    for function in functions {
        by_namespace.entry(function.0.namespace()).or_default().push(function);
    }
    for functions in by_namespace.values() {
        let node = |(document, settings): &&(&Document, Settings)| Node {
            depends_on: settings.depends_on.clone(),
            ..Node::plain(Arc::from(document.text("/metadata/name")), 0, 0)
        };
        let graph = Graph::new(functions.iter().map(node).collect());
        for (document, _) in functions {
            let name = document.text("/metadata/name");
            if let Some(message) = graph.dependencies(name).cycle_words(name) {
                let path = "metadata.annotations[SlimFaas/DependsOn]";
                findings.push(Finding::at(document, Severity::Error, "dependency-cycle", path, message));
            }
        }
    }
}

/// Two that would write the count of one object.
fn writers(documents: &[Document], functions: &[(&Document, Settings)], findings: &mut Vec<Finding>) {
    let mut first: HashMap<String, String> = HashMap::new();
    for (document, _) in functions {
        let name = document.text("/metadata/name");
        first.insert(
            place(document.namespace(), document.kind(), name),
            "its SlimFaas/* annotations".to_owned(),
        );
    }
    for document in documents {
        let pointers = match document.kind() {
            "HorizontalPodAutoscaler" | "ScaledObject" => ["/spec/scaleTargetRef", "spec.scaleTargetRef"],
            "Hvpa" => ["/spec/targetRef", "spec.targetRef"],
            _ => continue,
        };
        let target = |field: &str| document.text(&format!("{}/{field}", pointers[0]));
        let kind = Some(target("kind")).filter(|kind| !kind.is_empty()).unwrap_or("Deployment");
        let key = place(document.namespace(), kind, target("name"));
        match first.get(&key) {
            None => drop(first.insert(key, document.name())),
            Some(other) => {
                let message = format!("{key} is scaled by {other} already: two writers of one count argue");
                findings.push(Finding::at(document, Severity::Error, "two-writers", pointers[1], message));
            }
        }
    }
}

fn place(namespace: &str, kind: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}
