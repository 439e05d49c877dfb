//! The kinds every Kubernetes API has, as rows of data.

mod decode;
mod defaults;
mod describe;
mod prepare;
mod schemas;
mod table;
mod validate;

use std::sync::{Arc, LazyLock};

use k8s_openapi::{
    api::{
        apps::v1 as apps,
        authentication::v1 as authentication,
        authorization::v1 as authorization,
        autoscaling::{v1 as autoscaling_v1, v2 as autoscaling_v2},
        batch::v1 as batch,
        coordination::v1 as coordination,
        core::v1 as core,
        discovery::v1 as discovery,
        events::v1 as events,
        networking::v1 as networking,
        policy::v1 as policy,
        rbac::v1 as rbac,
        scheduling::v1 as scheduling,
        storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
};
use serde_json::{Map, Value};

use crate::{FieldError, Schema, kind::Part, meta::Scope, names, names::NameRule};

/// One built-in kind.
pub(crate) struct Row {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub scope: Scope,
    /// What its name may be.
    pub name: NameRule,
    /// Its full name in OpenAPI documents.
    pub definition: &'static str,
    pub definitions: fn() -> Map<String, Value>,
    pub validate: validate::Checks,
}

macro_rules! row {
    ($group:literal $version:literal $kind:literal, $type:ty, $scope:ident, $name:path, $checks:expr) => {
        Row {
            group: $group,
            version: $version,
            kind: $kind,
            scope: Scope::$scope,
            name: $name,
            definition: definition_name($group, $version, $kind),
            definitions: schemas::definitions::<$type>,
            validate: $checks,
        }
    };
}

use names::{name_is_label as label, name_is_subdomain as subdomain, path_segment as segment};
use validate::{
    NONE, batch as jobs, config, infra, network, pod, scaling, service, storage as volumes, workload,
};

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    vec![
        row!("" "v1" "Binding", core::Binding, Namespaced, subdomain, NONE),
        row!("" "v1" "ConfigMap", core::ConfigMap, Namespaced, subdomain, config::CONFIG_MAP),
        row!("" "v1" "Endpoints", core::Endpoints, Namespaced, subdomain, service::ENDPOINTS),
        row!("" "v1" "Event", core::Event, Namespaced, segment, infra::EVENT),
        row!("" "v1" "LimitRange", core::LimitRange, Namespaced, subdomain, infra::LIMIT_RANGE),
        row!("" "v1" "Namespace", core::Namespace, Cluster, label, NONE),
        row!("" "v1" "Node", core::Node, Cluster, subdomain, infra::NODE),
        row!("" "v1" "PersistentVolume", core::PersistentVolume, Cluster, subdomain, volumes::VOLUME),
        row!("" "v1" "PersistentVolumeClaim", core::PersistentVolumeClaim, Namespaced, subdomain, volumes::CLAIM),
        row!("" "v1" "Pod", core::Pod, Namespaced, subdomain, pod::POD),
        row!("" "v1" "ResourceQuota", core::ResourceQuota, Namespaced, subdomain, infra::RESOURCE_QUOTA),
        row!("" "v1" "Secret", core::Secret, Namespaced, subdomain, config::SECRET),
        row!("" "v1" "Service", core::Service, Namespaced, label, service::SERVICE),
        row!("" "v1" "ServiceAccount", core::ServiceAccount, Namespaced, subdomain, NONE),
        row!("apps" "v1" "ControllerRevision", apps::ControllerRevision, Namespaced, subdomain, NONE),
        row!("apps" "v1" "DaemonSet", apps::DaemonSet, Namespaced, subdomain, workload::DAEMON_SET),
        row!("apps" "v1" "Deployment", apps::Deployment, Namespaced, subdomain, workload::DEPLOYMENT),
        row!("apps" "v1" "ReplicaSet", apps::ReplicaSet, Namespaced, subdomain, workload::REPLICA_SET),
        row!("apps" "v1" "StatefulSet", apps::StatefulSet, Namespaced, label, workload::STATEFUL_SET),
        row!("autoscaling" "v1" "HorizontalPodAutoscaler", autoscaling_v1::HorizontalPodAutoscaler, Namespaced, subdomain, scaling::HPA_V1),
        row!("autoscaling" "v2" "HorizontalPodAutoscaler", autoscaling_v2::HorizontalPodAutoscaler, Namespaced, subdomain, scaling::HPA_V2),
        row!("autoscaling" "v1" "Scale", autoscaling_v1::Scale, Namespaced, subdomain, scaling::SCALE),
        row!("authentication.k8s.io" "v1" "SelfSubjectReview", authentication::SelfSubjectReview, Cluster, segment, NONE),
        row!("authentication.k8s.io" "v1" "TokenRequest", authentication::TokenRequest, Namespaced, segment, NONE),
        row!("authentication.k8s.io" "v1" "TokenReview", authentication::TokenReview, Cluster, segment, NONE),
        row!("authorization.k8s.io" "v1" "LocalSubjectAccessReview", authorization::LocalSubjectAccessReview, Namespaced, segment, NONE),
        row!("authorization.k8s.io" "v1" "SelfSubjectAccessReview", authorization::SelfSubjectAccessReview, Cluster, segment, NONE),
        row!("authorization.k8s.io" "v1" "SelfSubjectRulesReview", authorization::SelfSubjectRulesReview, Cluster, segment, NONE),
        row!("authorization.k8s.io" "v1" "SubjectAccessReview", authorization::SubjectAccessReview, Cluster, segment, NONE),
        row!("batch" "v1" "CronJob", batch::CronJob, Namespaced, subdomain, jobs::CRON_JOB),
        row!("batch" "v1" "Job", batch::Job, Namespaced, subdomain, jobs::JOB),
        row!("coordination.k8s.io" "v1" "Lease", coordination::Lease, Namespaced, subdomain, infra::LEASE),
        row!("discovery.k8s.io" "v1" "EndpointSlice", discovery::EndpointSlice, Namespaced, subdomain, service::ENDPOINT_SLICE),
        row!("events.k8s.io" "v1" "Event", events::Event, Namespaced, subdomain, infra::NEW_EVENT),
        row!("networking.k8s.io" "v1" "Ingress", networking::Ingress, Namespaced, subdomain, network::INGRESS),
        row!("networking.k8s.io" "v1" "IngressClass", networking::IngressClass, Cluster, subdomain, network::INGRESS_CLASS),
        row!("networking.k8s.io" "v1" "NetworkPolicy", networking::NetworkPolicy, Namespaced, subdomain, network::NETWORK_POLICY),
        row!("policy" "v1" "Eviction", policy::Eviction, Namespaced, subdomain, NONE),
        row!("policy" "v1" "PodDisruptionBudget", policy::PodDisruptionBudget, Namespaced, subdomain, scaling::PDB),
        row!("rbac.authorization.k8s.io" "v1" "ClusterRole", rbac::ClusterRole, Cluster, segment, infra::CLUSTER_ROLE),
        row!("rbac.authorization.k8s.io" "v1" "ClusterRoleBinding", rbac::ClusterRoleBinding, Cluster, segment, infra::CLUSTER_ROLE_BINDING),
        row!("rbac.authorization.k8s.io" "v1" "Role", rbac::Role, Namespaced, segment, infra::ROLE),
        row!("rbac.authorization.k8s.io" "v1" "RoleBinding", rbac::RoleBinding, Namespaced, segment, infra::ROLE_BINDING),
        row!("scheduling.k8s.io" "v1" "PriorityClass", scheduling::PriorityClass, Cluster, subdomain, infra::PRIORITY_CLASS),
        row!("storage.k8s.io" "v1" "StorageClass", storage::StorageClass, Cluster, subdomain, volumes::STORAGE_CLASS),
        row!("apiextensions.k8s.io" "v1" "CustomResourceDefinition", apiextensions::CustomResourceDefinition, Cluster, subdomain, NONE),
    ]
});

