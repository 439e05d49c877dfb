//! `x-kubernetes-validations`: rules in CEL, compiled once for a schema and run on each write.

mod check;
mod functions;
mod macros;
mod values;

use std::{collections::BTreeMap, sync::Arc};

use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value as Cel, objects::OptionalValue};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::check::Fault;
pub use self::{functions::type_name as cel_type_name, values::string as cel_text};
use crate::{
    AdditionalProperties, FieldError, FieldErrorKind, Path, Schema, Type, json, validate::counterpart,
};

/// The rules of a schema, in the shape of the schema.
pub struct Rules {
    root: Node,
}

struct Node {
    schema: Arc<Schema>,
    is_resource: bool,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Node>,
    entries: Option<Box<Node>>,
    items: Option<Box<Node>>,
}

struct Rule {
    text: RuleText,
    program: IdedExpr,
    message: Option<IdedExpr>,
    uses_old_self: bool,
    /// Loops inside loops: how the work grows with the data.
    nesting: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuleText {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

/// Steps of loops that all rules of one write may take together; beyond it the write is refused, so that no object
/// can stall the server.
const BUDGET: u64 = 10_000_000;

thread_local! {
    /// Registering the function libraries costs more than most rules.
    static FUNCTIONS: Context<'static> = functions::context();
}

// === impl Rules ===

impl Rules {
    /// `None` if the schema has no rules. Rules that do not compile are left out: the CRD that brought them is refused
    /// by [`crate::crd::validate`].
    pub fn compile(schema: &Arc<Schema>) -> Option<Self> {
        Node::compile(schema, true).map(|root| Self { root })
    }

    /// Runs the rules on `value`; with `old`, transition rules too. Parts that did not change are not held against the
    /// writer.
    pub fn validate(&self, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Vec<FieldError> {
        let mut run = Run { errors: Vec::new(), budget: Some(BUDGET) };
        FUNCTIONS.with(|functions| {
            run.node(&self.root, value, old, old == Some(value), path, functions);
        });
        run.errors
    }
}

// === impl Node ===

impl Node {
    fn compile(schema: &Arc<Schema>, is_resource: bool) -> Option<Self> {
        let rules: Vec<Rule> = schema
            .validations
            .iter()
            .filter_map(|rule| Rule::compile(rule, schema, is_resource).ok())
            .collect();
        let properties: BTreeMap<String, Node> = schema
            .properties
            .iter()
            .filter_map(|(name, field)| Some((name.clone(), Node::compile(field, field.embedded_resource)?)))
            .collect();
        let entries = match &schema.additional_properties {
            Some(AdditionalProperties::Typed(entry)) => {
                Node::compile(entry, entry.embedded_resource).map(Box::new)
            }
            _ => None,
        };
        let items =
            schema.items.as_ref().and_then(|item| Node::compile(item, item.embedded_resource)).map(Box::new);
        if rules.is_empty() && properties.is_empty() && entries.is_none() && items.is_none() {
            return None;
        }
        Some(Self { schema: schema.clone(), is_resource, rules, properties, entries, items })
    }
}

// === impl Rule ===

impl Rule {
    /// Compiles one entry of `x-kubernetes-validations` for the node `schema`.
    fn compile(rule: &Value, schema: &Schema, is_resource: bool) -> Result<Self, Fault> {
        let text: RuleText = serde_json::from_value(rule.clone()).map_err(|e| Fault::Rule(e.to_string()))?;
        let program = check::parse(text.rule.trim())
            .map_err(|why| Fault::Rule(format!("compilation failed: {why}")))?;
        check::fields(&program, &text.rule, schema, is_resource).map_err(Fault::Rule)?;
        let message = match text.message_expression.trim() {
            "" => None,
            expression => Some(
                check::parse(expression)
                    .map_err(|why| Fault::Message(format!("messageExpression compilation failed: {why}")))?,
            ),
        };
        let uses_old_self = program.references().has_variable("oldSelf");
        let nesting = check::nesting(&program);
        Ok(Self { text, program, message, uses_old_self, nesting })
    }

    /// What is shown for the rule when it is false.
    fn shown(&self) -> &str {
        match self.text.message.trim() {
            "" => self.text.rule.trim(),
            message => message,
        }
    }
}

/// Compiles a rule only to find its faults. Answers whether it compares with the old value.
pub(crate) fn check(rule: &Value, schema: &Schema, is_resource: bool) -> Result<bool, Fault> {
    Rule::compile(rule, schema, is_resource).map(|rule| rule.uses_old_self)
}

struct Run {
    errors: Vec<FieldError>,
    /// `None` once it is spent.
    budget: Option<u64>,
}

// === impl Run ===

impl Run {
    fn node(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        unchanged: bool,
        path: &Path<'_>,
        functions: &Context<'_>,
    ) {
        if value.is_null() || self.budget.is_none() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, value, old, unchanged, path, functions);
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let before = old.and_then(|old| old.get(name));
                    let same = unchanged || before == Some(value);
                    match (node.properties.get(name), &node.entries) {
                        (Some(field), _) => {
                            self.node(field, value, before, same, &path.child(name), functions);
                        }
                        (None, Some(entry)) if !node.schema.properties.contains_key(name) => {
                            self.node(entry, value, before, same, &path.key(name), functions);
                        }
                        _ => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(item_node) = &node.items else { return };
                let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for (index, item) in items.iter().enumerate() {
                    let before = counterpart(item, before, &node.schema);
                    let same = unchanged || before == Some(item);
                    self.node(item_node, item, before, same, &path.index(index), functions);
                }
            }
            _ => {}
        }
    }

    fn rules(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        unchanged: bool,
        path: &Path<'_>,
        functions: &Context<'_>,
    ) {
        if node.rules.is_empty() {
            return;
        }
        let mut scope = functions.new_inner_scope();
        scope.add_variable_from_value("self", values::convert(value, &node.schema, node.is_resource));
        let old_self = old.map(|old| values::convert(old, &node.schema, node.is_resource));
        let longest = values::longest(value).max(1) as u64;
        for rule in &node.rules {
            let optional = rule.text.optional_old_self == Some(true);
            if rule.uses_old_self && old_self.is_none() && !optional {
                continue;
            }
            if !self.spend(longest, rule.nesting) {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    rule.shown()
                );
                self.errors.push(FieldError::invalid(path, type_name(&node.schema), detail));
                return;
            }
            let mut scope = scope.new_inner_scope();
            match (&old_self, optional) {
                (Some(old), false) => scope.add_variable_from_value("oldSelf", old.clone()),
                (Some(old), true) => scope.add_variable_from_value(
                    "oldSelf",
                    Cel::Opaque(Arc::new(OptionalValue::of(old.clone()))),
                ),
                (None, true) => {
                    scope.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(OptionalValue::none())));
                }
                (None, false) => {}
            }
            match evaluate(rule, &scope, node, value, path) {
                // what was stored before the rule existed may stay as long as it is not touched
                Outcome::False(_) if unchanged && !rule.uses_old_self => {}
                Outcome::False(error) | Outcome::Failed(error) => self.errors.push(error),
                Outcome::True => {}
            }
        }
    }

    fn spend(&mut self, longest: u64, nesting: u32) -> bool {
        let cost = longest.saturating_pow(nesting).max(1);
        self.budget = self.budget.and_then(|budget| budget.checked_sub(cost));
        self.budget.is_some()
    }
}

