//! Statistics of repeats: medians with order-statistic intervals, ratios, modes and drift.
//!
//! Nothing here assumes a distribution. An interval that the number of repeats cannot carry is not
//! given: below [`INTERVAL_REPEATS_MIN`] the ends are the smallest and the largest value, and say
//! so.

use niclab_load::Latency;

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// Fewest values for which an order-statistic interval of the median reaches [`CONFIDENCE`]:
/// with n values the widest one covers 1 - 2^(1-n).
pub const INTERVAL_REPEATS_MIN: usize = 6;

/// Fewest repeats from which anything is concluded.
pub const REPEATS_MIN: usize = 3;

/// Fewest values on which modes or drift are judged.
pub const SHAPE_REPEATS_MIN: usize = 6;

/// A gap between two modes that is a smaller share of the median than this is of no consequence.
const MODE_DISTANCE_MIN: f64 = 0.05;

/// Ashman's D above which two modes stand apart. Two normal modes are distinct from D = 2 when
/// their members are known; but the best split of one normal or uniform sample reaches 3.5 already.
/// At 10, at most 3 % of such samples of 6 to 30 values are blamed, and modes 30 deviations apart
/// are found (see the tests).
const ASHMAN_D_MIN: f64 = 10.0;

/// Two-sided 1 % point of the normal distribution: drift is judged at every point of a sweep, and
/// at 5 % each twentieth would be blamed by chance.
const DRIFT_Z_MIN: f64 = 2.576;

/// A median and where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Number of values behind it.
    pub repeats: usize,
    /// The meaning of `low` and `high`.
    pub ends: Ends,
}

/// The meaning of the ends of an [`Estimate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The 95 % confidence interval of the median.
    Interval,
    /// Smallest and largest value: too few values for an interval.
    Range,
}

impl Estimate {
    /// The interval, where there is one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.ends == Ends::Interval).then_some((self.low, self.high))
    }

    /// `true` where enough repeats say that the median is not `none`, the value that stands for no
    /// difference: 0 of a difference, 1 of a ratio.
    pub fn excludes(&self, none: f64) -> bool {
        self.repeats >= REPEATS_MIN && (self.low > none || self.high < none)
    }

    /// Whether the median lies above a threshold; `None` where the interval holds it, and of too
    /// few repeats.
    pub fn is_above(&self, threshold: f64) -> Option<bool> {
        match (self.low > threshold, self.high <= threshold) {
            _ if self.repeats < REPEATS_MIN => None,
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The same with its lower end in place of the median: the number behind "at least".
    pub fn at_least(self) -> Estimate {
        Estimate { median: self.low, ..self }
    }

    /// The same with its upper end in place of the median: the number behind "at most".
    pub fn at_most(self) -> Estimate {
        Estimate { median: self.high, ..self }
    }

    /// The same with every number multiplied by a positive `factor`.
    pub fn scaled(self, factor: f64) -> Estimate {
        Estimate {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }
}

/// The median of `values` with its interval; `None` where there are none.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    estimate_of(values, 1)
}

/// The median of `values` with an interval that is one of `comparisons`: all of them together hold
/// with [`CONFIDENCE`], whatever they have to do with one another (Bonferroni).
pub fn estimate_of(values: &[f64], comparisons: usize) -> Option<Estimate> {
    let sorted = sorted(values);
    let (&first, &last) = (sorted.first()?, sorted.last()?);
    let repeats = sorted.len();
    let median = median_of_sorted(&sorted);
    Some(match interval_rank(repeats, risk_of(comparisons)) {
        None => Estimate { median, low: first, high: last, repeats, ends: Ends::Range },
        Some(rank) => {
            let (low, high) = (sorted[rank - 1], sorted[repeats - rank]);
            Estimate { median, low, high, repeats, ends: Ends::Interval }
        }
    })
}

/// The median of `values`; `None` where there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median_of_sorted(&sorted(values)))
}

/// The median of `numerators[i] / denominators[i]` with its interval: what two quantities measured
/// side by side differ by, whatever both did over time. Pairs without a positive denominator are
/// no pairs.
pub fn paired_ratio(numerators: &[f64], denominators: &[f64]) -> Option<Estimate> {
    let pairs = numerators.iter().zip(denominators).filter(|(_, d)| **d > 0.0);
    let ratios: Vec<f64> = pairs.map(|(n, d)| n / d).collect();
    estimate(&ratios)
}

