//! The only place that writes: carries out effects and reports what was written. Each request asks the fence first.

use std::collections::HashMap;

use futures::{FutureExt, StreamExt, stream};
use kube::{
    Api, Client,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
    core::Status,
};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    cache::{Key, Write, WriteChange, version_number},
    effect::{Announce, Application, Effect, Event, Note, Propagation, Target},
    events::Events,
    fence::Fence,
    kind::Kind,
    supervise::Supervisor,
};

const WRITES_AT_ONCE: usize = 16;

#[derive(Clone)]
pub struct Executor {
    client: Client,
    events: Events,
    fence: Fence,
    manager: String,
}

/// What a plan's execution did. After a failure the rest of the plan was left out.
#[derive(Debug, Default)]
pub struct Outcome {
    pub writes: Vec<(Kind, Write)>,
    pub failure: Option<Failure>,
}

/// Told to the planner on its next turn, so that a condition can say it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub verb: Verb,
    pub kind: Kind,
    pub name: String,
    pub message: String,
    /// Somebody else wrote in between, or another process is the leader now: not worth telling people about.
    pub conflict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Confirm,
    Create,
    Update,
    Delete,
}

/// Versions our own writes of this plan have given an object: a later effect of the plan was decided in their
/// knowledge, so it goes on from there. A foreign write in between still conflicts.
type Versions = HashMap<String, String>;

// === impl Executor ===

impl Executor {
    /// `manager` is the name under which the API notes which fields are ours.
    pub fn new(client: Client, manager: impl Into<String>, fence: Fence, supervisor: &Supervisor) -> Self {
        let events = Events::new(client.clone(), fence.clone(), supervisor);
        Self { events, client, fence, manager: manager.into() }
    }

    /// The last moment before a request that writes.
    fn ask_fence(&self, verb: Verb, kind: &Kind, name: &str) -> Result<(), Box<Failure>> {
        if self.fence.may_write() {
            return Ok(());
        }
        warn!(%kind, name, ?verb, "not written: this process is no longer the leader");
        Err(Failure::conflict(verb, kind, name, "this process is no longer the leader"))
    }

    pub async fn execute(&self, effects: Vec<Effect>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut versions = Versions::new();
        let mut rest = effects.as_slice();
        while let Some(first) = rest.first() {
            let n_alike = rest.iter().take_while(|next| run_together(first, next)).count().max(1);
            let (batch, after) = rest.split_at(n_alike);
            rest = after;
            match first {
                Effect::Create { .. } => self.create_all(batch, &mut versions, &mut outcome).await,
                Effect::Delete { .. } => self.delete_all(batch, &versions, &mut outcome).await,
                Effect::ApplyAll(all) => self.apply_all(all, &mut versions, &mut outcome).await,
                effect => match self.single(effect, &mut versions).await {
                    Ok(write) => outcome.writes.extend(write),
                    Err(failure) => outcome.failure = Some(*failure),
                },
            }
            if outcome.failure.is_some() {
                break;
            }
        }
        outcome
    }

