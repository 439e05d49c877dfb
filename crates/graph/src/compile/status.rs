//! An instance's status: fields from expressions, the scale, and conditions of the author's own.

use std::{collections::HashSet, sync::Arc};

use schema::{Schema, Type as Json};
use serde_json::{Map, Value};

use crate::{
    cel::ast::Kind as ExprKind,
    check::{Scope, Type, infer, schema_of},
    error::{Error, Findings, child, shown},
    simple::{MarkKind, declared, marker_behind_expression},
    template::{self, Code, Field},
};

/// A value of the status.
#[derive(Clone, Debug)]
pub(crate) enum StatusField {
    Computed(Field),
    /// `integer | scale`: filled in from what the resources say.
    Declared(MarkKind),
    Object(Vec<(String, StatusField)>),
    List(Vec<StatusField>),
}

/// Where a mark was found, with the names that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    pub kind: MarkKind,
    pub names: Vec<String>,
    pub is_reachable: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub fields: Vec<(String, StatusField)>,
    pub conditions: Vec<Code>,
    pub marks: Vec<Marked>,
    pub schema: Schema,
}

const PATH: &str = "spec.schema.status";
/// Deeper than this a status is not read.
const DEEPEST: usize = 64;

pub(super) fn read(status: &Map<String, Value>, scope: &Scope<'_>, findings: &mut Findings) -> Status {
    let mut reader = Reader { scope, findings, marks: Vec::new() };
    let mut result =
        Status { schema: Schema { type_: Some(Json::Object), ..Schema::default() }, ..Status::default() };
    for (name, value) in status {
        if name == "conditions" {
            result.conditions = reader.conditions(value);
            continue;
        }
        let at = child(PATH, name);
        if name == "state" {
            reader.findings.add(at, "state is set by the controller");
            continue;
        }
        let mut names = vec![name.clone()];
        if let Some((field, schema)) = reader.field(value, &at, &mut names, true, 0) {
            result.fields.push((name.clone(), field));
            result.schema.properties.insert(name.clone(), Arc::new(schema));
        }
    }
    result.marks = reader.marks;
    result
}

struct Reader<'a> {
    scope: &'a Scope<'a>,
    findings: &'a mut Findings,
    marks: Vec<Marked>,
}

