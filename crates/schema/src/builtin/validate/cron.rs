//! The grammar of a CronJob's schedule: five fields or a descriptor, with the complaints people know.

/// What is wrong with `text`, if anything.
pub(super) fn fault(text: &str) -> Option<String> {
    check(text).err()
}

/// The values of one field, and their names.
struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

fn check(text: &str) -> Result<(), String> {
    // a zone in front is refused elsewhere, in words of its own
    let text = match text.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim_start(),
        _ => text,
    };
    if text.starts_with('@') {
        return descriptor(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            range(part, bounds)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    if let Some(duration) = text.strip_prefix("@every ") {
        return match jiff::fmt::friendly::SpanParser::new().parse_duration(duration) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("failed to parse duration {text}: time: invalid duration {duration:?}")),
        };
    }
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// `*`, `3`, `3-7`, each with `/step`.
fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (bounds.min, bounds.max)
    } else {
        let start = value(ends[0], bounds.names, bounds.min)?;
        match ends.as_slice() {
            [_] => (start, start),
            [_, end] => (start, value(end, bounds.names, bounds.min)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

/// A name counts from the smallest value: `jan` is 1, `sun` 0.
fn value(text: &str, names: &[&str], first: u32) -> Result<u32, String> {
    match names.iter().zip(first..).find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        Some((_, value)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = text.parse::<i64>().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })?;
    u32::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in
            ["* * * * *", "*/5 0-6 1,15 JAN-mar MON", "0 0 ? * 6", "@daily", "@every 1h30m", "5/15 * * * *"]
        {
            assert_eq!(fault(good), None, "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\""),
        ] {
            assert_eq!(fault(bad).as_deref(), Some(why), "{bad}");
        }
    }
}
