//! Sums, means and quantiles that do not lose what is small next to what is large.

/// Compensated sum (Neumaier): keeps what each addition rounds away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neumaier {
    total: f64,
    rest: f64,
}

impl Neumaier {
    pub(crate) fn new(first: f64) -> Self {
        Self { total: first, rest: 0.0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        let sum = self.total + value;
        if sum.is_infinite() {
            self.rest = 0.0;
        } else if self.total.abs() >= value.abs() {
            self.rest += (self.total - sum) + value;
        } else {
            self.rest += (value - sum) + self.total;
        }
        self.total = sum;
    }

    pub(crate) fn sum(&self) -> f64 {
        self.total + self.rest
    }
}

/// The mean of a sum as long as that does not overflow, and a running mean from there on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mean {
    sum: Neumaier,
    count: f64,
    running: bool,
}

impl Mean {
    pub(crate) fn new(first: f64) -> Self {
        Self { sum: Neumaier::new(first), count: 1.0, running: false }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        if !self.running {
            let mut next = self.sum;
            next.add(value);
            if !next.total.is_infinite() {
                self.sum = next;
                return;
            }
            self.running = true;
            self.sum.total /= self.count - 1.0;
            self.sum.rest /= self.count - 1.0;
        }
        let share = (self.count - 1.0) / self.count;
        self.sum.total *= share;
        self.sum.rest *= share;
        self.sum.add(value / self.count);
    }

    pub(crate) fn mean(&self) -> f64 {
        match self.running {
            true => self.sum.sum(),
            false => self.sum.total / self.count + self.sum.rest / self.count,
        }
    }
}

/// The `q`-quantile, interpolated between the two nearest values; sorts `values` (NaN first).
pub(crate) fn quantile(q: f64, values: &mut [f64]) -> f64 {
    match q {
        _ if values.is_empty() || q.is_nan() => return f64::NAN,
        q if q < 0.0 => return f64::NEG_INFINITY,
        q if q > 1.0 => return f64::INFINITY,
        _ => {}
    }
    values.sort_unstable_by(|a, b| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(b),
        (a_nan, b_nan) => b_nan.cmp(&a_nan),
    });
    let rank = q * (values.len() - 1) as f64;
    let lower = rank.floor() as usize;
    let upper = (lower + 1).min(values.len() - 1);
    let weight = rank - rank.floor();
    values[lower] * (1.0 - weight) + values[upper] * weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_what_is_small_and_means_do_not_overflow() {
        let mut sum = Neumaier::new(1e100);
        [1.0, -1e100].iter().for_each(|&v| sum.add(v));
        assert_eq!(sum.sum(), 1.0);

        let mut mean = Mean::new(f64::MAX);
        mean.add(f64::MAX);
        assert_eq!(mean.mean(), f64::MAX);
        let mut mean = Mean::new(f64::INFINITY);
        mean.add(1.0);
        assert_eq!(mean.mean(), f64::INFINITY);
    }

    #[test]
    fn quantiles() {
        let of = |q, values: &[f64]| quantile(q, &mut values.to_vec());
        assert_eq!(of(0.5, &[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(of(0.25, &[0.0, 2.0]), 0.5);
        assert_eq!(of(1.0, &[0.0, 2.0]), 2.0);
        assert_eq!(of(-0.1, &[1.0]), f64::NEG_INFINITY);
        assert_eq!(of(1.1, &[1.0]), f64::INFINITY);
        assert!(of(f64::NAN, &[1.0]).is_nan() && of(0.5, &[]).is_nan());
    }
}
