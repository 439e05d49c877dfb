//! Their tables for single operations on typed values.

use expect_test::expect;
use merge::apply::typed::{self, Comparison, Type};
use serde_json::Value;

use crate::{
    golang::Expr,
    module, read, types,
    values::{Problem, set_of},
    variable, yaml,
};

#[test]
fn operations_give_what_they_give_there() {
    let folder = module("sigs.k8s.io/structured-merge-diff/v6@v6.3.3").join("typed");
    let mut report = String::new();
    let mut failures = Vec::new();
    for (file, table, rows, check) in [
        ("toset_test.go", "fieldsetCases", "pairs", to_set as Check),
        ("symdiff_test.go", "symdiffCases", "quints", compare),
        ("merge_test.go", "mergeCases", "triplets", merge),
        ("remove_test.go", "removeCases", "quadruplets", remove_and_extract),
    ] {
        let source = read(folder.join(file));
        let (mut run, mut total) = (0, 0);
        for (_, case) in variable(&source, table).elements() {
            let text = |name: &str| text_of(&source, case.field(name).expect(name));
            let schema = types::structured(&yaml(&text("schema")), &text("rootTypeName"));
            let of = Type::Schema { schema: &schema, open: false, object: false };
            for (_, row) in case.field(rows).expect("rows").elements() {
                total += 1;
                match check(row, of) {
                    Ok(()) => run += 1,
                    Err(Problem::Failed(why)) => failures.push(format!("{file}: {}: {why}", text("name"))),
                    Err(Problem::Unsupported(why)) => {
                        report += &format!("  not run: {}: {why}\n", text("name"))
                    }
                }
            }
        }
        report += &format!("{file}: {run} of {total}\n");
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
    expect![[r#"
        toset_test.go: 29 of 29
        symdiff_test.go: 84 of 84
        merge_test.go: 64 of 64
        remove_test.go: 59 of 59
    "#]]
    .assert_eq(&report);
}

type Check = fn(&Expr, Type<'_>) -> Result<(), Problem>;

fn to_set(row: &Expr, of: Type<'_>) -> Result<(), Problem> {
    let object = object(row, 0)?;
    let expected = set_of(&row.elements()[1].1)?;
    let found = typed::to_set(&object, of);
    expect_same(&object.to_string(), &found.to_string(), &expected.to_string())
}

fn compare(row: &Expr, of: Type<'_>) -> Result<(), Problem> {
    let side = |name: &str| parse(row.field(name).expect("a side"));
    let set = |name: &str| set_of(row.field(name).expect("a set"));
    let (old, new) = (side("lhs")?, side("rhs")?);
    let expected = Comparison { removed: set("removed")?, modified: set("modified")?, added: set("added")? };
    let found = typed::compare(&old, &new, of);
    expect_same(&format!("{old} to {new}"), &format!("{found:?}"), &format!("{expected:?}"))?;
    let back = typed::compare(&new, &old, of);
    let expected = Comparison { removed: found.added, modified: found.modified, added: found.removed };
    expect_same(&format!("{new} to {old}"), &format!("{back:?}"), &format!("{expected:?}"))
}

fn merge(row: &Expr, of: Type<'_>) -> Result<(), Problem> {
    let (live, config, expected) = (object(row, 0)?, object(row, 1)?, object(row, 2)?);
    let found = typed::merge(&live, &config, of);
    expect_same(&format!("{live} + {config}"), &found.to_string(), &expected.to_string())
}

fn remove_and_extract(row: &Expr, of: Type<'_>) -> Result<(), Problem> {
    let object_text = |i: usize| row.elements()[i].1.text().expect("YAML");
    let value = object(row, 0)?;
    let set = set_of(&row.elements()[1].1)?;
    for (found, i) in [(typed::remove(&value, &set, of), 2), (typed::extract(&value, &set, of), 3)] {
        // what the test itself cannot read is not checked there, either
        if object_text(i) != "unparseable" {
            let expected = if object_text(i).is_empty() { Value::Null } else { object(row, i)? };
            expect_same(&format!("{i}: {value} and\n{set}"), &found.to_string(), &expected.to_string())?;
        }
    }
    Ok(())
}

/// A string, or that of the variable which stands for it.
fn text_of(source: &str, expr: &Expr) -> String {
    match expr {
        Expr::Name(name) => text_of(source, &variable(source, name)),
        Expr::Call(_, arguments) => text_of(source, &arguments[0]),
        other => other.text().expect("text").to_owned(),
    }
}

fn object(row: &Expr, i: usize) -> Result<Value, Problem> {
    parse(&row.elements()[i].1)
}

fn parse(expr: &Expr) -> Result<Value, Problem> {
    let text = expr.text().expect("YAML");
    // some rows have a brace too many, which their parser does not mind
    let first = serde_json::Deserializer::from_str(text).into_iter().next().and_then(Result::ok);
    let value = first.map_or_else(|| serde_saphyr::from_str(text).ok(), Some);
    value.ok_or_else(|| Problem::Unsupported(format!("not YAML: {text}")))
}

fn expect_same(what: &str, found: &str, expected: &str) -> Result<(), Problem> {
    if found == expected {
        return Ok(());
    }
    Err(Problem::Failed(format!("{what}\nfound    {found}\nexpected {expected}")))
}
