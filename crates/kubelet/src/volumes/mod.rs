//! A pod's volumes: directories under the pod's own, filled from the API.
//!
//! ```text
//! <pod>/volumes/<volume>/            emptyDir, or
//!                        name  ──▶ ..data/name
//!                        ..data ──▶ ..<version>/      swapped in one rename when the API's object changes
//! <pod>/volumes/<volume> ──▶ <node>/claims/<uid>/     of a claim of storage
//! ```

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};
use serde_json::Value;

use crate::{
    downward::Facts,
    objects::{self, CLAIM_UID, Key, Kind, Snapshot},
};

mod atomic;
mod files;
mod mounts;
mod rewrite;
pub mod tokens;

pub use mounts::resolve;
pub use rewrite::lay_out;
use tokens::Tokens;

/// Makes or updates every volume of the pod. `claims` is where the directories of all claims are.
///
/// # Errors
/// The first volume that cannot be made, in a kubelet's words.
pub fn prepare(
    directory: &Path,
    claims: &Path,
    pod: &Pod,
    facts: &Facts,
    objects: &Snapshot,
    tokens: &Tokens,
) -> Result<(), String> {
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let prepared = match &volume.persistent_volume_claim {
            Some(source) => claim(directory, claims, volume, pod, &source.claim_name, objects),
            None => prepare_one(directory, volume, pod, facts, objects, tokens),
        };
        prepared
            .map_err(|error| format!("MountVolume.SetUp failed for volume \"{}\" : {error}", volume.name))?;
    }
    Ok(())
}

fn prepare_one(
    directory: &Path,
    volume: &Volume,
    pod: &Pod,
    facts: &Facts,
    objects: &Snapshot,
    tokens: &Tokens,
) -> Result<(), String> {
    if let Some(source) = &volume.host_path {
        return host_path(source);
    }
    let own = directory.join(&volume.name);
    let io = |error: std::io::Error| format!("{}: {error}", own.display());
    fs::create_dir_all(&own).map_err(io)?;
    if volume.empty_dir.is_some() || has_no_source(volume) {
        return fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).map_err(io);
    }
    let Some(files) = files::project(volume, pod, facts, objects, tokens)? else {
        return Err(format!(
            "the process node has no {} volumes; it has configMap, secret, downwardAPI, projected, persistentVolumeClaim, emptyDir and hostPath",
            source_name(volume)
        ));
    };
    atomic::replace(&own, &files).map_err(io)
}

/// The volume is a link to the claim's directory: what a pod leaves there, the next one finds.
fn claim(
    directory: &Path,
    claims: &Path,
    volume: &Volume,
    pod: &Pod,
    name: &str,
    objects: &Snapshot,
) -> Result<(), String> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let key = Key { kind: Kind::Claim, namespace, name: name.to_owned() };
    let uid = objects::find(objects, &key, false)?.and_then(|claim| claim.0.get(CLAIM_UID));
    let uid = uid.ok_or_else(|| format!("persistentvolumeclaim \"{name}\" is not bound yet"))?;
    let source = claims.join(String::from_utf8_lossy(uid).as_ref());
    let io = |error: std::io::Error| format!("{}: {error}", source.display());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(claims).map_err(io)?;
    if !source.exists() {
        fs::create_dir(&source).map_err(io)?;
        fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).map_err(io)?;
    }
    let own = directory.join(&volume.name);
    match fs::read_link(&own) {
        Ok(target) if target == source => Ok(()),
        _ => symlink(&source, &own).map_err(io),
    }
}

/// What a mount of this volume starts from.
pub fn root(directory: &Path, volume: &Volume) -> PathBuf {
    match &volume.host_path {
        Some(source) => PathBuf::from(&source.path),
        None => directory.join(&volume.name),
    }
}

/// An emptyDir is the default.
fn has_no_source(volume: &Volume) -> bool {
    source_name(volume).is_empty()
}

fn source_name(volume: &Volume) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(volume) else { return String::new() };
    fields.into_iter().map(|(name, _)| name).find(|name| name != "name").unwrap_or_default()
}

fn host_path(source: &HostPathVolumeSource) -> Result<(), String> {
    let path = Path::new(&source.path);
    let wanted = source.type_.as_deref().unwrap_or_default();
    let made = match wanted {
        "DirectoryOrCreate" if !path.exists() => fs::create_dir_all(path),
        "FileOrCreate" if !path.exists() => fs::File::create(path).map(drop),
        _ => Ok(()),
    };
    made.map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    let kind = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.file_type();
    let fits = match wanted {
        "Directory" | "DirectoryOrCreate" => kind.is_dir(),
        "File" | "FileOrCreate" => kind.is_file(),
        "Socket" => kind.is_socket(),
        "CharDevice" => kind.is_char_device(),
        "BlockDevice" => kind.is_block_device(),
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(format!("hostPath type check failed: {} is not a {wanted}", path.display()))
    }
}

#[cfg(test)]
mod tests;
