//! What the operators' port tells of pipelines, Sets, definitions and Hvpas: `/api/v1/objects`.
//!
//! Read from the caches that the controllers have anyway, from the record of decisions, and from the master's figures.
//! Nothing is asked of the API for it but, on a node that is not the master, the kinds that definitions generate.

mod rows;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use admin::Feed;
use api::{
    hvpa::Hvpa,
    kro::ResourceGraphDefinition,
    numaflow::{MonoVertex, Pipeline, Vertex},
};
use controllers::{graphs, hvpa, pipelines};
use engine::{Cached, Engine, Scope, Selection, kind::Kind};
use futures::{StreamExt, stream};
use graph::labels;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{ResourceExt, api::DynamicObject};
use metrics::Gauge;
use scaling::{History, Object, Record};
use serde_json::{Value, json};

use self::rows::{Figures, Row};
use super::{Options, mastership::Led};

const NAME: &str = "objects";
/// How old an answer may be, and how often whoever follows is told of changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A handle; clones share what is watched and the last answer.
#[derive(Clone)]
pub struct Objects(Arc<Inner>);

struct Inner {
    engine: Engine,
    history: History,
    led: Led,
    pipelines: Option<Pipelines>,
    hvpas: Option<Cached<Hvpa>>,
    graphs: Option<Graphs>,
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    _scope: Scope,
}

struct Pipelines {
    pipelines: Cached<Pipeline>,
    vertices: Cached<Vertex>,
    mono_vertices: Cached<MonoVertex>,
}

struct Graphs {
    definitions: Cached<ResourceGraphDefinition>,
    /// Those that definitions generate.
    crds: Cached<DynamicObject>,
    generated: Mutex<BTreeMap<Kind, (Scope, Cached<DynamicObject>)>>,
}

/// All rows by their keys.
type Snapshot = BTreeMap<String, Value>;

impl Objects {
    /// Of the components that this node runs: the others' kinds may not be installed, nor this account be allowed to
    /// read them.
    pub fn new(engine: &Engine, history: &History, led: &Led, options: &Options) -> Self {
        let scope = engine.scope(NAME);
        let within = || Selection { namespace: options.settings.only_namespace.clone(), ..Selection::all() };
        let has = |name: &str| options.components.has(name);
        let has_data_plane = options.settings.pipelines.is_some();
        let pipelines = (has(pipelines::NAME) && has_data_plane).then(|| Pipelines {
            pipelines: scope.cache_if_served(within()),
            vertices: scope.cache_if_served(within()),
            mono_vertices: scope.cache_if_served(within()),
        });
        let hvpas = has(hvpa::NAME).then(|| scope.cache_if_served(within()));
        let crd = Kind::of::<CustomResourceDefinition>();
        let graphs = has(graphs::NAME).then(|| Graphs {
            definitions: scope.cache_if_served(Selection::all()),
            crds: scope.dynamic_if_served(&crd, Selection::labelled((labels::OWNED, "true"))),
            generated: Mutex::default(),
        });
        let (engine, history, led) = (engine.clone(), history.clone(), led.clone());
        let last = Mutex::default();
        Self(Arc::new(Inner { engine, history, led, pipelines, hvpas, graphs, last, _scope: scope }))
    }

    pub fn feed(&self) -> Feed {
        let (told, followed) = (self.clone(), self.clone());
        Feed {
            tell: Arc::new(move |filters: &[(String, String)]| {
                told.snapshot().values().filter(|row| passes(row, filters)).cloned().collect()
            }),
            follow: Arc::new(move |filters| followed.follow(filters)),
        }
    }

    /// The kinds that definitions generate, of those that are watched.
    pub fn generated_kind(&self, kind: &str) -> Option<Kind> {
        let graphs = self.0.graphs.as_ref()?;
        let kinds = graphs.crds.all().into_iter().map(|crd| Kind::of_crd(&crd.data));
        kinds.into_iter().find(|known| known.kind == kind)
    }

    /// All rows, then what has changed since and the keys of what is gone.
    fn follow(&self, filters: admin::Filters) -> stream::BoxStream<'static, admin::Event> {
        let begin = (self.clone(), None::<Arc<Snapshot>>);
        let events = stream::unfold(begin, move |(objects, before)| {
            let filters = filters.clone();
            async move {
                if before.is_some() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                let now = objects.snapshot();
                let events = events(before.as_deref(), &now, &filters);
                Some((stream::iter(events), (objects, Some(now))))
            }
        });
        events.flatten().boxed()
    }

    /// Made at most once a second, however many ask.
    fn snapshot(&self) -> Arc<Snapshot> {
        let mut last = lock(&self.0.last);
        match &*last {
            Some((at, snapshot)) if at.elapsed() < LOOK_EVERY => snapshot.clone(),
            _ => {
                let snapshot = Arc::new(self.0.look());
                *last = Some((Instant::now(), snapshot.clone()));
                snapshot
            }
        }
    }
}

impl Inner {
    fn look(&self) -> Snapshot {
        let mut rows = Vec::new();
        if let Some(pipelines) = &self.pipelines {
            let figures = figures(&self.led.gauges());
            rows.extend(pipelines.pipelines.all().iter().map(|one| Row::of_pipeline(one)));
            let vertices = pipelines.vertices.all();
            rows.extend(vertices.iter().map(|one| Row::of_vertex(one, &figures, self.last(one.as_ref()))));
            let mono = pipelines.mono_vertices.all();
            rows.extend(mono.iter().map(|one| Row::of_mono_vertex(one, &figures, self.last(one.as_ref()))));
        }
        if let Some(hvpas) = &self.hvpas {
            rows.extend(hvpas.all().iter().map(|one| Row::of_hvpa(one, self.last(one.as_ref()))));
        }
        if let Some(graphs) = &self.graphs {
            rows.extend(graphs.rows(&self.engine));
        }
        rows.into_iter().map(|row| (row.key(), json!(row))).collect()
    }

