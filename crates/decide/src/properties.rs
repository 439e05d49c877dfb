//! Laws that every policy keeps, whatever comes in. The tables beside each policy say what it does; these say what it
//! never does.

mod demand;
mod hpa;
mod vertex;
mod window;

use proptest::prelude::*;

/// Numbers that metrics really have, and those that only bugs have.
fn wild_i64() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => 0..2_000_000i64,
        1 => Just(0),
        1 => -1_000_000..0i64,
        1 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(i64::MAX - 1)],
        1 => any::<i64>(),
    ]
}

fn wild_f64() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..100_000.0f64,
        1 => Just(0.0),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(f64::MAX), Just(-1.0)],
        1 => any::<f64>(),
    ]
}

fn bad_f64() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), -1e300..-1e-9f64]
}

/// The items in another order: `by` picks which.
fn rotated<T: Clone>(items: &[T], by: usize) -> Vec<T> {
    let mut items = items.to_vec();
    if !items.is_empty() {
        let by = by % items.len();
        items.rotate_left(by);
        items.swap(0, by);
    }
    items
}
