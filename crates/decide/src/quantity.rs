//! Kubernetes quantities as thousandths, the unit in which the HPA compares everything.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A quantity in thousandths: `100m` is 100, `1Gi` is 1024³ × 1000. Parsing rounds up and saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub i64);

/// A measured quantity, which may be no number at all: `null`, `"NaN"` and `"+Inf"` are accepted and unusable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure(pub Option<Quantity>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let exact = ::quantity::Quantity::parse(text).map_err(|_| ParseError(text.to_owned()))?;
        // so that a value and its negation are both there
        Ok(Self(exact.milli().max(-i64::MAX)))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 1000 {
            0 => write!(f, "{}", self.0 / 1000),
            _ => write!(f, "{}m", self.0),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a quantity; expected a number with an optional suffix, such as 100m, 2 or 1Gi",
            self.0
        )
    }
}

impl std::error::Error for ParseError {}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Figure::deserialize(deserializer)? {
            Figure(Some(quantity)) => Ok(quantity),
            Figure(None) => Err(de::Error::custom("expected a quantity such as 100m, 2 or 1Gi, found none")),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl de::Visitor<'_> for FigureVisitor {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"100m\", 2 or \"1Gi\"")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Figure, E> {
        Ok(Figure(None))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Figure, E> {
        Ok(Figure(Some(Quantity(value.saturating_mul(1000)))))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Figure, E> {
        self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Figure, E> {
        // By its shortest decimal form, which is what was written: 2.007 × 1000 is a little more than 2007 in binary,
        // and rounding that up would make 2008m of it.
        match value.is_finite() {
            true => self.visit_str(&value.to_string()),
            false => Ok(Figure(None)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Figure, E> {
        let name = text.trim_start_matches(['+', '-']);
        if ["nan", "inf", "infinity"].iter().any(|word| name.eq_ignore_ascii_case(word)) {
            return Ok(Figure(None));
        }
        text.parse().map(|quantity| Figure(Some(quantity))).map_err(E::custom)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A Kubernetes quantity: a number with an optional suffix, such as 100m, 2 or 1Gi.",
            "type": ["string", "number"],
        })
    }
}

impl JsonSchema for Figure {
    fn schema_name() -> Cow<'static, str> {
        "Figure".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A measured quantity; null, \"NaN\" and \"+Inf\" mean that there is no usable number.",
            "type": ["string", "number", "null"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_become_thousandths() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1000),
            ("+1.5", 1500),
            (".5", 500),
            ("5.", 5000),
            ("100m", 100),
            ("1n", 1),
            ("1001u", 2),
            ("2k", 2_000_000),
            ("1E", i64::MAX),
            ("1E3", 1_000_000),
            ("1e-2", 10),
            ("1Ki", 1_024_000),
            ("0.5Gi", 536_870_912_000),
            ("9Ei", i64::MAX),
            ("1e400", i64::MAX),
            ("1e-400", 1),
            ("-3", -3000),
        ] {
            assert_eq!(text.parse(), Ok(Quantity(milli)), "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "1 Gi", "Gi", "1x", "1e", "NaN", "0x10", "1e99999999999"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_a_figure_without_value() {
        for (json, figure) in [
            ("1.5", Some(1500)),
            ("2.007", Some(2007)),
            ("0.29", Some(290)),
            ("1.0005", Some(1001)),
            ("-2.007", Some(-2007)),
            ("1e-9", Some(1)),
            ("\"250m\"", Some(250)),
            ("-2", Some(-2000)),
            ("18446744073709551615", Some(i64::MAX)),
            ("1e300", Some(i64::MAX)),
            ("null", None),
            ("\"NaN\"", None),
            ("\"+Inf\"", None),
        ] {
            assert_eq!(serde_json::from_str::<Figure>(json).unwrap(), Figure(figure.map(Quantity)), "{json}");
        }
        assert!(serde_json::from_str::<Quantity>("null").is_err());
        assert!(serde_json::from_str::<Figure>("true").is_err());
    }

    proptest::proptest! {
        #![proptest_config(repeatable::cases(256))]

        #[test]
        fn display_parses_back(milli: i64) {
            let quantity = Quantity(milli);
            // i64::MIN has no positive counterpart to parse through; it comes back one short.
            proptest::prop_assert_eq!(quantity.to_string().parse(), Ok(Quantity(milli.max(-i64::MAX))));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Quantity>();
        }
    }
}