/// What a quantity is of another where repeats of the two are not paired: the median of the ratios
/// of each of `numerators` to each of `denominators`, with its interval. `None` where there are no
/// values on a side, or negative ones. Of two zeros the ratio is 1.
///
/// Logarithms make a ratio a shift. Of that the median of all differences is the Hodges-Lehmann
/// estimate, and the differences of `pairs_rank` are the ends of the interval that inverts the
/// Mann-Whitney test (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 4.2 and 4.3).
/// It takes no logarithm: ratios stand in the same order. Four values a side have an interval;
/// order-statistic intervals of two medians, joined without a higher risk, take seven, and were
/// twice as wide in simulation. Where the spreads of the two differ much the interval of 95 % may
/// cover 90 %, and less where the wider one has half as many values (see the tests).
pub fn unpaired_ratio(numerators: &[f64], denominators: &[f64]) -> Option<Estimate> {
    if numerators.iter().chain(denominators).any(|value| *value < 0.0) {
        return None;
    }
    let of = |(n, d): (f64, f64)| if n == d { 1.0 } else { n / d };
    let pairs = numerators.iter().flat_map(|n| denominators.iter().map(|d| (*n, *d)));
    let ratios = sorted(&pairs.map(of).collect::<Vec<f64>>());
    let (&first, &last) = (ratios.first()?, ratios.last()?);
    let repeats = numerators.len().min(denominators.len());
    let (median, ends) =
        (median_of_sorted(&ratios), pairs_rank(numerators.len(), denominators.len()));
    Some(match ends {
        None => Estimate { median, low: first, high: last, repeats, ends: Ends::Range },
        Some(rank) => {
            let (low, high) = (ratios[rank - 1], ratios[ratios.len() - rank]);
            Estimate { median, low, high, repeats, ends: Ends::Interval }
        }
    })
}

/// Values on both sides up to which the Mann-Whitney distribution is counted out; beyond that the
/// normal one is as good.
const COUNTED_OUT_MAX: usize = 50;

/// Two-sided 5 % point of the normal distribution.
const INTERVAL_Z: f64 = 1.96;

/// Largest k such that the k-th smallest and the k-th largest of all differences between values of
/// two samples enclose a shift with [`CONFIDENCE`]: 1 - 2 P(U <= k - 1), U that of Mann and
/// Whitney.
fn pairs_rank(one: usize, two: usize) -> Option<usize> {
    let (m, n) = (one as f64, two as f64);
    if one + two > COUNTED_OUT_MAX {
        let rank = m * n / 2.0 - INTERVAL_Z * (m * n * (m + n + 1.0) / 12.0).sqrt();
        return Some(rank as usize).filter(|rank| *rank > 0);
    }
    let ways = mann_whitney_ways(one, two);
    let all: f64 = ways.iter().sum();
    let mut tail = 0.0;
    let mut rank = 0;
    for (at, ways) in ways.iter().take(one * two).enumerate() {
        tail += ways / all;
        if 1.0 - 2.0 * tail < CONFIDENCE {
            break;
        }
        rank = at + 1;
    }
    (rank > 0).then_some(rank)
}

/// In how many orders of two samples U is 0, 1, …: the coefficients of the Gaussian binomial, the
/// product of (1 - q^(two + i)) / (1 - q^i). All are whole numbers below 2^53, so exact.
fn mann_whitney_ways(one: usize, two: usize) -> Vec<f64> {
    let mut ways = vec![0.0; one * two + 1];
    ways[0] = 1.0;
    for i in 1..=one {
        for at in (two + i..ways.len()).rev() {
            ways[at] -= ways[at - two - i];
        }
        for at in i..ways.len() {
            ways[at] += ways[at - i];
        }
    }
    ways
}

/// The allowed chance that one of `comparisons` intervals misses its median (Bonferroni).
fn risk_of(comparisons: usize) -> f64 {
    (1.0 - CONFIDENCE) / comparisons.max(1) as f64
}

