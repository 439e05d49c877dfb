use kube_cel::cel::Value as Cel;
use serde_json::{Value, json};

use super::{
    Budget, Failure, Names,
    ast::{Expr, Kind},
    eval::eval,
    parse,
    value::{from_json, to_json},
};

fn names() -> Value {
    json!({
        "schema": {
            "metadata": { "name": "shop", "namespace": "prod", "labels": { "app.kubernetes.io/name": "shop" } },
            "spec": {
                "replicas": 3, "ratio": 0.5, "zones": ["b", "a"], "ports": { "http": 80, "admin": 81 },
                "nothing": null, "enabled": true,
            },
        },
        "pods": [{ "name": "p0", "ready": true, "cpu": "500m" }, { "name": "p1", "ready": false, "cpu": "1" }],
    })
}

fn run(source: &str) -> Result<Value, Failure> {
    let expr = parse(source).map_err(|error| Failure::Error(format!("{} at {}", error.message, error.at)))?;
    let given = names();
    let names: Names<'_> = given
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.as_str(), from_json(value, None)))
        .collect();
    let budget = Budget::for_plan();
    let value = eval(&expr, &names, &budget)?;
    Ok(to_json(&value, &budget)?.unwrap_or(json!("<omitted>")))
}

fn check(source: &str, expected: Value) {
    assert_eq!(run(source), Ok(expected), "{source}");
}

fn fails(source: &str, expected: &str) {
    let failure = run(source).expect_err(source);
    assert!(failure.message().contains(expected), "{source}: {}", failure.message());
}

#[test]
fn the_language() {
    check("1 + 2 * 3 - 4 / 2", json!(5));
    check("7 % 4 == 3 && !(1 > 2) || false", json!(true));
    check("-9223372036854775808", json!(i64::MIN));
    check("0x1F + 1", json!(32));
    check("1.5e3", json!(1500));
    check(".5", json!(0.5));
    check("'a' + \"b\" + r'\\n' + '''c'''", json!("ab\\nc"));
    check(r"'\u00e9\x41\101\n'", json!("éAA\n"));
    check("schema.spec.replicas + 1", json!(4));
    check("schema.spec.ratio", json!(0.5));
    check("schema.metadata.namespace", json!("prod"));
    check("schema.metadata.labels['app.kubernetes.io/name']", json!("shop"));
    check("schema.metadata.labels.`app.kubernetes.io/name`", json!("shop"));
    check("has(schema.spec.zones) && !has(schema.spec.missing) && !has(schema.spec.nothing)", json!(true));
    check("schema.spec.enabled ? 'on' : 'off'", json!("on"));
    check("'b' in schema.spec.zones && 'http' in schema.spec.ports && !('x' in {})", json!(true));
    check("{'a': 1, 'b': [1, 2.5, null, true]}", json!({"a": 1, "b": [1, 2.5, null, true]}));
    check("[1, 2,] == [1, 2.0]", json!(true));
    check("1 == 1u && 1 < 1.5 && 2u > 1", json!(true));
    check("1 // one\n + 1", json!(2));
    check("schema.spec.missing == 1 || true", json!(true));
    check("false && schema.spec.missing == 1", json!(false));
    check("1 in [1, 2] ? (1 in [2] ? 'x' : 'y') : 'z'", json!("y"));
    check("'äö'.size()", json!(2));
    check("type(1) == int && type('a') == string", json!(true));
    check("string(true) + string(1) + string(2.5) + string(b'x')", json!("true12.5x"));
    check("int('42') + int(3.9) + int(2u)", json!(47));
    check("double(2) / 4.0", json!(0.5));
    check("timestamp('2026-01-01T00:00:00Z') + duration('90m')", json!("2026-01-01T01:30:00Z"));
    check("timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z')", json!("24h0m0s"));
    check("duration('1.5s')", json!("1.5s"));
}

