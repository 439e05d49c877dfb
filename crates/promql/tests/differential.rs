//! Asks Prometheus's own engine and ours the same random questions about the same random data.
//!
//! Prometheus's engine is built from the pinned Go module (`tests/oracle`), which takes some minutes the first time.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test, though its helpers are not marked as such

mod generate;

use oracle::ask;
use promql::{Engine, Labels, Limits, METRIC_NAME, MemorySource, Point, STALE, Steps, Value, parse};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::Value as Json;

/// How many data sets, and how many queries to each.
const ROUNDS: usize = 60;
const QUERIES: usize = 150;

#[test]
fn prometheus_answers_alike() {
    ask_both(ROUNDS, |runner| {
        (0..QUERIES).map(|_| generate::query().new_tree(runner).unwrap().current()).collect()
    });
}

/// `or` makes one series of samples whose name is to fall (of `resets`) and to stay. The first step of a query decides,
/// so that an instant may show a name which a range over the same time does not.
#[test]
fn the_first_step_decides_whether_a_name_falls() {
    let labels = Labels::from_pairs([(METRIC_NAME, "a_total"), ("pod", "1")]);
    let series = [(labels.clone(), vec![(0, 1.0), (15_000, STALE), (30_000, 2.0)])];
    let query = || "a_total or resets(a_total[5m])".to_string();
    let instant = |time| (query(), Steps { start: time, end: time, step: 0 });
    let range = |start| (query(), Steps { start, end: 30_000, step: 15_000 });
    let asked = [instant(15_000), instant(30_000), range(15_000), range(0)];
    let source = generate::source(&series);
    let unnamed = labels.without(&[METRIC_NAME]);
    let expected = [&unnamed, &labels, &unnamed, &labels];
    for (((query, steps), theirs), expected) in asked.iter().zip(ask(&series, &asked)).zip(expected) {
        let ours = answer(&source, query, *steps);
        compare(&ours, &theirs, false).unwrap_or_else(|difference| panic!("{steps:?}: {difference}"));
        let shown: Vec<Labels> = ours.unwrap().0.into_iter().map(|(labels, _)| labels).collect();
        assert_eq!(shown, std::slice::from_ref(expected), "{steps:?}");
    }
}

