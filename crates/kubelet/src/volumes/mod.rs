//! A pod's volumes: directories under the pod's own, filled from the API.
//!
//! ```text
//! <pod>/volumes/<volume>/            emptyDir, or
//!                        name  ──▶ ..data/name
//!                        ..data ──▶ ..<version>/      swapped in one rename when the API's object changes
//! ```

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};
use serde_json::Value;

use crate::{downward::Facts, objects::Snapshot};

mod atomic;
mod files;
mod mounts;
mod rewrite;
pub mod tokens;

pub use mounts::resolve;
pub use rewrite::lay_out;
use tokens::Tokens;

/// Makes or updates every volume of the pod.
///
/// # Errors
/// The first volume that cannot be made, in a kubelet's words.
pub fn prepare(
    directory: &Path,
    pod: &Pod,
    facts: &Facts,
    objects: &Snapshot,
    tokens: &Tokens,
) -> Result<(), String> {
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        prepare_one(directory, volume, pod, facts, objects, tokens)
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
            "the process node has no {} volumes; it has configMap, secret, downwardAPI, projected, emptyDir and hostPath",
            source_name(volume)
        ));
    };
    atomic::replace(&own, &files).map_err(io)
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
