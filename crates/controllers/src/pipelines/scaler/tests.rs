use std::sync::Arc;

use decide::vertex::{Kind, Memory, Observed, Partition, downstream};
use engine::testing::{at, from_json, seconds};
use expect_test::expect;
use serde_json::json;

use super::{
    collect::read_page,
    policy::ready_since,
    window::{PodCounters, Seen, Window},
};
use crate::data_plane::Waiting;

fn pod(uid: &str, created: i64, read: f64) -> PodCounters {
    let read = [("b-0".to_owned(), read)].into();
    PodCounters { uid: uid.to_owned(), created: Some(at(created)), read }
}

fn seen(pending: Option<i64>, pods: Vec<PodCounters>, is_complete: bool) -> Seen {
    let waiting = vec![pending.map(|pending| Waiting { pending, ack_pending: 5 })];
    Seen { waiting, pods, is_complete, ready: 1, downstream_usage: 0.0 }
}

fn figures(window: &Window, oldest: i64) -> String {
    let Partition { pending, ack_pending, rate, at: seen, .. } =
        window.partitions(at(oldest), |_| false)[0].clone();
    let seen = seen.map(|seen| seen.duration_since(at(0)).as_secs());
    format!("pending={pending:?}+{ack_pending} rate={rate:?} seen at {seen:?}")
}

