//! Weights by replica count, and what a weight makes of two recommendations.

use super::spec::{Axis, Interval, Ratio, expected_at};
use crate::input::InputError;

/// Replica counts from `start` to `last` scale with this vertical weight in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    pub start: i32,
    pub last: i32,
    pub weight: f64,
}

impl Ratio {
    /// The regions in order of replicas.
    pub fn regions(&self, min: i32, max: i32) -> Result<Vec<Region>, InputError> {
        if !self.intervals.is_empty() {
            let beside = |is_set: bool, field: &str| match is_set {
                true => Err(expected_at("intervals", &format!("not beside {field}"))),
                false => Ok(()),
            };
            beside(self.v_to_h_scaling_ratio.is_some(), "vToHScalingRatio")?;
            beside(self.vpa_weight.is_some(), "vpaWeight")?;
            return self
                .intervals
                .iter()
                .enumerate()
                .map(|(idx, interval)| interval.region(idx, min, max))
                .collect();
        }
        let weight = self.weight()?;
        let (start, finish) = (self.start_replica_count, self.finish_replica_count);
        let invalid = |field: &str, expected: &str| Err(expected_at(field, expected));
        if start < 0 {
            return invalid("startReplicaCount", "0 or more");
        }
        if finish < 0 || (finish > 0 && finish < start) {
            return invalid("finishReplicaCount", "0 or no fewer than startReplicaCount");
        }
        let mut regions = Vec::with_capacity(3);
        if start > min {
            let Some(axis) = self.initial_scaling else {
                return invalid("initialScaling", "vertical or horizontal, because startReplicaCount is set");
            };
            regions.push(Region { start: min, last: start - 1, weight: axis.weight() });
        }
        let last = if finish == 0 { max } else { finish };
        regions.push(Region { start: start.max(min), last, weight });
        if finish > 0 && finish < max {
            let Some(axis) = self.final_scaling else {
                return invalid("finalScaling", "vertical or horizontal, because finishReplicaCount is set");
            };
            regions.push(Region { start: finish + 1, last: max, weight: axis.weight() });
        }
        Ok(regions)
    }

    /// In percent: `100 * ratio / (1 + ratio)`, so 3 is 75.
    fn weight(&self) -> Result<f64, InputError> {
        let invalid = |field: &str, expected: &str| Err(expected_at(field, expected));
        match (self.vpa_weight, self.v_to_h_scaling_ratio) {
            (Some(_), Some(_)) => invalid("vpaWeight", "not beside vToHScalingRatio"),
            (None, None) => invalid("vToHScalingRatio", "a ratio, or vpaWeight, or intervals"),
            (Some(weight), None) if (0.0..=100.0).contains(&weight) => Ok(weight),
            (Some(_), None) => invalid("vpaWeight", "a number from 0 to 100"),
            (None, Some(ratio)) if ratio >= 0.0 && ratio.is_finite() => Ok(100.0 * ratio / (1.0 + ratio)),
            (None, Some(_)) => invalid("vToHScalingRatio", "a number of 0 or more"),
        }
    }
}

impl Interval {
    fn region(&self, idx: usize, min: i32, max: i32) -> Result<Region, InputError> {
        let invalid =
            |field: &str, expected: &str| Err(expected_at(&format!("intervals[{idx}].{field}"), expected));
        let start = if self.start_replica_count == 0 { min } else { self.start_replica_count };
        let last = if self.last_replica_count == 0 { max } else { self.last_replica_count };
        if !(0.0..=100.0).contains(&self.vpa_weight) {
            return invalid("vpaWeight", "a number from 0 to 100");
        }
        if start < 0 {
            return invalid("startReplicaCount", "0 or more");
        }
        if last < start {
            return invalid("lastReplicaCount", "no fewer than startReplicaCount");
        }
        Ok(Region { start, last, weight: self.vpa_weight })
    }
}

impl Axis {
    fn weight(self) -> f64 {
        match self {
            Axis::Horizontal => 0.0,
            Axis::Vertical => 100.0,
        }
    }
}

/// The first region that holds this count.
pub fn region_at(regions: &[Region], replicas: i32) -> Option<usize> {
    regions.iter().position(|region| (region.start..=region.last).contains(&replicas))
}

/// The weight at `replicas` for a horizontal move by `delta`. The first region that matches counts, none counts as 0.
///
/// In a region of weight 100 the horizontal side would never get out again, so a move borrows the weight of the
/// nearest region in its direction that leaves it a share.
pub fn weight_at(regions: &[Region], replicas: i32, delta: i32) -> f64 {
    let Some(idx) = region_at(regions, replicas) else { return 0.0 };
    let weight = regions[idx].weight;
    let leaves_a_share = |region: &&Region| region.weight < 100.0;
    let borrowed = match delta.signum() {
        _ if weight < 100.0 => None,
        -1 => regions[..idx].iter().rev().find(leaves_a_share),
        1 => regions[idx + 1..].iter().find(leaves_a_share),
        _ => None,
    };
    borrowed.map_or(weight, |region| region.weight)
}

/// The horizontal share of a move, rounded away from where it starts, so that small steps are not lost.
pub fn additive_replicas(replicas: i32, wanted: i32, weight: f64) -> i32 {
    let delta = f64::from(wanted) - f64::from(replicas);
    round_away(replicas, f64::from(replicas) + delta * (100.0 - weight) / 100.0)
}

/// The vertical share of a move, truncated toward where it starts.
pub fn additive_size(current: u64, target: u64, weight: f64) -> u64 {
    let share = (current.abs_diff(target) as f64 * weight / 100.0) as u64;
    if target > current { current.saturating_add(share) } else { current.saturating_sub(share) }
}

pub fn multiplicative_replicas(replicas: i32, wanted: i32, weight: f64) -> i32 {
    let factor = f64::from(wanted) / f64::from(replicas.max(1));
    round_away(replicas, f64::from(replicas) * factor.powf(1.0 - weight / 100.0))
}

/// A root of the vertical factor. Where both sides move, rounding the replicas away is made up for: the size becomes
/// what the larger of both total demands needs on `new_replicas` pods, between the current size and the target.
pub fn multiplicative_size(
    current: u64,
    target: u64,
    weight: f64,
    (replicas, wanted, new_replicas): (i32, i32, i32),
) -> u64 {
    let size = if wanted == replicas || current == 0 {
        current as f64 * (target as f64 / (current as f64).max(1.0)).powf(weight / 100.0)
    } else {
        let total = (f64::from(wanted) * current as f64).max(f64::from(replicas) * target as f64);
        total / f64::from(new_replicas.max(1))
    };
    let size = if current == 0 { additive_size(current, target, weight) } else { size.ceil() as u64 };
    size.clamp(current.min(target), current.max(target))
}

fn round_away(from: i32, to: f64) -> i32 {
    // A billionth of a replica is floating-point dust, not demand.
    const DUST: f64 = 1e-9;
    if to > f64::from(from) { (to - DUST).ceil() as i32 } else { (to + DUST).floor() as i32 }
}
