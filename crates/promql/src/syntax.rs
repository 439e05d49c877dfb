//! A query as written, for people and editors: laid out, as a tree, or as the selector that it is.

use std::time::SystemTime;

use promql_parser::label::{MatchOp, Matchers};
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{
    AggregateExpr, AtModifier, BinaryExpr, Call, Expr, LabelModifier, Offset, VectorMatchCardinality,
    VectorSelector, token,
};
use serde_json::{Value as Json, json};

use crate::error::{Error, Result};
use crate::format;
use crate::labels::METRIC_NAME;
use crate::plan::{self, Node};
use crate::source::Matcher;

/// The query laid out over as many lines as it needs.
pub fn pretty(query: &str) -> Result<String> {
    Ok(checked(query)?.prettify())
}

/// The query as the tree that Prometheus's `/api/v1/parse_query` answers with.
pub fn syntax_tree(query: &str) -> Result<Json> {
    Ok(tree(&checked(query)?))
}

/// The matchers of a selector such as `up{job="x"}`, without range, offset or anything around it.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>> {
    let plan = plan::parse(text)?;
    match &plan.root {
        Node::Select(select) if select.anchor.at.is_none() && select.anchor.offset == 0 => {
            Ok(select.matchers.clone())
        }
        _ => Err(Error::Parse(format!("{text:?} is not a selector: write for example up{{job=\"x\"}}"))),
    }
}

/// `1h30m`, `50s`, `0`, in milliseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    let mut total: Option<i64> = None;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |i| digits + i);
        let unit: i64 = match &rest[digits..unit_end] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total = Some(total.unwrap_or(0).checked_add(number.checked_mul(unit)?)?);
        rest = &rest[unit_end..];
    }
    total
}

/// What the parser lets through but no engine can evaluate is refused here too.
fn checked(query: &str) -> Result<Expr> {
    plan::parse(query)?;
    plan::expression(query)
}

fn tree(expr: &Expr) -> Json {
    match expr {
        Expr::Aggregate(aggregate) => aggregation(aggregate),
        Expr::Binary(binary) => operation(binary),
        Expr::Call(call) => function_call(call),
        Expr::Unary(unary) => json!({ "type": "unaryExpr", "op": "-", "expr": tree(&unary.expr) }),
        Expr::Paren(paren) => json!({ "type": "parenExpr", "expr": tree(&paren.expr) }),
        Expr::NumberLiteral(number) => json!({ "type": "numberLiteral", "val": format::plain(number.val) }),
        Expr::StringLiteral(text) => json!({ "type": "stringLiteral", "val": text.val }),
        Expr::VectorSelector(select) => selector("vectorSelector", select),
        Expr::MatrixSelector(window) => {
            let mut tree = selector("matrixSelector", &window.vs);
            tree["range"] = json!(window.range.as_millis() as u64);
            tree["rangeExpr"] = Json::Null;
            tree
        }
        Expr::Subquery(subquery) => {
            let mut tree = json!({
                "type": "subquery",
                "expr": tree(&subquery.expr),
                "range": subquery.range.as_millis() as u64,
                "rangeExpr": null,
                "step": subquery.step.map_or(0, |step| step.as_millis() as u64),
                "stepExpr": null,
            });
            add_anchor(&mut tree, subquery.at.as_ref(), subquery.offset.as_ref());
            tree
        }
        // No extension is ever registered, and `checked` refuses them.
        Expr::Extension(_) => Json::Null,
    }
}

fn aggregation(aggregate: &AggregateExpr) -> Json {
    let (grouping, without) = match &aggregate.modifier {
        Some(LabelModifier::Include(labels)) => (labels.labels.clone(), false),
        Some(LabelModifier::Exclude(labels)) => (labels.labels.clone(), true),
        None => (Vec::new(), false),
    };
    json!({
        "type": "aggregation",
        "op": aggregate.op.to_string(),
        "expr": tree(&aggregate.expr),
        "param": aggregate.param.as_deref().map(tree),
        "grouping": grouping,
        "without": without,
    })
}

