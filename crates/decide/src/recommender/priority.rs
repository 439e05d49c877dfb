//! Whether a running pod is far enough from its recommendation to be worth a resize.

use jiff::SignedDuration;

use super::amount::{Resource, Resources};

/// Pods are left alone for this long unless they are outside their range.
const MIN_AGE: SignedDuration = SignedDuration::from_hours(12);
/// Below a total of 10 % a resize is not worth its disruption.
const MIN_DIFF: f64 = 0.1;

/// One container of the pod: what it requests and what is recommended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    pub request: Resources,
    pub target: Resources,
    pub lower: Resources,
    pub upper: Resources,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priority {
    /// Some request lies outside [lower, upper].
    pub outside_range: bool,
    /// Some resource should grow.
    pub grows: bool,
    /// Sum over resources of |target - request| / request, each summed over the containers first.
    pub diff: f64,
}

pub fn priority(containers: &[Sizes]) -> Priority {
    let mut result = Priority { outside_range: false, grows: false, diff: 0.0 };
    for resource in Resource::ALL {
        let (mut requested, mut recommended) = (0u64, 0u64);
        for container in containers {
            let Some(target) = container.target.get(resource) else { continue };
            let request = container.request.get(resource);
            let q = request.unwrap_or(0);
            result.grows |= target > q;
            result.outside_range |= request.is_none()
                || container.lower.get(resource).is_some_and(|lower| q < lower)
                || container.upper.get(resource).is_some_and(|upper| q > upper);
            requested = requested.saturating_add(q);
            recommended = recommended.saturating_add(target);
        }
        if recommended != requested {
            result.diff += recommended.abs_diff(requested) as f64 / requested.max(1) as f64;
        }
    }
    result
}

impl Priority {
    /// Outside its range at once; an old pod when the difference is worth it; a pod that ran out of memory right
    /// after its start whenever there is any difference.
    pub fn is_due(&self, age: SignedDuration, quick_oom: bool) -> bool {
        self.outside_range || (quick_oom && self.diff > 0.0) || (age >= MIN_AGE && self.diff >= MIN_DIFF)
    }
}
