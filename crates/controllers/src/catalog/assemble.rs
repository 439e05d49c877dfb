//! From objects to functions. Pure, but for remembering what was made of each workload: one changes at a time, and only that
//! one is looked at again, and what depends on it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use api::slimfaas::{self, Problem, Settings};
use engine::{effect::Target, object::annotation, pods};
use k8s_openapi::api::core::v1::Pod;
use metrics::scrape::Endpoint;
use ondemand::{self as shared, Function, SharedMap, Snapshot};
use promql::Labels;
use scaling::{Autoscaler, Controls, OnConflict, Writers};

use super::{
    Managed, View,
    dependencies::{self, Unmanaged, UnmanagedWorkload},
    members,
    workload::{Objects, Workload, WorkloadId, WorkloadKind, autoscaler_of, pods_of},
};

pub struct Assembler {
    namespace: Arc<str>,
    /// What was made of each workload that is still there.
    made: HashMap<WorkloadId, Made>,
    functions: SharedMap<Arc<str>, Arc<Function>>,
    trusted: SharedMap<IpAddr, usize>,
    managed: SharedMap<Arc<str>, Arc<Managed>>,
    controls: SharedMap<Arc<str>, Controls>,
    /// Of functions that have pods to scrape.
    scraped: BTreeMap<Arc<str>, Scraped>,
    refused: BTreeMap<WorkloadId, (Target, Problem)>,
    /// Functions that depend on others, and what these are.
    dependents: BTreeSet<Arc<str>>,
    named: HashSet<Arc<str>>,
    last: View,
}

/// What was made of one workload.
struct Made {
    workload: Workload,
    meaning: Meaning,
    part: Option<Part>,
}

/// Those of a function, or why it may be meant as one and is none.
type Meaning = Result<(Arc<Settings>, Vec<Problem>), Option<Problem>>;

/// The pods of a function that are scraped, and the longest time between two scrapes that one asks for.
type Scraped = (Vec<metrics::scrape::Target>, Duration);

/// What a function adds to the view.
struct Part {
    function: Arc<Function>,
    managed: Option<Arc<Managed>>,
    controls: Option<Controls>,
    scraped: Scraped,
}

impl Assembler {
    pub fn new(namespace: &str) -> Self {
        Assembler {
            namespace: namespace.into(),
            made: HashMap::new(),
            functions: SharedMap::default(),
            trusted: SharedMap::default(),
            managed: SharedMap::default(),
            controls: SharedMap::default(),
            scraped: BTreeMap::new(),
            refused: BTreeMap::new(),
            dependents: BTreeSet::new(),
            named: HashSet::new(),
            last: View::default(),
        }
    }

    /// Looks again at workloads of which anything changed: themselves, their pods, who else scales them. It costs as much as
    /// these are many, and as there are dependencies if one of these is part of them.
    pub fn update(&mut self, objects: &impl Objects, changed: impl IntoIterator<Item = WorkloadId>) -> View {
        let mut names = BTreeSet::new();
        let mut has_other_refusals = false;
        for id in changed {
            has_other_refusals |= self.look_at(objects, &id);
            names.insert(id.name);
        }
        let (mut touches_dependencies, mut has_other_scrapes) = (false, false);
        for name in &names {
            touches_dependencies |= self.dependents.contains(name) || self.named.contains(name);
            let part = self.part_of(name);
            let controls = part.and_then(|part| part.controls.clone());
            let managed = part.and_then(|part| part.managed.clone());
            let scraped = part.map(|part| part.scraped.clone()).filter(|(targets, _)| !targets.is_empty());
            let function = self.function(name);
            if function.as_ref().is_some_and(|function| !function.settings.depends_on.is_empty()) {
                self.dependents.insert(name.clone());
                touches_dependencies = true;
            } else {
                self.dependents.remove(name);
                self.publish(name, function);
            }
            self.controls.set(name.clone(), controls);
            self.managed.set(name.clone(), managed);
            let known = match scraped.clone() {
                Some(scraped) => self.scraped.insert(name.clone(), scraped),
                None => self.scraped.remove(name),
            };
            has_other_scrapes |= known != scraped;
        }
        if touches_dependencies {
            self.connect(objects);
        }
        if has_other_scrapes {
            self.last.scraped = self.scraped.values().flat_map(|(targets, _)| targets).cloned().collect();
            self.last.longest_interval =
                self.scraped.values().map(|(_, longest)| *longest).max().unwrap_or_default();
        }
        if has_other_refusals {
            self.last.refused = self.refused.values().cloned().collect();
        }
        self.last.complete = true;
        self.last.snapshot =
            Arc::new(Snapshot { functions: self.functions.clone(), trusted: self.trusted.clone() });
        self.last.managed = self.managed.clone();
        self.last.controls = self.controls.clone();
        self.last.clone()
    }

