//! `pods/eviction`: a deletion that PodDisruptionBudgets may refuse.

use bytes::Bytes;
use serde_json::{Value, json};

use super::success;
use crate::{
    call::Call,
    convert,
    error::{ApiError, Result},
    http::Response,
    object,
    selectors::LabelSelector,
    storage::ReadAt,
    verbs::{self, DeleteOptions, Proposal},
};

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// Pods that went down recently and that a controller may not have noticed yet; more means it does not look at all.
const MAX_DISRUPTED: usize = 2000;

pub async fn evict(call: &Call, body: &Bytes) -> Result<Response> {
    let eviction = call.decode(body, "CreateOptions", Some(("policy/v1", "Eviction")))?;
    if object::name(&eviction) != call.target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::from_value(&eviction["deleteOptions"])?;
    options.dry_run |= call.dry_run("CreateOptions")?;
    let target = call.of(&call.target.namespace, &call.target.name);
    let pod = convert::load(&*call.find()?, &call.kind, call.version);
    if needs_budget(&pod) {
        take_from_budget(call, &pod, options.dry_run).await?;
    }
    if !options.dry_run && !object::is_deleting(&pod) {
        say_why(call).await?;
    }
    verbs::delete_object(&target, &options).await?;
    Ok(success(201))
}

/// Notes in the pod's status that it goes by an eviction.
async fn say_why(call: &Call) -> Result<()> {
    let mut status = Call::internal(&call.server, &call.kind, &call.target.namespace, &call.target.name);
    status.target.subresource = "status".to_owned();
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        let live = live.ok_or_else(|| ApiError::not_found(&call.subject(), &call.target.name))?;
        let mut object = live.clone();
        let conditions =
            object::map_at(&mut object, &["status"]).entry("conditions").or_insert_with(|| json!([]));
        if let Some(list) = conditions.as_array_mut() {
            list.retain(|condition| condition["type"] != "DisruptionTarget");
            list.push(json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": null,
                "lastTransitionTime": object::timestamp(call.now),
            }));
        }
        Ok(Proposal { object, tracked: true })
    };
    verbs::update_object(&status, propose, false, "UpdateOptions").await.map(drop)
}

/// Pods that run nothing take nothing from anyone.
fn needs_budget(pod: &Value) -> bool {
    let phase = object::text(pod, &["status", "phase"]);
    !matches!(phase, "Succeeded" | "Failed" | "Pending") && !object::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"]
        .as_array()
        .is_some_and(|list| list.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

async fn take_from_budget(call: &Call, pod: &Value, dry_run: bool) -> Result<()> {
    let registry = call.server.registry();
    let Some(budgets) = registry.resource("policy", "poddisruptionbudgets") else { return Ok(()) };
    let prefix = budgets.prefix(&call.target.namespace);
    let listing = call
        .store()
        .list(budgets.table, &prefix, None, ReadAt::Latest, usize::MAX, |_| true)
        .map_err(|_| ApiError::internal("the present is always readable"))?;
    let matching: Vec<Value> = listing
        .records
        .iter()
        .map(|record| record.to_value())
        .filter(|budget| {
            budget["spec"].get("selector").is_some()
                && LabelSelector::structured(&budget["spec"]["selector"])
                    .is_some_and(|selector| selector.matches_object(pod))
        })
        .collect();
    let budget = match matching.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            return Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    if !is_ready(pod) {
        let status = &budget["status"];
        let healthy = status["currentHealthy"].as_i64() >= status["desiredHealthy"].as_i64()
            && status["desiredHealthy"].as_i64().unwrap_or_default() > 0;
        if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || healthy {
            return Ok(());
        }
    }
    let budget_call = Call::internal(&call.server, budgets, &call.target.namespace, object::name(budget));
    let pod_name = object::name(pod);
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        let live = live.ok_or_else(|| ApiError::not_found(&budgets.subject(), object::name(budget)))?;
        let object = spend(live, pod_name, &object::timestamp(call.now))?;
        Ok(Proposal { object, tracked: true })
    };
    verbs::update_object(&budget_call, propose, dry_run, "UpdateOptions").await?;
    Ok(())
}

/// The budget after one more pod went down, or why it cannot.
fn spend(budget: &Value, pod: &str, now: &str) -> Result<Value> {
    let name = object::name(budget);
    let refused = |why: String| {
        ApiError::too_many_requests(REFUSED, 10)
            .with_causes(vec![json!({"reason": "DisruptionBudget", "message": why})])
    };
    let status = &budget["status"];
    let count = |key: &str| status[key].as_i64().unwrap_or_default();
    if count("observedGeneration") < object::generation(budget) {
        return Err(refused(format!("The disruption budget {name} is still being processed by the server.")));
    }
    let disrupted = status["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
    if count("disruptionsAllowed") < 0 {
        return Err(ApiError::internal("pdb disruptions allowed is negative"));
    }
    if disrupted > MAX_DISRUPTED {
        return Err(ApiError::internal(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if count("disruptionsAllowed") == 0 {
        return Err(refused(format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy"),
        )));
    }
    let left = count("disruptionsAllowed") - 1;
    let mut spent = budget.clone();
    let status = object::map_at(&mut spent, &["status"]);
    status.insert("disruptionsAllowed".to_owned(), left.into());
    if left == 0 {
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(list) = conditions.as_array_mut() {
            for condition in list.iter_mut().filter(|one| one["type"] == "DisruptionAllowed") {
                condition["status"] = "False".into();
                condition["reason"] = "InsufficientPods".into();
                condition["lastTransitionTime"] = now.into();
            }
        }
    }
    object::map_at(&mut spent, &["status", "disruptedPods"]).insert(pod.to_owned(), now.into());
    Ok(spent)
}
