use std::{collections::BTreeSet, sync::Arc};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// What the watches have told.
#[derive(Clone, Default)]
struct Watched {
    deployments: Vec<Arc<Deployment>>,
    stateful_sets: Vec<Arc<StatefulSet>>,
    functions: Vec<Arc<DynamicObject>>,
    pods: Vec<Arc<Pod>>,
    autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
    scaled_objects: Vec<Arc<DynamicObject>>,
}

impl Watched {
    fn workloads(&self) -> Vec<(WorkloadId, Workload)> {
        let id = |kind: WorkloadKind, workload: Workload| (kind.of(workload.name()), workload);
        let deployments = self.deployments.iter().cloned().map(Workload::Deployment);
        let stateful_sets = self.stateful_sets.iter().cloned().map(Workload::StatefulSet);
        let functions = self.functions.iter().cloned().map(Workload::Function);
        let all = deployments.map(|one| id(WorkloadKind::Deployment, one));
        let all = all.chain(stateful_sets.map(|one| id(WorkloadKind::StatefulSet, one)));
        all.chain(functions.map(|one| id(WorkloadKind::Function, one))).collect()
    }

    fn ids(&self) -> Vec<WorkloadId> {
        self.workloads().into_iter().map(|(id, _)| id).collect()
    }

    /// All at once.
    fn view(&self) -> View {
        Assembler::new("shop").update(self, self.ids())
    }

    /// Workloads that are not what they were: themselves, their pods, who scales them.
    fn changed_since(&self, before: &Self) -> BTreeSet<WorkloadId> {
        let named = |name: &str| WorkloadKind::ALL.map(|kind| kind.of(name));
        let mut changed = BTreeSet::new();
        for (one, other) in [(self, before), (before, self)] {
            changed.extend(one.workloads().into_iter().filter_map(|(id, workload)| {
                let known = other.workload(&id);
                let is_same = known.is_some_and(|known| known.meta() == workload.meta());
                (!is_same).then_some(id)
            }));
            let pods = one.pods.iter().filter(|pod| !other.pods.contains(pod));
            changed.extend(pods.flat_map(|pod| members::workloads_of(pod)));
            let autoscalers = one.autoscalers.iter().filter(|one| !other.autoscalers.contains(one));
            changed.extend(autoscalers.flat_map(|one| named(hpa_target(one))));
        }
        changed
    }
}

impl Objects for Watched {
    fn workload(&self, id: &WorkloadId) -> Option<Workload> {
        self.workloads().into_iter().find_map(|(known, workload)| (known == *id).then_some(workload))
    }

    fn pods(&self, of: &WorkloadId) -> Vec<Arc<Pod>> {
        let is_of = |pod: &&Arc<Pod>| members::workloads_of(pod).any(|id| id == *of);
        self.pods.iter().filter(is_of).cloned().collect()
    }

    fn autoscalers(&self, target: &str) -> Vec<Arc<HorizontalPodAutoscaler>> {
        self.autoscalers.iter().filter(|one| hpa_target(one) == target).cloned().collect()
    }

    fn scaled_objects(&self, target: &str) -> Vec<Arc<DynamicObject>> {
        self.scaled_objects.iter().filter(|one| keda_target(one) == Some(target)).cloned().collect()
    }
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn deployment(name: &str, annotations: Value) -> Arc<Deployment> {
    object(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "7",
                     "annotations": annotations},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
                 "template": {"metadata": {"labels": {"app": name}}}},
    }))
}

/// A pod as a ReplicaSet of the Deployment `of` makes it.
fn pod(of: &str, n: u8, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": format!("{of}-5d4f9c-{n}"), "namespace": "shop",
            "labels": {"app": of, "pod-template-hash": "5d4f9c"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{of}-5d4f9c"),
                                 "uid": "rs", "controller": true}],
        },
        "spec": {"containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": format!("127.1.0.{n}"),
                   "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]},
    });
    change(&mut pod);
    object(pod)
}

fn is_function() -> Value {
    json!({"SlimFaas/Function": "true"})
}

