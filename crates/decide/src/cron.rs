//! Six-field cron expressions (second minute hour day month weekday) on the wall clock of a time zone.

use std::{borrow::Cow, fmt};

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, Time},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::zone::Zone;

/// A parsed expression: one bit for each value that a field allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// With both days and weekdays restricted, either may match.
    either_day: bool,
}

/// Eight years hold every date at least once, also around a century without a leap day.
const MAX_DAYS: i32 = 366 * 8 + 2;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Cron {
    /// # Errors
    /// Says which field is wrong and what it may hold.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [seconds, minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!(
                "expected six fields (second minute hour day month weekday), found {} in {text:?}",
                fields.len()
            ));
        };
        let any = |field: &str| field == "*" || field == "?";
        let weekday_bits = field("weekday", weekdays, 0, 7, &WEEKDAYS, 0)?;
        Ok(Cron {
            text: fields.join(" "),
            seconds: field("second", seconds, 0, 59, &[], 0)?,
            minutes: field("minute", minutes, 0, 59, &[], 0)?,
            hours: field("hour", hours, 0, 23, &[], 0)?,
            days: field("day", days, 1, 31, &[], 0)?,
            months: field("month", months, 1, 12, &MONTHS, 1)?,
            // Sunday is 0 and 7.
            weekdays: (weekday_bits | (weekday_bits >> 7)) & 0x7f,
            either_day: !any(days) && !any(weekdays),
        })
    }

    /// The first moment after `now`, or none in the next eight years. What daylight saving skips comes as much later as
    /// the clocks jump.
    pub fn next(&self, now: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let zone = zone.time_zone();
        // A day early, because clocks that jump back over midnight repeat part of a date.
        let mut date = zone.to_datetime(now).date().checked_sub(1.day()).ok()?;
        for _ in 0..MAX_DAYS {
            if self.has_date(date)
                && let Some(at) = self.times().find_map(|time| {
                    let at = zone.to_ambiguous_timestamp(date.to_datetime(time)).compatible().ok()?;
                    (at > now).then_some(at)
                })
            {
                return Some(at);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Whether start and end of a window agree on the days they fall on.
    pub fn same_days(&self, other: &Cron) -> bool {
        (self.days, self.months, self.weekdays) == (other.days, other.months, other.weekdays)
    }

    fn has_date(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month()) && if self.either_day { day || weekday } else { day && weekday }
    }

    fn times(&self) -> impl Iterator<Item = Time> {
        let of = |bits: u64, count: i8| (0..count).filter(move |value| has(bits, *value));
        of(self.hours, 24).flat_map(move |hour| {
            of(self.minutes, 60).flat_map(move |minute| {
                of(self.seconds, 60).filter_map(move |second| Time::new(hour, minute, second, 0).ok())
            })
        })
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}

/// Parses `*`, `5`, `1-5`, `*/15`, `1-31/2` and comma lists of these, with names where a field has them.
fn field(
    what: &str,
    text: &str,
    low: u32,
    high: u32,
    names: &[&str],
    first_name: u32,
) -> Result<u64, String> {
    let error = || {
        format!("expected {what} from {low} to {high}, such as *, {low}, {low}-{high} or */2, found {text:?}")
    };
    let value = |text: &str| -> Result<u32, String> {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(idx) => first_name + u32::try_from(idx).map_err(|_| error())?,
            None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map_err(|_| error())?
            }
            None => return Err(error()),
        };
        if (low..=high).contains(&value) { Ok(value) } else { Err(error()) }
    };
    let mut bits = 0u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().map_err(|_| error())?)),
            None => (part, None),
        };
        let (from, to) = match range {
            "*" | "?" => (low, high),
            _ => match range.split_once('-') {
                Some((from, to)) => (value(from)?, value(to)?),
                // `5/15` runs from 5 to the end.
                None if step.is_some() => (value(range)?, high),
                None => (value(range)?, value(range)?),
            },
        };
        if from > to || step == Some(0) {
            return Err(error());
        }
        for value in (from..=to).step_by(step.unwrap_or(1)) {
            bits |= 1 << value;
        }
    }
    Ok(bits)
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Cron {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cron::parse(&<Cow<'_, str>>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Cron {
    fn schema_name() -> Cow<'static, str> {
        "Cron".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Six fields: second minute hour day month weekday, such as 0 0 8 * * MON-FRI.",
            "type": "string",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_moments() {
        for (cron, zone, now, next) in [
            ("0 0 8 * * *", "UTC", "2026-03-01T07:59:59Z", "2026-03-01T08:00:00Z"),
            ("0 0 8 * * *", "UTC", "2026-03-01T08:00:00Z", "2026-03-02T08:00:00Z"),
            ("*/20 * * * * *", "UTC", "2026-03-01T08:00:20.5Z", "2026-03-01T08:00:40Z"),
            ("0 30 9 * * MON-FRI", "UTC", "2026-02-28T00:00:00Z", "2026-03-02T09:30:00Z"),
            ("0 0 0 29 feb *", "UTC", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 0 13 * 5", "UTC", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"),
            ("0 0 0 * * 7", "UTC", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"),
            ("0 30 2 * * *", "Europe/Paris", "2026-03-29T00:00:00Z", "2026-03-29T01:30:00Z"),
            ("0 30 2 * * *", "Europe/Paris", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"),
            ("0 30 2 * * *", "Europe/Paris", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
            ("0 0 1 * * *", "Pacific/Auckland", "2026-06-01T12:30:00Z", "2026-06-01T13:00:00Z"),
        ] {
            let found = Cron::parse(cron).unwrap().next(now.parse().unwrap(), &Zone::named(zone).unwrap());
            assert_eq!(found, Some(next.parse().unwrap()), "{cron} {zone} after {now}");
        }
        let never = Cron::parse("0 0 0 31 feb *").unwrap();
        assert_eq!(never.next(Timestamp::UNIX_EPOCH, &Zone::utc()), None);
    }

    #[test]
    fn errors_name_the_field() {
        let errors: Vec<String> =
            ["0 8 * * *", "60 * * * * *", "0 0 0 0 * *", "0 5-1 * * * *", "0 */0 * * * *", "0 0 0 * foo *"]
                .iter()
                .map(|text| Cron::parse(text).unwrap_err())
                .collect();
        expect_test::expect![[r#"
            expected six fields (second minute hour day month weekday), found 5 in "0 8 * * *"
            expected second from 0 to 59, such as *, 0, 0-59 or */2, found "60"
            expected day from 1 to 31, such as *, 1, 1-31 or */2, found "0"
            expected minute from 0 to 59, such as *, 0, 0-59 or */2, found "5-1"
            expected minute from 0 to 59, such as *, 0, 0-59 or */2, found "*/0"
            expected month from 1 to 12, such as *, 1, 1-12 or */2, found "foo""#]]
        .assert_eq(&errors.join("\n"));
    }
}
