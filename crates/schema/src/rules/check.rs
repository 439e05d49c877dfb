//! What can be said about a rule before it ever runs.

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr, Value as Cel,
    common::ast::{CallExpr, EntryExpr, Expr, IdedEntryExpr, operators::OPT_SELECT},
    parser::Parser,
};

use super::{macros, values::escape};
use crate::{AdditionalProperties, Schema, Type};

/// Why a rule is refused.
#[derive(Debug)]
pub(crate) enum Fault {
    Rule(String),
    Message(String),
}

/// Parses a rule, with everything Kubernetes allows in one and we can run.
pub(super) fn parse(source: &str) -> Result<IdedExpr, String> {
    let mut expr =
        Parser::default().enable_optional_syntax(true).parse(source).map_err(|why| why.to_string())?;
    if let Some(name) = struct_literal(&expr) {
        return Err(format!("undeclared reference to '{name}' (in container '')"));
    }
    macros::expand(&mut expr)?;
    total_selection(&mut expr);
    Ok(expr)
}

/// The type of an object that the rule makes: there are none, and the engine cannot run it.
fn struct_literal(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Struct(object) => Some(&object.type_name),
        _ => children(expr).into_iter().find_map(struct_literal),
    }
}

/// `a.?b` fails in the engine if `b` is absent; a function of ours answers with nothing instead.
fn total_selection(expr: &mut IdedExpr) {
    if let Expr::Call(CallExpr { func_name, .. }) = &mut expr.expr
        && func_name == OPT_SELECT
    {
        *func_name = super::functions::OPTIONAL_FIELD.to_owned();
    }
    for child in children_mut(expr) {
        total_selection(child);
    }
}

/// The first field, from left to right, that the rule selects on `self` or `oldSelf` and that is not there.
pub(super) fn missing_key(expr: &IdedExpr, scope: &Context<'_>) -> Option<String> {
    if let Some(key) = children(expr).into_iter().find_map(|child| missing_key(child, scope)) {
        return Some(key);
    }
    let Expr::Select(select) = &expr.expr else { return None };
    if select.test || !is_plain(expr) {
        return None;
    }
    match Cel::resolve(expr, scope) {
        Err(ExecutionError::NoSuchKey(key)) => Some(key.to_string()),
        _ => None,
    }
}

/// Selections on `self` or `oldSelf` and nothing else.
fn is_plain(expr: &IdedExpr) -> bool {
    match &expr.expr {
        Expr::Ident(name) => name == "self" || name == "oldSelf",
        Expr::Select(select) => !select.test && is_plain(&select.operand),
        _ => false,
    }
}

/// Loops inside loops: 2 for a macro in the body of a macro.
pub(super) fn nesting(expr: &IdedExpr) -> u32 {
    match &expr.expr {
        Expr::Comprehension(loop_) if !macros::is_binding(loop_) => {
            let body = [&loop_.loop_cond, &loop_.loop_step, &loop_.result];
            let inner = body.into_iter().map(nesting).max().unwrap_or(0);
            (inner + 1).max(nesting(&loop_.iter_range))
        }
        _ => children(expr).into_iter().map(nesting).max().unwrap_or(0),
    }
}

/// Every field that is selected on a typed part of `self` must exist.
pub(super) fn fields(
    program: &IdedExpr,
    source: &str,
    schema: &Schema,
    is_resource: bool,
) -> Result<(), String> {
    let root = Node { schema, is_resource };
    let mut unknown = None;
    walk(program, root, &mut unknown);
    match unknown {
        None => Ok(()),
        Some(field) => {
            let column = source.find(&format!(".{field}")).map_or(1, |at| at + 1);
            let line = source.lines().next().unwrap_or_default();
            let marker = format!("{}^", ".".repeat(column.saturating_sub(1)));
            Err(format!(
                "compilation failed: ERROR: <input>:1:{column}: undefined field '{field}'\n | {line}\n | {marker}"
            ))
        }
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    schema: &'a Schema,
    is_resource: bool,
}

fn walk(expr: &IdedExpr, root: Node<'_>, unknown: &mut Option<String>) {
    if let Err(field) = resolve(expr, root) {
        unknown.get_or_insert(field);
        return;
    }
    for child in children(expr) {
        walk(child, root, unknown);
    }
}

/// The schema of what `expr` denotes, if that is a part of `self` (or `oldSelf`) and known; the name of a field that
/// is not there otherwise.
fn resolve<'a>(expr: &IdedExpr, root: Node<'a>) -> Result<Option<Node<'a>>, String> {
    match &expr.expr {
        Expr::Ident(name) if name == "self" => Ok(Some(root)),
        Expr::Select(select) => {
            let Some(parent) = resolve(&select.operand, root)? else { return Ok(None) };
            if parent.is_resource && matches!(select.field.as_str(), "apiVersion" | "kind" | "metadata") {
                return Ok(None);
            }
            let found = parent
                .schema
                .properties
                .iter()
                .find(|(name, _)| escape(name).as_deref() == Some(select.field.as_str()))
                .map(|(_, field)| Node { schema: field, is_resource: field.embedded_resource });
            match found {
                Some(field) => Ok(Some(field)),
                None if is_closed(parent.schema) => Err(select.field.clone()),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Whether fields that are not declared cannot exist.
fn is_closed(schema: &Schema) -> bool {
    schema.type_ == Some(Type::Object)
        && !matches!(
            schema.additional_properties,
            Some(AdditionalProperties::Typed(_) | AdditionalProperties::Any(true))
        )
}

fn children(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(loop_) => {
            vec![&loop_.iter_range, &loop_.accu_init, &loop_.loop_cond, &loop_.loop_step, &loop_.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => entries(&map.entries),
        Expr::Struct(object) => entries(&object.entries),
        Expr::Select(select) => vec![&select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entries(entries: &[IdedEntryExpr]) -> Vec<&IdedExpr> {
    entries
        .iter()
        .flat_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            EntryExpr::StructField(field) => vec![&field.value],
        })
        .collect()
}

pub(super) fn children_mut(expr: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expr.expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(loop_) => vec![
            &mut loop_.iter_range,
            &mut loop_.accu_init,
            &mut loop_.loop_cond,
            &mut loop_.loop_step,
            &mut loop_.result,
        ],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => entries_mut(&mut map.entries),
        Expr::Struct(object) => entries_mut(&mut object.entries),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entries_mut(entries: &mut [IdedEntryExpr]) -> Vec<&mut IdedExpr> {
    entries
        .iter_mut()
        .flat_map(|entry| match &mut entry.expr {
            EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
            EntryExpr::StructField(field) => vec![&mut field.value],
        })
        .collect()
}
