//! One resource of a definition.

use std::collections::{BTreeSet, HashMap, HashSet};

use api::kro::{self, GROUP, INTERNAL_GROUP, Resource};
use schema::{Scope as Reach, names};
use serde_json::{Value, json};

use crate::{
    Options,
    cel::{ast::Kind as ExprKind, functions},
    check::{self, Scope, Type, condition, infer},
    error::{Error, Findings, child, shown},
    kinds::{Kind, Kinds, split},
    template::{self, Code, Field},
};

/// A node of the graph.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub id: String,
    /// `spec.resources[2]`
    pub path: String,
    pub api_version: String,
    pub kind: String,
    pub known: Kind,
    pub source: Source,
    pub include_when: Vec<Code>,
    pub ready_when: Vec<Code>,
    pub for_each: Vec<(String, Code)>,
    /// By number, the number of the declaration.
    pub dependencies: BTreeSet<usize>,
    /// Those of them that `include_when` needs.
    pub include_dependencies: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Made and kept.
    Template(Field),
    /// Read: one object, `metadata.name` and `metadata.namespace`.
    External(Field),
    /// Read: all that the selector matches.
    ExternalCollection { selector: Field, namespace: Option<Field> },
}

pub(super) fn read(
    resource: &Resource,
    index: usize,
    owner: &kro::Schema,
    kinds: &Kinds,
    options: &Options,
    findings: &mut Findings,
) -> Option<Node> {
    let path = format!("spec.resources[{index}]");
    let manifest = match (&resource.template, &resource.external_ref) {
        (Some(template), None) => Value::Object(template.0.clone()),
        (None, Some(external)) => json!(external),
        _ => {
            findings.add(path, "give exactly one of template and externalRef");
            return None;
        }
    };
    let is_external = resource.external_ref.is_some();
    let at = format!("{path}.{}", if is_external { "externalRef" } else { "template" });
    let (api_version, kind) = type_of(&manifest, &at, findings)?;
    let Some(known) = kinds.get(&api_version, &kind) else {
        findings.add(at, format!("schema not found for {} {}", shown(&api_version), shown(&kind)));
        return None;
    };
    let field = noted_all(template::read(&manifest, &at), findings)?;
    let before = findings.len();
    let source = match is_external {
        true => external(&field, resource, &known, owner, &at, findings),
        false => {
            namespace(&manifest, &known, owner, &at, findings);
            reserved_metadata(&manifest, &at, findings);
            expressions_of_crd(&field, &api_version, &kind, &at, findings);
            Some(Source::Template(field))
        }
    };
    let mut list = |texts: &[String], name: &str| -> Vec<Code> {
        let mut codes = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match template::standalone(text, &format!("{path}.{name}[{index}]")) {
                Ok(code) => codes.push(code),
                Err(error) => findings.push(error),
            }
        }
        codes
    };
    let include_when = list(&resource.include_when, "includeWhen");
    let ready_when = list(&resource.ready_when, "readyWhen");
    let mut for_each = Vec::new();
    for (index, dimension) in resource.for_each.iter().enumerate() {
        for (name, text) in dimension {
            match template::standalone(text, &format!("{path}.forEach[{index}].{name}")) {
                Ok(code) => for_each.push((name.clone(), code)),
                Err(error) => findings.push(error),
            }
        }
    }
    let node = Node {
        id: resource.id.clone(),
        path,
        api_version,
        kind,
        known,
        source: source?,
        include_when,
        ready_when,
        for_each,
        dependencies: BTreeSet::new(),
        include_dependencies: BTreeSet::new(),
    };
    identity(&node, findings);
    omissions(&node, options, findings);
    (findings.len() == before).then_some(node)
}

fn noted_all<T>(result: Result<T, Vec<Error>>, findings: &mut Findings) -> Option<T> {
    result.map_err(|errors| errors.into_iter().for_each(|error| findings.push(error))).ok()
}

/// Group, version and kind are written out, whatever else is computed.
fn type_of(manifest: &Value, path: &str, findings: &mut Findings) -> Option<(String, String)> {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut missing = |field: &str| {
        findings.add(path, format!("is not a valid Kubernetes object: {field} field not found"));
    };
    let (api_version, kind) = match (text("apiVersion"), text("kind")) {
        (None, _) => {
            missing("apiVersion");
            return None;
        }
        (_, None) => {
            missing("kind");
            return None;
        }
        (Some(api_version), Some(kind)) => (api_version, kind),
    };
    if !manifest.get("metadata").is_some_and(Value::is_object) {
        missing("metadata");
        return None;
    }
    let (group, version) = split(api_version);
    let is_version = names::dns1035_label(version).is_empty();
    let is_group = group.is_empty() != api_version.contains('/')
        && (group.is_empty() || names::dns1123_subdomain(group).is_empty());
    if !is_version || !is_group {
        findings
            .add(child(path, "apiVersion"), format!("invalid apiVersion format: '{}'", shown(api_version)));
        return None;
    }
    if !names::dns1035_label(&kind.to_lowercase()).is_empty() {
        findings.add(child(path, "kind"), format!("'{}' is not the name of a kind", shown(kind)));
        return None;
    }
    Some((api_version.to_owned(), kind.to_owned()))
}

