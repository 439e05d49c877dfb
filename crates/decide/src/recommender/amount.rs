//! Amounts of CPU (thousandths of a core) and memory (bytes) as integers, written as Kubernetes quantities.

use std::{cmp::Ordering, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// No real machine comes near; it stands for "no upper bound known" and keeps all sums far from overflow.
pub const MAX: u64 = 100_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Memory,
}

/// Requests, limits, bounds: each resource may be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// Thousandths of a core.
    #[serde(default, with = "optional_cpu", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QuantityForm>")]
    pub cpu: Option<u64>,
    /// Bytes.
    #[serde(default, with = "optional_memory", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QuantityForm>")]
    pub memory: Option<u64>,
}

/// A measurement: cores and bytes, not yet rounded or trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    #[serde(default, with = "optional_usage", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QuantityForm>")]
    pub cpu: Option<f64>,
    #[serde(default, with = "optional_usage", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QuantityForm>")]
    pub memory: Option<f64>,
}

/// How a quantity may be written: `"250m"`, `"1.5"`, `"128Mi"`, or a plain number of cores or bytes.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
pub enum QuantityForm {
    Text(String),
    Number(f64),
}

// === impl Resource ===

impl Resource {
    pub const ALL: [Resource; 2] = [Resource::Cpu, Resource::Memory];

    pub(crate) fn all() -> Vec<Resource> {
        Resource::ALL.to_vec()
    }

    pub fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
        }
    }

    /// Cores or bytes to an integer amount, truncated and held within [0, [`MAX`]].
    pub fn amount(self, units: f64) -> u64 {
        let value = match self {
            Resource::Cpu => units * 1000.0,
            Resource::Memory => units,
        };
        // `as` sends NaN and negatives to 0 and saturates above.
        (value as u64).min(MAX)
    }

    pub fn units(self, amount: u64) -> f64 {
        match self {
            Resource::Cpu => amount as f64 / 1000.0,
            Resource::Memory => amount as f64,
        }
    }

    /// The amount as Kubernetes writes it: `587m`, `2`, `1234567`.
    pub fn quantity(self, amount: u64) -> String {
        match self {
            Resource::Cpu if !amount.is_multiple_of(1000) => format!("{amount}m"),
            Resource::Cpu => (amount / 1000).to_string(),
            Resource::Memory => amount.to_string(),
        }
    }

    /// The amount for a person: `587m`, `308.5Mi`.
    pub fn words(self, amount: u64) -> String {
        if self == Resource::Cpu || amount < 1 << 10 {
            return self.quantity(amount);
        }
        let (unit, shift) = match amount {
            a if a >= 1 << 40 => ("Ti", 40),
            a if a >= 1 << 30 => ("Gi", 30),
            a if a >= 1 << 20 => ("Mi", 20),
            _ => ("Ki", 10),
        };
        let value = format!("{:.1}", amount as f64 / (1u64 << shift) as f64);
        format!("{}{unit}", value.strip_suffix(".0").unwrap_or(&value))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `amount * factor`, truncated and held within [0, [`MAX`]]; an undefined product (0 times infinity) is unbounded.
pub fn scaled(amount: u64, factor: f64) -> u64 {
    let product = amount as f64 * factor;
    if product.is_nan() { MAX } else { (product as u64).min(MAX) }
}

// === impl Resources ===

impl Resources {
    pub fn get(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        }
    }

    pub fn set(&mut self, resource: Resource, amount: Option<u64>) {
        match resource {
            Resource::Cpu => self.cpu = amount,
            Resource::Memory => self.memory = amount,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none()
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for resource in Resource::ALL {
            if let Some(amount) = self.get(resource) {
                write!(f, "{separator}{resource} {}", resource.words(amount))?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

// === impl Usage ===

impl Usage {
    pub(super) fn cmp_total(&self, other: &Usage) -> Ordering {
        let key = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
        key(self.cpu).total_cmp(&key(other.cpu)).then_with(|| key(self.memory).total_cmp(&key(other.memory)))
    }
}

// === quantities ===

/// A Kubernetes quantity as a number of units; none if the text is not one.
pub fn parse_quantity(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 14] = [
        ("Ki", 1024.0),
        ("Mi", 1048576.0),
        ("Gi", 1073741824.0),
        ("Ti", 1099511627776.0),
        ("Pi", 1125899906842624.0),
        ("Ei", 1152921504606846976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let (digits, factor) = SUFFIXES
        .iter()
        .find_map(|&(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))
        .or_else(|| Some((text.strip_suffix('E')?, 1e18)))
        .unwrap_or((text, 1.0));
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'));
    let value: f64 = is_number.then(|| digits.parse().ok()).flatten()?;
    // Dividing keeps decimal fractions exact where multiplying by 1e-3 does not: 250m is 0.25.
    let value = if factor < 1.0 { value / (1.0 / factor).round() } else { value * factor };
    value.is_finite().then_some(value)
}

struct QuantityVisitor;

impl de::Visitor<'_> for QuantityVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"250m\", \"1.5\", \"128Mi\" or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        parse_quantity(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }
}

fn units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_any(QuantityVisitor)
}

/// An integer amount from a quantity. Fractions round up, as Kubernetes does; a negative amount is refused.
fn amount_of<'de, D: Deserializer<'de>>(deserializer: D, resource: Resource) -> Result<u64, D::Error> {
    let value = units(deserializer)?;
    if value < 0.0 {
        return Err(de::Error::invalid_value(de::Unexpected::Float(value), &"a quantity of 0 or more"));
    }
    let scale = resource.amount(1.0) as f64;
    // A hair below the next integer is that integer: 0.1 + 0.2 cores are 300m, not 301m.
    Ok(((value * scale - 1e-6).ceil() as u64).min(MAX))
}

struct Quantity<const CPU: bool>(u64);

impl<'de, const CPU: bool> Deserialize<'de> for Quantity<CPU> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        amount_of(deserializer, if CPU { Resource::Cpu } else { Resource::Memory }).map(Quantity)
    }
}

struct Units(f64);

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        units(deserializer).map(Units)
    }
}

macro_rules! optional_quantity {
    ($module:ident, $cpu:literal, $resource:expr) => {
        mod $module {
            use super::*;

            pub fn serialize<S: Serializer>(amount: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
                amount.map(|amount| $resource.quantity(amount)).serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
                Ok(Option::<Quantity<$cpu>>::deserialize(deserializer)?.map(|quantity| quantity.0))
            }
        }
    };
}

optional_quantity!(optional_cpu, true, Resource::Cpu);
optional_quantity!(optional_memory, false, Resource::Memory);

/// One amount of memory, for fields that are always there.
pub mod memory {
    use super::*;

    pub fn serialize<S: Serializer>(amount: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Resource::Memory.quantity(*amount).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        amount_of(deserializer, Resource::Memory)
    }
}

/// One measured amount of memory.
pub mod memory_usage {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        units(deserializer)
    }
}

pub mod optional_usage {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Units>::deserialize(deserializer)?.map(|units| units.0))
    }
}
