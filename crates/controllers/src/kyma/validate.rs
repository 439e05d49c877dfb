//! What an API server's schema cannot say about a Function, and what it says only where the CRD is ours.

use api::kyma::{Function, GROUP, GitRepository, RESERVED_ENV, Spec, resources};
use engine::object::name;

use super::runtimes::{self, Runtime};

/// A Function that cannot be run as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub field: String,
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

type Checked = Result<(), Problem>;

fn problem<T>(field: impl Into<String>, message: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { field: field.into(), message: message.into() })
}

/// The runtime to use, or the first thing that is wrong.
pub(super) fn validate(function: &Function) -> Result<&'static Runtime, Problem> {
    let spec = &function.spec;
    if !is_dns_label(name(&function.metadata)) {
        return problem(
            "metadata.name",
            "must be at most 63 lower-case letters, digits and dashes: the Service has the same name",
        );
    }
    let Some(runtime) = runtimes::find(&spec.runtime) else {
        return problem("spec.runtime", format!("there is no runtime {:?}", spec.runtime));
    };
    source(spec, runtime)?;
    env(spec)?;
    resources(spec)?;
    scaling(function)?;
    mounts(spec)?;
    metadata("spec.labels", &spec.labels, true)?;
    metadata("spec.annotations", &spec.annotations, false)?;
    Ok(runtime)
}

fn source(spec: &Spec, runtime: &Runtime) -> Checked {
    match (&spec.source.inline, &spec.source.git_repository) {
        (Some(_), Some(_)) | (None, None) => {
            problem("spec.source", "give exactly one of inline and gitRepository")
        }
        (Some(inline), None) => {
            if inline.source.trim().is_empty() {
                return problem("spec.source.inline.source", "must not be empty");
            }
            let dependencies = inline.dependencies.as_deref().unwrap_or_default().trim();
            if runtime.language.dependencies_are_json && !dependencies.is_empty() {
                let parsed = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(dependencies);
                if let Err(error) = parsed {
                    let message = format!("must be the JSON object of a package.json: {error}");
                    return problem("spec.source.inline.dependencies", message);
                }
            }
            Ok(())
        }
        (None, Some(git)) => repository(git),
    }
}

fn repository(git: &GitRepository) -> Checked {
    let field = |name: &str| format!("spec.source.gitRepository.{name}");
    if !is_git_url(&git.url) {
        return problem(field("url"), "must be an http, https, git or ssh URL, or user@host:path");
    }
    if git.reference.trim().is_empty() || git.reference.starts_with('-') {
        return problem(field("reference"), "must name a branch, a tag or a commit");
    }
    let base = git.base_dir.as_deref().unwrap_or_default();
    if base.split('/').any(|part| part == "..") {
        return problem(field("baseDir"), "must not lead out of the repository");
    }
    match &git.auth {
        Some(auth) if auth.secret_name.trim().is_empty() => {
            problem(field("auth.secretName"), "must name a Secret")
        }
        _ => Ok(()),
    }
}

fn is_git_url(url: &str) -> bool {
    let has_host = |rest: &str| !rest.is_empty() && !rest.starts_with(['/', '-']);
    if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return false;
    }
    match url.split_once("://") {
        Some((scheme, rest)) => ["http", "https", "git", "ssh"].contains(&scheme) && has_host(rest),
        None => url
            .split_once('@')
            .and_then(|(user, rest)| rest.split_once(':').map(|(host, path)| (user, host, path)))
            .is_some_and(|(user, host, path)| {
                !user.is_empty() && !user.starts_with('-') && has_host(host) && !path.is_empty()
            }),
    }
}

fn env(spec: &Spec) -> Checked {
    for (index, variable) in spec.env.iter().enumerate() {
        let field = format!("spec.env[{index}].name");
        let name = &variable.name;
        let is_syntax = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_syntax) {
            let message =
                format!("{name:?} must be letters, digits, '_', '-' and '.', not beginning with a digit");
            return problem(field, message);
        }
        if RESERVED_ENV.contains(&name.as_str()) {
            return problem(field, format!("{name} is reserved for the runtime"));
        }
    }
    Ok(())
}