fn operation(binary: &BinaryExpr) -> Json {
    let modifier = binary.modifier.as_ref();
    let of_vectors = [&binary.lhs, &binary.rhs].iter().all(|side| side.value_type() == ValueType::Vector);
    let is_set = matches!(binary.op.id(), token::T_LAND | token::T_LOR | token::T_LUNLESS);
    let (card, include) = match modifier.map(|m| &m.card) {
        _ if is_set => ("many-to-many", Vec::new()),
        Some(VectorMatchCardinality::ManyToOne(labels)) => ("many-to-one", labels.labels.clone()),
        Some(VectorMatchCardinality::OneToMany(labels)) => ("one-to-many", labels.labels.clone()),
        _ => ("one-to-one", Vec::new()),
    };
    let (labels, on) = match modifier.and_then(|m| m.matching.as_ref()) {
        Some(LabelModifier::Include(labels)) => (labels.labels.clone(), true),
        Some(LabelModifier::Exclude(labels)) => (labels.labels.clone(), false),
        None => (Vec::new(), false),
    };
    let fill = modifier.map(|m| &m.fill_values);
    let matching = json!({
        "card": card,
        "labels": labels,
        "on": on,
        "include": include,
        "fillValues": { "lhs": fill.and_then(|f| f.lhs), "rhs": fill.and_then(|f| f.rhs) },
    });
    json!({
        "type": "binaryExpr",
        "op": binary.op.to_string(),
        "lhs": tree(&binary.lhs),
        "rhs": tree(&binary.rhs),
        "matching": if of_vectors { matching } else { Json::Null },
        "bool": binary.return_bool(),
    })
}

fn function_call(call: &Call) -> Json {
    json!({
        "type": "call",
        "func": {
            "name": call.func.name,
            "argTypes": call.func.arg_types.iter().map(|t| t.to_string()).collect::<Vec<_>>(),
            "variadic": call.func.variadic,
            "returnType": call.func.return_type.to_string(),
        },
        "args": call.args.args.iter().map(|arg| tree(arg)).collect::<Vec<_>>(),
    })
}

fn selector(kind: &str, select: &VectorSelector) -> Json {
    let name = select.name.as_deref().unwrap_or_default();
    let mut tree = json!({
        "type": kind,
        "name": name,
        "matchers": matchers(&select.matchers, name),
        "anchored": false,
        "smoothed": false,
    });
    add_anchor(&mut tree, select.at.as_ref(), select.offset.as_ref());
    tree
}

/// The name is a matcher like the others, and the last of them.
fn matchers(parsed: &Matchers, name: &str) -> Vec<Json> {
    let matcher = |name: &str, op: &str, value: &str| json!({ "name": name, "type": op, "value": value });
    let mut all: Vec<Json> = parsed
        .matchers
        .iter()
        .map(|m| {
            let op = match m.op {
                MatchOp::Equal => "=",
                MatchOp::NotEqual => "!=",
                MatchOp::Re(_) => "=~",
                MatchOp::NotRe(_) => "!~",
            };
            matcher(&m.name, op, &m.value)
        })
        .collect();
    if !name.is_empty() {
        all.push(matcher(METRIC_NAME, "=", name));
    }
    all
}

fn add_anchor(tree: &mut Json, at: Option<&AtModifier>, offset: Option<&Offset>) {
    let millis = |d: &std::time::Duration| d.as_millis() as i64;
    tree["offset"] = json!(match offset {
        None => 0,
        Some(Offset::Pos(d)) => millis(d),
        Some(Offset::Neg(d)) => -millis(d),
    });
    tree["offsetExpr"] = Json::Null;
    tree["timestamp"] = match at {
        Some(AtModifier::At(time)) => match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => json!(millis(&after)),
            Err(before) => json!(-millis(&before.duration())),
        },
        _ => Json::Null,
    };
    tree["startOrEnd"] = match at {
        Some(AtModifier::Start) => json!("start"),
        Some(AtModifier::End) => json!("end"),
        _ => Json::Null,
    };
}

#[cfg(test)]
mod tests {
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
        let cases =
            [("1h30m", Some(5_400_000)), ("0", Some(0)), ("1d", Some(86_400_000)), ("250ms", Some(250))];
        for (text, expected) in
            cases.into_iter().chain(["", "5", "s", "5x", "1.5s", "-5s"].map(|t| (t, None)))
        {
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
}
