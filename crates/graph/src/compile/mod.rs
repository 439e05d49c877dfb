//! A definition, read and checked: everything that can be said about it before there is an instance.

mod names;
mod resource;
mod status;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::kro::{self, ResourceGraphDefinition};
use schema::Schema;
use serde_json::{Map, Value};

pub(crate) use self::{
    resource::{Node, Source},
    status::{Status, StatusField},
};
use crate::{
    check::{Scope, Type},
    crd::{self, Owner, ScalePaths},
    error::{Error, Findings},
    kinds::{self, Kinds},
    order::{Order, order},
    simple::{self, MarkKind, SpecSchema},
};

/// Limits and gates, as kro's flags have them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Dimensions of one forEach.
    pub max_dimensions: usize,
    /// Resources that one forEach may make.
    pub max_collection: usize,
    /// `omit()` in templates (kro's gate CELOmitFunction).
    pub allow_omit: bool,
}

/// A definition that can be used: generated kinds, nodes with their expressions, and the order.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) owner: Owner,
    pub(crate) nodes: Vec<Node>,
    pub(crate) order: Order,
    pub(crate) status: Status,
    /// The instance without its status: what `schema` is in expressions.
    pub(crate) instance: Arc<Schema>,
    pub(crate) scale: Option<ScalePaths>,
    /// Nodes whose `spec.replicas` follows the instance's scale.
    pub(crate) scaled: Vec<usize>,
    pub(crate) options: Options,
    crd: Value,
    set: Option<Value>,
}

/// Reads and checks a definition. All findings are collected, as far as one does not hide another.
pub fn compile(
    definition: &ResourceGraphDefinition,
    kinds: &Kinds,
    options: &Options,
) -> Result<Graph, Vec<Error>> {
    let spec = &definition.spec;
    let owner = Owner {
        name: definition.metadata.name.clone().unwrap_or_default(),
        uid: definition.metadata.uid.clone().unwrap_or_default(),
    };
    let mut findings = Findings::default();
    names::check(spec, options, &mut findings);
    if !findings.is_empty() {
        return Err(findings.into_errors());
    }
    let none = Map::new();
    let raw = |raw: &Option<kro::Raw>| raw.as_ref().map_or_else(|| none.clone(), |raw| raw.0.clone());
    let spec_schema = simple::spec(&raw(&spec.schema.spec), &raw(&spec.schema.types))?;
    let instance = Arc::new(instance_schema(&spec_schema));

    let mut nodes = Vec::new();
    for (index, resource) in spec.resources.iter().enumerate() {
        if let Some(node) = resource::read(resource, index, &spec.schema, kinds, options, &mut findings) {
            nodes.push(node);
        }
    }
    if !findings.is_empty() {
        return Err(findings.into_errors());
    }
    resource::connect(&mut nodes, &mut findings);
    let needed: Vec<Vec<usize>> =
        nodes.iter().map(|node| node.dependencies.iter().copied().collect()).collect();
    let sorted = order(&needed).unwrap_or_else(|circle| {
        let ids: Vec<&str> = circle.iter().map(|node| nodes[*node].id.as_str()).collect();
        let index = circle.first().copied().unwrap_or_default();
        let shown = crate::error::shown(&ids.join(" -> "));
        findings.add(format!("spec.resources[{index}]"), format!("graph contains a cycle: {shown}"));
        Order::default()
    });
    if !findings.is_empty() {
        return Err(findings.into_errors());
    }

    let mut scope = Scope::new();
    scope.insert("schema", Type::of(&instance));
    let types: Vec<Type> = nodes.iter().map(Node::type_).collect();
    for (node, found) in nodes.iter().zip(&types) {
        scope.insert(node.id.as_str(), found.clone());
    }
    for node in &nodes {
        resource::check(node, &scope, &mut findings);
    }
    let before = findings.len();
    let mut status = status::read(&raw(&spec.schema.status), &scope, &mut findings);
    // a status that could not be read says nothing about what is missing in it
    let scale = match findings.len() == before {
        true => scale_paths(&spec_schema, &status, &mut findings),
        false => None,
    };
    if !findings.is_empty() {
        return Err(findings.into_errors());
    }

    crd::add_common_status(&mut status.schema, spec.scaling.is_some());
    let generated = crd::instance(&spec.schema, &owner, &spec_schema, &status.schema, scale.as_ref());
    crd::validate(&generated, &mut findings);
    let set =
        spec.scaling.as_ref().map(|scaling| crd::set(&spec.schema, scaling, &owner, &spec_schema.schema));
    if let Some(set) = set.as_ref().filter(|_| findings.is_empty()) {
        crd::validate(set, &mut findings);
    }
    let scaled = scale.as_ref().map_or_else(Vec::new, |scale| resource::that_scale(&nodes, &scale.spec));
    findings.or(())?;
    Ok(Graph {
        owner,
        nodes,
        order: sorted,
        status,
        instance,
        scale,
        scaled,
        options: options.clone(),
        crd: generated,
        set,
    })
}

