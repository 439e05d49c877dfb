//! Whether a new version of a generated kind can take the old one's place without breaking what exists.

use serde_json::{Map, Value};

use crate::error::child;

/// What differs. Paths begin at the version's schema: `spec.replicas`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Objects or clients that were fine before may not be any more.
    pub breaking: Vec<String>,
    pub harmless: Vec<String>,
}

/// Schemas in one another.
const DEEPEST: usize = 80;

/// Both are CustomResourceDefinitions, as generated or as the API server has them.
pub fn compare(old: &Value, new: &Value) -> Changes {
    let mut changes = Changes::default();
    let versions = |crd: &Value| crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
    for old_version in versions(old) {
        let name = &old_version["name"];
        let Some(new_version) = versions(new).into_iter().find(|version| version["name"] == *name) else {
            changes.breaking.push(format!("version {name} removed"));
            continue;
        };
        if old_version["served"] == true && new_version["served"] != true {
            changes.breaking.push(format!("version {name} is not served any more"));
        }
        changes.subresources(&old_version["subresources"], &new_version["subresources"]);
        let columns =
            |version: &Value| version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
        if columns(&old_version) != columns(&new_version) {
            changes.harmless.push("printer columns changed".to_owned());
        }
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        changes.schema(&schema(&old_version), &schema(&new_version), "", 0);
    }
    let names = |crd: &Value| {
        let names = &crd["spec"]["names"];
        [names["shortNames"].clone(), names["categories"].clone()]
    };
    if names(old) != names(new) {
        changes.harmless.push("short names or categories changed".to_owned());
    }
    changes
}

