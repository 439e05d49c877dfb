//! The values of one series.
//!
//! A column is a count and tokens; the two low bits of a token say what it is, the rest is its argument:
//! - repeat: the value before, so many times more (a gauge that does not move costs one or two bytes in all)
//! - integer: the difference to the integer before (a counter costs one to three bytes a value)
//! - bits: so many bytes of the value's bits, exclusive-or with the bits before, from the sign down
//! - stale: so many stale markers more

use promql::{STALE, is_stale};

use super::Error;
use super::reader::{Reader, unzigzag};
use super::writer::{Writer, zigzag};

const REPEAT: u64 = 0;
const INTEGER: u64 = 1;
const BITS: u64 = 2;
const STALE_RUN: u64 = 3;

/// The value before, as each kind of token sees it.
#[derive(Clone, Copy, Default)]
struct Before {
    value: f64,
    integer: i64,
}

impl Before {
    fn next(self, value: f64) -> Self {
        Self { value, integer: as_integer(value).unwrap_or(self.integer) }
    }
}

/// The integer that gives exactly these bits back, if there is one; -0.0 has none.
fn as_integer(value: f64) -> Option<i64> {
    let integer = value as i64;
    let is_exact = value.abs() < (1_u64 << 53) as f64 && (integer as f64).to_bits() == value.to_bits();
    is_exact.then_some(integer)
}

pub(super) fn write(out: &mut Writer, values: &[f64]) {
    out.count(values.len());
    let mut before = Before::default();
    let mut rest = values;
    while let Some(&value) = rest.first() {
        let run = |is: &dyn Fn(f64) -> bool| rest.iter().take_while(|v| is(**v)).count();
        let n_stale = run(&is_stale);
        let n_same = run(&|v| v.to_bits() == before.value.to_bits());
        let taken = if n_stale > 0 {
            out.varint((n_stale as u64 - 1) << 2 | STALE_RUN);
            n_stale
        } else if n_same > 0 {
            out.varint((n_same as u64 - 1) << 2 | REPEAT);
            n_same
        } else if let Some(integer) = as_integer(value) {
            out.varint(zigzag(integer - before.integer) << 2 | INTEGER);
            before = before.next(value);
            1
        } else {
            let bits = (value.to_bits() ^ before.value.to_bits()).to_be_bytes();
            let n = 8 - bits.iter().rev().take_while(|b| **b == 0).count();
            out.varint((n as u64) << 2 | BITS);
            out.bytes(&bits[..n]);
            before = before.next(value);
            1
        };
        rest = &rest[taken..];
    }
}

/// At most `max` values; each is taken off `points_left` before it is made.
pub(super) fn read(reader: &mut Reader<'_>, max: usize, points_left: &mut usize) -> Result<Vec<f64>, Error> {
    let n = reader.number()?;
    if n > max {
        return Err(Error::Damaged("more values than times"));
    }
    *points_left = points_left.checked_sub(n).ok_or(Error::TooLarge { what: "points", limit: 0 })?;
    let mut values = Vec::with_capacity(n);
    let mut before = Before::default();
    while values.len() < n {
        let token = reader.varint()?;
        let argument = token >> 2;
        let (value, times) = match token & 3 {
            REPEAT => (before.value, argument.saturating_add(1)),
            STALE_RUN => (STALE, argument.saturating_add(1)),
            INTEGER => (before.integer.saturating_add(unzigzag(argument)) as f64, 1),
            _ => {
                if argument > 8 {
                    return Err(Error::Damaged("a value of more than eight bytes"));
                }
                let mut bits = [0; 8];
                bits[..argument as usize].copy_from_slice(reader.bytes(argument as usize)?);
                (f64::from_bits(u64::from_be_bytes(bits) ^ before.value.to_bits()), 1)
            }
        };
        if times > (n - values.len()) as u64 {
            return Err(Error::Damaged("a run that is longer than its column"));
        }
        values.extend(std::iter::repeat_n(value, times as usize));
        if token & 3 != STALE_RUN {
            before = before.next(value);
        }
    }
    Ok(values)
}
