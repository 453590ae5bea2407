//! From values to the cards that are unlike the others.
//!
//! 1. In each figure a card has the median of its repeats, and the group the median of its cards.
//!    The card's distance is its shift by the spread of equal cards: the robust spread between
//!    cards, and the error of its own repeats (`figure`).
//! 2. The mean over the points of a sweep is a figure too: a card that is a little slower
//!    everywhere.
//! 3. The chance of a distance is that of Student's t, with fewer degrees of freedom the fewer
//!    cards there are, and the heavier the tails of the group are (`tails`).
//! 4. Holm's procedure over all cards and figures of the fleet names a card: in a fleet of equal
//!    cards any card is named with a chance of at most [`FALSE_ALARM_RATE`].
//! 5. The whole interval of the ratio must lie beyond [`DIFFERENCE_MIN`].

use std::collections::{BTreeSet, HashMap};

use niclab_result::fleet::{
    FLEET_SCHEMA, FleetCard, FleetDifference, FleetDocument, FleetFigure, FleetGroup, Outlier,
    RatioHistogram,
};

use super::figure::{CardInFigure, Distances, INTERVAL_Z, measured, of_values};
use super::values::{Card, CardId, DistinctValues, FigureKey, FigureValues, FleetValues, TextId};
use super::{DIFFERENCE_MIN, FALSE_ALARM_RATE, GROUP_CARDS_MIN, tails};

/// Fewest points whose mean is a figure of its own.
const SWEEP_POINTS_MIN: usize = 3;
/// Distance from which on the chance of a card is computed; below nothing is ever named.
const DISTANCE_MIN: f32 = 2.5;
/// Bins of a histogram.
const BINS: usize = 48;

/// A figure and what is known of it.
struct ComparedFigure {
    figure: FleetFigure,
    distances: Distances,
    /// Degrees of freedom of the tail below and above the median.
    freedoms: [f64; 2],
}

/// A card that may be named.
struct Candidate {
    chance: f64,
    group: usize,
    figure: usize,
    card: CardInFigure,
}

impl FleetValues {
    /// Compares each card with its group.
    pub fn judge(mut self) -> FleetDocument {
        let DistinctValues { values, marked, repeated } = self.take_distinct();
        let places = self.places();
        let mut by_group: Vec<Vec<FigureValues>> = places.iter().map(|_| Vec::new()).collect();
        for (key, values) in values {
            by_group[places[&key.group]].push((key, values));
        }
        let mut document = FleetDocument {
            schema: FLEET_SCHEMA,
            false_alarm_rate: FALSE_ALARM_RATE,
            difference_min: DIFFERENCE_MIN,
            marked_values: marked,
            repeated_rows: repeated,
            ..FleetDocument::default()
        };
        document.groups = by_group.iter().map(|_| FleetGroup::default()).collect();
        for (group, place) in &places {
            document.groups[*place].name = self.texts.texts[*group as usize].clone();
        }
        for card in &self.cards {
            document.groups[places[&card.group]].cards += 1;
        }
        let mut groups = Vec::new();
        for (group, values) in document.groups.iter_mut().zip(by_group) {
            let compared = match group.cards < GROUP_CARDS_MIN {
                true => Vec::new(),
                false => self.compared(values),
            };
            group.unjudged = unjudged(group.cards, compared.len());
            groups.push(compared);
        }
        let named = named(&groups, &mut document.comparisons);
        let card_places = self.add_cards(&places, &groups, &mut document);
        self.add_outliers(named, &card_places, &mut groups, &mut document);
        for (group, compared) in document.groups.iter_mut().zip(groups) {
            group.figures = compared.into_iter().map(|of| of.figure).collect();
        }
        document
    }

    /// The place of each group in the order of their names.
    fn places(&self) -> HashMap<TextId, usize> {
        let groups: BTreeSet<TextId> = self.cards.iter().map(|card| card.group).collect();
        let mut groups: Vec<TextId> = groups.into_iter().collect();
        groups.sort_by_key(|group| &self.texts.texts[*group as usize]);
        groups.into_iter().enumerate().map(|(place, group)| (group, place)).collect()
    }

