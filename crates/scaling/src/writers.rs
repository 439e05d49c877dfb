//! Who else writes a count, and what is done about it. Pure: from what the API notes about the writers of a field, and
//! the autoscalers that name the same object, to a verdict.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

use crate::memory::Counts;

pub const ON_CONFLICT: &str = "ballast.dev/on-conflict";
const LEFT_ALONE: &str = "left alone, as ballast.dev/on-conflict says";

/// What people want to happen when somebody else writes the count too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Write nothing as long as somebody else does.
    Yield,
    /// Write whatever is decided.
    Override,
}

/// Who writes the count of one object beside the policy that decides about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writers {
    /// Whose the value of `spec.replicas` is, as `metadata.managedFields` has it. Several have written the same. Nothing where
    /// nobody looks at that.
    pub of_value: Option<Vec<Write>>,
    /// What else is there to scale it.
    pub autoscaler: Option<Autoscaler>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub manager: String,
    pub at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Autoscaler {
    /// It leaves a count of zero alone.
    Hpa(String),
    /// It scales to zero and from zero itself.
    Keda(String),
}

/// What is known of one decision about the object.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The field manager of the policy.
    pub manager: &'a str,
    /// Whether the value has ever been seen to be the policy's: before, whoever made the object wrote it.
    pub has_written: bool,
    pub counts: Counts,
    pub current: i32,
    pub desired: i32,
    pub asked: Option<OnConflict>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why nothing is written.
    pub holds: Option<String>,
    /// Who writes it too and what to do, for people.
    pub conflict: Option<String>,
}

/// What kind of writer a field manager is.
enum Who {
    Argo,
    Flux,
    Helm,
    Person,
    Program,
}

impl Writers {
    /// Of an object as the engine's caches keep it: with the managers of its count and of nothing else.
    pub fn of(meta: &ObjectMeta, autoscaler: Option<Autoscaler>) -> Self {
        let write = |entry: &ManagedFieldsEntry| {
            let at = entry.time.as_ref().map(|time| time.0);
            Some(Write { manager: entry.manager.clone()?, at })
        };
        Self { of_value: Some(meta.managed_fields.iter().flatten().filter_map(write).collect()), autoscaler }
    }

    pub fn has(&self, manager: &str) -> bool {
        self.of_value.iter().flatten().any(|write| write.manager == manager)
    }

    fn others<'a>(&'a self, manager: &'a str) -> impl Iterator<Item = &'a Write> {
        self.of_value.iter().flatten().filter(move |write| write.manager != manager)
    }
}

/// Autoscalers are left alone unless people want otherwise; a write by anybody else is told, and decided about anew.
pub fn judge(writers: &Writers, wish: Wish<'_>) -> Verdict {
    let is_asked_to_yield = wish.asked == Some(OnConflict::Yield);
    if let Some(autoscaler) = &writers.autoscaler {
        let is_at_zero = wish.current == 0 || wish.desired == 0;
        let is_left = match (wish.asked, autoscaler) {
            (Some(OnConflict::Override), _) => false,
            (Some(OnConflict::Yield), _) | (None, Autoscaler::Keda(_)) => true,
            (None, Autoscaler::Hpa(_)) => !is_at_zero,
        };
        let remove = format!("remove one of the two, or set {ON_CONFLICT} to yield or override");
        return Verdict {
            holds: is_left.then(|| format!("left to {autoscaler}")),
            conflict: Some(format!("{autoscaler} scales it too: {remove}")),
        };
    }
    let last = writers.others(wish.manager).max_by_key(|write| write.at);
    let Some(last) = last else { return judge_unnamed(writers, wish) };
    let who = Who::of(&last.manager);
    let is_ours = writers.has(wish.manager);
    // Whoever made the object wrote a count that was to be changed. A person who writes what is there already agrees;
    // a tool that does will write it again when it is not there any more.
    if (is_ours && matches!(who, Who::Person | Who::Program)) || !wish.has_written {
        return Verdict::default();
    }
    let at = last.at.map_or(String::new(), |at| format!(" at {at}"));
    let is_left = !is_ours && is_asked_to_yield;
    let remedy = if is_left { LEFT_ALONE } else { who.remedy() };
    let conflict = match is_ours {
        true => format!("{} writes replicas too: {remedy}", last.manager),
        false => format!("{} wrote replicas{at}: {remedy}", last.manager),
    };
    let holds = is_left.then(|| format!("left to {}, as {ON_CONFLICT} says", last.manager));
    Verdict { holds, conflict: Some(conflict) }
}

