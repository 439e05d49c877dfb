//! Lines and smoothed curves through the samples of a window.

use super::stats::Neumaier;
use crate::eval::block::ABSENT;
use crate::eval::grid::Window;

/// `deriv`: per second. Times count from the first sample, so that their squares keep their digits.
pub(super) fn slope(w: &Window<'_>) -> f64 {
    if w.values.len() < 2 {
        return ABSENT;
    }
    line(w, w.times[0]).0
}

/// `predict_linear`: where the line will be `ahead` seconds after the step.
pub(super) fn predict(w: &Window<'_>, step_time: i64, ahead: f64) -> f64 {
    if w.values.len() < 2 {
        return ABSENT;
    }
    let (slope, at_step) = line(w, step_time);
    slope * ahead + at_step
}

/// Least squares: slope per second and value at `origin`.
fn line(w: &Window<'_>, origin: i64) -> (f64, f64) {
    let first = w.values[0];
    if w.values.iter().all(|&v| v == first) {
        return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
    }
    let [mut sum_x, mut sum_y, mut sum_xy, mut sum_xx] = [Neumaier::new(0.0); 4];
    for (&time, &y) in w.times.iter().zip(w.values) {
        let x = (time - origin) as f64 / 1000.0;
        sum_x.add(x);
        sum_y.add(y);
        sum_xy.add(x * y);
        sum_xx.add(x * x);
    }
    let n = w.values.len() as f64;
    let (x, y) = (sum_x.sum(), sum_y.sum());
    let covariance = sum_xy.sum() - x * y / n;
    let variance = sum_xx.sum() - x * x / n;
    let slope = covariance / variance;
    (slope, y / n - slope * x / n)
}

/// `double_exponential_smoothing`: a level and a trend, each pulled towards what the samples say.
pub(super) fn smooth(w: &Window<'_>, smoothing: f64, trend_factor: f64) -> f64 {
    let [first, second, ..] = w.values else { return ABSENT };
    let (mut before, mut level) = (0.0, *first);
    let mut trend = second - first;
    for (i, &value) in w.values.iter().enumerate().skip(1) {
        if i > 1 {
            trend = trend_factor * (level - before) + (1.0 - trend_factor) * trend;
        }
        let next = smoothing * value + (1.0 - smoothing) * (level + trend);
        (before, level) = (level, next);
    }
    level
}
