//! Functions of one value.

use crate::error::Result;
use crate::eval::block::{ABSENT, Block, present};
use crate::limits::Budget;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Math {
    Abs,
    Ceil,
    Floor,
    Exp,
    Sqrt,
    Ln,
    Log2,
    Log10,
    Sgn,
    Rad,
    Deg,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
}

impl Math {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Self::Abs,
            "ceil" => Self::Ceil,
            "floor" => Self::Floor,
            "exp" => Self::Exp,
            "sqrt" => Self::Sqrt,
            "ln" => Self::Ln,
            "log2" => Self::Log2,
            "log10" => Self::Log10,
            "sgn" => Self::Sgn,
            "rad" => Self::Rad,
            "deg" => Self::Deg,
            "sin" => Self::Sin,
            "cos" => Self::Cos,
            "tan" => Self::Tan,
            "asin" => Self::Asin,
            "acos" => Self::Acos,
            "atan" => Self::Atan,
            "sinh" => Self::Sinh,
            "cosh" => Self::Cosh,
            "tanh" => Self::Tanh,
            "asinh" => Self::Asinh,
            "acosh" => Self::Acosh,
            "atanh" => Self::Atanh,
            _ => return None,
        })
    }

    #[inline]
    pub(super) fn apply(self, v: f64) -> f64 {
        match self {
            Self::Abs => v.abs(),
            Self::Ceil => v.ceil(),
            Self::Floor => v.floor(),
            Self::Exp => v.exp(),
            Self::Sqrt => v.sqrt(),
            Self::Ln => v.ln(),
            Self::Log2 => v.log2(),
            Self::Log10 => v.log10(),
            // Zero of either sign and NaN stay what they are.
            Self::Sgn if v < 0.0 => -1.0,
            Self::Sgn if v > 0.0 => 1.0,
            Self::Sgn => v,
            Self::Rad => v * std::f64::consts::PI / 180.0,
            Self::Deg => v * 180.0 / std::f64::consts::PI,
            Self::Sin => v.sin(),
            Self::Cos => v.cos(),
            Self::Tan => v.tan(),
            Self::Asin => v.asin(),
            Self::Acos => v.acos(),
            Self::Atan => v.atan(),
            Self::Sinh => v.sinh(),
            Self::Cosh => v.cosh(),
            Self::Tanh => v.tanh(),
            Self::Asinh => v.asinh(),
            Self::Acosh => v.acosh(),
            Self::Atanh => v.atanh(),
        }
    }
}

/// To the nearest multiple, ties upwards. Dividing by the inverse loses fewer digits: 0.3 / 0.1 is not 3.
pub(super) fn round_to(v: f64, nearest: f64) -> f64 {
    let inverse = 1.0 / nearest;
    (v * inverse + 0.5).floor() / inverse
}

/// As IEEE 754 `maximum`: NaN wins, unlike `f64::max`.
pub(super) fn max(a: f64, b: f64) -> f64 {
    match () {
        () if a == f64::INFINITY || b == f64::INFINITY => f64::INFINITY,
        () if a.is_nan() || b.is_nan() => f64::NAN,
        () => a.max(b),
    }
}

pub(super) fn min(a: f64, b: f64) -> f64 {
    -max(-a, -b)
}

/// Where the bounds cross there is no value.
pub(super) fn clamp(budget: &Budget<'_>, mut block: Block, low: &[f64], high: &[f64]) -> Result<Block> {
    for row in block.cells.chunks_exact_mut(block.width.max(1)) {
        budget.work(row.len())?;
        for ((cell, &low), &high) in row.iter_mut().zip(low).zip(high).filter(|((v, _), _)| present(**v)) {
            *cell = if high < low { ABSENT } else { max(low, min(high, *cell)) };
        }
    }
    block.drop_names();
    Ok(block.compacted())
}
