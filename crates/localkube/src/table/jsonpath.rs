//! The part of JSONPath that printer columns use: `.a.b`, `['a.b']`, `[0]`, `[*]`, `[?(@.type=="Ready")]`.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where {
        path: Vec<Step>,
        operator: Operator,
        value: Value,
    },
    /// `..name`: wherever it is.
    Anywhere(String),
    /// What we cannot read finds nothing.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    pub fn parse(text: &str) -> Self {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        Self(steps(text))
    }

    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        walk(&self.0, vec![object])
    }
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix("..") {
            let (name, behind) = field(behind);
            steps.push(Step::Anywhere(name));
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix('.') {
            if behind.is_empty() || behind.starts_with('[') {
                rest = behind;
                continue;
            }
            let (name, behind) = field(behind);
            steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix('[') {
            let Some(end) = closing(behind) else {
                steps.push(Step::Nothing);
                return steps;
            };
            steps.push(bracket(behind[..end].trim()));
            rest = &behind[end + 1..];
        } else {
            let (name, behind) = field(rest);
            steps.push(Step::Field(name));
            rest = behind;
        }
    }
    steps
}

/// Up to the next `.` or `[` that no backslash hides.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Where the bracket that was opened before `text` closes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '(') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']' | ')') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Step {
    if text == "*" {
        return Step::All;
    }
    if let Some(inner) = text.strip_prefix("?(").and_then(|inner| inner.strip_suffix(')')) {
        return condition(inner.trim());
    }
    if let Some(name) = unquote(text) {
        return Step::Field(name);
    }
    text.parse().map_or(Step::Nothing, Step::Index)
}

fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    Some(text.strip_prefix(quote)?.strip_suffix(quote)?.replace('\\', ""))
}

fn condition(text: &str) -> Step {
    const OPERATORS: &[(&str, Operator)] = &[
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let Some(text) = text.strip_prefix('@') else { return Step::Nothing };
    let found =
        OPERATORS.iter().filter_map(|(sign, operator)| text.find(sign).map(|at| (at, *sign, *operator)));
    match found.min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len()))) {
        None => Step::Where { path: steps(text.trim()), operator: Operator::Exists, value: Value::Null },
        Some((at, sign, operator)) => {
            let value = text[at + sign.len()..].trim();
            let value = match unquote(value) {
                Some(text) => Value::String(text),
                None => serde_json::from_str(value).unwrap_or_default(),
            };
            Step::Where { path: steps(text[..at].trim()), operator, value }
        }
    }
}

fn walk<'a>(steps: &[Step], mut values: Vec<&'a Value>) -> Vec<&'a Value> {
    for step in steps {
        values = values.into_iter().flat_map(|value| take(step, value)).collect();
    }
    values
}

fn take<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Field(name), value) => value.get(name).filter(|found| !found.is_null()).into_iter().collect(),
        (Step::Index(index), Value::Array(list)) => {
            let index = if *index < 0 { list.len() as i64 + index } else { *index };
            usize::try_from(index).ok().and_then(|index| list.get(index)).into_iter().collect()
        }
        (Step::All, Value::Array(list)) => list.iter().collect(),
        (Step::All, Value::Object(map)) => map.values().collect(),
        (Step::Where { path, operator, value: wanted }, Value::Array(list)) => {
            list.iter().filter(|item| holds(&walk(path, vec![item]), *operator, wanted)).collect()
        }
        (Step::Anywhere(name), value) => {
            let mut found = Vec::new();
            anywhere(name, value, &mut found);
            found
        }
        _ => Vec::new(),
    }
}

fn holds(found: &[&Value], operator: Operator, wanted: &Value) -> bool {
    let Some(value) = found.first() else { return false };
    let order = match (value, wanted) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match operator {
        Operator::Exists => true,
        Operator::Equal => *value == wanted || order.is_some_and(|order| order.is_eq()),
        Operator::NotEqual => *value != wanted,
        Operator::Less => order.is_some_and(|order| order.is_lt()),
        Operator::LessOrEqual => order.is_some_and(|order| order.is_le()),
        Operator::Greater => order.is_some_and(|order| order.is_gt()),
        Operator::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
    }
}

fn anywhere<'a>(name: &str, value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get(name));
            map.values().for_each(|value| anywhere(name, value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| anywhere(name, value, found)),
        _ => {}
    }
}