fn external(
    field: &Field,
    resource: &Resource,
    known: &Kind,
    owner: &kro::Schema,
    path: &str,
    findings: &mut Findings,
) -> Option<Source> {
    let at = child(path, "metadata");
    let metadata = field.at(&["metadata"])?;
    let reference = resource.external_ref.as_ref()?;
    let namespace = metadata.at(&["namespace"]).cloned();
    if known.scope == Reach::Cluster && namespace.is_some() {
        findings.add(child(&at, "namespace"), "a kind of the cluster has no namespace");
    }
    match (&reference.metadata.name, &reference.metadata.selector) {
        (Some(name), None) => {
            if name.is_empty() {
                findings.add(child(&at, "name"), "must not be empty");
            }
            let needs = known.scope == Reach::Namespaced && owner.scope == kro::Scope::Cluster;
            if needs && namespace.is_none() {
                findings.add(child(&at, "namespace"), "must be set: instances have no namespace");
            }
            Some(Source::External(field.clone()))
        }
        (None, Some(_)) => {
            let selector = metadata.at(&["selector"])?.clone();
            Some(Source::ExternalCollection { selector, namespace })
        }
        _ => {
            findings.add(at, "give exactly one of name and selector");
            None
        }
    }
}

fn namespace(manifest: &Value, known: &Kind, owner: &kro::Schema, path: &str, findings: &mut Findings) {
    let namespace = manifest["metadata"].get("namespace").and_then(Value::as_str);
    let at = format!("{path}.metadata.namespace");
    match (known.scope, namespace) {
        (Reach::Cluster, Some(_)) => findings.add(at, "a kind of the cluster has no namespace"),
        (Reach::Namespaced, namespace)
            if owner.scope == kro::Scope::Cluster && namespace.is_none_or(|text| text.trim().is_empty()) =>
        {
            findings.add(at, "must be set: instances have no namespace");
        }
        _ => {}
    }
}

fn reserved_metadata(manifest: &Value, path: &str, findings: &mut Findings) {
    for part in ["labels", "annotations"] {
        for key in manifest["metadata"][part].as_object().into_iter().flat_map(|map| map.keys()) {
            let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
            if prefix == GROUP || prefix == INTERNAL_GROUP {
                let at = child(&format!("{path}.metadata.{part}"), key);
                findings.add(at, format!("keys with the prefix {prefix}/ are reserved"));
            }
        }
    }
}

/// A CRD in a template decides what other templates may be: it has to be known before anything runs.
fn expressions_of_crd(field: &Field, api_version: &str, kind: &str, path: &str, findings: &mut Findings) {
    if (api_version, kind) != ("apiextensions.k8s.io/v1", "CustomResourceDefinition") {
        return;
    }
    let Field::Object(fields) = field else { return };
    for (name, field) in fields.iter().filter(|(name, _)| name != "metadata") {
        let mut found = false;
        field.each(&mut |_| found = true);
        if found {
            findings.add(child(path, name), "CEL expressions in CRDs are only supported for metadata fields");
        }
    }
}

/// Each resource of a collection needs a name of its own.
fn identity(node: &Node, findings: &mut Findings) {
    let Source::Template(template) = &node.source else { return };
    if node.for_each.is_empty() {
        return;
    }
    let mut used = HashSet::new();
    let mut fields = vec!["name"];
    if node.known.scope == Reach::Namespaced {
        fields.push("namespace");
    }
    for field in fields {
        if let Some(field) = template.at(&["metadata", field]) {
            field.each(&mut |code| {
                code.expr.free_names(&mut |name| {
                    used.insert(name);
                })
            });
        }
    }
    let missing: Vec<&str> =
        node.for_each.iter().map(|(name, _)| name.as_str()).filter(|name| !used.contains(name)).collect();
    if !missing.is_empty() {
        findings.add(
            format!("{}.template.metadata.name", node.path),
            format!(
                "all forEach dimensions must be used to produce a unique resource identity, missing: [{}]",
                missing.join(", ")
            ),
        );
    }
}

