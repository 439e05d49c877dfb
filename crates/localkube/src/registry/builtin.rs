//! The built-in kinds, a row each.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Generation, Kind, Origin, Permanent, Rules, ScalePaths, SelectableField, Selector, StatusMetadata,
    Subresource, Text, Version,
};
use crate::{
    convert::Conversion,
    lifecycle,
    prepare::{self, Prepare},
    storage::Store,
};

struct Row {
    group: &'static str,
    versions: &'static [(&'static str, Conversion)],
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    table: &'static str,
    status: bool,
    scale: bool,
    /// Label, path (or the label itself, if empty), default, and where else to look.
    fields: &'static [(&'static str, &'static str, &'static str, &'static str)],
    rules: Rules,
}

const V1: &[(&str, Conversion)] = &[("v1", Conversion::None)];
const ALL: &[&str] = &["all"];

const PLAIN: Rules = Rules {
    generation: Generation::None,
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
    graceful: false,
    delete_collection: true,
    status_metadata: StatusMetadata::Loose,
    keeps_status: false,
    expires: false,
    subresources: &[],
    prepare: &[],
    complete: &[],
    on_delete: None,
    permanent: Permanent { names: &[], why: "" },
    spec_finalizers: false,
    review: false,
    orphans: false,
};

// === impl Row ===

impl Row {
    const fn new(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self {
            group,
            versions: V1,
            kind,
            plural,
            singular,
            short: &[],
            categories: &[],
            namespaced: true,
            table: plural,
            status: false,
            scale: false,
            fields: &[],
            rules: PLAIN,
        }
    }

