//! What the functions of the language take and give.

use crate::plan::Kind;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    pub(crate) args: &'static [Kind],
    /// 0: exactly these arguments; n: the last one up to n times, or not at all; -1: any number of times, or not at all.
    pub(crate) variadic: i32,
    pub(crate) result: Kind,
}

use Kind::{Matrix as M, Scalar as S, String as T, Vector as V};

const fn vector(name: &'static str, args: &'static [Kind]) -> Signature {
    Signature { name, args, variadic: 0, result: V }
}

const fn variadic(name: &'static str, args: &'static [Kind], variadic: i32) -> Signature {
    Signature { name, args, variadic, result: V }
}

const fn scalar(name: &'static str, args: &'static [Kind]) -> Signature {
    Signature { name, args, variadic: 0, result: S }
}

const SIGNATURES: &[Signature] = &[
    vector("abs", &[V]),
    vector("absent", &[V]),
    vector("absent_over_time", &[M]),
    vector("acos", &[V]),
    vector("acosh", &[V]),
    vector("asin", &[V]),
    vector("asinh", &[V]),
    vector("atan", &[V]),
    vector("atanh", &[V]),
    vector("avg_over_time", &[M]),
    vector("ceil", &[V]),
    vector("changes", &[M]),
    vector("clamp", &[V, S, S]),
    vector("clamp_max", &[V, S]),
    vector("clamp_min", &[V, S]),
    vector("cos", &[V]),
    vector("cosh", &[V]),
    vector("count_over_time", &[M]),
    variadic("day_of_month", &[V], 1),
    variadic("day_of_week", &[V], 1),
    variadic("day_of_year", &[V], 1),
    variadic("days_in_month", &[V], 1),
    vector("deg", &[V]),
    vector("delta", &[M]),
    vector("deriv", &[M]),
    vector("double_exponential_smoothing", &[M, S, S]),
    scalar("end", &[]),
    vector("exp", &[V]),
    vector("first_over_time", &[M]),
    vector("floor", &[V]),
    vector("histogram_avg", &[V]),
    vector("histogram_count", &[V]),
    vector("histogram_fraction", &[S, S, V]),
    vector("histogram_quantile", &[S, V]),
    variadic("histogram_quantiles", &[V, T, S, S], 9),
    vector("histogram_stddev", &[V]),
    vector("histogram_stdvar", &[V]),
    vector("histogram_sum", &[V]),
    variadic("hour", &[V], 1),
    vector("idelta", &[M]),
    vector("increase", &[M]),
    variadic("info", &[V, V], 1),
    vector("irate", &[M]),
    variadic("label_join", &[V, T, T, T], -1),
    vector("label_replace", &[V, T, T, T, T]),
    vector("last_over_time", &[M]),
    vector("ln", &[V]),
    vector("log10", &[V]),
    vector("log2", &[V]),
    vector("mad_over_time", &[M]),
    scalar("max_of", &[S, S]),
    vector("max_over_time", &[M]),
    scalar("min_of", &[S, S]),
    vector("min_over_time", &[M]),
    variadic("minute", &[V], 1),
    variadic("month", &[V], 1),
    scalar("pi", &[]),
    vector("predict_linear", &[M, S]),
    vector("present_over_time", &[M]),
    vector("quantile_over_time", &[S, M]),
    vector("rad", &[V]),
    scalar("range", &[]),
    vector("rate", &[M]),
    vector("resets", &[M]),
    variadic("round", &[V, S], 1),
    scalar("scalar", &[V]),
    vector("sgn", &[V]),
    vector("sin", &[V]),
    vector("sinh", &[V]),
    vector("sort", &[V]),
    variadic("sort_by_label", &[V, T], -1),
    variadic("sort_by_label_desc", &[V, T], -1),
    vector("sort_desc", &[V]),
    vector("sqrt", &[V]),
    scalar("start", &[]),
    vector("start_timestamp", &[V]),
    vector("stddev_over_time", &[M]),
    vector("stdvar_over_time", &[M]),
    scalar("step", &[]),
    vector("sum_over_time", &[M]),
    vector("tan", &[V]),
    vector("tanh", &[V]),
    scalar("time", &[]),
    vector("timestamp", &[V]),
    vector("ts_of_first_over_time", &[M]),
    vector("ts_of_last_over_time", &[M]),
    vector("ts_of_max_over_time", &[M]),
    vector("ts_of_min_over_time", &[M]),
    vector("vector", &[S]),
    variadic("year", &[V], 1),
];

impl Signature {
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        SIGNATURES.binary_search_by(|s| s.name.cmp(name)).ok().and_then(|at| SIGNATURES.get(at))
    }

    /// What is wrong with so many arguments.
    pub(crate) fn check_count(&self, got: usize) -> Result<(), String> {
        let n = self.args.len();
        let (least, most) = match self.variadic {
            0 => (n, Some(n)),
            more => (n - 1, usize::try_from(more).ok().map(|more| n - 1 + more)),
        };
        let amount = match most {
            Some(most) if most == least => format!("{n}"),
            _ if got < least => format!("at least {least}"),
            Some(most) => format!("at most {most}"),
            None => return Ok(()),
        };
        match got >= least && most.is_none_or(|most| got <= most) {
            true => Ok(()),
            false => Err(format!("expected {amount} argument(s) in call to {:?}, got {got}", self.name)),
        }
    }

    /// The type of an argument.
    pub(crate) fn arg(&self, at: usize) -> Option<Kind> {
        self.args.get(at).or(self.args.last()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found() {
        assert!(SIGNATURES.iter().all(|s| Signature::of(s.name) == Some(s)));
        assert_eq!(Signature::of("Rate"), None);
    }
}
