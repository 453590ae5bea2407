//! Zipf-distributed ranks: an alias table for the popular ones, rejection-inversion for the rest.
//!
//! The first [`HEAD_MAX`] ranks, and one column for all others together, stand in an alias table
//! (Walker 1977, Vose 1991): one random number, one multiplication, one look-up in 512 KiB. Ranks
//! beyond come from rejection-inversion (Hormann and Derflinger, ACM TOMACS 6(3), 1996), started
//! at the first of them; there hardly any draw is rejected.

use std::sync::Arc;

use rand::Rng;

/// Largest exponent.
pub const EXPONENT_MAX: f64 = 10.0;

/// Ranks in the table. Its 512 KiB stay in a level-2 cache; with exponent 1 and 16 Mi flows they
/// take 68 % of the draws.
const HEAD_MAX: u32 = 1 << 16;

/// One column of the alias table.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// The column keeps a draw whose fraction, of 2^32, is below this.
    threshold: u32,
    /// The rank that takes the others.
    alias: u32,
}

/// A Zipf distribution over the ranks `0..count`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    exponent: f64,
    /// Sum of all weights.
    total: f64,
    head_count: u32,
    columns: Arc<[Column]>,
    tail: Option<Tail>,
}

/// What rejection-inversion needs to draw from ranks `first..=last`, counted from 1.
#[derive(Clone, Copy, Debug)]
struct Tail {
    first: f64,
    last: f64,
    integral_low: f64,
    integral_high: f64,
}

impl Zipf {
    /// `count` of at least 1; `exponent` above 0, up to [`EXPONENT_MAX`].
    pub(super) fn new(count: u32, exponent: f64) -> Self {
        let head_count = count.min(HEAD_MAX);
        let mut weights: Vec<f64> = (1..=head_count).map(|k| weight(k.into(), exponent)).collect();
        let tail = (count > head_count).then(|| {
            weights.push(weight_sum(f64::from(head_count) + 1.0, count.into(), exponent));
            Tail::new(f64::from(head_count) + 1.0, count.into(), exponent)
        });
        let total = weights.iter().rev().sum(); // smallest first: less is rounded away
        let columns = alias_columns(&weights, total).into();
        Self { exponent, total, head_count, columns, tail }
    }

    /// Share of the draws that take `rank`.
    pub(super) fn share(&self, rank: u32) -> f64 {
        weight(f64::from(rank) + 1.0, self.exponent) / self.total
    }

    /// Draws a rank.
    #[inline]
    pub(super) fn draw(&self, rng: &mut impl Rng) -> u32 {
        let product = u128::from(rng.next_u64()) * self.columns.len() as u128;
        let column = (product >> 64) as u32;
        let fraction = (product as u64 >> 32) as u32;
        let Column { threshold, alias } = self.columns[column as usize];
        let rank = if fraction < threshold { column } else { alias };
        match &self.tail {
            Some(tail) if rank == self.head_count => tail.draw(self.exponent, rng),
            _ => rank,
        }
    }
}

/// Vose's construction: every column holds 1 / n of the whole, of at most two ranks.
fn alias_columns(weights: &[f64], total: f64) -> Vec<Column> {
    let scale = weights.len() as f64 / total;
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    let mut columns: Vec<Column> =
        (0..weights.len() as u32).map(|alias| Column { threshold: u32::MAX, alias }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|i| shares[*i] < 1.0);
    while let (Some(&lesser), Some(&greater)) = (small.last(), large.last()) {
        small.pop();
        let threshold = (shares[lesser] * 4_294_967_296.0) as u32;
        columns[lesser] = Column { threshold, alias: greater as u32 };
        shares[greater] -= 1.0 - shares[lesser];
        if shares[greater] < 1.0 {
            large.pop();
            small.push(greater);
        }
    }
    columns // what is left in either list is a full column, but for rounding
}

impl Tail {
    fn new(first: f64, last: f64, exponent: f64) -> Self {
        Self {
            first,
            last,
            integral_low: integral(first + 0.5, exponent) - weight(first, exponent),
            integral_high: integral(last + 0.5, exponent),
        }
    }

    /// Draws a rank, counted from 0.
    fn draw(&self, exponent: f64, rng: &mut impl Rng) -> u32 {
        loop {
            let uniform = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let at = self.integral_high + uniform * (self.integral_low - self.integral_high);
            let rank = integral_inverse(at, exponent).round().clamp(self.first, self.last);
            if at >= integral(rank + 0.5, exponent) - weight(rank, exponent) {
                return rank as u32 - 1;
            }
        }
    }
}

