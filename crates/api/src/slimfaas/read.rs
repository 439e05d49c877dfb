//! From annotations to [`Settings`]. What cannot be used turns off its own feature and leaves a [`Problem`].

use std::{collections::BTreeMap, fmt, time::Duration};

use decide::demand::Scale;

use super::{Problem, Settings, Visibility, triggers::substituted, values};

pub type Annotations = BTreeMap<String, String>;

pub const PREFIX: &str = "SlimFaas/";

/// Each of these makes a workload a function, even without `SlimFaas/Function`.
const NAMED_BY_THE_GUIDE: [&str; 6] =
    ["ReplicasMin", "ReplicasAtStart", "TimeoutSecondBeforeSetReplicasMin", "DependsOn", "Schedule", "Scale"];

/// So many problems of one annotation are told, and so many annotations that there are not: a list may have tens of
/// thousands of bad items, and each would be an Event, a line in the log and a row of the status.
pub const MOST_PROBLEMS: usize = 10;

/// Known, but not offered here.
const OF_JOBS: [&str; 4] = ["Job", "JobImagesWhitelist", "NumberParallelJob", "Schedules"];

/// The settings of a workload that is a function; none for any other. Of an annotation that stands on the pod template
/// and on the object, the template's counts.
pub fn read(
    namespace: &str,
    app: &str,
    template: Option<&Annotations>,
    object: Option<&Annotations>,
) -> Option<(Settings, Vec<Problem>)> {
    let mut given = Given { template, object, problems: Vec::new(), untold: BTreeMap::new() };
    let declared = given.flag("Function");
    let is_named = NAMED_BY_THE_GUIDE.iter().any(|name| given.get(name).is_some());
    if declared == Some(false) || (declared.is_none() && !is_named) {
        return None;
    }
    let mut settings = Settings::default();
    let scaling = &mut settings.scaling;
    given.set("ReplicasMin", &mut scaling.min, values::replicas);
    given.set("ReplicasAtStart", &mut scaling.at_start, values::replicas);
    given.set("TimeoutSecondBeforeSetReplicasMin", &mut scaling.timeout_seconds, values::seconds);
    given.set("Schedule", &mut scaling.schedule, values::schedule);
    let scale = given.parse("Scale", values::scale);
    if let Some((mut scale, interval)) = scale {
        given.prepare(&mut scale, namespace, app);
        settings.scaling.scale = Some(scale);
        settings.scrape_interval = interval;
    }
    given.set("DependsOn", &mut settings.depends_on, values::names);
    settings.starts_with_any =
        given.flag("ReplicasStartAsSoonAsOneFunctionRetrieveARequest").unwrap_or_default();
    given.set("NumberParallelRequest", &mut settings.parallel, values::parallel);
    given.set("NumberParallelRequestPerPod", &mut settings.parallel_per_pod, values::parallel);
    if let Some(configuration) = given.parse("Configuration", values::configuration) {
        settings.sync_timeout = configuration.sync_timeout;
        settings.asynchronous = configuration.asynchronous;
        settings.publish = configuration.publish;
    }
    // What was to be private must not be public because of a slip of the pen, and nobody is trusted by one.
    given.set_or(
        "DefaultVisibility",
        &mut settings.visibility,
        values::visibility,
        Visibility::Private,
        "Private",
    );
    let default = settings.visibility;
    settings.subscriptions = given.items("SubscribeEvents", |item| values::subscription(item, default));
    settings.path_visibility = given.paths("PathsStartWithVisibility");
    // The documentation of SlimFaas spells it the second way.
    let trust = ["DefaultTrusted", "DefaultTrust"].map(|name| {
        let mut trusted = None;
        given.set_or(name, &mut trusted, |text| values::trust(text).map(Some), Some(false), "Untrusted");
        trusted
    });
    settings.trusted = trust.into_iter().flatten().all(|trusted| trusted);
    given.report_unknown();
    Some((settings, given.into_problems()))
}

/// Why a workload that [`read`] does not take for a function may be meant as one: `SlimFaas/Function` says neither yes
/// nor no.
pub fn refused(template: Option<&Annotations>, object: Option<&Annotations>) -> Option<Problem> {
    let mut given = Given { template, object, problems: Vec::new(), untold: BTreeMap::new() };
    given.flag("Function");
    given.problems.pop()
}

struct Given<'a> {
    template: Option<&'a Annotations>,
    object: Option<&'a Annotations>,
    problems: Vec<Problem>,
    /// By annotation, how many more there are.
    untold: BTreeMap<String, usize>,
}

