//! Macros with two variables (`all(k, v, …)`, `transformMap(k, v, …)`), which the engine's parser leaves as calls.
//!
//! They become loops over the entries of a list or map, with both variables bound in the body:
//!
//! ```text
//! m.all(k, v, p)  ─▶  @entries(m).all(@entry, bind k = @entry[0], v = @entry[1] in p)
//! ```

use std::sync::Arc;

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr, ResolveResult, Value as Cel,
    common::ast::{
        CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, MapExpr,
        operators::{
            ADD, CONDITIONAL, EQUALS, INDEX, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, NOT_STRICTLY_FALSE,
        },
    },
    objects::{Key, Map},
};

use super::check::children_mut;

const ENTRIES: &str = "@entries";
const PUT: &str = "@put";
const MERGE: &str = "@merge";
const ENTRY: &str = "@entry";
const RESULT: &str = "@result";

/// Replaces every macro with two variables; an error says what is wrong with one.
pub(super) fn expand(expr: &mut IdedExpr) -> Result<(), String> {
    for child in children_mut(expr) {
        expand(child)?;
    }
    let id = expr.id;
    let Expr::Call(call) = &mut expr.expr else { return Ok(()) };
    let Some(kind) = kind_of(&call.func_name, call.args.len()) else { return Ok(()) };
    let Some(range) = call.target.take() else { return Ok(()) };
    let mut args = std::mem::take(&mut call.args).into_iter();
    let mut name = || match args.next().map(|arg| arg.expr) {
        Some(Expr::Ident(name)) => Ok(name),
        _ => Err("argument must be a simple name".to_owned()),
    };
    let (first, second) = (name()?, name()?);
    if first == second {
        return Err(format!("overlapping range variable name: '{first}'"));
    }
    let rest: Vec<IdedExpr> = args.collect();
    let (filter, body) = match <[IdedExpr; 1]>::try_from(rest) {
        Ok([body]) => (None, body),
        Err(rest) => match <[IdedExpr; 2]>::try_from(rest) {
            Ok([filter, body]) => (Some(filter), body),
            Err(_) => return Err("a macro has too many arguments".to_owned()),
        },
    };
    *expr = Builder { id }.comprehension(kind, *range, (first, second), filter, body);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Exists,
    ExistsOne,
    TransformList,
    TransformMap,
    TransformMapEntry,
}

fn kind_of(name: &str, n_args: usize) -> Option<Kind> {
    Some(match (name, n_args) {
        ("all", 3) => Kind::All,
        ("exists", 3) => Kind::Exists,
        ("exists_one" | "existsOne", 3) => Kind::ExistsOne,
        ("transformList", 3 | 4) => Kind::TransformList,
        ("transformMap", 3 | 4) => Kind::TransformMap,
        ("transformMapEntry", 3 | 4) => Kind::TransformMapEntry,
        _ => return None,
    })
}

struct Builder {
    id: u64,
}

impl Builder {
    fn node(&self, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.id, expr }
    }

    fn name(&self, name: &str) -> IdedExpr {
        self.node(Expr::Ident(name.to_owned()))
    }

    fn call(&self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    fn int(&self, value: i64) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Int(value.into())))
    }

    fn bool(&self, value: bool) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn list(&self, elements: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::List(ListExpr::new(elements)))
    }

    /// A loop over nothing, whose result sees the variable.
    fn bind(&self, name: &str, value: IdedExpr, body: IdedExpr) -> IdedExpr {
        self.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: self.list(Vec::new()),
            iter_var: "@unused".to_owned(),
            iter_var2: None,
            accu_var: name.to_owned(),
            accu_init: value,
            loop_cond: self.bool(false),
            loop_step: self.name(name),
            result: body,
        })))
    }

    fn comprehension(
        &self,
        kind: Kind,
        range: IdedExpr,
        (first, second): (String, String),
        filter: Option<IdedExpr>,
        body: IdedExpr,
    ) -> IdedExpr {
        let result = || self.name(RESULT);
        let step = match kind {
            Kind::All => self.call(LOGICAL_AND, vec![result(), body]),
            Kind::Exists => self.call(LOGICAL_OR, vec![result(), body]),
            Kind::ExistsOne => {
                let more = self.call(ADD, vec![result(), self.int(1)]);
                self.call(CONDITIONAL, vec![body, more, result()])
            }
            Kind::TransformList => self.call(ADD, vec![result(), self.list(vec![body])]),
            Kind::TransformMap => self.call(PUT, vec![result(), self.name(&first), body]),
            Kind::TransformMapEntry => self.call(MERGE, vec![result(), body]),
        };
        let step = match filter {
            Some(filter) => self.call(CONDITIONAL, vec![filter, step, result()]),
            None => step,
        };
        let part = |index: i64| self.call(INDEX, vec![self.name(ENTRY), self.int(index)]);
        let step = self.bind(&first, part(0), self.bind(&second, part(1), step));
        let accu_init = match kind {
            Kind::All => self.bool(true),
            Kind::Exists => self.bool(false),
            Kind::ExistsOne => self.int(0),
            Kind::TransformList => self.list(Vec::new()),
            Kind::TransformMap | Kind::TransformMapEntry => {
                self.node(Expr::Map(MapExpr { entries: Vec::new() }))
            }
        };
        let loop_cond = match kind {
            Kind::All => self.call(NOT_STRICTLY_FALSE, vec![result()]),
            Kind::Exists => {
                let not = self.call(LOGICAL_NOT, vec![result()]);
                self.call(NOT_STRICTLY_FALSE, vec![not])
            }
            _ => self.bool(true),
        };
        let answer = match kind {
            Kind::ExistsOne => self.call(EQUALS, vec![result(), self.int(1)]),
            _ => result(),
        };
        self.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: self.call(ENTRIES, vec![range]),
            iter_var: ENTRY.to_owned(),
            iter_var2: None,
            accu_var: RESULT.to_owned(),
            accu_init,
            loop_cond,
            loop_step: step,
            result: answer,
        })))
    }
}

