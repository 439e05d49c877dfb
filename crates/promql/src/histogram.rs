//! Quantiles and fractions of a classic histogram: cumulative counts under rising upper bounds.

/// How many observations were at or below `upper`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    pub upper: f64,
    pub count: f64,
}

/// Where counts fell with rising bounds, which a histogram cannot do, and had to be lifted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lifted {
    pub min_bound: f64,
    pub max_bound: f64,
    pub max_diff: f64,
}

/// Differences below this share are rounding, not a broken histogram.
const ROUNDING: f64 = 1e-12;

/// The value below which the share `q` of the observations lies, interpolated linearly within its bucket; the lowest
/// bucket begins at 0 if its bound is positive. In the highest bucket it is that bucket's lower bound.
///
/// `buckets` must be sorted by bound; they are changed in place. NaN without a `+Inf` bucket, without a second bucket
/// and without observations.
pub fn bucket_quantile(q: f64, buckets: &mut Vec<Bucket>) -> (f64, Option<Lifted>) {
    match q {
        q if q.is_nan() => return (f64::NAN, None),
        q if q < 0.0 => return (f64::NEG_INFINITY, None),
        q if q > 1.0 => return (f64::INFINITY, None),
        _ => {}
    }
    if buckets.last().is_none_or(|b| b.upper != f64::INFINITY) {
        return (f64::NAN, None);
    }
    coalesce(buckets);
    let lifted = make_monotonic(buckets);
    let [.., below_top, top] = buckets.as_slice() else { return (f64::NAN, lifted) };
    if top.count == 0.0 {
        return (f64::NAN, lifted);
    }
    let rank = q * top.count;
    let at =
        buckets[..buckets.len() - 1].partition_point(|b| b.count < rank || b.count.is_nan() || rank.is_nan());
    let value = match at {
        at if at == buckets.len() - 1 => below_top.upper,
        0 if buckets[0].upper <= 0.0 => buckets[0].upper,
        at => {
            let Bucket { upper, count } = buckets[at];
            let below = if at > 0 { buckets[at - 1] } else { Bucket { upper: 0.0, count: 0.0 } };
            below.upper + (upper - below.upper) * ((rank - below.count) / (count - below.count))
        }
    };
    (value, lifted)
}

/// The share of observations in `(lower, upper]`, interpolated as for quantiles.
pub fn bucket_fraction(lower: f64, upper: f64, buckets: &mut Vec<Bucket>) -> f64 {
    if buckets.last().is_none_or(|b| b.upper != f64::INFINITY) {
        return f64::NAN;
    }
    coalesce(buckets);
    let total = buckets.last().map_or(0.0, |b| b.count);
    if total == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    (rank_of(upper, buckets, total) - rank_of(lower, buckets, total)) / total
}

/// How many observations lie below `value`.
fn rank_of(value: f64, buckets: &[Bucket], total: f64) -> f64 {
    let mut below =
        Bucket { upper: if buckets[0].upper <= 0.0 { f64::NEG_INFINITY } else { 0.0 }, count: 0.0 };
    for bucket in buckets {
        if below.upper >= value {
            return if below.count > total { total } else { below.count };
        }
        if bucket.upper > value {
            // A bucket without a lower end cannot be divided: all of it counts.
            let inside = match below.upper {
                f64::NEG_INFINITY => bucket.count,
                from => below.count + (bucket.count - below.count) * (value - from) / (bucket.upper - from),
            };
            return if inside > total { total } else { inside };
        }
        below = *bucket;
    }
    total
}

/// Adds up buckets of one bound (`1` and `1.0` are two labels, but one bound).
fn coalesce(buckets: &mut Vec<Bucket>) {
    buckets.dedup_by(|next, kept| {
        let same = next.upper == kept.upper;
        if same {
            kept.count += next.count;
        }
        same
    });
}

fn make_monotonic(buckets: &mut [Bucket]) -> Option<Lifted> {
    let mut lifted: Option<Lifted> = None;
    let mut highest = buckets[0].count;
    for bucket in &mut buckets[1..] {
        let count = bucket.count;
        if count == highest {
            continue;
        }
        if nearly_equal(highest, count) {
            bucket.count = highest;
        } else if count < highest {
            bucket.count = highest;
            let fix = lifted.get_or_insert(Lifted {
                min_bound: f64::INFINITY,
                max_bound: f64::NEG_INFINITY,
                max_diff: 0.0,
            });
            fix.min_bound = fix.min_bound.min(bucket.upper);
            fix.max_bound = fix.max_bound.max(bucket.upper);
            fix.max_diff = fix.max_diff.max(highest - count);
        } else {
            highest = count;
        }
    }
    lifted
}

fn nearly_equal(a: f64, b: f64) -> bool {
    crate::almost::equal(a, b, ROUNDING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(pairs: &[(f64, f64)]) -> Vec<Bucket> {
        pairs.iter().map(|&(upper, count)| Bucket { upper, count }).collect()
    }

    const INF: f64 = f64::INFINITY;

    #[test]
    fn quantiles_interpolate_within_their_bucket() {
        let of = |q, pairs: &[(f64, f64)]| bucket_quantile(q, &mut buckets(pairs)).0;
        let latencies = [(0.1, 50.0), (0.5, 90.0), (1.0, 100.0), (INF, 100.0)];
        // Rank 95 is halfway between 90 and 100, so halfway between 0.5 and 1.
        assert_eq!(of(0.95, &latencies), 0.75);
        assert_eq!(of(0.25, &latencies), 0.05);
        assert_eq!(of(0.5, &[(1.0, 0.0), (INF, 4.0)]), 1.0, "the highest bucket has no upper end");
        assert_eq!(of(0.1, &[(-1.0, 5.0), (INF, 5.0)]), -1.0);
        assert!(of(0.5, &[(1.0, 0.0), (INF, 0.0)]).is_nan(), "no observations");
        assert!(of(0.5, &[(1.0, 5.0)]).is_nan(), "no +Inf bucket");
    }

    #[test]
    fn counts_that_fall_are_lifted_and_told() {
        let (value, lifted) = bucket_quantile(0.5, &mut buckets(&[(1.0, 8.0), (2.0, 5.0), (INF, 10.0)]));
        assert_eq!(value, 0.625);
        assert_eq!(lifted, Some(Lifted { min_bound: 2.0, max_bound: 2.0, max_diff: 3.0 }));
        assert_eq!(bucket_quantile(0.5, &mut buckets(&[(1.0, 8.0), (INF, 8.0 - 1e-14)])).1, None);
    }

    #[test]
    fn fractions() {
        let of =
            |lower, upper| bucket_fraction(lower, upper, &mut buckets(&[(1.0, 2.0), (2.0, 6.0), (INF, 8.0)]));
        assert_eq!(of(0.0, 1.5), 0.5);
        assert_eq!(of(1.0, 2.0), 0.5);
        assert_eq!(of(0.0, INF), 1.0);
        assert_eq!(of(3.0, 3.0), 0.0);
    }
}