impl<'a> Given<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        let name = format!("{PREFIX}{name}");
        let on = |annotations: Option<&'a Annotations>| annotations?.get(&name).map(|value| value.trim());
        on(self.template).or_else(|| on(self.object))
    }

    fn problem(&mut self, name: &str, message: impl fmt::Display) {
        let annotation = format!("{PREFIX}{name}");
        let told = self.problems.iter().filter(|problem| *problem.annotation == *annotation).count();
        if told < MOST_PROBLEMS {
            self.problems.push(Problem::new(annotation, message));
        } else {
            *self.untold.entry(annotation).or_default() += 1;
        }
    }

    fn into_problems(mut self) -> Vec<Problem> {
        let more =
            |(annotation, n)| Problem::new(annotation, format_args!("and {n} more problems like these"));
        self.problems.extend(self.untold.into_iter().map(more));
        self.problems
    }

    fn parse<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match parse(self.get(name)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.problem(name, message);
                None
            }
        }
    }

    /// Leaves the default where there is nothing usable.
    fn set<T>(&mut self, name: &str, field: &mut T, parse: impl Fn(&str) -> Result<T, String>) {
        if let Some(value) = self.parse(name, parse) {
            *field = value;
        }
    }

    /// `otherwise`, which is called `word`, where what is given cannot be read.
    fn set_or<T>(
        &mut self,
        name: &str,
        field: &mut T,
        parse: impl Fn(&str) -> Result<T, String>,
        otherwise: T,
        word: &str,
    ) {
        match self.get(name).map(parse) {
            None => {}
            Some(Ok(value)) => *field = value,
            Some(Err(message)) => {
                self.problem(name, format_args!("{message}: it counts as {word}"));
                *field = otherwise;
            }
        }
    }

    /// Paths and their visibility. An item that cannot be read makes private what it may be about: the path in it, or all.
    fn paths(&mut self, name: &str) -> Vec<(String, Visibility)> {
        let items: Vec<&str> = self.get(name).map(|text| values::items(text).collect()).unwrap_or_default();
        let mut paths = Vec::with_capacity(items.len());
        for item in items {
            match values::path(item) {
                Ok(path) => paths.push(path),
                Err(message) => {
                    let path = item.find('/').map_or("/", |at| &item[at..]);
                    self.problem(
                        name,
                        format_args!("{message}: {} counts as Private", decide::input::shown(path)),
                    );
                    paths.push((path.to_owned(), Visibility::Private));
                }
            }
        }
        paths
    }

    fn flag(&mut self, name: &str) -> Option<bool> {
        self.parse(name, values::flag)
    }

    /// A list separated by commas; one bad item leaves the others.
    fn items<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let items: Vec<&str> = self.get(name).map(|text| values::items(text).collect()).unwrap_or_default();
        let mut parsed = Vec::with_capacity(items.len());
        for item in items {
            match parse(item) {
                Ok(value) => parsed.push(value),
                Err(message) => self.problem(name, message),
            }
        }
        parsed
    }

    /// Fills in `${namespace}` and `${app}`, and tells of triggers that cannot work. Those stay: a trigger that cannot
    /// be read must keep the function from shrinking, not vanish.
    fn prepare(&mut self, scale: &mut Scale, namespace: &str, app: &str) {
        for (idx, trigger) in scale.triggers.iter_mut().enumerate() {
            trigger.query = substituted(&trigger.query, namespace, app);
            if !(trigger.threshold.is_finite() && trigger.threshold > 0.0) {
                let found = trigger.threshold;
                self.problem(
                    "Scale",
                    format_args!("Triggers[{idx}].Threshold: expected a number above 0, found {found}"),
                );
            }
            if trigger.query.trim().is_empty() {
                self.problem("Scale", format_args!("Triggers[{idx}].Query: expected a query, found nothing"));
            } else if let Err(error) = promql::parse(&trigger.query) {
                self.problem("Scale", format_args!("Triggers[{idx}].Query: {error}"));
            }
        }
    }

    /// Nothing is ignored in silence: a misspelt name would look like a feature that does not work.
    fn report_unknown(&mut self) {
        let mut found = Vec::new();
        for annotations in [self.template, self.object].into_iter().flatten() {
            let from_prefix = annotations.range(PREFIX.to_owned()..);
            found.extend(from_prefix.map_while(|(name, _)| name.strip_prefix(PREFIX)));
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|name| !names().any(|known| known == *name));
        let untold = found.split_off(found.len().min(MOST_PROBLEMS)).len();
        if untold > 0 {
            self.problem("", format_args!("there are {untold} more annotations that do nothing"));
        }
        for name in found {
            let message = match OF_JOBS.contains(&name) {
                true => "jobs are not offered: this annotation does nothing",
                false => "there is no such annotation: look for a typing error",
            };
            self.problem(name, message);
        }
    }
}

/// Every annotation that is read, without its prefix.
pub fn names() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 10] = [
        "Function",
        "ReplicasStartAsSoonAsOneFunctionRetrieveARequest",
        "NumberParallelRequest",
        "NumberParallelRequestPerPod",
        "Configuration",
        "SubscribeEvents",
        "DefaultVisibility",
        "PathsStartWithVisibility",
        "DefaultTrust",
        "DefaultTrusted",
    ];
    NAMED_BY_THE_GUIDE.into_iter().chain(OTHERS)
}

/// What `Configuration` says.
pub(super) struct Configuration {
    pub sync_timeout: Duration,
    pub asynchronous: super::Attempts,
    pub publish: super::Attempts,
}
