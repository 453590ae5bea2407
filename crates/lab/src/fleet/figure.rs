//! One figure of a group: how far each card is from the others.

use crate::statistics::{REPEATS_MIN, estimate, median};

use super::values::CardId;

/// Ratios to the group's median are held between this and its inverse: a value of zero has no
/// logarithm.
const RATIO_MIN: f64 = 1e-3;
/// Smallest spread of a group: 0.2 %. Values that are equal to the last digit have none.
const SPREAD_MIN: f64 = 0.002;
/// Two-sided 5 % point of the normal distribution.
pub(super) const INTERVAL_Z: f64 = 1.96;
/// Variance of a median of normal values, as a multiple of that of their mean.
const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;
/// Median absolute deviation of a normal sample, of its standard deviation.
const MAD_NORMAL: f64 = 0.674_490;
/// A median absolute deviation of so few values is too small by this factor (Croux and Rousseeuw:
/// Time- efficient algorithms for two highly robust estimators of scale, 1992).
const MAD_CORRECTIONS: [f64; 10] =
    [1.0, 1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107];
/// Distance from the median, in median absolute deviations, from which on a card has no part in the
/// spread.
const BIWEIGHT_REACH: f64 = 9.0;
/// 90 % point less 10 % point of the normal distribution.
const DECILES_NORMAL: f64 = 2.563;
/// Share of the degrees of freedom that a robust spread keeps (Mosteller and Tukey: Data Analysis
/// and Regression, 1977, 10D).
const FREEDOM_KEPT: f64 = 0.7;

/// A card in a figure: 24 bytes, for there may be ten millions of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CardInFigure {
    pub card: CardId,
    /// Logarithm of the ratio of its median to that of the group.
    pub shift: f32,
    /// Ends of the interval of `shift`, relative to it: of its own repeats, and at least as wide as
    /// those of all cards make it.
    pub below: f32,
    /// The upper end.
    pub above: f32,
    /// Standard error of `shift` by the repeats of all cards: equal cards have the same one.
    pub noise: f32,
    /// `shift` in standard deviations of what equal cards would show.
    pub distance: f32,
}

/// All cards in a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Distances {
    /// Median of the cards' medians.
    pub median: f64,
    /// Robust standard deviation of `shift` over the cards.
    pub spread: f64,
    pub cards: Vec<CardInFigure>,
}

impl Distances {
    /// Degrees of freedom of the spread.
    pub fn freedom(&self) -> f64 {
        FREEDOM_KEPT * (self.cards.len() as f64 - 1.0).max(1.0)
    }

    /// Variance of the group's median.
    pub fn centre_variance(&self) -> f64 {
        centre_variance(self.spread, self.cards.len())
    }
}

fn centre_variance(spread: f64, cards: usize) -> f64 {
    MEDIAN_VARIANCE * spread * spread / cards.max(1) as f64
}

/// The distances of cards whose values these are; none if fewer than `cards_min` have enough
/// repeats, or if the typical card has no positive value.
pub(super) fn of_values(mut values: Vec<(CardId, f32)>, cards_min: usize) -> Option<Distances> {
    values.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let repeated = || {
        let cards = values.chunk_by(|a, b| a.0 == b.0);
        cards.filter(|values| values.len() >= REPEATS_MIN)
    };
    let medians: Vec<f64> = repeated().map(median_of).collect();
    let centre = median(&medians).filter(|centre| *centre > 0.0 && medians.len() >= cards_min)?;
    let ln = |value: f64| (value / centre).clamp(RATIO_MIN, 1.0 / RATIO_MIN).ln();
    let scales: Vec<f64> = repeated().map(|values| scale(values, &ln)).collect();
    let pooled = median(&scales)?;
    let cards = repeated().zip(medians).map(|(values, median)| {
        let noise = pooled * (MEDIAN_VARIANCE / values.len() as f64).sqrt();
        let own: Vec<f64> = values.iter().map(|(_, value)| ln(f64::from(*value))).collect();
        let shift = ln(median);
        let (low, high) = estimate(&own).map_or((shift, shift), |own| (own.low, own.high));
        let end = |own: f64| own.max(INTERVAL_Z * noise) as f32;
        let (below, above) = (end(shift - low), end(high - shift));
        let (shift, noise) = (shift as f32, noise as f32);
        CardInFigure { card: values[0].0, shift, below, above, noise, distance: 0.0 }
    });
    Some(measured(centre, cards.collect()))
}

/// The distances of cards with these shifts and errors.
pub(super) fn measured(centre: f64, mut cards: Vec<CardInFigure>) -> Distances {
    let column = |of: fn(&CardInFigure) -> f32| -> Vec<f64> {
        cards.iter().map(|card| f64::from(of(card))).collect()
    };
    let shifts = column(|card| card.shift);
    let middle = median(&shifts).unwrap_or_default();
    let noise = median(&column(|card| card.noise)).unwrap_or_default();
    let spread = spread(&shifts, middle).max(SPREAD_MIN);
    let between = (spread * spread - noise * noise).max(0.0);
    let of_centre = centre_variance(spread, cards.len());
    for card in &mut cards {
        let shift = f64::from(card.shift) - middle;
        let variance = between + f64::from(card.noise).powi(2) + of_centre;
        (card.shift, card.distance) = (shift as f32, (shift / variance.sqrt()) as f32);
    }
    Distances { median: centre * middle.exp(), spread, cards }
}

/// Of sorted values.
fn median_of(values: &[(CardId, f32)]) -> f64 {
    let at = |place: usize| f64::from(values[place].1);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { at(middle) } else { (at(middle - 1) + at(middle)) / 2.0 }
}

/// Robust standard deviation of the logarithms of a few values, sorted: one stalled repeat of three
/// does not set it.
fn scale(values: &[(CardId, f32)], ln: &dyn Fn(f64) -> f64) -> f64 {
    let middle = ln(median_of(values));
    let deviations: Vec<f64> =
        values.iter().map(|(_, value)| (ln(f64::from(*value)) - middle).abs()).collect();
    let count = values.len();
    let correction = match count {
        ..10 => MAD_CORRECTIONS[count],
        _ => count as f64 / (count as f64 - 0.8),
    };
    median(&deviations).unwrap_or_default() / MAD_NORMAL * correction
}

/// Robust standard deviation around `middle`: the biweight one, which a fifth of outliers does not
/// move much. If more than half of the values are equal, the distance of the outer deciles.
fn spread(values: &[f64], middle: f64) -> f64 {
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let mad = median(&deviations).unwrap_or_default();
    if mad <= SPREAD_MIN * MAD_NORMAL / 10.0 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Rounded to the middle: one card of a few must not be its own scale.
        let outer = 0.1 * (sorted.len() - 1) as f64;
        let (low, high) = (outer.ceil() as usize, sorted.len() - 1 - outer.ceil() as usize);
        return (sorted[high] - sorted[low]) / DECILES_NORMAL;
    }
    let (mut squares, mut weights) = (0.0, 0.0);
    for value in values {
        let u2 = ((value - middle) / (BIWEIGHT_REACH * mad)).powi(2);
        if u2 < 1.0 {
            squares += (value - middle).powi(2) * (1.0 - u2).powi(4);
            weights += (1.0 - u2) * (1.0 - 5.0 * u2);
        }
    }
    let count = values.len() as f64;
    (count * count / (count - 1.0) * squares).sqrt() / weights.abs()
}
