//! Which kinds are served. A kind is a row of data: the verbs are written once, for all of them.

mod builtin;
mod custom;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    convert::Conversion,
    error::Subject,
    prepare::Prepare,
    storage::{Store, TableId},
    table::Column,
};

pub type Text = Cow<'static, str>;

/// One kind in all its versions.
#[derive(Clone)]
pub struct Kind {
    pub group: Text,
    pub kind: Text,
    pub list_kind: Text,
    pub plural: Text,
    pub singular: Text,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub namespaced: bool,
    pub versions: Vec<Version>,
    /// Index of the version in which objects are kept.
    pub storage_version: usize,
    /// Two kinds may share a table (Events of two groups do).
    pub table_name: Text,
    pub table: TableId,
    pub selectable: Vec<SelectableField>,
    pub rules: Rules,
    pub origin: Origin,
    /// The definition of a custom kind is being deleted: nothing new is taken.
    pub terminating: bool,
}

#[derive(Clone)]
pub struct Version {
    pub name: Text,
    pub served: bool,
    pub status: bool,
    pub scale: Option<ScalePaths>,
    /// Of built-in kinds, made when first needed.
    pub columns: OnceLock<Arc<[Column]>>,
    /// What a Warning header says about use of this version.
    pub deprecation: Option<String>,
    pub conversion: Conversion,
    /// Of built-in kinds, looked up when first needed.
    pub schema: OnceLock<Option<Arc<schema::Kind>>>,
    /// See [`crate::admit::empty`].
    pub empty: OnceLock<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Builtin,
    Custom,
}

/// How objects of a kind behave beyond what all objects do.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub generation: Generation,
    /// A PUT may create.
    pub create_on_update: bool,
    /// A PUT need not name the resource version it is based on.
    pub unconditional_update: bool,
    /// A DELETE answers with the object rather than with a Status.
    pub returns_deleted: bool,
    /// A DELETE leaves time to stop (pods).
    pub graceful: bool,
    pub delete_collection: bool,
    /// What a status update may change outside `status`.
    pub status_metadata: StatusMetadata,
    /// A create may carry a status (nodes register with one).
    pub keeps_status: bool,
    /// Lives as long as the server's event TTL.
    pub expires: bool,
    pub subresources: &'static [Subresource],
    pub prepare: &'static [Prepare],
    /// What reading an object of the kind adds to it; unlike what is prepared, it belongs to the client.
    pub complete: &'static [fn(&mut Value)],
    /// What the first DELETE changes besides the usual marks.
    pub on_delete: Option<fn(&mut Value, Timestamp)>,
    /// Names of objects that cannot be deleted: the cluster itself lives in them.
    pub permanent: Permanent,
    /// `spec.finalizers` hold the object too (namespaces).
    pub spec_finalizers: bool,
    /// Answered on POST and kept nowhere.
    pub review: bool,
    /// A DELETE that says nothing of dependents leaves them (Jobs, for clients of long ago).
    pub orphans: bool,
}

/// Objects that stay, and what a DELETE of them is told.
#[derive(Clone, Copy, Debug)]
pub struct Permanent {
    pub names: &'static [&'static str],
    pub why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation.
    None,
    /// Is 1 for ever.
    First,
    /// Counts changes of `spec`.
    Spec,
    /// Counts changes of `spec` and of annotations, which a Deployment hands on.
    SpecAndAnnotations,
    /// Counts changes of everything but metadata (and `status`, if that is a subresource).
    Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMetadata {
    /// Labels and annotations may change along.
    Loose,
    /// Like `Loose`, but labels stay.
    KeepsLabels,
    /// Only `managedFields` may change.
    Fixed,
}

/// Subresources that some built-in kinds have besides `status` and `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    Log,
    Binding,
    Eviction,
    Resize,
    Exec,
    Attach,
    PortForward,
    Finalize,
    Token,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec: Vec<String>,
    pub status: Vec<String>,
    pub selector: Selector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    None,
    /// A `LabelSelector`, to be written out as text.
    Structured(Vec<String>),
    /// A field that holds the text already.
    Text(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    pub label: Text,
    path: Vec<String>,
    default: &'static str,
    /// Where to look when the first path is empty.
    fallback: Vec<String>,
}

#[derive(Clone, Default)]
pub struct Registry {
    kinds: Vec<Arc<Kind>>,
    by_resource: HashMap<(Text, Text), Arc<Kind>>,
    by_table: HashMap<String, Arc<Kind>>,
}

// === impl Registry ===

impl Registry {
    pub fn builtin(store: &Store) -> Self {
        let mut registry = Self::default();
        for kind in builtin::kinds(store) {
            registry.add(kind);
        }
        registry
    }

    fn add(&mut self, kind: Kind) {
        let kind = Arc::new(kind);
        self.by_resource.insert((kind.group.clone(), kind.plural.clone()), kind.clone());
        // The first kind of a shared table tells how its objects are kept.
        self.by_table.entry(kind.table_name.to_string()).or_insert_with(|| kind.clone());
        self.kinds.push(kind);
    }

