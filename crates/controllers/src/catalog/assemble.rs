//! From objects to functions. Pure, but for remembering what was made of each workload: one changes at a time, and the
//! others are taken over as they are.

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
        apps::v1::{Deployment, StatefulSet},
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
    FUNCTION, Managed, View, Watched,
    dependencies::{self, Unmanaged, UnmanagedWorkload},
    members,
};
use crate::autoscaled::scales;

pub struct Assembler {
    namespace: Arc<str>,
    /// What was made of each workload that is still there, by kind and name.
    made: HashMap<&'static str, HashMap<Arc<str>, Made>>,
    last: Arc<Snapshot>,
}

/// What was made of one workload, and from what. As long as that is the same, so is what was made.
struct Made {
    workload: Workload,
    /// Those that may be its own; none are noted of what is no function.
    pods: Vec<Arc<Pod>>,
    autoscaler: Option<Autoscaler>,
    meaning: Meaning,
    part: Option<Part>,
}

/// Those of a function, or why it may be meant as one and is none.
type Meaning = Result<(Arc<Settings>, Vec<Problem>), Option<Problem>>;

/// What a function adds to the view.
struct Part {
    function: Arc<Function>,
    managed: Option<Arc<Managed>>,
    controls: Option<Controls>,
    scraped: Vec<metrics::scrape::Target>,
    longest_interval: Duration,
}

/// One workload, whatever its kind.
#[derive(Clone)]
enum Workload {
    Deployment(Arc<Deployment>),
    StatefulSet(Arc<StatefulSet>),
    Function(Arc<DynamicObject>),
}

impl Workload {
    fn kind(&self) -> Kind {
        match self {
            Self::Deployment(_) => kind::DEPLOYMENT,
            Self::StatefulSet(_) => kind::STATEFUL_SET,
            Self::Function(_) => FUNCTION,
        }
    }

