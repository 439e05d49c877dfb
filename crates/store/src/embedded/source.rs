//! Where an embedded store lives.

use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, backends::InMemoryBackend};

/// Of pages that are read again; what is decided upon is in memory anyway.
const CACHE_BYTES: usize = 16 << 20;

pub enum Source {
    Memory,
    File(PathBuf),
    #[cfg(test)]
    Disk(disk::testing::Disk),
}

impl Source {
    /// Why the database did not do what was asked of it, and what to do about it.
    pub fn explain(&self, error: &redb::Error) -> String {
        let full = match self {
            Source::Memory => None,
            Source::File(path) => full(path, error),
            #[cfg(test)]
            Source::Disk(_) => full(Path::new("test.redb"), error),
        };
        full.unwrap_or_else(|| error.to_string())
    }

    pub fn open(&self) -> Result<Database, String> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        match self {
            Source::Memory => {
                builder.create_with_backend(InMemoryBackend::new()).map_err(|error| error.to_string())
            }
            #[cfg(test)]
            Source::Disk(disk) => builder
                .create_with_backend(disk.clone())
                .map_err(|error| cannot_open(Path::new("test.redb"), &error.into())),
            Source::File(path) => {
                let shown = path.display();
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                if let Some(parent) = parent {
                    std::fs::create_dir_all(parent)
                        .map_err(|error| format!("cannot create the directory of {shown}: {error}"))?;
                }
                let is_new = !path.exists();
                let file = disk::private_file(path).map_err(|error| cannot_open(path, &error.into()))?;
                let database = builder.create_file(file).map_err(|error| match error {
                    DatabaseError::DatabaseAlreadyOpen => {
                        format!("{shown} is in use by another process: stop it, or choose another file")
                    }
                    error => cannot_open(path, &error.into()),
                })?;
                if is_new && let Some(directory) = parent {
                    // or a new file's name may be lost with the power
                    std::fs::File::open(directory)
                        .and_then(|directory| directory.sync_all())
                        .map_err(|error| format!("cannot sync the directory of {shown}: {error}"))?;
                }
                Ok(database)
            }
        }
    }
}

fn cannot_open(path: &Path, error: &redb::Error) -> String {
    match full(path, error) {
        Some(full) => full,
        None => format!("cannot open {}: {error}", path.display()),
    }
}

/// One wording wherever it is noticed, so that one state is told once.
fn full(path: &Path, error: &redb::Error) -> Option<String> {
    match error {
        redb::Error::Io(io) if disk::is_full(io) => Some(disk::full(path)),
        _ => None,
    }
}
