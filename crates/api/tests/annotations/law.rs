//! What holds of any annotations. The property test and the fuzz target both throw theirs at it.

use std::collections::BTreeSet;

use api::slimfaas::{Annotations, MOST_PROBLEMS, PREFIX, Problem, Settings, Visibility, names, read};

/// Each annotation decides on its own feature and on nothing else; one that is refused counts for as much as one that is
/// not there, or closes what it was to open, and the reason names it.
pub fn each_harms_only_itself(template: &Annotations, object: &Annotations) {
    let Some((settings, problems)) = read("shop", "cart", Some(template), Some(object)) else { return };
    are_few_and_short(&problems);
    let is_known =
        |name: &str| name.strip_prefix(PREFIX).is_some_and(|name| names().any(|known| known == name));
    let all: BTreeSet<&String> = template.keys().chain(object.keys()).collect();
    let unknown = all.iter().filter(|name| name.starts_with(PREFIX) && !is_known(name)).count();
    // Of too many that there are not, only their number is told.
    let is_compared = |problem: &Problem| unknown <= MOST_PROBLEMS || is_known(&problem.annotation);
    for name in all {
        let Some((mut others, mut problems_of_others)) = without(name, template, object) else { continue };
        let (own, mut rest): (Vec<Problem>, Vec<Problem>) =
            problems.iter().cloned().partition(|problem| *problem.annotation == **name);
        problems_of_others.retain(is_compared);
        rest.retain(is_compared);
        assert_eq!(rest, problems_of_others, "{name} changes what is said of others");
        assert!(own.iter().all(|problem| !problem.message.is_empty()), "{name} is refused without a reason");
        if own.is_empty() || keeps_what_is_usable(name) || fails_closed(&settings, name) {
            take(&mut others, &settings, name);
        }
        assert_eq!(settings, others, "{name} changes more than its own feature");
    }
}

/// Whatever they quote and however many items are bad.
pub fn are_few_and_short(problems: &[Problem]) {
    assert!(problems.len() <= (names().count() + 1) * (MOST_PROBLEMS + 1), "{} problems", problems.len());
    for Problem { annotation, message } in problems {
        let length = message.chars().count();
        assert!(length <= Problem::LONGEST_MESSAGE + 1, "{annotation}: a message of {length} characters");
    }
}

/// None if it alone made a function of the workload, and `Function` cannot be read.
fn without(name: &str, template: &Annotations, object: &Annotations) -> Option<(Settings, Vec<Problem>)> {
    let (mut template, mut object) = (template.clone(), object.clone());
    template.remove(name);
    object.remove(name);
    let function = format!("{PREFIX}Function");
    if !object.contains_key(&function) {
        template.entry(function).or_insert_with(|| "true".into());
    }
    read("shop", "cart", Some(&template), Some(&object))
}

/// The good items of a list stay, and so does a trigger that cannot be read: it keeps the function from shrinking.
fn keeps_what_is_usable(name: &str) -> bool {
    matches!(name.strip_prefix(PREFIX), Some("Scale" | "SubscribeEvents" | "PathsStartWithVisibility"))
}

/// Whether it is about who may call whom, where nothing readable means nobody.
fn fails_closed(settings: &Settings, name: &str) -> bool {
    match name.strip_prefix(PREFIX) {
        Some("DefaultTrust" | "DefaultTrusted") => !settings.trusted,
        Some("DefaultVisibility") => settings.visibility == Visibility::Private,
        _ => false,
    }
}

/// Takes over the feature that an annotation decides on.
fn take(into: &mut Settings, from: &Settings, name: &str) {
    let from = from.clone();
    match name.strip_prefix(PREFIX).unwrap_or_default() {
        "ReplicasMin" => into.scaling.min = from.scaling.min,
        "ReplicasAtStart" => into.scaling.at_start = from.scaling.at_start,
        "TimeoutSecondBeforeSetReplicasMin" => into.scaling.timeout_seconds = from.scaling.timeout_seconds,
        "Schedule" => into.scaling.schedule = from.scaling.schedule,
        "Scale" => {
            into.scaling.scale = from.scaling.scale;
            into.scrape_interval = from.scrape_interval;
        }
        "DependsOn" => into.depends_on = from.depends_on,
        "ReplicasStartAsSoonAsOneFunctionRetrieveARequest" => into.starts_with_any = from.starts_with_any,
        "NumberParallelRequest" => into.parallel = from.parallel,
        "NumberParallelRequestPerPod" => into.parallel_per_pod = from.parallel_per_pod,
        "Configuration" => {
            into.sync_timeout = from.sync_timeout;
            into.asynchronous = from.asynchronous;
            into.publish = from.publish;
        }
        "SubscribeEvents" => into.subscriptions = from.subscriptions,
        // An event without a word of its own has this visibility.
        "DefaultVisibility" => {
            into.visibility = from.visibility;
            into.subscriptions = from.subscriptions;
        }
        "PathsStartWithVisibility" => into.path_visibility = from.path_visibility,
        "DefaultTrust" | "DefaultTrusted" => into.trusted = from.trusted,
        _ => {}
    }
}
