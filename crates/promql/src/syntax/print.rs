//! A query as text again: on one line, or laid out where it is longer than a line.

use super::ast::{Binary, Expr, Grouping, Matching, Node, Select, When};
use super::literal::{quote, show_duration};
use crate::format;
use crate::plan::{At, Cardinality};
use crate::source::{MatchOp, Matcher};

const LINE: usize = 100;

pub(super) fn pretty(expr: &Expr, level: usize) -> String {
    let indent = "  ".repeat(level);
    let line = line(expr);
    let is_long = line.len() > LINE;
    match &expr.node {
        Node::Aggregate { op, param, expr, grouping } if is_long => {
            let param = param.as_deref().map(|p| format!("{},\n", pretty(p, level + 1))).unwrap_or_default();
            let head = format!("{indent}{}{}", op.name(), shown_grouping(grouping));
            format!("{head}(\n{param}{}\n{indent})", pretty(expr, level + 1))
        }
        Node::Binary(b) if is_long => {
            let operator = shown_operator(b);
            format!("{}\n{indent}{operator}\n{}", pretty(&b.lhs, level + 1), pretty(&b.rhs, level + 1))
        }
        Node::Call { function, args } if is_long => {
            let args: Vec<String> = args.iter().map(|arg| pretty(arg, level + 1)).collect();
            format!("{indent}{}(\n{}\n{indent})", function.name, args.join(",\n"))
        }
        Node::Paren(inner) if is_long => format!("{indent}(\n{}\n{indent})", pretty(inner, level + 1)),
        Node::Subquery { expr, range, step, when } if is_long => {
            pretty(expr, level) + &shown_subquery(*range, *step, *when)
        }
        // As Prometheus has it: a short subquery is not indented.
        Node::Subquery { .. } => line,
        Node::Unary { is_minus, expr } => {
            format!("{indent}{}{}", if *is_minus { "-" } else { "+" }, pretty(expr, level).trim())
        }
        _ => indent + &line,
    }
}

fn line(expr: &Expr) -> String {
    match &expr.node {
        Node::Number { value, is_duration: true } => show_duration((value * 1000.0).round() as i64),
        Node::Number { value, .. } => format::plain(*value),
        Node::Text(text) => quote(text),
        Node::Select(select) => selector(select) + &at(select.when) + &offset(select.when),
        Node::Window { select, range } => {
            format!(
                "{}[{}]{}{}",
                selector(select),
                show_duration(*range),
                at(select.when),
                offset(select.when)
            )
        }
        Node::Subquery { expr, range, step, when } => line(expr) + &shown_subquery(*range, *step, *when),
        Node::Call { function, args } => {
            format!("{}({})", function.name, args.iter().map(line).collect::<Vec<_>>().join(", "))
        }
        Node::Aggregate { op, param, expr, grouping } => {
            let param = param.as_deref().map(|p| line(p) + ", ").unwrap_or_default();
            format!("{}{}({param}{})", op.name(), shown_grouping(grouping), line(expr))
        }
        Node::Binary(_) => chain(expr),
        Node::Unary { is_minus, expr } => format!("{}{}", if *is_minus { "-" } else { "+" }, line(expr)),
        Node::Paren(inner) => format!("({})", line(inner)),
    }
}

/// A long chain of operators is a deep tree on its left.
fn chain(expr: &Expr) -> String {
    let mut parts = Vec::new();
    let mut first = expr;
    while let Node::Binary(b) = &first.node {
        parts.push(format!(" {} {}", shown_operator(b), line(&b.rhs)));
        first = &b.lhs;
    }
    let mut out = line(first);
    parts.iter().rev().for_each(|part| out.push_str(part));
    out
}

fn shown_operator(b: &Binary) -> String {
    let Matching { cardinality, on, labels, include, fill_left, fill_right } = &b.matching;
    let mut out = b.op.sign().to_string();
    if b.return_bool {
        out += " bool";
    }
    if !labels.is_empty() || *on || *cardinality != Cardinality::OneToOne {
        out += &format!(" {} ({})", if *on { "on" } else { "ignoring" }, names(labels));
    }
    match cardinality {
        Cardinality::ManyToOne => out += &format!(" group_left ({})", names(include)),
        Cardinality::OneToMany => out += &format!(" group_right ({})", names(include)),
        Cardinality::OneToOne => {}
    }
    match (fill_left, fill_right) {
        (Some(left), Some(right)) if left == right => out += &format!(" fill ({})", format::plain(*left)),
        (left, right) => {
            for (word, value) in [("fill_left", left), ("fill_right", right)] {
                if let Some(value) = value {
                    out += &format!(" {word} ({})", format::plain(*value));
                }
            }
        }
    }
    out
}

fn shown_grouping(grouping: &Grouping) -> String {
    match grouping {
        Grouping { labels, without: true } => format!(" without ({}) ", names(labels)),
        Grouping { labels, .. } if !labels.is_empty() => format!(" by ({}) ", names(labels)),
        _ => String::new(),
    }
}

fn names(labels: &[String]) -> String {
    labels.iter().map(|label| name(label)).collect::<Vec<_>>().join(", ")
}

fn name(label: &str) -> String {
    let plain = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !label.starts_with(|c: char| c.is_ascii_digit());
    if plain && !label.is_empty() { label.to_string() } else { quote(label) }
}

fn selector(select: &Select) -> String {
    let mut shown: Vec<String> = select.matchers.iter().map(matcher).collect();
    shown.sort();
    let name = select.name.clone().unwrap_or_default();
    if shown.is_empty() { name } else { format!("{name}{{{}}}", shown.join(",")) }
}

pub(super) fn sign(op: MatchOp) -> &'static str {
    match op {
        MatchOp::Equal => "=",
        MatchOp::NotEqual => "!=",
        MatchOp::Regex => "=~",
        MatchOp::NotRegex => "!~",
    }
}

fn matcher(m: &Matcher) -> String {
    format!("{}{}{}", name(&m.name), sign(m.op), quote(&m.value))
}

fn shown_subquery(range: i64, step: Option<i64>, when: When) -> String {
    let step = step.map(show_duration).unwrap_or_default();
    format!("[{}:{step}]{}{}", show_duration(range), at(when), offset(when))
}

fn at(when: When) -> String {
    match when.at {
        None => String::new(),
        Some(At::Start) => " @ start()".into(),
        Some(At::End) => " @ end()".into(),
        Some(At::Time(millis)) => {
            let (sign, whole) = (if millis < 0 { "-" } else { "" }, millis.unsigned_abs());
            format!(" @ {sign}{}.{:03}", whole / 1000, whole % 1000)
        }
    }
}

fn offset(when: When) -> String {
    match when.offset {
        0 => String::new(),
        offset => format!(" offset {}", show_duration(offset)),
    }
}
