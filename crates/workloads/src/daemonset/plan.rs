use std::{collections::BTreeMap, sync::Arc, time::Duration};

use engine::{
    effect::{Announce, Effect, Note, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetSpec},
        core::v1::{Node, Pod, PodSpec},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::json;

use super::{nodes, status};
use crate::object::{
    being_deleted, by_age,
    claim::claim,
    created, name,
    numbers::{Round, scaled},
    pods, selector,
};

const COMPONENT: &str = "daemonset-controller";
/// More are created or deleted in a later turn, so that one set cannot occupy the API for long.
const BURST: usize = 250;
/// A pod that fails at once is not made again at once.
const FAILED_PAUSE: Duration = Duration::from_secs(10);

/// Everything a decision about one DaemonSet depends on.
pub(crate) struct Observed {
    pub set: Arc<DaemonSet>,
    /// Pods of the namespace that the set controls or nobody does.
    pub candidates: Vec<Arc<Pod>>,
    pub nodes: Vec<Arc<Node>>,
}

/// The pods of one node, oldest first.
pub(super) struct OnNode<'a> {
    pub wanted: bool,
    pub pods: Vec<&'a Pod>,
}

pub(super) type Places<'a> = BTreeMap<&'a str, OnNode<'a>>;

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let set = &*observed.set;
    let Some(spec) = &set.spec else { return Plan::default() };
    let Some(wanted) = selector::parse(&spec.selector).filter(|wanted| !wanted.selects_all()) else {
        return Plan::default();
    };
    let claim =
        claim(&kind::DAEMON_SET, &set.metadata, &wanted, &kind::POD, &observed.candidates, pods::active);
    let mut plan = Plan::from(claim.effects);
    let daemon = nodes::daemon_spec(set);
    let mut places: Places<'_> = observed
        .nodes
        .iter()
        .map(|node| (name(&node.metadata), OnNode { wanted: nodes::wants(&daemon, node), pods: Vec::new() }))
        .collect();
    for pod in &claim.owned {
        if let Some(node) = nodes::node_of(pod) {
            places.entry(node).or_insert(OnNode { wanted: false, pods: Vec::new() }).pods.push(pod);
        }
    }
    places.values_mut().for_each(|place| place.pods.sort_by(|a, b| by_age(&a.metadata, &b.metadata)));

    let turn = Turn { set, spec, daemon, hash: nodes::template_hash(set), now };
    if !being_deleted(&set.metadata) {
        turn.place(&places, &mut plan);
        if turn.rolls() {
            turn.roll(&places, &mut plan);
        }
    }
    plan.effects.extend(status::write_if_changed(set, &places, &turn.hash, turn.min_ready(), now));
    if let Some(at) = pods::next_available(claim.owned.iter().map(|pod| &**pod), turn.min_ready(), now) {
        plan.look_again(at);
    }
    plan
}

struct Turn<'a> {
    set: &'a DaemonSet,
    spec: &'a DaemonSetSpec,
    daemon: PodSpec,
    hash: String,
    now: Timestamp,
}

