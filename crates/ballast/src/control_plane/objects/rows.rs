//! One row of `/api/v1/objects`, made of an object and the last decision about it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::{
    hvpa::{Applied, Blocked, HorizontalStatus, Hvpa, NeedStatus, VerticalStatus},
    kro::{ResourceGraphDefinition, State},
    numaflow::{AbstractVertex, MonoVertex, Pipeline, Vertex, VertexStatus, VertexType, vertex_name},
};
use engine::kind::Kind;
use kube::{ResourceExt, api::DynamicObject};
use scaling::{Object, Record};
use serde::Serialize;
use serde_json::{Value, json};

use crate::scaled::Scaled;

/// What the master measured.
pub type Figures = HashMap<Object, Figure>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Figure {
    pub pending: Option<f64>,
    pub rate: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Unique among all rows.
    key: String,
    #[serde(flatten)]
    about: About,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum About {
    Pipeline {
        namespace: String,
        name: String,
        phase: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        vertices: Vec<Place>,
        edges: Vec<Edge>,
    },
    /// Or a MonoVertex, as its kind says.
    Vertex {
        #[serde(flatten)]
        scaled: Scaled,
        #[serde(skip_serializing_if = "Option::is_none")]
        pipeline: Option<String>,
        phase: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Messages that wait or are being worked on; missing if that is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        pending: Option<f64>,
        /// Messages a second.
        #[serde(skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
        /// Messages that all its buffers may hold; a source has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        room: Option<i64>,
        /// Which full buffer further down holds it back, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        back_pressure: Option<String>,
    },
    Set {
        #[serde(flatten)]
        scaled: Scaled,
        replicas: u64,
        /// Up to date, but not ready yet.
        in_flight: u64,
        terminating: u64,
        paused: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
    },
    Definition {
        name: String,
        /// The kind that it generates.
        kind: String,
        state: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// How many are in each state.
        instances: BTreeMap<String, usize>,
    },
    Hvpa {
        kind: String,
        namespace: String,
        name: String,
        target: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        horizontal: Option<HorizontalStatus>,
        #[serde(skip_serializing_if = "Option::is_none")]
        vertical: Option<VerticalStatus>,
        need: Vec<NeedStatus>,
        #[serde(skip_serializing_if = "Option::is_none")]
        applied: Option<Applied>,
        blocked: Vec<Blocked>,
        /// What the mode makes of both sides, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
    },
}

/// A vertex in the graph of its pipeline.
#[derive(Clone, Debug, Serialize)]
struct Place {
    name: String,
    /// The name of its Vertex.
    object: String,
    role: VertexType,
}

#[derive(Clone, Debug, Serialize)]
struct Edge {
    from: String,
    to: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

// === impl Row ===

impl Row {
    fn new(about: About) -> Self {
        let key = match &about {
            About::Pipeline { namespace, name, .. } => format!("pipeline/{namespace}/{name}"),
            About::Vertex { scaled, .. } | About::Set { scaled, .. } => {
                format!("scaled/{}/{}/{}", scaled.kind, scaled.namespace, scaled.name)
            }
            About::Definition { name, .. } => format!("definition/{name}"),
            About::Hvpa { namespace, name, .. } => format!("hvpa/{namespace}/{name}"),
        };
        Self { key, about }
    }

    pub fn key(&self) -> String {
        self.key.clone()
    }

    pub fn of_pipeline(pipeline: &Pipeline) -> Self {
        let name = pipeline.name_any();
        let place = |vertex: &AbstractVertex| Place {
            name: vertex.name.clone(),
            object: vertex_name(&name, &vertex.name),
            role: vertex.vertex_type(),
        };
        let spec = &pipeline.spec;
        let edge = |edge: &api::numaflow::Edge| Edge { from: edge.from.clone(), to: edge.to.clone() };
        let status = pipeline.status.clone().unwrap_or_default();
        Self::new(About::Pipeline {
            namespace: pipeline.namespace().unwrap_or_default(),
            vertices: spec.vertices.iter().map(place).collect(),
            edges: spec.edges.iter().map(edge).collect(),
            name,
            phase: status.phase,
            message: status.message.filter(|message| !message.is_empty()),
        })
    }

    pub fn of_vertex(vertex: &Vertex, figures: &Figures, last: Option<Arc<Record>>) -> Self {
        let spec = &vertex.spec;
        let (_, usable) = spec.vertex.limits.clone().unwrap_or_default().buffer();
        let n_buffers = i64::try_from(spec.vertex.n_buffers()).unwrap_or(i64::MAX);
        let room = (n_buffers > 0).then(|| usable.saturating_mul(n_buffers));
        let scaled = scaled(vertex, spec.replicas, vertex.status.as_ref(), last.as_deref());
        Self::worker(scaled, Some(spec.pipeline_name.clone()), room, vertex.status.as_ref(), figures, last)
    }

    pub fn of_mono_vertex(vertex: &MonoVertex, figures: &Figures, last: Option<Arc<Record>>) -> Self {
        let scaled = scaled(vertex, vertex.spec.replicas, vertex.status.as_ref(), last.as_deref());
        Self::worker(scaled, None, None, vertex.status.as_ref(), figures, last)
    }

    fn worker(
        scaled: Scaled,
        pipeline: Option<String>,
        room: Option<i64>,
        status: Option<&VertexStatus>,
        figures: &Figures,
        last: Option<Arc<Record>>,
    ) -> Self {
        let Scaled { kind, namespace, name, .. } = scaled.clone();
        let Figure { pending, rate } =
            figures.get(&Object { kind, namespace, name }).copied().unwrap_or_default();
        let status = status.cloned().unwrap_or_default();
        Self::new(About::Vertex {
            pending,
            // More digits change with every look and tell nobody anything.
            rate: rate.map(|rate| (rate * 10.0).round() / 10.0),
            room,
            back_pressure: last.and_then(|last| words_of(&last, "backPressure")),
            scaled,
            pipeline,
            phase: status.phase,
            message: status.message.filter(|message| !message.is_empty()),
        })
    }

    pub fn of_set(kind: &Kind, set: &DynamicObject) -> Self {
        let count = |name: &str| set.data["status"][name].as_u64().unwrap_or(0);
        let conditions = conditions(&set.data["status"]["conditions"]);
        let of_type = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
        let condition = of_type("ReplicaFailure").or_else(|| of_type("Progressing")).cloned();
        Self::new(About::Set {
            scaled: Scaled::read(kind, &set.metadata, &set.data),
            replicas: count("replicas"),
            in_flight: count("updatedReplicas").saturating_sub(count("updatedReadyReplicas")),
            terminating: count("terminatingReplicas"),
            paused: condition.as_ref().is_some_and(|condition| condition.reason == "Paused"),
            condition,
        })
    }

    pub fn of_definition(definition: &ResourceGraphDefinition, instances: &[Arc<DynamicObject>]) -> Self {
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for instance in instances {
            let state = instance.data["status"]["state"].as_str().unwrap_or("UNKNOWN");
            *states.entry(state.to_owned()).or_default() += 1;
        }
        let status = definition.status.clone().unwrap_or_default();
        let refused = status.conditions.iter().find(|condition| condition.status == "False");
        Self::new(About::Definition {
            name: definition.name_any(),
            kind: definition.spec.schema.kind.clone(),
            message: refused.and_then(|condition| condition.message.clone()),
            state: match status.state {
                Some(State::Active) => "Active",
                Some(State::Inactive) => "Inactive",
                None => "Unknown",
            }
            .to_owned(),
            instances: states,
        })
    }

    pub fn of_hvpa(hvpa: &Hvpa, last: Option<Arc<Record>>) -> Self {
        let target = &hvpa.spec.target_ref;
        let status = hvpa.status.clone().unwrap_or_default();
        let conditions = conditions(&json!(status.conditions));
        Self::new(About::Hvpa {
            kind: Kind::of::<Hvpa>().kind.into_owned(),
            namespace: hvpa.namespace().unwrap_or_default(),
            name: hvpa.name_any(),
            target: format!("{}/{}", target.kind, target.name),
            horizontal: status.horizontal,
            vertical: status.vertical,
            need: status.need,
            applied: status.applied,
            blocked: status.blocked,
            path: last.and_then(|last| words_of(&last, "choice")),
            condition: conditions.into_iter().find(|condition| condition.type_ == "Ready"),
        })
    }
}

fn scaled<K>(
    object: &K,
    replicas: Option<i32>,
    status: Option<&VertexStatus>,
    last: Option<&Record>,
) -> Scaled
where
    K: kube::Resource<DynamicType = ()>,
    K::Scope: 'static,
{
    let mut spec = json!({});
    if let Some(replicas) = replicas {
        spec["replicas"] = replicas.into();
    }
    let value = json!({"spec": spec, "status": status});
    let reason = last.map(|last| format!("{}: {}", last.reason, last.why));
    Scaled { reason, ..Scaled::read(&Kind::of::<K>(), object.meta(), &value) }
}

/// The sentence of a decision's last step by this rule.
fn words_of(record: &Record, rule: &str) -> Option<String> {
    let steps = record.steps.values();
    let step = steps.iter().rfind(|step| step["rule"] == rule)?;
    step["words"].as_str().map(str::to_owned)
}

fn conditions(list: &Value) -> Vec<Condition> {
    let text = |condition: &Value, name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    let read = |condition: &Value| Condition {
        type_: text(condition, "type"),
        status: text(condition, "status"),
        reason: text(condition, "reason"),
        message: text(condition, "message"),
    };
    list.as_array().into_iter().flatten().map(read).collect()
}

#[cfg(test)]
mod tests {
    use decide::{hvpa as sizes, vertex};
    use engine::effect::Target;
    use jiff::Timestamp;
    use scaling::{Capacity, Outcome};
    use serde::de::DeserializeOwned;

    use super::*;

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn record<M, R>(kind: &Kind, name: &str, decision: &decide::Decision<M, R>) -> Arc<Record>
    where
        R: decide::Rule<Value: Capacity> + Serialize,
    {
        let target = Target::absent(kind, Some("shop"), name);
        Arc::new(Record::new(Timestamp::UNIX_EPOCH, "test", &target, decision, Outcome::Written))
    }

    fn held_back() -> Arc<Record> {
        let mut chain = decide::Chain::new(3);
        chain.push(vertex::Rule::BackPressure(vertex::Pressure {
            current: 3,
            min: 1,
            direct: true,
            vertex: "out".into(),
            pending: 170,
            usable: 160,
            needed: None,
        }));
        record(&Kind::of::<Vertex>(), "orders-map", &chain.finish(vertex::Memory::default(), None))
    }

    fn pipeline() -> Row {
        Row::of_pipeline(&object(json!({
            "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {
                "vertices": [
                    {"name": "in", "source": {"generator": {"rpu": 5}}},
                    {"name": "map", "udf": {"container": {"image": "python"}}},
                    {"name": "out", "sink": {"log": {}}},
                ],
                "edges": [{"from": "in", "to": "map"}, {"from": "map", "to": "out"}],
            },
            "status": {"phase": "Running", "message": "all is well"},
        })))
    }

    fn vertices() -> [Row; 2] {
        let vertex: Vertex = object(json!({
            "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Vertex",
            "metadata": {"name": "orders-map", "namespace": "shop"},
            "spec": {
                "name": "map", "pipelineName": "orders", "replicas": 3, "partitions": 2,
                "udf": {"container": {"image": "python"}}, "limits": {"bufferMaxLength": 200},
            },
            "status": {"phase": "Running", "readyReplicas": 2, "replicas": 3, "message": "one pod is not ready"},
        }));
        let mono: MonoVertex = object(json!({
            "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "MonoVertex",
            "metadata": {"name": "alone", "namespace": "shop"},
            "spec": {"source": {"generator": {"rpu": 5}}, "sink": {"log": {}}},
            "status": {"phase": "Running"},
        }));
        let place = Object { kind: "Vertex".into(), namespace: "shop".into(), name: "orders-map".into() };
        let figures = Figures::from([(place, Figure { pending: Some(170.0), rate: Some(12.345) })]);
        [Row::of_vertex(&vertex, &figures, Some(held_back())), Row::of_mono_vertex(&mono, &figures, None)]
    }

    fn graph() -> [Row; 2] {
        let definition = object(json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "webapp"},
            "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "WebApp", "spec": {}}},
            "status": {"state": "Inactive", "conditions": [
                {"type": "GraphAccepted", "status": "False", "message": "resource web: no such kind"},
            ]},
        }));
        let instance = |state: Value| {
            Arc::new(object::<DynamicObject>(json!({
                "apiVersion": "kro.run/v1alpha1", "kind": "WebApp", "metadata": {"name": "a"}, "status": state,
            })))
        };
        let active = json!({"state": "ACTIVE"});
        let instances = [instance(active.clone()), instance(active), instance(json!({}))];
        let set = object(json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "WebAppSet",
            "metadata": {"name": "tenants", "namespace": "shop"},
            "spec": {"replicas": 4},
            "status": {
                "replicas": 5, "readyReplicas": 3, "updatedReplicas": 2, "updatedReadyReplicas": 1,
                "terminatingReplicas": 1, "conditions": [
                    {"type": "Ready", "status": "False", "reason": "InstancesNotReady", "message": "3 of 4"},
                    {"type": "Progressing", "status": "True", "reason": "RollingOut", "message": "2 to go"},
                ],
            },
        }));
        let kind = Kind::namespaced("kro.run", "v1alpha1", "WebAppSet", "webappsets");
        [Row::of_definition(&definition, &instances), Row::of_set(&kind, &set)]
    }

    fn hvpa() -> Row {
        let amounts = json!({"cpu": "250m", "memory": "128Mi"});
        let hvpa: Hvpa = object(json!({
            "apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "Hvpa",
            "metadata": {"name": "api", "namespace": "shop"},
            "spec": {"targetRef": {"kind": "Deployment", "name": "api"}},
            "status": {
                "horizontal": {"currentReplicas": 2, "desiredReplicas": 3, "metric": "cpu"},
                "vertical": {"containers": [{"containerName": "app", "target": amounts, "total": amounts}]},
                "need": [{"containerName": "app", "need": amounts, "held": amounts}],
                "applied": {
                    "replicas": 3, "requests": [{"containerName": "app", "target": amounts}],
                    "reason": "HorizontalRecommended", "message": "the replicas change", "at": "1970-01-01T00:00:00Z",
                },
                "blocked": [{
                    "axis": "vertical", "reason": "StabilizationWindow", "message": "the sizes wait",
                    "until": "1970-01-01T00:01:00Z",
                }],
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "Scaling", "message": "as they come",
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                }],
            },
        }));
        let plan = |replicas| sizes::Plan { replicas, containers: Vec::new() };
        let mut chain = decide::Chain::new(plan(2));
        chain.push(sizes::Rule::Choice { verdict: sizes::Verdict::HorizontalRecommended, plan: plan(3) });
        let last = record(&Kind::of::<Hvpa>(), "api", &chain.finish(sizes::Memory::default(), None));
        Row::of_hvpa(&hvpa, Some(last))
    }

    /// The dashboard's types are checked against the same file.
    #[test]
    fn rows_have_the_shape_that_the_dashboard_reads() {
        let [vertex, mono] = vertices();
        let [definition, set] = graph();
        let rows = [pipeline(), vertex, mono, definition, set, hvpa()];
        let text = serde_json::to_string_pretty(&rows).unwrap();
        expect_test::expect_file!["../../../../../web/src/fixtures/objects.json"].assert_eq(&(text + "\n"));
    }
}