    /// With the kind that `crd` defines, replacing an earlier state of it. Unusable definitions are left out.
    pub fn with_custom(&self, crd: &Value, store: &Store) -> Self {
        let mut registry = self.without_custom(crd);
        if let Some(kind) = custom::kind(crd, store) {
            registry.add(kind);
        }
        registry
    }

    pub fn without_custom(&self, crd: &Value) -> Self {
        let spec = &crd["spec"];
        let (group, plural) = (spec["group"].as_str(), spec["names"]["plural"].as_str());
        let mut registry = Self::default();
        for kind in &self.kinds {
            let same = kind.origin == Origin::Custom
                && Some(kind.group.as_ref()) == group
                && Some(kind.plural.as_ref()) == plural;
            if !same {
                registry.add(Kind::clone(kind));
            }
        }
        registry
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<(Arc<Kind>, usize)> {
        let kind = self.by_resource.get(&(Text::Owned(group.to_owned()), Text::Owned(plural.to_owned())))?;
        let version =
            kind.versions.iter().position(|candidate| candidate.served && candidate.name == version)?;
        Some((kind.clone(), version))
    }

    /// Whether some built-in kind has this name in this `apiVersion`.
    pub fn knows(&self, api_version: &str, kind: &str) -> bool {
        self.kinds
            .iter()
            .filter(|one| one.origin == Origin::Builtin && one.kind == kind)
            .any(|one| (0..one.versions.len()).any(|version| one.api_version(version) == api_version))
    }

    pub fn of_table(&self, table: &str) -> Option<&Arc<Kind>> {
        self.by_table.get(table)
    }

    pub fn resource(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_resource.get(&(Text::Owned(group.to_owned()), Text::Owned(plural.to_owned())))
    }

    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }

    /// Groups with their served versions, preferred first; the core group has the name "".
    pub fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut order = Vec::new();
        let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for kind in &self.kinds {
            let known = versions.entry(kind.group.to_string()).or_insert_with(|| {
                order.push((kind.origin == Origin::Custom, kind.group.to_string()));
                Vec::new()
            });
            for version in kind.versions.iter().filter(|version| version.served) {
                if !known.iter().any(|name| *name == version.name) {
                    known.push(version.name.to_string());
                }
            }
        }
        // Built-in groups keep the order of their rows; those of CRDs come after, by name.
        order.sort_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| if a.0 { a.1.cmp(&b.1) } else { std::cmp::Ordering::Equal })
        });
        order
            .into_iter()
            .filter_map(|(_, group)| {
                let mut versions = versions.remove(&group)?;
                versions.sort_by(|a, b| version_priority(b).cmp(&version_priority(a)).then_with(|| a.cmp(b)));
                (!versions.is_empty()).then_some((group, versions))
            })
            .collect()
    }
}

/// `v2` > `v1` > `v2beta1` > `v1alpha3` > anything else: how Kubernetes ranks versions.
pub fn version_priority(version: &str) -> (u8, u64, u64) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let Ok(major) = rest[..digits].parse() else { return (0, 0, 0) };
    let (stability, minor) = match &rest[digits..] {
        "" => return (3, major, 0),
        rest if rest.starts_with("beta") => (2, &rest[4..]),
        rest if rest.starts_with("alpha") => (1, &rest[5..]),
        _ => return (0, 0, 0),
    };
    match minor.parse() {
        Ok(minor) => (stability, major, minor),
        Err(_) => (0, 0, 0),
    }
}

// === impl Kind ===

impl Kind {
    pub fn subject(&self) -> Subject {
        Subject::new(&self.group, &self.plural, &self.kind)
    }

    pub fn api_version(&self, version: usize) -> String {
        let version = &self.versions[version].name;
        if self.group.is_empty() { version.to_string() } else { format!("{}/{version}", self.group) }
    }

    pub fn storage_api_version(&self) -> String {
        self.api_version(self.storage_version)
    }

    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// Keys of objects in `namespace` (or, if it is empty, of all) start so.
    pub fn prefix(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() { format!("{namespace}/") } else { String::new() }
    }
}

// === impl SelectableField ===

impl SelectableField {
    pub fn new(label: impl Into<Text>, path: &str, default: &'static str, fallback: &str) -> Self {
        let split = |path: &str| path.split('.').filter(|key| !key.is_empty()).map(str::to_owned).collect();
        Self { label: label.into(), path: split(path), default, fallback: split(fallback) }
    }

    pub fn read(&self, object: &Value) -> String {
        let value = Self::text(object, &self.path);
        let value = if value.is_empty() && !self.fallback.is_empty() {
            Self::text(object, &self.fallback)
        } else {
            value
        };
        if value.is_empty() { self.default.to_owned() } else { value }
    }

    fn text(object: &Value, path: &[String]) -> String {
        match path.iter().try_fold(object, |value, key| value.get(key)) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
            _ => String::new(),
        }
    }
}

// === impl Subresource ===

impl Subresource {
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Resize => "resize",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
            Self::Finalize => "finalize",
            Self::Token => "token",
        }
    }
}
