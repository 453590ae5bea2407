//! Measured values beside the values that are published of the same device.
//!
//! A device differs where its 95 % interval and the range of the published runs have no value in
//! common. Without an interval nothing is said.

use niclab_result::ExperimentVerdict;

use crate::published::{PublishedCard, PublishedRange};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::{statistics, validation, words};

/// A measured value and the published value at the same place.
pub(crate) struct PublishedPoint {
    /// The measured point: `16,000 rules in group 0`.
    pub place: String,
    /// Unit of both.
    pub unit: &'static str,
    /// The figure of the publication.
    pub figure: &'static str,
    /// The measured value.
    pub here: Estimate,
    /// The published value.
    pub published: PublishedRange,
}

impl PublishedPoint {
    /// Whether the two differ; `None` without an interval.
    fn differs(&self) -> Option<bool> {
        let (low, high) = self.here.interval()?;
        Some(low > self.published.high || high < self.published.low)
    }

    /// How far the measured value is from the published one, as a ratio above 1.
    fn distance(&self) -> f64 {
        let ratio = self.here.median / self.published.median;
        ratio.max(1.0 / ratio)
    }

    fn words(&self) -> String {
        let [median, low, high] =
            [self.here.median, self.here.low, self.here.high].map(words::significant);
        let PublishedRange { median: stated, low: least, high: most, .. } = self.published;
        let [stated, least, most] = [stated, least, most].map(words::significant);
        let unit = self.unit;
        format!(
            "{median} {unit} with {} (95 % interval {low} to {high}), published {stated} {unit} \
             (runs from {least} to {most}, PAM 2021, figure {})",
            self.place, self.figure
        )
    }
}

/// The published card that a device is.
fn card(device: &str) -> Option<PublishedCard> {
    let profile = device.strip_prefix("model:")?;
    let mut cards = validation::CARDS.into_iter();
    cards.find(|(_, name)| *name == profile).map(|(card, _)| card)
}

/// A sentence for each device with published figures of its own that does not differ from them: it
/// agrees, or it cannot be compared.
pub(crate) fn sentences(results: &Results<'_>) -> String {
    let experiment = results.experiment.kind.of();
    let sentence = |device: &str| {
        let (card, load) = (card(device)?, experiment.published_load()?);
        let is_measured =
            |of: &crate::metrics::TrialMetrics| results.cells.of(device, of.trial).next().is_some();
        if !experiment.trials().iter().any(is_measured) {
            return None;
        }
        let points = experiment.published(results, device, card);
        let decided: Vec<bool> = points.iter().filter_map(PublishedPoint::differs).collect();
        if decided.contains(&true) {
            return None;
        }
        let places = decided.len();
        Some(match (points.is_empty(), places) {
            (true, _) => format!(
                "{device} is not compared with its published figures: they are of {load}{}.",
                own_frames(results)
            ),
            (false, 0) => format!(
                "{device} is not compared with its published figures: fewer than {} repeats have \
                 no interval.",
                statistics::INTERVAL_REPEATS_MIN
            ),
            (false, 1) => format!("{device} agrees with its published figures at one point."),
            (false, _) => {
                format!("{device} agrees with its published figures at all of {places} points.")
            }
        })
    };
    results.devices().filter_map(sentence).collect::<Vec<_>>().join(" ")
}

/// `; this run has 64 B frames`, if it has none of the published length.
fn own_frames(results: &Results<'_>) -> String {
    let trials = results.experiment.trials.iter();
    let mut frames: Vec<String> =
        trials.filter_map(|trial| Some(trial.point.get("frame")?.to_string())).collect();
    frames.sort();
    frames.dedup();
    if frames.is_empty() || frames.iter().any(|frame| frame == PUBLISHED_FRAME) {
        return String::new();
    }
    let frames: Vec<String> = frames.iter().map(|frame| frame_words(frame)).collect();
    format!("; this run has {}", frames.join(" and "))
}

/// The length of the frames of the study, as an axis has it.
const PUBLISHED_FRAME: &str = "1500";

/// The verdict on an experiment whose device differs from what is published of it.
pub(crate) fn verdict(results: &Results<'_>) -> Option<ExperimentVerdict> {
    let experiment = results.experiment.kind.of();
    let mut compared: Vec<(&str, PublishedPoint)> = Vec::new();
    for device in results.devices() {
        let Some(card) = card(device) else { continue };
        let points = experiment.published(results, device, card);
        let decided = points.into_iter().filter(|point| point.differs().is_some());
        compared.extend(decided.map(|point| (device, point)));
    }
    let of_all = compared.len();
    compared.retain(|(_, point)| point.differs() == Some(true));
    let (device, farthest) =
        compared.iter().max_by(|(_, a), (_, b)| a.distance().total_cmp(&b.distance()))?;
    let difference = format!(
        "Differs from published at {} of {}. The largest difference: \
         {device} has {}.",
        compared.len(),
        words::counted(of_all as f64, "compared point"),
        farthest.words()
    );
    Some(ExperimentVerdict::DiffersFromPublished { difference })
}
