//! What is in a volume that comes from the API: values in, files out.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, Volume, VolumeProjection};

use super::tokens::Tokens;
use crate::{
    downward::{self, Facts},
    objects::{self, Key, Kind, Snapshot},
};

const DEFAULT_MODE: i32 = 0o644;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub mode: u32,
    pub content: Vec<u8>,
}

pub type Files = BTreeMap<PathBuf, File>;

/// The volume's files, or `None` when it is of a kind that has none.
pub fn project(
    volume: &Volume,
    pod: &Pod,
    facts: &Facts,
    objects: &Snapshot,
    tokens: &Tokens,
) -> Result<Option<Files>, String> {
    let mut out = Projection { pod, facts, objects, tokens, default_mode: DEFAULT_MODE, files: Files::new() };
    if let Some(source) = &volume.config_map {
        out.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        out.entries(Kind::ConfigMap, &source.name, source.items.as_deref(), source.optional)?;
    } else if let Some(source) = &volume.secret {
        out.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let name = source.secret_name.as_deref().unwrap_or_default();
        out.entries(Kind::Secret, name, source.items.as_deref(), source.optional)?;
    } else if let Some(source) = &volume.downward_api {
        out.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        out.downward(source.items.as_deref())?;
    } else if let Some(source) = &volume.projected {
        out.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        for part in source.sources.iter().flatten() {
            out.part(part)?;
        }
    } else {
        return Ok(None);
    }
    Ok(Some(out.files))
}

struct Projection<'a> {
    pod: &'a Pod,
    facts: &'a Facts,
    objects: &'a Snapshot,
    tokens: &'a Tokens,
    default_mode: i32,
    files: Files,
}

// === impl Projection ===

impl Projection<'_> {
    fn part(&mut self, part: &VolumeProjection) -> Result<(), String> {
        if let Some(source) = &part.config_map {
            self.entries(Kind::ConfigMap, &source.name, source.items.as_deref(), source.optional)
        } else if let Some(source) = &part.secret {
            self.entries(Kind::Secret, &source.name, source.items.as_deref(), source.optional)
        } else if let Some(source) = &part.downward_api {
            self.downward(source.items.as_deref())
        } else if let Some(source) = &part.service_account_token {
            match self.tokens.get(source) {
                Some(token) => self.add(&source.path, None, token.clone().into_bytes()),
                // An API server that gives out no tokens: the pod does without, as with no service account.
                None => Ok(()),
            }
        } else {
            Err("the process node projects configMap, secret, downwardAPI and serviceAccountToken; this volume has \
                 another source"
                .to_owned())
        }
    }

    fn entries(
        &mut self,
        kind: Kind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let namespace = self.pod.metadata.namespace.clone().unwrap_or_default();
        let key = Key { kind, namespace, name: name.to_owned() };
        let optional = optional == Some(true);
        let Some(data) = objects::find(self.objects, &key, optional)? else { return Ok(()) };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            return data.0.iter().try_for_each(|(name, content)| self.add(name, None, content.clone()));
        };
        for item in items {
            match data.0.get(&item.key) {
                Some(content) => self.add(&item.path, item.mode, content.clone())?,
                None if optional => {}
                None => return Err(format!("references non-existent {kind} key: {}", item.key)),
            }
        }
        Ok(())
    }

    fn downward(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<(), String> {
        for item in items.into_iter().flatten() {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(selector), _) => downward::field(self.pod, self.facts, selector)?,
                (None, Some(selector)) => downward::resource(self.pod, None, self.facts, selector)?,
                (None, None) => {
                    return Err(format!("{} has neither fieldRef nor resourceFieldRef", item.path));
                }
            };
            self.add(&item.path, item.mode, text.into_bytes())?;
        }
        Ok(())
    }

    fn add(&mut self, path: &str, mode: Option<i32>, content: Vec<u8>) -> Result<(), String> {
        let relative = Path::new(path);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.is_empty() || path.starts_with("..") {
            return Err(format!("{path:?} is not a relative path inside the volume"));
        }
        let mode = u32::try_from(mode.unwrap_or(self.default_mode)).unwrap_or(0o644) & 0o777;
        self.files.insert(relative.components().collect(), File { mode, content });
        Ok(())
    }
}
