//! A new master continues where the old one was: windows and budgets are in the store.

use std::sync::Mutex;

use decide::demand::{
    self, Activity, ActivitySource, Answer, Decision, Dependencies, Memory, Observed, Rule, Schedule, Spec,
};
use engine::{effect::Target, kind::DEPLOYMENT, testing::at};
use serde_json::json;

use super::*;
use crate::Subject;

/// A function under load; the count is what was last written.
#[derive(Clone, Copy)]
struct Load {
    current: i32,
    load: f64,
}

struct OnDemand(Mutex<Load>);

impl Policy for OnDemand {
    type Spec = Spec;
    type Observed = Observed;
    type Memory = Memory;
    type Rule = Rule;

    fn name(&self) -> &'static str {
        "demand"
    }

    fn component(&self) -> &'static str {
        "test"
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(DEPLOYMENT)
    }

    fn look(&self, key: &Key, now: Timestamp) -> Look<Spec, Observed> {
        let Load { current, load } = *self.0.lock().unwrap();
        Look::Found(Box::new(Subject {
            target: Target::absent(&DEPLOYMENT, Some(&key.namespace), &key.name),
            controls: Controls::default(),
            spec: spec(),
            observed: Observed {
                current,
                activity: Some(Activity { at: now, source: ActivitySource::CallUnderWay, of: None }),
                next_wake_up: None,
                dependencies: Dependencies::default(),
                unschedulable: None,
                autoscaler: None,
                readings: vec![Answer::Value { value: load, per: None }],
            },
        }))
    }

    fn decide(&self, now: Timestamp, spec: &Spec, observed: &Observed, memory: Memory) -> Decision {
        demand::decide(now, spec, observed, memory)
    }

    fn lacks_metrics(&self, _: &Decision) -> bool {
        false
    }

    fn gist(&self, decision: &Decision) -> String {
        decision.why()
    }

    fn decided(&self, _: &Subject<Spec, Observed>, _: &Decision, _: Timestamp) -> Vec<Effect> {
        Vec::new()
    }

    fn gone(&self, _: &Key) {}
}

/// Two pods more in half a minute at most, one less, and less only if a minute has agreed.
fn spec() -> Spec {
    let policy = |value: i32| json!([{"Type": "Pods", "Value": value, "PeriodSeconds": 30}]);
    let scale = json!({
        "ReplicaMax": 20,
        "Triggers": [{"MetricName": "load", "Query": "load", "Threshold": 10}],
        "Behavior": {
            "ScaleUp": {"Policies": policy(2)},
            "ScaleDown": {"StabilizationWindowSeconds": 60, "Policies": policy(1)},
        },
    });
    Spec {
        min: 1,
        at_start: 1,
        timeout_seconds: 300,
        schedule: Schedule::default(),
        scale: Some(serde_json::from_value(scale).unwrap()),
    }
}

/// What happens to the master between two decisions.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    Nothing,
    AnotherNode,
    /// What a node would do that knows nothing of the one before.
    AnotherNodeThatForgot,
}

/// Ten minutes in which the load rises, falls, comes back for a moment and is gone.
async fn decisions(between: Between) -> String {
    let open = || store::open("memory:", store::Options::default());
    let mut store = open().await.unwrap();
    let key = Key::new("shop", "fib");
    let mut load = Load { current: 1, load: 0.0 };
    let mut scaler = None;
    let mut all = String::new();
    for seconds in (0..600).step_by(5) {
        load.load = match seconds {
            0..30 => 8.0,
            30..150 => 95.0,
            150..240 => 12.0,
            240..250 => 70.0,
            _ => 4.0,
        };
        if between == Between::AnotherNodeThatForgot {
            store = open().await.unwrap();
        }
        if scaler.is_none() || between != Between::Nothing {
            let memories = Memories::load(store.clone(), "demand/", "shop").await;
            scaler = Some(Scaler::new(OnDemand(Mutex::new(load)), memories, History::default()));
        }
        let scaler = scaler.as_ref().unwrap();
        *scaler.policy.0.lock().unwrap() = load;
        scaler.turn(&key, at(seconds)).await.unwrap();
        let record = scaler.history.select(|_| true).pop().unwrap();
        all += &format!("{seconds} s: {} -> {} {}\n", record.current, record.desired, record.why);
        load.current = record.desired;
    }
    all
}

#[tokio::test]
async fn the_next_master_decides_as_the_old_one_would_have() {
    let undisturbed = decisions(Between::Nothing).await;
    assert_eq!(decisions(Between::AnotherNode).await, undisturbed);
    let counts = |text: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| Some(line.split_once(" -> ")?.1.split(' ').next()?.to_owned()))
            .collect()
    };
    // The window and the budget were in force: whoever forgets them decides otherwise.
    assert_ne!(counts(&decisions(Between::AnotherNodeThatForgot).await), counts(&undisturbed));
    assert!(counts(&undisturbed).contains(&"9".to_owned()), "{undisturbed}");
}