impl Turn<'_> {
    fn min_ready(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or(0)
    }

    fn rolls(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        strategy != Some("OnDelete")
    }

    fn available(&self, pod: &Pod) -> bool {
        !pods::terminating(pod) && pods::available(pod, self.min_ready(), self.now)
    }

    /// One pod where one is wanted, none elsewhere.
    fn place(&self, places: &Places<'_>, plan: &mut Plan) {
        let (mut creations, mut deletions) = (Vec::new(), Vec::new());
        for (node, place) in places {
            let (over, alive): (Vec<&Pod>, Vec<&Pod>) = place
                .pods
                .iter()
                .copied()
                .filter(|pod| !pods::terminating(pod))
                .partition(|pod| pods::finished(pod));
            for pod in over {
                let again = created(&pod.metadata, self.now).checked_add(FAILED_PAUSE).unwrap_or(self.now);
                if place.wanted && again > self.now {
                    plan.look_again(again);
                } else {
                    deletions.push(self.delete(pod));
                }
            }
            if !place.wanted {
                deletions.extend(alive.iter().map(|pod| self.delete(pod)));
            } else if place.pods.is_empty() {
                creations.extend(self.create(node));
            } else {
                deletions.extend(self.surplus(&alive));
            }
        }
        creations.truncate(BURST);
        deletions.truncate(BURST);
        plan.effects.extend(creations);
        plan.effects.extend(deletions);
    }

    /// Of several pods of one template on a node, all but the oldest; and an old one whose successor is available.
    fn surplus(&self, alive: &[&Pod]) -> Vec<Effect> {
        let (new, old): (Vec<&Pod>, Vec<&Pod>) =
            alive.iter().copied().partition(|pod| nodes::is_current(pod, &self.hash));
        let replaced = new.iter().any(|pod| self.available(pod));
        let keep_old = usize::from(!replaced);
        let extra = new.into_iter().skip(1).chain(old.into_iter().skip(keep_old));
        extra.map(|pod| self.delete(pod)).collect()
    }

    fn limit(&self, value: Option<&IntOrString>, default: i32, desired: i32) -> usize {
        let scaled = value.and_then(|value| scaled(value, desired, Round::Up)).unwrap_or(default);
        usize::try_from(scaled).unwrap_or(0)
    }

    /// Replaces pods of an old template: never more unavailable than allowed, or with surge the new one first.
    fn roll(&self, places: &Places<'_>, plan: &mut Plan) {
        let rolling =
            self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let wanted: Vec<(&str, &OnNode<'_>)> =
            places.iter().filter(|(_, place)| place.wanted).map(|(node, place)| (*node, place)).collect();
        let desired = i32::try_from(wanted.len()).unwrap_or(i32::MAX);
        let surge = self.limit(rolling.and_then(|rolling| rolling.max_surge.as_ref()), 0, desired);
        let down = self.limit(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), 1, desired);
        let is_old = |pod: &&&Pod| pods::active(pod) && !nodes::is_current(pod, &self.hash);
        let has_new = |place: &OnNode<'_>| place.pods.iter().any(|pod| nodes::is_current(pod, &self.hash));
        let outdated = wanted.iter().filter_map(|(node, place)| {
            let old = place.pods.iter().find(is_old)?;
            (!has_new(place)).then_some((*node, *old))
        });
        if surge > 0 {
            let surging = wanted.iter().filter(|(_, place)| has_new(place) && place.pods.len() > 1).count();
            let room = surge.saturating_sub(surging);
            plan.effects.extend(outdated.take(room).filter_map(|(node, _)| self.create(node)));
            return;
        }
        let unavailable =
            wanted.iter().filter(|(_, place)| !place.pods.iter().any(|pod| self.available(pod))).count();
        let (working, broken): (Vec<&Pod>, Vec<&Pod>) =
            outdated.map(|(_, pod)| pod).partition(|pod| self.available(pod));
        let room = down.saturating_sub(unavailable);
        // what does not work is no loss
        let going = broken.into_iter().chain(working.into_iter().take(room));
        plan.effects.extend(going.take(BURST).map(|pod| self.delete(pod)));
    }

    fn create(&self, node: &str) -> Option<Effect> {
        let pod = nodes::pod_for(self.set, &self.daemon, node, &self.hash)?;
        Some(Effect::Create {
            kind: kind::POD,
            namespace: self.set.metadata.namespace.clone(),
            body: json!(pod),
            announce: Some(self.announce(true)),
        })
    }

    fn delete(&self, pod: &Pod) -> Effect {
        Effect::Delete {
            // A pod's status changes all the time; that must not save it.
            target: Target { resource_version: None, ..Target::of(&kind::POD, &pod.metadata) },
            propagation: None,
            announce: Some(self.announce(false)),
        }
    }

    fn announce(&self, creates: bool) -> Announce {
        let (done, failed, before, trouble) = if creates {
            ("SuccessfulCreate", "FailedCreate", "Created pod: ", "Error creating: ")
        } else {
            ("SuccessfulDelete", "FailedDelete", "Deleted pod: ", "Error deleting: ")
        };
        Announce {
            regarding: Target::of(&kind::DAEMON_SET, &self.set.metadata),
            component: COMPONENT,
            done: (done, Note { before, after: String::new() }),
            failed: (failed, Note { before: trouble, after: String::new() }),
        }
    }
}