    /// Batches of 1, 2, 4 …: if the API refuses the objects, it is asked once, not a thousand times.
    async fn create_all(&self, effects: &[Effect], versions: &mut Versions, outcome: &mut Outcome) {
        let mut rest = effects;
        let mut size = 1;
        while !rest.is_empty() && outcome.failure.is_none() {
            let (batch, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            size *= 2;
            let creations: Vec<_> = batch.iter().map(|effect| self.create(effect).boxed()).collect();
            for answer in futures::future::join_all(creations).await {
                match answer {
                    Ok(Some((write, version))) => {
                        versions.insert(write.1.uid.clone(), version);
                        outcome.writes.push(write);
                    }
                    Ok(None) => {}
                    Err(failure) => outcome.failure = Some(*failure),
                }
            }
        }
    }

    async fn delete_all(&self, effects: &[Effect], versions: &Versions, outcome: &mut Outcome) {
        let deletions: Vec<_> = effects.iter().map(|effect| self.delete(effect, versions).boxed()).collect();
        let answers: Vec<_> = stream::iter(deletions).buffer_unordered(WRITES_AT_ONCE).collect().await;
        for answer in answers {
            match answer {
                Ok(write) => outcome.writes.extend(write),
                Err(failure) => outcome.failure = Some(*failure),
            }
        }
    }

    async fn apply_all(&self, all: &[Application], versions: &mut Versions, outcome: &mut Outcome) {
        let applications: Vec<_> = all
            .iter()
            .map(|one| {
                let mut known = versions.clone();
                async move {
                    let answer = self.apply(&one.target, one.must_be_absent, &one.body, &mut known).await;
                    (answer, known)
                }
                .boxed()
            })
            .collect();
        let answers: Vec<_> = stream::iter(applications).buffer_unordered(WRITES_AT_ONCE).collect().await;
        for (answer, known) in answers {
            versions.extend(known);
            match answer {
                Ok(write) => outcome.writes.extend(write),
                // a refusal says more than that somebody else was faster
                Err(failure) if outcome.failure.as_ref().is_none_or(|known| known.conflict) => {
                    outcome.failure = Some(*failure);
                }
                Err(_) => {}
            }
        }
    }

    async fn apply(
        &self,
        target: &Target,
        must_be_absent: bool,
        body: &Value,
        versions: &mut Versions,
    ) -> Result<Option<(Kind, Write)>, Box<Failure>> {
        if must_be_absent {
            self.confirm_absent(target).await?;
        }
        self.ask_fence(Verb::Update, &target.kind, &target.name)?;
        info!("{}", Effect::apply_summary(target, body));
        let mut body = body.clone();
        body["apiVersion"] = json!(target.kind.api_version());
        body["kind"] = json!(target.kind.kind);
        body["metadata"]["name"] = json!(target.name);
        if !target.uid.is_empty() {
            merge_precondition(&mut body, target, versions);
        }
        let api = self.api(&target.kind, target.namespace.as_deref());
        // Fields that a person or another program set are taken back: they are ours.
        let params = PatchParams::apply(&self.manager).force();
        match api.patch(&target.name, &params, &Patch::Apply(&body)).await {
            Err(kube::Error::Api(status)) if namespace_terminating(&status) => Ok(None),
            answer => self.updated(target, Some("apply"), answer, versions),
        }
    }

    async fn single(
        &self,
        effect: &Effect,
        versions: &mut Versions,
    ) -> Result<Option<(Kind, Write)>, Box<Failure>> {
        match effect {
            Effect::Confirm(target) => self.confirm(target).await.map(|()| None),
            Effect::Patch { target, subresource, body }
            | Effect::StrategicPatch { target, subresource, body } => {
                self.ask_fence(Verb::Update, &target.kind, &target.name)?;
                info!("{}", effect.summary());
                let mut body = body.clone();
                merge_precondition(&mut body, target, versions);
                let api = self.api(&target.kind, target.namespace.as_deref());
                let params = PatchParams { field_manager: Some(self.manager.clone()), ..Default::default() };
                let is_strategic = matches!(effect, Effect::StrategicPatch { .. });
                let patch = if is_strategic { Patch::Strategic(&body) } else { Patch::Merge(&body) };
                let answer = match subresource {
                    None => api.patch(&target.name, &params, &patch).await,
                    Some(sub) => api.patch_subresource(sub, &target.name, &params, &patch).await,
                };
                self.updated(target, *subresource, answer, versions)
            }
            Effect::Evict(target) => {
                self.ask_fence(Verb::Delete, &target.kind, &target.name)?;
                info!("{}", effect.summary());
                self.evict(target).await.map(|()| None)
            }
            Effect::Apply { target, must_be_absent, body } => {
                self.apply(target, *must_be_absent, body, versions).await
            }
            Effect::Replace { target, subresource, body } => {
                self.ask_fence(Verb::Update, &target.kind, &target.name)?;
                info!("{}", effect.summary());
                let mut body = body.clone();
                merge_precondition(&mut body, target, versions);
                let api = self.api(&target.kind, target.namespace.as_deref());
                let params = PostParams { field_manager: Some(self.manager.clone()), ..Default::default() };
                let answer = api.replace_subresource(subresource, &target.name, &params, &body).await;
                self.updated(target, Some(subresource), answer, versions)
            }
            Effect::DeleteCollection { kind, namespace } => {
                self.ask_fence(Verb::Delete, kind, "")?;
                info!("{}", effect.summary());
                let api = self.api(kind, Some(namespace));
                let params = DeleteParams::background();
                match api.delete_collection(&params, &ListParams::default()).await {
                    // 404: the kind is no longer served; 405: its objects go one by one
                    Ok(_) => Ok(None),
                    Err(kube::Error::Api(status)) if status.code == 404 || status.code == 405 => Ok(None),
                    Err(error) => Err(Failure::new(Verb::Delete, kind, "", &error)),
                }
            }
            Effect::Event(event) => {
                self.events.publish(event.clone());
                Ok(None)
            }
            Effect::Create { .. } => Ok(self.create(effect).await?.map(|(write, _)| write)),
            Effect::Delete { .. } => self.delete(effect, versions).await,
            // `execute` has done it: it is several writes
            Effect::ApplyAll(_) => Ok(None),
        }
    }

    async fn confirm(&self, target: &Target) -> Result<(), Box<Failure>> {
        let api = self.api(&target.kind, target.namespace.as_deref());
        let fail = |message: String| Failure::conflict(Verb::Confirm, &target.kind, &target.name, message);
        match api.get_metadata_opt(&target.name).await {
            Ok(Some(live)) if live.metadata.uid.as_deref() != Some(&target.uid) => {
                Err(fail(format!("{target} was replaced by another object of that name")))
            }
            Ok(Some(live)) if live.metadata.deletion_timestamp.is_some() => {
                Err(fail(format!("{target} is being deleted")))
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(fail(format!("{target} no longer exists"))),
            Err(error) => Err(Failure::new(Verb::Confirm, &target.kind, &target.name, &error)),
        }
    }

    /// Applying to an object of somebody else's would make it ours.
    async fn confirm_absent(&self, target: &Target) -> Result<(), Box<Failure>> {
        let api = self.api(&target.kind, target.namespace.as_deref());
        match api.get_metadata_opt(&target.name).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                let message = format!("{target} already exists");
                Err(Failure::conflict(Verb::Create, &target.kind, &target.name, message))
            }
            Err(error) => Err(Failure::new(Verb::Create, &target.kind, &target.name, &error)),
        }
    }

