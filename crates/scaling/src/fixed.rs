//! A count that leaves no choice.

use std::fmt;

use decide::{Chain, Decision, Rule};
use serde::Serialize;

/// The only rule: as many as somebody says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase")]
pub enum Fixed {
    Count { replicas: i32, because: String },
}

impl Rule for Fixed {
    type Value = i32;

    fn name(&self) -> &'static str {
        "count"
    }

    fn apply(&self, _: &i32) -> i32 {
        let Self::Count { replicas, .. } = self;
        *replicas
    }

    fn code(&self, _: &i32, _: &i32) -> &'static str {
        "FixedCount"
    }

    fn words(&self, _: &i32, after: &i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Count { because, .. } = self;
        write!(out, "{because} fixes the count to {after}")
    }
}

/// `because` names what leaves no choice.
pub fn fixed(current: i32, replicas: i32, because: impl Into<String>) -> Decision<(), Fixed> {
    let mut chain = Chain::new(current);
    chain.push(Fixed::Count { replicas, because: because.into() });
    chain.finish((), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_count_is_a_decision_too() {
        let decision = fixed(5, 2, "scaleConfig");
        assert_eq!((decision.current, decision.desired, decision.reason.code), (5, 2, "FixedCount"));
        assert_eq!(decision.why(), "scaleConfig fixes the count to 2");
    }
}
