//! What keeps a scaler calm: stabilization windows, budgets over rolling periods, cooldowns.
//!
//! Memory is plain values that survive a serialize/deserialize at any point. A clock that jumps back makes no negative
//! windows: moments later than `now` count as `now`.

mod budget;
mod cooldown;
mod recommendations;

pub use budget::{Budget, Change, Changes, Direction, Policy, PolicyType, Rates, Select};
pub use cooldown::{Cooldown, cooling};
pub use recommendations::{Edge, Held, Recommendation, Recommendations, Stabilized, Windows};

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

/// The first moment after `at`, for what still holds at `at` itself. Timers have no finer grain than this.
pub fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_millis(1)).unwrap_or(Timestamp::MAX)
}

/// A length of time in words: `45 s`, `20 min`, `1 h 30 min`.
pub fn span(seconds: i64) -> String {
    let (minutes, rest) = (seconds / 60, seconds % 60);
    match (minutes / 60, minutes % 60, rest) {
        (0, 0, rest) => format!("{rest} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, rest) => format!("{minutes} min {rest} s"),
        (hours, 0, 0) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