    /// Whether it is now refused, or no longer, or for another reason.
    fn look_at(&mut self, objects: &impl Objects, id: &WorkloadId) -> bool {
        let known = self.made.remove(id);
        let made = objects.workload(id).filter(Workload::counts).map(|workload| {
            let meaning = match known {
                Some(known) if known.workload.has_annotations_of(&workload) => known.meaning,
                _ => self.meaning(&workload),
            };
            let part = meaning
                .as_ref()
                .ok()
                .map(|(settings, problems)| self.part(objects, id, &workload, settings, problems.clone()));
            Made { workload, meaning, part }
        });
        let problem = made.as_ref().and_then(|made| made.meaning.as_ref().err()?.clone());
        let refused = problem
            .zip(made.as_ref())
            .map(|(problem, Made { workload, .. })| (Target::of(&workload.kind(), workload.meta()), problem));
        if let Some(made) = made {
            self.made.insert(id.clone(), made);
        }
        let known = match refused.clone() {
            Some(refused) => self.refused.insert(id.clone(), refused),
            None => self.refused.remove(id),
        };
        known != refused
    }

    /// One name, one route: the first kind has it.
    fn part_of(&self, name: &Arc<str>) -> Option<&Part> {
        self.parts_of(name).next().map(|(_, part)| part)
    }

    fn parts_of(&self, name: &Arc<str>) -> impl Iterator<Item = (WorkloadKind, &Part)> {
        WorkloadKind::ALL.into_iter().filter_map(|kind| {
            let made = self.made.get(&WorkloadId { kind, name: name.clone() })?;
            Some((kind, made.part.as_ref()?))
        })
    }

    /// Without what is wrong with its dependencies.
    fn function(&self, name: &Arc<str>) -> Option<Arc<Function>> {
        let mut parts = self.parts_of(name);
        let mut function = parts.next()?.1.function.clone();
        for (kind, _) in parts {
            let message = format!("a {kind} of the same name is not served: rename one of them");
            Arc::make_mut(&mut function).problems.push(Problem::new(slimfaas::PREFIX, message));
        }
        Some(function)
    }

    /// What says the same stays the same object: calls that wait for one function are not woken by a change of another.
    fn publish(&mut self, name: &Arc<str>, function: Option<Arc<Function>>) {
        let known = self.functions.get(name).cloned();
        if known == function {
            return;
        }
        for ip in known.iter().flat_map(|known| trusted(known)) {
            let n_others = self.trusted.get(&ip).map_or(0, |n| n - 1);
            self.trusted.set(ip, (n_others > 0).then_some(n_others));
        }
        for ip in function.iter().flat_map(|function| trusted(function)) {
            let n_others = self.trusted.get(&ip).copied().unwrap_or_default();
            self.trusted.insert(ip, n_others + 1);
        }
        self.functions.set(name.clone(), function);
    }

    /// Publishes functions that depend on others, with what is wrong about that.
    fn connect(&mut self, objects: &impl Objects) {
        let dependents = self.dependents.iter().filter_map(|name| Some((name.clone(), self.function(name)?)));
        let mut concerned: BTreeMap<Arc<str>, Arc<Function>> = dependents.collect();
        self.named = dependencies::names(&concerned);
        let named = self.named.iter().filter_map(|name| Some((name.clone(), self.function(name)?)));
        concerned.extend(named.collect::<Vec<_>>());
        let plain = self.named.iter().filter(|name| !concerned.contains_key(*name));
        let plain: Unmanaged =
            plain.filter_map(|name| Some((name.clone(), self.unmanaged(objects, name)?))).collect();
        dependencies::report(&mut concerned, &self.named, &plain);
        for (name, function) in concerned {
            self.publish(&name, Some(function));
        }
        self.last.unmanaged = Arc::new(plain);
    }

    fn unmanaged(&self, objects: &impl Objects, name: &Arc<str>) -> Option<UnmanagedWorkload> {
        let mut ids = WorkloadKind::ALL.into_iter().map(|kind| WorkloadId { kind, name: name.clone() });
        let (id, made) = ids.find_map(|id| self.made.get(&id).map(|made| (id, made)))?;
        let candidates = objects.pods(&id);
        let own = pods_of(&made.workload, &candidates);
        let ready = own.into_iter().filter(|pod| pods::can_be_called(pod)).count();
        let ready = i32::try_from(ready).unwrap_or(i32::MAX);
        Some(UnmanagedWorkload { wanted: made.workload.replicas(), ready })
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
        objects: &impl Objects,
        id: &WorkloadId,
        workload: &Workload,
        settings: &Arc<Settings>,
        mut problems: Vec<Problem>,
    ) -> Part {
        let name = id.name.clone();
        let candidates = objects.pods(id);
        let mut own = pods_of(workload, &candidates);
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
            let other = autoscaler_of(workload, objects);
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
                kind: workload.kind().kind.as_ref().into(),
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
        Part {
            function: Arc::new(function),
            managed,
            controls: asked_for,
            scraped: (scraped, longest_interval),
        }
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

/// The addresses from which its pods may call what is private.
fn trusted(function: &Function) -> impl Iterator<Item = IpAddr> {
    function.pods.iter().filter(|_| function.settings.trusted).filter_map(|pod| pod.ip)
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