pub(crate) fn find(group: &str, version: &str, kind: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
}

/// The schema of a built-in kind, made on first use and shared from then on. `title` names each type
/// (`core.v1.Container`); descriptions are left to the OpenAPI documents.
pub fn schema(group: &str, version: &str, kind: &str) -> Option<Arc<Schema>> {
    find(group, version, kind)?.schema()
}

/// The schema of `metadata`, the same for all kinds.
pub(crate) fn object_meta() -> Option<Arc<Schema>> {
    schemas::schema(
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        schemas::definitions::<core::ConfigMap>,
    )
}

pub(crate) use decode::metadata as decode_metadata;
pub(crate) use describe::{describe, describe_metadata};
pub use prepare::quality_of_service;
pub(crate) use prepare::update as prepare_update;

// === impl Row ===

impl Row {
    pub fn schema(&self) -> Option<Arc<Schema>> {
        schemas::schema(self.definition, self.definitions)
    }

    /// Types are checked, unknown fields dropped, empty ones left out: what reading and writing the object with the
    /// original Go types would do. Answers with the unknown fields' paths.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let Some(schema) = self.schema() else { return Ok(Vec::new()) };
        decode::object(object, &schema).map_err(|why| {
            format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {why}",
                self.version,
                kind = self.kind
            )
        })
    }

    pub fn set_defaults(&self, object: &mut Value) {
        if self.group == "apiextensions.k8s.io" {
            crate::crd::set_defaults(object);
        } else if let Some(schema) = self.schema() {
            defaults::fill(object, &schema);
        }
    }

    pub fn prepare_create(&self, object: &mut Value) {
        let Some(schema) = self.schema() else { return };
        prepare::create(self, object, &schema);
    }

    pub fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        if self.group == "apiextensions.k8s.io" {
            return crate::crd::validate(object, None);
        }
        validate::create(self, object)
    }

    pub fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        if self.group == "apiextensions.k8s.io" {
            return match part {
                Part::Whole => crate::crd::validate(object, Some(old)),
                Part::Status | Part::Resize => Vec::new(),
            };
        }
        validate::update(self, object, old, part)
    }
}

/// `io.k8s.api.core.v1.Pod` and its like. Leaked once per kind, into a table that lives as long as the program.
fn definition_name(group: &str, version: &str, kind: &str) -> &'static str {
    let package = match group {
        "" => "api.core",
        "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions",
        group => {
            return format!("io.k8s.api.{}.{version}.{kind}", group.split('.').next().unwrap_or(group))
                .leak();
        }
    };
    format!("io.k8s.{package}.{version}.{kind}").leak()
}

#[cfg(test)]
mod tests;