    /// The figures of a group, those over all points behind the points of their sweep.
    fn compared(&self, mut values: Vec<FigureValues>) -> Vec<ComparedFigure> {
        let text = |id: TextId| self.texts.texts[id as usize].as_str();
        let sweep = |key: &FigureKey| {
            [text(key.experiment), text(key.trial), text(key.metric), text(key.unit)]
        };
        values.sort_by(|(a, _), (b, _)| {
            sweep(a).cmp(&sweep(b)).then_with(|| text(a.point).cmp(text(b.point)))
        });
        let mut all: Vec<ComparedFigure> = Vec::new();
        let mut sweep_start = 0;
        let mut values = values.into_iter().peekable();
        while let Some((key, values_of)) = values.next() {
            if let Some(distances) = of_values(values_of, GROUP_CARDS_MIN) {
                all.push(ComparedFigure::new(self.figure(&key, &distances), distances));
            }
            let is_last = values.peek().is_none_or(|(next, _)| sweep(next) != sweep(&key));
            if is_last {
                all.extend(over_points(&all[sweep_start..]));
                sweep_start = all.len();
            }
        }
        set_freedoms(&mut all);
        all
    }

    fn figure(&self, key: &FigureKey, distances: &Distances) -> FleetFigure {
        let text = |id: TextId| self.texts.texts[id as usize].clone();
        FleetFigure {
            experiment: text(key.experiment),
            trial: text(key.trial),
            point: point_words(&text(key.point)),
            metric: text(key.metric),
            unit: text(key.unit),
            is_higher_better: self.is_higher_better(key),
            cards: distances.cards.len(),
            median: distances.median,
            spread: distances.spread,
            outliers: 0,
            histogram: None,
        }
    }
}

impl ComparedFigure {
    fn new(figure: FleetFigure, distances: Distances) -> ComparedFigure {
        ComparedFigure { figure, distances, freedoms: [f64::INFINITY; 2] }
    }

    /// How far a card is from the median of its group.
    fn difference(&self, figure: usize, card: &CardInFigure) -> FleetDifference {
        let shift = f64::from(card.shift);
        let of_centre = INTERVAL_Z * self.distances.centre_variance().sqrt();
        let ends = [(-1.0, card.below), (1.0, card.above)];
        let ends = ends.map(|(sign, own)| shift + sign * f64::from(own).hypot(of_centre));
        let spread = self.distances.spread;
        FleetDifference {
            figure,
            ratio: shift.exp(),
            interval: (ends[0].exp(), ends[1].exp()),
            z_score: shift / spread,
            z_score_interval: (ends[0] / spread, ends[1] / spread),
        }
    }
}

/// Why nothing can be said of a group; none if something can.
fn unjudged(cards: usize, figures: usize) -> Option<String> {
    match (cards, figures) {
        (1, _) => Some("1 card has nothing to be compared with".to_owned()),
        (..GROUP_CARDS_MIN, _) => Some(format!(
            "{cards} cards are too few to find an outlier: measure at least {GROUP_CARDS_MIN}"
        )),
        (_, 0) => Some(format!(
            "no figure has {GROUP_CARDS_MIN} cards with three repeats each that no mark puts in \
             doubt: measure with --repeats 6"
        )),
        _ => None,
    }
}

