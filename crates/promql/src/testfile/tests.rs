use expect_test::expect;

use super::*;
use crate::engine::Engine;

/// The runner must be able to fail: each of these expectations is wrong in one way.
#[test]
fn wrong_expectations_fail() {
    let report = run(
        r#"
load 1m
    m{a="x"} 0+60x10
    m{a="y"} 0 60 stale
    h {{schema:0 sum:1 count:1}}x10

eval instant at 5m m
    m{a="x"} 300

eval instant at 5m m
    m{a="x"} 301

eval instant at 5m m
    m{a="x"} 300
    m{a="y"} 60

eval instant at 5m m

eval instant at 1m sort_desc(m)
    expect ordered
    m{a="y"} 60
    m{a="x"} 60

eval instant at 5m m
    expect fail

eval instant at 5m rate(m[5m])
    expect no_info
    {a="x"} 1

eval instant at 5m rate(m[2m])
    expect info msg: PromQL info: something else (1:6)
    {a="x"} 1

eval instant at 5m scalar(m)
    301

eval range from 0 to 2m step 1m m
    m{a="x"} 0 60 120
    m{a="y"} 0 60 _

eval range from 0 to 2m step 1m m
    m{a="x"} 0 60 120
    m{a="y"} 0 60 60

eval instant at 5m sum({__name__=~"m|h"})
    {} 300

eval instant at 5m rate(m[1m+1m])
    {} 300

eval instant at 1m m[1m]
    expect range vector from 1m to 1m step 1m
    m{a="x"} 60
    m{a="y"} 60

eval instant at 5m "text"
    expect string "other"

eval instant at 5m m +
    {} 1
"#,
        &Engine::default(),
    )
    .unwrap();
    let shown: Vec<String> = report
        .cases
        .iter()
        .map(|c| match &c.outcome {
            Outcome::Passed => format!("{}: passed", c.line),
            Outcome::Failed(why) => format!("{}: {why}", c.line),
            Outcome::Skipped(why) => format!("{}: skipped, {why}", c.line),
        })
        .collect();
    expect![[r#"
        7: passed
        10: m at 300000 ms: {__name__="m", a="x"}: expected [Point { time: 0, value: 301.0 }], got [Point { time: 0, value: 300.0 }]
        13: m at 300000 ms: expected series {__name__="m", a="y"} is missing
        17: m at 300000 ms: unexpected series {__name__="m", a="x"} [Point { time: 0, value: 300.0 }]
        19: sort_desc(m) at 60000 ms: {__name__="m", a="x"} is out of order, at position 1
        24: expected an error, got a result
        27: rate(m[5m]) at 300000 ms: unexpected info annotations: ["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"m\""]
        31: rate(m[2m]) at 300000 ms: expected info annotation like Exactly("PromQL info: something else"), got ["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"m\""]
        35: scalar(m) at 300000 ms: expected Some(301.0), got the scalar 300
        38: passed
        42: {__name__="m", a="y"}: expected [Point { time: 0, value: 0.0 }, Point { time: 60000, value: 60.0 }, Point { time: 120000, value: 60.0 }], got [Point { time: 0, value: 0.0 }, Point { time: 60000, value: 60.0 }]
        46: skipped, native histogram
        49: skipped, experimental: arithmetic in durations
        52: passed
        57: "text" at 300000 ms: expected Some("other"), got the string "text"
        60: cannot parse the query: 1:4: unexpected end of input, expected an expression"#]].assert_eq(&shown.join("\n"));
}

#[test]
fn errors_of_the_file_name_the_line() {
    let cases = [
        "nonsense",
        "load",
        "load 5x\n m 1",
        "load 1m\n m 1x",
        "eval instant m",
        "eval instant at 1m m\n expect maybe",
    ];
    let shown = cases.map(|text| run(text, &Engine::default()).unwrap_err().to_string()).join("\n");
    expect![[r#"
        line 1: "nonsense" is no command: use load, clear or eval
        line 1: load needs an interval
        line 1: "5x" is no duration: write for example 30s, 1h30m, 0
        line 2: expected a repetition of at most 1000000, got ""
        line 1: expected `eval instant at TIME QUERY` or `eval range from TIME to TIME step TIME QUERY`
        line 2: unknown expectation "maybe""#]]
    .assert_eq(&shown);
}
