//! From objects to functions. Pure, but for remembering what annotations said: they change seldom, pods often.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use api::slimfaas::{self, Annotations, Problem, Settings};
use engine::{
    effect::Target,
    kind::{self, Kind},
    object::{annotation, controller_of},
    pods,
};
use k8s_openapi::{
    api::{
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Pod, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{
    api::DynamicObject,
    core::{Selector, SelectorExt},
};
use metrics::scrape::Endpoint;
use ondemand::{self as shared, Function, Snapshot};
use promql::Labels;
use scaling::{Autoscaler, Controls, OnConflict, Writers};

use super::{
    FUNCTION, Standing, View, Watched,
    dependencies::{self, Unmanaged, UnmanagedWorkload},
    members::{self, Members},
};
use crate::autoscaled::scales;

pub struct Assembler {
    namespace: Arc<str>,
    known: Known,
    last: Arc<Snapshot>,
}

/// Of workloads that are still there.
type Known = HashMap<members::Workload, Read>;

/// What the annotations said when they were last looked at.
struct Read {
    template: Option<Annotations>,
    object: Option<Annotations>,
    meaning: Meaning,
}

/// Those of a function, or why it may be meant as one and is none.
type Meaning = Result<(Arc<Settings>, Vec<Problem>), Option<Problem>>;

/// One workload, whatever its kind.
struct Workload<'a> {
    kind: Kind,
    meta: &'a ObjectMeta,
    template: Option<Cow<'a, Annotations>>,
    replicas: i32,
    /// Of its pods, beside their owner.
    selector: Option<&'a LabelSelector>,
    /// Whether it brings a scaler of its own, which ours would fight.
    scales_itself: bool,
}

impl Workload<'_> {
    fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    fn key(&self) -> members::Workload {
        (kind_name(&self.kind), self.name().to_owned())
    }
}

impl Assembler {
    pub fn new(namespace: &str) -> Self {
        Assembler { namespace: namespace.into(), known: HashMap::new(), last: Arc::default() }
    }

    pub fn assemble(&mut self, watched: &Watched) -> View {
        let members = members::by_workload(&watched.pods);
        let autoscalers = by_target(&watched.autoscalers);
        let scaled_objects = by_scale_target(&watched.scaled_objects);
        let workloads = workloads(watched);
        let room = HashMap::with_capacity(workloads.len());
        let mut known = std::mem::replace(&mut self.known, room);

        let mut functions: BTreeMap<Arc<str>, Function> = BTreeMap::new();
        let (mut objects, mut standing) = (BTreeMap::new(), BTreeMap::new());
        let mut asked_for: BTreeMap<Arc<str>, Controls> = BTreeMap::new();
        let mut trusted = HashSet::new();
        let mut scraped = Vec::new();
        let mut longest_interval = Duration::ZERO;
        let (mut plain, mut refused) = (Vec::new(), Vec::new());
        for workload in &workloads {
            let (settings, mut problems) = match self.meaning(workload, &mut known) {
                Ok(settings) => settings,
                Err(problem) => {
                    refused
                        .extend(problem.map(|problem| (Target::of(&workload.kind, workload.meta), problem)));
                    plain.push(workload);
                    continue;
                }
            };
            let name: Arc<str> = workload.name().into();
            if let Some(taken) = functions.get_mut(&name) {
                // One name, one route: the first kind in the order of `workloads` has it.
                let message =
                    format!("a {} of the same name is not served: rename one of them", workload.kind);
                taken.problems.push(Problem::new(slimfaas::PREFIX, message));
                continue;
            }
            let kind = kind_name(&workload.kind);
            let mut own = pods_of(workload, &members);
            own.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            if settings.trusted {
                trusted.extend(own.iter().filter_map(|pod| pods::ip(pod)));
            }
            for pod in own.iter().filter(|pod| pods::running(pod)) {
                match self.scrape_target(&name, pod, &settings) {
                    Ok(Some((target, interval))) => {
                        longest_interval = longest_interval.max(interval.unwrap_or_default());
                        scraped.push(target);
                    }
                    Ok(None) => {}
                    Err(problem) if problems.contains(&problem) => {}
                    Err(problem) => problems.push(problem),
                }
            }
            let mut autoscaler = None;
            if workload.scales_itself {
                let message =
                    "not scaled on demand, because spec.scaleConfig scales it: remove one of the two";
                problems.push(Problem::new(slimfaas::PREFIX, message));
            } else {
                let (controls, bad) = Controls::read(|key| annotation(workload.meta, key));
                problems.extend(bad.into_iter().map(|(name, message)| Problem::new(name, message)));
                let other = autoscaler_of(workload, &autoscalers, &scaled_objects);
                let is_overridden = controls.on_conflict == Some(OnConflict::Override);
                if let Some(other) = &other {
                    let message = rival(other, controls.on_conflict);
                    problems.push(Problem::new(slimfaas::PREFIX, message));
                }
                // Beside KEDA nothing is written at all, which is not for the decision to know.
                autoscaler = match &other {
                    Some(Autoscaler::Hpa(hpa)) if !is_overridden => Some(hpa.as_str().into()),
                    _ => None,
                };
                if controls != Controls::default() {
                    asked_for.insert(name.clone(), controls);
                }
                let created = workload.meta.creation_timestamp.as_ref().map(|time| time.0);
                standing
                    .insert(name.clone(), Standing { created, writers: Writers::of(workload.meta, other) });
                objects.insert(name.clone(), Target::of(&workload.kind, workload.meta));
            }
            let function = Function {
                target: shared::Target {
                    api_version: workload.kind.api_version().into(),
                    kind: kind.into(),
                    namespace: self.namespace.clone(),
                    name: name.clone(),
                },
                settings,
                problems,
                requested: workload.replicas,
                is_scaled: !workload.scales_itself,
                unschedulable: own.iter().find_map(|pod| pods::unschedulable(pod)),
                autoscaler,
                pods: own.iter().map(|pod| members::summary(pod)).collect(),
            };
            functions.insert(name, function);
        }
        let named = dependencies::names(&functions);
        let is_waited_for = |name: &str| named.contains(name) && !functions.contains_key(name);
        let plain = plain.into_iter().filter(|workload| is_waited_for(workload.name())).map(|workload| {
            let ready =
                pods_of(workload, &members).into_iter().filter(|pod| pods::can_be_called(pod)).count();
            let ready = i32::try_from(ready).unwrap_or(i32::MAX);
            (workload.name().into(), UnmanagedWorkload { wanted: workload.replicas, ready })
        });
        let plain: Unmanaged = plain.collect();
        dependencies::report(&mut functions, &plain);
        let functions = functions.into_iter().map(|(name, function)| {
            // What is the same stays the same object: calls that wait for one function are not woken by a pod of another.
            let known = self.last.functions.get(&name).filter(|known| ***known == function);
            let function = known.cloned().unwrap_or_else(|| Arc::new(function));
            (name, function)
        });
        self.last = Arc::new(Snapshot { functions: functions.collect(), trusted });
        View {
            complete: true,
            snapshot: self.last.clone(),
            unmanaged: Arc::new(plain),
            controls: Arc::new(asked_for),
            objects: Arc::new(objects),
            standing: Arc::new(standing),
            refused: refused.into(),
            scraped: scraped.into(),
            longest_interval,
        }
    }

