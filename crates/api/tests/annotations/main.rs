//! Annotations of all kinds, most of them spoilt: each turns off its own feature at most, and the reason names it.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod law;

use api::slimfaas::{Annotations, MOST_PROBLEMS, PREFIX, Problem, Settings, names, read};
use proptest::prelude::*;

/// Every annotation, with a value that it takes.
const GOOD: [(&str, &str); 16] = [
    ("Function", "true"),
    ("ReplicasMin", "2"),
    ("ReplicasAtStart", "3"),
    ("TimeoutSecondBeforeSetReplicasMin", "60"),
    ("DependsOn", r#"["mysql","queue"]"#),
    (
        "Schedule",
        r#"{"TimeZoneID":"Europe/Paris","Default":{"WakeUp":["08:00"],"ScaleDownTimeout":[{"Time":"19:00","Value":300}]}}"#,
    ),
    (
        "Scale",
        r#"{"ReplicaMax":20,"ScrapeIntervalMilliseconds":2000,"Triggers":[{"MetricType":"AverageValue","Query":"sum(rate(x{job=\"${app}\"}[1m]))","Threshold":0.5}],"Behavior":{"ScaleUp":{"StabilizationWindowSeconds":0,"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}]}}}"#,
    ),
    ("ReplicasStartAsSoonAsOneFunctionRetrieveARequest", "true"),
    ("NumberParallelRequest", "4"),
    ("NumberParallelRequestPerPod", "5"),
    (
        "Configuration",
        r#"{"DefaultSync":{"HttpTimeout":5},"DefaultAsync":{"HttpTimeout":7,"TimeoutRetries":[1,2],"HttpStatusRetries":[429]}}"#,
    ),
    ("SubscribeEvents", "made,Private:paid,Public:sent"),
    ("DefaultVisibility", "Private"),
    ("PathsStartWithVisibility", "Private:/admin,/open"),
    ("DefaultTrust", "Untrusted"),
    ("DefaultTrusted", "Untrusted"),
];

const UNKNOWN: [&str; 3] = ["ReplicaMin", "Job", "schedule"];

/// What to put where a number or a word stands.
const HOSTILE: [&str; 14] = [
    "-1",
    "-99999999999999999999",
    "99999999999999999999",
    "2147483648",
    "4294967296",
    "1e999",
    "-0.0",
    "NaN",
    "null",
    "[]",
    "{}",
    "Mars/Olympus",
    "25:61",
    "\u{0}",
];

/// A good value, spoilt at one of its words.
fn spoilt() -> impl Strategy<Value = String> {
    let good = prop::sample::select(&GOOD[..]).prop_map(|(_, value)| value);
    (good, any::<prop::sample::Index>(), prop::sample::select(&HOSTILE[..]), 0..3).prop_map(
        |(good, place, hostile, how)| {
            let is_in_word = |at: usize| good.as_bytes()[at].is_ascii_alphanumeric();
            let starts: Vec<usize> =
                (0..good.len()).filter(|at| is_in_word(*at) && (*at == 0 || !is_in_word(at - 1))).collect();
            let start = starts[place.index(starts.len())];
            let end = (start..good.len()).find(|at| !is_in_word(*at)).unwrap_or(good.len());
            match how {
                0 => good[..start].to_owned(),
                1 => format!("{}{hostile}{}", &good[..start], &good[end..]),
                _ => format!("{}{hostile}{}", &good[..start], &good[start..]),
            }
        },
    )
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => spoilt(),
        2 => prop::sample::select(&GOOD[..]).prop_map(|(_, value)| value.to_owned()),
        1 => prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned),
        1 => ".{0,40}",
        1 => r#"[\[\]{}",:a-z0-9-]{0,30}"#,
        1 => (1..2_000usize).prop_map(|depth| "[".repeat(depth)),
    ]
}

/// Some annotations keep their good value, so that there is something to harm.
fn annotation() -> impl Strategy<Value = (String, String)> {
    let good = prop::sample::select(&GOOD[..]).prop_map(|(name, value)| (name, value.to_owned()));
    let names: Vec<&str> = GOOD.iter().map(|(name, _)| *name).chain(UNKNOWN).collect();
    let any = (prop::sample::select(names), value());
    prop_oneof![good, any].prop_map(|(name, value)| (format!("{PREFIX}{name}"), value))
}

fn annotations(most: usize) -> impl Strategy<Value = Annotations> {
    prop::collection::vec(annotation(), 0..=most).prop_map(|pairs| pairs.into_iter().collect())
}

