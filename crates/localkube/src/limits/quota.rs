//! ResourceQuotas: what an object takes is written into the quota's status before the object is stored, so that two
//! that fit only one at a time are not both admitted. A controller counts anew what there is.

use std::collections::BTreeSet;

use schema::quota::{Amounts, add, check_complete, covers, read, shown, usage};
use serde_json::{Value, json};

use super::of_namespace;
use crate::{
    call::Call,
    error::{ApiError, Result},
    object,
    storage::{Change, CommitError, Draft},
};

/// How often a quota that others change at the same time is read again.
const ATTEMPTS: usize = 64;

/// Refuses an object for which a quota has no room; with `dry_run`, charges nothing for one that it admits.
pub async fn admit(call: &Call, object: &Value, old: Option<&Value>, dry_run: bool) -> Result<()> {
    if !call.kind.namespaced {
        return Ok(());
    }
    let Some((_, quotas)) = of_namespace(&call.server, "resourcequotas", object::namespace(object)) else {
        return Ok(());
    };
    let wanted = increase(call, object, old);
    if wanted.is_empty() {
        return Ok(());
    }
    for quota in quotas {
        charge(call, quota.name(), object, &wanted, dry_run).await?;
    }
    Ok(())
}

/// What the object uses, beyond what it used before.
fn increase(call: &Call, object: &Value, old: Option<&Value>) -> Amounts {
    let of = |object: &Value| usage(&call.kind.group, &call.kind.plural, object);
    let before = old.map(of).unwrap_or_default();
    let more = of(object).into_iter().map(|(name, amount)| {
        let more = before.get(&name).map_or(amount, |known| amount.minus(*known));
        (name, more)
    });
    more.filter(|(_, amount)| !amount.is_zero() && !amount.is_negative()).collect()
}

async fn charge(call: &Call, quota: &str, object: &Value, wanted: &Amounts, dry_run: bool) -> Result<()> {
    let registry = call.server.registry();
    let Some(kind) = registry.resource("", "resourcequotas") else { return Ok(()) };
    let key = kind.key(object::namespace(object), quota);
    for _ in 0..ATTEMPTS {
        let Some(record) = call.store().get(kind.table, &key) else { return Ok(()) };
        let mut live = record.to_value();
        if !covers(&live, &call.kind.group, &call.kind.plural, object) {
            return Ok(());
        }
        let Some(used) = room(call, &live, object, wanted)? else { return Ok(()) };
        if dry_run {
            return Ok(());
        }
        let texts = used.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string())));
        live["status"]["used"] = Value::Object(texts.collect());
        let change = Change::Replace(Draft::new(&key, &live, &kind.selectable), record.revision);
        match call.store().commit(kind.table, change).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Failed(error)) => return Err(ApiError::not_stored(&error)),
            Err(_) => {}
        }
    }
    Err(ApiError::modified(&kind.subject(), quota))
}

/// What is used with the object in it; none if the quota does not limit what it uses.
fn room(call: &Call, quota: &Value, object: &Value, wanted: &Amounts) -> Result<Option<Amounts>> {
    let forbidden = |why: String| ApiError::forbidden(&call.subject(), object::name(object), &why);
    let (hard, mut used) = (read(&quota["status"]["hard"]), read(&quota["status"]["used"]));
    let quota_name = object::name(quota);
    let limited: BTreeSet<&str> = hard.keys().map(String::as_str).collect();
    if call.kind.group.is_empty() && call.kind.plural == "pods" {
        check_complete(object, &limited)
            .map_err(|why| forbidden(format!("failed quota: {quota_name}: {why}")))?;
    }
    let asked: Amounts = wanted
        .iter()
        .filter(|(name, _)| hard.contains_key(*name))
        .map(|(name, amount)| (name.clone(), *amount))
        .collect();
    if asked.is_empty() {
        return Ok(None);
    }
    let unknown: Vec<&str> =
        asked.keys().map(String::as_str).filter(|name| !used.contains_key(*name)).collect();
    if !unknown.is_empty() {
        let why = format!("status unknown for quota: {quota_name}, resources: {}", unknown.join(","));
        return Err(forbidden(why));
    }
    let before = used.clone();
    add(&mut used, &asked);
    let over = |amounts: &Amounts| -> Amounts {
        let exceeded = |name: &&String| asked.contains_key(*name) && used.get(*name) > hard.get(*name);
        amounts
            .iter()
            .filter(|(name, _)| exceeded(name))
            .map(|(name, amount)| (name.clone(), *amount))
            .collect()
    };
    if !over(&asked).is_empty() {
        return Err(forbidden(format!(
            "exceeded quota: {quota_name}, requested: {}, used: {}, limited: {}",
            shown(&over(&asked)),
            shown(&over(&before)),
            shown(&over(&hard)),
        )));
    }
    Ok(Some(used))
}
