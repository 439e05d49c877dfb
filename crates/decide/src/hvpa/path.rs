//! The ratio as a path: for each need one pair of replicas and size.
//!
//! ```text
//! (minReplicas, minAllowed) ──initial──> ──ratio: d ln q = w/(1-w) d ln R──> ──final──> (maxReplicas, maxAllowed)
//! ```
//!
//! In logarithms a ratio is a slope: with as much vertical as horizontal, four times the need is twice the replicas at twice the
//! size, wherever it starts.

use super::ratio::{Region, region_at};

/// Pods that hold up to so many times the need are not worth a resize: a count that grows by one of five or more carries the sizes
/// along.
pub const SLACK: f64 = 1.2;

/// A way from the smallest pair to the largest; replicas times size grows along it.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Corners as natural logarithms of replicas and size.
    corners: Vec<(f64, f64)>,
}

impl Path {
    /// `sizes` are the smallest and the largest a pod may be; the largest may be infinite.
    pub fn new(regions: &[Region], (min, max): (i32, i32), (smallest, largest): (f64, f64)) -> Path {
        let stretches = stretches(regions, min, max);
        let top = largest.max(smallest).ln();
        let rise = |stretch: &Stretch| match stretch.weight {
            weight if weight < 100.0 => weight / (100.0 - weight) * (stretch.to / stretch.from).ln(),
            _ => 0.0,
        };
        let (mut replicas, mut size) = (f64::from(min.max(1)).ln(), smallest.max(1.0).ln());
        let mut corners = vec![(replicas, size)];
        for (idx, stretch) in stretches.iter().enumerate() {
            if stretch.weight >= 100.0 {
                // A stretch that only grows pods would never end by itself. It leaves the later ones the sizes that they
                // need to end at the largest, and shares the rest with others of its kind.
                let later = &stretches[idx + 1..];
                let reserved: f64 = later.iter().map(rise).sum();
                let n = 1 + later.iter().filter(|stretch| stretch.weight >= 100.0).count();
                size += ((top - size - reserved) / n as f64).max(0.0);
                corners.push((replicas, size));
                if size.is_infinite() {
                    return Path { corners };
                }
                replicas = stretch.to.ln();
            } else {
                let (wide, steep) = ((stretch.to / stretch.from).ln(), rise(stretch));
                if size + steep > top {
                    // The sizes end before the stretch does: the rest is replicas.
                    replicas += wide * ((top - size) / steep).clamp(0.0, 1.0);
                    size = top;
                    corners.push((replicas, size));
                } else {
                    size += steep;
                }
                replicas = stretch.to.ln();
            }
            corners.push((replicas, size));
        }
        corners.push((replicas, top.max(size)));
        Path { corners }
    }

    /// The replicas, not yet whole, at which the path provides `need` in all.
    pub fn replicas(&self, need: f64) -> f64 {
        let wanted = need.max(1.0).ln();
        for pair in self.corners.windows(2) {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            if wanted <= to + high {
                let length = (to - from) + (high - low);
                let share = if length > 0.0 { ((wanted - from - low) / length).clamp(0.0, 1.0) } else { 0.0 };
                // Straight up: an infinite length has no share to speak of.
                let replicas = if to > from { from + share * (to - from) } else { from };
                return replicas.exp();
            }
        }
        self.corners.last().map_or(1.0, |(replicas, _)| replicas.exp())
    }
}

/// The count nearest to the path; one that is half a step away or less stays. Where the need asks for no change, a whole step
/// stays too: a point that drifts within what is held would trade pods for sizes and back.
pub fn rounded(point: f64, current: i32, need_changes: bool) -> i32 {
    const DUST: f64 = 1e-6;
    let band = if need_changes { 0.5 } else { 1.0 };
    if (point - f64::from(current)).abs() <= band + DUST { current } else { point.round() as i32 }
}

struct Stretch {
    from: f64,
    to: f64,
    weight: f64,
}

/// Replica counts from `min` to `max` cut where the weight may change. A step counts to the region that it starts in.
fn stretches(regions: &[Region], min: i32, max: i32) -> Vec<Stretch> {
    let (min, max) = (min.max(1), max.max(1));
    let mut cuts: Vec<i32> = regions
        .iter()
        .flat_map(|region| [region.start, region.last.saturating_add(1)])
        .filter(|cut| (min + 1..max).contains(cut))
        .chain([min, max])
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2)
        .map(|pair| Stretch {
            from: pair[0].into(),
            to: pair[1].into(),
            weight: region_at(regions, pair[0]).map_or(0.0, |idx| regions[idx].weight),
        })
        .collect()
}