enum Outcome {
    True,
    False(FieldError),
    Failed(FieldError),
}

fn evaluate(rule: &Rule, scope: &Context<'_>, node: &Node, value: &Value, path: &Path<'_>) -> Outcome {
    let failed = |detail: String| Outcome::Failed(FieldError::invalid(path, type_name(&node.schema), detail));
    match Cel::resolve(&rule.program, scope) {
        Ok(Cel::Bool(true)) => Outcome::True,
        Ok(Cel::Bool(false)) => Outcome::False(refusal(rule, scope, node, value, path)),
        Ok(_) => failed(format!("rule did not evaluate to a bool: {}", rule.shown())),
        Err(error) => match check::missing_key(&rule.program, scope) {
            Some(key) => failed(format!("no such key: {key} evaluating rule: {}", rule.shown())),
            None if matches!(
                error,
                ExecutionError::NoSuchOverload | ExecutionError::UndeclaredReference(_)
            ) =>
            {
                failed(format!(
                    "'{}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    in_api_words(&error),
                    rule.shown()
                ))
            }
            None => failed(format!("{} evaluating rule: {}", in_api_words(&error), rule.shown())),
        },
    }
}

fn refusal(rule: &Rule, scope: &Context<'_>, node: &Node, value: &Value, path: &Path<'_>) -> FieldError {
    let detail = message(rule, scope);
    let shown = (!matches!(node.schema.type_, Some(Type::Object | Type::Array))).then(|| value.clone());
    let field = match rule.text.field_path.trim() {
        "" => path.to_string(),
        relative => {
            let relative = relative.strip_prefix('.').unwrap_or(relative);
            if path.is_root() { relative.to_owned() } else { format!("{path}.{relative}") }
        }
    };
    let kind = match rule.text.reason.as_deref() {
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    };
    let detail = if kind == FieldErrorKind::Duplicate { String::new() } else { detail };
    FieldError::new(kind, field, shown, detail)
}

fn message(rule: &Rule, scope: &Context<'_>) -> String {
    const LONGEST: usize = 5 * 1024;
    let computed = rule.message.as_ref().and_then(|program| match Cel::resolve(program, scope) {
        Ok(Cel::String(text)) => Some(text.trim().to_owned()),
        _ => None,
    });
    match computed {
        Some(text) if !text.is_empty() && text.len() <= LONGEST && !text.contains('\n') => text,
        _ if rule.text.message.trim().is_empty() => format!("failed rule: {}", rule.text.rule.trim()),
        _ => rule.text.message.trim().to_owned(),
    }
}

fn in_api_words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload => "no such overload".into(),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::DivisionByZero(_) => "division by zero".into(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".into(),
        ExecutionError::Overflow(..) => "integer overflow".into(),
        ExecutionError::IndexOutOfBounds(Cel::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

fn type_name(schema: &Schema) -> &'static str {
    schema.type_.map_or("", Type::name)
}

/// The messages of rules are rendered where the CRD is checked.
pub(crate) fn text_of(rule: &Value) -> RuleText {
    RuleText {
        rule: json::text(rule, "rule").to_owned(),
        message: json::text(rule, "message").to_owned(),
        message_expression: json::text(rule, "messageExpression").to_owned(),
        reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
        field_path: json::text(rule, "fieldPath").to_owned(),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    }
}
