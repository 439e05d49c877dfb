//! Queries that would take gigabytes are refused with next to nothing taken. A process of its own, whose peak is read.
#![allow(clippy::unwrap_used)] // a test, though its helpers are not marked as such

use std::cell::Cell;

use expect_test::expect;
use promql::{Labels, Limits, MemorySource, Steps, query_instant, query_range};

/// The most memory that the process held so far, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn source() -> MemorySource {
    let mut source = MemorySource::new();
    for i in 0..5_000 {
        let labels = Labels::from_pairs([("__name__", "m".to_string()), ("i", i.to_string())]);
        source.push_all(&labels, 0, 1000, &[1.0; 60]).unwrap();
    }
    source
}

#[test]
fn bombs_take_next_to_nothing() {
    let source = source();
    let limits = || Limits { memory: 64 << 20, ..Limits::default() };
    let many = "$0".repeat(2500);
    let times_2500 = |inner: &str| format!(r#"label_replace({inner},"x","{many}","x",".*")"#);
    let seed = r#"label_replace(vector(1),"x","aaaaaaaaaa","","")"#;
    let replaced = (0..3).fold(seed.to_string(), |inner, _| times_2500(&inner));
    let wide = r#"label_replace(m,"x","#.to_string() + &format!("{:?}", "a".repeat(60_000)) + r#","","")"#;
    let joined = (0..30).fold("vector(1)".to_string(), |inner, n| {
        format!(r#"label_join({inner},"x","{}","x","x","x","x","a{n}")"#, "s".repeat(500))
    });
    let matchers: Vec<String> = (0..60).map(|n| format!(r#"l{n}=~"\\pL{{200}}""#)).collect();
    let words: Vec<String> = (0..60).map(|n| format!(r#"l{n}=~"\\w{{200}}""#)).collect();
    let cases = [
        ("label_replace", replaced),
        ("one long value for each of 5,000 series", wide),
        ("label_join", joined),
        ("matchers of letters", format!("m{{{}}}", matchers.join(","))),
        ("matchers of words", format!("m{{{}}}", words.join(","))),
        ("a pattern in label_replace", r#"label_replace(m,"x","","i","\\pL{1000}")"#.to_string()),
        ("steps", "m or on (i) (m + 1) or (m + 2)".to_string()),
    ];
    let before = peak();
    let mut out = String::new();
    for (what, query) in cases {
        let result = match what {
            "steps" => {
                let steps = Steps { start: 0, end: 59_000, step: 10 };
                query_range(&query, &source, steps, limits())
            }
            _ => query_instant(&query, &source, 50_000, limits()),
        };
        let answer = match result {
            Ok(_) => "answered".to_string(),
            Err(error) => error.to_string().chars().take(300).collect(),
        };
        out += &format!("{what}: {answer}\n");
    }
    expect![[r#"
        label_replace: the query needs more than 65536 bytes in one label value: narrow its selectors, its range or its steps
        one long value for each of 5,000 series: the query needs more than 67108864 bytes of memory: narrow its selectors, its range or its steps
        label_join: the query needs more than 65536 bytes in one label value: narrow its selectors, its range or its steps
        matchers of letters: cannot parse the query: 1:3: invalid regular expression "\\pL{200}": it takes more than 262144 bytes once compiled: use fewer or smaller repetitions and classes
        matchers of words: answered
        a pattern in label_replace: invalid regular expression in label_replace(): \pL{1000}: it takes more than 262144 bytes once compiled: use fewer or smaller repetitions and classes
        steps: the query needs more than 67108864 bytes of memory: narrow its selectors, its range or its steps
    "#]].assert_eq(&out);
    let taken = peak() - before;
    assert!(taken <= 200, "took {taken} MiB, with 64 MiB for each query");
}

/// However the time is spent, the query notices that it is over: whoever asks after the tenth look is told to stop.
#[test]
fn every_kind_of_work_ends_in_time() {
    let source = source();
    let steps = Steps { start: 0, end: 59_000, step: 50 };
    for query in [
        "topk(3000, m)",
        "quantile(0.5, m)",
        "sum by (i) (m)",
        "count_values(\"v\", m)",
        "m + on (i) m",
        "m and on (i) m",
        "m or m",
        "-m",
        "m > 0",
        "clamp_max(m, 1)",
        "label_replace(m, \"x\", \"$1\", \"i\", \"(.*)\")",
        "label_join(m, \"x\", \"-\", \"i\")",
        "sort_by_label(m, \"i\")",
        "limit_ratio(0.5, m)",
        "absent_over_time(m[1m])",
        "quantile_over_time(0.5, m[1m])",
        "max_over_time(m[1m:1s])",
        "histogram_quantile(0.5, label_replace(m, \"le\", \"$1\", \"i\", \"(.*)\"))",
        "info(m)",
    ] {
        for is_range in [false, true] {
            let looks = Cell::new(0);
            let interrupted = || {
                looks.set(looks.get() + 1);
                looks.get() > 10
            };
            let limits = Limits { interrupted: Some(&interrupted), ..Limits::default() };
            let result = match is_range {
                true => query_range(query, &source, steps, limits),
                false => query_instant(query, &source, 50_000, limits),
            };
            assert_eq!(result.map(|_| ()), Err(promql::Error::Interrupted), "{query}");
            assert_eq!(looks.get(), 11, "{query} went on after it was told to stop");
        }
    }
}
