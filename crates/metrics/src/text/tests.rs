use std::fmt::Write;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// One line per sample, or the error that ends the body.
fn read(body: &[u8], format: Format, limits: Limits) -> String {
    let mut out = String::new();
    let mut parser = match Parser::new(body, format, limits) {
        Ok(parser) => parser,
        Err(error) => return format!("error: {error}\n"),
    };
    loop {
        match parser.next_sample() {
            Ok(Some(sample)) => {
                write!(out, "{:?}", sample.name).unwrap();
                for Label { name, value } in sample.labels {
                    write!(out, " {name:?}={value:?}").unwrap();
                }
                write!(out, " = {}", sample.value).unwrap();
                if let Some(time) = sample.timestamp {
                    write!(out, " @{time}").unwrap();
                }
                out.push('\n');
            }
            Ok(None) => return out,
            Err(error) => {
                writeln!(out, "error: {error}").unwrap();
                return out;
            }
        }
    }
}

fn check(body: &str, expected: Expect) {
    expected.assert_eq(&read(body.as_bytes(), Format::Prometheus, Limits::default()));
}

#[test]
fn the_classic_format() {
    check(
        "# HELP http_requests_total The total number of HTTP requests.\n\
         # TYPE http_requests_total counter\n\
         http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
         http_requests_total{method=\"post\",code=\"400\"}    3 -1\n\
         \n\
         \t spaced { a = \"1\" , b = \"2\" , } \t 4.5e-3\r\n\
         no_labels 12.47\n\
         empty{} +Inf\n\
         job:recorded:sum -Inf\n\
         nothing NaN\n\
         path{dir=\"C:\\\\DIR\\\\\",text=\"say \\\"hi\\\"\\nbye\\t\",city=\"Zürich \\ü\"} 1458255915\n\
         last 1",
        expect![[r#"
            "http_requests_total" "method"="post" "code"="200" = 1027 @1395066363000
            "http_requests_total" "method"="post" "code"="400" = 3 @-1
            "spaced" "a"="1" "b"="2" = 0.0045
            "no_labels" = 12.47
            "empty" = inf
            "job:recorded:sum" = -inf
            "nothing" = NaN
            "path" "dir"="C:\\DIR\\" "text"="say \"hi\"\nbye\\t" "city"="Zürich \\ü" = 1458255915
            "last" = 1
        "#]],
    );
}

#[test]
fn quoted_names() {
    check(
        "{\"http.server.duration\"} 1\n\
         {\"http.server.duration\",\"service.name\"=\"a\",plain=\"b\"} 2\n\
         {\"say \\\"hi\\\"\" , x=\"y\",} 3\n\
         classic{\"dotted.label\"=\"v\"} 4\n",
        expect![[r#"
            "http.server.duration" = 1
            "http.server.duration" "service.name"="a" "plain"="b" = 2
            "say \"hi\"" "x"="y" = 3
            "classic" "dotted.label"="v" = 4
        "#]],
    );
}

#[test]
fn open_metrics() {
    let check = |body: &str, expected: Expect| {
        expected.assert_eq(&read(body.as_bytes(), Format::OpenMetrics, Limits::default()));
    };
    check(
        "# TYPE foo histogram\n# UNIT foo seconds\n\
         foo_bucket{le=\"0.1\"} 8 # {} 0.054\n\
         foo_bucket{le=\"1\"} 11 # {trace_id=\"KOO5S4vxi0o\"} 0.67\n\
         foo_bucket{le=\"+Inf\"} 17 1520879607.789 # {trace_id=\"oHg5SJ#YRHA0\"} 9.8 1520879607.789\n\
         foo_created 1520430000.123\n# EOF\n",
        expect![[r#"
            "foo_bucket" "le"="0.1" = 8
            "foo_bucket" "le"="1" = 11
            "foo_bucket" "le"="+Inf" = 17 @1520879607789
            "foo_created" = 1520430000.123
        "#]],
    );
    check(
        "a 1\n",
        expect![[r#"
        "a" = 1
        error: line 1: the body ends without `# EOF`: it was cut off
    "#]],
    );
    check(
        "a 1\n# EOF\nb 2\n",
        expect![[r#"
        "a" = 1
        error: line 3: text after `# EOF`
    "#]],
    );
    assert_eq!(
        Format::from_content_type("application/OpenMetrics-Text; version=1.0.0; charset=utf-8"),
        Format::OpenMetrics
    );
    assert_eq!(Format::from_content_type("text/plain; version=0.0.4"), Format::Prometheus);
}

#[test]
fn mistakes_say_where_they_are() {
    let mut out = String::new();
    for body in [
        "a",
        "a ",
        "a x",
        "a 1 x",
        "a 1 2 3",
        "a 0x1p3",
        "a{",
        "a{b",
        "a{b}",
        "a{b=",
        "a{b=c} 1",
        "a{b=\"c} 1",
        "a{b=\"c\\",
        "a{b=\"c\" d=\"e\"} 1",
        "a{b=\"1\",b=\"2\"} 1",
        "a{__name__=\"b\"} 1",
        "a{=\"b\"} 1",
        "a{,} 1",
        "a{\"b\"} 1",
        "{} 1",
        "{a=\"b\"} 1",
        "{a=\"b\",\"name\"} 1",
        "{\"\"} 1",
        "1a 1",
        "-1",
        "ä 1",
        "good 1\n\nbad{ü=\"1\"} 1",
    ] {
        writeln!(
            out,
            "{body:24} {}",
            read(body.as_bytes(), Format::Prometheus, Limits::default()).trim_end()
        )
        .unwrap();
    }
    expect![[r#"
        a                        error: line 1: "" is not a number
        a                        error: line 1: "" is not a number
        a x                      error: line 1: "x" is not a number
        a 1 x                    error: line 1: "x" is not a timestamp
        a 1 2 3                  error: line 1: "3" is not a timestamp
        a 0x1p3                  error: line 1: "0x1p3" is not a number
        a{                       error: line 1: expected a label name at column 3, found the end of the line
        a{b                      error: line 1: expected `=` at column 4, found the end of the line
        a{b}                     error: line 1: expected `=` at column 4, found '}'
        a{b=                     error: line 1: expected a label value in double quotes at column 5, found the end of the line
        a{b=c} 1                 error: line 1: expected a label value in double quotes at column 5, found 'c'
        a{b="c} 1                error: line 1: expected a closing double quote at column 10, found the end of the line
        a{b="c\                  error: line 1: expected a closing double quote at column 8, found the end of the line
        a{b="c" d="e"} 1         error: line 1: expected `,` or `}` at column 9, found 'd'
        a{b="1",b="2"} 1         error: line 1: label "b" stands twice
        a{__name__="b"} 1        error: line 1: label "__name__" stands twice
        a{="b"} 1                error: line 1: expected a label name at column 3, found '='
        a{,} 1                   error: line 1: expected a label name at column 3, found ','
        a{"b"} 1                 error: line 1: expected `=` at column 6, found '}'
        {} 1                     error: line 1: expected a metric name before the braces or quoted inside them at column 3, found ' '
        {a="b"} 1                error: line 1: expected a metric name before the braces or quoted inside them at column 8, found ' '
        {a="b","name"} 1         error: line 1: expected `=` at column 14, found '}'
        {""} 1                   error: line 1: expected a label name at column 4, found '}'
        1a 1                     error: line 1: expected a metric name at column 1, found '1'
        -1                       error: line 1: expected a metric name at column 1, found '-'
        ä 1                      error: line 1: expected a metric name at column 1, found 'ä'
        good 1

        bad{ü="1"} 1     "good" = 1
        error: line 3: expected a label name at column 5, found 'ü'
    "#]].assert_eq(&out);
}

#[test]
fn limits_have_errors_of_their_own() {
    let small = Limits { line: 20, labels: 2 };
    let read = |body: &[u8]| read(body, Format::Prometheus, small);
    assert_eq!(
        read(b"a 1\n# a comment that is too long\n"),
        "\"a\" = 1\nerror: line 2: 28 bytes are too long for one line, at most 20 are read\n"
    );
    assert_eq!(read(b"a{b=\"\",c=\"\",d=\"\"} 1"), "error: line 1: more than 2 labels on one series\n");
    assert_eq!(read(b"a 1\nb{c=\"\xff\"} 1\n"), "error: line 2: the body is not UTF-8\n");
}

#[test]
fn the_cache_follows_the_order_of_the_target() {
    /// Reads lines of which the cache knows some, gives new ones the next number, and says how each was found.
    fn scrape(cache: &mut SeriesCache<u32>, next: &mut u32, lines: &[&str]) -> Vec<String> {
        let mut learned = Vec::new();
        cache.begin(1);
        let found = lines.iter().map(|line| {
            if let Some((series, n)) = cache.expected(line) {
                return format!("{series} expected {n}");
            }
            let raw = &line[..line.rfind(' ').unwrap()];
            if let Some(series) = cache.find(raw) {
                return format!("{series} found");
            }
            *next += 1;
            learned.push((raw.into(), *next, cache.position()));
            format!("{next} new")
        });
        let found = found.collect();
        cache.finish(learned);
        found
    }
    let (mut cache, mut next) = (SeriesCache::default(), 0);
    let mut scrape = |lines: &[&str]| scrape(&mut cache, &mut next, lines);
    assert_eq!(scrape(&["a 1", "b{x=\"1\"} 1", "c 1"]), ["1 new", "2 new", "3 new"]);
    assert_eq!(scrape(&["a 2", "b{x=\"1\"} 2", "c 2"]), ["1 expected 1", "2 expected 8", "3 expected 1"]);
    // A new line in the middle, and one that begins like another.
    assert_eq!(
        scrape(&["a 3", "ab 3", "b{x=\"1\"} 3", "c 3"]),
        ["1 expected 1", "4 new", "2 expected 8", "3 expected 1"]
    );
    assert_eq!(scrape(&["a 4", "ab 4", "c 4"]), ["1 expected 1", "4 expected 2", "3 found"]);
    assert_eq!(scrape(&["c 5", "b{x=\"1\"} 5"]), ["3 found", "5 new"], "what vanished was forgotten");
    assert_eq!(cache.len(), 2);
    cache.begin(2);
    assert!(cache.is_empty(), "made for other wanted names");
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn no_input_panics(body in prop::collection::vec(any::<u8>(), 0..200), open in any::<bool>()) {
        let format = if open { Format::OpenMetrics } else { Format::Prometheus };
        read(&body, format, Limits { line: 100, labels: 3 });
    }

    /// Text made of the pieces that the grammar is made of gets further than random bytes.
    #[test]
    fn no_near_miss_panics(pieces in prop::collection::vec(
        prop::sample::select(vec!["a", "{", "}", "\"", "\\", "=", ",", " ", "\n", "1", "#", "ü", "NaN", "# EOF", "\t"]), 0..40)) {
        let body = pieces.concat();
        read(body.as_bytes(), Format::Prometheus, Limits::default());
        read(body.as_bytes(), Format::OpenMetrics, Limits::default());
    }

    #[test]
    fn what_is_written_is_read(name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", value in any::<f64>(), time in -9_000_000_000_i64..9_000_000_000,
                               labels in prop::collection::btree_map("[^\u{0}]{1,6}", ".{0,6}", 0..4)) {
        let escape = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let texts: Vec<String> = labels.iter().map(|(n, v)| format!("\"{}\"=\"{}\"", escape(n), escape(v))).collect();
        let body = format!("{name}{{{}}} {value} {time}\n", texts.join(","));
        let mut parser = Parser::new(body.as_bytes(), Format::Prometheus, Limits::default()).unwrap();
        let sample = parser.next_sample().unwrap().unwrap();
        prop_assert_eq!(&sample.name, &name);
        prop_assert_eq!(sample.value.to_bits(), value.to_bits());
        prop_assert_eq!(sample.timestamp, Some(time));
        let read: Vec<(String, String)> = sample.labels.iter().map(|l| (l.name.to_string(), l.value.to_string())).collect();
        prop_assert_eq!(read, labels.into_iter().collect::<Vec<_>>());
    }
}