    fn kind_name(&self) -> &'static str {
        match self {
            Self::Deployment(_) => "Deployment",
            Self::StatefulSet(_) => "StatefulSet",
            Self::Function(_) => "Function",
        }
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Deployment(object) => &object.metadata,
            Self::StatefulSet(object) => &object.metadata,
            Self::Function(object) => &object.metadata,
        }
    }

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// The annotations of its pods.
    fn template(&self) -> Option<Cow<'_, Annotations>> {
        match self {
            Self::Deployment(object) => {
                template_annotations(&object.spec.as_ref()?.template).map(Cow::Borrowed)
            }
            Self::StatefulSet(object) => {
                template_annotations(&object.spec.as_ref()?.template).map(Cow::Borrowed)
            }
            Self::Function(object) => serde_json::from_value(object.data["spec"]["annotations"].clone())
                .ok()
                .flatten()
                .map(Cow::Owned),
        }
    }

    fn replicas(&self) -> i32 {
        let replicas = match self {
            Self::Deployment(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
            Self::StatefulSet(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
            Self::Function(object) => {
                object.data["spec"]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok())
            }
        };
        replicas.unwrap_or(1)
    }

    /// Of its pods, beside their owner.
    fn selector(&self) -> Option<&LabelSelector> {
        match self {
            Self::Deployment(object) => Some(&object.spec.as_ref()?.selector),
            Self::StatefulSet(object) => Some(&object.spec.as_ref()?.selector),
            Self::Function(_) => None,
        }
    }

    /// Whether it brings a scaler of its own, which ours would fight.
    fn scales_itself(&self) -> bool {
        matches!(self, Self::Function(object) if !object.data["spec"]["scaleConfig"].is_null())
    }

    /// Whether it is the same object in the same version. A cache replaces what changes.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Deployment(a), Self::Deployment(b)) => Arc::ptr_eq(a, b),
            (Self::StatefulSet(a), Self::StatefulSet(b)) => Arc::ptr_eq(a, b),
            (Self::Function(a), Self::Function(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn has_annotations_of(&self, other: &Self) -> bool {
        self.meta().annotations == other.meta().annotations && self.template() == other.template()
    }
}

impl Made {
    fn is_of(&self, workload: &Workload, pods: &[&Arc<Pod>], autoscaler: Option<&Autoscaler>) -> bool {
        let has_same_pods =
            || self.pods.len() == pods.len() && self.pods.iter().zip(pods).all(|(a, b)| Arc::ptr_eq(a, b));
        self.workload.is(workload)
            && (self.part.is_none() || (self.autoscaler.as_ref() == autoscaler && has_same_pods()))
    }
}

impl Assembler {
    pub fn new(namespace: &str) -> Self {
        Assembler { namespace: namespace.into(), made: HashMap::new(), last: Arc::default() }
    }

    pub fn assemble(&mut self, watched: &Watched) -> View {
        let members = members::by_workload(&watched.pods);
        let autoscalers = by_target(&watched.autoscalers);
        let scaled_objects = by_scale_target(&watched.scaled_objects);
        let mut before = std::mem::take(&mut self.made);

        let mut functions: BTreeMap<Arc<str>, Arc<Function>> = BTreeMap::new();
        let mut managed: BTreeMap<Arc<str>, Arc<Managed>> = BTreeMap::new();
        let mut asked_for: BTreeMap<Arc<str>, Controls> = BTreeMap::new();
        let mut trusted = HashSet::new();
        let mut scraped = Vec::new();
        let mut longest_interval = Duration::ZERO;
        let (mut plain, mut refused) = (Vec::new(), Vec::new());
        for workload in workloads(watched) {
            let kind = workload.kind_name();
            let pods = members.get(&(kind, workload.name())).map_or(&[][..], Vec::as_slice);
            let autoscaler = autoscaler_of(&workload, &autoscalers, &scaled_objects);
            let known = before.get_mut(kind).and_then(|of_kind| of_kind.remove_entry(workload.name()));
            let (name, made) = match known {
                Some((name, made)) if made.is_of(&workload, pods, autoscaler.as_ref()) => (name, made),
                Some((name, made)) => (name, self.make(&workload, pods, autoscaler, Some(made))),
                None => (workload.name().into(), self.make(&workload, pods, autoscaler, None)),
            };
            if let Err(problem) = &made.meaning {
                let target = || Target::of(&workload.kind(), workload.meta());
                refused.extend(problem.clone().map(|problem| (target(), problem)));
                plain.push(workload.clone());
            }
            match (&made.part, functions.get_mut(&name)) {
                (None, _) => {}
                (Some(_), Some(taken)) => {
                    // One name, one route: the first kind in the order of `workloads` has it.
                    let message = format!("a {kind} of the same name is not served: rename one of them");
                    Arc::make_mut(taken).problems.push(Problem::new(slimfaas::PREFIX, message));
                }
                (Some(part), None) => {
                    if part.function.settings.trusted {
                        trusted.extend(part.function.pods.iter().filter_map(|pod| pod.ip));
                    }
                    scraped.extend_from_slice(&part.scraped);
                    longest_interval = longest_interval.max(part.longest_interval);
                    asked_for.extend(part.controls.clone().map(|controls| (name.clone(), controls)));
                    managed.extend(part.managed.clone().map(|managed| (name.clone(), managed)));
                    functions.insert(name.clone(), part.function.clone());
                }
            }
            self.made.entry(kind).or_default().insert(name, made);
        }
        let named = dependencies::names(&functions);
        let is_waited_for = |name: &str| named.contains(name) && !functions.contains_key(name);
        let plain = plain.iter().filter(|workload| is_waited_for(workload.name())).map(|workload| {
            let ready = pods_of(workload, members.get(&(workload.kind_name(), workload.name())));
            let ready = ready.into_iter().filter(|pod| pods::can_be_called(pod)).count();
            let ready = i32::try_from(ready).unwrap_or(i32::MAX);
            (workload.name().into(), UnmanagedWorkload { wanted: workload.replicas(), ready })
        });
        let plain: Unmanaged = plain.collect();
        dependencies::report(&mut functions, &named, &plain);
        for (name, function) in &mut functions {
            // What is the same stays the same object: calls that wait for one function are not woken by a pod of another.
            if let Some(known) = self.last.functions.get(name)
                && !Arc::ptr_eq(known, function)
                && known == function
            {
                *function = known.clone();
            }
        }
        self.last = Arc::new(Snapshot { functions, trusted });
        View {
            complete: true,
            snapshot: self.last.clone(),
            unmanaged: Arc::new(plain),
            controls: Arc::new(asked_for),
            managed: Arc::new(managed),
            refused: refused.into(),
            scraped: scraped.into(),
            longest_interval,
        }
    }

    /// What is new about a workload. What it said before is taken over where it still says so.
    fn make(
        &self,
        workload: &Workload,
        pods: &[&Arc<Pod>],
        autoscaler: Option<Autoscaler>,
        known: Option<Made>,
    ) -> Made {
        let meaning = match &known {
            Some(made) if made.workload.has_annotations_of(workload) => made.meaning.clone(),
            _ => self.meaning(workload),
        };
        let part = meaning.as_ref().ok().map(|(settings, problems)| {
            let before = known.and_then(|made| made.part).map(|part| part.function);
            self.part(workload, pods, autoscaler.clone(), settings, problems.clone(), before)
        });
        let pods = if part.is_some() { pods.iter().map(|pod| (*pod).clone()).collect() } else { Vec::new() };
        Made { workload: workload.clone(), pods, autoscaler, meaning, part }
    }

    /// What the annotations mean.
    fn meaning(&self, workload: &Workload) -> Meaning {
        let (template, object) = (workload.template(), workload.meta().annotations.as_ref());
        match slimfaas::read(&self.namespace, workload.name(), template.as_deref(), object) {
            Some((settings, problems)) => Ok((Arc::new(settings), problems)),
            None => Err(slimfaas::refused(template.as_deref(), object)),
        }
    }

    fn part(
        &self,
        workload: &Workload,
        pods: &[&Arc<Pod>],
        other: Option<Autoscaler>,
        settings: &Arc<Settings>,
        mut problems: Vec<Problem>,
        before: Option<Arc<Function>>,
    ) -> Part {
        let name: Arc<str> = workload.name().into();
        let mut own = pods_of(workload, Some(pods));
        own.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut scraped = Vec::new();
        let mut longest_interval = Duration::ZERO;
        for pod in own.iter().filter(|pod| pods::running(pod)) {
            match self.scrape_target(&name, pod, settings) {
                Ok(Some((target, interval))) => {
                    longest_interval = longest_interval.max(interval.unwrap_or_default());
                    scraped.push(target);
                }
                Ok(None) => {}
                Err(problem) if problems.contains(&problem) => {}
                Err(problem) => problems.push(problem),
            }
        }
        let (mut autoscaler, mut managed, mut asked_for) = (None, None, None);
        if workload.scales_itself() {
            let message = "not scaled on demand, because spec.scaleConfig scales it: remove one of the two";
            problems.push(Problem::new(slimfaas::PREFIX, message));
        } else {
            let (controls, bad) = Controls::read(|key| annotation(workload.meta(), key));
            problems.extend(bad.into_iter().map(|(name, message)| Problem::new(name, message)));
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
            asked_for = (controls != Controls::default()).then_some(controls);
            managed = Some(Arc::new(Managed {
                target: Target::of(&workload.kind(), workload.meta()),
                created: workload.meta().creation_timestamp.as_ref().map(|time| time.0),
                writers: Writers::of(workload.meta(), other),
            }));
        }
        let function = Function {
            target: shared::Target {
                api_version: workload.kind().api_version().into(),
                kind: workload.kind_name().into(),
                namespace: self.namespace.clone(),
                name,
            },
            settings: settings.clone(),
            problems,
            requested: workload.replicas(),
            is_scaled: !workload.scales_itself(),
            unschedulable: own.iter().find_map(|pod| pods::unschedulable(pod)),
            autoscaler,
            pods: own.iter().map(|pod| members::summary(pod)).collect(),
        };
        let before = before.filter(|before| **before == function);
        let function = before.unwrap_or_else(|| Arc::new(function));
        Part { function, managed, controls: asked_for, scraped, longest_interval }
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

fn pods_of<'a>(workload: &Workload, candidates: Option<impl AsRef<[&'a Arc<Pod>]>>) -> Vec<&'a Pod> {
    let Some(candidates) = candidates else { return Vec::new() };
    let candidates = candidates.as_ref();
    if candidates.is_empty() {
        return Vec::new();
    }
    let selector = workload.selector().map(|selector| Selector::try_from(selector.clone()));
    let of_it = |pod: &&Pod| match &selector {
        Some(Ok(selector)) => selector.matches(pod.metadata.labels.as_ref().unwrap_or(&BTreeMap::new())),
        Some(Err(_)) => false,
        None => true,
    };
    candidates.iter().map(|pod| &***pod).filter(of_it).collect()
}

/// Deployments first, then StatefulSets, then Functions. What is being deleted is no function any more, and a Deployment
/// that a Function made is scaled by that Function.
fn workloads(watched: &Watched) -> impl Iterator<Item = Workload> + '_ {
    let deployments = watched.deployments.iter().filter(|object| object.spec.is_some());
    let stateful_sets = watched.stateful_sets.iter().filter(|object| object.spec.is_some());
    let all = deployments.cloned().map(Workload::Deployment);
    let all = all.chain(stateful_sets.cloned().map(Workload::StatefulSet));
    let all = all.chain(watched.functions.iter().cloned().map(Workload::Function));
    let made_by_function = |meta: &ObjectMeta| {
        controller_of(meta).is_some_and(|owner| {
            owner.kind == FUNCTION.kind && owner.api_version.starts_with(&*FUNCTION.group)
        })
    };
    all.filter(move |workload| {
        workload.meta().deletion_timestamp.is_none() && !made_by_function(workload.meta())
    })
}

pub(crate) fn template_annotations(template: &PodTemplateSpec) -> Option<&Annotations> {
    template.metadata.as_ref()?.annotations.as_ref()
}

/// What else scales it, whoever made that; the first by name if there are several. KEDA makes an HPA of its own, and does
/// more than that.
fn autoscaler_of(
    workload: &Workload,
    autoscalers: &HashMap<&str, Vec<&HorizontalPodAutoscaler>>,
    scaled_objects: &HashMap<&str, Vec<&DynamicObject>>,
) -> Option<Autoscaler> {
    let name = workload.name();
    let kedas = scaled_objects.get(name).into_iter().flatten().filter(|object| {
        let target = &object.data["spec"]["scaleTargetRef"];
        let kind = target["kind"].as_str().unwrap_or("Deployment");
        let group = kind::group_of(target["apiVersion"].as_str().unwrap_or("apps/v1"));
        kind == workload.kind_name() && group == &*workload.kind().group
    });
    let keda = kedas.filter_map(|object| object.metadata.name.clone()).min().map(Autoscaler::Keda);
    keda.or_else(|| {
        let candidates = autoscalers.get(name).into_iter().flatten();
        let of_it = candidates.filter(|autoscaler| scales(autoscaler, &workload.kind(), name));
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
