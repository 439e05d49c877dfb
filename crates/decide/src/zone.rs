//! Time zones from the database that is part of the program, never from the host's files.

use std::{borrow::Cow, fmt, sync::OnceLock};

use jiff::tz::{TimeZone, TimeZoneDatabase};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    pub fn named(name: &str) -> Option<Self> {
        static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
        DATABASE.get_or_init(TimeZoneDatabase::bundled).get(name).ok().map(Zone)
    }

    pub fn utc() -> Self {
        Zone(TimeZone::UTC)
    }

    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <Cow<'_, str>>::deserialize(deserializer)?;
        Zone::named(&name).ok_or_else(|| {
            de::Error::custom(format!("expected an IANA time zone such as Europe/Paris, found {name:?}"))
        })
    }
}

impl JsonSchema for Zone {
    fn schema_name() -> Cow<'static, str> {
        "Zone".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "An IANA time zone such as Europe/Paris.", "type": "string" })
    }
}
