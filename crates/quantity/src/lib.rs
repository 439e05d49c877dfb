//! Quantities (`100m`, `1.5Gi`, `1e3`): parsing, comparing and the canonical form the API stores.

use std::{cmp::Ordering, fmt};

/// An exact amount, in billionths. The API keeps no finer digits, and rounds away from zero what is finer.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// Which family of suffixes the text used: it is kept when the quantity is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
/// 2^63-1 whole units: the API caps what is larger.
const MAX: i128 = i64::MAX as i128 * NANO;
const BINARY: [(&str, u32); 6] = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
const DECIMAL: [(&str, i32); 10] =
    [("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0), ("m", -3), ("u", -6), ("n", -9)];

// === impl Quantity ===

impl Quantity {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(Error::Format);
        }
        let (scale, shift, format) = scale_of(suffix)?;
        let digits = [whole, fraction].concat();
        let exponent = scale - fraction.len() as i32 + 9;
        let magnitude = scaled(&digits, exponent, shift).min(MAX);
        Ok(Self { nano: if negative { -magnitude } else { magnitude }, format })
    }

    pub const fn whole(units: i64) -> Self {
        Self { nano: units as i128 * NANO, format: Format::Decimal }
    }

    /// The sum, written as the first of the two that is something.
    pub fn plus(self, other: Self) -> Self {
        let format = if self.nano == 0 { other.format } else { self.format };
        Self { nano: (self.nano + other.nano).clamp(-MAX, MAX), format }
    }

    /// The difference, written as the first of the two that is something.
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nano: -other.nano, ..other })
    }

    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }

    pub fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// Whether it is a whole number of units: pods, GPUs and other things that cannot be divided.
    pub fn is_whole(&self) -> bool {
        self.nano % NANO == 0
    }

    /// Thousandths, rounded away from zero: how CPU is counted.
    pub fn milli(&self) -> i64 {
        divide(self.nano, 1_000_000)
    }

    /// Whole units, rounded away from zero: how memory and counts are counted.
    pub fn units(&self) -> i64 {
        divide(self.nano, NANO)
    }

    /// How many times `divisor`, which must not be zero, is in it; rounded away from zero.
    pub fn divided_by(&self, divisor: Self) -> i64 {
        divide(self.nano, divisor.nano)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// The canonical form: no fraction, the largest suffix that loses nothing (`1.5Gi` is `1536Mi`, `0.5` is `500m`).
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let binary = self.format == Format::Binary && self.is_whole() && self.nano.abs() >= 1024 * NANO;
        if binary {
            let units = self.nano / NANO;
            let (suffix, bits) =
                BINARY.into_iter().find(|(_, bits)| units % (1_i128 << bits) == 0).unwrap_or(("", 0));
            return write!(f, "{}{suffix}", units >> bits);
        }
        let (suffix, power) = DECIMAL
            .into_iter()
            .find(|(_, power)| self.nano % 10_i128.pow((power + 9) as u32) == 0)
            .unwrap_or(("n", -9));
        let mantissa = self.nano / 10_i128.pow((power + 9) as u32);
        match (self.format, power) {
            (Format::Exponent, 0) | (Format::Decimal | Format::Binary, _) => write!(f, "{mantissa}{suffix}"),
            (Format::Exponent, power) => write!(f, "{mantissa}e{power}"),
        }
    }
}

/// `text` in canonical form, or `None` if it is no quantity.
pub fn canonical(text: &str) -> Option<String> {
    Quantity::parse(text).ok().map(|quantity| quantity.to_string())
}

/// The power of ten, the power of two and the family of a suffix.
fn scale_of(suffix: &str) -> Result<(i32, u32, Format), Error> {
    if let Some((_, bits)) = BINARY.into_iter().find(|(name, _)| *name == suffix) {
        return Ok((0, bits, Format::Binary));
    }
    if let Some((_, power)) = DECIMAL.into_iter().find(|(name, _)| *name == suffix) {
        return Ok((power, 0, Format::Decimal));
    }
    if let Some(exponent) = suffix.strip_prefix(['e', 'E'])
        && let Ok(power) = exponent.parse::<i32>()
    {
        return Ok((power.clamp(-100, 100), 0, Format::Exponent));
    }
    let shape = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = shape.strip_prefix(['-', '+']).unwrap_or(shape);
    if digits.bytes().all(|b| b.is_ascii_digit()) { Err(Error::Suffix) } else { Err(Error::Format) }
}