    async fn create(&self, effect: &Effect) -> Result<Option<((Kind, Write), String)>, Box<Failure>> {
        let Effect::Create { kind, namespace, body, announce } = effect else { return Ok(None) };
        let given = body["metadata"]["name"].as_str();
        let name = given.or(body["metadata"]["generateName"].as_str()).unwrap_or("");
        self.ask_fence(Verb::Create, kind, name)?;
        if given.is_none() && self.fence.is_shared() {
            let message =
                "an object without a fixed name may be made twice by two leaders: name it".to_owned();
            let (kind, name) = (kind.clone(), name.to_owned());
            return Err(Box::new(Failure { verb: Verb::Create, kind, name, message, conflict: false }));
        }
        info!("{}", effect.summary());
        let fail = |error: &kube::Error| Failure::new(Verb::Create, kind, name, error);
        let object: DynamicObject =
            serde_json::from_value(body.clone()).map_err(|e| fail(&kube::Error::SerdeError(e)))?;
        let params = PostParams { field_manager: Some(self.manager.clone()), ..Default::default() };
        match self.api(kind, namespace.as_deref()).create(&params, &object).await {
            Ok(created) => {
                let name = created.metadata.name.clone().unwrap_or_default();
                self.announce(announce.as_ref().map(|a| (a, &a.done)), false, &name, None);
                let version = created.metadata.resource_version.clone().unwrap_or_default();
                Ok(Some(((kind.clone(), applied(&created)), version)))
            }
            // Nothing can be created there any more, and what is there goes away by itself.
            Err(kube::Error::Api(status)) if namespace_terminating(&status) => Ok(None),
            Err(error) => {
                let failure = fail(&error);
                if !failure.conflict {
                    self.announce(
                        announce.as_ref().map(|a| (a, &a.failed)),
                        true,
                        name,
                        Some(&failure.message),
                    );
                }
                Err(failure)
            }
        }
    }

    async fn delete(
        &self,
        effect: &Effect,
        versions: &Versions,
    ) -> Result<Option<(Kind, Write)>, Box<Failure>> {
        let Effect::Delete { target, propagation, announce } = effect else { return Ok(None) };
        self.ask_fence(Verb::Delete, &target.kind, &target.name)?;
        info!("{}", effect.summary());
        let params = DeleteParams {
            propagation_policy: propagation.map(|propagation| match propagation {
                Propagation::Background => PropagationPolicy::Background,
                Propagation::Foreground => PropagationPolicy::Foreground,
                Propagation::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: Some(Preconditions {
                uid: Some(target.uid.clone()),
                resource_version: versions.get(&target.uid).or(target.resource_version.as_ref()).cloned(),
            }),
            ..Default::default()
        };
        let deleted = Write {
            key: Key::new(target.namespace.clone().unwrap_or_default(), &target.name),
            uid: target.uid.clone(),
            change: WriteChange::Deleted,
        };
        match self.api(&target.kind, target.namespace.as_deref()).delete(&target.name, &params).await {
            Ok(_) => {
                self.announce(announce.as_ref().map(|a| (a, &a.done)), false, &target.name, None);
                Ok(Some((target.kind.clone(), deleted)))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some((target.kind.clone(), deleted))),
            Err(error) => {
                let failure = Failure::new(Verb::Delete, &target.kind, &target.name, &error);
                if !failure.conflict {
                    let failed = announce.as_ref().map(|a| (a, &a.failed));
                    self.announce(failed, true, &target.name, Some(&failure.message));
                }
                Err(failure)
            }
        }
    }

    /// The pod goes when its node has stopped it, so there is no write for the caches to show yet.
    async fn evict(&self, target: &Target) -> Result<(), Box<Failure>> {
        let fail = |error: &kube::Error| Failure::new(Verb::Delete, &target.kind, &target.name, error);
        // Not the version: the API notes in the pod's status why it goes, and the deletion follows that.
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": target.name, "namespace": target.namespace },
            "deleteOptions": { "preconditions": { "uid": target.uid } },
        });
        let api = self.api(&target.kind, target.namespace.as_deref());
        let params = PostParams { field_manager: Some(self.manager.clone()), ..Default::default() };
        let answer = api.create_subresource::<_, Value>("eviction", &target.name, &params, &body).await;
        match answer {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(fail(&error)),
        }
    }