#[test]
fn rates_survive_restarts_and_missed_looks() {
    let names: Vec<Arc<str>> = vec!["b-0".into()];
    let mut window = Window::default();
    let mut story = String::new();
    for (what, now, seen) in [
        (
            "a pod that was there before begins the count",
            0,
            seen(Some(10), vec![pod("a", -100, 5000.0)], true),
        ),
        ("100 messages in 5 s", 5, seen(Some(20), vec![pod("a", -100, 5100.0)], true)),
        ("it misses a look, which says nothing", 10, seen(Some(30), vec![], false)),
        ("and is made up for", 15, seen(Some(40), vec![pod("a", -100, 5300.0)], true)),
        (
            "a new pod counts from its first message",
            20,
            seen(Some(40), vec![pod("a", -100, 5400.0), pod("b", 17, 60.0)], true),
        ),
        (
            "a container that began anew",
            25,
            seen(Some(0), vec![pod("a", -100, 40.0), pod("b", 17, 160.0)], true),
        ),
        (
            "the buffer does not answer",
            30,
            seen(None, vec![pod("a", -100, 140.0), pod("b", 17, 260.0)], true),
        ),
    ] {
        window.record(&names, &seen, at(now));
        story += &format!("{now:>2} s {what}: {}\n", figures(&window, now - 120));
    }
    expect![[r#"
          0 s a pod that was there before begins the count: pending=Some(10)+5 rate=None seen at Some(0)
          5 s 100 messages in 5 s: pending=Some(15)+5 rate=Some(20.0) seen at Some(5)
         10 s it misses a look, which says nothing: pending=Some(20)+5 rate=Some(20.0) seen at Some(10)
         15 s and is made up for: pending=Some(25)+5 rate=Some(20.0) seen at Some(15)
         20 s a new pod counts from its first message: pending=Some(28)+5 rate=Some(23.0) seen at Some(20)
         25 s a container that began anew: pending=Some(24)+5 rate=Some(24.0) seen at Some(25)
         30 s the buffer does not answer: pending=Some(24)+5 rate=Some(26.666666666666668) seen at Some(25)
    "#]]
    .assert_eq(&story);
    assert_eq!(
        window.samples(at(-90)).len(),
        5,
        "neither the look without the pod nor that without the buffer"
    );
    // Only what was seen within the lookback counts.
    assert_eq!(figures(&window, 31), "pending=None+0 rate=None seen at None");
    // Other partitions, other figures.
    window.record(&["b-0".into(), "b-1".into()], &Seen::default(), at(35));
    assert_eq!(window.n_looks(), 1);
}

#[test]
fn an_object_without_pods_is_judged_by_the_last_look() {
    let names: Vec<Arc<str>> = vec!["b-0".into()];
    let mut window = Window::default();
    for now in 0..100 {
        window.record(
            &names,
            &Seen { waiting: vec![Some(Waiting::default())], is_complete: true, ..Seen::default() },
            at(now),
        );
    }
    let waiting = vec![Some(Waiting { pending: 0, ack_pending: 1 })];
    window.record(&names, &Seen { waiting, is_complete: true, ..Seen::default() }, at(100));
    let asleep = &window.partitions(at(-20), |_| true)[0];
    assert_eq!(
        (asleep.pending, asleep.ack_pending),
        (Some(0), 1),
        "one message that its last pod did not finish"
    );
}

/// Means are for noise. A full buffer holds up those who write to it, so it counts when it is seen.
#[test]
fn what_cannot_wait_counts_at_once() {
    let names: Vec<Arc<str>> = vec!["b-0".into()];
    let mut window = Window::default();
    for now in 0..10 {
        window.record(&names, &seen(Some(0), Vec::new(), true), at(now * 5));
    }
    let (calm, full) = (seen(Some(94), Vec::new(), true), seen(Some(95), Vec::new(), true));
    // five more are delivered and not acknowledged
    assert_eq!((window.is_news(&calm, false, 100), window.is_news(&full, false, 100)), (false, true));
    assert!(window.is_news(&calm, true, 100), "a message wakes");
    assert!(!window.is_news(&Seen { waiting: vec![None], ..Seen::default() }, true, 0), "nobody knows");
    window.record(&names, &full, at(50));
    assert!(!window.is_news(&full, false, 100), "it was full before");
    let pending = |usable: i64| window.partitions(at(0), |waiting| waiting.total() >= usable)[0].pending;
    assert_eq!((pending(101), pending(100)), (Some(9), Some(95)));
}

/// Buffers are asked more often than pods: a look at them alone does not make a pod one that was there before.
#[test]
fn a_pod_that_began_before_a_look_at_the_buffers_counts_from_its_first_message() {
    let names: Vec<Arc<str>> = vec!["b-0".into()];
    let mut window = Window::default();
    window.record(&names, &seen(Some(0), Vec::new(), true), at(0));
    window.record(&names, &seen(Some(100), Vec::new(), false), at(7));
    window.record(&names, &seen(Some(50), vec![pod("new", 6, 30.0)], true), at(10));
    assert_eq!(figures(&window, 0), "pending=Some(50)+5 rate=Some(3.0) seen at Some(10)");
}

#[test]
fn windows_are_bounded() {
    let names: Vec<Arc<str>> = vec!["b-0".into()];
    let mut window = Window::default();
    for now in 0..5_000 {
        window.record(&names, &Seen { is_complete: true, ..Seen::default() }, at(now));
    }
    assert!(window.n_looks() <= 700, "{}", window.n_looks());
}

#[test]
fn pages_of_metrics_are_read_by_partition() {
    let text = "# TYPE forwarder_data_read_total counter\n\
        forwarder_data_read_total{vertex=\"cat\",partition_name=\"b-0\",replica=\"0\"} 7\n\
        forwarder_data_read_total{vertex=\"cat\",partition_name=\"b-1\",replica=\"0\"} 5\n\
        forwarder_data_read_total{vertex=\"cat\",partition_name=\"b-0\",extra=\"x\"} 3\n\
        vertex_pending_messages_raw{partition_name=\"b-0\"} -1\n";
    let page = read_page(text, "b-0").unwrap();
    assert_eq!((page.read["b-0"], page.read["b-1"], page.pending), (10.0, 5.0, Some(-1.0)));
    let mono = read_page("monovtx_read_total{mvtx_name=\"m\"} 9\nmonovtx_pending_raw 4\n", "m").unwrap();
    assert_eq!((mono.read["m"], mono.pending), (9.0, Some(4.0)));
    assert_eq!(read_page("up 1\n", "b-0"), None, "somebody else's page");
    assert_eq!(read_page("<html>", "b-0"), None);
}

/// What a manifest and looks at the pods and buffers of it lead to.
fn explained(vertex: serde_json::Value, observed: Observed) -> String {
    let spec: api::numaflow::VertexSpec = serde_json::from_value(vertex).unwrap();
    let policy = api::numaflow::vertex_policy(&spec, &Default::default()).unwrap();
    let decision = decide::vertex::decide(at(1000), &policy, &observed, &Memory::default());
    let steps: String = decision.steps.iter().map(|step| format!("  {}\n", step.words())).collect();
    format!("{} -> {}: {}\n{steps}", decision.current, decision.desired, decision.why())
}

fn observed(current: i32, looks: &[(i64, i64, f64)], names: &[Arc<str>]) -> Observed {
    let mut window = Window::default();
    for (now, pending, read) in looks {
        let read = [(names[0].to_string(), *read)].into();
        let pods = vec![PodCounters { uid: "p".into(), created: Some(at(0)), read }];
        let waiting = vec![Some(Waiting { pending: *pending, ack_pending: 0 })];
        let seen = Seen { waiting, pods, is_complete: true, ready: current, downstream_usage: 0.0 };
        window.record(names, &seen, at(*now));
    }
    Observed {
        current,
        desired: current,
        ready: current,
        phase: "Running".into(),
        rolling_update: false,
        last_scaled_at: Some(at(0)),
        ready_since: None,
        partitions: window.partitions(at(880), |_| false),
        downstream: Vec::new(),
        samples: window.samples(at(880)),
        template: None,
    }
}

#[test]
fn the_pod_that_is_ready_for_longest_counts() {
    let pod = |is_ready: &str, since: i64, deleted: Option<i64>| {
        Arc::new(from_json(json!({
            "metadata": {"name": "p", "deletionTimestamp": deleted.map(seconds)},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": is_ready, "lastTransitionTime": seconds(since)},
            ]},
        })))
    };
    assert_eq!(ready_since(&[]), None);
    assert_eq!(ready_since(&[pod("False", 10, None), pod("True", 5, Some(30))]), None, "starting, ending");
    let pods = [pod("True", 50, None), pod("True", 40, None), pod("False", 10, None)];
    assert_eq!(ready_since(&pods), Some(at(40)));
}