proptest! {
    #![proptest_config(repeatable::cases(2_048))]

    #[test]
    fn each_harms_only_itself(template in annotations(10), object in annotations(3)) {
        law::each_harms_only_itself(&template, &object);
    }
}

/// Else there would be nothing to harm.
#[test]
fn good_values_are_taken_and_are_not_the_defaults() {
    let mut all: Vec<&str> = GOOD.iter().map(|(name, _)| *name).collect();
    let mut known: Vec<&str> = names().collect();
    all.sort_unstable();
    known.sort_unstable();
    assert_eq!(all, known);
    for (name, value) in GOOD {
        let pairs = [("Function", "true"), (name, value)];
        let given: Annotations = pairs.map(|(name, value)| (format!("{PREFIX}{name}"), value.into())).into();
        let (settings, problems) = read("shop", "cart", Some(&given), None).unwrap();
        assert_eq!(problems, [], "{name}");
        assert_eq!(settings == Settings::default(), name == "Function", "{name}: {settings:?}");
    }
}

/// As much as Kubernetes lets an object have.
const ALL_BYTES: usize = 256 << 10;

/// A value of this many items that fills an object, and what is made of its number.
fn filled(item: impl Fn(usize) -> String, before: &str, after: &str, between: &str) -> String {
    let mut value = before.to_owned();
    for n in 0.. {
        let next = item(n);
        if value.len() + between.len() + next.len() + after.len() + 100 > ALL_BYTES {
            break;
        }
        if n > 0 {
            value += between;
        }
        value += &next;
    }
    value + after
}

/// Annotations that are as large as they can be, each bad in as many places as it can be. Read in a time that grows with
/// their size and no faster: a list of names must not be looked through for each of its names.
#[test]
fn many_bad_items_are_few_problems() {
    let trigger = |n| format!(r#"{{"Query":"","Threshold":-{n}}}"#);
    let long = "x".repeat(ALL_BYTES - 200);
    for (name, value, told) in [
        ("SubscribeEvents", filled(|_| "Private:".into(), "", "", ","), MOST_PROBLEMS + 1),
        ("PathsStartWithVisibility", filled(|n| format!("{n}"), "", "", ","), MOST_PROBLEMS + 1),
        ("DependsOn", filled(|n| format!("n{n}"), "", "", ","), 1),
        ("DependsOn", filled(|n| format!("\"n{n}\""), "[", "]", ","), 1),
        ("Scale", filled(trigger, r#"{"Triggers":["#, "]}", ","), 1),
        ("Scale", format!(r#"{{"Triggers":[{}]}}"#, vec![trigger(1); 100].join(",")), MOST_PROBLEMS + 1),
        ("Scale", format!(r#"{{"Triggers":[{{"Query":"{}","Threshold":1}}]}}"#, "${app}+".repeat(30_000)), 1),
        ("Schedule", filled(|_| r#""08:30""#.into(), r#"{"Default":{"WakeUp":["#, "]}}", ","), 1),
        ("Schedule", format!(r#"{{"TimeZoneID":"{long}"}}"#), 1),
        ("Configuration", format!(r#"{{"{long}":1}}"#), 1),
        (
            "Configuration",
            format!(r#"{{"DefaultAsync":{{"TimeoutRetries":[{}]}}}}"#, vec!["-1"; 80_000].join(",")),
            1,
        ),
        ("DefaultVisibility", long.clone(), 1),
        ("Function", long.clone(), 1),
    ] {
        assert!(value.len() <= ALL_BYTES, "{name}");
        let pairs = [("ReplicasMin", "1"), (name, &value)];
        let given: Annotations = pairs.map(|(name, value)| (format!("{PREFIX}{name}"), value.into())).into();
        let (_, problems) = read("shop", &"n".repeat(253), Some(&given), None).unwrap();
        law::are_few_and_short(&problems);
        let of_it = problems.iter().filter(|problem| problem.annotation.ends_with(name)).count();
        assert_eq!((of_it, problems.len()), (told, told), "{name}: {problems:?}");
    }
}

#[test]
fn of_many_annotations_that_there_are_not_the_number_is_told() {
    let mut given: Annotations = (0..9_000).map(|n| (format!("{PREFIX}no-{n}"), String::new())).collect();
    given.insert(format!("{PREFIX}Function"), "true".into());
    let (_, problems) = read("shop", "cart", Some(&given), None).unwrap();
    law::are_few_and_short(&problems);
    assert_eq!(problems.len(), MOST_PROBLEMS + 1);
    assert_eq!(problems[0], Problem::new(PREFIX, "there are 8990 more annotations that do nothing"));
}
