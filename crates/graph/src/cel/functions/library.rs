//! Calls into the Kubernetes libraries of `kube-cel`, each paid for before it is made.

use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ExecutionError, IdedExpr, Value as Cel,
        common::ast::{CallExpr, Expr},
    },
};

use crate::cel::{Budget, Failure};
use crate::error::shown;

thread_local! {
    /// Registering the function libraries costs more than most expressions.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

/// A regular expression is compiled on each call.
const REGEX: u64 = 2_000;

pub(super) fn call(name: &str, has_target: bool, args: Vec<Cel>, budget: &Budget) -> Result<Cel, Failure> {
    price(name, &args, budget)?;
    let variable = |index: usize| format!("@{index}");
    let ident = |index: usize| IdedExpr { id: 0, expr: Expr::Ident(variable(index)) };
    let (target, func_name) = match name.split_once('.') {
        // the engine looks for `lists.range` if it sees a call of `range` on the name `lists`
        Some((space, function)) => {
            (Some(Box::new(IdedExpr { id: 0, expr: Expr::Ident(space.to_owned()) })), function.to_owned())
        }
        None => (has_target.then(|| Box::new(ident(0))), name.to_owned()),
    };
    let first = usize::from(has_target);
    let call = CallExpr { func_name, target, args: (first..args.len()).map(ident).collect() };
    let expr = IdedExpr { id: 0, expr: Expr::Call(call) };
    FUNCTIONS.with(|functions| {
        let mut scope = functions.new_inner_scope();
        for (index, arg) in args.into_iter().enumerate() {
            scope.add_variable_from_value(variable(index), arg);
        }
        Cel::resolve(&expr, &scope).map_err(|why| failure(name, &why))
    })
}

/// What a call costs at most, in the sizes of its arguments.
fn price(name: &str, args: &[Cel], budget: &Budget) -> Result<(), Failure> {
    args.iter().try_for_each(|arg| budget.charge_walk(arg))?;
    match (name, args) {
        ("matches" | "find" | "findAll", [Cel::String(text), Cel::String(pattern), ..]) => {
            // in the worst case the machine has a state for each character of the pattern
            let steps = text.len().saturating_mul(pattern.len()) as u64 / 10;
            budget.charge(REGEX.saturating_add(steps))
        }
        ("replace", [Cel::String(text), Cel::String(from), Cel::String(to), ..]) => {
            let most = text.len() / from.len().max(1) + 1;
            budget.charge_bytes(text.len().saturating_add(most.saturating_mul(to.len())))
        }
        ("join", [Cel::List(items), Cel::String(between)]) => {
            budget.charge_bytes(items.len().saturating_mul(between.len()))
        }
        ("distinct", [list @ Cel::List(items)]) => {
            // each with each
            (0..items.len().max(1)).try_for_each(|_| budget.charge_walk(list))
        }
        ("format", [Cel::String(text), Cel::List(items)]) => {
            if items.iter().any(|item| matches!(item, Cel::Map(_))) {
                return Err(Failure::error("format: a map has no order; use json.marshal()"));
            }
            format(text)
        }
        _ => Ok(()),
    }
}

/// `%.999999999f` would fill the memory with zeros.
fn format(text: &str) -> Result<(), Failure> {
    let wide = text.split('%').any(|verb| {
        let digits = verb.strip_prefix('.').unwrap_or_default();
        digits.chars().take_while(char::is_ascii_digit).count() > 2
    });
    if wide { Err(Failure::error("format: at most 99 decimals")) } else { Ok(()) }
}

/// Errors of the engine print whole values; these do not.
fn failure(name: &str, error: &ExecutionError) -> Failure {
    match error {
        ExecutionError::NoSuchKey(key) => Failure::Pending(format!("the key '{}'", shown(key))),
        ExecutionError::IndexOutOfBounds(_) => Failure::Pending(format!("an element that {name} asks for")),
        ExecutionError::FunctionError { message, .. } => {
            Failure::error(format!("{name}: {}", shown(message)))
        }
        _ => Failure::error(format!("no such overload: {name}")),
    }
}
