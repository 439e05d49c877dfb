//! Files that only their owner may read, and disks that are full.
//!
//! Databases, tokens and volumes hold Secrets. Each is private from its first byte on, whatever the umask, and one that an
//! earlier version left open to others is closed when it is used again.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "testing")]
pub mod testing;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// Makes the directory if it is not there. One that is there is closed to others.
///
/// # Errors
/// When it cannot be made, or belongs to somebody else and is open to others.
pub fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(path)?;
    close_to_others(path, PRIVATE_DIR, &fs::metadata(path)?)
}

/// Opens the file for reading and writing, made if it is not there and closed to others if it is.
///
/// # Errors
/// When it cannot be opened, or belongs to somebody else and is open to others.
pub fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE);
    let file = options.open(path)?;
    close_to_others(path, PRIVATE_FILE, &file.metadata()?)?;
    Ok(file)
}

/// Never half written: a reader sees the old content or the new.
///
/// # Errors
/// When the file cannot be written.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let written = private_file(partial).and_then(|mut file| {
        file.set_len(0)?;
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(partial, path)).inspect_err(|_| {
        // the rest of a failed write would only take up space
        let _ = fs::remove_file(partial);
    })
}

fn close_to_others(path: &Path, mode: u32, metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|error| {
        let why = format!("others may read {}, and that cannot be changed: {error}", path.display());
        io::Error::new(error.kind(), why)
    })
}

/// Whether it is for want of space (or by a limit on it) that something could not be written: it is over when there is
/// some again.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Says that there is no space left for a file, and what to do about it.
pub fn full(path: &Path) -> String {
    format!("no space is left for {}: free some on its disk, and writes are accepted again", path.display())
}

/// Space for so much must be there to start with: a database alone begins with more.
const ROOM_BYTES: usize = 1 << 20;

/// Fails unless a megabyte can be written in the directory.
///
/// # Errors
/// When the directory cannot be written to.
pub fn try_room(directory: &Path) -> io::Result<()> {
    let path = directory.join(".room");
    let written = private_file(&path).and_then(|mut file| {
        file.write_all(&vec![0; ROOM_BYTES])?;
        file.sync_all()
    });
    // also if it was written in part only
    let _ = fs::remove_file(&path);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_private_and_what_was_open_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let (inner, file) = (directory.path().join("a/b"), directory.path().join("a/b/file"));
        private_dir(&inner).unwrap();
        drop(private_file(&file).unwrap());
        assert_eq!((mode(&inner), mode(&file)), (0o700, 0o600));
        fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        private_dir(&inner).unwrap();
        drop(private_file(&file).unwrap());
        assert_eq!((mode(&inner), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        for content in ["a long one", "short"] {
            write_private(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
