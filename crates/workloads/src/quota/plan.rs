use std::{collections::BTreeMap, sync::Arc};

use engine::{
    effect::{Effect, Plan},
    kind::Kind,
};
use k8s_openapi::{
    api::core::v1::{ResourceQuota, ResourceQuotaStatus},
    apimachinery::pkg::api::resource::Quantity,
};
use schema::quota::{self, Amounts};
use serde_json::{Value, json};

/// Everything a quota's status depends on.
pub(crate) struct Observed {
    pub quota: Arc<ResourceQuota>,
    /// Objects of the namespace that use more than their place, by the plural of their kind.
    pub objects: Vec<(&'static str, Value)>,
    pub counts: Vec<Count>,
}

/// How many objects of a kind the namespace has.
pub(crate) struct Count {
    pub kind: Kind,
    pub number: usize,
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let set = &*observed.quota;
    let Some(hard) = set.spec.as_ref().and_then(|spec| spec.hard.clone()) else { return Plan::default() };
    let as_json = json!(set);
    let mut used = Amounts::new();
    // what is limited and not there is used by none
    for plural in ["pods", "services", "persistentvolumeclaims"] {
        let zero = quota::usage("", plural, &Value::Null);
        used.extend(zero.into_keys().map(|name| (name, schema::Quantity::whole(0))));
    }
    for name in hard.keys().filter(|name| is_compute(name)) {
        used.insert(name.clone(), schema::Quantity::whole(0));
    }
    for (plural, object) in &observed.objects {
        if quota::covers(&as_json, "", plural, object) {
            quota::add(&mut used, &quota::usage("", plural, object));
        }
    }
    for Count { kind, number } in &observed.counts {
        let one = quota::usage(&kind.group, &kind.plural, &Value::Null);
        let number = schema::Quantity::whole(i64::try_from(*number).unwrap_or(i64::MAX));
        used.extend(one.into_keys().map(|name| (name, number)));
    }
    let used: BTreeMap<String, Quantity> = used
        .into_iter()
        .filter(|(name, _)| hard.contains_key(name))
        .map(|(name, amount)| (name, Quantity(amount.to_string())))
        .collect();
    let status = ResourceQuotaStatus { hard: Some(hard), used: Some(used).filter(|used| !used.is_empty()) };
    if set.status.as_ref() == Some(&status) {
        return Plan::default();
    }
    vec![Effect::status(&Kind::of::<ResourceQuota>(), &set.metadata, set.status.as_ref(), &status)].into()
}

/// Sums over pods and claims, which are zero when there are none.
fn is_compute(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || ["requests.", "limits.", "hugepages-"].iter().any(|prefix| name.starts_with(prefix))
        || name.contains(".storageclass.storage.k8s.io/")
}
