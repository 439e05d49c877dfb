//! Functions of the Kubernetes dialect that the engine lacks.

use std::sync::Arc;

use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ResolveResult, Value as Cel,
        objects::{Key, OptionalValue},
    },
};

/// `a.?b`.
pub(super) const OPTIONAL_FIELD: &str = "@optional_field";

/// Everything a rule may call. Types are their names: `type(1) == int` compares two strings.
pub(super) fn context() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("dyn", |value: Cel| -> ResolveResult { Ok(value) });
    context.add_function("type", |value: Cel| -> ResolveResult { Ok(name(type_name(&value))) });
    context.add_function(OPTIONAL_FIELD, optional_field);
    super::macros::register(&mut context);
    for known in ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type"] {
        context.add_variable_from_value(known, name(known));
    }
    context
}

fn name(text: &str) -> Cel {
    Cel::String(Arc::new(text.to_owned()))
}

/// As cel-go calls the type of a value; what is neither of the language nor of its libraries is `dyn`.
pub fn type_name(value: &Cel) -> &'static str {
    match value {
        Cel::Int(_) => "int",
        Cel::UInt(_) => "uint",
        Cel::Float(_) => "double",
        Cel::Bool(_) => "bool",
        Cel::String(_) => "string",
        Cel::Bytes(_) => "bytes",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Null => "null_type",
        Cel::Duration(_) => "google.protobuf.Duration",
        Cel::Timestamp(_) => "google.protobuf.Timestamp",
        Cel::Function(..) | Cel::Opaque(_) => "dyn",
    }
}

/// The field if it is there; of nothing, nothing.
fn optional_field(value: Cel, field: Arc<String>) -> ResolveResult {
    let inner = match <&OptionalValue>::try_from(&value) {
        Ok(optional) => optional.value().cloned(),
        Err(_) => Some(value),
    };
    let found = match inner {
        Some(Cel::Map(map)) => map.get(&Key::String(field)).cloned(),
        _ => None,
    };
    Ok(Cel::Opaque(Arc::new(found.map_or_else(OptionalValue::none, OptionalValue::of))))
}
