//! A mount namespace in which volumes stand where the manifest wants them, on top of the host's own files.
//!
//! A mount needs a mount point, and the host is not to be littered with empty directories. So where the path does
//! not exist, its nearest existing ancestor is covered by an empty tmpfs that gets all its entries back as bind
//! mounts, and then has room for one more. For the root directory itself that means a new root.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Component, Path, PathBuf},
};

use nix::{
    fcntl::OFlag,
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::statvfs::{FsFlags, statvfs},
    unistd,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub source: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
}

/// Leaves the host's mount namespace and makes every bind mount in a new one.
pub fn enter(binds: &[Bind], scratch: &Path) -> Result<(), String> {
    isolate()?;
    // Opened before anything is covered: a later mount may hide the place a source lives in.
    let mut opened = Vec::with_capacity(binds.len());
    for bind in binds {
        let handle =
            open_path(&bind.source).map_err(|e| format!("cannot open {}: {e}", bind.source.display()))?;
        opened.push((handle, normal(&bind.target)?, bind));
    }
    // Outer mounts first, or they would hide the inner ones.
    opened.sort_by_key(|(_, target, _)| target.components().count());
    if opened.iter().any(|(_, target, _)| existing_ancestor(target) == Path::new("/")) {
        new_root(scratch).map_err(|e| format!("cannot build a root directory: {e}"))?;
    }
    for (handle, target, bind) in &opened {
        attach(handle, target, bind.read_only)
            .map_err(|e| format!("cannot mount on {}: {e}", target.display()))?;
    }
    Ok(())
}

fn isolate() -> Result<(), String> {
    let (uid, gid) = (unistd::geteuid(), unistd::getegid());
    let result = if uid.is_root() {
        unshare(CloneFlags::CLONE_NEWNS).map_err(io::Error::from)
    } else {
        // A user namespace in which the user stays who they are lends the right to mount.
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(io::Error::from).and_then(|()| {
            fs::write("/proc/self/setgroups", "deny")?;
            fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
            fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
        })
    };
    result.map_err(|e| format!("cannot create a mount namespace: {e}"))?;
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(|e| format!("cannot separate the mounts from the host's: {e}"))
}

fn attach(source: &File, target: &Path, read_only: bool) -> io::Result<()> {
    let is_dir = source.metadata()?.is_dir();
    if !target.exists() {
        make_room(target)?;
        if is_dir {
            fs::create_dir_all(target)?;
        } else {
            fs::create_dir_all(target.parent().unwrap_or(Path::new("/")))?;
            File::create(target)?;
        }
    }
    bind(&magic_link(source), target)?;
    if read_only {
        let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        // In a user namespace the flags that the host set may not be dropped.
        let kept = statvfs(target)?.flags();
        for (have, flag) in [
            (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
            (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
            (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        ] {
            if kept.contains(have) {
                flags |= flag;
            }
        }
        mount(None::<&str>, target, None::<&str>, flags, None::<&str>)?;
    }
    Ok(())
}

/// Makes `target`'s nearest existing ancestor writable without writing to the host.
fn make_room(target: &Path) -> io::Result<()> {
    let ancestor = fs::canonicalize(existing_ancestor(target))?;
    if is_ours(&ancestor)? {
        return Ok(());
    }
    let covered = open_path(&ancestor)?;
    let mode = covered.metadata()?.permissions().mode();
    mount_tmpfs(&ancestor, mode)?;
    repopulate(&magic_link(&covered), &ancestor)
}

/// A directory on a tmpfs that an earlier step put there needs no second one.
fn is_ours(directory: &Path) -> io::Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let ours = |mount_point: &Path| directory.starts_with(mount_point);
    // The mount that a directory is on is the deepest, and of equals the last one.
    let deepest = mounts
        .lines()
        .filter_map(|line| {
            let point = Path::new(line.split(' ').nth(4)?);
            ours(point).then(|| (point.components().count(), line.contains(TMPFS_SOURCE)))
        })
        .fold((0, false), |best, next| if next.0 >= best.0 { next } else { best });
    Ok(deepest.1)
}

const TMPFS_SOURCE: &str = "ballast-room";

fn mount_tmpfs(at: &Path, mode: u32) -> io::Result<()> {
    let options = format!("mode={:o},size=1m", mode & 0o7777);
    Ok(mount(Some(TMPFS_SOURCE), at, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))?)
}

fn new_root(scratch: &Path) -> io::Result<()> {
    let scratch = fs::canonicalize(scratch)?;
    mount_tmpfs(&scratch, 0o755)?;
    repopulate(Path::new("/"), &scratch)?;
    unistd::chroot(&scratch)?;
    std::env::set_current_dir("/")
}

/// Gives an empty directory the entries of another.
fn repopulate(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (from.join(entry.file_name()), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&target)?;
        } else {
            File::create(&target)?;
        }
        // What this user may not reach stays an empty entry: it was out of reach before as well.
        if let Err(error) = bind(&source, &target)
            && error.kind() != io::ErrorKind::PermissionDenied
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", source.display())));
        }
    }
    Ok(())
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?)
}

fn open_path(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(path)
}

fn magic_link(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn existing_ancestor(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"))
}

fn normal(path: &Path) -> Result<PathBuf, String> {
    let plain = path.is_absolute()
        && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    if plain && path != Path::new("/") {
        Ok(path.components().collect())
    } else {
        Err(format!(
            "mount path {} must be absolute, without \"..\", and not the root directory",
            path.display()
        ))
    }
}
