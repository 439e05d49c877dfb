//! The daily time in which disruptive changes are welcome.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const DAY_SECONDS: i32 = 24 * 60 * 60;

/// Both ends belong to it; an end before the beginning lies on the next day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintenanceWindow {
    pub begin: TimeOfDay,
    pub end: TimeOfDay,
}

/// `HHMMSS+ZONE`, for example `220000+0100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay {
    /// Seconds after midnight UTC.
    utc: i32,
    offset_minutes: i32,
}

impl MaintenanceWindow {
    pub fn contains(&self, now: Timestamp) -> bool {
        let second = second_of_day(now);
        let (begin, end) = (self.begin.utc, self.end.utc);
        if begin <= end { (begin..=end).contains(&second) } else { second >= begin || second <= end }
    }

    /// When it begins next.
    pub fn next_begin(&self, now: Timestamp) -> Timestamp {
        let wait = (self.begin.utc - second_of_day(now)).rem_euclid(DAY_SECONDS);
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        whole.checked_add(SignedDuration::from_secs(wait.into())).unwrap_or(now)
    }
}

fn second_of_day(now: Timestamp) -> i32 {
    now.as_second().rem_euclid(DAY_SECONDS.into()) as i32
}

// === impl TimeOfDay ===

impl TimeOfDay {
    pub fn parse(text: &str) -> Option<TimeOfDay> {
        if text.len() != 11 || !text.is_ascii() {
            return None;
        }
        let number = |at: usize| {
            let digits = &text[at..at + 2];
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i32>().ok()).flatten()
        };
        let (hour, minute, second) = (number(0)?, number(2)?, number(4)?);
        let sign = match &text[6..7] {
            "+" => 1,
            "-" => -1,
            _ => return None,
        };
        let (zone_hour, zone_minute) = (number(7)?, number(9)?);
        if hour > 23 || minute > 59 || second > 59 || zone_hour > 14 || zone_minute > 59 {
            return None;
        }
        let offset_minutes = sign * (zone_hour * 60 + zone_minute);
        let local = hour * 3600 + minute * 60 + second;
        Some(TimeOfDay { utc: (local - offset_minutes * 60).rem_euclid(DAY_SECONDS), offset_minutes })
    }
}

impl std::fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let local = (self.utc + self.offset_minutes * 60).rem_euclid(DAY_SECONDS);
        let sign = if self.offset_minutes < 0 { '-' } else { '+' };
        let zone = self.offset_minutes.abs();
        write!(f, "{:02}{:02}{:02}", local / 3600, local / 60 % 60, local % 60)?;
        write!(f, "{sign}{:02}{:02}", zone / 60, zone % 60)
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        TimeOfDay::parse(&text).ok_or_else(|| {
            de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"a time as HHMMSS+ZONE, such as \"220000+0100\"",
            )
        })
    }
}

impl JsonSchema for TimeOfDay {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimeOfDay".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[0-2][0-9][0-5][0-9][0-5][0-9][+-][0-1][0-9][0-5][0-9]$",
            "description": "A time of day as HHMMSS+ZONE, such as 220000+0100.",
        })
    }
}
