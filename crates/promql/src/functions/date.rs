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

    /// NaN for what is no time that a calendar knows (years -9999 to 9999).
    pub(super) fn of_seconds(self, seconds: f64) -> f64 {
        if seconds.is_nan() {
            return f64::NAN;
        }
        let Ok(time) = jiff::Timestamp::from_second(seconds as i64) else { return f64::NAN };
        let time = jiff::tz::Offset::UTC.to_datetime(time);
        match self {
            Self::Minute => f64::from(time.minute()),
            Self::Hour => f64::from(time.hour()),
            Self::DayOfWeek => f64::from(time.weekday().to_sunday_zero_offset()),
            Self::DayOfMonth => f64::from(time.day()),
            Self::DayOfYear => f64::from(time.day_of_year()),
            Self::DaysInMonth => f64::from(time.days_in_month()),
            Self::Month => f64::from(time.month()),
            Self::Year => f64::from(time.year()),
        }
    }
}
