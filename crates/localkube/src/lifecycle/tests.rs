use serde_json::json;

use super::*;
use crate::storage::{Storage, Store};

fn plan_of(resource: (&str, &str), live: &Value, options: Value) -> Deletion {
    let (store, _) = Store::open(&Storage::Memory).unwrap();
    let registry = crate::registry::Registry::builtin(&store);
    let kind = registry.resource(resource.0, resource.1).unwrap();
    let options = DeleteOptions::from_value(&options).unwrap();
    plan(kind, live, &options, Timestamp::from_second(1_000_000_000).unwrap())
}

fn show(deletion: &Deletion) -> String {
    let meta = |object: &Value| {
        let metadata = &object["metadata"];
        format!(
            "at {} grace {} generation {} finalizers {}",
            metadata["deletionTimestamp"].as_str().unwrap_or("-"),
            metadata["deletionGracePeriodSeconds"],
            metadata["generation"],
            metadata["finalizers"],
        )
    };
    match deletion {
        Deletion::Remove => "remove".to_owned(),
        Deletion::Pending => "pending".to_owned(),
        Deletion::Mark(object) => format!("mark: {}", meta(object)),
        Deletion::MarkAndRemove(object) => format!("mark and remove: {}", meta(object)),
    }
}

#[test]
fn what_a_deletion_does() {
    const NOW: &str = "2001-09-09T01:46:40Z";
    let plain = json!({"metadata": {"name": "d", "generation": 3}});
    let held = json!({"metadata": {"name": "d", "generation": 3, "finalizers": ["x"]}});
    let ending = json!({"metadata": {"name": "d", "generation": 4, "finalizers": ["x"], "deletionTimestamp": "2001-09-09T01:00:00Z", "deletionGracePeriodSeconds": 0}});
    let deployments = ("apps", "deployments");
    let table = [
        (&plain, json!({}), "remove".to_owned()),
        (&plain, json!({"propagationPolicy": "Background"}), "remove".to_owned()),
        (
            &plain,
            json!({"propagationPolicy": "Orphan"}),
            format!("mark: at {NOW} grace 0 generation 4 finalizers [\"orphan\"]"),
        ),
        (
            &plain,
            json!({"orphanDependents": true}),
            format!("mark: at {NOW} grace 0 generation 4 finalizers [\"orphan\"]"),
        ),
        (
            &plain,
            json!({"propagationPolicy": "Foreground"}),
            format!("mark: at {NOW} grace 0 generation 4 finalizers [\"foregroundDeletion\"]"),
        ),
        (&held, json!({}), format!("mark: at {NOW} grace 0 generation 4 finalizers [\"x\"]")),
        (&ending, json!({}), "pending".to_owned()),
        (
            &ending,
            json!({"propagationPolicy": "Foreground"}),
            "mark: at 2001-09-09T01:00:00Z grace 0 generation 4 finalizers [\"x\",\"foregroundDeletion\"]"
                .to_owned(),
        ),
    ];
    for (live, options, expected) in table {
        assert_eq!(show(&plan_of(deployments, live, options.clone())), expected, "{live} {options}");
    }
}

#[test]
fn pods_get_time_if_they_run() {
    let pod = |node: &str, phase: &str| json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 20}, "status": {"phase": phase}});
    let mut stopping = pod("n", "Running");
    stopping["metadata"]["deletionTimestamp"] = "2001-09-09T01:46:50Z".into();
    stopping["metadata"]["deletionGracePeriodSeconds"] = 20.into();
    let table = [
        (
            pod("n", "Running"),
            json!({}),
            "mark: at 2001-09-09T01:47:00Z grace 20 generation 2 finalizers null",
        ),
        (
            pod("n", "Running"),
            json!({"gracePeriodSeconds": 5}),
            "mark: at 2001-09-09T01:46:45Z grace 5 generation 2 finalizers null",
        ),
        (
            pod("n", "Running"),
            json!({"gracePeriodSeconds": 0}),
            "mark and remove: at 2001-09-09T01:46:40Z grace 0 generation 2 finalizers null",
        ),
        (
            pod("", "Pending"),
            json!({}),
            "mark and remove: at 2001-09-09T01:46:40Z grace 0 generation 2 finalizers null",
        ),
        (
            pod("n", "Succeeded"),
            json!({}),
            "mark and remove: at 2001-09-09T01:46:40Z grace 0 generation 2 finalizers null",
        ),
        // Half of the time is over; one may only hurry.
        (stopping.clone(), json!({"gracePeriodSeconds": 60}), "pending"),
        (
            stopping.clone(),
            json!({"gracePeriodSeconds": 15}),
            "mark: at 2001-09-09T01:46:45Z grace 15 generation 1 finalizers null",
        ),
        (
            stopping.clone(),
            json!({"gracePeriodSeconds": 5}),
            "mark: at 2001-09-09T01:46:40Z grace 1 generation 1 finalizers null",
        ),
        (
            stopping,
            json!({"gracePeriodSeconds": 0}),
            "mark and remove: at 2001-09-09T01:46:40Z grace 0 generation 1 finalizers null",
        ),
    ];
    for (live, options, expected) in table {
        assert_eq!(show(&plan_of(("", "pods"), &live, options.clone())), expected, "{live} {options}");
    }
}

#[test]
fn namespaces_wait_for_their_content() {
    let live = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let Deletion::Mark(marked) = plan_of(("", "namespaces"), &live, json!({})) else {
        panic!("must be marked")
    };
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(plan_of(("", "namespaces"), &marked, json!({})), Deletion::Pending);
}
