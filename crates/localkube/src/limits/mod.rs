//! What a namespace allows its objects: LimitRanges and ResourceQuotas, as admission enforces them.

mod quota;
mod ranges;

use std::sync::Arc;

use serde_json::Value;

pub use self::{
    quota::admit as charge,
    ranges::{check as check_ranges, fill_in},
};
use crate::{
    ApiServer,
    registry::Kind,
    storage::{ReadAt, Record},
};

/// The objects of a core kind in a namespace, with their kind.
fn of_namespace(server: &ApiServer, plural: &str, namespace: &str) -> Option<(Arc<Kind>, Vec<Arc<Record>>)> {
    let registry = server.registry();
    let kind = registry.resource("", plural)?;
    let prefix = kind.prefix(namespace);
    let listing =
        server.store().list(kind.table, &prefix, None, ReadAt::Latest, usize::MAX, |_| true).ok()?;
    Some((kind.clone(), listing.records))
}

fn values(server: &ApiServer, plural: &str, namespace: &str) -> Vec<Value> {
    of_namespace(server, plural, namespace)
        .map(|(_, records)| records.iter().map(|record| record.to_value()).collect())
        .unwrap_or_default()
}
