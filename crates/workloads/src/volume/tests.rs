use std::{path::Path, sync::Arc};

use engine::testing::{from_json, lines, merge, seconds};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::plan::{Claim, Volume, plan_claim, plan_volume};

fn claim(change: Value) -> Value {
    let mut claim = json!({
        "metadata": {
            "namespace": "shop", "name": "data", "uid": "u1", "resourceVersion": "5",
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
            "storageClassName": "fast", "volumeMode": "Filesystem",
        },
        "status": { "phase": "Pending" },
    });
    merge(&mut claim, change);
    claim
}

fn volume(change: Value) -> Value {
    let mut volume = json!({
        "metadata": {
            "name": "pvc-u1", "uid": "v1", "resourceVersion": "7", "finalizers": ["kubernetes.io/pv-protection"],
            "annotations": { "pv.kubernetes.io/provisioned-by": "ballast.dev/directory" },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "hostPath": { "path": "/claims/u1" },
            "claimRef": { "namespace": "shop", "name": "data", "uid": "u1" },
        },
    });
    merge(&mut volume, change);
    volume
}

fn check(claim: Value, volume: Option<Value>, is_used: bool, expected: Expect) {
    let observed = Claim {
        claim: Arc::new(from_json(claim)),
        volume: volume.map(|volume| Arc::new(from_json(volume))),
        is_used,
        directory: Some(Path::new("/claims")),
    };
    expected.assert_eq(&lines(&plan_claim(&observed)));
}

#[test]
fn a_claim_gets_a_volume_and_is_bound_to_it() {
    check(
        claim(json!({})),
        None,
        false,
        expect![[r#"
            create PersistentVolume pvc-u1
        "#]],
    );
    check(
        claim(json!({})),
        Some(volume(json!({}))),
        false,
        expect![[r#"
            patch PersistentVolumeClaim shop/data {"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"pvc-u1"}}
            status PersistentVolumeClaim shop/data {"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"phase":"Bound"}
        "#]],
    );
    let bound = json!({
        "spec": { "volumeName": "pvc-u1" },
        "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } },
    });
    check(claim(bound), Some(volume(json!({}))), true, expect![""]);
}

#[test]
fn what_is_somebody_elses_is_left_alone() {
    check(claim(json!({ "spec": { "volumeName": "by-hand" } })), None, false, expect![""]);
    check(claim(json!({ "spec": { "volumeMode": "Block" } })), None, false, expect![""]);
    let by_hand = volume(json!({ "metadata": { "annotations": null } }));
    let plan = plan_volume(&Volume { volume: Arc::new(from_json(by_hand)), has_claim: false });
    assert!(plan.effects.is_empty() && plan.remove.is_none());
}

#[test]
fn a_claim_that_is_deleted_stays_as_long_as_a_pod_uses_it() {
    let leaving = claim(json!({ "metadata": { "deletionTimestamp": seconds(1) } }));
    check(leaving.clone(), Some(volume(json!({}))), true, expect![""]);
    check(
        leaving,
        Some(volume(json!({}))),
        false,
        expect![[r#"
        patch PersistentVolumeClaim shop/data {"metadata":{"finalizers":[]}}
    "#]],
    );
}

#[test]
fn a_volume_goes_after_its_claim_and_its_directory_before_it() {
    let planned = |change: Value, has_claim: bool| {
        let plan = plan_volume(&Volume { volume: Arc::new(from_json(volume(change))), has_claim });
        let removed = plan.remove.map(|path| format!("remove {}\n", path.display()));
        format!("{}{}", removed.unwrap_or_default(), lines(&engine::effect::Plan::from(plan.effects)))
    };
    expect![[r#"
        status PersistentVolume pvc-u1 {"phase":"Bound"}
    "#]]
    .assert_eq(&planned(json!({}), true));
    expect![[r#"
        delete PersistentVolume pvc-u1 (Background)
    "#]]
    .assert_eq(&planned(json!({}), false));
    let leaving = json!({ "metadata": { "deletionTimestamp": seconds(1) } });
    expect![""].assert_eq(&planned(leaving.clone(), true));
    expect![[r#"
        remove /claims/u1
        patch PersistentVolume pvc-u1 {"metadata":{"finalizers":[]}}
    "#]]
    .assert_eq(&planned(leaving, false));
}
