//! How likely a distance is by chance: tails of Student's t, and how heavy those of a fleet are.

use crate::statistics::median;

/// Fewest distances on one side of the median from which the weight of a tail is estimated.
const SIDE_MIN: usize = 100;
/// Degrees of freedom that pass for infinitely many.
const NORMAL: f64 = 1e4;
/// The quantiles of absolute distances whose ratio says how heavy a tail is. One host in twenty may
/// be odd without setting the upper one.
const QUANTILES: [f64; 2] = [0.5, 0.95];

/// Chance that Student's t with `freedom` degrees of freedom is at least `distance` from 0.
pub(super) fn two_sided(distance: f64, freedom: f64) -> f64 {
    let t2 = distance * distance;
    incomplete_beta(freedom / (freedom + t2), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun,
/// Handbook of Mathematical Functions, 26.5.8), evaluated by Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    const TINY: f64 = 1e-300;
    let apart = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / apart(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / apart(1.0 + term * d);
            c = apart(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction / before - 1.0).abs() < 1e-13 {
            break;
        }
    }
    (front.exp() * fraction / a).min(1.0)
}

/// Logarithm of the gamma function of a positive number, by Stirling's series from 10 on.
fn ln_gamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below
}

/// The distance that Student's t exceeds in absolute value with this chance.
fn quantile(chance: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e3);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match two_sided(middle, freedom) > chance {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Ratio of the two quantiles of Student's t.
fn ratio_of(freedom: f64) -> f64 {
    let [lower, upper] = QUANTILES.map(|share| quantile(1.0 - share, freedom));
    upper / lower
}

/// The ratio of the two quantiles of distances on one side, and how many there are; none if they
/// are too few.
pub(super) fn ratio(mut side: Vec<f64>) -> Option<(f64, usize)> {
    if side.len() < SIDE_MIN {
        return None;
    }
    side.sort_by(f64::total_cmp);
    let [lower, upper] = QUANTILES.map(|share| side[(share * (side.len() - 1) as f64) as usize]);
    (lower > 0.0).then(|| (upper / lower, side.len()))
}

/// Degrees of freedom of Student's t whose tail is as heavy as those of these figures, for each of
/// them, from its own ratio and that of all.
///
/// One figure's ratio varies by chance, so what all have in common counts in full, and what one has
/// beyond that if it is more than two standard errors.
pub(super) fn freedoms(ratios: &[Option<(f64, usize)>]) -> Vec<f64> {
    let known: Vec<f64> = ratios.iter().flatten().map(|(ratio, _)| *ratio).collect();
    let Some(common) = median(&known) else { return vec![f64::INFINITY; ratios.len()] };
    let table = FreedomTable::new();
    let one = |of: &Option<(f64, usize)>| {
        let own =
            of.map_or(0.0, |(ratio, count)| ratio - 2.0 * RATIO_ERROR / (count as f64).sqrt());
        table.freedom(common.max(own))
    };
    ratios.iter().map(one).collect()
}

/// Standard error of the ratio of a normal sample of one, from the densities at both quantiles.
const RATIO_ERROR: f64 = 4.0;

/// The ratio of quantiles by degrees of freedom, ascending in freedom.
struct FreedomTable(Vec<(f64, f64)>);

impl FreedomTable {
    fn new() -> FreedomTable {
        let freedoms = (0..=40).map(|step| 10f64.powf(f64::from(step) / 10.0));
        FreedomTable(freedoms.map(|freedom| (freedom, ratio_of(freedom))).collect())
    }

    /// Degrees of freedom of this ratio: the largest of the table that is no lighter.
    fn freedom(&self, ratio: f64) -> f64 {
        let heavy = self.0.iter().rev().find(|(_, of)| *of >= ratio);
        heavy.map_or(1.0, |(freedom, _)| *freedom).min(NORMAL)
    }
}

/// Degrees of freedom of two reasons together: the variances of the logarithms of both spreads add.
pub(super) fn together(one: f64, other: f64) -> f64 {
    1.0 / (1.0 / one + 1.0 / other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_tables() {
        // Two-sided points of Student's t.
        for (distance, freedom, chance) in [
            (12.706, 1.0, 0.05),
            (2.571, 5.0, 0.05),
            (4.144, 12.0, 0.00136),
            (6.0, 1e4, 2.04e-9),
            (636.62, 1.0, 0.001),
            (5.0, 1e9, 5.733e-7),
        ] {
            let found = two_sided(distance, freedom);
            assert!((found / chance - 1.0).abs() < 0.02, "{distance} {freedom}: {found}");
        }
        assert!((quantile(0.05, 5.0) - 2.5706).abs() < 1e-3);
        assert!((ratio_of(1e9) - 2.906).abs() < 2e-3);
    }

    #[test]
    fn the_weight_of_a_tail_is_found() {
        let side = |freedom: f64| -> Vec<f64> {
            (1..4000).map(|at| quantile(f64::from(at) / 4000.0, freedom)).collect()
        };
        for freedom in [2.0, 5.0, 10.0] {
            let found = freedoms(&[ratio(side(freedom))])[0];
            assert!(found < freedom * 1.03 && found > freedom * 0.7, "{freedom}: {found}");
        }
        assert!(freedoms(&[ratio(side(1e6))])[0] > 500.0);
        assert_eq!(freedoms(&[None]), [f64::INFINITY]);
    }
}