    fn updated(
        &self,
        target: &Target,
        subresource: Option<&str>,
        answer: kube::Result<DynamicObject>,
        versions: &mut Versions,
    ) -> Result<Option<(Kind, Write)>, Box<Failure>> {
        match answer {
            Ok(object) => {
                // A Scale is the answer for `/scale`, but its metadata is that of the object.
                let write = applied(&object);
                if let Some(version) = object.metadata.resource_version {
                    versions.insert(target.uid.clone(), version);
                }
                Ok(Some((target.kind.clone(), write)))
            }
            // Gone meanwhile. What the plan would still make belongs to it, and nobody would take that away again.
            Err(kube::Error::Api(status))
                if status.code == 404 && !matches!(subresource, Some("scale" | "apply")) =>
            {
                let message = format!("{target} no longer exists");
                Err(Failure::conflict(Verb::Update, &target.kind, &target.name, message))
            }
            Err(error) => Err(Failure::new(Verb::Update, &target.kind, &target.name, &error)),
        }
    }

    fn announce(
        &self,
        announce: Option<(&Announce, &(&'static str, Note))>,
        warning: bool,
        name: &str,
        error: Option<&str>,
    ) {
        let Some((announce, (reason, note))) = announce else { return };
        let note = match error {
            None => format!("{}{name}{}", note.before, note.after),
            Some(error) if note.after.is_empty() => format!("{}{error}", note.before),
            Some(error) => format!("{}{name}{}{error}", note.before, note.after),
        };
        self.events.publish(Event {
            regarding: announce.regarding.clone(),
            component: announce.component,
            warning,
            reason: (*reason).to_owned(),
            note,
        });
    }

    pub(crate) fn api(&self, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        api(&self.client, kind, namespace)
    }
}

/// Requests for objects of a kind known only at run time.
pub fn api(client: &Client, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) if kind.namespaced => {
            Api::namespaced_with(client.clone(), namespace, &kind.api_resource())
        }
        _ => Api::all_with(client.clone(), &kind.api_resource()),
    }
}

fn run_together(first: &Effect, next: &Effect) -> bool {
    match (first, next) {
        (Effect::Create { kind: a, .. }, Effect::Create { kind: b, .. }) => a == b,
        (Effect::Delete { .. }, Effect::Delete { .. }) => true,
        _ => false,
    }
}

fn merge_precondition(body: &mut Value, target: &Target, versions: &Versions) {
    let Value::Object(condition) = target.precondition() else { return };
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    for (field, value) in condition {
        body["metadata"][field] = value;
    }
    if let Some(version) = versions.get(&target.uid) {
        body["metadata"]["resourceVersion"] = json!(version);
    }
}

fn applied(object: &DynamicObject) -> Write {
    Write {
        key: Key::of(&object.metadata),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        change: WriteChange::Applied { version: version_number(object.metadata.resource_version.as_deref()) },
    }
}

fn namespace_terminating(status: &Status) -> bool {
    status.code == 403
        && status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

// === impl Failure ===

impl Failure {
    /// The plan was made from what is no longer so.
    fn conflict(verb: Verb, kind: &Kind, name: &str, message: impl Into<String>) -> Box<Self> {
        let (kind, name, message) = (kind.clone(), name.to_owned(), message.into());
        Box::new(Self { verb, kind, name, message, conflict: true })
    }

    fn new(verb: Verb, kind: &Kind, name: &str, error: &kube::Error) -> Box<Self> {
        let (message, conflict) = match error {
            kube::Error::Api(status) => (status.message.clone(), status.code == 409),
            other => (other.to_string(), false),
        };
        Box::new(Self { verb, kind: kind.clone(), name: name.to_owned(), message, conflict })
    }
}