fn check(watched: &Watched, expected: &Expect) {
    let view = watched.view();
    let mut out = String::new();
    for (name, function) in view.snapshot.functions.sorted() {
        let target = &function.target;
        out += &format!("{name} {} {} wants {}", target.api_version, target.kind, function.requested);
        match view.managed.get(name) {
            Some(object) => {
                out += &format!(" @{}", object.target.resource_version.as_deref().unwrap_or_default())
            }
            None => out += " not ours to scale",
        }
        if let Some(message) = &function.unschedulable {
            out += &format!(" unschedulable: {message}");
        }
        if let Some(autoscaler) = &function.autoscaler {
            out += &format!(" beside {autoscaler}");
        }
        out += "\n";
        for pod in &function.pods {
            out += &format!("  {} {:?} {:?} ready {}\n", pod.name, pod.ip, pod.port, pod.ready);
        }
        for problem in &function.problems {
            out += &format!("  {}: {}\n", problem.annotation, problem.message);
        }
    }
    for target in view.scraped.iter() {
        out += &format!("scrape {} {}\n", target.url(), target.key());
    }
    for (name, plain) in view.unmanaged.iter() {
        out += &format!("{name} is waited for: {} of {}\n", plain.ready, plain.wanted);
    }
    for (object, problem) in view.refused.iter() {
        out += &format!("refused {}: {}: {}\n", object.name, problem.annotation, problem.message);
    }
    let trusted = view.snapshot.trusted.sorted().into_iter().map(|(ip, _)| ip.to_string());
    out += &format!("trusted {}\n", trusted.collect::<Vec<_>>().join(" "));
    expected.assert_eq(&out);
}

#[test]
fn pods_belong_to_their_owner_not_to_a_prefix() {
    let unready = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
    let leaving = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let waiting = |pod: &mut Value| {
        pod["status"] = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]});
    };
    let foreign = |pod: &mut Value| pod["metadata"]["labels"]["app"] = json!("other");
    let watched = Watched {
        deployments: vec![
            deployment("fib", is_function()),
            deployment("fib-2", is_function()),
            deployment("plain", json!({})),
        ],
        pods: vec![
            pod("fib", 1, |_| {}),
            pod("fib", 2, unready),
            pod("fib", 3, leaving),
            pod("fib", 4, foreign),
            pod("fib-2", 5, |_| {}),
            pod("fib-2", 6, waiting),
            pod("plain", 7, |_| {}),
        ],
        ..Watched::default()
    };
    check(
        &watched,
        &expect![[r#"
        fib apps/v1 Deployment wants 2 @7
          fib-5d4f9c-1 Some(127.1.0.1) Some(8080) ready true
          fib-5d4f9c-2 Some(127.1.0.2) Some(8080) ready false
        fib-2 apps/v1 Deployment wants 2 @7 unschedulable: no room
          fib-2-5d4f9c-5 Some(127.1.0.5) Some(8080) ready true
          fib-2-5d4f9c-6 None Some(8080) ready false
        trusted 127.1.0.1 127.1.0.2 127.1.0.5
    "#]],
    );
}

/// Knows of one workload, and is asked for nothing else.
struct Only<'a>(&'a Watched, WorkloadId);

impl Objects for Only<'_> {
    fn workload(&self, id: &WorkloadId) -> Option<Workload> {
        assert_eq!(*id, self.1);
        self.0.workload(id)
    }

    fn pods(&self, of: &WorkloadId) -> Vec<Arc<Pod>> {
        assert_eq!(*of, self.1);
        self.0.pods(of)
    }

    fn autoscalers(&self, target: &str) -> Vec<Arc<HorizontalPodAutoscaler>> {
        assert_eq!(*target, *self.1.name);
        self.0.autoscalers(target)
    }

    fn scaled_objects(&self, target: &str) -> Vec<Arc<DynamicObject>> {
        assert_eq!(*target, *self.1.name);
        self.0.scaled_objects(target)
    }
}

