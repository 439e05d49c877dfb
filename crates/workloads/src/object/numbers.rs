//! `3` or `25%`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// The number itself, or that share of `total`. `None` for text that is no percentage.
pub(crate) fn scaled(value: &IntOrString, total: i32, round: Round) -> Option<i32> {
    match value {
        IntOrString::Int(n) => Some(*n),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let hundredths = percent * i64::from(total);
            let share = match round {
                Round::Up => hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) != 0),
                Round::Down => hundredths / 100,
            };
            i32::try_from(share).ok()
        }
    }
}

pub(crate) fn is_percentage(value: &IntOrString) -> bool {
    matches!(value, IntOrString::String(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let p = |text: &str| IntOrString::String(text.into());
        for (value, total, up, down) in [
            (IntOrString::Int(3), 10, Some(3), Some(3)),
            (p("25%"), 10, Some(3), Some(2)),
            (p("25%"), 4, Some(1), Some(1)),
            (p("0%"), 7, Some(0), Some(0)),
            (p("100%"), 7, Some(7), Some(7)),
            (p("1%"), 1, Some(1), Some(0)),
            (p("3"), 10, None, None),
            (p("x%"), 10, None, None),
            (p("99999999999%"), 10, None, None),
        ] {
            assert_eq!(scaled(&value, total, Round::Up), up, "{value:?} of {total}");
            assert_eq!(scaled(&value, total, Round::Down), down, "{value:?} of {total}");
        }
    }
}
