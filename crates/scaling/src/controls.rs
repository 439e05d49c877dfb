//! What people may ask of any policy, by annotations on what is scaled.

use std::time::Duration;

use jiff::Timestamp;

use crate::writers::{ON_CONFLICT, OnConflict};

const PAUSED: &str = "ballast.dev/paused";
const PAUSED_UNTIL: &str = "ballast.dev/paused-until";
const DRY_RUN: &str = "ballast.dev/dry-run";
const FALLBACK: &str = "ballast.dev/fallback-replicas";
const FALLBACK_AFTER: &str = "ballast.dev/fallback-after-seconds";
/// Three scrapes a minute apart: one that is late is no reason to do anything.
const USUAL_FALLBACK_AFTER: Duration = Duration::from_secs(180);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    pub paused: bool,
    pub paused_until: Option<Timestamp>,
    pub dry_run: bool,
    pub fallback: Option<Fallback>,
    pub on_conflict: Option<OnConflict>,
}

/// At least so many replicas once metrics have been missing for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    pub replicas: i32,
    pub after: Duration,
}

impl Controls {
    /// What the annotations say, and which of them cannot be understood: those count as not there, but for a pause, a dry
    /// run and a conflict, where the careful reading is that somebody wants nothing to happen.
    pub fn read<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<(&'static str, String)>) {
        let mut problems = Vec::new();
        let mut flag = |name: &'static str| match annotation(name) {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                problems.push((name, format!("expected true or false, not {other:?}")));
                true
            }
        };
        let (mut paused, dry_run) = (flag(PAUSED), flag(DRY_RUN));
        let mut paused_until = None;
        if let Some(text) = annotation(PAUSED_UNTIL) {
            match text.parse::<Timestamp>() {
                Ok(at) => paused_until = Some(at),
                Err(_) => {
                    paused = true;
                    let message = format!("expected a time like 2026-03-02T12:00:00Z, not {text:?}");
                    problems.push((PAUSED_UNTIL, message));
                }
            }
        }
        let mut number = |name: &'static str| {
            let text = annotation(name)?;
            let number = text.parse::<i32>().ok().filter(|number| *number >= 0);
            if number.is_none() {
                let message = format!("expected a whole number between 0 and 2147483647, not {text:?}");
                problems.push((name, message));
            }
            number
        };
        let (replicas, after) = (number(FALLBACK), number(FALLBACK_AFTER));
        let seconds = |after: i32| Duration::from_secs(after.unsigned_abs().into());
        let after = after.map_or(USUAL_FALLBACK_AFTER, seconds);
        let fallback = replicas.map(|replicas| Fallback { replicas, after });
        let on_conflict = annotation(ON_CONFLICT).map(|text| match text {
            "yield" => OnConflict::Yield,
            "override" => OnConflict::Override,
            other => {
                problems.push((ON_CONFLICT, format!("expected yield or override, not {other:?}")));
                OnConflict::Yield
            }
        });
        (Self { paused, paused_until, dry_run, fallback, on_conflict }, problems)
    }

    /// Why nothing may be written now, in words, and when that ends by itself.
    pub fn holds(&self, now: Timestamp) -> Option<(String, Option<Timestamp>)> {
        if self.paused {
            return Some((format!("paused by {PAUSED}"), None));
        }
        if let Some(until) = self.paused_until.filter(|until| now < *until) {
            return Some((format!("paused until {until}"), Some(until)));
        }
        self.dry_run.then(|| (format!("dry run by {DRY_RUN}"), None))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::*;

    #[test]
    fn annotations_are_understood_or_named() {
        let rows = [
            "",
            "paused=true",
            "paused=yes",
            "paused=false dry-run=true",
            "paused-until=2026-03-02T12:00:00Z",
            "paused-until=2026-03-02T11:00:00Z",
            "paused-until=noon",
            "fallback-replicas=3",
            "fallback-replicas=3 fallback-after-seconds=60",
            "fallback-replicas=many",
            "on-conflict=yield",
            "on-conflict=fight",
        ];
        let now: Timestamp = "2026-03-02T11:59:00Z".parse().unwrap();
        let mut all = String::new();
        for row in rows {
            let given: BTreeMap<String, &str> = row
                .split_whitespace()
                .map(|pair| pair.split_once('=').unwrap())
                .map(|(name, value)| (format!("ballast.dev/{name}"), value))
                .collect();
            let (controls, problems) = Controls::read(|name| given.get(name).copied());
            let held = controls.holds(now).map_or("writes".to_owned(), |(why, _)| why);
            let fallback = controls.fallback.map(|f| format!(", {} after {:?}", f.replicas, f.after));
            let conflict = controls.on_conflict.map(|asked| format!(", {asked:?}"));
            let (fallback, conflict) = (fallback.unwrap_or_default(), conflict.unwrap_or_default());
            all += &format!("{row}: {held}{fallback}{conflict}\n");
            for (name, message) in problems {
                all += &format!("  {name}: {message}\n");
            }
        }
        expect![[r#"
            : writes
            paused=true: paused by ballast.dev/paused
            paused=yes: paused by ballast.dev/paused
              ballast.dev/paused: expected true or false, not "yes"
            paused=false dry-run=true: dry run by ballast.dev/dry-run
            paused-until=2026-03-02T12:00:00Z: paused until 2026-03-02T12:00:00Z
            paused-until=2026-03-02T11:00:00Z: writes
            paused-until=noon: paused by ballast.dev/paused
              ballast.dev/paused-until: expected a time like 2026-03-02T12:00:00Z, not "noon"
            fallback-replicas=3: writes, 3 after 180s
            fallback-replicas=3 fallback-after-seconds=60: writes, 3 after 60s
            fallback-replicas=many: writes
              ballast.dev/fallback-replicas: expected a whole number between 0 and 2147483647, not "many"
            on-conflict=yield: writes, Yield
            on-conflict=fight: writes, Yield
              ballast.dev/on-conflict: expected yield or override, not "fight"
        "#]]
        .assert_eq(&all);
    }
}