/// A wake among 10,000 functions must not cost more than among ten.
#[test]
fn only_what_changed_is_looked_at() {
    let deployments = (0..300).map(|n| deployment(&format!("f{n}"), is_function())).collect();
    let mut watched = Watched { deployments, ..Watched::default() };
    let mut assembler = Assembler::new("shop");
    let before = assembler.update(&watched, watched.ids());
    watched.pods.push(pod("f7", 1, |_| {}));
    let after = assembler
        .update(&Only(&watched, WorkloadKind::Deployment.of("f7")), [WorkloadKind::Deployment.of("f7")]);
    let changed = Snapshot::differences(&before.snapshot, &after.snapshot);
    let changed: Vec<&str> = changed.iter().map(|one| &**one.key).collect();
    assert_eq!((changed, after.snapshot.functions.len()), (vec!["f7"], 300));
}

#[test]
fn what_did_not_change_is_the_same_object() {
    let mut watched = Watched {
        deployments: vec![deployment("fib", is_function()), deployment("other", is_function())],
        ..Watched::default()
    };
    let mut assembler = Assembler::new("shop");
    let before = assembler.update(&watched, watched.ids()).snapshot;
    watched.pods.push(pod("fib", 1, |_| {}));
    let after = assembler.update(&watched, watched.ids()).snapshot;
    let is_same = |name: &str| Arc::ptr_eq(&before.functions[name], &after.functions[name]);
    assert_eq!((is_same("fib"), is_same("other")), (false, true));
    assert!(Arc::ptr_eq(&before.functions["fib"].settings, &after.functions["fib"].settings));
}

/// What is taken over from the last time must be what would be made of it now.
#[test]
fn many_small_changes_lead_where_one_look_leads() {
    type Change<'a> = Box<dyn Fn(&mut Watched) + 'a>;
    let depends = |on: &str| json!({"SlimFaas/Function": "true", "SlimFaas/DependsOn": on});
    let hpa = |of: &str| {
        object::<HorizontalPodAutoscaler>(json!({
            "metadata": {"name": of, "namespace": "shop"},
            "spec": {"maxReplicas": 3,
                     "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": of}},
        }))
    };
    let fib = || deployment("fib", is_function());
    let mut watched = Watched::default();
    let mut assembler = Assembler::new("shop");
    let changes: Vec<Change<'_>> = vec![
        Box::new(|watched| watched.deployments = vec![fib(), deployment("api", depends("fib, db"))]),
        Box::new(|watched| watched.deployments.push(deployment("db", json!({})))),
        Box::new(|watched| watched.pods.push(pod("db", 1, |_| {}))),
        Box::new(|watched| watched.pods.push(pod("fib", 1, |pod| pod["status"]["phase"] = "Pending".into()))),
        Box::new(|watched| watched.pods[1] = pod("fib", 1, |_| {})),
        Box::new(|watched| watched.autoscalers.push(hpa("fib"))),
        Box::new(|watched| watched.deployments[0] = deployment("fib", depends("api"))),
        Box::new(|watched| watched.deployments[2] = deployment("db", is_function())),
        Box::new(|watched| watched.autoscalers.clear()),
        Box::new(|watched| watched.pods.clear()),
        Box::new(|watched| watched.deployments[0] = deployment("fib", json!({}))),
        Box::new(|watched| watched.deployments[0] = fib()),
        Box::new(|watched| drop(watched.deployments.remove(2))),
    ];
    for (idx, change) in changes.iter().enumerate() {
        let before = watched.clone();
        change(&mut watched);
        let step_by_step = assembler.update(&watched, watched.changed_since(&before));
        assert_eq!(format!("{step_by_step:#?}"), format!("{:#?}", watched.view()), "after change {idx}");
        let again = assembler.update(&watched, watched.ids());
        for (name, function) in again.snapshot.functions.iter() {
            assert!(
                Arc::ptr_eq(function, &step_by_step.snapshot.functions[name]),
                "{name} after change {idx}"
            );
        }
    }
}