/// Whether a loop runs over nothing: it only names a value.
pub(super) fn is_binding(loop_: &ComprehensionExpr) -> bool {
    matches!(&loop_.iter_range.expr, Expr::List(list) if list.elements.is_empty())
}

/// What the loops above call.
pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(ENTRIES, entries);
    context.add_function(PUT, put);
    context.add_function(MERGE, merge);
}

fn entries(range: Cel) -> ResolveResult {
    let pair = |first: Cel, second: &Cel| Cel::List(Arc::new(vec![first, second.clone()]));
    let pairs = match &range {
        Cel::List(items) => {
            items.iter().enumerate().map(|(index, item)| pair(Cel::Int(index as i64), item)).collect()
        }
        Cel::Map(map) => {
            let mut entries: Vec<(&Key, &Cel)> = map.map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            entries.into_iter().map(|(key, value)| pair(key.into(), value)).collect()
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Cel::List(Arc::new(pairs)))
}

fn put(map: Cel, key: Cel, value: Cel) -> ResolveResult {
    let Cel::Map(map) = map else { return Err(ExecutionError::NoSuchOverload) };
    let key = match key {
        Cel::Int(number) => Key::Int(number),
        Cel::UInt(number) => Key::Uint(number),
        Cel::Bool(flag) => Key::Bool(flag),
        Cel::String(text) => Key::String(text),
        other => return Err(ExecutionError::UnsupportedKeyType(other)),
    };
    let mut entries = Arc::unwrap_or_clone(map.map);
    entries.insert(key, value);
    Ok(Cel::Map(Map { map: Arc::new(entries) }))
}

fn merge(map: Cel, entry: Cel) -> ResolveResult {
    let (Cel::Map(map), Cel::Map(entry)) = (map, entry) else { return Err(ExecutionError::NoSuchOverload) };
    let mut entries = Arc::unwrap_or_clone(map.map);
    for (key, value) in entry.map.iter() {
        if entries.insert(key.clone(), value.clone()).is_some() {
            return Err(ExecutionError::function_error(
                "transformMapEntry",
                "insert failed: key already exists",
            ));
        }
    }
    Ok(Cel::Map(Map { map: Arc::new(entries) }))
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::Value as Cel;

    use super::super::{check::parse, functions::context};

    fn run(source: &str) -> Result<Cel, String> {
        let program = parse(source)?;
        Cel::resolve(&program, &context()).map_err(|why| why.to_string())
    }

    #[test]
    fn macros_with_two_variables() {
        for source in [
            "{'a': 1, 'b': 2}.all(k, v, v > 0 && k != 'c')",
            "!{'a': 1, 'b': 2}.all(k, v, v > 1)",
            "{'a': 1, 'b': 2}.exists(k, v, k == 'b' && v == 2)",
            "!{'a': 1}.exists(k, v, v == 2)",
            "[5, 6].existsOne(i, v, i == 1 && v == 6)",
            "![6, 6].exists_one(i, v, v == 6)",
            "[5, 6].transformList(i, v, i + v) == [5, 7]",
            "[5, 6].transformList(i, v, i > 0, v) == [6]",
            "{'a': 1}.transformMap(k, v, k + string(v)) == {'a': 'a1'}",
            "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
            "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
            // one in the other: each has its own variables
            "[[1, 2], [3]].all(i, row, row.all(j, x, x > i + j - 1))",
            "{'a': {'b': 1}}.all(k, v, v.all(k2, v2, k != k2))",
            "[].all(i, v, false)",
        ] {
            assert_eq!(run(source), Ok(Cel::Bool(true)), "{source}");
        }
    }

    #[test]
    fn what_is_wrong_with_one() {
        for (source, expected) in [
            ("[1].all(i, i, true)", "overlapping range variable name: 'i'"),
            ("[1].all(i, 5, true)", "argument must be a simple name"),
            ("1.all(i, v, true)", "No such overload"),
            ("{'a': 1, 'b': 1}.transformMapEntry(k, v, {'same': v})", "key already exists"),
            ("Widget{size: 1} == 1", "undeclared reference to 'Widget'"),
        ] {
            let why = run(source).expect_err(source);
            assert!(why.contains(expected), "{source}: {why}");
        }
    }
}