/// Fewest values for which an interval that is one of `comparisons` reaches its confidence.
pub fn repeats_for(comparisons: usize) -> usize {
    let is_enough = |count: &usize| interval_rank(*count, risk_of(comparisons)).is_some();
    (1..).find(is_enough).unwrap_or(INTERVAL_REPEATS_MIN)
}

/// Largest k such that the k-th smallest and the k-th largest of `count` values enclose the median
/// but for this risk: 2 P(Bin(count, 1/2) <= k - 1).
fn interval_rank(count: usize, risk: f64) -> Option<usize> {
    let mut tail = 0.0;
    let mut term = 0.5f64.powi(count as i32);
    let mut rank = 0;
    for k in 0..count / 2 {
        tail += term;
        if 1.0 - 2.0 * tail < 1.0 - risk {
            break;
        }
        rank = k + 1;
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    (rank > 0).then_some(rank)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return sorted[middle];
    }
    (sorted[middle - 1] + sorted[middle]) / 2.0
}

/// All latencies of several trials in one histogram: percentiles are taken from it, never averaged.
pub fn merged<'a>(latencies: impl IntoIterator<Item = &'a Latency>) -> Latency {
    let mut all = Latency::new();
    for latency in latencies {
        // Both have the bounds that `Latency::new` gives, so an addition cannot fail; a histogram
        // read from a file with other bounds is recorded value by value.
        if all.0.add(&latency.0).is_err() {
            for step in latency.0.iter_recorded() {
                let value = step.value_iterated_to().min(niclab_load::histogram::LATENCY_NS_MAX);
                all.0.saturating_record_n(value, step.count_at_value());
            }
        }
    }
    all
}

/// `true` where `values` fall into two groups: the best split leaves groups that Ashman's D calls
/// distinct, neither is a lone value, and they differ by more than 5 % of the median.
pub fn is_bimodal(values: &[f64]) -> bool {
    if values.len() < SHAPE_REPEATS_MIN {
        return false;
    }
    let sorted = sorted(values);
    let smallest = (sorted.len() / 5).max(2);
    let splits = smallest..=sorted.len() - smallest;
    let best =
        splits.map(|at| Split::new(&sorted, at)).min_by(|a, b| a.within.total_cmp(&b.within));
    let Some(best) = best else { return false };
    let far = best.distance > MODE_DISTANCE_MIN * median_of_sorted(&sorted).abs();
    far && best.distance * 2f64.sqrt() > ASHMAN_D_MIN * best.spread
}

/// Two groups of a sorted sample.
struct Split {
    /// Sum of squares around the two means.
    within: f64,
    /// Between the two means.
    distance: f64,
    /// Root of the sum of the two variances.
    spread: f64,
}

impl Split {
    fn new(sorted: &[f64], at: usize) -> Split {
        let (low, high) = sorted.split_at(at);
        let ((mean_low, squares_low), (mean_high, squares_high)) = (squares(low), squares(high));
        let variance = |squares: f64, count: usize| squares / (count - 1) as f64;
        Split {
            within: squares_low + squares_high,
            distance: mean_high - mean_low,
            spread: (variance(squares_low, low.len()) + variance(squares_high, high.len())).sqrt(),
        }
    }
}

/// Mean, and the sum of the squares around it.
fn squares(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum())
}

/// `true` where `values`, in the order of measurement, rise or fall more steadily than chance would
/// let them in one of a hundred sweeps (Mann-Kendall, two-sided, ties allowed for).
pub fn drifts(values: &[f64]) -> bool {
    if values.len() < SHAPE_REPEATS_MIN {
        return false;
    }
    let mut score = 0.0;
    for (i, early) in values.iter().enumerate() {
        score += values[i + 1..].iter().map(|late| direction(late - early)).sum::<f64>();
    }
    let variance = kendall_variance(values);
    variance > 0.0 && (score.abs() - 1.0) / variance.sqrt() > DRIFT_Z_MIN
}

/// -1, 0 or 1.
fn direction(difference: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference.signum() }
}

/// Variance of Kendall's score where there is no drift, less what ties take away.
fn kendall_variance(values: &[f64]) -> f64 {
    let part = |n: usize| (n * (n - 1) * (2 * n + 5)) as f64 / 18.0;
    let sorted = sorted(values);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|tied| part(tied.len())).sum();
    part(values.len()) - ties
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
