//! The functions that expressions may call: those that kro enables, and no others.
//!
//! What Kubernetes brings (quantities, addresses, URLs, versions, strings, lists) is called in `kube-cel`, after its
//! price is paid; the core of the language and what kro adds is here.

mod core;
mod kro;
mod library;
mod md5;
mod signatures;

use kube_cel::cel::Value as Cel;

use super::{Budget, Failure, value};

pub(crate) use self::signatures::{Result_, find};

/// Whether `name` is a function, be it called on its own, on a value or in a namespace.
pub(crate) fn is_known(name: &str) -> bool {
    find(name).is_some()
}

/// `int`, `string`, …: types are their names, so that `type(1) == int` compares two strings.
pub(crate) fn type_called(name: &str) -> Option<Cel> {
    const TYPES: [&str; 9] = ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type"];
    TYPES.contains(&name).then(|| value::string(name))
}

/// Calls `name` with the target as first argument, if there is one.
pub(crate) fn call(name: &str, target: Option<Cel>, args: Vec<Cel>, budget: &Budget) -> Result<Cel, Failure> {
    let Some(signature) = find(name) else {
        return Err(Failure::error(format!("unknown function '{name}'")));
    };
    signature.check_call(target.is_some(), args.len()).map_err(Failure::Error)?;
    let has_target = target.is_some();
    let all: Vec<Cel> = target.into_iter().chain(args).collect();
    if let Some(result) = core::call(name, &all, budget).or_else(|| kro::call(name, &all, budget)) {
        return result;
    }
    library::call(name, has_target, all, budget)
}

/// The arguments did not fit.
fn no_overload(name: &str, args: &[Cel]) -> Failure {
    let types: Vec<&str> = args.iter().map(value::type_name).collect();
    Failure::error(format!("no such overload: {name}({})", types.join(", ")))
}