#[test]
fn what_pods_say_about_scraping() {
    let with = |annotations: Value| move |pod: &mut Value| pod["metadata"]["annotations"] = annotations;
    let watched = Watched {
        deployments: vec![deployment("fib", is_function())],
        pods: vec![
            pod("fib", 1, with(json!({"prometheus.io/scrape": "true"}))),
            pod(
                "fib",
                2,
                with(
                    json!({"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "prometheus.io/path": "/m",
                           "prometheus.io/scheme": "https"}),
                ),
            ),
            pod("fib", 3, with(json!({"prometheus.io/scrape": "true", "prometheus.io/port": "none"}))),
            pod("fib", 4, with(json!({"prometheus.io/scrape": "true", "prometheus.io/port": "none"}))),
            pod("fib", 5, with(json!({}))),
        ],
        ..Watched::default()
    };
    check(
        &watched,
        &expect![[r#"
        fib apps/v1 Deployment wants 2 @7
          fib-5d4f9c-1 Some(127.1.0.1) Some(8080) ready true
          fib-5d4f9c-2 Some(127.1.0.2) Some(8080) ready true
          fib-5d4f9c-3 Some(127.1.0.3) Some(8080) ready true
          fib-5d4f9c-4 Some(127.1.0.4) Some(8080) ready true
          fib-5d4f9c-5 Some(127.1.0.5) Some(8080) ready true
          prometheus.io: prometheus.io/port is "none": use a number from 1 to 65535
        scrape http://127.1.0.1:8080/metrics {instance="127.1.0.1:8080", job="fib", namespace="shop", pod="fib-5d4f9c-1"}
        scrape https://127.1.0.2:9090/m {instance="127.1.0.2:9090", job="fib", namespace="shop", pod="fib-5d4f9c-2"}
        trusted 127.1.0.1 127.1.0.2 127.1.0.3 127.1.0.4 127.1.0.5
    "#]],
    );
}

#[test]
fn kinds_names_and_circles() {
    let stateful = |name: &str| -> Arc<StatefulSet> {
        object(json!({
            "metadata": {"name": name, "uid": "s", "resourceVersion": "8", "annotations": is_function()},
            "spec": {"selector": {"matchLabels": {"app": name}}, "serviceName": "",
                     "template": {"metadata": {"labels": {"app": name}}}},
        }))
    };
    let function = object(json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
        "metadata": {"name": "greet", "uid": "f", "resourceVersion": "9",
                     "annotations": {"SlimFaas/ReplicasMin": "0", "SlimFaas/DefaultTrust": "Untrusted"}},
        "spec": {"replicas": 3},
    }));
    let built_in = object(json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
        "metadata": {"name": "torn", "uid": "t", "resourceVersion": "9", "annotations": is_function()},
        "spec": {"replicas": 2, "scaleConfig": {"minReplicas": 1, "maxReplicas": 3}},
    }));
    let mut made = (*deployment("greet-x7", json!({"SlimFaas/ReplicasMin": "0"}))).clone();
    made.metadata.owner_references = Some(vec![
        serde_json::from_value(json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function", "name": "greet", "uid": "f",
        "controller": true}))
        .unwrap(),
    ]);
    let of_greet = |pod: &mut Value| pod["metadata"]["labels"][FUNCTION_LABEL] = json!("greet");
    let watched = Watched {
        deployments: vec![
            deployment("a", json!({"SlimFaas/DependsOn": "b"})),
            deployment("b", json!({"SlimFaas/DependsOn": "a,c"})),
            Arc::new(made),
        ],
        stateful_sets: vec![stateful("a"), stateful("c")],
        functions: vec![function, built_in],
        pods: vec![pod("greet-x7", 1, of_greet)],
        ..Watched::default()
    };
    check(
        &watched,
        &expect![[r#"
        a apps/v1 Deployment wants 2 @7
          SlimFaas/: a StatefulSet of the same name is not served: rename one of them
          SlimFaas/DependsOn: a and b depend on each other, so neither waits for the other: remove one direction
        b apps/v1 Deployment wants 2 @7
          SlimFaas/DependsOn: b and a depend on each other, so neither waits for the other: remove one direction
        c apps/v1 StatefulSet wants 1 @8
        greet serverless.kyma-project.io/v1alpha2 Function wants 3 @9
          greet-x7-5d4f9c-1 Some(127.1.0.1) Some(8080) ready true
        torn serverless.kyma-project.io/v1alpha2 Function wants 2 not ours to scale
          SlimFaas/: not scaled on demand, because spec.scaleConfig scales it: remove one of the two
        trusted 
    "#]],
    );
}

#[test]
fn dependencies_need_not_be_functions() {
    let mut off = (*deployment("off", json!({}))).clone();
    off.spec.as_mut().unwrap().replicas = Some(0);
    let unready = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
    let watched = Watched {
        deployments: vec![
            deployment("shop", json!({"SlimFaas/DependsOn": "mysql, off, mysqll"})),
            deployment("mysql", json!({})),
            deployment("plain", json!({})),
            deployment("meant", json!({"SlimFaas/Function": "yes"})),
            Arc::new(off),
        ],
        pods: vec![pod("mysql", 1, |_| {}), pod("mysql", 2, unready), pod("plain", 3, |_| {})],
        ..Watched::default()
    };
    check(
        &watched,
        &expect![[r#"
        shop apps/v1 Deployment wants 2 @7
          SlimFaas/DependsOn: there is no workload mysqll in the namespace, so it is not waited for: look for a typing error
          SlimFaas/DependsOn: off has no replicas and is no function, so nobody wakes it: scale it up, or annotate it
        mysql is waited for: 1 of 2
        off is waited for: 0 of 0
        refused meant: SlimFaas/Function: expected true or false, found "yes"
        trusted 
    "#]],
    );
}

#[test]
fn a_foreign_autoscaler_is_noticed() {
    let autoscaler = |name: &str,
                      api_version: &str,
                      kind: &str,
                      target: &str|
     -> Arc<HorizontalPodAutoscaler> {
        object(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": target}},
        }))
    };
    let watched = Watched {
        deployments: vec![
            deployment("fib", is_function()),
            deployment("other", is_function()),
            deployment("plain", json!({})),
        ],
        autoscalers: vec![
            autoscaler("web-2", "apps/v1", "Deployment", "fib"),
            autoscaler("web-1", "apps/v1beta1", "Deployment", "fib"),
            autoscaler("set", "apps/v1", "StatefulSet", "other"),
            autoscaler("elsewhere", "example.org/v1", "Deployment", "other"),
            autoscaler("of-plain", "apps/v1", "Deployment", "plain"),
        ],
        ..Watched::default()
    };
    check(
        &watched,
        &expect![[r#"
        fib apps/v1 Deployment wants 2 @7 beside web-1
          SlimFaas/: HorizontalPodAutoscaler web-1 scales it too, so SlimFaas/Scale and SlimFaas/ReplicasMin count only at zero and on the way there: remove one of the two
        other apps/v1 Deployment wants 2 @7
        trusted 
    "#]],
    );
}

#[test]
fn a_scaled_object_is_found_and_an_annotation_may_override_it() {
    let scaled = |name: &str, target: Value| -> Arc<DynamicObject> {
        object(json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
            "metadata": {"name": name, "namespace": "shop"}, "spec": {"scaleTargetRef": target},
        }))
    };
    let stubborn = json!({"SlimFaas/Function": "true", "ballast.dev/on-conflict": "override"});
    let watched = Watched {
        deployments: vec![
            deployment("fib", is_function()),
            deployment("stubborn", stubborn),
            deployment("other", is_function()),
        ],
        scaled_objects: vec![
            // it is a Deployment unless it says otherwise
            scaled("events", json!({"name": "fib"})),
            scaled("again", json!({"name": "stubborn", "kind": "Deployment", "apiVersion": "apps/v1"})),
            scaled("set", json!({"name": "other", "kind": "StatefulSet"})),
        ],
        ..Watched::default()
    };
    check(
        &watched,
        &expect![[r#"
        fib apps/v1 Deployment wants 2 @7
          SlimFaas/: ScaledObject events scales it too, so its count is not written here: remove one of the two
        other apps/v1 Deployment wants 2 @7
        stubborn apps/v1 Deployment wants 2 @7
          SlimFaas/: ScaledObject again scales it too, and ballast.dev/on-conflict says to write all the same: remove one of the two
        trusted 
    "#]],
    );
    let view = watched.view();
    let keda = Some(scaling::Autoscaler::Keda("events".into()));
    assert_eq!(view.managed["fib"].writers.autoscaler, keda);
}
