use std::{collections::BTreeMap, fmt::Write as _};

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::apply::{
    ownership::SameObject,
    testing::{any_json, toy},
};

/// A Toy and what happens to it. Every request comes a minute after the one before.
struct Story {
    live: Option<Value>,
    minute: i64,
    log: String,
}

impl Story {
    fn new() -> Self {
        Self { live: None, minute: 0, log: String::new() }
    }

    fn now(&mut self) -> Timestamp {
        self.minute += 1;
        Timestamp::from_second(self.minute * 60).expect("a time")
    }

    fn update(&mut self, manager: &str, subresource: &str, change: impl FnOnce(&mut Value)) {
        let now = self.now();
        let mut new = self.live.clone().unwrap_or_else(|| toy_object(json!({})));
        change(&mut new);
        self.live = Some(with_updater(subresource, |u| u.update(self.live.as_ref(), new, manager, now)));
        self.tell(&format!("{manager} updates {subresource}"));
    }

    fn apply(&mut self, manager: &str, force: bool, spec: Value) {
        let now = self.now();
        let result =
            with_updater("", |u| u.apply(self.live.as_ref(), &toy_object(spec), manager, force, now));
        match result {
            Ok(applied) => {
                let what = if applied.changed { "applies" } else { "applies in vain" };
                self.live = Some(applied.object);
                self.tell(&format!("{manager} {what}"));
            }
            Err(error) => {
                writeln!(self.log, "{manager}: {error}").expect("a string");
            }
        }
    }

    fn tell(&mut self, what: &str) {
        let live = self.live.as_ref().expect("an object");
        writeln!(self.log, "{what}: {}", live["spec"]).expect("a string");
        let managed = Managed::of(live).expect("managers");
        for entry in managed.encode() {
            let text = |name: &str| entry[name].as_str().unwrap_or("-");
            let fields = super::super::fieldpath::decode(&entry["fieldsV1"]).expect("fields").to_string();
            let time = text("time").get(11..16).unwrap_or("never");
            let place = entry.get("subresource").map(|s| format!("/{}", s.as_str().unwrap_or("-")));
            writeln!(
                self.log,
                "  {time} {} {}{}: {}",
                text("operation"),
                text("manager"),
                place.unwrap_or_default(),
                fields.replace('\n', " ")
            )
            .expect("a string");
        }
    }

    fn check(self, expect: Expect) {
        expect.assert_eq(&self.log);
    }
}

fn toy_object(spec: Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Toy", "metadata": {"name": "t", "namespace": "n"}, "spec": spec})
}

