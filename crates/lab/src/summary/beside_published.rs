//! Measured values beside the values that are published of the same device.
//!
//! A device differs where its 95 % interval and the range of the published runs have no value in
//! common. Without an interval nothing is said.

use niclab_result::ExperimentVerdict;

use crate::published::{PublishedCard, PublishedRange};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::{validation, words};

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
        "Differs from published at {} of {of_all} compared points. The largest difference: \
         {device} has {}.",
        compared.len(),
        farthest.words()
    );
    Some(ExperimentVerdict::DiffersFromPublished { difference })
}
