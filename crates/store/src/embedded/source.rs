//! Where an embedded store lives.

use std::path::PathBuf;

use redb::{Builder, Database, DatabaseError, backends::InMemoryBackend};

/// Of pages that are read again; what is decided upon is in memory anyway.
const CACHE_BYTES: usize = 16 << 20;

pub enum Source {
    Memory,
    File(PathBuf),
    #[cfg(test)]
    Disk(super::tests::Disk),
}

impl Source {
    pub fn open(&self) -> Result<Database, String> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        match self {
            Source::Memory => {
                builder.create_with_backend(InMemoryBackend::new()).map_err(|error| error.to_string())
            }
            #[cfg(test)]
            Source::Disk(disk) => {
                builder.create_with_backend(disk.clone()).map_err(|error| error.to_string())
            }
            Source::File(path) => {
                let shown = path.display();
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                if let Some(parent) = parent {
                    std::fs::create_dir_all(parent)
                        .map_err(|error| format!("cannot create the directory of {shown}: {error}"))?;
                }
                let is_new = !path.exists();
                let database = builder.create(path).map_err(|error| match error {
                    DatabaseError::DatabaseAlreadyOpen => {
                        format!("{shown} is in use by another process: stop it, or choose another file")
                    }
                    error => format!("cannot open {shown}: {error}"),
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
