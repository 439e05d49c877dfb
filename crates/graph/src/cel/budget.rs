//! What running expressions may cost.

use std::cell::Cell;

use kube_cel::cel::{Value as Cel, objects::OptionalValue};

use super::Failure;

/// Units that one expression may spend: a node that is evaluated, an element that is looked at, ten bytes that are
/// copied. A million take some 50 ms.
const EXPRESSION: u64 = 1_000_000;

/// What all expressions of one plan may spend together: ten of the dearest.
const PLAN: u64 = 10 * EXPRESSION;

#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<u64>,
    of_expression: Cell<u64>,
}

impl Budget {
    pub fn for_plan() -> Self {
        Self { left: Cell::new(PLAN), of_expression: Cell::new(EXPRESSION) }
    }

    /// The next expression begins.
    pub fn next_expression(&self) {
        self.of_expression.set(EXPRESSION.min(self.left.get()));
    }

    pub fn charge(&self, units: u64) -> Result<(), Failure> {
        let left = self.of_expression.get().checked_sub(units);
        // what is spent is spent, also by an expression that failed
        self.left.set(self.left.get().saturating_sub(units));
        self.of_expression.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(Failure::OverBudget)
    }

    pub fn charge_bytes(&self, bytes: usize) -> Result<(), Failure> {
        self.charge(1 + bytes as u64 / 10)
    }

    /// Pays for looking at all of `value`. Values share their parts, so that a short expression can make one that is
    /// immense to walk over: the walk ends when the budget does.
    pub fn charge_walk(&self, value: &Cel) -> Result<(), Failure> {
        match value {
            Cel::List(items) => {
                self.charge(1)?;
                items.iter().try_for_each(|item| self.charge_walk(item))
            }
            Cel::Map(map) => {
                self.charge(1)?;
                map.map.values().try_for_each(|value| self.charge_walk(value))
            }
            Cel::String(text) => self.charge_bytes(text.len()),
            Cel::Bytes(bytes) => self.charge_bytes(bytes.len()),
            Cel::Opaque(_) => match <&OptionalValue>::try_from(value).ok().and_then(OptionalValue::value) {
                Some(inner) => self.charge_walk(inner),
                None => self.charge(1),
            },
            _ => self.charge(1),
        }
    }
}
