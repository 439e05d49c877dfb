//! Equality up to rounding.

/// The two differ by less than the share `epsilon` of their sum, or are both NaN.
pub(crate) fn equal(a: f64, b: f64, epsilon: f64) -> bool {
    if a == b || (a.is_nan() && b.is_nan()) {
        return true;
    }
    let sum = a.abs() + b.abs();
    let difference = (a - b).abs();
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < epsilon * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < epsilon
}