/// Shapes at the edge of the language, over data with NaN, infinities, gaps and stale markers.
#[test]
fn edges_are_treated_alike() {
    let chain = |op: &str, n: usize| vec!["a_total"; n].join(op);
    let mut queries: Vec<String> = [
        // strings
        r"a_total{pod=~`[0-9]`}",
        r"a_total{le=~`\+Inf|0\.1`}",
        r#"label_replace(a_total, "x", `$1`, `pod`, `(.*)`)"#,
        r#"a_total{pod=~'\x30'}"#,
        r#"a_total{pod=~"\u0030|\U00000031"}"#,
        r#"{"a_total"}"#,
        r#"{"a_total", pod="1"}"#,
        r#"a_total{"pod"="1"}"#,
        "a_total{pod=~`\n`}",
        "'a' == 'a'",
        r#""a\"#,
        // numbers and durations
        "a_total > 1_000",
        "vector(1_0.5)",
        "vector(0x1F)",
        "vector(017)",
        "vector(019)",
        "vector(1_)",
        "vector(1__0)",
        "vector(0b1)",
        "vector(.5)",
        "vector(5.)",
        "vector(1e3)",
        "vector(1e)",
        "vector(Inf)",
        "vector(-nan)",
        "vector(5m)",
        "vector(1h30m)",
        "vector(30m1h)",
        "a_total offset 0s",
        "a_total offset 0",
        "a_total offset -0s",
        "a_total offset 1.5",
        "a_total offset -1.5",
        "a_total offset 5m * 2",
        "a_total offset 15s + a_total",
        "a_total[1m] offset 0s",
        "rate(a_total[60])",
        "rate(a_total[60:15])",
        "rate(a_total[0s])",
        "rate(a_total[1m:0s])",
        "a_total @ 1m",
        "a_total @ -1",
        "a_total @ 1.0005",
        "a_total @ start()",
        "a_total @ end() offset 15s",
        "sum_over_time(a_total[1m] @ start())",
        "max_over_time(a_total[1m:15s] @ end())",
        "a_total offset 300y",
        "a_total[99y]",
        // names
        "sum by (a:b) (a_total)",
        "sum by (le, pod,) (a_total)",
        "sum by () (a_total)",
        "sum by (,) (a_total)",
        r#"sum by ("le") (a_total)"#,
        r#"sum by ("a b") (a_total)"#,
        "sum(a_total) by (sum)",
        "sum by (without) (a_total)",
        "sum without (by) (a_total)",
        "sum",
        "sum{}",
        "avg by",
        "and",
        "or or or",
        "offset offset 5m",
        "bool",
        "start",
        "step",
        "group_left",
        "fill + fill",
        "a_total + fill",
        "inf{}",
        "a_total + on () group_left a_total",
        "SUM(a_total)",
        "Rate(a_total[1m])",
        "START()",
        "a_total AND a_total",
        "a:b{c=\"d\"}",
        // patterns
        r#"label_replace(a_total, "x", "$0", "pod", "{")"#,
        r#"label_replace(a_total, "x", "$0", "pod", "a{b}|1")"#,
        r#"label_replace(a_total, "x", "[$1]", "pod", "(.){1}")"#,
        r#"label_replace(a_total, "x", "${1}$$", "pod", "(.)")"#,
        r#"label_replace(a_total, "x", "$1x", "pod", "(.)")"#,
        r#"label_replace(a_total, "x", "$name", "pod", "(?P<name>.)")"#,
        r#"label_replace(a_total, "x", "y", "pod", "(")"#,
        r#"a_total{pod=~"\\d"}"#,
        r#"a_total{pod!~"\\D|\\W"}"#,
        r#"a_total{pod=~"[[:digit:]]"}"#,
        r#"a_total{pod=~"1{1,2}"}"#,
        r#"a_total{pod=~"1**"}"#,
        r#"a_total{pod=~"(?i)1"}"#,
        r#"a_total{pod=~"a{1001}"}"#,
        r#"a_total{pod=~"\\pN"}"#,
        r#"a_total{pod=~"[1&&2]"}"#,
        r#"a_total{pod=~"\\Q1\\E"}"#,
        r#"a_total{pod=~"^1$"}"#,
        r#"a_total{pod=~".*|"}"#,
        r#"a_total{pod=~"(?x)1"}"#,
        // dates
        "year(vector(1e12))",
        "year(vector(1e15))",
        "month(vector(253402300800))",
        "day_of_year(vector(1e13))",
        "days_in_month(vector(-1e12))",
        "day_of_week(vector(-86401))",
        "minute(vector(-1))",
        "day_of_month(vector(4e17))",
        "year(vector(-62135596801))",
        // histograms and smoothing
        "histogram_fraction(0, 1, b_bucket)",
        "histogram_fraction(-1, 0.1, b_bucket)",
        "histogram_fraction(0.5, 2, sum by (le) (b_bucket))",
        "histogram_fraction(NaN, 1, b_bucket)",
        "histogram_fraction(0, Inf, b_bucket)",
        "histogram_fraction(0.05, 0.07, a_total)",
        "histogram_quantile(0.5, b_bucket)",
        "histogram_quantile(NaN, b_bucket)",
        "histogram_quantile(2, a_total)",
        "double_exponential_smoothing(nothing[1m], 2, 2)",
        "double_exponential_smoothing(a_total[1m], 0.5, 0.5)",
        "double_exponential_smoothing(a_total[1m], 1, 0.5)",
        "double_exponential_smoothing(c[17s], 2, 2)",
        // shapes
        "-a_total ^ 2",
        "2 ^ -a_total",
        "-a_total * -1",
        "a_total * 2 % 7 - 1",
        "+a_total",
        "--a_total",
        "-(1) ^ 2",
        "1 - -1",
        "+5",
        "-'a'",
        "a_total == bool 1",
        "1 == 1",
        "1 == bool 1",
        "a_total + bool 1",
        "a_total and 1",
        "a_total + on (pod) 1",
        "a_total and on () a_total",
        "a_total or ignoring (le) fill (1) a_total",
        "sum(a_total, a_total)",
        "topk(a_total)",
        "count_values(1, a_total)",
        "abs(a_total,)",
        "abs()",
        "round(a_total, 2, 3)",
        "info(a_total)",
        "info(a_total, {})",
        "info(a_total, {x=~\".*\"})",
        "info(a_total, a_total)",
        "(a_total)[1m]",
        "(a_total)[1m:15s]",
        "1[1m:15s]",
        "a_total[1m][1m]",
        "a_total[1m:15s][1m:15s]",
        "a_total offset 5s offset 5s",
        "a_total @ 1 @ 2",
        "a_total offset 0s offset 5s",
        "sum(a_total) offset 5s",
        "a_total[1m] + 1",
        "a_total # comment",
        "#",
        "",
        "(",
        ")",
        "a_total)",
        "{}",
        "{pod=\"\"}",
        "{pod=~\".*\"}",
        "a_total{__name__=\"a_total\"}",
        "{__name__=\"a_total\",__name__=~\".+\"}",
        "a_total{pod}",
        "a_total{pod=1}",
    ]
    .map(String::from)
    .into();
    queries.extend([chain(" or ", 150), chain(" and ", 300), chain(" + ", 120)]);
    ask_both(10, |_| queries.clone());
}