fn calls(code: &Code, function: &str) -> bool {
    let mut found = false;
    code.expr
        .each(&mut |expr| found |= matches!(&expr.kind, ExprKind::Call { name, .. } if name == function));
    found
}

fn omissions(node: &Node, options: &Options, findings: &mut Findings) {
    let mut refuse = |code: &Code, path: String, why: &str| {
        if calls(code, "omit") {
            findings.add(path, why);
        }
    };
    const GATE: &str = "omit() requires the CELOmitFunction feature gate";
    for (name, code) in &node.for_each {
        refuse(code, format!("{}.forEach.{name}", node.path), "omit() cannot be used in forEach");
    }
    for (list, name) in [(&node.include_when, "includeWhen"), (&node.ready_when, "readyWhen")] {
        for code in list {
            refuse(code, format!("{}.{name}", node.path), "omit() can only be used in templates");
        }
    }
    let Source::Template(template) = &node.source else { return };
    if !options.allow_omit {
        template.each(&mut |code| refuse(code, format!("{}.template", node.path), GATE));
    }
    if let Some(name) = template.at(&["metadata", "name"]) {
        let at = format!("{}.template.metadata.name", node.path);
        name.each(&mut |code| refuse(code, at.clone(), "omit() cannot be used for the name"));
    }
}

/// Finds what each node depends on.
pub(super) fn connect(nodes: &mut [Node], findings: &mut Findings) {
    let ids: HashMap<String, usize> =
        nodes.iter().enumerate().map(|(index, node)| (node.id.clone(), index)).collect();
    for (index, node) in nodes.iter_mut().enumerate() {
        let mut references = References { ids: &ids, node, own: index, findings };
        let iterators: HashSet<String> =
            references.node.for_each.iter().map(|(name, _)| name.clone()).collect();
        let mut codes = Vec::new();
        let fields: Vec<&Field> = match &references.node.source {
            Source::Template(field) | Source::External(field) => vec![field],
            Source::ExternalCollection { selector, namespace } => {
                [selector].into_iter().chain(namespace).collect()
            }
        };
        fields.iter().for_each(|field| field.each(&mut |code| codes.push(code.clone())));
        let what =
            if matches!(references.node.source, Source::Template(_)) { "template" } else { "externalRef" };
        let mut needed = references.find(&codes, what, &iterators);
        let lists: Vec<Code> = references.node.for_each.iter().map(|(_, code)| code.clone()).collect();
        needed.extend(references.lists(&lists, &iterators));
        let include = references.node.include_when.clone();
        let for_include = references.find(&include, "includeWhen", &HashSet::new());
        references.ready();
        needed.extend(for_include.iter().copied());
        node.dependencies = needed;
        node.include_dependencies = for_include;
    }
}

struct References<'a> {
    ids: &'a HashMap<String, usize>,
    node: &'a Node,
    own: usize,
    findings: &'a mut Findings,
}

impl References<'_> {
    fn find(&mut self, codes: &[Code], what: &str, iterators: &HashSet<String>) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut unknown = BTreeSet::new();
        let path = format!("{}.{what}", self.node.path);
        for code in codes {
            let mut names = BTreeSet::new();
            code.expr.free_names(&mut |name| {
                names.insert(name.to_owned());
            });
            let mut uses_runtime = false;
            code.expr.each(&mut |expr| {
                uses_runtime |=
                    matches!(&expr.kind, ExprKind::Call { name, .. } if name.starts_with("runtime."));
            });
            if uses_runtime || names.contains("runtime") {
                self.findings.add(&path, "runtime is only available in status.conditions expressions");
                continue;
            }
            for name in names {
                match self.ids.get(&name) {
                    Some(other) if *other == self.own => {
                        self.findings.add(&path, format!("self references are not allowed: {name}"));
                    }
                    Some(other) => {
                        needed.insert(*other);
                    }
                    None if name == "schema" || iterators.contains(&name) => {}
                    None if functions::type_called(&name).is_some() => {}
                    None => {
                        unknown.insert(name);
                    }
                }
            }
        }
        if !unknown.is_empty() {
            let names = unknown.into_iter().collect::<Vec<_>>().join(", ");
            self.findings.add(path, format!("references unknown identifiers: [{}]", shown(&names)));
        }
        needed
    }

    /// The lists of forEach may not depend on one another.
    fn lists(&mut self, codes: &[Code], iterators: &HashSet<String>) -> BTreeSet<usize> {
        for code in codes {
            let mut found = None;
            code.expr.free_names(&mut |name| {
                if iterators.contains(name) {
                    found = Some(name.to_owned());
                }
            });
            if let Some(name) = found {
                let path = format!("{}.forEach", self.node.path);
                self.findings.add(path, format!("cannot reference other iterators: {name}"));
                return BTreeSet::new();
            }
        }
        self.find(codes, "forEach", &HashSet::new())
    }

    fn ready(&mut self) {
        let path = format!("{}.readyWhen", self.node.path);
        for code in &self.node.ready_when {
            let mut others = BTreeSet::new();
            code.expr.free_names(&mut |name| {
                let is_own = match self.node.is_collection() {
                    true => {
                        name == "each"
                            || (name == self.node.id && !matches!(self.node.source, Source::Template(_)))
                    }
                    false => name == self.node.id,
                };
                if !is_own && functions::type_called(name).is_none() {
                    others.insert(name.to_owned());
                }
            });
            if !others.is_empty() {
                let names = others.into_iter().collect::<Vec<_>>().join(", ");
                let own = if self.node.is_collection() { "each" } else { &self.node.id };
                self.findings.add(
                    &path,
                    format!(
                        "references unknown identifiers: [{}]: readyWhen knows '{own}' and nothing else",
                        shown(&names)
                    ),
                );
            }
        }
    }
}

