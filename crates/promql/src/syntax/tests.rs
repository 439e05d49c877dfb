use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn a_selector_is_nothing_but_a_selector() {
    let names = |text| parse_selector(text).map(|m| m.into_iter().map(|m| m.name).collect::<Vec<_>>());
    assert_eq!(names(r#"up{job="x"}"#).unwrap(), [METRIC_NAME, "job"]);
    for text in ["up[5m]", "up offset 1m", "up @ 5", "sum(up)", "1", "", "{}", "up up"] {
        assert!(names(text).is_err(), "{text}");
    }
}

#[test]
fn durations_have_units() {
    let cases = [("1h30m", Some(5_400_000)), ("0", Some(0)), ("1d", Some(86_400_000)), ("250ms", Some(250))];
    for (text, expected) in cases.into_iter().chain(["", "5", "s", "5x", "1.5s", "-5s"].map(|t| (t, None))) {
        assert_eq!(parse_duration(text), expected, "{text}");
    }
}

#[test]
fn a_query_is_laid_out() {
    assert_eq!(pretty("sum  by(a)(rate(x[5m]) )").unwrap(), "sum by (a) (rate(x[5m]))");
    assert!(pretty("sum(").is_err());
    let tree = syntax_tree("-up{a!~'b'} offset 5m").unwrap();
    assert_eq!(tree["expr"]["offset"], 300_000);
    assert_eq!(tree["expr"]["matchers"][0], json!({ "name": "a", "type": "!~", "value": "b" }));
}

/// Every error names its place and what was expected there.
#[test]
fn errors_say_where_and_what() {
    let queries = [
        "",
        "   ",
        "#c",
        "sum(",
        "sum)",
        "up up",
        "up{",
        "up{a",
        "up{a=",
        "up{a=b}",
        "up{a=\"b\"",
        "up{a=\"b\" c}",
        "up{=\"b\"}",
        "up[5m",
        "up[",
        "up[5x]",
        "up[5m:",
        "up[5m:1m",
        "up[0s]",
        "up[5m][5m]",
        "rate(up)",
        "rate(up[5m]",
        "rate(up[5m],)",
        "foo(up)",
        "sum by up",
        "sum by (5) (up)",
        "sum by (a b) (up)",
        "sum by (a)",
        "topk(up)",
        "topk(\"x\", up)",
        "1 +",
        "1 + * 2",
        "up and 1",
        "1 == 1",
        "up + bool up",
        "up + on (a) group_left (a) up",
        "up offset",
        "up offset x",
        "up offset 5m offset 5m",
        "sum(up) offset 5m",
        "up @",
        "up @ x",
        "up @ 1 @ 2",
        "\"a",
        "`a",
        "up{a=~\"(\"}",
        "{}",
        "{a=~\".*\"}",
        "up{__name__=\"x\"}",
        "up !",
        "up ! up",
        "$x",
        "up ==",
        "-\"a\"",
        "a\n  + b\n  + c)",
        "abs(1)",
        "abs()",
        "round(up, 1, 2)",
        "1_",
        "1..2",
        "label_replace(up, 1, \"\", \"\", \"\")",
        "up[5m] + 1",
        "(1",
        "up}",
        "by (a)",
        "on",
        "info(up, up)",
        "up{a=~`\\pL{1000}`}",
        "max_of(1)",
        "up[1e99]",
        "up @ 1e99",
        "a or on (x) fill (1) b",
        "\"\\q\"",
    ];
    let mut out = String::new();
    for query in queries {
        let error = crate::parse(query).unwrap_err();
        out += &format!("{query:?} => {error}\n");
        assert!(matches!(error, Error::Parse(_)), "{query}");
    }
    expect![[r##"
        "" => cannot parse the query: 1:1: no expression found in input
        "   " => cannot parse the query: 1:1: no expression found in input
        "#c" => cannot parse the query: 1:1: no expression found in input
        "sum(" => cannot parse the query: 1:5: unexpected end of input, expected an expression
        "sum)" => cannot parse the query: 1:4: unexpected ")", expected an operator or the end of the query
        "up up" => cannot parse the query: 1:4: unexpected identifier "up", expected an operator or the end of the query
        "up{" => cannot parse the query: 1:4: unexpected end of input inside braces, expected "}"
        "up{a" => cannot parse the query: 1:5: unexpected end of input inside braces, expected "}"
        "up{a=" => cannot parse the query: 1:6: unexpected end of input inside braces, expected "}"
        "up{a=b}" => cannot parse the query: 1:6: unexpected identifier "b" in label matching, expected string
        "up{a=\"b\"" => cannot parse the query: 1:9: unexpected end of input inside braces, expected "}"
        "up{a=\"b\" c}" => cannot parse the query: 1:10: unexpected identifier "c" in label matching, expected "," or "}"
        "up{=\"b\"}" => cannot parse the query: 1:4: unexpected <op:=> in label matching, expected identifier or "}"
        "up[5m" => cannot parse the query: 1:6: unclosed left bracket, expected "]"
        "up[" => cannot parse the query: 1:4: unclosed left bracket, expected "]"
        "up[5x]" => cannot parse the query: 1:4: bad number or duration syntax: "5x", expected for example 5m, 1h30m or 100ms
        "up[5m:" => cannot parse the query: 1:7: unclosed left bracket, expected "]"
        "up[5m:1m" => cannot parse the query: 1:9: unclosed left bracket, expected "]"
        "up[0s]" => cannot parse the query: 1:4: duration must be greater than 0
        "up[5m][5m]" => cannot parse the query: 1:7: ranges only allowed for vector selectors
        "rate(up)" => cannot parse the query: 1:6: expected type range vector in call to function "rate", got instant vector
        "rate(up[5m]" => cannot parse the query: 1:12: unexpected end of input in call to function "rate", expected "," or ")"
        "rate(up[5m],)" => cannot parse the query: 1:12: trailing commas not allowed in function call args
        "foo(up)" => cannot parse the query: 1:1: unknown function with name "foo"
        "sum by up" => cannot parse the query: 1:8: unexpected identifier "up" in grouping opts, expected "("
        "sum by (5) (up)" => cannot parse the query: 1:9: unexpected number "5" in grouping opts, expected label
        "sum by (a b) (up)" => cannot parse the query: 1:11: unexpected identifier "b" in grouping opts, expected "," or ")"
        "sum by (a)" => cannot parse the query: 1:11: unexpected end of input in aggregation, expected "("
        "topk(up)" => cannot parse the query: 1:1: wrong number of arguments for aggregate expression provided, expected 2, got 1
        "topk(\"x\", up)" => cannot parse the query: 1:6: expected type scalar in aggregation parameter, got string
        "1 +" => cannot parse the query: 1:4: unexpected end of input, expected an expression
        "1 + * 2" => cannot parse the query: 1:5: unexpected <op:*>, expected an expression, for example up or sum(up)
        "up and 1" => cannot parse the query: 1:1: set operator "and" not allowed in binary scalar expression
        "1 == 1" => cannot parse the query: 1:3: comparisons between scalars must use BOOL modifier
        "up + bool up" => cannot parse the query: 1:4: bool modifier can only be used on comparison operators
        "up + on (a) group_left (a) up" => cannot parse the query: 1:4: label "a" must not occur in ON and GROUP clause at once
        "up offset" => cannot parse the query: 1:10: unexpected end of input in offset, expected number or duration
        "up offset x" => cannot parse the query: 1:11: unexpected identifier "x" in offset, expected number or duration
        "up offset 5m offset 5m" => cannot parse the query: 1:1: offset may not be set multiple times
        "sum(up) offset 5m" => cannot parse the query: 1:1: offset modifier must be preceded by an instant vector selector or range vector selector or a subquery
        "up @" => cannot parse the query: 1:5: unexpected end of input in @, expected timestamp
        "up @ x" => cannot parse the query: 1:6: unexpected identifier "x" in @, expected timestamp
        "up @ 1 @ 2" => cannot parse the query: 1:1: @ <timestamp> may not be set multiple times
        "\"a" => cannot parse the query: 1:1: unterminated quoted string, expected '"'
        "`a" => cannot parse the query: 1:1: unterminated raw string, expected '`'
        "up{a=~\"(\"}" => cannot parse the query: 1:4: invalid regular expression "(": unclosed group
        "{}" => cannot parse the query: 1:1: vector selector must contain at least one non-empty matcher
        "{a=~\".*\"}" => cannot parse the query: 1:1: vector selector must contain at least one non-empty matcher
        "up{__name__=\"x\"}" => cannot parse the query: 1:1: metric name must not be set twice: "up" or "x"
        "up !" => cannot parse the query: 1:4: unexpected character after '!': end of input, expected '=' or '~'
        "up ! up" => cannot parse the query: 1:4: unexpected character after '!': ' ', expected '=' or '~'
        "$x" => cannot parse the query: 1:1: unexpected character: '$'
        "up ==" => cannot parse the query: 1:6: unexpected end of input, expected an expression
        "-\"a\"" => cannot parse the query: 1:1: unary expression only allowed on expressions of type scalar or instant vector, got "string"
        "a\n  + b\n  + c)" => cannot parse the query: 3:6: unexpected ")", expected an operator or the end of the query
        "abs(1)" => cannot parse the query: 1:5: expected type instant vector in call to function "abs", got scalar
        "abs()" => cannot parse the query: 1:1: expected 1 argument(s) in call to "abs", got 0
        "round(up, 1, 2)" => cannot parse the query: 1:1: expected at most 2 argument(s) in call to "round", got 3
        "1_" => cannot parse the query: 1:1: bad number or duration syntax: "1_"
        "1..2" => cannot parse the query: 1:1: bad number or duration syntax: "1..2"
        "label_replace(up, 1, \"\", \"\", \"\")" => cannot parse the query: 1:19: expected type string in call to function "label_replace", got scalar
        "up[5m] + 1" => cannot parse the query: 1:1: binary expression must contain only scalar and instant vector types
        "(1" => cannot parse the query: 1:3: unexpected end of input in bracketed expression, expected ")"
        "up}" => cannot parse the query: 1:3: unexpected "}", expected an operator or the end of the query
        "by (a)" => cannot parse the query: 1:1: unknown function with name "by"
        "on" => cannot parse the query: 1:1: unexpected <on>, expected an expression
        "info(up, up)" => cannot parse the query: 1:10: expected label selectors only
        "up{a=~`\\pL{1000}`}" => cannot parse the query: 1:4: invalid regular expression "\\pL{1000}": it takes more than 262144 bytes once compiled: use fewer or smaller repetitions and classes
        "max_of(1)" => cannot parse the query: 1:1: expected 2 argument(s) in call to "max_of", got 1
        "up[1e99]" => cannot parse the query: 1:4: duration out of range
        "up @ 1e99" => cannot parse the query: 1:6: timestamp out of bounds for @ modifier: 1e99
        "a or on (x) fill (1) b" => cannot parse the query: 1:1: filling in missing series not allowed for set operators
        "\"\\q\"" => cannot parse the query: 1:1: unknown escape sequence \q
    "##]].assert_eq(&out);
}

#[test]
fn what_is_an_experiment_there_is_called_so() {
    for query in
        ["a[1m+5s]", "a[step()]", "a[(2m)*15:1m]", "a[5m:-step()]", "a offset (1m)", "a offset -step()"]
    {
        let error = crate::parse(query).unwrap_err();
        assert!(
            matches!(error, Error::Experimental { what: "arithmetic in durations", .. }),
            "{query}: {error}"
        );
    }
    for query in ["rate(a[5m] anchored)", "a </ 5", "start_timestamp(a)"] {
        let error = crate::parse(query).unwrap_err();
        assert!(matches!(error, Error::Experimental { .. }), "{query}: {error}");
    }
}

#[test]
fn deep_and_long_queries_are_refused() {
    let too_complex = |query: String| matches!(crate::parse(&query), Err(Error::TooComplex { .. }));
    assert!(too_complex("(".repeat(5000)));
    assert!(too_complex(format!("{}1", "-".repeat(5000))));
    assert!(too_complex("x".repeat(MAX_LENGTH + 1)));
    assert!(crate::parse(&vec!["a"; 2000].join(" and ")).is_err());
    assert!(crate::parse(&vec!["a"; 900].join(" or ")).is_ok(), "a chain is no nesting");
    assert!(crate::parse(&format!("a{{x=\"{}\"}}", "((".repeat(3000))).is_ok(), "quoted text does not count");
}

#[test]
fn precedence_is_that_of_prometheus() {
    for (query, same) in [
        ("-a ^ b", "-(a ^ b)"),
        ("-a * b", "(-a) * b"),
        ("2 ^ -1 * 3", "(2 ^ -1) * 3"),
        ("2 ^ 3 ^ 2", "2 ^ (3 ^ 2)"),
        ("a - b - c", "(a - b) - c"),
        ("a or b and c", "a or (b and c)"),
        ("a + b == c * d", "(a + b) == (c * d)"),
        ("a atan2 b + c", "(a atan2 b) + c"),
        ("-a offset 5m", "-(a offset 5m)"),
    ] {
        // Brackets are kept in the tree: only what they group counts.
        fn shape(expr: &Expr) -> String {
            match &expr.node {
                Node::Paren(inner) => shape(inner),
                Node::Binary(b) => format!("[{} {} {}]", shape(&b.lhs), b.op.sign(), shape(&b.rhs)),
                Node::Unary { expr, .. } => format!("[- {}]", shape(expr)),
                _ => print::pretty(expr, 0),
            }
        }
        assert_eq!(shape(&expression(query).unwrap()), shape(&expression(same).unwrap()), "{query}");
    }
}
