//! What has to be done so that a generated kind is what its definition says.

use serde_json::Value;

use super::{Changes, Owner, compare};
use crate::labels;

#[derive(Clone, Debug, PartialEq)]
pub enum Ensure {
    Create,
    Unchanged,
    /// The kind is there and differs.
    Update(Changes),
    Refused(String),
}

/// Compares what the API server has with what is wanted. `allow_breaking` is the definition's annotation
/// `kro.run/allow-breaking-changes`.
pub fn ensure(existing: Option<&Value>, wanted: &Value, owner: &Owner, allow_breaking: bool) -> Ensure {
    let Some(existing) = existing else { return Ensure::Create };
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let label = |key: &str| existing["metadata"]["labels"].get(key).and_then(Value::as_str);
    if label(labels::OWNED) != Some("true") {
        return Ensure::Refused(format!("CRD {name} already exists and is not owned by KRO"));
    }
    if let Some(other) = label(labels::DEFINITION_NAME).filter(|other| *other != owner.name) {
        return Ensure::Refused(format!("CRD {name} is owned by another ResourceGraphDefinition {other}"));
    }
    let changes = compare(existing, wanted);
    if !changes.breaking.is_empty() && !allow_breaking {
        return Ensure::Refused(format!(
            "cannot update CRD {name}: breaking changes detected: {}",
            changes.summary()
        ));
    }
    // a definition that was deleted and made again has the name but not the uid: adopted
    let is_adopted = label(labels::DEFINITION_ID) != Some(owner.uid.as_str());
    if changes.is_empty() && !is_adopted { Ensure::Unchanged } else { Ensure::Update(changes) }
}
