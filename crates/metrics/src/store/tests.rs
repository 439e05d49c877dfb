use expect_test::{Expect, expect};
use promql::{Budget, Limits, MatchOp, Matcher, STALE, SeriesSource, TimeRange, Value, is_stale};
use proptest::prelude::*;

use super::*;

const SECOND: Millis = 1_000;

fn labels(text: &str) -> Labels {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let pairs = rest.split_whitespace().filter_map(|p| p.split_once('='));
    Labels::from_pairs(pairs.chain([(promql::METRIC_NAME, name)]))
}

fn batch(samples: &[(&str, f64)]) -> Batch {
    let mut batch = Batch::new();
    for (series, value) in samples {
        batch.push_fresh(labels(series), *value, None);
    }
    batch
}

fn scrape(store: &mut Store, target: &str, seconds: Millis, samples: &[(&str, f64)]) {
    store.commit(target, seconds * SECOND, batch(samples)).unwrap();
}

/// Every series with its samples, `x` for stale.
fn dump(store: &Store) -> String {
    dump_view(&store.view())
}

fn dump_view(view: &View) -> String {
    let mut lines = Vec::new();
    let everything = TimeRange { min: Millis::MIN, max: Millis::MAX };
    let budget = Budget::new(Limits::default());
    view.select(&[], everything, &budget, &mut |series| {
        let samples = series.timestamps.iter().zip(series.values).map(|(t, v)| {
            let value = if is_stale(*v) { "x".to_string() } else { v.to_string() };
            format!("{}:{value}", t / SECOND)
        });
        lines.push(format!("{} {}\n", series.labels, samples.collect::<Vec<_>>().join(" ")));
        Ok(())
    })
    .unwrap();
    lines.sort();
    lines.concat()
}

fn check(store: &Store, expected: Expect) {
    expected.assert_eq(&dump(store));
}

fn ask(store: &Store, query: &str, seconds: Millis) -> Vec<(String, f64)> {
    let result = promql::query_instant(query, &store.view(), seconds * SECOND, Limits::default()).unwrap();
    let Value::Vector(samples) = result.value else { panic!("not a vector: {result:?}") };
    samples.into_iter().map(|s| (s.labels.to_string(), s.point.value)).collect()
}

/// Scrapes, ends, evictions and expiry go on; who holds a view sees none of it.
#[test]
fn a_view_stays_as_it_was() {
    let options = Options { retention: 60 * SECOND, max_series: 20, ..Options::default() };
    let mut store = Store::new(options);
    let mut views = Vec::new();
    for n in 0..200 {
        let all: Vec<String> = (n / 5..n / 5 + 8).map(|i| format!("m i={i}")).collect();
        let samples: Vec<(&str, f64)> = all.iter().map(|series| (series.as_str(), n as f64)).collect();
        scrape(&mut store, if n % 3 == 0 { "t" } else { "u" }, n, &samples);
        let view = store.view();
        views.push((dump_view(&view), view));
    }
    assert!(store.counters().evicted > 0);
    for (then, view) in &views {
        assert_eq!(dump_view(view), *then);
    }
}