/// The API notes nobody as the writer of a zero through the scale, nor of what follows it.
fn judge_unnamed(writers: &Writers, wish: Wish<'_>) -> Verdict {
    let Counts { written, right } = wish.counts;
    let is_known = right.is_none() || [written, right].contains(&Some(wish.current));
    // Who writes what is decided anyway agrees.
    if is_known || wish.current == wish.desired || writers.of_value.as_ref().is_none_or(|all| !all.is_empty())
    {
        return Verdict::default();
    }
    let is_left = wish.asked == Some(OnConflict::Yield);
    let remedy = if is_left { LEFT_ALONE } else { Who::Person.remedy() };
    Verdict {
        holds: is_left.then(|| format!("left to whoever wrote it, as {ON_CONFLICT} says")),
        conflict: Some(format!("somebody whom the API does not name wrote replicas: {remedy}")),
    }
}

impl Who {
    /// By the names that the tools give themselves.
    fn of(manager: &str) -> Self {
        match manager {
            name if name.starts_with("argocd") => Self::Argo,
            "kustomize-controller" | "helm-controller" | "flux" => Self::Flux,
            "helm" => Self::Helm,
            name if ["kubectl", "k9s", "Lens", "OpenLens", "dashboard"]
                .iter()
                .any(|one| name.starts_with(one)) =>
            {
                Self::Person
            }
            _ => Self::Program,
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::Argo => {
                "remove spec.replicas from its manifest, or let it ignore /spec/replicas (ignoreDifferences)"
            }
            Self::Flux => "remove spec.replicas from its manifest",
            Self::Helm => "remove spec.replicas from the chart's Deployment",
            Self::Person => {
                "it is decided about anew; to keep it, set ballast.dev/on-conflict to yield, or ballast.dev/paused to true"
            }
            Self::Program => {
                "let one of the two write it, or set ballast.dev/on-conflict to yield or override"
            }
        }
    }
}

