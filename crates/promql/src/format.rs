//! Numbers and times as Prometheus writes them.

/// The shortest decimal that reads back as the same number, never with an exponent; infinities carry their sign.
pub fn plain(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_string(),
        f64::INFINITY => "+Inf".to_string(),
        f64::NEG_INFINITY => "-Inf".to_string(),
        v => v.to_string(),
    }
}

/// As `plain`, but with an exponent below 1e-4 and from 1e6 on.
pub(crate) fn short(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || !magnitude.is_finite() || (1e-4..1e6).contains(&magnitude) {
        return plain(value);
    }
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

/// As a label value: always visibly a float, `1` becomes `1.0`.
pub(crate) fn open_metrics_float(value: f64) -> String {
    let text = short(value);
    if text.contains(['.', 'e']) || !value.is_finite() { text } else { text + ".0" }
}

/// Two significant digits.
pub(crate) fn two_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return plain(value);
    }
    let exponent = value.abs().log10().floor() as i32;
    if (-4..2).contains(&exponent) {
        let decimals = usize::try_from(1 - exponent).unwrap_or(0);
        let text = format!("{value:.decimals$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
            false => text,
        };
    }
    let mantissa = format!("{:.1}", value / 10f64.powi(exponent));
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", mantissa.trim_end_matches('0').trim_end_matches('.'), exponent.abs())
}

/// RFC 3339 in UTC, whole seconds.
pub(crate) fn time(millis: i64) -> String {
    match jiff::Timestamp::from_second(millis.div_euclid(1000)) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_prometheus_writes_them() {
        let cases = [
            (1.0, "1", "1.0", "1"),
            (0.5, "0.5", "0.5", "0.5"),
            (1e21, "1000000000000000000000", "1e+21", "1e+21"),
            (1234567.0, "1234567", "1.234567e+06", "1.2e+06"),
            (1.5e-7, "0.00000015", "1.5e-07", "1.5e-07"),
            (-2.0, "-2", "-2.0", "-2"),
            (1234.0, "1234", "1234.0", "1.2e+03"),
            (f64::INFINITY, "+Inf", "+Inf", "+Inf"),
            (f64::NAN, "NaN", "NaN", "NaN"),
        ];
        for (value, unscaled, label, two) in cases {
            assert_eq!(
                (plain(value), open_metrics_float(value), two_digits(value)),
                (unscaled.into(), label.into(), two.into())
            );
        }
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
    }
}