/// Well-formed queries with a token left out, doubled or replaced: both parsers take them or both refuse them.
#[test]
fn mangled_queries_are_taken_or_refused_alike() {
    const TOKENS: [&str; 47] = [
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "=",
        "==",
        "!=",
        "=~",
        "!~",
        "<",
        ">=",
        "+",
        "-",
        "*",
        "^",
        "@",
        "and",
        "or",
        "offset",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "bool",
        "fill",
        "sum",
        "topk",
        "rate",
        "abs",
        "start",
        "end",
        "5m",
        "0s",
        "1",
        ".5",
        "1_0",
        "\"x\"",
        "`x`",
        "a_total",
        "pod",
        "a:b",
        "inf",
    ];
    ask_both(40, |runner| {
        (0..500)
            .map(|_| {
                let query = generate::query().new_tree(runner).unwrap().current();
                let mut tokens = split(&query);
                let (at, how, with) = {
                    let drawn =
                        (0..tokens.len().max(1), 0..4usize, 0..TOKENS.len()).new_tree(runner).unwrap();
                    drawn.current()
                };
                match how {
                    0 => drop(tokens.remove(at)),
                    1 => tokens.insert(at, tokens[at].clone()),
                    2 => tokens.insert(at, TOKENS[with].to_string()),
                    _ => tokens[at] = TOKENS[with].to_string(),
                }
                tokens.join(" ")
            })
            .collect()
    });
}

