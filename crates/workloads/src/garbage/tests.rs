use engine::{
    kind::{DEPLOYMENT, Kind, POD, REPLICA_SET},
    testing::{from_json, lines, seconds},
};
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// `kind name <owner,owner+ finalizer… deleting`: an owner with `+` is blocked by this object.
fn node(line: &str) -> Node {
    let mut words = line.split_whitespace();
    let kind: Kind = match words.next().unwrap() {
        "deploy" => DEPLOYMENT,
        "rs" => REPLICA_SET,
        "pod" => POD,
        other => panic!("{other}"),
    };
    let name = words.next().unwrap();
    let mut meta = json!({ "namespace": "default", "name": name, "uid": name, "resourceVersion": "1" });
    let mut finalizers = Vec::new();
    for word in words {
        match word {
            "deleting" => meta["deletionTimestamp"] = json!(seconds(0)),
            "foreground" => finalizers.push("foregroundDeletion"),
            word if word.starts_with('<') => {
                let owner = |owner: &str| {
                    let (owner, blocks) =
                        owner.strip_suffix('+').map_or((owner, false), |owner| (owner, true));
                    json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
                            "blockOwnerDeletion": blocks })
                };
                meta["ownerReferences"] = word[1..].split(',').map(owner).collect();
            }
            finalizer => finalizers.push(finalizer),
        }
    }
    if !finalizers.is_empty() {
        meta["finalizers"] = json!(finalizers);
    }
    Node { kind, meta: from_json(meta) }
}

fn check(line: &str, owners: &[OwnerState], dependents: &[&str], expected: Expect) {
    let node = node(line);
    let owners = node.owners().iter().cloned().zip(owners.iter().copied()).collect();
    let dependents = dependents.iter().map(|line| self::node(line)).collect();
    expected.assert_eq(&lines(&plan(&Observed { node, owners, dependents })));
}

#[test]
fn what_nobody_owns_any_more_goes() {
    use OwnerState::{Absent, Alive, DeletingDependents, OutOfReach};
    check("pod p", &[], &[], expect![[""]]);
    check("pod p <a", &[Alive], &[], expect![[""]]);
    check("pod p <a", &[OutOfReach], &[], expect![[""]]);
    check(
        "pod p <a",
        &[Absent],
        &[],
        expect![[r#"
            delete Pod default/p (Background)
        "#]],
    );
    check(
        "pod p <a,b",
        &[Absent, DeletingDependents],
        &[],
        expect![[r#"
            delete Pod default/p (Background)
        "#]],
    );
    check(
        "pod p <a,b",
        &[Absent, Alive],
        &[],
        expect![[r#"
            patch Pod default/p {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":false,"kind":"ReplicaSet","name":"b","uid":"b"}]}}
        "#]],
    );
    check("pod p <a deleting", &[Absent], &[], expect![[""]]);
    check(
        "rs r <a orphan",
        &[Absent],
        &["pod p <r"],
        expect![[r#"
            delete ReplicaSet default/r (Orphan)
        "#]],
    );
}

#[test]
fn foreground_goes_from_the_leaves_up() {
    check("deploy d deleting foreground", &[], &["rs r <d+"], expect![[""]]);
    check(
        "rs r <d+",
        &[OwnerState::DeletingDependents],
        &["pod p <r+"],
        expect![[r#"
            delete ReplicaSet default/r (Foreground)
        "#]],
    );
    check(
        "pod p <r+",
        &[OwnerState::DeletingDependents],
        &[],
        expect![[r#"
            delete Pod default/p (Background)
        "#]],
    );
    // a dependent that does not block is not waited for
    check(
        "rs r deleting foreground other",
        &[],
        &["pod p <r"],
        expect![[r#"
            patch ReplicaSet default/r {"metadata":{"finalizers":["other"]}}
        "#]],
    );
    // two that own each other
    check(
        "rs r <s+",
        &[OwnerState::DeletingDependents],
        &["rs s <r+ deleting foreground"],
        expect![[r#"
            patch ReplicaSet default/r {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":false,"kind":"ReplicaSet","name":"s","uid":"s"}]}}
            delete ReplicaSet default/r (Foreground)
        "#]],
    );
}

#[test]
fn orphans_are_let_go_before_their_owner() {
    check(
        "rs r deleting orphan",
        &[],
        &["pod p <r,x", "pod q <r"],
        expect![[r#"
            patch Pod default/p {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":false,"kind":"ReplicaSet","name":"x","uid":"x"}]}}
            patch Pod default/q {"metadata":{"ownerReferences":null}}
            patch ReplicaSet default/r {"metadata":{"finalizers":null}}
        "#]],
    );
}

/// The uids that a sequence of changes puts to work.
fn woken(changes: &[(Option<&str>, Option<&str>)]) -> Vec<String> {
    let graph = Graph::default();
    let queue = Arc::new(Queue::default());
    graph.queue_into(queue.clone());
    let mut woken = Vec::new();
    for (old, new) in changes {
        let (old, new) = (old.map(node), new.map(node));
        let kind = old.as_ref().or(new.as_ref()).unwrap().kind.clone();
        graph.observe(&kind, old.map(|node| node.meta), new.map(|node| node.meta));
        let mut now = Vec::new();
        while let Some(key) = futures::FutureExt::now_or_never(queue.next()) {
            queue.done(&key);
            now.push(key.name);
        }
        now.sort();
        woken.push(now.join(" "));
    }
    woken
}

#[test]
fn a_change_wakes_whom_it_concerns() {
    let changes = [
        (None, Some("rs r")),
        (None, Some("pod p <r+")),
        (Some("rs r"), Some("rs r")), // nothing that matters
        (Some("rs r"), Some("rs r deleting foreground")),
        (Some("pod p <r+"), Some("pod p <r")), // no longer blocks
        (Some("pod p <r"), None),
        (Some("rs r deleting foreground"), None),
        (None, Some("pod late <r")),
        (None, Some("rs s")),
        (None, Some("pod q <s")),
        (Some("rs s"), None),
    ];
    assert_eq!(woken(&changes), ["", "p", "", "p r", "p r", "r", "", "late", "", "q", "q"]);
}
