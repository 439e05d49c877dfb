//! How long a definition takes to compile and an instance to plan.
//!
//! `cargo run --release -p graph --example bench`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{hint::black_box, time::Instant};

use graph::{
    Kinds, Options, compile,
    plan::{Objects, plan},
};
use serde_json::{Value, json};

/// Ten applications of a Deployment and a Service each: the size of a large definition.
fn definition(n_resources: usize) -> Value {
    let mut resources = Vec::new();
    for n in 0..n_resources / 2 {
        let before = if n == 0 {
            "schema.metadata.name".to_owned()
        } else {
            format!("deployment{}.metadata.name", n - 1)
        };
        resources.push(json!({
            "id": format!("deployment{n}"),
            "readyWhen": [format!("${{deployment{n}.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')}}")],
            "template": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": format!("${{schema.spec.name}}-{n}"), "labels": { "after": format!("${{{before}}}") } },
                "spec": {
                    "replicas": "${schema.spec.replicas}",
                    "selector": { "matchLabels": { "app": format!("${{schema.spec.name}}-{n}") } },
                    "template": {
                        "metadata": { "labels": { "app": format!("${{schema.spec.name}}-{n}") } },
                        "spec": { "containers": [{
                            "name": "app", "image": "${schema.spec.image}",
                            "env": "${schema.spec.env.map(e, {'name': e.name, 'value': e.value})}",
                            "ports": [{ "containerPort": "${has(schema.spec.port) ? schema.spec.port : 8080}" }],
                        }] },
                    },
                },
            },
        }));
        resources.push(json!({
            "id": format!("service{n}"),
            "includeWhen": ["${schema.spec.expose}"],
            "template": {
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "name": format!("${{deployment{n}.metadata.name}}") },
                "spec": { "selector": format!("${{deployment{n}.spec.selector.matchLabels}}"), "ports": [{ "port": 80, "targetPort": "${schema.spec.port}" }] },
            },
        }));
    }
    json!({
        "metadata": { "name": "bench" },
        "spec": {
            "schema": {
                "apiVersion": "v1alpha1", "kind": "Bench",
                "types": { "Env": { "name": "string | required=true", "value": "string | default=\"\"" } },
                "spec": {
                    "name": "string | required=true", "image": "string | default=nginx", "replicas": "integer | scale default=3",
                    "port": "integer | default=8080", "expose": "boolean | default=true", "env": "[]Env",
                },
                "status": { "replicas": "${deployment0.status.replicas} | scale", "address": "${service0.spec.clusterIP}" },
            },
            "resources": resources,
        },
    })
}

fn median(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..201)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let kinds = Kinds::default();
    let options = Options::default();
    for n_resources in [2, 20, 100] {
        let definition = serde_json::from_value(definition(n_resources)).unwrap();
        let start = Instant::now();
        let graph = compile(&definition, &kinds, &options).unwrap();
        let first = start.elapsed().as_secs_f64() * 1e3;
        let again = median(|| {
            black_box(compile(black_box(&definition), &kinds, &options).unwrap());
        });
        let instance = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "Bench", "metadata": { "name": "b", "namespace": "n", "uid": "u" },
            "spec": { "name": "b", "image": "nginx", "replicas": 3, "port": 80, "expose": true, "env": [{ "name": "A", "value": "b" }] },
        });
        let mut objects = Objects::default();
        for _ in 0..=n_resources {
            let plan = plan(&graph, &instance, &objects, "2026-01-01T00:00:00Z");
            objects = plan
                .nodes
                .into_iter()
                .flat_map(|node| node.desired)
                .map(|mut object| {
                    object["status"] =
                        json!({ "replicas": 3, "conditions": [{ "type": "Available", "status": "True" }] });
                    object
                })
                .collect();
        }
        let planned = median(|| {
            black_box(plan(&graph, &instance, &objects, "2026-01-01T00:00:00Z"));
        });
        println!(
            "{n_resources:>3} resources: compile {again:.3} ms (the first time {first:.1} ms), plan of a running instance {planned:.3} ms"
        );
    }
}
