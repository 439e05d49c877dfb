//! Wake-up times and idle timeouts by the clock on the wall of a time zone.

use std::{borrow::Cow, fmt};

use jiff::{Timestamp, ToSpan, civil::Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{input::null_as_default, zone::Zone};

/// `SlimFaas/Schedule`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    #[serde(rename = "TimeZoneID", default = "britain", deserialize_with = "null_as_britain")]
    pub zone: Option<Zone>,
    #[serde(rename = "Default", default, deserialize_with = "null_as_default")]
    pub default: Times,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Times {
    /// Each counts as a call at that time of day.
    #[serde(default, deserialize_with = "null_as_default")]
    pub wake_up: Vec<DayTime>,
    /// From that time of day on, this idle timeout.
    #[serde(default, deserialize_with = "null_as_default")]
    pub scale_down_timeout: Vec<TimedTimeout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct TimedTimeout {
    pub time: DayTime,
    /// Seconds.
    pub value: u32,
}

/// A time of day, `HH:mm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayTime(Time);

impl Schedule {
    /// The latest wake-up time that has come.
    pub fn last_wake_up(&self, now: Timestamp) -> Option<Timestamp> {
        self.default.wake_up.iter().filter_map(|time| self.latest(*time, now, 2)).max()
    }

    pub fn next_wake_up(&self, now: Timestamp) -> Option<Timestamp> {
        self.next_of(self.default.wake_up.iter().copied(), now)
    }

    /// The idle timeout in force. One entry holds from its time until midnight; several hold each until the next, through
    /// the night.
    pub fn timeout_seconds(&self, now: Timestamp, otherwise: u32) -> u32 {
        let entries = &self.default.scale_down_timeout;
        let days_back = if entries.len() == 1 { 0 } else { 2 };
        entries
            .iter()
            .filter_map(|entry| Some((self.latest(entry.time, now, days_back)?, entry)))
            .max_by_key(|(at, entry)| (*at, entry.value))
            .map_or(otherwise, |(_, entry)| entry.value)
    }

    /// When the schedule next changes something.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let Times { wake_up, scale_down_timeout } = &self.default;
        let times = wake_up.iter().copied().chain(scale_down_timeout.iter().map(|entry| entry.time));
        let midnight = (scale_down_timeout.len() == 1).then_some(DayTime(Time::midnight()));
        self.next_of(times.chain(midnight), now)
    }

    fn next_of(&self, times: impl Iterator<Item = DayTime>, now: Timestamp) -> Option<Timestamp> {
        times.filter_map(|time| self.instants(time, now, 0, 2).find(|at| *at > now)).min()
    }

    fn latest(&self, time: DayTime, now: Timestamp, days_back: i64) -> Option<Timestamp> {
        self.instants(time, now, -days_back, 0).filter(|at| *at <= now).max()
    }

    /// The instants of a time of day on the days around the local date of `now`. A time that daylight saving skips comes
    /// as much later as the clocks jump; one that comes twice counts the first time.
    fn instants(&self, time: DayTime, now: Timestamp, from: i64, to: i64) -> impl Iterator<Item = Timestamp> {
        let zone = self.zone.as_ref().map_or(jiff::tz::TimeZone::UTC, |zone| zone.time_zone().clone());
        let today = zone.to_datetime(now).date();
        (from..=to).filter_map(move |days| {
            let date = today.checked_add(days.days()).ok()?;
            zone.to_ambiguous_timestamp(date.to_datetime(time.0)).compatible().ok()
        })
    }
}

impl DayTime {
    pub fn parse(text: &str) -> Option<Self> {
        let (hour, minute) = text.split_once(':')?;
        let digits = |part: &str| part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(hour) || minute.len() != 2 || !digits(minute) {
            return None;
        }
        Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok().map(DayTime)
    }
}

/// The zone of a schedule that names none.
fn britain() -> Option<Zone> {
    Zone::named("GB")
}

fn null_as_britain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Zone>, D::Error> {
    Ok(Option::deserialize(deserializer)?.or_else(britain))
}

impl fmt::Display for DayTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
    }
}

impl Serialize for DayTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DayTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'_, str>>::deserialize(deserializer)?;
        DayTime::parse(&text)
            .ok_or_else(|| de::Error::custom(format!("expected a time of day such as 08:30, found {text:?}")))
    }
}

impl JsonSchema for DayTime {
    fn schema_name() -> Cow<'static, str> {
        "DayTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "A time of day such as 08:30.", "type": "string", "pattern": "^[0-9]{1,2}:[0-9]{2}$" })
    }
}