// === impl Changes ===

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.breaking.is_empty() && self.harmless.is_empty()
    }

    /// The first three, and how many more there are.
    pub fn summary(&self) -> String {
        let shown = self.breaking.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
        match self.breaking.len().saturating_sub(3) {
            0 => shown,
            more => format!("{shown}; and {more} more changes"),
        }
    }

    fn subresources(&mut self, old: &Value, new: &Value) {
        if old["status"].is_object() && !new["status"].is_object() {
            self.breaking.push("status subresource removed".to_owned());
        }
        match (
            old.get("scale").filter(|scale| scale.is_object()),
            new.get("scale").filter(|scale| scale.is_object()),
        ) {
            (Some(_), None) => self.breaking.push("scale subresource removed".to_owned()),
            (None, Some(_)) => self.harmless.push("scale subresource added".to_owned()),
            (Some(old), Some(new)) => {
                for path in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
                    let text = |scale: &Value| {
                        scale.get(path).and_then(Value::as_str).unwrap_or_default().to_owned()
                    };
                    match (text(old).as_str(), text(new).as_str()) {
                        (old, new) if old == new => {}
                        ("", new) => self.harmless.push(format!("scale subresource: {path} {new} added")),
                        (old, new) => {
                            self.breaking
                                .push(format!("scale subresource: {path} changed from {old} to {new:?}"));
                        }
                    }
                }
            }
            (None, None) => {}
        }
    }

    fn schema(&mut self, old: &Value, new: &Value, path: &str, depth: usize) {
        if depth > DEEPEST || old == new {
            return;
        }
        let at = if path.is_empty() { "the object" } else { path };
        if old["type"] != new["type"] {
            self.breaking.push(format!("{at}: type changed from {} to {}", old["type"], new["type"]));
            return;
        }
        self.properties(old, new, path, depth);
        self.values(old, new, at);
        match (old.get("items"), new.get("items")) {
            (Some(_), None) => self.breaking.push(format!("{at}: items removed")),
            (Some(old), Some(new)) => self.schema(old, new, &format!("{path}[]"), depth + 1),
            (None, Some(_)) => self.harmless.push(format!("{at}: items added")),
            (None, None) => {}
        }
        match (&old["additionalProperties"], &new["additionalProperties"]) {
            (Value::Object(_), Value::Object(_)) => self.schema(
                &old["additionalProperties"],
                &new["additionalProperties"],
                &format!("{path}[*]"),
                depth + 1,
            ),
            (old, new) if old == new => {}
            (Value::Null, _) => self.harmless.push(format!("{at}: additionalProperties added")),
            _ => self.breaking.push(format!("{at}: additionalProperties changed")),
        }
        const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
        match (old[OPEN] == true, new[OPEN] == true) {
            (true, false) => self.breaking.push(format!("{at}: unknown fields are not kept any more")),
            (false, true) => self.harmless.push(format!("{at}: unknown fields are kept")),
            _ => {}
        }
        for list in ["x-kubernetes-list-type", "x-kubernetes-list-map-keys"] {
            if old[list] != new[list] {
                self.breaking.push(format!("{at}: {list} changed"));
            }
        }
        for text in ["description", "default", "format"] {
            if old[text] != new[text] {
                self.harmless.push(format!("{at}: {text} changed"));
            }
        }
    }

    fn properties(&mut self, old: &Value, new: &Value, path: &str, depth: usize) {
        let none = Map::new();
        let fields =
            |schema: &Value| schema["properties"].as_object().cloned().unwrap_or_else(|| none.clone());
        let (old_fields, new_fields) = (fields(old), fields(new));
        let required = |schema: &Value, name: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|other| other == name))
        };
        for (name, old_field) in &old_fields {
            let at = child(path, name);
            let Some(new_field) = new_fields.get(name) else {
                self.breaking.push(format!("{at}: property removed"));
                continue;
            };
            match (required(old, name), required(new, name)) {
                (false, true) => self.breaking.push(format!("{at}: newly required")),
                (true, false) => self.harmless.push(format!("{at}: not required any more")),
                (true, true) if old_field.get("default").is_some() && new_field.get("default").is_none() => {
                    self.breaking.push(format!("{at}: the default of a required field removed"));
                }
                _ => {}
            }
            self.schema(old_field, new_field, &at, depth + 1);
        }
        for (name, field) in new_fields.iter().filter(|(name, _)| !old_fields.contains_key(*name)) {
            let at = child(path, name);
            if required(new, name) && field.get("default").is_none() {
                self.breaking.push(format!("{at}: new required field without a default"));
            } else {
                self.harmless.push(format!("{at}: property added"));
            }
        }
    }

    /// Enumerations, bounds, patterns and rules: tighter is breaking, looser is not.
    fn values(&mut self, old: &Value, new: &Value, at: &str) {
        let list = |schema: &Value, field: &str| schema.get(field).and_then(Value::as_array).cloned();
        match (list(old, "enum"), list(new, "enum")) {
            (None, Some(_)) => self.breaking.push(format!("{at}: enum added")),
            (Some(_), None) => self.harmless.push(format!("{at}: enum removed")),
            (Some(old), Some(new)) => {
                let gone: Vec<String> =
                    old.iter().filter(|value| !new.contains(value)).map(ToString::to_string).collect();
                match (gone.is_empty(), old == new) {
                    (false, _) => {
                        self.breaking.push(format!("{at}: enum values removed: {}", gone.join(", ")))
                    }
                    (true, false) => self.harmless.push(format!("{at}: enum expanded")),
                    (true, true) => {}
                }
            }
            (None, None) => {}
        }
        match (old.get("pattern"), new.get("pattern")) {
            (old, new) if old == new => {}
            (_, Some(_)) => self.breaking.push(format!("{at}: pattern added or changed")),
            (_, None) => self.harmless.push(format!("{at}: pattern removed")),
        }
        for (field, tighter_if_larger) in [
            ("minimum", true),
            ("minLength", true),
            ("minItems", true),
            ("maximum", false),
            ("maxLength", false),
            ("maxItems", false),
        ] {
            let bound = |schema: &Value| schema.get(field).and_then(Value::as_f64);
            match (bound(old), bound(new)) {
                (old, new) if old == new => {}
                (None, Some(_)) => self.breaking.push(format!("{at}: {field} added")),
                (Some(_), None) => self.harmless.push(format!("{at}: {field} removed")),
                (Some(old), Some(new)) if (new > old) == tighter_if_larger => {
                    self.breaking.push(format!("{at}: {field} tightened from {old} to {new}"));
                }
                _ => self.harmless.push(format!("{at}: {field} relaxed")),
            }
        }
        let rules = |schema: &Value| -> Vec<Value> {
            let rules = list(schema, "x-kubernetes-validations").unwrap_or_default();
            rules.into_iter().map(|rule| rule["rule"].clone()).collect()
        };
        let (old_rules, new_rules) = (rules(old), rules(new));
        for rule in new_rules.iter().filter(|rule| !old_rules.contains(rule)) {
            self.breaking.push(format!("{at}: validation rule added: {rule}"));
        }
        for rule in old_rules.iter().filter(|rule| !new_rules.contains(rule)) {
            self.harmless.push(format!("{at}: validation rule removed: {rule}"));
        }
    }
}
