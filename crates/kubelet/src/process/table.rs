//! `/proc`, read once and shared out among containers.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
};

use super::ID_VARIABLE;

/// Ticks per second in `/proc/*/stat`: USER_HZ, which Linux fixes at 100 towards programs.
pub const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub pid: i32,
    pub parent: i32,
    pub session: i32,
    pub start_ticks: u64,
    /// Its own and those of its children that ended and were waited for.
    pub cpu_ticks: u64,
    pub zombie: bool,
}

// === impl Entry ===

impl Entry {
    pub fn read(pid: i32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(pid, &text).ok_or_else(|| io::Error::other(format!("cannot read /proc/{pid}/stat")))
    }

    /// Fields are counted from behind the command's name, which may itself hold spaces and parentheses.
    fn parse(pid: i32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_ticks: number(19)?,
            cpu_ticks: number(11)? + number(12)? + number(13)? + number(14)?,
            zombie: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

/// All processes there are; those that end meanwhile are left out.
pub fn scan() -> io::Result<Vec<Entry>> {
    let names =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    Ok(names.filter_map(|pid| Entry::read(pid).ok()).collect())
}

/// Which container each process belongs to: by session, by its parent, or by the mark in its environment.
///
/// `sessions` maps the pid a container was started with to its id.
pub fn attribute<'e, 'i>(
    entries: &'e [Entry],
    sessions: &HashMap<i32, &'i str>,
) -> BTreeMap<&'i str, Vec<&'e Entry>> {
    attribute_by(entries, sessions, container_id)
}

fn attribute_by<'e, 'i>(
    entries: &'e [Entry],
    sessions: &HashMap<i32, &'i str>,
    mark: impl Fn(i32) -> Option<String>,
) -> BTreeMap<&'i str, Vec<&'e Entry>> {
    let by_pid: HashMap<i32, &Entry> = entries.iter().map(|entry| (entry.pid, entry)).collect();
    let ids: HashMap<&str, &'i str> = sessions.values().map(|id| (*id, *id)).collect();
    let mut owners: HashMap<i32, Option<&'i str>> = HashMap::new();
    let mut members: BTreeMap<&'i str, Vec<&'e Entry>> = BTreeMap::new();
    for entry in entries {
        // Up the parents until one is known; the whole path then has the same owner.
        let mut path = Vec::new();
        let mut at = Some(entry);
        let mut owner = None;
        while let Some(current) = at {
            if let Some(known) = owners.get(&current.pid) {
                owner = *known;
                break;
            }
            path.push(current.pid);
            owner = sessions.get(&current.session).copied();
            if owner.is_some() || path.len() > entries.len() {
                break;
            }
            at = by_pid.get(&current.parent).copied();
        }
        if owner.is_none() {
            owner = mark(entry.pid).and_then(|id| ids.get(id.as_str()).copied());
            path.truncate(1);
        }
        owners.extend(path.into_iter().map(|pid| (pid, owner)));
        if let Some(id) = owner {
            members.entry(id).or_default().push(entry);
        }
    }
    members
}

/// The mark in a process's environment, as it was started.
pub fn container_id(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|var| {
        let value = var.strip_prefix(ID_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// Memory that would be free if the process ended: its share of what it has in RAM, in bytes.
///
/// The proportional share, so that the interpreter that twenty pods run is counted once and not twenty times.
pub fn memory(pid: i32) -> u64 {
    let kib_of = |file: &str, field: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    kib_of("smaps_rollup", "Pss:").or_else(|| kib_of("status", "VmRSS:")).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, parent: i32, session: i32) -> Entry {
        Entry { pid, parent, session, start_ticks: 0, cpu_ticks: 0, zombie: false }
    }

    #[test]
    fn stat_with_a_nasty_name() {
        let stat = "7 (a) b (c) S 1 7 6 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 987 1000 50 0";
        assert_eq!(
            Entry::parse(7, stat),
            Some(Entry { pid: 7, parent: 1, session: 6, start_ticks: 987, cpu_ticks: 110, zombie: false })
        );
        assert_eq!(Entry::parse(7, "7 (x) S 1"), None);
    }

    #[test]
    fn members_by_session_parent_and_mark() {
        let entries = [
            entry(1, 0, 1),
            entry(10, 1, 10),  // a container's first process
            entry(11, 10, 10), // its child
            entry(12, 11, 12), // a grandchild in a session of its own
            entry(13, 12, 12),
            entry(14, 1, 14), // a daemon: neither session nor parent, but marked
            entry(20, 1, 20), // another container
            entry(30, 1, 30), // a stranger
            entry(31, 30, 30),
        ];
        let marks = |pid| (pid == 14).then(|| "a".to_owned());
        let members = attribute_by(&entries, &[(10, "a"), (20, "b")].into(), marks);
        let pids: Vec<(&str, Vec<i32>)> =
            members.iter().map(|(id, entries)| (*id, entries.iter().map(|e| e.pid).collect())).collect();
        assert_eq!(pids, [("a", vec![10, 11, 12, 13, 14]), ("b", vec![20])]);
    }
}