/// targetSeconds 3, 2 replicas, 10000 messages a second and 60000 pending: 60000 / (3 × 10000 / 2) = 4.
#[test]
fn the_source_of_the_example_gets_four_replicas() {
    let vertex = json!({"name": "in", "pipelineName": "p", "source": {"http": {}}, "scale": {"targetProcessingSeconds": 3}});
    let looks: Vec<(i64, i64, f64)> = (0..20).map(|n| (900 + n * 5, 60_000, n as f64 * 50_000.0)).collect();
    let explained = explained(vertex, observed(2, &looks, &["in".into()]));
    expect![[r#"
        2 -> 4: in asks for 4
          in: 60000 pending, 10000/s with 2 ready, to be done in 3 s: wants 4
          in asks for 4
          10000/s arrive and a busy pod does 5000/s: at 0.85 of that, 3 are needed
          between 0 and 50
          in one step
    "#]]
    .assert_eq(&explained);
}

/// A length of 50000, 80 % of it usable, 90 % of that taken: from 36000 on there is back pressure.
#[test]
fn the_buffer_of_the_example_presses_from_36000_on() {
    let vertex = |name: &str| {
        json!({"name": name, "pipelineName": "p", "udf": {"container": {"image": "x"}},
               "limits": {"bufferMaxLength": 50000, "bufferUsageLimit": 80}})
    };
    let looks: Vec<(i64, i64, f64)> = (0..20).map(|n| (900 + n * 5, 30_000, n as f64 * 500.0)).collect();
    let edges: Vec<decide::vertex::Edge> =
        serde_json::from_value(json!([{"from": "a", "to": "b"}, {"from": "b", "to": "c"}])).unwrap();
    let mut all = String::new();
    for (pressed, pending) in [("b", 35_999), ("b", 36_000), ("c", 36_000)] {
        let mut window = Window::default();
        let waiting = vec![Some(Waiting { pending, ack_pending: 0 })];
        window.record(&["x".into()], &Seen { waiting, is_complete: true, ..Seen::default() }, at(990));
        let buffers = [(pressed, window.buffers(at(880), 40_000))].into();
        let mut observed = observed(4, &looks, &["x".into()]);
        observed.downstream = downstream("a", &edges, &buffers);
        all += &format!("{pressed} holds {pending}\n{}", explained(vertex("a"), observed));
    }
    expect![[r#"
        b holds 35999
        4 -> 6: up by at most 2 at a time, so not yet 10
          x: 30000 pending, 10000 of 40000 places free with 4 ready, 25000 wanted: wants 10
          x asks for 10
          100/s arrive and a busy pod does 25/s: at 0.85 of that, 5 are needed
          between 0 and 50
          up by at most 2 at a time, so not yet 10
        b holds 36000
        4 -> 3: b is full (36000 of 40000), so one fewer feeds it
          x: 30000 pending, 10000 of 40000 places free with 4 ready, 25000 wanted: wants 10
          x asks for 10
          between 0 and 50
          b is full (36000 of 40000), so one fewer feeds it
        c holds 36000
        4 -> 4: c is full (36000 of 40000), so more would only fill what lies between
          x: 30000 pending, 10000 of 40000 places free with 4 ready, 25000 wanted: wants 10
          x asks for 10
          between 0 and 50
          c is full (36000 of 40000), so more would only fill what lies between
    "#]]
    .assert_eq(&all);
    assert_eq!(
        Kind::Udf,
        api::numaflow::vertex_policy(&serde_json::from_value(vertex("a")).unwrap(), &Default::default())
            .unwrap()
            .kind
    );
}
