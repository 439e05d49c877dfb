//! Which names a definition may give.

use std::collections::HashSet;

use api::kro::{Resource, Spec};

use crate::{
    Options,
    error::{Findings, shown},
};

/// Words of kro that neither resources nor iterators may be called, beside those of CEL.
const WORDS: [&str; 32] = [
    "apiVersion",
    "context",
    "dependency",
    "dependencies",
    "each",
    "externalRef",
    "externalReference",
    "externalRefs",
    "externalReferences",
    "graph",
    "instance",
    "item",
    "items",
    "kind",
    "kro",
    "metadata",
    "object",
    "resource",
    "resourcegraphdefinition",
    "resourceGraphDefinition",
    "resources",
    "root",
    "runtime",
    "schema",
    "self",
    "serviceAccountName",
    "spec",
    "status",
    "this",
    "variables",
    "vars",
    "version",
];

fn is_reserved(name: &str) -> bool {
    WORDS.contains(&name) || crate::cel::RESERVED.contains(&name)
}

pub(super) fn check(spec: &Spec, options: &Options, findings: &mut Findings) {
    kind(&spec.schema.kind, "spec.schema.kind", findings);
    if let Some(scaling) = &spec.scaling {
        kind(&scaling.kind, "spec.scaling.kind", findings);
        if scaling.kind == spec.schema.kind {
            findings.add("spec.scaling.kind", "must not be the kind of the instances, spec.schema.kind");
        }
    }
    let version = &spec.schema.api_version;
    if !is_version(version) {
        findings.add(
            "spec.schema.apiVersion",
            format!("'{}' is not a version like v1, v1alpha1 or v2beta3", shown(version)),
        );
    }
    let mut ids = HashSet::new();
    for (index, resource) in spec.resources.iter().enumerate() {
        let path = format!("spec.resources[{index}].id");
        let id = shown(&resource.id);
        if is_reserved(&resource.id) {
            findings.add(&path, format!("naming convention violation: id {id} is a reserved keyword in KRO"));
        } else if !is_lower_camel(&resource.id) {
            findings.add(
                &path,
                format!("naming convention violation: id {id} is not a valid KRO resource id: must be lower camelCase"),
            );
        }
        if !ids.insert(resource.id.as_str()) {
            findings.add(&path, format!("naming convention violation: found duplicate resource IDs {id}"));
        }
    }
    for (index, resource) in spec.resources.iter().enumerate() {
        iterators(resource, &ids, options, &format!("spec.resources[{index}].forEach"), findings);
    }
}

fn kind(kind: &str, path: &str, findings: &mut Findings) {
    let starts = kind.starts_with(|c: char| c.is_ascii_uppercase());
    if !starts || kind.len() > 63 || !kind.chars().all(|c| c.is_ascii_alphanumeric()) {
        findings.add(
            path,
            format!(
                "naming convention violation: kind '{}' is not a valid KRO kind name: must be UpperCamelCase",
                shown(kind)
            ),
        );
    }
}

fn is_version(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else { return false };
    let rest =
        rest.split_once("alpha").or_else(|| rest.split_once("beta")).map_or((rest, "1"), |split| split);
    number(rest.0) && number(rest.1)
}

fn is_lower_camel(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn iterators(
    resource: &Resource,
    ids: &HashSet<&str>,
    options: &Options,
    path: &str,
    findings: &mut Findings,
) {
    if resource.for_each.len() > options.max_dimensions {
        findings.add(
            path,
            format!(
                "{} dimensions are more than the maximum of {}",
                resource.for_each.len(),
                options.max_dimensions
            ),
        );
    }
    if resource.external_ref.is_some() && !resource.for_each.is_empty() {
        findings.add(path, "externalRef and forEach cannot be used together");
    }
    let mut seen = HashSet::new();
    for (index, dimension) in resource.for_each.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if dimension.len() != 1 {
            findings.add(&at, format!("a dimension has one variable, not {}", dimension.len()));
        }
        for name in dimension.keys() {
            let shown_name = shown(name);
            if is_reserved(name) {
                findings.add(&at, format!("iterator {shown_name} is a reserved keyword in KRO"));
            } else if !is_lower_camel(name) {
                findings.add(&at, format!("iterator {shown_name} must be lower camelCase"));
            } else if ids.contains(name.as_str()) {
                findings.add(&at, format!("iterator {shown_name} has the name of a resource"));
            } else if !seen.insert(name.as_str()) {
                findings.add(&at, format!("iterator {shown_name} is given twice"));
            }
        }
    }
}
