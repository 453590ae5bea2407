//! Each statistic on distributions with known answers, seeded.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn normal(mean: f64, deviation: f64, count: usize, seed: u64) -> Vec<f64> {
    let normal = Normal::new(mean, deviation).unwrap();
    normal.sample_iter(random(seed)).take(count).collect()
}

#[test]
fn ranks_are_those_of_the_published_tables() {
    // Conover, Practical Nonparametric Statistics, table of the binomial with p = 1/2.
    let table = [(5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (12, Some(3)), (20, Some(6))];
    for (count, rank) in table {
        assert_eq!(interval_rank(count, risk_of(1)), rank, "{count} values");
    }
    assert_eq!(interval_rank(30, risk_of(1)), Some(10));
    assert_eq!(interval_rank(INTERVAL_REPEATS_MIN - 1, risk_of(1)), None);
}

#[test]
fn intervals_that_hold_together_take_more_values_and_are_wider() {
    // Two ends beyond the median by chance: 2^(1-n), against a share of 5 %.
    let fewest = [1, 2, 4, 10, 100].map(repeats_for);
    assert_eq!(fewest, [6, 7, 8, 9, 12]);
    let values: Vec<f64> = (1..=12).map(f64::from).collect();
    let ends = |comparisons| {
        let of = estimate_of(&values, comparisons).unwrap();
        (of.low, of.high, of.ends)
    };
    assert_eq!(ends(1), (3.0, 10.0, Ends::Interval));
    assert_eq!(ends(2), (2.0, 11.0, Ends::Interval));
    assert_eq!(ends(100), (1.0, 12.0, Ends::Interval));
    assert_eq!(ends(200), (1.0, 12.0, Ends::Range));
}

#[test]
fn a_median_has_its_interval_or_says_that_it_has_none() {
    assert_eq!(estimate(&[]), None);
    let few = estimate(&[3.0, 1.0, 2.0]).unwrap();
    assert_eq!((few.median, few.low, few.high, few.ends), (2.0, 1.0, 3.0, Ends::Range));
    assert_eq!(few.interval(), None);
    let even = estimate(&[6.0, 1.0, 5.0, 2.0, 4.0, 3.0]).unwrap();
    assert_eq!((even.median, even.interval()), (3.5, Some((1.0, 6.0))));
    let nine: Vec<f64> = (1..=9).map(f64::from).collect();
    assert_eq!(estimate(&nine).unwrap().interval(), Some((2.0, 8.0)));
    assert_eq!(estimate(&nine).unwrap().scaled(2.0).interval(), Some((4.0, 16.0)));
}

#[test]
fn the_interval_covers_the_true_median_as_often_as_it_says() {
    // The exponential distribution: skewed, median ln 2.
    let mut random = random(7);
    for count in [6, 9, 15, 30] {
        let covered = (0..4_000).filter(|_| {
            let values: Vec<f64> = (0..count).map(|_| Exp1.sample(&mut random)).collect();
            let estimate = estimate(&values).unwrap();
            (estimate.low..=estimate.high).contains(&2f64.ln())
        });
        let share = covered.count() as f64 / 4_000.0;
        assert!((0.94..0.99).contains(&share), "{count} values: {share}");
    }
}

#[test]
fn pairs_cancel_what_both_share() {
    let mut random = random(3);
    let machine: Vec<f64> = (0..30).map(|_| random.random_range(1.0..1.8)).collect();
    let ours: Vec<f64> = machine.iter().map(|m| m * 3.0).collect();
    let ratio = paired_ratio(&ours, &machine).unwrap();
    assert!((ratio.median - 3.0).abs() < 1e-9 && (ratio.high - ratio.low) < 1e-9);
    assert_eq!(paired_ratio(&[1.0, 2.0], &[0.0, 4.0]).unwrap().median, 0.5);
    assert_eq!(paired_ratio(&[1.0], &[0.0]), None);
}

#[test]
fn ranks_of_pairs_are_those_of_the_published_tables() {
    // Critical values of U, two-sided, 5 % (Mann and Whitney 1947, Auble 1953), plus one.
    let table = [(3, 3, None), (4, 3, None), (4, 4, Some(1)), (5, 3, Some(1)), (5, 5, Some(3))];
    let more = [(6, 6, Some(6)), (8, 8, Some(14)), (10, 10, Some(24)), (12, 6, Some(15))];
    let most = [(20, 20, Some(128)), (0, 9, None)];
    for (one, two, rank) in table.into_iter().chain(more).chain(most) {
        assert_eq!(pairs_rank(one, two), rank, "{one} and {two} values");
        assert_eq!(pairs_rank(two, one), rank, "{two} and {one} values");
    }
    // Where counting ends the approximation goes on.
    let (counted, near) = (pairs_rank(25, 25).unwrap(), pairs_rank(26, 25).unwrap());
    assert!(counted == 212 && (212..226).contains(&near), "{counted}, {near}");
    assert_eq!(mann_whitney_ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
}

#[test]
fn a_ratio_of_what_is_not_paired_has_its_interval_or_says_that_it_has_none() {
    let ratio = |over: &[f64], under: &[f64]| unpaired_ratio(over, under);
    let few = ratio(&[4.0, 2.0], &[1.0, 2.0]).unwrap();
    assert_eq!((few.median, few.low, few.high, few.interval()), (2.0, 1.0, 4.0, None));
    let four = ratio(&[8.0, 9.0, 10.0, 11.0], &[10.0, 10.0, 10.0, 20.0]).unwrap();
    assert_eq!(four.interval(), Some((0.4, 1.1)));
    let lost = ratio(&[0.0; 4], &[0.0, 0.0, 0.0, 5.0]).unwrap();
    assert_eq!((lost.median, lost.interval()), (1.0, Some((0.0, 1.0))));
    assert_eq!(ratio(&[5.0; 4], &[0.0; 4]).unwrap().median, f64::INFINITY);
    assert_eq!([ratio(&[], &[1.0]), ratio(&[1.0], &[]), ratio(&[-1.0], &[1.0])], [None; 3]);
}

/// How often the interval of a ratio covers 1.25, of so many pairs of samples.
fn covered(
    sizes: (usize, usize),
    mut over: impl FnMut() -> f64,
    mut under: impl FnMut() -> f64,
) -> f64 {
    let covered = (0..4_000).filter(|_| {
        let over: Vec<f64> = (0..sizes.0).map(|_| over() * 1.25).collect();
        let under: Vec<f64> = (0..sizes.1).map(|_| under()).collect();
        let (low, high) = unpaired_ratio(&over, &under).unwrap().interval().unwrap();
        (low..=high).contains(&1.25)
    });
    covered.count() as f64 / 4_000.0
}

#[test]
fn the_interval_of_a_ratio_covers_the_true_one_as_often_as_it_says() {
    let calm = |deviation: f64, seed| {
        let (normal, mut random) = (Normal::new(0.0, deviation).unwrap(), random(seed));
        move || f64::exp(normal.sample(&mut random))
    };
    let skewed = |seed| {
        let mut random = random(seed);
        move || Exp1.sample(&mut random)
    };
    // A third of the trials meets stalls, the others are all but equal.
    let stalled = |seed| {
        let mut random = random(seed);
        move || match random.random_range(0..3) {
            0 => random.random_range(0.5..1.0),
            _ => random.random_range(0.99..1.01),
        }
    };
    for sizes in [(4, 4), (6, 6), (6, 12), (15, 15), (30, 25)] {
        let shares = [
            covered(sizes, calm(0.1, 1), calm(0.1, 2)),
            covered(sizes, skewed(3), skewed(4)),
            covered(sizes, stalled(5), stalled(6)),
        ];
        assert!(shares.iter().all(|share| (0.94..0.98).contains(share)), "{sizes:?}: {shares:?}");
        let spread = covered(sizes, calm(0.3, 7), calm(0.1, 8));
        assert!((0.88..0.99).contains(&spread), "{sizes:?}, three times the spread: {spread}");
    }
}

#[test]
fn percentiles_come_from_merged_histograms() {
    let (mut fast, mut slow) = (Latency::new(), Latency::new());
    (0..900).for_each(|_| fast.record(100));
    (0..100).for_each(|_| slow.record(10_000));
    let all = merged([&fast, &slow]);
    assert_eq!(all.0.len(), 1_000);
    assert_eq!(all.0.value_at_quantile(0.5), 100);
    assert_eq!(all.0.value_at_quantile(0.9), 100);
    // An average of the two p99 would say 5050.
    assert_eq!(all.0.value_at_quantile(0.99) / 10, 1_000);
}

#[test]
fn histograms_of_other_bounds_merge_too() {
    let mut wide = hdrhistogram_of(1, 3_600_000_000_000);
    wide.record(3_000_000_000_000).unwrap();
    let all = merged([&Latency(wide)]);
    assert_eq!(all.0.len(), 1);
    assert!(all.0.max() >= 60_000_000_000);
}

fn hdrhistogram_of(low: u64, high: u64) -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(low, high, 3).unwrap()
}

#[test]
fn two_modes_are_seen_and_one_is_not_split() {
    for count in [6, 8, 12, 30] {
        let one_mode = (0..500).filter(|&seed| is_bimodal(&normal(100.0, 20.0, count, seed)));
        let false_alarms = one_mode.count();
        assert!(false_alarms <= 15, "{count} values: {false_alarms} of 500");
        let mut random = random(count as u64);
        let uniform = (0..500).filter(|_| {
            let values: Vec<f64> = (0..count).map(|_| random.random_range(50.0..150.0)).collect();
            is_bimodal(&values)
        });
        let false_alarms = uniform.count();
        assert!(false_alarms <= 15, "{count} values: {false_alarms} of 500");
        let found = (0..500).filter(|&seed| {
            let mut values = normal(100.0, 2.0, count / 2, seed);
            values.extend(normal(160.0, 2.0, count - count / 2, seed + 1_000));
            is_bimodal(&values)
        });
        let found = found.count();
        assert!(found >= 490, "{count} values: found {found} of 500");
    }
}

#[test]
fn a_gap_of_no_consequence_or_a_lone_value_is_no_mode() {
    assert!(!is_bimodal(&[100.0, 100.1, 100.0, 103.0, 103.1, 103.0]));
    assert!(is_bimodal(&[100.0, 100.1, 100.0, 113.0, 113.1, 113.0]));
    assert!(!is_bimodal(&[100.0, 101.0, 102.0, 101.0, 100.0, 300.0]));
    assert!(!is_bimodal(&[100.0, 100.0, 100.0, 200.0, 200.0]), "too few to tell");
    assert!(!is_bimodal(&[5.0; 12]));
}

#[test]
fn drift_is_seen_and_chance_is_not_blamed() {
    assert!(drifts(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert!(drifts(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]));
    assert!(!drifts(&[1.0, 2.0, 3.0, 4.0, 5.0]), "too few to tell");
    assert!(!drifts(&[7.0; 10]));
    assert!(!drifts(&[1.0, 2.0, 3.0, 4.0, 6.0, 5.0]), "one swap in six may be chance");
    let chance = (0..2_000).filter(|&seed| drifts(&normal(100.0, 5.0, 12, seed))).count();
    assert!((1..=40).contains(&chance), "{chance} of 2000 at 1 %");
    let steady = (0..200).filter(|&seed| {
        let noise = normal(0.0, 1.0, 20, seed);
        let values: Vec<f64> = noise.iter().enumerate().map(|(i, n)| i as f64 * 0.3 + n).collect();
        drifts(&values)
    });
    let steady = steady.count();
    assert!(steady >= 180, "{steady} of 200");
}