fn resources(spec: &Spec) -> Checked {
    let Some(wanted) = spec.resource_configuration.as_ref().and_then(|all| all.function.as_ref()) else {
        return Ok(());
    };
    let field = "spec.resourceConfiguration.function";
    if wanted.profile.is_some() && wanted.resources.is_some() {
        return problem(field, "give profile or resources, not both");
    }
    if let Some(profile) = wanted.profile.as_deref().filter(|profile| !resources::is_profile(profile)) {
        return problem(format!("{field}.profile"), format!("there is no profile {profile:?}"));
    }
    match wanted.resources.as_ref().map(resources::check) {
        Some(Err((below, message))) => problem(format!("{field}.resources.{below}"), message),
        _ => Ok(()),
    }
}

fn scaling(function: &Function) -> Checked {
    if function.spec.replicas() < 0 {
        return problem("spec.replicas", "must not be negative");
    }
    let Some(scale) = &function.spec.scale_config else { return Ok(()) };
    if scale.min_replicas < 1 {
        return problem("spec.scaleConfig.minReplicas", "must be at least 1");
    }
    if scale.min_replicas > scale.max_replicas {
        return problem("spec.scaleConfig", "minReplicas must not be above maxReplicas");
    }
    let demand = function.metadata.annotations.iter().flatten().find(|(key, _)| key.starts_with("SlimFaas/"));
    match demand {
        // two scalers that would undo each other's work
        Some((key, _)) => problem(
            "spec.scaleConfig",
            format!("cannot be used together with the annotation {key}: remove one of the two"),
        ),
        None => Ok(()),
    }
}

fn mounts(spec: &Spec) -> Checked {
    for (index, mount) in spec.secret_mounts.iter().enumerate() {
        let field = |name: &str| format!("spec.secretMounts[{index}].{name}");
        if mount.secret_name.is_empty()
            || mount.secret_name.len() > 253
            || !mount.secret_name.split('.').all(is_dns_label)
        {
            return problem(
                field("secretName"),
                format!("{:?} is not the name of a Secret", mount.secret_name),
            );
        }
        if spec.secret_mounts[..index].iter().any(|earlier| earlier.secret_name == mount.secret_name) {
            return problem(field("secretName"), format!("{} is mounted twice", mount.secret_name));
        }
        if mount.mount_path.is_empty() || mount.mount_path.contains(':') {
            return problem(field("mountPath"), "must be a path without ':'");
        }
        if spec.secret_mounts[..index].iter().any(|earlier| earlier.mount_path == mount.mount_path) {
            return problem(field("mountPath"), format!("{} is used twice", mount.mount_path));
        }
    }
    Ok(())
}

fn metadata(field: &str, entries: &std::collections::BTreeMap<String, String>, are_labels: bool) -> Checked {
    for (key, value) in entries {
        let field = format!("{field}[{key}]");
        if key.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/')) {
            return problem(field, format!("keys that begin with {GROUP}/ are reserved"));
        }
        if !is_qualified_name(key) {
            return problem(
                field,
                "the key must be a name of at most 63 letters, digits, '-', '_' and '.', \
                                   with an optional DNS prefix and '/'",
            );
        }
        if !are_labels && key == "proxy.istio.io/config" {
            return problem(field, "this annotation is not allowed");
        }
        if are_labels && !value.is_empty() && !is_label_word(value) {
            return problem(
                field,
                "the value must be at most 63 letters, digits, '-', '_' and '.', \
                                   beginning and ending with a letter or digit",
            );
        }
    }
    Ok(())
}

fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => {
            !prefix.is_empty()
                && prefix.len() <= 253
                && prefix.split('.').all(is_dns_label)
                && is_label_word(name)
        }
        None => is_label_word(key),
    }
}

fn is_label_word(word: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&word.len())
        && word.starts_with(edge)
        && word.ends_with(edge)
        && word.chars().all(|c| edge(c) || "-_.".contains(c))
}

fn is_dns_label(word: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&word.len())
        && word.starts_with(edge)
        && word.ends_with(edge)
        && word.chars().all(|c| edge(c) || c == '-')
}
