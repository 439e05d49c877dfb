//! Calendar parts of a time given in seconds since the epoch, in UTC.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatePart {
    Minute,
    Hour,
    DayOfWeek,
    DayOfMonth,
    DayOfYear,
    DaysInMonth,
    Month,
    Year,
}

impl DatePart {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "minute" => Self::Minute,
            "hour" => Self::Hour,
            "day_of_week" => Self::DayOfWeek,
            "day_of_month" => Self::DayOfMonth,
            "day_of_year" => Self::DayOfYear,
            "days_in_month" => Self::DaysInMonth,
            "month" => Self::Month,
            "year" => Self::Year,
            _ => return None,
        })
    }

    /// Any number of seconds, in the calendar of today. NaN is no time.
    pub(super) fn of_seconds(self, seconds: f64) -> f64 {
        if seconds.is_nan() {
            return f64::NAN;
        }
        let seconds = i128::from(seconds as i64);
        let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day_of_month) = civil(day);
        let value = match self {
            Self::Minute => second / 60 % 60,
            Self::Hour => second / 3_600,
            // The epoch began on a Thursday.
            Self::DayOfWeek => (day + 4).rem_euclid(7),
            Self::DayOfMonth => day_of_month,
            Self::DayOfYear => day - days_before(year, 1) + 1,
            Self::DaysInMonth if month == 12 => 31,
            Self::DaysInMonth => days_before(year, month + 1) - days_before(year, month),
            Self::Month => month,
            Self::Year => year,
        };
        value as f64
    }
}

/// Year, month and day of a day since the epoch. Years are counted from March on, so that the leap day is their last;
/// 400 of them have 146,097 days. A library would stop at the year 9999, Prometheus does not.
fn civil(day: i128) -> (i128, i128, i128) {
    let since = day + 719_468;
    let (era, in_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year_of_era = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day_of_month = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i128::from(month <= 2), month, day_of_month)
}

/// Days from the epoch to the first of a month.
fn days_before(year: i128, month: i128) -> i128 {
    let year = year - i128::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let in_year = (153 * from_march + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + in_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let parts =
            [DatePart::Year, DatePart::Month, DatePart::DayOfMonth, DatePart::DayOfWeek, DatePart::DayOfYear];
        for day in (-800_000_i64..2_900_000).step_by(97) {
            let seconds = day * 86_400 + 4_000;
            let date = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::from_second(seconds).unwrap());
            let expected = [
                f64::from(date.year()),
                f64::from(date.month()),
                f64::from(date.day()),
                f64::from(date.weekday().to_sunday_zero_offset()),
                f64::from(date.day_of_year()),
            ];
            assert_eq!(parts.map(|part| part.of_seconds(seconds as f64)), expected, "{date}");
            assert_eq!(
                DatePart::DaysInMonth.of_seconds(seconds as f64),
                f64::from(date.days_in_month()),
                "{date}"
            );
        }
        // 1e15 s are 11,574,074,074 days.
        assert_eq!(DatePart::Year.of_seconds(1e15), 31_690_708.0);
        assert_eq!(DatePart::Hour.of_seconds(1e15), 1.0);
        assert_eq!(DatePart::Minute.of_seconds(-1.0), 59.0);
    }
}
