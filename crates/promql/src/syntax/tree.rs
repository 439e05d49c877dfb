//! The tree that Prometheus's `/api/v1/parse_query` answers with.

use serde_json::{Value as Json, json};

use super::ast::{Binary, Expr, Node, Select, When};
use super::print;
use crate::format;
use crate::labels::METRIC_NAME;
use crate::plan::{At, Cardinality, Kind};

pub(super) fn json(expr: &Expr) -> Json {
    match &expr.node {
        Node::Aggregate { op, param, expr, grouping } => json!({
            "type": "aggregation",
            "op": op.name(),
            "expr": json(expr),
            "param": param.as_deref().map(json),
            "grouping": grouping.labels,
            "without": grouping.without,
        }),
        Node::Binary(binary) => operation(binary),
        Node::Call { function, args } => json!({
            "type": "call",
            "func": {
                "name": function.name,
                "argTypes": function.args.iter().map(|kind| type_name(*kind)).collect::<Vec<_>>(),
                "variadic": function.variadic,
                "returnType": type_name(function.result),
            },
            "args": args.iter().map(json).collect::<Vec<_>>(),
        }),
        Node::Unary { is_minus, expr } => {
            json!({ "type": "unaryExpr", "op": if *is_minus { "-" } else { "+" }, "expr": json(expr) })
        }
        Node::Paren(inner) => json!({ "type": "parenExpr", "expr": json(inner) }),
        Node::Number { value, .. } => json!({ "type": "numberLiteral", "val": format::plain(*value) }),
        Node::Text(text) => json!({ "type": "stringLiteral", "val": text }),
        Node::Select(select) => selector("vectorSelector", select),
        Node::Window { select, range } => {
            let mut tree = selector("matrixSelector", select);
            tree["range"] = json!(range);
            tree["rangeExpr"] = Json::Null;
            tree
        }
        Node::Subquery { expr, range, step, when } => {
            let mut tree = json!({
                "type": "subquery",
                "expr": json(expr),
                "range": range,
                "rangeExpr": null,
                "step": step.unwrap_or(0),
                "stepExpr": null,
            });
            add_anchor(&mut tree, *when);
            tree
        }
    }
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Scalar => "scalar",
        Kind::Vector => "vector",
        Kind::Matrix => "matrix",
        Kind::String => "string",
    }
}

fn operation(binary: &Binary) -> Json {
    let Binary { op, lhs, rhs, return_bool, matching, .. } = binary;
    let of_vectors = lhs.kind == Kind::Vector && rhs.kind == Kind::Vector;
    let card = match matching.cardinality {
        _ if op.is_set() => "many-to-many",
        Cardinality::ManyToOne => "many-to-one",
        Cardinality::OneToMany => "one-to-many",
        Cardinality::OneToOne => "one-to-one",
    };
    let shown = json!({
        "card": card,
        "labels": matching.labels,
        "on": matching.on,
        "include": matching.include,
        "fillValues": { "lhs": matching.fill_left, "rhs": matching.fill_right },
    });
    json!({
        "type": "binaryExpr",
        "op": op.sign(),
        "lhs": json(lhs),
        "rhs": json(rhs),
        "matching": if of_vectors { shown } else { Json::Null },
        "bool": return_bool,
    })
}

fn selector(kind: &str, select: &Select) -> Json {
    let name = select.name.as_deref().unwrap_or_default();
    let matcher = |name: &str, op: &str, value: &str| json!({ "name": name, "type": op, "value": value });
    let mut matchers: Vec<Json> =
        select.matchers.iter().map(|m| matcher(&m.name, print::sign(m.op), &m.value)).collect();
    // The name is a matcher like the others, and the last of them.
    if !name.is_empty() {
        matchers.push(matcher(METRIC_NAME, "=", name));
    }
    let mut tree = json!({
        "type": kind,
        "name": name,
        "matchers": matchers,
        "anchored": false,
        "smoothed": false,
    });
    add_anchor(&mut tree, select.when);
    tree
}

fn add_anchor(tree: &mut Json, when: When) {
    tree["offset"] = json!(when.offset);
    tree["offsetExpr"] = Json::Null;
    tree["timestamp"] = match when.at {
        Some(At::Time(millis)) => json!(millis),
        _ => Json::Null,
    };
    tree["startOrEnd"] = match when.at {
        Some(At::Start) => json!("start"),
        Some(At::End) => json!("end"),
        _ => Json::Null,
    };
}