/// Types of everything a node says.
pub(super) fn check(node: &Node, scope: &Scope<'_>, findings: &mut Findings) {
    let mut inner = scope.clone();
    inner.remove(node.id.as_str());
    for (name, code) in &node.for_each {
        let at = format!("{}.forEach.{name}", node.path);
        let element = match infer(&code.expr, &inner) {
            Ok(Type::List(element)) => (*element).clone(),
            Ok(found) if found.is_dyn() => Type::Dyn,
            Ok(found) => {
                findings
                    .add(at, format!("expression \"{}\" must return a list, not {found}", shown(&code.text)));
                Type::Dyn
            }
            Err(why) => {
                findings.add(at, format!("expression \"{}\": {why}", shown(&code.text)));
                Type::Dyn
            }
        };
        // iterators do not see one another, so the order does not matter
        inner.insert(name, element);
    }
    for code in &node.include_when {
        boolean(code, scope, &format!("{}.includeWhen", node.path), findings);
    }
    let single = Type::of(&node.known.schema);
    let mut own = Scope::new();
    own.insert("each", single.clone());
    own.insert(&node.id, if node.is_collection() { Type::list(single) } else { single });
    for code in &node.ready_when {
        boolean(code, &own, &format!("{}.readyWhen", node.path), findings);
    }
    match &node.source {
        Source::Template(template) => {
            let path = format!("{}.template", node.path);
            let place = check::Place { id: &node.id, path: &path };
            check::check_template(template, Some(&node.known.schema), &inner, &place, findings);
        }
        Source::External(field) => {
            let path = format!("{}.externalRef", node.path);
            let place = check::Place { id: &node.id, path: &path };
            check::check_template(field, Some(&node.known.schema), &inner, &place, findings);
        }
        Source::ExternalCollection { selector, namespace } => {
            let path = format!("{}.externalRef.metadata", node.path);
            let place = check::Place { id: &node.id, path: &path };
            for field in [selector].into_iter().chain(namespace) {
                check::check_template(field, None, &inner, &place, findings);
            }
        }
    }
}

fn boolean(code: &Code, scope: &Scope<'_>, path: &str, findings: &mut Findings) {
    let result = infer(&code.expr, scope).and_then(|found| condition(&found));
    if let Err(why) = result {
        findings.add(path, format!("expression \"{}\" {why}", shown(&code.text)));
    }
}

/// Nodes whose `spec.replicas` is computed from the instance's scale field.
pub(super) fn that_scale(nodes: &[Node], scale: &[String]) -> Vec<usize> {
    let path: Vec<&str> = ["schema", "spec"].into_iter().chain(scale.iter().map(String::as_str)).collect();
    let follows = |node: &Node| {
        let Source::Template(template) = &node.source else { return false };
        let mut found = false;
        if let Some(replicas) = template.at(&["spec", "replicas"]) {
            replicas.each(&mut |code| {
                code.expr.each(&mut |expr| found |= expr.as_path().is_some_and(|found| found == path));
            });
        }
        found
    };
    nodes.iter().enumerate().filter(|(_, node)| follows(node)).map(|(index, _)| index).collect()
}

// === impl Node ===

impl Node {
    /// Whether expressions see a list of it.
    pub fn is_collection(&self) -> bool {
        !self.for_each.is_empty() || matches!(self.source, Source::ExternalCollection { .. })
    }

    pub fn is_external(&self) -> bool {
        !matches!(self.source, Source::Template(_))
    }

    pub fn type_(&self) -> Type {
        let single = Type::of(&self.known.schema);
        if self.is_collection() { Type::list(single) } else { single }
    }
}
