//! Amounts of CPU (thousandths of a core) and memory (bytes) as integers, written as Kubernetes quantities.

use std::{cmp::Ordering, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::quantity::{Figure, Quantity};

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
    #[schemars(with = "Option<Quantity>")]
    pub cpu: Option<u64>,
    /// Bytes.
    #[serde(default, with = "optional_memory", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Quantity>")]
    pub memory: Option<u64>,
}

/// A measurement: cores and bytes, not yet rounded or trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    #[serde(default, with = "optional_usage", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Figure>")]
    pub cpu: Option<f64>,
    #[serde(default, with = "optional_usage", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Figure>")]
    pub memory: Option<f64>,
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

    /// Fractions of a byte round up; below 0 is 0.
    pub fn amount_of(self, quantity: Quantity) -> u64 {
        let milli = quantity.0.max(0).unsigned_abs();
        let amount = match self {
            Resource::Cpu => milli,
            Resource::Memory => milli.div_ceil(1000),
        };
        amount.min(MAX)
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
        if amount >= MAX {
            return "unbounded".to_owned();
        }
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

// === JSON ===

/// A quantity as an amount; a negative one is refused.
fn amount_of<E: de::Error>(resource: Resource, quantity: Quantity) -> Result<u64, E> {
    if quantity.0 < 0 {
        return Err(E::custom(format!("expected a quantity of 0 or more, found {quantity}")));
    }
    Ok(resource.amount_of(quantity))
}

/// Cores or bytes; what is no number stays none.
fn units_of(figure: Figure) -> f64 {
    figure.0.map_or(f64::NAN, |quantity| quantity.0 as f64 / 1000.0)
}

macro_rules! optional_quantity {
    ($module:ident, $resource:expr) => {
        mod $module {
            use super::*;

            pub fn serialize<S: Serializer>(amount: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
                amount.map(|amount| $resource.quantity(amount)).serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
                let quantity = Option::<Quantity>::deserialize(deserializer)?;
                quantity.map(|quantity| amount_of($resource, quantity)).transpose()
            }
        }
    };
}

optional_quantity!(optional_cpu, Resource::Cpu);
optional_quantity!(optional_memory, Resource::Memory);

/// One amount of memory, for fields that are always there.
pub mod memory {
    use super::*;

    pub fn serialize<S: Serializer>(amount: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Resource::Memory.quantity(*amount).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        amount_of(Resource::Memory, Quantity::deserialize(deserializer)?)
    }
}

/// One measured amount.
pub mod usage {
    use super::*;

    pub fn serialize<S: Serializer>(units: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        units.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Figure::deserialize(deserializer).map(units_of)
    }
}

mod optional_usage {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Figure>::deserialize(deserializer)?.map(units_of))
    }
}