#[test]
fn missing_series_and_failed_scrapes_end_series() {
    let mut store = Store::default();
    scrape(&mut store, "t", 5, &[("a", 1.0), ("b", 1.0)]);
    scrape(&mut store, "t", 10, &[("a", 2.0)]);
    scrape(&mut store, "t", 15, &[("a", 3.0), ("c", 1.0)]);
    scrape(&mut store, "t", 20, &[]);
    scrape(&mut store, "t", 25, &[]);
    scrape(&mut store, "t", 30, &[("b", 4.0)]);
    check(
        &store,
        expect![[r#"
        {__name__="a"} 5:1 10:2 15:3 20:x
        {__name__="b"} 5:1 10:x 15:x 20:x 30:4
        {__name__="c"} 15:1 20:x
    "#]],
    );
    assert_eq!(ask(&store, "b", 9), [(r#"{__name__="b"}"#.to_string(), 1.0)]);
    assert_eq!(ask(&store, "b", 29), [], "a stale series is absent at once, not after the lookback");
    assert_eq!(ask(&store, "sum_over_time(b[1m])", 30)[0].1, 5.0);
    assert_eq!(ask(&store, "rate(a[1m])", 30)[0].1, 2.0 * 15.0 / 10.0 / 60.0);
    // Six scrapes, the one at 25 s had nothing to end.
    let figures = store.view().figures();
    assert_eq!((figures.timestamp_buckets, figures.series_count, figures.total_points), (5, 3, 6));
    assert_eq!(store.view().latest(), Some(30 * SECOND));
}

#[test]
fn a_sample_counts_once_per_scrape_and_time_goes_forward() {
    let mut store = Store::default();
    scrape(&mut store, "t", 5, &[("a", 1.0), ("a", 2.0)]);
    assert_eq!(store.counters().duplicates, 1);
    let late = store.commit("t", 5 * SECOND, batch(&[("a", 3.0)]));
    assert_eq!(late.unwrap_err(), Error::NotNewer { time: 5_000, last: 5_000 });
    check(
        &store,
        expect![[r#"
        {__name__="a"} 5:1
    "#]],
    );
    assert!(store.commit("unknown", 0, Batch::new()).unwrap().learned.is_empty());
    assert_eq!(store.view().figures().timestamp_buckets, 1, "nothing to end makes no row");
}

#[test]
fn matchers_select_by_index_and_by_value() {
    let mut store = Store::default();
    scrape(&mut store, "t1", 5, &[("a x=1 y=1", 1.0), ("a x=2", 2.0), ("b x=1", 3.0), ("b", 4.0)]);
    scrape(&mut store, "t2", 6, &[("a x=10", 5.0)]);
    let queries = [
        "a",
        r#"a{x="1"}"#,
        r#"a{x=~"1.*"}"#,
        r#"{x="1"}"#,
        r#"{__name__=~"a|b",x!="1"}"#,
        r#"{__name__=~".+",x=""}"#,
        r#"a{x=~"1|2",y=""}"#,
        r#"a{x="3"}"#,
        r#"a{z=~".+"}"#,
        r#"{__name__!="a",x!~"2|"}"#,
    ];
    let mut out = String::new();
    for query in queries {
        let mut values: Vec<f64> = ask(&store, query, 10).into_iter().map(|(_, v)| v).collect();
        values.sort_by(f64::total_cmp);
        out += &format!("{query:32} {values:?}\n");
    }
    expect![[r#"
        a                                [1.0, 2.0, 5.0]
        a{x="1"}                         [1.0]
        a{x=~"1.*"}                      [1.0, 5.0]
        {x="1"}                          [1.0, 3.0]
        {__name__=~"a|b",x!="1"}         [2.0, 4.0, 5.0]
        {__name__=~".+",x=""}            [4.0]
        a{x=~"1|2",y=""}                 [2.0]
        a{x="3"}                         []
        a{z=~".+"}                       []
        {__name__!="a",x!~"2|"}          [3.0]
    "#]]
    .assert_eq(&out);

    let x = |op, value| Matcher::new("x", op, value).unwrap();
    let range = TimeRange { min: 0, max: 5_500 };
    let selectors = [vec![x(MatchOp::Regex, "1.*")], vec![x(MatchOp::Equal, "2")]];
    let found = store.view().series_labels(&selectors, range, &Budget::new(Limits::default())).unwrap();
    assert_eq!(found, [labels("a x=1 y=1"), labels("a x=2"), labels("b x=1")]);
}

#[test]
fn old_samples_series_and_targets_are_forgotten() {
    let mut store = Store::new(Options { retention: 60 * SECOND, ..Options::default() });
    for t in 0..100 {
        let early = if t < 10 { &[("a", 1.0), ("early", 1.0)][..] } else { &[("a", 1.0)] };
        scrape(&mut store, "t", t * 5, early);
        // From now - 60 s to now, both included.
        assert_eq!(store.view().figures().timestamp_buckets as i64, (t + 1).min(13), "at {t}");
    }
    assert_eq!(store.n_series(), 1, "the early one is gone");
    assert!(store.n_points < 13 + 24 + 2, "{} points held", store.n_points);
    assert_eq!(ask(&store, "count_over_time(a[1h])", 495)[0].1, 13.0);
    store.expire(600 * SECOND);
    assert_eq!((store.n_series(), store.targets.len(), store.n_points), (0, 0, 0));
    scrape(&mut store, "t", 605, &[("a", 7.0)]);
    check(
        &store,
        expect![[r#"
        {__name__="a"} 605:7
    "#]],
    );
}

#[test]
fn a_full_store_evicts_what_ended_and_refuses_what_is_too_much() {
    let mut store = Store::new(Options { max_series: 4, ..Options::default() });
    scrape(&mut store, "good", 5, &[("a pod=g", 1.0), ("old pod=g", 1.0)]);
    scrape(&mut store, "good", 10, &[("a pod=g", 1.0)]);
    scrape(&mut store, "churning", 5, &[("c i=1", 1.0), ("c i=2", 1.0)]);
    let kept = store.commit("churning", 10 * SECOND, batch(&[("c i=3", 1.0), ("c i=4", 1.0)])).unwrap();
    // One ended series could make room (`old`), then everything was alive.
    assert_eq!((kept.n_samples, store.counters().evicted, store.counters().refused), (1, 1, 1));
    for t in 3..20 {
        let name = format!("c i={}", t + 10);
        scrape(&mut store, "churning", t * 5, &[(&name, 1.0)]);
        scrape(&mut store, "good", t * 5, &[("a pod=g", 1.0)]);
    }
    assert_eq!(ask(&store, "count_over_time(a[2m])", 95)[0].1, 19.0, "the other target is not harmed");
    assert!(store.n_series() <= 4);
    assert_eq!(ask(&store, "c", 95)[0].0, r#"{__name__="c", i="29"}"#);
}

#[test]
fn a_reference_to_an_evicted_series_is_noticed() {
    let mut store = Store::new(Options { max_series: 1, ..Options::default() });
    let mut first = Batch::new();
    first.push_fresh(labels("a"), 1.0, Some(("a".into(), 0)));
    let (_, a, _) = store.commit("t", SECOND, first).unwrap().learned.remove(0);
    scrape(&mut store, "t", 2, &[]);
    scrape(&mut store, "u", 2, &[("b", 1.0)]);
    let mut known = Batch::new();
    known.push_known(a, 2.0);
    assert_eq!(store.commit("t", 3 * SECOND, known.clone()).unwrap_err(), Error::Gone);
    assert_eq!(
        store.commit("u", 3 * SECOND, known).unwrap_err(),
        Error::Gone,
        "the slot is another series now"
    );
}

#[test]
fn beyond_the_limit_on_points_history_gets_shorter() {
    let mut store = Store::new(Options { max_points: 200, ..Options::default() });
    for t in 1..200 {
        scrape(&mut store, "t", t * 5, &[("a", t as f64), ("b", 1.0), ("c", 1.0), ("d", 1.0)]);
    }
    assert!(store.n_points <= 200 + 4 * 25, "{}", store.n_points);
    assert_eq!(ask(&store, "a", 995)[0].1, 199.0);
    assert!(ask(&store, "count_over_time(a[30m])", 995)[0].1 >= 20.0);
}

/// What the store holds is what a list of samples would hold, whatever came and went.
#[derive(Debug, Clone)]
struct Step {
    target: u8,
    after: Millis,
    present: Vec<u8>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..3_u8, 1..40_i64, prop::collection::vec(0..5_u8, 0..5));
    prop::collection::vec(step.prop_map(|(target, after, present)| Step { target, after, present }), 1..120)
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn columns_hold_what_was_scraped(steps in steps()) {
        let retention = 300;
        let mut store = Store::new(Options { retention: retention * SECOND, ..Options::default() });
        let mut model: std::collections::BTreeMap<(u8, u8), Vec<(Millis, f64)>> = Default::default();
        let mut now = 0;
        for Step { target, after, present } in steps {
            now += after;
            let names: Vec<String> = present.iter().map(|s| format!("s{s} t={target}")).collect();
            let samples: Vec<(&str, f64)> = names.iter().map(|n| (n.as_str(), now as f64)).collect();
            scrape(&mut store, &target.to_string(), now, &samples);
            for series in 0..5_u8 {
                let column = model.entry((target, series)).or_default();
                if present.contains(&series) {
                    column.push((now, now as f64));
                } else if column.last().is_some_and(|(_, v)| !is_stale(*v)) {
                    column.push((now, STALE));
                }
            }
            store.expire(now * SECOND);
        }
        for ((target, series), column) in model {
            let alive = |t: Millis| t >= now - retention;
            let expected: Vec<(Millis, u64)> =
                column.into_iter().filter(|(t, v)| alive(*t) && !is_stale(*v)).map(|(t, v)| (t, v.to_bits())).collect();
            let matchers = [("__name__", format!("s{series}")), ("t", target.to_string())]
                .map(|(n, v)| Matcher::new(n, MatchOp::Equal, &v).unwrap());
            let mut held = Vec::new();
            store.view().select(&matchers, TimeRange { min: 0, max: Millis::MAX }, &Budget::new(Limits::default()), &mut |s| {
                assert!(s.timestamps.is_sorted() && s.timestamps.len() == s.values.len());
                held.extend(s.timestamps.iter().zip(s.values).filter(|(_, v)| !is_stale(**v)).map(|(t, v)| (t / SECOND, v.to_bits())));
                Ok(())
            }).unwrap();
            prop_assert_eq!(held, expected);
        }
    }
}