    const fn versions(self, versions: &'static [(&'static str, Conversion)]) -> Self {
        Self { versions, ..self }
    }

    const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    const fn all(self) -> Self {
        Self { categories: ALL, ..self }
    }

    const fn categories(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    const fn cluster(self) -> Self {
        Self { namespaced: false, ..self }
    }

    const fn table(self, table: &'static str) -> Self {
        Self { table, ..self }
    }

    const fn status(self) -> Self {
        Self { status: true, ..self }
    }

    const fn scale(self) -> Self {
        Self { scale: true, ..self }
    }

    const fn fields(
        self,
        fields: &'static [(&'static str, &'static str, &'static str, &'static str)],
    ) -> Self {
        Self { fields, ..self }
    }

    const fn generation(self, generation: Generation) -> Self {
        Self { rules: Rules { generation, ..self.rules }, ..self }
    }

    const fn create_on_update(self) -> Self {
        Self { rules: Rules { create_on_update: true, ..self.rules }, ..self }
    }

    const fn conditional_update(self) -> Self {
        Self { rules: Rules { unconditional_update: false, ..self.rules }, ..self }
    }

    const fn returns_deleted(self) -> Self {
        Self { rules: Rules { returns_deleted: true, ..self.rules }, ..self }
    }

    const fn graceful(self) -> Self {
        Self { rules: Rules { graceful: true, ..self.rules }, ..self }
    }

    const fn no_delete_collection(self) -> Self {
        Self { rules: Rules { delete_collection: false, ..self.rules }, ..self }
    }

    const fn status_metadata(self, status_metadata: StatusMetadata) -> Self {
        Self { rules: Rules { status_metadata, ..self.rules }, ..self }
    }

    const fn keeps_status(self) -> Self {
        Self { rules: Rules { keeps_status: true, ..self.rules }, ..self }
    }

    const fn expires(self) -> Self {
        Self { rules: Rules { expires: true, ..self.rules }, ..self }
    }

    const fn subresources(self, subresources: &'static [Subresource]) -> Self {
        Self { rules: Rules { subresources, ..self.rules }, ..self }
    }

    const fn prepare(self, prepare: &'static [Prepare]) -> Self {
        Self { rules: Rules { prepare, ..self.rules }, ..self }
    }

    const fn complete(self, complete: &'static [fn(&mut Value)]) -> Self {
        Self { rules: Rules { complete, ..self.rules }, ..self }
    }

    const fn permanent(self, names: &'static [&'static str], why: &'static str) -> Self {
        Self { rules: Rules { permanent: Permanent { names, why }, ..self.rules }, ..self }
    }

    const fn on_delete(self, hook: fn(&mut Value, Timestamp)) -> Self {
        Self { rules: Rules { on_delete: Some(hook), ..self.rules }, ..self }
    }

    const fn spec_finalizers(self) -> Self {
        Self { rules: Rules { spec_finalizers: true, ..self.rules }, ..self }
    }

    const fn orphans(self) -> Self {
        Self { rules: Rules { orphans: true, ..self.rules }, ..self }
    }

    const fn review(self) -> Self {
        Self { rules: Rules { review: true, ..self.rules }, ..self }
    }

    fn kind(&self, store: &Store) -> Kind {
        let path = |path: &[&str]| path.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        let scale = self.scale.then(|| ScalePaths {
            spec: path(&["spec", "replicas"]),
            status: path(&["status", "replicas"]),
            selector: Selector::Structured(path(&["spec", "selector"])),
        });
        let texts = |texts: &[&'static str]| texts.iter().map(|text| Text::Borrowed(*text)).collect();
        Kind {
            group: self.group.into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            plural: self.plural.into(),
            singular: self.singular.into(),
            short_names: texts(self.short),
            categories: texts(self.categories),
            namespaced: self.namespaced,
            versions: self
                .versions
                .iter()
                .map(|(name, conversion)| Version {
                    name: (*name).into(),
                    served: true,
                    status: self.status,
                    scale: scale.clone(),
                    columns: OnceLock::new(),
                    deprecation: self.deprecation(name),
                    conversion: *conversion,
                    schema: OnceLock::new(),
                    empty: OnceLock::new(),
                })
                .collect(),
            // The version that needs no conversion is the one that is kept; of an alias kind, there is none.
            storage_version: self
                .versions
                .iter()
                .position(|(_, conversion)| *conversion == Conversion::None)
                .unwrap_or_default(),
            table_name: self.table.into(),
            table: store.table(self.table),
            selectable: self
                .fields
                .iter()
                .map(|(label, path, default, fallback)| {
                    SelectableField::new(
                        *label,
                        if path.is_empty() { label } else { path },
                        default,
                        fallback,
                    )
                })
                .collect(),
            rules: self.rules,
            origin: Origin::Builtin,
            terminating: false,
        }
    }

    fn deprecation(&self, version: &str) -> Option<String> {
        (self.kind == "Endpoints" && version == "v1")
            .then(|| "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
    }
}

pub fn kinds(store: &Store) -> impl Iterator<Item = Kind> {
    ROWS.iter().map(|row| row.kind(store))
}

const POD_FIELDS: &[(&str, &str, &str, &str)] = &[
    ("spec.nodeName", "", "", ""),
    ("spec.restartPolicy", "", "", ""),
    ("spec.schedulerName", "", "", ""),
    ("spec.serviceAccountName", "", "", ""),
    ("spec.hostNetwork", "", "false", ""),
    ("status.phase", "", "", ""),
    ("status.podIP", "", "", ""),
    ("status.nominatedNodeName", "", "", ""),
];

const EVENT_FIELDS: &[(&str, &str, &str, &str)] = &[
    ("involvedObject.kind", "", "", ""),
    ("involvedObject.namespace", "", "", ""),
    ("involvedObject.name", "", "", ""),
    ("involvedObject.uid", "", "", ""),
    ("involvedObject.apiVersion", "", "", ""),
    ("involvedObject.resourceVersion", "", "", ""),
    ("involvedObject.fieldPath", "", "", ""),
    ("reason", "", "", ""),
    ("reportingComponent", "", "", ""),
    ("source", "source.component", "", "reportingComponent"),
    ("type", "", "", ""),
];

const REGARDING_FIELDS: &[(&str, &str, &str, &str)] = &[
    ("regarding.kind", "involvedObject.kind", "", ""),
    ("regarding.namespace", "involvedObject.namespace", "", ""),
    ("regarding.name", "involvedObject.name", "", ""),
    ("regarding.uid", "involvedObject.uid", "", ""),
    ("regarding.apiVersion", "involvedObject.apiVersion", "", ""),
    ("regarding.resourceVersion", "involvedObject.resourceVersion", "", ""),
    ("regarding.fieldPath", "involvedObject.fieldPath", "", ""),
    ("reason", "", "", ""),
    ("reportingController", "reportingComponent", "", ""),
    ("source", "source.component", "", "reportingComponent"),
    ("type", "", "", ""),
];

const EVENTS_V1: &[(&str, Conversion)] = &[("v1", Conversion::EventRegarding)];
const AUTOSCALERS: &[(&str, Conversion)] = &[("v2", Conversion::None), ("v1", Conversion::AutoscalerV1)];

/// In the order of discovery.
const ROWS: &[Row] = &[
    Row::new("", "ConfigMap", "configmaps", "configmap").short(&["cm"]),
    Row::new("", "Endpoints", "endpoints", "endpoints").short(&["ep"]).create_on_update(),
    Row::new("", "Event", "events", "event").short(&["ev"]).fields(EVENT_FIELDS).create_on_update().expires(),
    Row::new("", "LimitRange", "limitranges", "limitrange").short(&["limits"]).create_on_update(),
    Row::new("", "Namespace", "namespaces", "namespace")
        .short(&["ns"])
        .cluster()
        .status()
        .fields(&[("status.phase", "", "", ""), ("name", "metadata.name", "", "")])
        .returns_deleted()
        .no_delete_collection()
        .subresources(&[Subresource::Finalize])
        .spec_finalizers()
        .on_delete(lifecycle::terminate_namespace)
        .permanent(crate::bootstrap::NAMESPACES, "this namespace may not be deleted")
        .prepare(&[prepare::namespace]),
    Row::new("", "Node", "nodes", "node")
        .short(&["no"])
        .cluster()
        .status()
        .fields(&[("spec.unschedulable", "", "false", "")])
        .keeps_status(),
    Row::new("", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
        .short(&["pvc"])
        .status()
        .returns_deleted()
        .prepare(&[prepare::claim]),
    Row::new("", "PersistentVolume", "persistentvolumes", "persistentvolume")
        .short(&["pv"])
        .cluster()
        .status()
        .returns_deleted()
        .prepare(&[prepare::volume]),
    Row::new("", "Pod", "pods", "pod")
        .short(&["po"])
        .all()
        .status()
        .fields(POD_FIELDS)
        .generation(Generation::Spec)
        .returns_deleted()
        .graceful()
        .subresources(&[
            Subresource::Attach,
            Subresource::Binding,
            Subresource::Eviction,
            Subresource::Exec,
            Subresource::Log,
            Subresource::PortForward,
            Subresource::Resize,
        ])
        .prepare(&[prepare::pod])
        .complete(&[prepare::pod_addresses]),
    Row::new("", "ResourceQuota", "resourcequotas", "resourcequota")
        .short(&["quota"])
        .status()
        .returns_deleted(),
    Row::new("", "Secret", "secrets", "secret").fields(&[("type", "", "", "")]).complete(&[prepare::secret]),
    Row::new("", "ServiceAccount", "serviceaccounts", "serviceaccount")
        .short(&["sa"])
        .returns_deleted()
        .subresources(&[Subresource::Token]),
    Row::new("", "Service", "services", "service")
        .short(&["svc"])
        .all()
        .status()
        .fields(&[("spec.clusterIP", "", "", ""), ("spec.type", "", "", "")])
        .create_on_update()
        .returns_deleted()
        .prepare(&[prepare::service]),
    Row::new("events.k8s.io", "Event", "events", "event")
        .versions(EVENTS_V1)
        .short(&["ev"])
        .fields(REGARDING_FIELDS)
        .create_on_update()
        .expires(),
    Row::new("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview")
        .cluster()
        .review(),
    Row::new("authentication.k8s.io", "TokenReview", "tokenreviews", "tokenreview").cluster().review(),
    Row::new(
        "authorization.k8s.io",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
    )
    .review(),
    Row::new(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
    )
    .cluster()
    .review(),
    Row::new(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
    )
    .cluster()
    .review(),
    Row::new("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview")
        .cluster()
        .review(),
    Row::new("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "horizontalpodautoscaler")
        .versions(AUTOSCALERS)
        .table("horizontalpodautoscalers.autoscaling")
        .short(&["hpa"])
        .all()
        .status(),
    Row::new("apps", "ControllerRevision", "controllerrevisions", "controllerrevision")
        .table("controllerrevisions.apps"),
    Row::new("apps", "DaemonSet", "daemonsets", "daemonset")
        .table("daemonsets.apps")
        .short(&["ds"])
        .all()
        .status()
        .generation(Generation::Spec)
        .prepare(&[prepare::daemon_set])
        .complete(&[prepare::daemon_set_mark]),
    Row::new("apps", "Deployment", "deployments", "deployment")
        .table("deployments.apps")
        .short(&["deploy"])
        .all()
        .status()
        .scale()
        .generation(Generation::SpecAndAnnotations)
        .status_metadata(StatusMetadata::KeepsLabels),
    Row::new("apps", "ReplicaSet", "replicasets", "replicaset")
        .table("replicasets.apps")
        .short(&["rs"])
        .all()
        .status()
        .scale()
        .generation(Generation::Spec),
    Row::new("apps", "StatefulSet", "statefulsets", "statefulset")
        .table("statefulsets.apps")
        .short(&["sts"])
        .all()
        .status()
        .scale()
        .generation(Generation::Spec),
    Row::new("batch", "CronJob", "cronjobs", "cronjob")
        .table("cronjobs.batch")
        .short(&["cj"])
        .all()
        .status()
        .generation(Generation::Spec),
    Row::new("batch", "Job", "jobs", "job")
        .table("jobs.batch")
        .all()
        .status()
        .fields(&[("status.successful", "status.succeeded", "0", "")])
        .generation(Generation::Spec)
        .orphans()
        .prepare(&[prepare::job]),
    Row::new("coordination.k8s.io", "Lease", "leases", "lease")
        .table("leases.coordination.k8s.io")
        .create_on_update()
        .conditional_update(),
    Row::new("discovery.k8s.io", "EndpointSlice", "endpointslices", "endpointslice")
        .table("endpointslices.discovery.k8s.io")
        .generation(Generation::Content),
    Row::new("networking.k8s.io", "IngressClass", "ingressclasses", "ingressclass")
        .table("ingressclasses.networking.k8s.io")
        .cluster()
        .generation(Generation::Spec),
    Row::new("networking.k8s.io", "Ingress", "ingresses", "ingress")
        .table("ingresses.networking.k8s.io")
        .short(&["ing"])
        .status()
        .generation(Generation::Spec)
        .prepare(&[prepare::ingress]),
    Row::new("networking.k8s.io", "NetworkPolicy", "networkpolicies", "networkpolicy")
        .table("networkpolicies.networking.k8s.io")
        .short(&["netpol"])
        .generation(Generation::Spec),
    Row::new("policy", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
        .table("poddisruptionbudgets.policy")
        .short(&["pdb"])
        .status()
        .generation(Generation::Spec)
        .conditional_update(),
    Row::new("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding")
        .table("clusterrolebindings.rbac.authorization.k8s.io")
        .cluster()
        .create_on_update(),
    Row::new("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", "clusterrole")
        .table("clusterroles.rbac.authorization.k8s.io")
        .cluster()
        .create_on_update(),
    Row::new("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", "rolebinding")
        .table("rolebindings.rbac.authorization.k8s.io")
        .create_on_update(),
    Row::new("rbac.authorization.k8s.io", "Role", "roles", "role")
        .table("roles.rbac.authorization.k8s.io")
        .create_on_update(),
    Row::new("scheduling.k8s.io", "PriorityClass", "priorityclasses", "priorityclass")
        .table("priorityclasses.scheduling.k8s.io")
        .short(&["pc"])
        .cluster()
        .generation(Generation::First)
        .permanent(prepare::PRIORITY_CLASSES, "this is a system priority class and cannot be deleted")
        .prepare(&[prepare::priority_class]),
    Row::new("storage.k8s.io", "StorageClass", "storageclasses", "storageclass")
        .table("storageclasses.storage.k8s.io")
        .short(&["sc"])
        .cluster()
        .returns_deleted(),
    Row::new(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
    )
    .table(crate::crd::TABLE)
    .categories(&["api-extensions"])
    .short(&["crd", "crds"])
    .cluster()
    .status()
    .generation(Generation::Spec)
    .prepare(&[prepare::definition])
    .on_delete(crate::crd::terminate),
];