/// What `schema` is: metadata as every object has it, and the spec.
fn instance_schema(spec: &SpecSchema) -> Schema {
    let mut schema = Schema { type_: Some(schema::Type::Object), ..Schema::default() };
    schema.properties.insert("spec".to_owned(), Arc::new(spec.schema.clone()));
    kinds::as_resource(&schema)
}

/// The paths of the scale subresource: on both sides or on neither.
fn scale_paths(spec: &SpecSchema, status: &Status, findings: &mut Findings) -> Option<ScalePaths> {
    let path = |names: &[String]| format!("spec.schema.status.{}", names.join("."));
    let mut only = |kind: MarkKind| {
        let mut marks = status.marks.iter().filter(|mark| mark.kind == kind);
        let first = marks.next()?;
        for other in marks {
            let message = format!(
                "only one field may have the marker '{}': {} has it too",
                kind.name(),
                path(&first.names)
            );
            findings.add(path(&other.names), message);
        }
        if !first.is_reachable {
            let message =
                format!("marker '{}' must be reached through plain names, without lists", kind.name());
            findings.add(path(&first.names), message);
        }
        Some(first.names.clone())
    };
    let scale = only(MarkKind::Scale);
    let selector = only(MarkKind::Selector);
    match (&spec.scale, scale) {
        (Some(spec), Some(status)) => Some(ScalePaths { spec: spec.clone(), status, selector }),
        (Some(spec), None) => {
            findings.add(
                format!("spec.schema.spec.{}", spec.join(".")),
                "marker 'scale' must be on a field of the spec and on one of the status: the status has none",
            );
            None
        }
        (None, Some(status)) => {
            findings.add(
                path(&status),
                "marker 'scale' must be on a field of the spec and on one of the status: the spec has none",
            );
            None
        }
        (None, None) => {
            if let Some(selector) = selector {
                findings.add(path(&selector), "marker 'scaleSelector' needs the marker 'scale' beside it");
            }
            None
        }
    }
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self { max_dimensions: 10, max_collection: 1000, allow_omit: false }
    }
}

// === impl Graph ===

impl Graph {
    /// The generated kind of the instances.
    pub fn crd(&self) -> &Value {
        &self.crd
    }

    /// The generated kind that keeps a number of instances, if the definition asks for one.
    pub fn set_crd(&self) -> Option<&Value> {
        self.set.as_ref()
    }

    /// Who the generated kinds belong to.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    pub fn scale(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }

    /// Ids in an order in which each comes after those it depends on.
    pub fn topological_order(&self) -> Vec<&str> {
        self.order.sorted.iter().map(|node| self.nodes[*node].id.as_str()).collect()
    }

    /// Ids that can be made at the same time, level by level.
    pub fn levels(&self) -> Vec<Vec<&str>> {
        let mut levels: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for node in &self.order.sorted {
            levels.entry(self.order.level[*node]).or_default().push(&self.nodes[*node].id);
        }
        levels.into_values().collect()
    }

    /// The status of a definition that was accepted: order and dependencies. Only resources that have some are listed.
    pub fn definition_status(&self) -> kro::Status {
        let id = |node: &usize| self.nodes[*node].id.clone();
        let resources = self.order.sorted.iter().filter(|node| !self.nodes[**node].dependencies.is_empty());
        kro::Status {
            topological_order: self.order.sorted.iter().map(id).collect(),
            resources: resources
                .map(|node| kro::ResourceStatus {
                    id: id(node),
                    dependencies: self.nodes[*node]
                        .dependencies
                        .iter()
                        .map(|other| kro::Dependency { id: id(other) })
                        .collect(),
                })
                .collect(),
            ..kro::Status::default()
        }
    }

    /// Kinds of which instances read objects that are not their own.
    pub fn external_kinds(&self) -> Vec<(&str, &str)> {
        let external = self.nodes.iter().filter(|node| node.is_external());
        external.map(|node| (node.api_version.as_str(), node.kind.as_str())).collect()
    }

    /// Kinds that instances read or write: what a controller has to watch.
    pub fn kinds(&self) -> Vec<(&str, &str)> {
        let kinds: HashMap<(&str, &str), ()> =
            self.nodes.iter().map(|node| ((node.api_version.as_str(), node.kind.as_str()), ())).collect();
        let mut kinds: Vec<_> = kinds.into_keys().collect();
        kinds.sort_unstable();
        kinds
    }
}

#[cfg(test)]
mod tests;
