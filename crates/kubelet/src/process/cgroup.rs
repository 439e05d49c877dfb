//! Memory limits, where the node may make cgroups; only then can it tell that a container ran out of memory.
//!
//! Under cgroup v2 that needs a delegated group without processes of its own at the node's level (systemd:
//! `Delegate=yes`) or the root group; under v1 the memory controller must be writable. Otherwise limits are not enforced.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone)]
pub struct Cgroups {
    base: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// One container's group.
#[derive(Debug, Clone)]
pub struct Group {
    directory: PathBuf,
    version: Version,
}

// === impl Cgroups ===

impl Cgroups {
    /// The groups under the node's own one, if it may make any.
    pub fn detect(node: &str) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        candidates(&groups, &mounts).into_iter().find_map(|(version, own)| {
            Self::prepare(version, &own, node)
                .inspect_err(
                    |error| tracing::debug!(%error, own = %own.display(), "no memory limits by this cgroup"),
                )
                .ok()
        })
    }

    fn prepare(version: Version, own: &Path, node: &str) -> io::Result<Self> {
        if version == Version::Two {
            fs::write(own.join("cgroup.subtree_control"), "+memory")?;
        }
        let cgroups = Self { base: own.join(format!("ballast-{node}")), version };
        // A trial tells more than reading flags would.
        let trial = cgroups.group("trial", u64::MAX >> 1)?;
        trial.remove();
        Ok(cgroups)
    }

    pub fn group(&self, id: &str, limit: u64) -> io::Result<Group> {
        // Each time: another node of the same name may have removed it when it left.
        create(&self.base)?;
        if self.version == Version::Two {
            fs::write(self.base.join("cgroup.subtree_control"), "+memory")?;
        }
        let directory = self.base.join(id);
        create(&directory)?;
        let group = Group { directory, version: self.version };
        group.limit(limit)?;
        Ok(group)
    }

    /// The group of a container that was started earlier.
    pub fn existing(&self, id: &str) -> Option<Group> {
        let directory = self.base.join(id);
        directory.is_dir().then_some(Group { directory, version: self.version })
    }

    /// When the node leaves; fails harmlessly while a container's group is left.
    pub fn remove(&self) {
        let _ = fs::remove_dir(&self.base);
    }
}

// === impl Group ===

impl Group {
    pub fn procs(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    pub fn limit(&self, bytes: u64) -> io::Result<()> {
        match self.version {
            Version::One => fs::write(self.directory.join("memory.limit_in_bytes"), bytes.to_string()),
            Version::Two => {
                // As a kubelet does: no swap, and the container dies as a whole.
                let _ = fs::write(self.directory.join("memory.swap.max"), "0");
                let _ = fs::write(self.directory.join("memory.oom.group"), "1");
                fs::write(self.directory.join("memory.max"), bytes.to_string())
            }
        }
    }

    pub fn ran_out_of_memory(&self) -> bool {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.directory.join(file)).unwrap_or_default();
        oom_kills(&text) > 0
    }

    /// Once its processes are gone.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_dir(&self.directory) {
            tracing::debug!(%error, group = %self.directory.display(), "cannot remove the cgroup");
        }
    }
}

fn create(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn oom_kills(text: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == "oom_kill")
        .and_then(|(_, count)| count.trim().parse().ok())
        .unwrap_or(0)
}

/// The node's own groups that could carry memory limits, from `/proc/self/cgroup` and `/proc/self/mounts`; v2 first.
fn candidates(groups: &str, mounts: &str) -> Vec<(Version, PathBuf)> {
    let mount_point = |wanted: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            wanted(fields.get(2)?, fields.get(3)?).then(|| fields[1].to_owned())
        })
    };
    let two = mount_point(&|kind, _| kind == "cgroup2");
    let one = mount_point(&|kind, options| kind == "cgroup" && options.split(',').any(|o| o == "memory"));
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let path = path.trim_start_matches('/');
        if let (true, Some(mount)) = (controllers.is_empty(), &two) {
            found.insert(0, (Version::Two, Path::new(mount).join(path)));
        } else if let (true, Some(mount)) = (controllers.split(',').any(|c| c == "memory"), &one) {
            found.push((Version::One, Path::new(mount).join(path)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_groups_in_both_hierarchies() {
        let groups = "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/slice/unit\n";
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(
            candidates(groups, mounts),
            [
                (Version::Two, PathBuf::from("/sys/fs/cgroup/unified/slice/unit")),
                (Version::One, PathBuf::from("/sys/fs/cgroup/memory/a/b")),
            ]
        );
        assert_eq!(candidates("0::/\n", ""), []);
    }

    #[test]
    fn kills_are_counted_in_both_formats() {
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), 2);
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 1\n"), 1);
        assert_eq!(oom_kills(""), 0);
    }
}