impl Reader<'_> {
    fn field(
        &mut self,
        value: &Value,
        path: &str,
        names: &mut Vec<String>,
        is_reachable: bool,
        depth: usize,
    ) -> Option<(StatusField, Schema)> {
        if depth > DEEPEST {
            self.findings.add(path, format!("nested more than {DEEPEST} deep"));
            return None;
        }
        match value {
            Value::String(text) => self.text(text, path, names, is_reachable),
            Value::Object(fields) => {
                let mut result = Vec::new();
                let mut schema = Schema { type_: Some(Json::Object), ..Schema::default() };
                for (name, value) in fields {
                    names.push(name.clone());
                    let is_plain = is_reachable && !name.contains(['.', '[', ']', '\'', '"', ' ']);
                    let found = self.field(value, &child(path, name), names, is_plain, depth + 1);
                    names.pop();
                    let (field, field_schema) = found?;
                    result.push((name.clone(), field));
                    schema.properties.insert(name.clone(), Arc::new(field_schema));
                }
                Some((StatusField::Object(result), schema))
            }
            Value::Array(items) => {
                let mut result = Vec::new();
                let mut last = None;
                for (index, item) in items.iter().enumerate() {
                    let (field, schema) =
                        self.field(item, &format!("{path}[{index}]"), names, false, depth + 1)?;
                    result.push(field);
                    last = Some(Arc::new(schema));
                }
                let schema = Schema { type_: Some(Json::Array), items: last, ..Schema::default() };
                Some((StatusField::List(result), schema))
            }
            _ => {
                self.findings.add(path, "status fields without expressions are not supported: write ${…}");
                None
            }
        }
    }

    fn text(
        &mut self,
        text: &str,
        path: &str,
        names: &[String],
        is_reachable: bool,
    ) -> Option<(StatusField, Schema)> {
        // `${…} | scale`
        let marked = template::leading(text)
            .and_then(|(source, rest)| Some((source, rest.trim_start().strip_prefix('|')?)))
            .map(|(source, rest)| (source, marker_behind_expression(rest)));
        if let Some((source, mark)) = marked {
            let code = self.noted(template::code(source, path))?;
            let kind = self.noted(mark.map_err(|why| Error::at(path, why)))?;
            self.marks.push(Marked { kind, names: names.to_vec(), is_reachable });
            let found = self.infer(&code, path)?;
            let fits = found.is_dyn()
                || matches!(
                    (kind, &found),
                    (MarkKind::Scale, Type::Int) | (MarkKind::Selector, Type::String)
                );
            if !fits {
                let message = format!(
                    "marker '{}' is for fields of type {}, and the expression returns {found}",
                    kind.name(),
                    kind.type_().name()
                );
                self.findings.add(path, message);
                return None;
            }
            return Some((StatusField::Computed(Field::Standalone(code)), of_mark(kind)));
        }
        if !template::has_expression(text) {
            let kind = self.noted(declared(text).map_err(|why| Error::at(path, why)))?;
            self.marks.push(Marked { kind, names: names.to_vec(), is_reachable });
            return Some((StatusField::Declared(kind), of_mark(kind)));
        }
        let field = match template::read(&Value::String(text.to_owned()), path) {
            Ok(field) => field,
            Err(errors) => {
                errors.into_iter().for_each(|error| self.findings.push(error));
                return None;
            }
        };
        let mut is_sound = true;
        let mut refers = false;
        let mut codes = Vec::new();
        field.each(&mut |code| codes.push(code.clone()));
        let mut last = Type::Dyn;
        for code in &codes {
            code.expr.free_names(&mut |name| refers |= self.scope.contains_key(name));
            match self.infer(code, path) {
                Some(found) => last = found,
                None => is_sound = false,
            }
        }
        if is_sound && !refers {
            self.findings.add(path, "instance status field must refer to a resource or schema");
            return None;
        }
        let schema = match &field {
            Field::Standalone(_) => schema_of(&last),
            _ => {
                if is_sound && codes.len() == 1 && !last.is_dyn() && !matches!(last, Type::String) {
                    self.findings.add(
                        path,
                        format!("text needs a string, and the expression returns {last}: use string(…)"),
                    );
                    return None;
                }
                schema_of(&Type::String)
            }
        };
        is_sound.then_some((StatusField::Computed(field), schema))
    }

    fn infer(&mut self, code: &Code, path: &str) -> Option<Type> {
        let mut uses_runtime = false;
        code.expr.each(&mut |expr| {
            uses_runtime |= matches!(&expr.kind, ExprKind::Call { name, .. } if name.starts_with("runtime."));
        });
        if uses_runtime && !path.starts_with("spec.schema.status.conditions") {
            self.findings.add(path, "runtime is only available in status.conditions expressions");
            return None;
        }
        let found = infer(&code.expr, self.scope);
        self.noted(
            found.map_err(|why| Error::at(path, format!("expression \"{}\": {why}", shown(&code.text)))),
        )
    }

    fn noted<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.findings.push(error)).ok()
    }

    /// Conditions that the author writes instead of the built-in ones.
    fn conditions(&mut self, value: &Value) -> Vec<Code> {
        let path = "spec.schema.status.conditions";
        let Value::Array(entries) = value else {
            self.findings.add(path, "conditions are a list of expressions");
            return Vec::new();
        };
        let mut types = HashSet::new();
        let mut codes = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let at = format!("{path}[{index}]");
            let Some(text) = entry.as_str() else {
                self.findings.add(at, "a condition is an expression: ${runtime.newCondition({…})}");
                continue;
            };
            let Some(code) = self.noted(template::standalone(text, &at)) else { continue };
            self.infer(&code, &at);
            self.literal_condition(&code, &at, &mut types);
            codes.push(code);
        }
        codes
    }

    /// What can be said about a condition that is written out.
    fn literal_condition(&mut self, code: &Code, at: &str, types: &mut HashSet<String>) {
        use kube_cel::cel::Value as Cel;
        let ExprKind::Call { name, args, .. } = &code.expr.kind else { return };
        if name != "runtime.newCondition" {
            return;
        }
        let Some(ExprKind::Map(entries)) = args.first().map(|arg| &arg.kind) else { return };
        let literal = |wanted: &str| {
            entries.iter().find_map(|(_, key, value)| match (&key.kind, &value.kind) {
                (ExprKind::Literal(Cel::String(key)), ExprKind::Literal(Cel::String(text)))
                    if **key == wanted =>
                {
                    Some(text.to_string())
                }
                _ => None,
            })
        };
        let names: Vec<&str> = entries
            .iter()
            .filter_map(|(_, key, _)| match &key.kind {
                ExprKind::Literal(Cel::String(name)) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        for needed in ["type", "status"] {
            if names.len() == entries.len() && !names.contains(&needed) {
                self.findings.add(at, format!("a condition needs '{needed}'"));
            }
        }
        for other in names.iter().filter(|name| !["type", "status", "reason", "message"].contains(*name)) {
            self.findings.add(at, format!("a condition has no field '{}'", shown(other)));
        }
        if let Some(text) = literal("type") {
            if text.is_empty() {
                self.findings.add(at, "the type of a condition must not be empty");
            } else if !types.insert(text.clone()) {
                self.findings.add(at, format!("the condition '{}' is given twice", shown(&text)));
            }
        }
        if let Some(text) =
            literal("status").filter(|text| !["True", "False", "Unknown"].contains(&text.as_str()))
        {
            self.findings.add(
                at,
                format!("the status of a condition is True, False or Unknown, not '{}'", shown(&text)),
            );
        }
    }
}

fn of_mark(kind: MarkKind) -> Schema {
    let format = (kind == MarkKind::Scale).then(|| "int32".to_owned());
    Schema { type_: Some(kind.type_()), format, ..Schema::default() }
}