/// A point in words: `frame=64 rules=1000`.
pub fn point_words(point: &str) -> String {
    let axes: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(point).ok();
    let Some(axes) = axes else { return point.to_owned() };
    let one = |(name, at): (&String, &serde_json::Value)| match at.as_str() {
        Some(word) => format!("{name}={word}"),
        None => format!("{name}={at}"),
    };
    axes.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The mean over the points of a sweep, of the cards that have all of them.
fn over_points(points: &[ComparedFigure]) -> Option<ComparedFigure> {
    if points.len() < SWEEP_POINTS_MIN {
        return None;
    }
    let mut sums: HashMap<CardId, (usize, [f64; 4])> = HashMap::new();
    for card in points.iter().flat_map(|point| &point.distances.cards) {
        let (count, sums) = sums.entry(card.card).or_default();
        *count += 1;
        let square = |of: f32| f64::from(of).powi(2);
        let own = [card.shift.into(), square(card.below), square(card.above), square(card.noise)];
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    let all = points.len() as f64;
    let whole = sums.into_iter().filter(|(_, (count, _))| *count == points.len());
    let mut cards: Vec<CardInFigure> = whole
        .map(|(card, (_, [shift, below, above, noise]))| CardInFigure {
            card,
            shift: (shift / all) as f32,
            below: (below.sqrt() / all) as f32,
            above: (above.sqrt() / all) as f32,
            noise: (noise.sqrt() / all) as f32,
            distance: 0.0,
        })
        .collect();
    if cards.len() < GROUP_CARDS_MIN {
        return None;
    }
    cards.sort_by_key(|card| card.card);
    let distances = measured(1.0, cards);
    let figure = FleetFigure {
        point: "all points".to_owned(),
        unit: "1".to_owned(),
        cards: distances.cards.len(),
        median: distances.median,
        spread: distances.spread,
        ..points[0].figure.clone()
    };
    Some(ComparedFigure::new(figure, distances))
}

/// Sets the degrees of freedom of the tails of all figures of a group.
fn set_freedoms(all: &mut [ComparedFigure]) {
    for (side, sign) in [(0, -1.0f32), (1, 1.0)] {
        let ratio = |of: &ComparedFigure| {
            let distances = of.distances.cards.iter().map(|card| card.distance * sign);
            tails::ratio(distances.filter(|far| *far > 0.0).map(f64::from).collect())
        };
        let ratios: Vec<_> = all.iter().map(ratio).collect();
        for (of, tail) in all.iter_mut().zip(tails::freedoms(&ratios)) {
            of.freedoms[side] = tails::together(of.distances.freedom(), tail);
        }
    }
}

/// The cards that Holm's procedure names and whose interval lies beyond the smallest difference.
fn named(groups: &[Vec<ComparedFigure>], comparisons: &mut u64) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (group, figures) in groups.iter().enumerate() {
        for (figure, of) in figures.iter().enumerate() {
            *comparisons += of.distances.cards.len() as u64;
            let far = of.distances.cards.iter().filter(|card| card.distance.abs() > DISTANCE_MIN);
            candidates.extend(far.map(|card| {
                let freedom = of.freedoms[usize::from(card.distance > 0.0)];
                let chance = tails::two_sided(f64::from(card.distance), freedom);
                Candidate { chance, group, figure, card: *card }
            }));
        }
    }
    candidates.sort_by(|a, b| a.chance.total_cmp(&b.chance));
    let all = *comparisons as f64;
    let is_unlikely =
        |(at, of): (usize, &Candidate)| of.chance > FALSE_ALARM_RATE / (all - at as f64);
    let count = candidates.iter().enumerate().position(is_unlikely).unwrap_or(candidates.len());
    candidates.truncate(count);
    candidates.retain(|of| {
        let (low, high) = groups[of.group][of.figure].difference(of.figure, &of.card).interval;
        low > 1.0 + DIFFERENCE_MIN || high < 1.0 - DIFFERENCE_MIN
    });
    candidates
}

impl FleetValues {
    /// Adds all cards to the document, in the order of their hosts and devices; the place of each.
    fn add_cards(
        &self,
        places: &HashMap<TextId, usize>,
        groups: &[Vec<ComparedFigure>],
        document: &mut FleetDocument,
    ) -> Vec<usize> {
        let mut farthest: Vec<Option<(usize, CardInFigure)>> = vec![None; self.cards.len()];
        let mut counts = vec![0; self.cards.len()];
        for (figure, of) in groups.iter().flat_map(|figures| figures.iter().enumerate()) {
            for card in &of.distances.cards {
                counts[card.card as usize] += 1;
                let far = farthest[card.card as usize].get_or_insert((figure, *card));
                if card.distance.abs() > far.1.distance.abs() {
                    *far = (figure, *card);
                }
            }
        }
        let text = |id: TextId| self.texts.texts[id as usize].as_str();
        let mut order: Vec<usize> = (0..self.cards.len()).collect();
        order.sort_by_key(|at| {
            let card = &self.cards[*at];
            (text(card.host), text(card.device), places[&card.group])
        });
        let mut card_places = vec![0; order.len()];
        for (place, at) in order.into_iter().enumerate() {
            card_places[at] = place;
            let card = &self.cards[at];
            let group = places[&card.group];
            let mut firmware: Vec<&str> = card.firmware.iter().map(|of| text(*of)).collect();
            firmware.sort_unstable();
            document.cards.push(FleetCard {
                host: text(card.host).to_owned(),
                device: text(card.device).to_owned(),
                group,
                firmware: firmware.join(", "),
                figures: counts[at],
                farthest: farthest[at]
                    .map(|(figure, card)| groups[group][figure].difference(figure, &card)),
                is_outlier: false,
            });
        }
        document.hosts = document.cards.chunk_by(|a, b| a.host == b.host).count();
        card_places
    }

    /// Adds the named cards to the document, the farthest first.
    fn add_outliers(
        &self,
        named: Vec<Candidate>,
        card_places: &[usize],
        groups: &mut [Vec<ComparedFigure>],
        document: &mut FleetDocument,
    ) {
        let firmware = self.usual_firmware();
        let mut at: HashMap<CardId, usize> = HashMap::new();
        for Candidate { group, figure, card, .. } in named {
            let place = card_places[card.card as usize];
            document.cards[place].is_outlier = true;
            groups[group][figure].figure.outliers += 1;
            let next = document.outliers.len();
            let entry = *at.entry(card.card).or_insert(next);
            if entry == next {
                let firmware = self.firmware(&self.cards[card.card as usize], &firmware);
                let differences = Vec::new();
                document.outliers.push(Outlier { card: place, group, firmware, differences });
            }
            let difference = groups[group][figure].difference(figure, &card);
            document.outliers[entry].differences.push(difference);
        }
        let farthest = |of: &FleetDifference| of.z_score.abs();
        for of in &mut document.outliers {
            of.differences.sort_by(|a, b| farthest(b).total_cmp(&farthest(a)));
        }
        let first = |of: &Outlier| of.differences.first().map_or(0.0, farthest);
        document.outliers.sort_by(|a, b| first(b).total_cmp(&first(a)));
        for of in groups.iter_mut().flatten().filter(|of| of.figure.outliers > 0) {
            of.figure.histogram = Some(histogram(&of.distances.cards));
        }
    }

    /// The firmware that most cards of each group have.
    fn usual_firmware(&self) -> HashMap<TextId, TextId> {
        let mut counts: HashMap<(TextId, TextId), usize> = HashMap::new();
        for card in &self.cards {
            if let Some(firmware) = card.firmware.first() {
                *counts.entry((card.group, *firmware)).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        // The most frequent one comes last, and of equals the later text.
        counts
            .sort_by_key(|((_, firmware), count)| (*count, &self.texts.texts[*firmware as usize]));
        counts.into_iter().map(|((group, firmware), _)| (group, firmware)).collect()
    }

    /// The firmware of a card, with that of most others of its group if theirs is another.
    fn firmware(&self, card: &Card, usual: &HashMap<TextId, TextId>) -> String {
        let text = |id: TextId| self.texts.texts[id as usize].as_str();
        let Some(own) = card.firmware.first() else { return String::new() };
        match usual.get(&card.group) {
            Some(most) if most != own => format!("{} (most others: {})", text(*own), text(*most)),
            _ => text(*own).to_owned(),
        }
    }
}

fn histogram(cards: &[CardInFigure]) -> RatioHistogram {
    let ratios = || cards.iter().map(|card| f64::from(card.shift).exp());
    let low = ratios().fold(f64::INFINITY, f64::min);
    let high = ratios().fold(0.0, f64::max).max(low + 1e-6);
    let mut counts = vec![0; BINS];
    for ratio in ratios() {
        let bin = (ratio - low) / (high - low) * BINS as f64;
        counts[(bin as usize).min(BINS - 1)] += 1;
    }
    RatioHistogram { low, high, counts }
}