    fn last<K>(&self, object: &K) -> Option<Arc<Record>>
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let kind = K::kind(&()).into_owned();
        self.history.last(&Object {
            kind,
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        })
    }
}

impl Graphs {
    fn rows(&self, engine: &Engine) -> Vec<Row> {
        let definitions = self.definitions.all();
        let crds = self.crds.all();
        // The CRD says which definition it is of, and what its objects are called.
        let kinds: Vec<(String, Kind)> = crds
            .iter()
            .filter_map(|crd| {
                let definition = crd.labels().get(labels::DEFINITION_NAME)?.clone();
                Some((definition, Kind::of_crd(&crd.data)))
            })
            .collect();
        let caches = self.generated(engine, kinds.iter().map(|(_, kind)| kind.clone()).collect());
        let mut rows = Vec::new();
        for definition in &definitions {
            let name = definition.name_any();
            let own = || kinds.iter().filter(|(of, _)| *of == name).map(|(_, kind)| kind);
            let set_kind = definition.spec.scaling.as_ref().map(|scaling| scaling.kind.as_str());
            let (mut instances, mut sets) = (Vec::new(), Vec::new());
            for kind in own() {
                let all = caches.get(kind).map(Cached::all).unwrap_or_default();
                match set_kind == Some(&*kind.kind) {
                    true => sets.extend(all.iter().map(|set| Row::of_set(kind, set))),
                    false => instances.extend(all),
                }
            }
            rows.push(Row::of_definition(definition, &instances));
            rows.extend(sets);
        }
        rows
    }

    /// Caches of these kinds, and of no others.
    fn generated(&self, engine: &Engine, kinds: BTreeSet<Kind>) -> HashMap<Kind, Cached<DynamicObject>> {
        let mut generated = lock(&self.generated);
        generated.retain(|kind, _| kinds.contains(kind));
        for kind in kinds {
            generated.entry(kind).or_insert_with_key(|kind| {
                let scope = engine.scope(NAME);
                let cached = scope.dynamic_if_served(kind, Selection::all());
                (scope, cached)
            });
        }
        generated.iter().map(|(kind, (_, cached))| (kind.clone(), cached.clone())).collect()
    }
}

/// What the master measures of vertices.
fn figures(gauges: &[Gauge]) -> Figures {
    let mut all = Figures::new();
    for gauge in gauges {
        let label = |name: &str| {
            let found = gauge.labels.iter().find(|(label, _)| label == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let object = || Object { kind: label("kind"), namespace: label("namespace"), name: label("name") };
        match gauge.name.as_str() {
            pipelines::PENDING => all.entry(object()).or_default().pending = Some(gauge.value),
            pipelines::RATE => all.entry(object()).or_default().rate = Some(gauge.value),
            _ => {}
        }
    }
    all
}

/// A filter that no row has passes nothing: a typing error must not look like an answer.
fn passes(row: &Value, filters: &[(String, String)]) -> bool {
    filters.iter().all(|(name, value)| {
        matches!(name.as_str(), "type" | "kind" | "namespace" | "name") && row[name] == value.as_str()
    })
}

fn events(before: Option<&Snapshot>, now: &Snapshot, filters: &admin::Filters) -> Vec<admin::Event> {
    let passing = |(_, row): &(&String, &Value)| passes(row, filters);
    let Some(before) = before else {
        return vec![("objects", now.iter().filter(passing).map(|(_, row)| row.clone()).collect())];
    };
    let is_changed = |(key, row): &(&String, &Value)| before.get(*key) != Some(*row);
    let changed: Vec<&Value> = now.iter().filter(is_changed).filter(passing).map(|(_, row)| row).collect();
    let gone: Vec<&String> =
        before.iter().filter(passing).map(|(key, _)| key).filter(|key| !now.contains_key(*key)).collect();
    let events = [("changed", changed.is_empty(), json!(changed)), ("gone", gone.is_empty(), json!(gone))];
    events.into_iter().filter(|(_, is_empty, _)| !is_empty).map(|(name, _, told)| (name, told)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_is_told_of_what_changes_and_of_nothing_else() {
        let snapshot = |rows: &[(&str, &str, u32)]| -> Snapshot {
            let row = |(name, kind, ready): &(&str, &str, u32)| {
                (format!("set/{kind}/{name}"), json!({"kind": kind, "name": name, "ready": ready}))
            };
            rows.iter().map(row).collect()
        };
        let before =
            snapshot(&[("a", "AppSet", 1), ("b", "AppSet", 1), ("c", "AppSet", 1), ("d", "JobSet", 1)]);
        let now = snapshot(&[("a", "AppSet", 1), ("b", "AppSet", 2), ("e", "JobSet", 0)]);
        let told = |before: Option<&Snapshot>, filters: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            events(before, &now, &filters.iter().map(own).collect())
                .iter()
                .map(|(name, told)| format!("{name} {told}"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        expect_test::expect![[r#"
            changed [{"kind":"AppSet","name":"b","ready":2},{"kind":"JobSet","name":"e","ready":0}]
            gone ["set/AppSet/c","set/JobSet/d"]"#]]
        .assert_eq(&told(Some(&before), &[]));
        expect_test::expect![[r#"
            changed [{"kind":"JobSet","name":"e","ready":0}]
            gone ["set/JobSet/d"]"#]]
        .assert_eq(&told(Some(&before), &[("kind", "JobSet")]));
        assert_eq!(told(Some(&now), &[]), "");
        assert_eq!(told(None, &[("nmae", "a")]), "objects []");
    }
}