/// Words, numbers with their units, strings, signs.
fn split(query: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_string = false;
    for c in query.chars() {
        let in_word = c.is_alphanumeric() || "_.".contains(c) || in_string;
        let joins = tokens.last().is_some_and(|last| {
            let last = last.chars().last().unwrap_or(' ');
            (in_word && (in_string || last.is_alphanumeric() || "_.".contains(last)))
                || (c == '=' && "=!<>".contains(last))
                || (c == '~' && "=!".contains(last))
        });
        match tokens.last_mut() {
            _ if c == ' ' && !in_string => tokens.push(String::new()),
            Some(last) if joins || (in_string && c == '"') => last.push(c),
            _ => tokens.push(c.to_string()),
        }
        in_string ^= c == '"';
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

/// Asks both engines the queries that are made for each of some random data sets, at an instant and over a range.
fn ask_both(rounds: usize, mut queries: impl FnMut(&mut TestRunner) -> Vec<String>) {
    let mut runner = TestRunner::new(repeatable::cases(1));
    let (mut compared, mut failed) = (0, 0);
    let mut differences: Vec<String> = Vec::new();
    for round in 0..rounds {
        let series = generate::series().new_tree(&mut runner).unwrap().current();
        let source = generate::source(&series);
        let asked: Vec<(String, Steps)> = queries(&mut runner)
            .into_iter()
            .filter(|query| is_determined(query))
            .enumerate()
            .map(|(i, query)| {
                let start = ((round + i) as i64 * 7 % 40) * 10_000;
                let step = if (round + i) % 3 == 0 { 0 } else { 25_000 };
                (query, Steps { start, end: start + 120_000, step })
            })
            .collect();
        for ((query, steps), theirs) in asked.iter().zip(ask(&series, &asked)) {
            compared += 1;
            let ours = answer(&source, query, *steps);
            failed += usize::from(ours.is_err());
            if let Err(difference) = compare(&ours, &theirs, compares(query)) {
                differences.push(format!("{query}\n  at {steps:?}: {difference}"));
            }
        }
    }
    println!("{compared} queries compared; both fail on {failed} of them");
    assert!(
        differences.is_empty(),
        "{} differ:\n{}",
        differences.len(),
        differences[..differences.len().min(60)].join("\n")
    );
}

/// Of equal values Prometheus picks by the order of its maps; what hour NaN is depends on the processor; count_values
/// makes a label of the last, rounded digit, and the remainder of a power is made of such digits alone.
fn is_determined(query: &str) -> bool {
    let is_rounded = query.contains('^') && query.contains('%');
    !is_rounded && !["topk", "bottomk", "limitk", "hour", "count_values"].iter().any(|op| query.contains(op))
}

/// A comparison of vectors brings back a name that was to fall (`rate(a) > rate(b)` is called `a`) if names fall late, as
/// they do in the oracle. By default they fall early in Prometheus, and the name is gone; so it is here.
fn compares(query: &str) -> bool {
    ["==", "!=", "<=", "> on"].iter().any(|op| query.contains(op))
}

type Row = (Labels, Vec<Point>);
type Rows = Vec<Row>;

fn answer(source: &MemorySource, query: &str, steps: Steps) -> Result<(Rows, [bool; 2]), String> {
    let plan = parse(query).map_err(|e| e.to_string())?;
    let engine = Engine::default();
    let result = match steps.step {
        0 => engine.query_instant(&plan, source, steps.start, Limits::default()),
        _ => engine.query_range(&plan, source, steps, Limits::default()),
    };
    let result = result.map_err(|e| e.to_string())?;
    let rows = match result.value {
        Value::Scalar(point) => vec![(Labels::empty(), vec![point])],
        Value::Vector(samples) => samples.into_iter().map(|s| (s.labels, vec![s.point])).collect(),
        Value::Matrix(series) => series.into_iter().map(|s| (s.labels, s.points)).collect(),
        Value::String(_) => vec![],
    };
    Ok((rows, [!result.annotations.warnings().is_empty(), !result.annotations.infos().is_empty()]))
}

fn compare(
    ours: &Result<(Rows, [bool; 2]), String>,
    theirs: &Json,
    without_names: bool,
) -> Result<(), String> {
    let their_error = theirs["error"].as_str().unwrap_or("");
    let (ours, remarks) = match ours {
        Err(_) if !their_error.is_empty() => return Ok(()),
        Err(error) => return Err(format!("we fail, they do not: {error}")),
        Ok(_) if !their_error.is_empty() => return Err(format!("they fail, we do not: {their_error}")),
        Ok(ours) => ours,
    };
    let mut ours = ours.clone();
    let mut theirs_rows: Rows = theirs["series"].as_array().into_iter().flatten().map(row).collect();
    for rows in [&mut ours, &mut theirs_rows] {
        if without_names {
            rows.iter_mut().for_each(|(labels, _)| *labels = labels.without(&[METRIC_NAME]));
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let same_point = |(a, b): (&Point, &Point)| a.time == b.time && same(a.value, b.value);
    let same_row =
        |((l, a), (m, b)): (&Row, &Row)| l == m && a.len() == b.len() && a.iter().zip(b).all(same_point);
    if ours.len() != theirs_rows.len() || !ours.iter().zip(&theirs_rows).all(same_row) {
        return Err(format!("\n    ours   {ours:?}\n    theirs {theirs_rows:?}"));
    }
    let their_remarks = ["warnings", "infos"].map(|kind| theirs[kind].as_u64().unwrap_or(0) > 0);
    if *remarks != their_remarks {
        return Err(format!("warnings and infos: ours {remarks:?}, theirs {their_remarks:?}"));
    }
    Ok(())
}

fn row(json: &Json) -> Row {
    let labels = json["labels"].as_object().into_iter().flatten();
    let labels = Labels::from_pairs(labels.map(|(k, v)| (k.as_str(), v.as_str().unwrap_or(""))));
    let times = json["times"].as_array().into_iter().flatten();
    let bits = json["bits"].as_array().into_iter().flatten();
    let point = |(time, bits): (&Json, &Json)| Point {
        time: time.as_i64().unwrap(),
        value: f64::from_bits(u64::from_str_radix(bits.as_str().unwrap(), 16).unwrap()),
    };
    (labels, times.zip(bits).map(point).collect())
}

/// Up to rounding: sums come in another order, so that what cancels out leaves other digits.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
}
