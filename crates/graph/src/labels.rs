//! Labels and annotations that tie instances, their resources and generated kinds together.

use std::collections::BTreeMap;

use crate::crd::Owner;

pub const OWNED: &str = "kro.run/owned";
pub const VERSION: &str = "kro.run/kro-version";
pub const DEFINITION_ID: &str = "kro.run/resource-graph-definition-id";
pub const DEFINITION_NAME: &str = "kro.run/resource-graph-definition-name";
pub const INSTANCE_ID: &str = "kro.run/instance-id";
pub const INSTANCE_NAME: &str = "kro.run/instance-name";
pub const INSTANCE_NAMESPACE: &str = "kro.run/instance-namespace";
pub const INSTANCE_GROUP: &str = "kro.run/instance-group";
pub const INSTANCE_VERSION: &str = "kro.run/instance-version";
pub const INSTANCE_KIND: &str = "kro.run/instance-kind";
pub const NODE_ID: &str = "kro.run/node-id";
pub const COLLECTION_INDEX: &str = "kro.run/collection-index";
pub const COLLECTION_SIZE: &str = "kro.run/collection-size";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
pub const APPLYSET_ID: &str = "applyset.kubernetes.io/id";

pub const TOOLING: &str = "applyset.kubernetes.io/tooling";
pub const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
pub const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
pub const INVENTORY_HASH: &str = "internal.kro.run/applyset-inventory-hash";
pub const APPLY_ORDER: &str = "internal.kro.run/apply-order";
/// The hash of what was last wanted: an object that has it was applied as it is wanted now, whatever the API server made
/// of quantities and defaults.
pub const MANIFEST_HASH: &str = "internal.kro.run/manifest-hash";
/// On the generated kind: the definition that was accepted last, so that it keeps being served after a restart although
/// a later version is refused.
pub const ACCEPTED: &str = "internal.kro.run/accepted-definition";
/// Of the instances of a Set.
pub const SET_NAME: &str = "kro.run/set-name";
pub const TEMPLATE_HASH: &str = "kro.run/template-hash";
/// The running number of an instance in its Set: times have a second's resolution.
pub const SET_SEQUENCE: &str = "internal.kro.run/set-sequence";
/// Which template an instance was changed to; one that is as it was created has none.
pub const SET_UPDATED: &str = "internal.kro.run/set-updated-to";
pub const RECONCILE: &str = "kro.run/reconcile";

pub const FINALIZER: &str = "kro.run/finalizer";
/// As a label's value and behind `kro/` in the tooling annotation.
pub const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn of_generated_kind(owner: &Owner) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (OWNED.to_owned(), "true".to_owned()),
        (VERSION.to_owned(), OUR_VERSION.to_owned()),
        (DEFINITION_NAME.to_owned(), owner.name.clone()),
    ]);
    if !owner.uid.is_empty() {
        labels.insert(DEFINITION_ID.to_owned(), owner.uid.clone());
    }
    labels
}
