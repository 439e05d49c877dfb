//! Schedules of five fields, their nicknames, and `@every 5m`.

use decide::{cron::Cron, zone::Zone};
use jiff::{SignedDuration, Timestamp};

pub(super) enum Schedule {
    Clock { cron: Box<Cron>, zone: Zone },
    Every(SignedDuration),
}

/// What was due since a moment.
#[derive(Debug, PartialEq)]
pub(super) struct Due {
    pub latest: Option<Timestamp>,
    /// More times went by than anyone would catch up with.
    pub too_many: bool,
    pub next: Option<Timestamp>,
}

const TOO_MANY: usize = 100;
/// How far back the latest of very many times is looked for, nearest first: a minute, an hour, a day, a month, eight years.
const WINDOWS: [i64; 5] = [60, 3600, 86_400, 31 * 86_400, 8 * 366 * 86_400];

impl Schedule {
    /// # Errors
    /// Says what is wrong with the schedule or the zone.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, String> {
        if let Some(duration) = text.strip_prefix("@every ") {
            let every = duration.parse::<SignedDuration>().map_err(|error| format!("{text:?}: {error}"))?;
            // as the original: whole seconds, at least one
            return Ok(Self::Every(SignedDuration::from_secs(every.as_secs().max(1))));
        }
        let six = match text {
            "@yearly" | "@annually" => "0 0 0 1 1 *".to_owned(),
            "@monthly" => "0 0 0 1 * *".to_owned(),
            "@weekly" => "0 0 0 * * 0".to_owned(),
            "@daily" | "@midnight" => "0 0 0 * * *".to_owned(),
            "@hourly" => "0 0 * * * *".to_owned(),
            five => format!("0 {five}"),
        };
        let zone = match zone {
            None => Zone::utc(),
            Some(name) => Zone::named(name).ok_or_else(|| format!("unknown time zone {name}"))?,
        };
        Ok(Self::Clock { cron: Box::new(Cron::parse(&six)?), zone })
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Clock { cron, zone } => cron.next(after, zone),
            Self::Every(every) => Timestamp::from_second(after.as_second()).ok()?.checked_add(*every).ok(),
        }
    }

    pub fn due(&self, since: Timestamp, now: Timestamp) -> Due {
        let next = self.next(now);
        if let Self::Every(every) = self {
            let gone = (now.as_second() - since.as_second()).max(0) / every.as_secs();
            let latest = (gone > 0)
                .then(|| since.checked_add(SignedDuration::from_secs(gone * every.as_secs())).ok())
                .flatten();
            let next = latest.unwrap_or(since).checked_add(*every).ok();
            return Due { latest, too_many: gone > TOO_MANY as i64, next };
        }
        let (mut latest, mut at, mut n) = (None, since, 0);
        while let Some(time) = self.next(at).filter(|time| *time <= now) {
            (latest, at) = (Some(time), time);
            n += 1;
            if n > TOO_MANY {
                return Due { latest: self.latest(since, now), too_many: true, next };
            }
        }
        Due { latest, too_many: false, next }
    }

    fn latest(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let starts =
            WINDOWS.iter().filter_map(|window| now.checked_sub(SignedDuration::from_secs(*window)).ok());
        for start in starts.map(|start| start.max(since)) {
            let mut latest = None;
            let mut at = start;
            while let Some(time) = self.next(at).filter(|time| *time <= now) {
                (latest, at) = (Some(time), time);
            }
            if latest.is_some() {
                return latest;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(text: &str, since: &str, now: &str) -> String {
        let schedule = Schedule::parse(text, Some("UTC")).unwrap();
        let Due { latest, too_many, next } = schedule.due(since.parse().unwrap(), now.parse().unwrap());
        let show = |at: Option<Timestamp>| at.map_or("-".to_owned(), |at| at.to_string());
        format!("{} {} {}", show(latest), if too_many { "many" } else { "few" }, show(next))
    }

    #[test]
    fn what_is_due() {
        let noon = "2026-03-01T12:00:30Z";
        for (text, since, expected) in [
            ("*/5 * * * *", "2026-03-01T11:58:00Z", "2026-03-01T12:00:00Z few 2026-03-01T12:05:00Z"),
            ("*/5 * * * *", "2026-03-01T12:00:00Z", "- few 2026-03-01T12:05:00Z"),
            ("* * * * *", "2026-02-28T12:00:00Z", "2026-03-01T12:00:00Z many 2026-03-01T12:01:00Z"),
            ("* 3 * * *", "2025-03-01T12:00:00Z", "2026-03-01T03:59:00Z many 2026-03-02T03:00:00Z"),
            ("@daily", "2026-02-27T12:00:00Z", "2026-03-01T00:00:00Z few 2026-03-02T00:00:00Z"),
            ("@every 40s", "2026-03-01T11:59:00Z", "2026-03-01T12:00:20Z few 2026-03-01T12:01:00Z"),
            ("0 0 31 2 *", "2026-02-27T12:00:00Z", "- few -"),
        ] {
            assert_eq!(due(text, since, noon), expected, "{text} since {since}");
        }
        assert!(Schedule::parse("* * * *", None).is_err());
        assert!(Schedule::parse("* * * * *", Some("Mars/Olympus")).is_err());
    }
}
