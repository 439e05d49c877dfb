//! Kubernetes quantities (`250m`, `64Mi`, `1e3`) as whole thousandths.

/// The quantity in thousandths of its unit, rounded up, or `None` when it is not a quantity.
///
/// Thousandths are fine enough: CPU is counted in them and memory in whole bytes. `"100n"` rounds up to 1.
pub fn parse_milli(text: &str) -> Option<i128> {
    let digits_end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (mantissa, decimals) = decimal(number)?;
    let (factor, divisor): (i128, i128) = match suffix {
        "" => (1000, 1),
        "n" => (1, 1_000_000),
        "u" => (1, 1000),
        "m" => (1, 1),
        "k" => (1_000_000, 1),
        "M" => (1_000_000_000, 1),
        "G" => (1_000_000_000_000, 1),
        "T" => (1_000_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000_000, 1),
        "Ki" => (1000 << 10, 1),
        "Mi" => (1000 << 20, 1),
        "Gi" => (1000 << 30, 1),
        "Ti" => (1000 << 40, 1),
        "Pi" => (1000 << 50, 1),
        "Ei" => (1000_i128 << 60, 1),
        exponent => match exponent.strip_prefix(['e', 'E'])?.parse::<i32>().ok()? {
            e @ 0..=18 => (1000 * 10_i128.pow(e.unsigned_abs()), 1),
            e @ -18..=-1 => (1000, 10_i128.pow(e.unsigned_abs())),
            _ => return None,
        },
    };
    let scaled = mantissa.checked_mul(factor)?;
    Some(div_ceil(scaled, divisor.checked_mul(10_i128.checked_pow(decimals)?)?))
}

/// `value / divisor` in whole units, rounded up, as `resourceFieldRef` shows it.
pub fn divide(value: &str, divisor: &str) -> Option<i128> {
    let divisor = match parse_milli(divisor)? {
        0 => 1000,
        milli => milli,
    };
    Some(div_ceil(parse_milli(value)?, divisor))
}

/// Whole bytes, for memory limits.
pub fn parse_bytes(text: &str) -> Option<u64> {
    u64::try_from(div_ceil(parse_milli(text)?, 1000)).ok()
}

/// `12.5` → (125, 1): the number without its point, and how many digits stood behind it.
fn decimal(text: &str) -> Option<(i128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    if digits.trim_start_matches(['+', '-']).is_empty() || fraction.len() > 18 {
        return None;
    }
    Some((digits.parse().ok()?, u32::try_from(fraction.len()).ok()?))
}

fn div_ceil(value: i128, divisor: i128) -> i128 {
    value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_in_thousandths() {
        for (text, milli) in [
            ("1", Some(1000)),
            ("250m", Some(250)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("64Mi", Some(67_108_864_000)),
            ("1e3", Some(1_000_000)),
            ("12E-1", Some(1200)),
            ("5E", Some(5_000_000_000_000_000_000_000)),
            ("100n", Some(1)),
            ("-1", Some(-1000)),
            ("", None),
            ("m", None),
            ("1Zi", None),
            ("1e999", None),
            ("99999999999999999999999999999999999999999", None),
        ] {
            assert_eq!(parse_milli(text), milli, "{text}");
        }
    }

    #[test]
    fn division_rounds_up_and_treats_no_divisor_as_one() {
        assert_eq!(divide("250m", "1"), Some(1));
        assert_eq!(divide("250m", "1m"), Some(250));
        assert_eq!(divide("64Mi", "1Mi"), Some(64));
        assert_eq!(divide("2", "0"), Some(2));
    }
}
