//! Replaces all files of a volume at once: a reader sees the old ones or the new ones, never some of each.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

use super::files::{File, Files};

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_next";

/// Does nothing when the files are already these.
pub fn replace(volume: &Path, files: &Files) -> io::Result<()> {
    let data = volume.join(DATA);
    let current = fs::read_link(&data).ok();
    if let Some(current) = &current
        && read(&volume.join(current)).is_ok_and(|now| now == *files)
    {
        return Ok(());
    }
    let version = unused_version(volume);
    let next = volume.join(&version);
    for (path, file) in files {
        write(&next.join(path), file)?;
    }
    fs::create_dir_all(&next)?;
    let pointer = volume.join(DATA_NEXT);
    remove_if_there(&pointer)?;
    symlink(&version, &pointer)?;
    fs::rename(&pointer, &data)?;
    link_names(volume, files)?;
    if let Some(old) = current {
        fs::remove_dir_all(volume.join(old))?;
    }
    Ok(())
}

/// `..1`, `..2` …: never one that a crash left half written.
fn unused_version(volume: &Path) -> PathBuf {
    let mut number = 1_u64;
    loop {
        let name = PathBuf::from(format!("..{number}"));
        if !volume.join(&name).exists() {
            return name;
        }
        number += 1;
    }
}

fn write(path: &Path, file: &File) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, &file.content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(file.mode))
}

/// One link per name at the top, and none for names that are gone.
fn link_names(volume: &Path, files: &Files) -> io::Result<()> {
    let wanted: BTreeSet<&OsStr> = files
        .keys()
        .filter_map(|path| match path.components().next() {
            Some(Component::Normal(name)) => Some(name),
            _ => None,
        })
        .collect();
    for name in &wanted {
        let link = volume.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), &link)?;
        }
    }
    for entry in fs::read_dir(volume)? {
        let name: OsString = entry?.file_name();
        if !name.as_encoded_bytes().starts_with(b"..") && !wanted.contains(name.as_os_str()) {
            fs::remove_file(volume.join(name))?;
        }
    }
    Ok(())
}

fn read(version: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![version.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let metadata = fs::metadata(&path)?;
            if metadata.is_dir() {
                folders.push(path);
            } else if let Ok(relative) = path.strip_prefix(version) {
                let mode = metadata.permissions().mode() & 0o777;
                files.insert(relative.to_owned(), File { mode, content: fs::read(&path)? });
            }
        }
    }
    Ok(files)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