/// `digits × 10^exponent × 2^shift`, rounded up to a whole number and capped.
fn scaled(digits: &str, exponent: i32, shift: u32) -> i128 {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    // beyond 60 digits the amount is capped or below one billionth whatever follows
    if digits.len() as i32 + exponent > 30 {
        return MAX;
    }
    let keep = digits.len().min(34);
    let dropped = digits[keep..].bytes().any(|b| b != b'0');
    let exponent = exponent + (digits.len() - keep) as i32;
    let mut value: i128 = digits[..keep].parse().unwrap_or(i128::MAX);
    let mut remainder = dropped;
    let factor = 1_i128 << shift;
    value = match value.checked_mul(factor) {
        Some(value) => value,
        None if exponent >= 0 => return MAX,
        // precision is to spare: divide first
        None => {
            let divisor = 10_i128.checked_pow((-exponent).min(30) as u32).unwrap_or(i128::MAX);
            return (value / divisor).saturating_mul(factor).saturating_add(1);
        }
    };
    if exponent >= 0 {
        return 10_i128.checked_pow(exponent as u32).and_then(|p| value.checked_mul(p)).unwrap_or(MAX);
    }
    match 10_i128.checked_pow((-exponent) as u32) {
        Some(divisor) => {
            remainder |= value % divisor != 0;
            value /= divisor;
        }
        None => {
            remainder = true;
            value = 0;
        }
    }
    value + i128::from(remainder)
}

/// Away from zero, as the API rounds, and held at what fits.
fn divide(value: i128, divisor: i128) -> i64 {
    let (quotient, remainder) = (value / divisor, value % divisor);
    let away = match remainder {
        0 => 0,
        _ if (value < 0) == (divisor < 0) => 1,
        _ => -1,
    };
    let value = quotient + away;
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical_forms() {
        let cases = [
            "0",
            "0.5",
            "1.5Gi",
            "1536Mi",
            "1024Mi",
            "1000m",
            "100m",
            "1e3",
            "12e6",
            "1E",
            "0.1n",
            "1.1m",
            "-1.5k",
            "+2",
            ".5",
            "5.",
            "1000Ki",
            "0.5Ki",
            "123456789123456789123456789",
            "1Mi",
            "1e-3",
            "512",
            "1000k",
            "",
            ".",
            "1.2.3",
            "1Gb",
            "1 Gi",
            "abc",
            "1ki",
            "1e",
            "--1",
        ];
        let mut shown = String::new();
        for text in cases {
            match Quantity::parse(text) {
                Ok(quantity) => shown.push_str(&format!("{text} = {quantity} ({}m)\n", quantity.milli())),
                Err(error) => shown.push_str(&format!("{text}: {error}\n")),
            }
        }
        expect![[r#"
            0 = 0 (0m)
            0.5 = 500m (500m)
            1.5Gi = 1536Mi (1610612736000m)
            1536Mi = 1536Mi (1610612736000m)
            1024Mi = 1Gi (1073741824000m)
            1000m = 1 (1000m)
            100m = 100m (100m)
            1e3 = 1e3 (1000000m)
            12e6 = 12e6 (12000000000m)
            1E = 1E (9223372036854775807m)
            0.1n = 1n (1m)
            1.1m = 1100u (2m)
            -1.5k = -1500 (-1500000m)
            +2 = 2 (2000m)
            .5 = 500m (500m)
            5. = 5 (5000m)
            1000Ki = 1000Ki (1024000000m)
            0.5Ki = 512 (512000m)
            123456789123456789123456789 = 9223372036854775807 (9223372036854775807m)
            1Mi = 1Mi (1048576000m)
            1e-3 = 1e-3 (1m)
            512 = 512 (512000m)
            1000k = 1M (1000000000m)
            : quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            .: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            1.2.3: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            1Gb: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            1 Gi: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            abc: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
            1ki: unable to parse quantity's suffix
            1e: unable to parse quantity's suffix
            --1: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        "#]]
        .assert_eq(&shown);
    }

    proptest! {
        #![proptest_config(repeatable::cases(256))]

        #[test]
        fn writing_loses_nothing(whole in 0_u64..1 << 40, suffix in "(Ki|Mi|Gi|k|M|G|m|u||e3)") {
            let parsed = Quantity::parse(&format!("{whole}{suffix}")).unwrap();
            let again = Quantity::parse(&parsed.to_string()).unwrap();
            prop_assert_eq!(parsed, again);
            prop_assert_eq!(parsed.to_string(), again.to_string());
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn long_numbers_are_answered(digits in "[0-9]{1,80}(\\.[0-9]{0,80})?(e-?[0-9]{1,12}|Ei|n)?") {
            let _ = Quantity::parse(&digits);
        }
    }
}