/// Weight of a rank, counted from 1.
fn weight(rank: f64, exponent: f64) -> f64 {
    (-exponent * rank.ln()).exp()
}

/// Sum of the weights of ranks `first..=last` by the Euler-Maclaurin formula up to the first
/// derivative; for ranks beyond [`HEAD_MAX`] its error is that of `f64` on the sum of all weights.
fn weight_sum(first: f64, last: f64, exponent: f64) -> f64 {
    let ends = (weight(first, exponent) + weight(last, exponent)) / 2.0;
    let slope = |rank: f64| -exponent * weight(rank, exponent) / rank;
    integral(last, exponent) - integral(first, exponent)
        + ends
        + (slope(last) - slope(first)) / 12.0
}

/// Integral of the weight from 1 to `x`, also for exponents near 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let ln = x.ln();
    let t = (1.0 - exponent) * ln;
    if t.abs() < 1e-12 { ln } else { t.exp_m1() / t * ln }
}

/// The `x` to which [`integral`] is `value`.
fn integral_inverse(value: f64, exponent: f64) -> f64 {
    let t = (value * (1.0 - exponent)).max(-1.0); // rounding may go below
    let ln = if t.abs() < 1e-12 { value } else { t.ln_1p() / t * value };
    ln.exp()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Pearson's statistic of draws against the shares, over buckets of doubling width.
    fn chi_square(count: u32, exponent: f64) -> (f64, usize) {
        const DRAWS: u32 = 1_000_000;
        let zipf = Zipf::new(count, exponent);
        let bucket = |rank: u32| (rank + 1).ilog2() as usize;
        let mut seen = [0u32; 33];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        for _ in 0..DRAWS {
            seen[bucket(zipf.draw(&mut rng))] += 1;
        }
        let mut expected = [0.0; 33];
        for rank in 0..count {
            expected[bucket(rank)] += zipf.share(rank) * f64::from(DRAWS);
        }
        assert!((expected.iter().sum::<f64>() / f64::from(DRAWS) - 1.0).abs() < 1e-9);
        let pairs = seen.iter().zip(expected).filter(|(_, expected)| *expected > 5.0);
        let terms: Vec<f64> = pairs.map(|(n, e)| (f64::from(*n) - e).powi(2) / e).collect();
        (terms.iter().sum(), terms.len())
    }

    #[test]
    fn shape_is_the_known_one() {
        for count in [1, 10, 1000, HEAD_MAX, HEAD_MAX + 1, 1 << 20] {
            for exponent in [0.1, 0.9, 1.0, 1.1, 2.0] {
                let (statistic, buckets) = chi_square(count, exponent);
                // One in 100,000 for 20 degrees of freedom is 62.
                assert!(statistic < 62.0, "{count} {exponent}: {statistic} in {buckets}");
            }
        }
    }

    #[test]
    fn shape_within_the_tail() {
        // Ranks beyond the table, single ones: 200 draws of each are expected.
        let (first, last, exponent) = (65_537.0, 66_536.0, 1.2);
        let tail = Tail::new(first, last, exponent);
        let sum = weight_sum(first, last, exponent);
        let mut seen = [0u32; 1000];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        for _ in 0..200_000 {
            seen[(tail.draw(exponent, &mut rng) - 65_536) as usize] += 1;
        }
        let statistic: f64 = seen
            .iter()
            .enumerate()
            .map(|(i, n)| {
                let expected = 200_000.0 * weight(first + i as f64, exponent) / sum;
                (f64::from(*n) - expected).powi(2) / expected
            })
            .sum();
        // 999 degrees of freedom: standard deviation 45.
        assert!((800.0..1200.0).contains(&statistic), "{statistic}");
    }

    #[test]
    fn sums_are_exact() {
        for exponent in [0.1, 1.0, 3.0] {
            let direct: f64 = (65_537..=100_000u32).rev().map(|k| weight(k.into(), exponent)).sum();
            let formula = weight_sum(65_537.0, 100_000.0, exponent);
            assert!(
                (formula - direct).abs() < 1e-14 * direct.max(1.0),
                "{exponent}: {formula} {direct}"
            );
        }
    }

    #[test]
    fn ranks_stay_in_bounds() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for (count, exponent) in
            [(1, 0.5), (2, EXPONENT_MAX), (70_000, EXPONENT_MAX), (70_000, 1e-9)]
        {
            let zipf = Zipf::new(count, exponent);
            assert!((0..100_000).all(|_| zipf.draw(&mut rng) < count));
        }
    }
}