#[test]
fn macros_of_one_and_two_variables() {
    check("pods.all(p, has(p.name)) && pods.exists(p, p.ready) && pods.exists_one(p, p.ready)", json!(true));
    check("pods.map(p, p.name)", json!(["p0", "p1"]));
    check("pods.map(p, p.ready, p.name)", json!(["p0"]));
    check("pods.filter(p, !p.ready).map(p, p.name)", json!(["p1"]));
    // keys of a map come in their order, whatever the order in memory
    check("schema.spec.ports.map(name, name)", json!(["admin", "http"]));
    check("schema.spec.ports.all(name, port, port > 79 && size(name) > 3)", json!(true));
    check("schema.spec.ports.exists(name, port, port == 81)", json!(true));
    check("schema.spec.ports.existsOne(name, port, port > 80)", json!(true));
    check("schema.spec.zones.transformList(i, zone, string(i) + zone)", json!(["0b", "1a"]));
    check("schema.spec.zones.transformList(i, zone, i > 0, zone)", json!(["a"]));
    check("schema.spec.ports.transformMap(name, port, port + 1000)", json!({"admin": 1081, "http": 1080}));
    check("schema.spec.ports.transformMap(name, port, port == 80, port)", json!({"http": 80}));
    check(
        "schema.spec.ports.transformMapEntry(name, port, {string(port): name})",
        json!({"80": "http", "81": "admin"}),
    );
    check("cel.bind(n, schema.spec.replicas, n * n)", json!(9));
    check("pods.sortBy(p, p.ready).map(p, p.name)", json!(["p1", "p0"]));
    check("[1, 2].map(x, [3].map(x, x + 1)[0] + x)", json!([5, 6]));
    // a round that fails does not matter if another decides
    check("[{'a': 1}, {}].exists(x, x.a == 1)", json!(true));
    check("[{}, {'a': 2}].all(x, x.a == 1)", json!(false));
    fails("schema.spec.zones.transformMapEntry(i, z, {'same': z})", "the key same is made twice");
    fails("pods.all(p, p, true)", "twice");
    fails("pods.all(p.q, true)", "must be a simple name");
}

#[test]
fn optionals() {
    check("schema.spec.?missing.orValue('x')", json!("x"));
    check("schema.spec.?replicas.orValue(0)", json!(3));
    check("schema.?status.?ready.deep.orValue('no')", json!("no"));
    check("pods[?7].hasValue()", json!(false));
    check("pods[?0].name.orValue('')", json!("p0"));
    check("schema.spec.?replicas.optMap(n, n + 1).value()", json!(4));
    check("optional.none().or(optional.of(5)).value()", json!(5));
    check("optional.ofNonZeroValue('').hasValue()", json!(false));
    check("optional.of(1).optFlatMap(x, optional.of(x + 1)).value()", json!(2));
    check("[1, ?optional.none(), ?optional.of(2)]", json!([1, 2]));
    check("{'a': 1, ?'b': optional.none()}", json!({"a": 1}));
    check("optional.none()", json!(null));
}

#[test]
fn libraries_of_kubernetes() {
    check("['b', 'a'].sort().join('-')", json!("a-b"));
    check("'a,b'.split(',').size()", json!(2));
    check("'Hello'.lowerAscii().replace('l', 'L').substring(1, 4)", json!("eLL"));
    check("'%s-%d'.format(['a', 5])", json!("a-5"));
    check("' x '.trim().charAt(0) + strings.quote('q')", json!("x\"q\""));
    check("[[1], [2, 3]].flatten()", json!([1, 2, 3]));
    check("[3, 1, 3].distinct().reverse().slice(0, 1)", json!([1]));
    check("[1, 2].sum() + [4, 5].max() - [4, 5].min()", json!(4));
    check("[1, 2].isSorted() && [1, 2].indexOf(2) == 1 && 'abcb'.lastIndexOf('b') == 3", json!(true));
    check("lists.range(3)", json!([0, 1, 2]));
    check("base64.encode(b'hi') + string(base64.decode('aGk='))", json!("aGk=hi"));
    check("quantity('500m').add(quantity('1')).isGreaterThan(quantity('1'))", json!(true));
    check("quantity('2Gi').asInteger()", json!(2147483648_i64));
    check("isQuantity('x') || isURL('x') || isIP('x') || isCIDR('x') || isSemver('x')", json!(false));
    check("url('https://a.example:8080/x?y=1').getHost()", json!("a.example:8080"));
    check("cidr('10.0.0.0/8').containsIP('10.1.2.3') && ip('::1').family() == 6", json!(true));
    check(
        "string(cidr('10.1.2.0/24').ip()) + string(cidr('10.1.2.3/24').masked().prefixLength())",
        json!("10.1.2.024"),
    );
    check("semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2", json!(true));
    check(
        "'abc 123 45'.find('[0-9]+') + '/' + 'abc 123 45'.findAll('[0-9]+').join('+')",
        json!("123/123+45"),
    );
    check("'abc'.matches('^a.c$')", json!(true));
    check("timestamp('2026-03-01T10:00:00Z').getMonth()", json!(2));
    // kro enables neither
    fails("math.abs(-1)", "unknown function 'abs'");
    fails("sets.equivalent([1], [1])", "unknown function 'equivalent'");
}