impl fmt::Display for Autoscaler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hpa(name) => write!(f, "HorizontalPodAutoscaler {name}"),
            Self::Keda(name) => write!(f, "ScaledObject {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const OWN: &str = "ballast-demand";

    /// `managers [hpa=NAME] [keda=NAME] [yield|override] [new] CURRENT>DESIRED`; the last manager wrote last.
    fn shown(row: &str) -> String {
        let mut writers = Writers { of_value: Some(Vec::new()), autoscaler: None };
        let mut wish = Wish {
            manager: OWN,
            has_written: true,
            counts: Counts::default(),
            current: 1,
            desired: 3,
            asked: None,
        };
        for (idx, word) in row.split_whitespace().enumerate() {
            match word {
                "yield" => wish.asked = Some(OnConflict::Yield),
                "override" => wish.asked = Some(OnConflict::Override),
                "new" => wish.has_written = false,
                "rested" => wish.counts = Counts { written: Some(0), right: Some(0) },
                "woken" => wish.counts = Counts { written: Some(1), right: Some(0) },
                _ => {
                    if let Some(name) = word.strip_prefix("hpa=") {
                        writers.autoscaler = Some(Autoscaler::Hpa(name.into()));
                    } else if let Some(name) = word.strip_prefix("keda=") {
                        writers.autoscaler = Some(Autoscaler::Keda(name.into()));
                    } else if let Some((current, desired)) = word.split_once('>') {
                        (wish.current, wish.desired) = (current.parse().unwrap(), desired.parse().unwrap());
                    } else {
                        let at = Some(Timestamp::from_second(i64::try_from(idx).unwrap()).unwrap());
                        let manager = if word == "ours" { OWN } else { word };
                        writers.of_value.get_or_insert_default().push(Write { manager: manager.into(), at });
                    }
                }
            }
        }
        let Verdict { holds, conflict } = judge(&writers, wish);
        let holds = holds.map_or("writes".to_owned(), |why| format!("holds: {why}"));
        format!("{row}\n  {holds}\n  {}\n", conflict.as_deref().unwrap_or("-"))
    }

    #[test]
    fn writers_are_named_and_autoscalers_are_left_alone() {
        let rows = [
            "ours",
            "kubectl-client-side-apply new",
            "kubectl-client-side-apply new yield",
            "kubectl-scale",
            "kubectl-scale yield",
            "kubectl-scale override",
            "ours kubectl-client-side-apply",
            "argocd-controller",
            "ours argocd-controller",
            "ours argocd-controller yield",
            "kustomize-controller kubectl-edit",
            "helm",
            "shop-operator",
            "ours hpa=web",
            "ours hpa=web 0>1",
            "ours hpa=web 2>0",
            "ours hpa=web 0>1 yield",
            "ours hpa=web override",
            "keda-operator keda=web 0>1",
            "keda-operator keda=web override",
            "rested 0>1",
            "rested 5>0",
            "rested 5>0 yield",
            "woken 0>1",
            "woken 1>1",
        ];
        expect![[r#"
            ours
              writes
              -
            kubectl-client-side-apply new
              writes
              -
            kubectl-client-side-apply new yield
              writes
              -
            kubectl-scale
              writes
              kubectl-scale wrote replicas at 1970-01-01T00:00:00Z: it is decided about anew; to keep it, set ballast.dev/on-conflict to yield, or ballast.dev/paused to true
            kubectl-scale yield
              holds: left to kubectl-scale, as ballast.dev/on-conflict says
              kubectl-scale wrote replicas at 1970-01-01T00:00:00Z: left alone, as ballast.dev/on-conflict says
            kubectl-scale override
              writes
              kubectl-scale wrote replicas at 1970-01-01T00:00:00Z: it is decided about anew; to keep it, set ballast.dev/on-conflict to yield, or ballast.dev/paused to true
            ours kubectl-client-side-apply
              writes
              -
            argocd-controller
              writes
              argocd-controller wrote replicas at 1970-01-01T00:00:00Z: remove spec.replicas from its manifest, or let it ignore /spec/replicas (ignoreDifferences)
            ours argocd-controller
              writes
              argocd-controller writes replicas too: remove spec.replicas from its manifest, or let it ignore /spec/replicas (ignoreDifferences)
            ours argocd-controller yield
              writes
              argocd-controller writes replicas too: remove spec.replicas from its manifest, or let it ignore /spec/replicas (ignoreDifferences)
            kustomize-controller kubectl-edit
              writes
              kubectl-edit wrote replicas at 1970-01-01T00:00:01Z: it is decided about anew; to keep it, set ballast.dev/on-conflict to yield, or ballast.dev/paused to true
            helm
              writes
              helm wrote replicas at 1970-01-01T00:00:00Z: remove spec.replicas from the chart's Deployment
            shop-operator
              writes
              shop-operator wrote replicas at 1970-01-01T00:00:00Z: let one of the two write it, or set ballast.dev/on-conflict to yield or override
            ours hpa=web
              holds: left to HorizontalPodAutoscaler web
              HorizontalPodAutoscaler web scales it too: remove one of the two, or set ballast.dev/on-conflict to yield or override
            ours hpa=web 0>1
              writes
              HorizontalPodAutoscaler web scales it too: remove one of the two, or set ballast.dev/on-conflict to yield or override
            ours hpa=web 2>0
              writes
              HorizontalPodAutoscaler web scales it too: remove one of the two, or set ballast.dev/on-conflict to yield or override
            ours hpa=web 0>1 yield
              holds: left to HorizontalPodAutoscaler web
              HorizontalPodAutoscaler web scales it too: remove one of the two, or set ballast.dev/on-conflict to yield or override
            ours hpa=web override
              writes
              HorizontalPodAutoscaler web scales it too: remove one of the two, or set ballast.dev/on-conflict to yield or override
            keda-operator keda=web 0>1
              holds: left to ScaledObject web
              ScaledObject web scales it too: remove one of the two, or set ballast.dev/on-conflict to yield or override
            keda-operator keda=web override
              writes
              ScaledObject web scales it too: remove one of the two, or set ballast.dev/on-conflict to yield or override
            rested 0>1
              writes
              -
            rested 5>0
              writes
              somebody whom the API does not name wrote replicas: it is decided about anew; to keep it, set ballast.dev/on-conflict to yield, or ballast.dev/paused to true
            rested 5>0 yield
              holds: left to whoever wrote it, as ballast.dev/on-conflict says
              somebody whom the API does not name wrote replicas: left alone, as ballast.dev/on-conflict says
            woken 0>1
              writes
              -
            woken 1>1
              writes
              -
        "#]].assert_eq(&rows.map(shown).concat());
    }
}
