//! A container's environment, and `$(NAME)` in its command.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};

use crate::{
    downward::{self, Facts},
    objects::{self, Key, Kind, Snapshot},
};

/// Names from the node's own environment that every container gets: without an image, programs are found and run as
/// they are on the host. Nothing else is passed on, so that the node's credentials do not leak into pods.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ"];

pub type Vars = BTreeMap<String, String>;

/// What the host gives every container.
pub fn inherited(host: &Vars) -> Vars {
    let is_inherited = |(name, _): &(&String, &String)| INHERITED.contains(&name.as_str());
    host.iter().filter(is_inherited).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The variables a container starts with; later ones win: the host's, the node's, `envFrom`, `env`.
///
/// # Errors
/// Says what the manifest refers to that is not there.
pub fn build(
    host: &Vars,
    pod: &Pod,
    container: &Container,
    facts: &Facts,
    api_server: Option<&(String, u16)>,
    objects: &Snapshot,
) -> Result<Vars, String> {
    let mut vars = host.clone();
    vars.insert("HOSTNAME".to_owned(), pod.metadata.name.clone().unwrap_or_default());
    vars.insert("BALLAST_POD_IP".to_owned(), facts.pod_ip.to_string());
    if let Some((host, port)) = api_server {
        vars.insert("KUBERNETES_SERVICE_HOST".to_owned(), host.clone());
        vars.insert("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string());
        vars.insert("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), port.to_string());
    }
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let key = |kind, name: &str| Key { kind, namespace: namespace.clone(), name: name.to_owned() };

    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let sources = [
            from.config_map_ref.as_ref().map(|r| (key(Kind::ConfigMap, &r.name), r.optional)),
            from.secret_ref.as_ref().map(|r| (key(Kind::Secret, &r.name), r.optional)),
        ];
        for (key, optional) in sources.into_iter().flatten() {
            let Some(data) = objects::find(objects, &key, optional == Some(true))? else { continue };
            for (name, value) in &data.0 {
                let name = format!("{prefix}{name}");
                // An entry that cannot be a variable is left out, as a kubelet does.
                if let (true, Ok(value)) = (is_name(&name), String::from_utf8(value.clone())) {
                    vars.insert(name, value);
                }
            }
        }
    }
    for var in container.env.iter().flatten() {
        if let Some(value) = value(var, pod, container, facts, objects, &vars, &key)? {
            vars.insert(var.name.clone(), value);
        }
    }
    Ok(vars)
}

fn value(
    var: &EnvVar,
    pod: &Pod,
    container: &Container,
    facts: &Facts,
    objects: &Snapshot,
    so_far: &Vars,
    key: &dyn Fn(Kind, &str) -> Key,
) -> Result<Option<String>, String> {
    let Some(from) = &var.value_from else {
        return Ok(Some(expand(var.value.as_deref().unwrap_or_default(), so_far)));
    };
    let (key, entry, optional) = if let Some(selector) = &from.field_ref {
        return downward::field(pod, facts, selector).map(Some);
    } else if let Some(selector) = &from.resource_field_ref {
        return downward::resource(pod, Some(container), facts, selector).map(Some);
    } else if let Some(selector) = &from.config_map_key_ref {
        (key(Kind::ConfigMap, &selector.name), &selector.key, selector.optional == Some(true))
    } else if let Some(selector) = &from.secret_key_ref {
        (key(Kind::Secret, &selector.name), &selector.key, selector.optional == Some(true))
    } else {
        return Err(format!(
            "env {} takes its value from a source that the process node does not know; it knows fieldRef, \
             resourceFieldRef, configMapKeyRef and secretKeyRef",
            var.name
        ));
    };
    let Some(data) = objects::find(objects, &key, optional)? else { return Ok(None) };
    match data.0.get(entry) {
        Some(bytes) => String::from_utf8(bytes.clone())
            .map(Some)
            .map_err(|_| format!("key {entry} in {} {} is not text", kind_name(key.kind), key.name)),
        None if optional => Ok(None),
        None => Err(format!(
            "couldn't find key {entry} in {} {}/{}",
            kind_name(key.kind),
            key.namespace,
            key.name
        )),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::ConfigMap => "ConfigMap",
        Kind::Secret => "Secret",
        Kind::Claim => "PersistentVolumeClaim",
    }
}

/// What a process can be given: any name without `=` and NUL.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Replaces `$(NAME)` by its value; an unknown name stays as written, and `$$(NAME)` gives `$(NAME)`.
pub fn expand(text: &str, vars: &Vars) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match vars.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

/// `command` followed by `args`, expanded; `None` when the container has no command of its own.
pub fn argv(container: &Container, vars: &Vars) -> Option<Vec<String>> {
    let command = container.command.as_ref().filter(|c| !c.is_empty())?;
    Some(command.iter().chain(container.args.iter().flatten()).map(|word| expand(word, vars)).collect())
}

#[cfg(test)]
mod tests;