    /// What the annotations mean. Taken over from `known`, if they are still the same.
    fn meaning(&mut self, workload: &Workload<'_>, known: &mut Known) -> Meaning {
        let (template, object) = (workload.template.as_deref(), workload.meta.annotations.as_ref());
        let key = workload.key();
        let is_same = |read: &Read| read.template.as_ref() == template && read.object.as_ref() == object;
        let read = known.remove(&key).filter(is_same).unwrap_or_else(|| {
            let meaning = match slimfaas::read(&self.namespace, workload.name(), template, object) {
                Some((settings, problems)) => Ok((Arc::new(settings), problems)),
                None => Err(slimfaas::refused(template, object)),
            };
            Read { template: template.cloned(), object: object.cloned(), meaning }
        });
        self.known.entry(key).insert_entry(read).get().meaning.clone()
    }

    /// Where the pod says its metrics are.
    fn scrape_target(
        &self,
        app: &str,
        pod: &Pod,
        settings: &Settings,
    ) -> Result<Option<(metrics::scrape::Target, Option<Duration>)>, Problem> {
        let (Some(annotations), Some(ip)) = (&pod.metadata.annotations, pods::ip(pod)) else {
            return Ok(None);
        };
        let endpoint = Endpoint::from_annotations(annotations, pods::first_port(pod));
        let endpoint = endpoint.map_err(|error| Problem::new("prometheus.io", error))?;
        let Some(endpoint) = endpoint else { return Ok(None) };
        let labels = Labels::from_pairs([
            ("job", app),
            ("namespace", &*self.namespace),
            ("pod", pod.metadata.name.as_deref().unwrap_or_default()),
        ]);
        let interval = endpoint.interval.or(settings.scrape_interval);
        let address = SocketAddr::new(ip, endpoint.port);
        let target = metrics::scrape::Target::new(address, &endpoint.path, &labels, app);
        Ok(Some((target.over(endpoint.scheme).every(interval), interval)))
    }
}

fn kind_name(kind: &Kind) -> &'static str {
    match &*kind.kind {
        "StatefulSet" => "StatefulSet",
        "Function" => "Function",
        _ => "Deployment",
    }
}

fn pods_of<'a>(workload: &Workload<'_>, members: &Members<'a>) -> Vec<&'a Pod> {
    let Some(candidates) = members.get(&workload.key()) else { return Vec::new() };
    let selector = workload.selector.map(|selector| Selector::try_from(selector.clone()));
    let of_it = |pod: &&&Pod| match &selector {
        Some(Ok(selector)) => selector.matches(pod.metadata.labels.as_ref().unwrap_or(&BTreeMap::new())),
        Some(Err(_)) => false,
        None => true,
    };
    candidates.iter().filter(of_it).copied().collect()
}

