//! Which of the pod's volumes a container sees, and where.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use crate::{
    env::{Vars, expand},
    launch::Bind,
};

/// The container's mounts; `subPath`s that an emptyDir or host directory lacks are created.
///
/// # Errors
/// Names the mount that cannot be made.
pub fn resolve(directory: &Path, pod: &Pod, container: &Container, vars: &Vars) -> Result<Vec<Bind>, String> {
    if container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
        return Err("the process node has no block devices (volumeDevices)".to_owned());
    }
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let mut binds = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = volumes.iter().find(|volume| volume.name == mount.name).ok_or_else(|| {
            format!("volumeMount names volume \"{}\", which the pod does not have", mount.name)
        })?;
        let sub_path = match (&mount.sub_path_expr, &mount.sub_path) {
            (Some(expression), _) if !expression.is_empty() => expand(expression, vars),
            (_, plain) => plain.clone().unwrap_or_default(),
        };
        binds.push(Bind {
            source: source(directory, volume, &sub_path)?,
            target: PathBuf::from(&mount.mount_path),
            // The API's files are the node's to change, as under a kubelet.
            read_only: mount.read_only == Some(true) || is_projected(volume),
        });
    }
    Ok(binds)
}

fn source(directory: &Path, volume: &Volume, sub_path: &str) -> Result<PathBuf, String> {
    let root = super::root(directory, volume);
    if sub_path.is_empty() {
        return Ok(root);
    }
    let relative = Path::new(sub_path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("subPath \"{sub_path}\" must stay inside volume \"{}\"", volume.name));
    }
    let path = root.join(relative);
    if !path.exists() {
        if is_projected(volume) {
            return Err(format!("subPath \"{sub_path}\" is not in volume \"{}\"", volume.name));
        }
        fs::create_dir_all(&path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    }
    Ok(path)
}

fn is_projected(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}