#[test]
fn functions_of_kro() {
    check("random.seededString(10, 'test-seed')", json!("5czheg3o5c"));
    check("random.seededString(20, 'test-seed')", json!("5czheg3o5czheg3o5czh"));
    check("random.seededInt(0, 100, 'test-seed')", json!(56));
    check("random.seededInt(30000, 32768, 'my-service')", json!(31247));
    fails("random.seededInt(5, 5, 'x')", "min must be below max");
    check("{'a': 1}.merge({'b': 2})", json!({"a": 1, "b": 2}));
    check("{'a': {'x': 1, 'y': 1}}.merge({'a': {'y': 2}})", json!({"a": {"y": 2}}));
    check("{'a': {'x': 1, 'y': 1}}.deepMerge({'a': {'y': 2}})", json!({"a": {"x": 1, "y": 2}}));
    check("json.marshal({'b': 1, 'a': [true]})", json!(r#"{"a":[true],"b":1}"#));
    check("json.unmarshal('{\"a\": 5}').a + 1", json!(6));
    check("base64.encode(hash.sha256('a')).substring(0, 8)", json!("ypeBEsob"));
    check("base64.encode(hash.md5('abc'))", json!("kAFQmDzST7DWlj99KOF/cg=="));
    check("base64.encode(hash.md5(''))", json!("1B2M2Y8AsgTpgAmY7PhCfg=="));
    check("base64.encode(hash.fnv64a('a'))", json!("r2PcTIYB7Iw="));
    check("lists.setAtIndex([1, 2], 1, 9)", json!([1, 9]));
    check("lists.insertAtIndex([1, 2], 2, 9)", json!([1, 2, 9]));
    check("lists.removeAtIndex([1, 2], 0)", json!([2]));
    check("{'a': 1, 'b': omit()}", json!({"a": 1}));
    check("[1, omit(), 2]", json!([1, 2]));
    check("omit()", json!("<omitted>"));
    check("runtime.newCondition({type: 'X', status: 'True'})", json!({"type": "X", "status": "True"}));
    check("labelSelector({'matchLabels': {'b': '2', 'a': '1'}})", json!("a=1,b=2"));
}

/// What is not there yet is waited for; what is wrong is an error.
#[test]
fn absent_and_wrong_are_told_apart() {
    for source in [
        "schema.spec.missing",
        "schema.status.x",
        "pods[5]",
        "schema.spec.ports['x']",
        "deployment.status",
        "schema.spec.nothing.deeper",
        "optional.none().value()",
        "pods.map(p, p.missing)",
    ] {
        assert!(matches!(run(source), Err(Failure::Pending(_))), "{source}: {:?}", run(source));
    }
    for (source, expected) in [
        ("1 + 'a'", "no such overload: _+_ of int and string"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-(-9223372036854775808)", "integer overflow"),
        ("schema.spec.replicas.x", "type int does not support field selection"),
        ("{'a': 1, 'a': 2}", "the key a is given twice"),
        ("nope(1)", "unknown function 'nope'"),
        ("size(1)", "no such overload"),
        ("size(1, 2)", "takes 1 arguments"),
        ("hash.sha256('a')", "base64.encode"),
        ("18446744073709551615u", "too large"),
        ("quantity('1')", "cannot be written in a field"),
        ("'%s'.format([{}])", "a map has no order"),
        ("1 ? 2 : 3", "a condition must be a bool"),
        ("1 < 'a'", "no such overload"),
    ] {
        match run(source) {
            Err(Failure::Error(message)) => assert!(message.contains(expected), "{source}: {message}"),
            other => panic!("{source}: {other:?}"),
        }
    }
}

#[test]
fn what_is_no_expression() {
    for (source, expected) in [
        ("", "ends too early at 0"),
        ("1 +", "ends too early at 3"),
        ("(1", "expected ')', found the end at 2"),
        ("a.", "expected the name of a field at 2"),
        ("a b", "unexpected 'b' at 2"),
        ("'a", "a string is not closed at 0"),
        ("a @ b", "unexpected character '@' at 2"),
        ("for", "'for' is a reserved word at 0"),
        ("Pod{a: 1}", "objects of a named type cannot be made"),
        ("99999999999999999999", "is not a number of 64 bits"),
        ("has(a)", "has() takes a field"),
        ("'\\q'", "an escape that means nothing"),
        ("a = b", "unexpected '='"),
    ] {
        let error = parse(source).expect_err(source);
        let shown = format!("{} at {}", error.message, error.at);
        assert!(shown.contains(expected), "{source}: {shown}");
    }
}

#[test]
fn the_price_is_bounded() {
    // each of these would run for hours or fill the memory
    for source in [
        "lists.range(1000000000000)",
        "lists.range(2000).map(a, lists.range(2000).map(b, a * b))",
        "lists.range(900000).all(x, x + 1 > x)",
        "'%.999999999f'.format([1.0])",
        "lists.range(100000).distinct()",
        "random.seededString(9000000000, 'x')",
        "lists.range(900000).map(x, 'xxxxxxxxxxxxxxxxxxxxxxxxxx').join('yyyyyyyyyyyyyyyyyyyyyyy')",
    ] {
        let failure = run(source).expect_err(source);
        assert!(
            failure == Failure::OverBudget
                || failure.message().contains("at most")
                || failure.message().contains("from 1 to"),
            "{source}: {failure:?}"
        );
    }
    // thirty bindings, each of two of the last: a gigabyte of text if it were written out
    let mut source = "x30".to_owned();
    for level in (1..=30).rev() {
        source = format!("cel.bind(x{level}, [x{0}, x{0}], {source})", level - 1);
    }
    let source = format!("cel.bind(x0, 'abcdefgh', {source})");
    assert_eq!(run(&source), Err(Failure::OverBudget));
    assert_eq!(run(&format!("json.marshal({source})")), Err(Failure::OverBudget));
    assert_eq!(run(&format!("{source} == {source}")), Err(Failure::OverBudget));
}

#[test]
fn hostile_text_is_refused_in_time() {
    for source in [
        "(".repeat(10_000),
        "[".repeat(10_000),
        "-".repeat(10_000) + "1",
        "!".repeat(10_000) + "true",
        "a".to_owned() + &".b".repeat(7_000),
        vec!["1"; 5_000].join("+"),
        "a?".repeat(5_000),
        "{'a':".repeat(3_000),
        "x".repeat(1_000_000),
        "f(".repeat(5_000),
        "1 ? ".repeat(100) + "2" + &" : 3".repeat(100),
    ] {
        assert!(parse(&source).is_err(), "{}", &source[..20]);
    }
}

/// Both parsers and both machines say the same, as far as the other one goes.
#[test]
fn as_the_cel_crate_has_it() {
    use kube_cel::{KubeCelExt, cel::Context};
    let mut context = Context::default().with_all();
    let given = names();
    for (name, value) in given.as_object().unwrap() {
        context.add_variable_from_value(name.as_str(), from_json(value, None));
    }
    let budget = Budget::for_plan();
    for source in [
        "1 + 2 * 3 - 4 / 2 % 3",
        "1 - 2 - 3",
        "true || false && false",
        "!true == false",
        "1 < 2 == true",
        "-1 + 2",
        "- 1 - -1",
        "2 * -3",
        "true ? 1 : false ? 2 : 3",
        "'a' + 'b' == 'ab' && 1 in [1]",
        "schema.spec.zones[0] + schema.spec.zones[1]",
        "pods.map(p, p.name).filter(n, n != 'p0')",
        "pods.all(p, p.name.startsWith('p'))",
        "pods.exists(p, p.ready ? false : true)",
        "pods.exists_one(p, p.ready)",
        "has(schema.spec.zones)",
        "{'a': [1, {'b': 2}]}.a[1].b",
        "size(pods) + size('abc')",
        "'\\u00e9' + r'\\d' + \"\\\"\"",
        "1.5 + 2.5e1",
        "5u + 0x10u",
        "'b' > 'a' && [1] + [2] == [1, 2]",
        "'x'.contains('x') && 'xyz'.endsWith('z')",
        "[1, 2, 3].map(x, x > 1, x * x)",
        "duration('1h') > duration('59m')",
        "[[1, 2], [3]].map(l, l.size())",
    ] {
        let program = kube_cel::cel::parser::Parser::default().parse(source).expect(source);
        let theirs = Cel::resolve(&program, &context).unwrap_or_else(|why| panic!("{source}: {why}"));
        assert_eq!(run(source), Ok(to_json(&theirs, &budget).unwrap().unwrap()), "{source}");
    }
}

#[test]
fn names_of_macros_are_not_references() {
    let mut found = Vec::new();
    let expr =
        parse("a.map(x, x + b + cel.bind(y, c, y)) + d.all(k, v, k == e) ? f(x) : [lists.range(g)]").unwrap();
    expr.free_names(&mut |name| found.push(name.to_owned()));
    found.sort();
    found.dedup();
    assert_eq!(found, ["a", "b", "c", "d", "e", "g", "x"]);
    let mut n_calls = 0;
    expr.each(&mut |expr: &Expr| n_calls += usize::from(matches!(expr.kind, Kind::Call { .. })));
    assert_eq!(n_calls, 2);
}