/// Deployments first, then StatefulSets, then Functions. What is being deleted is no function any more, and a Deployment
/// that a Function made is scaled by that Function.
fn workloads(watched: &Watched) -> Vec<Workload<'_>> {
    let mut all = Vec::new();
    for deployment in &watched.deployments {
        let Some(spec) = &deployment.spec else { continue };
        all.push(Workload {
            kind: kind::DEPLOYMENT,
            meta: &deployment.metadata,
            template: template_annotations(&spec.template).map(Cow::Borrowed),
            replicas: spec.replicas.unwrap_or(1),
            selector: Some(&spec.selector),
            scales_itself: false,
        });
    }
    for set in &watched.stateful_sets {
        let Some(spec) = &set.spec else { continue };
        all.push(Workload {
            kind: kind::STATEFUL_SET,
            meta: &set.metadata,
            template: template_annotations(&spec.template).map(Cow::Borrowed),
            replicas: spec.replicas.unwrap_or(1),
            selector: Some(&spec.selector),
            scales_itself: false,
        });
    }
    for function in &watched.functions {
        let spec = &function.data["spec"];
        let replicas = spec["replicas"].as_i64().and_then(|n| i32::try_from(n).ok());
        all.push(Workload {
            kind: FUNCTION,
            meta: &function.metadata,
            template: serde_json::from_value(spec["annotations"].clone()).ok().flatten().map(Cow::Owned),
            replicas: replicas.unwrap_or(1),
            selector: None,
            scales_itself: !spec["scaleConfig"].is_null(),
        });
    }
    let made_by_function = |meta: &ObjectMeta| {
        controller_of(meta).is_some_and(|owner| {
            owner.kind == FUNCTION.kind && owner.api_version.starts_with(&*FUNCTION.group)
        })
    };
    all.retain(|workload| workload.meta.deletion_timestamp.is_none() && !made_by_function(workload.meta));
    all
}

pub(crate) fn template_annotations(template: &PodTemplateSpec) -> Option<&Annotations> {
    template.metadata.as_ref()?.annotations.as_ref()
}

/// What else scales it, whoever made that; the first by name if there are several. KEDA makes an HPA of its own, and does
/// more than that.
fn autoscaler_of(
    workload: &Workload<'_>,
    autoscalers: &HashMap<&str, Vec<&HorizontalPodAutoscaler>>,
    scaled_objects: &HashMap<&str, Vec<&DynamicObject>>,
) -> Option<Autoscaler> {
    let name = workload.name();
    let kedas = scaled_objects.get(name).into_iter().flatten().filter(|object| {
        let target = &object.data["spec"]["scaleTargetRef"];
        let kind = target["kind"].as_str().unwrap_or("Deployment");
        let group = kind::group_of(target["apiVersion"].as_str().unwrap_or("apps/v1"));
        kind == &*workload.kind.kind && group == &*workload.kind.group
    });
    let keda = kedas.filter_map(|object| object.metadata.name.clone()).min().map(Autoscaler::Keda);
    keda.or_else(|| {
        let candidates = autoscalers.get(name).into_iter().flatten();
        let of_it = candidates.filter(|autoscaler| scales(autoscaler, &workload.kind, name));
        of_it.filter_map(|autoscaler| autoscaler.metadata.name.clone()).min().map(Autoscaler::Hpa)
    })
}

fn rival(autoscaler: &Autoscaler, asked: Option<OnConflict>) -> String {
    let so = match (asked, autoscaler) {
        (Some(OnConflict::Override), _) => ", and ballast.dev/on-conflict says to write all the same",
        (None, Autoscaler::Hpa(_)) => {
            ", so SlimFaas/Scale and SlimFaas/ReplicasMin count only at zero and on the way there"
        }
        _ => ", so its count is not written here",
    };
    format!("{autoscaler} scales it too{so}: remove one of the two")
}

/// KEDA's objects by the name of what they scale.
fn by_scale_target(all: &[Arc<DynamicObject>]) -> HashMap<&str, Vec<&DynamicObject>> {
    let mut by_target: HashMap<&str, Vec<&DynamicObject>> = HashMap::new();
    for object in all {
        if let Some(name) = object.data["spec"]["scaleTargetRef"]["name"].as_str() {
            by_target.entry(name).or_default().push(object);
        }
    }
    by_target
}

/// Autoscalers by the name of what they scale, so that each is looked at once and not for every workload.
fn by_target(all: &[Arc<HorizontalPodAutoscaler>]) -> HashMap<&str, Vec<&HorizontalPodAutoscaler>> {
    let mut by_target: HashMap<&str, Vec<&HorizontalPodAutoscaler>> = HashMap::new();
    for autoscaler in all {
        by_target.entry(&autoscaler.spec.scale_target_ref.name).or_default().push(autoscaler);
    }
    by_target
}
