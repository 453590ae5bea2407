//! The median and its interval by order statistics.

/// A median and the 95 % confidence interval it lies in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Median of the samples.
    pub median: f64,
    /// Upper bound.
    pub high: f64,
}

/// Returns the median of `samples` and its 95 % interval: the widest pair of order statistics
/// that misses the true median with a probability of at most 2.5 % on either side. `None` for
/// less than 6 samples, whose range does not cover 95 %, and where one is not a number.
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.iter().any(|sample| sample.is_nan()) {
        return None;
    }
    let count = sorted.len();
    let below = ranks_below(count).checked_sub(1)?;
    let middle = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
    Some(Interval { low: sorted[below], median: middle, high: sorted[count - 1 - below] })
}

/// Returns the greatest `k` for which fewer than `k` of `count` fair coins fall heads with a
/// probability of at most 2.5 %; 0 where there is none.
fn ranks_below(count: usize) -> usize {
    // The chance of exactly `k` heads, from that of `k - 1`; 0.5^count is exact to 1,000 and more.
    let mut chance = 0.5_f64.powi(count as i32);
    let mut sum = 0.0;
    for k in 0..count {
        sum += chance;
        if sum > 0.025 {
            return k;
        }
        chance *= (count - k) as f64 / (k + 1) as f64;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks from published tables of the sign test (two-sided, 5 %).
    #[test]
    fn ranks() {
        for (count, rank) in [(5, 0), (6, 1), (9, 2), (12, 3), (30, 10), (31, 10), (100, 40)] {
            assert_eq!(ranks_below(count), rank, "{count} samples");
        }
    }

    #[test]
    fn intervals() {
        let samples: Vec<f64> = (1..=30).rev().map(f64::from).collect();
        let expected = Interval { low: 10.0, median: 15.5, high: 21.0 };
        assert_eq!(median_interval(&samples), Some(expected));
        assert_eq!(median_interval(&samples[..5]), None);
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[f64::NAN; 30]), None);
    }

    #[test]
    fn one_outlier_moves_no_bound_far() {
        let mut samples = vec![2.0; 30];
        samples[7] = 1e9;
        let expected = Interval { low: 2.0, median: 2.0, high: 2.0 };
        assert_eq!(median_interval(&samples), Some(expected));
    }
}