fn with_updater<T>(subresource: &str, f: impl FnOnce(&Updater<'_>) -> T) -> T {
    let versions = SameObject { schemas: BTreeMap::from([("x.io/v1", Some(toy()))]) };
    let reset = match subresource {
        "status" => Reset::all_but([&["status"][..]]),
        _ => Reset::fields([&["status"][..]]),
    };
    let empty = typed::zero_value(toy());
    f(&Updater {
        api_version: "x.io/v1",
        kind: "Toy",
        subresource,
        versions: &versions,
        reset: &reset,
        empty: &empty,
    })
}

#[test]
fn updaters_own_what_they_change() {
    let mut story = Story::new();
    story.update("maker", "", |toy| {
        toy["spec"] = json!({"replicas": 1, "list": [{"name": "a", "port": 1}], "map": {"k": "v"}, "strategy": {"type": "R"}});
        toy["status"] = json!({"seen": true});
    });
    story.update("scaler", "", |toy| toy["spec"]["replicas"] = json!(2));
    story.update("scaler", "", |toy| toy["spec"]["replicas"] = json!(2));
    story.update("maker", "", |toy| toy["spec"]["list"] = json!([]));
    story.update("kubelet", "status", |toy| {
        toy["status"] = json!({"ready": 1});
        toy["spec"]["replicas"] = json!(7);
    });
    story.check(expect![[r#"
        maker updates : {"list":[{"name":"a","port":1}],"map":{"k":"v"},"replicas":1,"strategy":{"type":"R"}}
          00:01 Update maker: .spec.map .spec.replicas .spec.list[name="a"] .spec.list[name="a"].name .spec.list[name="a"].port .spec.map.k .spec.strategy.type
        scaler updates : {"list":[{"name":"a","port":1}],"map":{"k":"v"},"replicas":2,"strategy":{"type":"R"}}
          00:01 Update maker: .spec.map .spec.list[name="a"] .spec.list[name="a"].name .spec.list[name="a"].port .spec.map.k .spec.strategy.type
          00:02 Update scaler: .spec.replicas
        scaler updates : {"list":[{"name":"a","port":1}],"map":{"k":"v"},"replicas":2,"strategy":{"type":"R"}}
          00:01 Update maker: .spec.map .spec.list[name="a"] .spec.list[name="a"].name .spec.list[name="a"].port .spec.map.k .spec.strategy.type
          00:02 Update scaler: .spec.replicas
        maker updates : {"list":[],"map":{"k":"v"},"replicas":2,"strategy":{"type":"R"}}
          00:01 Update maker: .spec.map .spec.map.k .spec.strategy.type
          00:02 Update scaler: .spec.replicas
        kubelet updates status: {"list":[],"map":{"k":"v"},"replicas":7,"strategy":{"type":"R"}}
          00:01 Update maker: .spec.map .spec.map.k .spec.strategy.type
          00:02 Update scaler: .spec.replicas
          00:05 Update kubelet/status: .status.ready
    "#]]);
}

#[test]
fn appliers_give_up_what_they_no_longer_list() {
    let mut story = Story::new();
    story.apply(
        "one",
        false,
        json!({"replicas": 1, "set": ["a", "b"], "list": [{"name": "x", "port": 1}], "args": ["q"]}),
    );
    story.apply("two", false, json!({"set": ["b", "c"], "list": [{"name": "x"}], "map": {"k": "v"}}));
    story.apply("one", false, json!({"set": ["a"]}));
    story.apply("two", false, json!({"set": ["b", "c"]}));
    story.apply("two", false, json!({"set": ["b", "c"]}));
    story.apply("two", false, json!({}));
    story.check(expect![[r#"
        one applies: {"args":["q"],"list":[{"name":"x","port":1}],"replicas":1,"set":["a","b"],"strategy":{}}
          00:01 Apply one: .spec.args .spec.replicas .spec.list[name="x"] .spec.list[name="x"].name .spec.list[name="x"].port .spec.set[="a"] .spec.set[="b"]
        two applies: {"args":["q"],"list":[{"name":"x","port":1}],"map":{"k":"v"},"replicas":1,"set":["a","b","c"],"strategy":{}}
          00:01 Apply one: .spec.args .spec.replicas .spec.list[name="x"] .spec.list[name="x"].name .spec.list[name="x"].port .spec.set[="a"] .spec.set[="b"]
          00:02 Apply two: .spec.list[name="x"] .spec.list[name="x"].name .spec.map.k .spec.set[="b"] .spec.set[="c"]
        one applies: {"list":[{"name":"x"}],"map":{"k":"v"},"set":["a","b","c"],"strategy":{}}
          00:02 Apply two: .spec.list[name="x"] .spec.list[name="x"].name .spec.map.k .spec.set[="b"] .spec.set[="c"]
          00:03 Apply one: .spec.set[="a"]
        two applies: {"set":["a","b","c"],"strategy":{}}
          00:03 Apply one: .spec.set[="a"]
          00:04 Apply two: .spec.set[="b"] .spec.set[="c"]
        two applies in vain: {"set":["a","b","c"],"strategy":{}}
          00:03 Apply one: .spec.set[="a"]
          00:04 Apply two: .spec.set[="b"] .spec.set[="c"]
        two applies: {"set":["a"],"strategy":{}}
          00:03 Apply one: .spec.set[="a"]
          00:06 Apply two: .spec
    "#]]);
}

#[test]
fn what_is_not_set_is_not_there() {
    let mut story = Story::new();
    story.apply("one", false, json!({"replicas": 1}));
    story.check(expect![[r#"
        one applies: {"replicas":1,"strategy":{}}
          00:01 Apply one: .spec.replicas
    "#]]);
}

#[test]
fn who_wants_it_otherwise_conflicts() {
    let mut story = Story::new();
    story.update("maker", "", |toy| toy["spec"] = json!({"replicas": 1, "paused": true, "map": {"k": "v"}}));
    story.update("status", "status", |toy| toy["status"] = json!({"a": 1}));
    story.apply("one", false, json!({"map": {"k": "w"}}));
    story.apply("one", false, json!({"replicas": 1, "paused": false, "map": {"k": "w"}}));
    story.apply("one", true, json!({"replicas": 1, "paused": false, "map": {"k": "w"}}));
    story.apply("two", false, json!({"replicas": 2}));
    story.check(expect![[r#"
        maker updates : {"map":{"k":"v"},"paused":true,"replicas":1}
          00:01 Update maker: .spec.map .spec.paused .spec.replicas .spec.map.k
        status updates status: {"map":{"k":"v"},"paused":true,"replicas":1}
          00:01 Update maker: .spec.map .spec.paused .spec.replicas .spec.map.k
          00:02 Update status/status: .status .status.a
        one: Apply failed with 1 conflict: conflict with "maker" using x.io/v1: .spec.map.k
        one: Apply failed with 2 conflicts: conflicts with "maker" using x.io/v1:
        - .spec.paused
        - .spec.map.k
        one applies: {"map":{"k":"w"},"paused":false,"replicas":1}
          00:05 Apply one: .spec.paused .spec.replicas .spec.map.k
          00:01 Update maker: .spec.map .spec.replicas
          00:02 Update status/status: .status .status.a
        two: Apply failed with 2 conflicts: conflicts with "maker" using x.io/v1:
        - .spec.replicas
        conflicts with "one":
        - .spec.replicas
    "#]]);
}

#[test]
fn conflicts_have_causes() {
    let mut story = Story::new();
    story.update("maker", "", |toy| toy["spec"] = json!({"replicas": 1}));
    let error = with_updater("", |u| {
        u.apply(story.live.as_ref(), &toy_object(json!({"replicas": 2})), "one", false, Timestamp::UNIX_EPOCH)
    })
    .unwrap_err();
    expect![[r#"[Cause { reason: "FieldManagerConflict", message: "conflict with \"maker\" using x.io/v1", field: ".spec.replicas" }]"#]].assert_eq(&format!("{:?}", error.causes()));
}

#[test]
fn objects_without_managers_get_them_by_the_first_apply() {
    let mut story = Story::new();
    story.update("maker", "", |toy| toy["spec"] = json!({"replicas": 1, "paused": true}));
    story.update("forgetter", "", |toy| toy["metadata"]["managedFields"] = json!([{}]));
    story.update("maker", "", |toy| toy["spec"]["replicas"] = json!(2));
    story.apply("one", false, json!({"replicas": 3}));
    story.apply("one", false, json!({"replicas": 2}));
    story.check(expect![[r#"
        maker updates : {"paused":true,"replicas":1}
          00:01 Update maker: .spec.paused .spec.replicas
        forgetter updates : {"paused":true,"replicas":1}
        maker updates : {"paused":true,"replicas":2}
        one: Apply failed with 1 conflict: conflict with "before-first-apply" using x.io/v1: .spec.replicas
        one applies in vain: {"paused":true,"replicas":2}
          never Apply one: .spec.replicas
          00:05 Update before-first-apply: .spec.paused .spec.replicas
    "#]]);
}

#[test]
fn managers_survive_clients_that_do_not_know_them() {
    let mut story = Story::new();
    story.update("maker", "", |toy| toy["spec"] = json!({"replicas": 1}));
    story.update("old", "", managed_fields::strip);
    story.update("broken", "", |toy| toy["metadata"]["managedFields"] = json!([{"manager": "x"}]));
    story.update("thief", "", |toy| toy["metadata"]["managedFields"][0]["manager"] = json!("thief"));
    story.check(expect![[r#"
        maker updates : {"replicas":1}
          00:01 Update maker: .spec.replicas
        old updates : {"replicas":1}
          00:01 Update maker: .spec.replicas
        broken updates : {"replicas":1}
          00:01 Update maker: .spec.replicas
        thief updates : {"replicas":1}
          00:01 Update thief: .spec.replicas
    "#]]);
}

#[test]
fn managers_keep_their_version_and_go_with_it() {
    let versions = SameObject { schemas: BTreeMap::from([("x.io/v1", Some(toy())), ("x.io/v2", None)]) };
    let entry = |manager: &str, version: &str, field: &str| {
        json!({"manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {field: {}}}})
    };
    let mut live = toy_object(json!({"replicas": 1, "paused": true, "percent": 1}));
    live["metadata"]["managedFields"] =
        json!([entry("two", "x.io/v2", "f:replicas"), entry("gone", "x.io/v0", "f:paused")]);
    let updater = Updater {
        api_version: "x.io/v1",
        kind: "Toy",
        subresource: "",
        versions: &versions,
        reset: &Reset::Nothing,
        empty: &json!({}),
    };
    let apply =
        |spec: Value| updater.apply(Some(&live), &toy_object(spec), "one", false, Timestamp::UNIX_EPOCH);
    assert_eq!(
        apply(json!({"replicas": 2})).unwrap_err().to_string(),
        r#"Apply failed with 1 conflict: conflict with "two" using x.io/v2: .spec.replicas"#
    );
    let applied = apply(json!({"paused": false})).unwrap().object;
    let managers = Managed::of(&applied).unwrap().owners;
    let managers: Vec<_> =
        managers.iter().map(|(m, owned)| format!("{} {}", m.name, owned.api_version)).collect();
    assert_eq!(managers, ["one x.io/v1", "two x.io/v2"]);
}

#[test]
fn old_updaters_become_one() {
    let mut story = Story::new();
    for i in 0..12 {
        story.log.clear();
        story.update(&format!("m{i:02}"), "", |toy| toy["spec"]["map"][format!("k{i:02}")] = json!("v"));
    }
    story.check(expect![[r#"
        m11 updates : {"map":{"k00":"v","k01":"v","k02":"v","k03":"v","k04":"v","k05":"v","k06":"v","k07":"v","k08":"v","k09":"v","k10":"v","k11":"v"}}
          00:03 Update ancient-changes: .spec.map .spec.map.k00 .spec.map.k01 .spec.map.k02
          00:04 Update m03: .spec.map.k03
          00:05 Update m04: .spec.map.k04
          00:06 Update m05: .spec.map.k05
          00:07 Update m06: .spec.map.k06
          00:08 Update m07: .spec.map.k07
          00:09 Update m08: .spec.map.k08
          00:10 Update m09: .spec.map.k09
          00:11 Update m10: .spec.map.k10
          00:12 Update m11: .spec.map.k11
    "#]]);
}

#[test]
fn kubectl_takes_over_from_itself() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let last = toy_object(json!({"replicas": 1, "paused": true})).to_string();
    let mut story = Story::new();
    story.update("kubectl-client-side-apply", "", |toy| {
        toy["metadata"]["annotations"] = json!({annotation: last});
        toy["spec"] = json!({"replicas": 1, "paused": true});
    });
    story.apply("other", false, json!({"replicas": 2}));
    story.apply("kubectl", false, json!({"replicas": 2, "paused": true}));
    assert_eq!(
        story.live.as_ref().unwrap()["metadata"]["annotations"][annotation],
        format!("{}\n", toy_object(json!({"replicas": 2, "paused": true})))
    );
    story.update("edit", "", |toy| toy["spec"]["replicas"] = json!(9));
    story.apply("kubectl", false, json!({"replicas": 3, "paused": true}));
    story.check(expect![[r#"
        kubectl-client-side-apply updates : {"paused":true,"replicas":1}
          00:01 Update kubectl-client-side-apply: .metadata.annotations .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration .spec.paused .spec.replicas
        other: Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using x.io/v1: .spec.replicas
        kubectl applies: {"paused":true,"replicas":2}
          00:03 Apply kubectl: .spec.paused .spec.replicas
          00:01 Update kubectl-client-side-apply: .metadata.annotations .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration .spec.paused
        edit updates : {"paused":true,"replicas":9}
          00:03 Apply kubectl: .spec.paused
          00:01 Update kubectl-client-side-apply: .metadata.annotations .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration .spec.paused
          00:04 Update edit: .spec.replicas
        kubectl: Apply failed with 1 conflict: conflict with "edit" using x.io/v1: .spec.replicas
    "#]]);
}

#[test]
fn configurations_that_cannot_be_applied() {
    let mut report = String::new();
    for config in [
        json!({}),
        json!({"apiVersion": "x.io/v2", "kind": "Toy"}),
        json!({"apiVersion": "v1", "kind": "Pod"}),
        json!({"apiVersion": "x.io/v1", "kind": "Toy", "metadata": {"name": "t", "managedFields": []}}),
        json!({"apiVersion": "x.io/v1", "kind": "Toy", "metadata": {"name": "t"}, "spec": {"replcas": 1}}),
        toy_object(json!({"set": ["a", "a"]})),
    ] {
        let error =
            with_updater("", |u| u.apply(None, &config, "one", false, Timestamp::UNIX_EPOCH)).unwrap_err();
        let code = match error {
            ApplyError::Conflicts(_) => 409,
            ApplyError::BadRequest(_) => 400,
            ApplyError::Internal(_) => 500,
        };
        writeln!(report, "{code} {error}").expect("a string");
    }
    expect![[r#"
        400 invalid object type: /, Kind=
        400 invalid object type: x.io/v2, Kind=Toy
        400 invalid object type: /v1, Kind=Pod
        400 metadata.managedFields must be nil
        500 failed to create typed patch object (/t; x.io/v1, Kind=Toy): .spec.replcas: field not declared in schema
        500 failed to create typed patch object (n/t; x.io/v1, Kind=Toy): .spec.set: duplicate entries for key [="a"]
    "#]].assert_eq(&report);
}

#[test]
fn times_alone_are_no_change() {
    let at = |time: &str, replicas: u32| {
        let mut object = toy_object(json!({"replicas": replicas}));
        object["metadata"]["managedFields"] =
            json!([{"manager": "m", "operation": "Apply", "apiVersion": "x.io/v1", "time": time}]);
        object
    };
    for (old, mut new, kept) in [(at("old", 1), at("new", 1), "old"), (at("old", 1), at("new", 2), "new")] {
        managed_fields::keep_times_if_unchanged(&old, &mut new);
        assert_eq!(new["metadata"]["managedFields"][0]["time"], kept);
    }
}

#[test]
fn a_request_without_a_name_is_called_by_its_client() {
    for (manager, agent, name) in [
        ("me", "kubectl/v1.36", "me"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "a\u{7}b", "ab"),
        ("", "", ""),
        ("", &"é".repeat(100), &"é".repeat(64)),
    ] {
        assert_eq!(managed_fields::manager_or_user_agent(manager, agent), name);
    }
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    /// A second apply of the same configuration changes nothing, whoever owned what before.
    #[test]
    fn applying_twice_is_applying_once(before in any_json(), config in any_json()) {
        let mut live = toy_object(json!({}));
        live["spec"] = json!({"free": before});
        let live = with_updater("", |u| u.update(None, live, "maker", Timestamp::UNIX_EPOCH));
        let config = toy_object(json!({"free": config}));
        let apply = |live: &Value, minute| {
            let now = Timestamp::from_second(minute).expect("a time");
            with_updater("", |u| u.apply(Some(live), &config, "one", true, now))
        };
        if let Ok(first) = apply(&live, 60) {
            let second = apply(&first.object, 120).expect("the second apply");
            prop_assert_eq!(&second.object, &first.object);
            prop_assert!(!second.changed);
            let unforced =
                with_updater("", |u| u.apply(Some(&first.object), &config, "one", false, Timestamp::UNIX_EPOCH));
            prop_assert!(unforced.is_ok());
        }
    }

    #[test]
    fn any_json_is_applied_or_refused(live in any_json(), config in any_json()) {
        let _ = with_updater("", |u| u.apply(Some(&live), &config, "one", false, Timestamp::UNIX_EPOCH));
        let config = json!({"apiVersion": "x.io/v1", "kind": "Toy", "spec": config});
        let _ = with_updater("", |u| u.apply(Some(&live), &config, "one", true, Timestamp::UNIX_EPOCH));
        with_updater("", |u| u.update(Some(&live), config, "one", Timestamp::UNIX_EPOCH));
    }
}
