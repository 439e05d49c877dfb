//! What keeps a scaler calm: stabilization windows, budgets over rolling periods, cooldowns.
//!
//! Memory is plain values that survive a serialize/deserialize at any point. A clock that jumps back makes no negative
//! windows: moments later than `now` count as `now`.

mod budget;
mod cooldown;
mod recommendations;

pub use budget::{Budget, Change, Changes, Direction, Policy, PolicyType, Select};
pub use cooldown::{Cooldown, cooling};
pub use recommendations::{Edge, Recommendation, Recommendations, Stabilized};

use jiff::{SignedDuration, Timestamp};

/// `at` moved by whole seconds, held at the ends of representable time.
pub fn after(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(if seconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// The moment `seconds` before `at`.
pub fn before(at: Timestamp, seconds: i64) -> Timestamp {
    after(at, seconds.saturating_neg())
}
