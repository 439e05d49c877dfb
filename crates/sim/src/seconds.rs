use std::fmt;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time: `90s`, `5m`, `1h30m`, or a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl Seconds {
    pub fn parse(text: &str) -> Option<Seconds> {
        let seconds = match text.parse::<f64>() {
            Ok(seconds) => seconds,
            Err(_) => text.parse::<SignedDuration>().ok()?.as_secs_f64(),
        };
        (seconds.is_finite() && seconds >= 0.0).then_some(Seconds(seconds))
    }
}

impl Seconds {
    /// As it is written in a scenario: `24h`, `40m`, `1h 30m`.
    pub fn words(self) -> String {
        let total = self.0.round() as u64;
        let parts = [(total / 3600, "h"), (total / 60 % 60, "m"), (total % 60, "s")];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
        if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
    }
}

/// `1:02:03`, or `02:03` below an hour.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.round() as u64;
        let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
        match hours {
            0 => write!(f, "{minutes:02}:{seconds:02}"),
            _ => write!(f, "{hours}:{minutes:02}:{seconds:02}"),
        }
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = Seconds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a length of time such as 90s, 5m, 1h30m or a number of seconds, 0 or more")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
        Seconds::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Seconds, E> {
        Ok(Seconds(seconds as f64))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Seconds, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Seconds, E> {
        match seconds.is_finite() && seconds >= 0.0 {
            true => Ok(Seconds(seconds)),
            false => Err(E::invalid_value(de::Unexpected::Float(seconds), &self)),
        }
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A length of time: 90s, 5m, 1h30m, or a number of seconds.",
            "type": ["string", "number"],
        })
    }
}
