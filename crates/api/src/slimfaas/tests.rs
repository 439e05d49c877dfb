use expect_test::{Expect, expect};

use super::*;

fn annotations(pairs: &[(&str, &str)]) -> Annotations {
    pairs.iter().map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned())).collect()
}

fn template(pairs: &[(&str, &str)]) -> Option<(Settings, Vec<Problem>)> {
    read("shop", "cart", Some(&annotations(pairs)), None)
}

/// One annotation each; what became of it.
fn check(cases: &[(&str, &str)], shown: impl Fn(&Settings) -> String, expected: &Expect) {
    let mut out = String::new();
    for (name, value) in cases {
        let (settings, problems) = template(&[("Function", "true"), (name, value)]).unwrap();
        out += &format!("{value:?} -> {}\n", shown(&settings));
        for problem in problems {
            out += &format!("  {}: {}\n", problem.annotation, problem.message);
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn what_makes_a_function() {
    let is_function = |pairs: &[(&str, &str)]| template(pairs).is_some();
    assert!(!is_function(&[]));
    assert!(!is_function(&[("DefaultVisibility", "Private")]), "not an annotation that the guide names");
    assert!(is_function(&[("Function", "True")]));
    assert!(is_function(&[("ReplicasMin", "nonsense")]));
    assert!(!is_function(&[("Function", "false"), ("ReplicasMin", "1")]), "it says itself that it is none");
    // neither yes nor no: not taken for one, which might put it to sleep, but not in silence
    assert!(!is_function(&[("Function", "yes")]));
    let message =
        |value| refused(Some(&annotations(&[("Function", value)])), None).map(|problem| problem.message);
    assert_eq!(message("yes").as_deref(), Some("expected true or false, found \"yes\""));
    assert_eq!((message("true"), message("False"), refused(None, None)), (None, None, None));
}

#[test]
fn defaults() {
    let (settings, problems) = template(&[("Function", "true")]).unwrap();
    assert_eq!((settings, problems), (Settings::default(), vec![]));
}

#[test]
fn the_template_goes_before_the_object() {
    let on_template = annotations(&[("ReplicasMin", "1")]);
    let on_object = annotations(&[("ReplicasMin", "2"), ("ReplicasAtStart", "3")]);
    let (settings, problems) = read("shop", "cart", Some(&on_template), Some(&on_object)).unwrap();
    assert_eq!((settings.scaling.min, settings.scaling.at_start), (1, 3));
    assert_eq!(problems, []);
}

#[test]
fn counts_and_times() {
    check(
        &[
            ("ReplicasMin", " 2 "),
            ("ReplicasMin", "-1"),
            ("ReplicasMin", "99999999999999999999"),
            ("ReplicasMin", "200000"),
            ("ReplicasMin", ""),
            ("ReplicasAtStart", "4"),
            ("TimeoutSecondBeforeSetReplicasMin", "1e3"),
            ("TimeoutSecondBeforeSetReplicasMin", "60"),
            ("NumberParallelRequest", "0"),
            ("NumberParallelRequestPerPod", "7"),
        ],
        |s| {
            let demand::Spec { min, at_start, timeout_seconds, .. } = s.scaling;
            format!("{min} {at_start} {timeout_seconds} {} {}", s.parallel, s.parallel_per_pod)
        },
        &expect![[r#"
            " 2 " -> 2 1 300 10 10
            "-1" -> 0 1 300 10 10
              SlimFaas/ReplicasMin: expected a whole number from 0 to 150000, found "-1"
            "99999999999999999999" -> 0 1 300 10 10
              SlimFaas/ReplicasMin: expected a whole number from 0 to 150000, found "99999999999999999999"
            "200000" -> 0 1 300 10 10
              SlimFaas/ReplicasMin: expected a whole number from 0 to 150000, found "200000"
            "" -> 0 1 300 10 10
              SlimFaas/ReplicasMin: expected a whole number from 0 to 150000, found ""
            "4" -> 0 4 300 10 10
            "1e3" -> 0 1 300 10 10
              SlimFaas/TimeoutSecondBeforeSetReplicasMin: expected a whole number from 0 to 4294967295, found "1e3"
            "60" -> 0 1 60 10 10
            "0" -> 0 1 300 10 10
              SlimFaas/NumberParallelRequest: expected a whole number from 1 to 1000000, found "0"
            "7" -> 0 1 300 10 7
        "#]],
    );
}

#[test]
fn words_and_lists() {
    check(
        &[
            ("ReplicasStartAsSoonAsOneFunctionRetrieveARequest", "TRUE"),
            ("ReplicasStartAsSoonAsOneFunctionRetrieveARequest", "1"),
            ("DependsOn", "mysql, queue ,,processes:node"),
            ("DependsOn", r#"["a","b","a"]"#),
            ("DependsOn", r#"["a",7]"#),
            ("DependsOn", "[a,b]"),
            ("DependsOn", "Not A Name"),
            ("SubscribeEvents", "made,Private:paid,public:sent"),
            ("SubscribeEvents", "Private:"),
            ("DefaultVisibility", "private"),
            ("DefaultVisibility", "secret"),
            ("PathsStartWithVisibility", "Private:/admin,/open,wrong,Public:/admin/public"),
            ("PathsStartWithVisibility", "Privat:/admin,/open"),
            ("DefaultTrust", "Untrusted"),
            ("DefaultTrusted", "untrusted"),
            ("DefaultTrust", "maybe"),
        ],
        |s| {
            let subscriptions: Vec<_> =
                s.subscriptions.iter().map(|s| format!("{} {:?}", s.event, s.visibility)).collect();
            format!(
                "{} {:?} {subscriptions:?} {:?} {:?} {}",
                s.starts_with_any, s.depends_on, s.visibility, s.path_visibility, s.trusted
            )
        },
        &expect![[r#"
            "TRUE" -> true [] [] Public [] true
            "1" -> false [] [] Public [] true
              SlimFaas/ReplicasStartAsSoonAsOneFunctionRetrieveARequest: expected true or false, found "1"
            "mysql, queue ,,processes:node" -> false ["mysql", "queue"] [] Public [] true
            "[\"a\",\"b\",\"a\"]" -> false ["a", "b"] [] Public [] true
            "[\"a\",7]" -> false [] [] Public [] true
              SlimFaas/DependsOn: expected a list of names: [1]: expected a text, found 7 at line 1 column 6
            "[a,b]" -> false [] [] Public [] true
              SlimFaas/DependsOn: expected a list of names: [0]: expected value at line 1 column 2
            "Not A Name" -> false [] [] Public [] true
              SlimFaas/DependsOn: expected names of functions, found "Not A Name"
            "made,Private:paid,public:sent" -> false [] ["made Public", "paid Private", "sent Public"] Public [] true
            "Private:" -> false [] [] Public [] true
              SlimFaas/SubscribeEvents: expected the name of an event, found "Private:"
            "private" -> false [] [] Private [] true
            "secret" -> false [] [] Private [] true
              SlimFaas/DefaultVisibility: expected Public or Private, found "secret": it counts as Private
            "Private:/admin,/open,wrong,Public:/admin/public" -> false [] [] Public [("/admin", Private), ("/open", Public), ("/", Private), ("/admin/public", Public)] true
              SlimFaas/PathsStartWithVisibility: expected a path such as Private:/admin, found "wrong": "/" counts as Private
            "Privat:/admin,/open" -> false [] [] Public [("/admin", Private), ("/open", Public)] true
              SlimFaas/PathsStartWithVisibility: expected a path such as Private:/admin, found "Privat:/admin": "/admin" counts as Private
            "Untrusted" -> false [] [] Public [] false
            "untrusted" -> false [] [] Public [] false
            "maybe" -> false [] [] Public [] false
              SlimFaas/DefaultTrust: expected Trusted or Untrusted, found "maybe": it counts as Untrusted
        "#]],
    );
}

#[test]
fn schedules() {
    check(
        &[
            ("Schedule", r#"{"TimeZoneID":"Europe/Paris","Default":{"WakeUp":["08:30"]}}"#),
            ("Schedule", r#"{"Default":{"ScaleDownTimeout":[{"Time":"8:30","Value":3600}]}}"#),
            ("Schedule", r#"{"TimeZoneID":"Mars/Olympus","Default":{"WakeUp":["08:30"]}}"#),
            ("Schedule", r#"{"Default":{"WakeUp":["25:00"]}}"#),
            ("Schedule", r#"{"Default":{"WakeUp":["08:30"]"#),
            ("Schedule", "[]"),
        ],
        |s| serde_json::to_string(&s.scaling.schedule).unwrap(),
        &expect![[r#"
            "{\"TimeZoneID\":\"Europe/Paris\",\"Default\":{\"WakeUp\":[\"08:30\"]}}" -> {"TimeZoneID":"Europe/Paris","Default":{"WakeUp":["08:30"],"ScaleDownTimeout":[]}}
            "{\"Default\":{\"ScaleDownTimeout\":[{\"Time\":\"8:30\",\"Value\":3600}]}}" -> {"TimeZoneID":"GB","Default":{"WakeUp":[],"ScaleDownTimeout":[{"Time":"08:30","Value":3600}]}}
            "{\"TimeZoneID\":\"Mars/Olympus\",\"Default\":{\"WakeUp\":[\"08:30\"]}}" -> {"TimeZoneID":null,"Default":{"WakeUp":[],"ScaleDownTimeout":[]}}
              SlimFaas/Schedule: TimeZoneID: expected an IANA time zone such as Europe/Paris, found "Mars/Olympus" at line 1 column 28
            "{\"Default\":{\"WakeUp\":[\"25:00\"]}}" -> {"TimeZoneID":null,"Default":{"WakeUp":[],"ScaleDownTimeout":[]}}
              SlimFaas/Schedule: Default.WakeUp[0]: expected a time of day such as 08:30, found "25:00" at line 1 column 30
            "{\"Default\":{\"WakeUp\":[\"08:30\"]" -> {"TimeZoneID":null,"Default":{"WakeUp":[],"ScaleDownTimeout":[]}}
              SlimFaas/Schedule: Default.?: EOF while parsing an object at line 1 column 30
            "[]" -> {"TimeZoneID":"GB","Default":{"WakeUp":[],"ScaleDownTimeout":[]}}
        "#]],
    );
}

#[test]
fn scales() {
    check(
        &[
            ("Scale", r#"{"ReplicaMax":10,"Triggers":[],"Behavior":{}}"#),
            (
                "Scale",
                r#"{"Triggers":[{"Query":"sum(rate(x{namespace=\"${namespace}\",job=\"${app}\"}[1m]))","Threshold":20}]}"#,
            ),
            ("Scale", r#"{"ScrapeIntervalMilliseconds":2000,"Triggers":[{"Query":"x","Threshold":1}]}"#),
            ("Scale", r#"{"ScrapeIntervalMilliseconds":5,"Triggers":[{"Query":"x","Threshold":1}]}"#),
            ("Scale", r#"{"Triggers":[{"Query":"sum(","Threshold":1},{"Query":"x","Threshold":0}]}"#),
            ("Scale", r#"{"Triggers":[{"Query":"","Threshold":-5}]}"#),
            ("Scale", r#"{"ReplicaMax":-1}"#),
            ("Scale", r#"{"ReplicaMax":1e99}"#),
            ("Scale", r#"{"ReplicasMax":3}"#),
            ("Scale", r#"{"Behavior":{"ScaleUp":{"Policies":[{"Type":"Pods","Value":-4}]}}}"#),
            ("Scale", "7"),
            ("Scale", "{"),
        ],
        |s| {
            let scale = s.scaling.scale.as_ref();
            let max = scale.map(|scale| scale.replica_max);
            let queries: Vec<&str> =
                scale.iter().flat_map(|scale| scale.triggers.iter().map(|t| t.query.as_str())).collect();
            format!("{max:?} {queries:?} {:?}", s.scrape_interval)
        },
        &expect![[r#"
            "{\"ReplicaMax\":10,\"Triggers\":[],\"Behavior\":{}}" -> Some(Some(10)) [] None
            "{\"Triggers\":[{\"Query\":\"sum(rate(x{namespace=\\\"${namespace}\\\",job=\\\"${app}\\\"}[1m]))\",\"Threshold\":20}]}" -> Some(None) ["sum(rate(x{namespace=\"shop\",job=\"cart\"}[1m]))"] None
            "{\"ScrapeIntervalMilliseconds\":2000,\"Triggers\":[{\"Query\":\"x\",\"Threshold\":1}]}" -> Some(None) ["x"] Some(2s)
            "{\"ScrapeIntervalMilliseconds\":5,\"Triggers\":[{\"Query\":\"x\",\"Threshold\":1}]}" -> None [] None
              SlimFaas/Scale: ScrapeIntervalMilliseconds: expected a number from 1000 to 600000, found 5
            "{\"Triggers\":[{\"Query\":\"sum(\",\"Threshold\":1},{\"Query\":\"x\",\"Threshold\":0}]}" -> Some(None) ["sum(", "x"] None
              SlimFaas/Scale: Triggers[0].Query: cannot parse the query: 1:5: unexpected end of input, expected an expression
              SlimFaas/Scale: Triggers[1].Threshold: expected a number above 0, found 0
            "{\"Triggers\":[{\"Query\":\"\",\"Threshold\":-5}]}" -> Some(None) [""] None
              SlimFaas/Scale: Triggers[0].Threshold: expected a number above 0, found -5
              SlimFaas/Scale: Triggers[0].Query: expected a query, found nothing
            "{\"ReplicaMax\":-1}" -> None [] None
              SlimFaas/Scale: ReplicaMax: expected a number from 0 to 2147483647, found -1
            "{\"ReplicaMax\":1e99}" -> None [] None
              SlimFaas/Scale: ReplicaMax: expected a whole number of at most 2147483647, found 1e+99 at line 1 column 19
            "{\"ReplicasMax\":3}" -> None [] None
              SlimFaas/Scale: ReplicasMax: unknown field "ReplicasMax", expected one of ReplicaMax, Triggers, Behavior at line 1 column 14
            "{\"Behavior\":{\"ScaleUp\":{\"Policies\":[{\"Type\":\"Pods\",\"Value\":-4}]}}}" -> None [] None
              SlimFaas/Scale: Behavior.ScaleUp.Policies[0].Value: expected a number from 0 to 2147483647, found -4
            "7" -> None [] None
              SlimFaas/Scale: expected an object, found 7 at line 1 column 1
            "{" -> None [] None
              SlimFaas/Scale: ?: EOF while parsing an object at line 1 column 1
        "#]],
    );
}

#[test]
fn configurations() {
    check(
        &[
            ("Configuration", r#"{"DefaultSync":{"HttpTimeout":5}}"#),
            (
                "Configuration",
                r#"{"DefaultAsync":{"HttpTimeout":7,"TimeoutRetries":[1],"HttpStatusRetries":[429]},"DefaultPublish":null}"#,
            ),
            ("Configuration", r#"{"DefaultSync":{"HttpTimeout":0}}"#),
            ("Configuration", r#"{"DefaultAsync":{"TimeoutRetries":[-1]}}"#),
            ("Configuration", r#"{"DefaultAsync":{"HttpStatusRetries":[99]}}"#),
            ("Configuration", r#"{"DefaultSynch":{}}"#),
            ("Configuration", "null"),
        ],
        |s| format!("{:?} {:?} {:?}", s.sync_timeout, s.asynchronous, s.publish),
        &expect![[r#"
            "{\"DefaultSync\":{\"HttpTimeout\":5}}" -> 5s Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] } Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] }
            "{\"DefaultAsync\":{\"HttpTimeout\":7,\"TimeoutRetries\":[1],\"HttpStatusRetries\":[429]},\"DefaultPublish\":null}" -> 120s Attempts { timeout: 7s, delays: [1s], statuses: [429] } Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] }
            "{\"DefaultSync\":{\"HttpTimeout\":0}}" -> 120s Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] } Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] }
              SlimFaas/Configuration: DefaultSync.HttpTimeout: expected seconds from 1 to 604800, found 0
            "{\"DefaultAsync\":{\"TimeoutRetries\":[-1]}}" -> 120s Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] } Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] }
              SlimFaas/Configuration: DefaultAsync.TimeoutRetries: expected numbers from 0 to 604800, found -1
            "{\"DefaultAsync\":{\"HttpStatusRetries\":[99]}}" -> 120s Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] } Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] }
              SlimFaas/Configuration: DefaultAsync.HttpStatusRetries: expected numbers from 100 to 599, found 99
            "{\"DefaultSynch\":{}}" -> 120s Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] } Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] }
              SlimFaas/Configuration: DefaultSynch: unknown field "DefaultSynch", expected one of DefaultSync, DefaultAsync, DefaultPublish at line 1 column 15
            "null" -> 120s Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] } Attempts { timeout: 120s, delays: [2s, 4s, 8s], statuses: [500, 502, 503] }
              SlimFaas/Configuration: expected an object, found null at line 1 column 4
        "#]],
    );
}

#[test]
fn nothing_is_ignored_in_silence() {
    let (_, problems) = template(&[("ReplicasMin", "1"), ("ReplicaMin", "2"), ("Job", "true")]).unwrap();
    let shown: Vec<String> = problems.iter().map(|p| format!("{}: {}", p.annotation, p.message)).collect();
    expect![[r#"
        SlimFaas/Job: jobs are not offered: this annotation does nothing
        SlimFaas/ReplicaMin: there is no such annotation: look for a typing error"#]]
    .assert_eq(&shown.join("\n"));
}

/// The guide's own examples, as they stand there.
#[test]
fn the_guide() {
    let (settings, problems) = template(&[
        ("ReplicasMin", "0"),
        ("ReplicasAtStart", "1"),
        ("TimeoutSecondBeforeSetReplicasMin", "300"),
        ("DependsOn", r#"["another-func-a","another-func-b"]"#),
        (
            "Schedule",
            r#"{
               "TimeZoneID": "Europe/Paris",
               "Default": {
                 "WakeUp": [ "08:00", "13:30" ],
                 "ScaleDownTimeout": [ { "Time": "08:00", "Value": 1800 }, { "Time": "19:00", "Value": 300 } ]
               }
             }
             "#,
        ),
        (
            "Scale",
            r#"{
               "ReplicaMax": 20,
               "Triggers": [ {
                   "MetricType": "AverageValue",
                   "MetricName": "p95_latency",
                   "Query": "histogram_quantile(0.95, sum by (le) ( rate(http_server_requests_seconds_bucket{namespace=\"${namespace}\",job=\"${app}\"}[1m]) ))",
                   "Threshold": 0.500
               } ],
               "Behavior": {
                 "ScaleUp": { "StabilizationWindowSeconds": 0, "Policies": [ { "Type": "Pods", "Value": 4, "PeriodSeconds": 15 } ] },
                 "ScaleDown": { "StabilizationWindowSeconds": 300, "Policies": [ { "Type": "Percent", "Value": 50, "PeriodSeconds": 30 } ] }
               }
             }"#,
        ),
    ])
    .unwrap();
    assert_eq!(problems, []);
    assert_eq!(settings.depends_on.len(), 2);
    let scale = settings.scaling.scale.unwrap();
    assert!(scale.triggers[0].query.contains(r#"{namespace="shop",job="cart"}"#), "{scale:?}");
    assert_eq!(scale.replica_max, Some(20));
    assert_eq!(settings.scaling.timeout_seconds, 300);
}
