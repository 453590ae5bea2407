//! The result of `niclab fleet`: the groups of equal cards, what was compared in each, and the
//! outliers: cards that are unlike the others of their group.

use std::path::Path;

use serde::Serialize;

use crate::directory::make_directory;
use crate::folder::Folder;
use crate::{REPORT, ResultError};

/// Version of [`FleetDocument`].
pub const FLEET_SCHEMA: u32 = 1;
/// Name of the document in its directory.
pub const FLEET: &str = "fleet.json";
/// Longest document: a hundred thousand cards take a fifth of it.
const FLEET_LEN_MAX: u64 = 256 << 20;

/// The cards of a fleet, compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetDocument {
    /// [`FLEET_SCHEMA`].
    pub schema: u32,
    /// Name and version of the program that wrote it.
    pub program: String,
    /// Chance that any card is named in a fleet of equal cards, if these differ about as a normal
    /// distribution does.
    pub false_alarm_rate: f64,
    /// A card is named only for a difference larger than this share of the group's median.
    pub difference_min: f64,
    /// Comparisons of a card with its group, in one figure each.
    pub comparisons: u64,
    /// Values that were left out because a mark puts them in doubt.
    pub marked_values: u64,
    /// Rows that were left out because they repeat earlier ones: an earlier source has their run,
    /// or the same source has the same repeat of a figure.
    pub repeated_rows: u64,
    /// Sources that could not be used, each with the reason.
    pub left_out: Vec<String>,
    /// Hosts that have a card.
    pub hosts: usize,
    /// The groups of equal cards.
    pub groups: Vec<FleetGroup>,
    /// The cards that are unlike the others, the farthest first.
    pub outliers: Vec<Outlier>,
    /// All cards, in the order of their hosts and devices.
    pub cards: Vec<FleetCard>,
}

/// Equal cards.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetGroup {
    /// Kind of device, driver and PCI id, such as `linux, mlx5_core, 15b3:1017`.
    pub name: String,
    /// Number of cards.
    pub cards: usize,
    /// Why no card can be named; none if the group was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The figures that were compared.
    pub figures: Vec<FleetFigure>,
}

/// A metric at a point, or over all points of its sweep, of all cards of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetFigure {
    /// The experiment.
    pub experiment: String,
    /// The trial.
    pub trial: String,
    /// The point in words, or `all points`.
    pub point: String,
    /// The metric.
    pub metric: String,
    /// Its unit; `1` over all points, where cards are compared by ratios.
    pub unit: String,
    /// Whether more is better.
    pub is_higher_better: bool,
    /// Cards with enough repeats.
    pub cards: usize,
    /// Median of the cards' medians.
    pub median: f64,
    /// Robust standard deviation between cards, as a share of the median.
    pub spread: f64,
    /// Cards that this figure names.
    pub outliers: usize,
    /// How the cards lie, if the figure names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<RatioHistogram>,
}

/// How many cards have which ratio to the median of their group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RatioHistogram {
    /// Ratio at the left edge.
    pub low: f64,
    /// Ratio at the right edge.
    pub high: f64,
    /// Cards in each of equally wide bins.
    pub counts: Vec<u32>,
}

/// A card that is unlike the others of its group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outlier {
    /// Index in [`FleetDocument::cards`].
    pub card: usize,
    /// Index in [`FleetDocument::groups`].
    pub group: usize,
    /// Its firmware, with that of most cards if theirs is another; empty if not known.
    pub firmware: String,
    /// In which figures, the farthest first.
    pub differences: Vec<FleetDifference>,
}

/// How far a card is from the median of its group, in one figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FleetDifference {
    /// Index in [`FleetGroup::figures`].
    pub figure: usize,
    /// Its median as a ratio to the group's.
    pub ratio: f64,
    /// The 95 % interval of the ratio, from its repeats and the number of cards.
    pub interval: (f64, f64),
    /// Robust z-score: the logarithm of the ratio in robust standard deviations between cards;
    /// negative below the median.
    pub z_score: f64,
    /// The interval of the z-score.
    pub z_score_interval: (f64, f64),
}

/// One card.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetCard {
    /// Its host.
    pub host: String,
    /// The device on that host.
    pub device: String,
    /// Index of its group.
    pub group: usize,
    /// Its firmware, each version once.
    pub firmware: String,
    /// Figures in which it was compared.
    pub figures: u32,
    /// Its farthest figure; none if it was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub farthest: Option<FleetDifference>,
    /// Whether it is unlike the others.
    pub is_outlier: bool,
}

impl FleetDocument {
    /// Makes the directory for one.
    ///
    /// # Errors
    /// [`ResultError::Exists`] and its like for a path that is taken; [`ResultError::NoRoom`],
    /// [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn make_place(path: &Path) -> Result<(), ResultError> {
        make_directory(path)
    }

    /// Cards that were compared in no figure.
    pub fn uncompared(&self) -> usize {
        self.cards.iter().filter(|card| card.figures == 0).count()
    }

    /// The rate of false alarms and its condition, in a sentence.
    pub fn rate_words(&self) -> String {
        format!(
            "If all of them were equal and differed by chance about as a normal distribution does, \
             the chance to name any would be {} %.",
            self.false_alarm_rate * 100.0
        )
    }

    /// Cards in words: hosts if each has one card.
    pub fn counted(&self, cards: usize) -> String {
        let noun = if self.hosts == self.cards.len() { "host" } else { "card" };
        format!("{cards} {noun}{}", if cards == 1 { "" } else { "s" })
    }

    /// Writes it and its page into a directory ([`FleetDocument::make_place`]): both, or neither.
    ///
    /// # Errors
    /// [`ResultError::NoRoom`], [`ResultError::ReadOnly`], [`ResultError::TooLong`],
    /// [`ResultError::Disk`].
    pub fn write(&self, path: &Path, page: &str) -> Result<(), ResultError> {
        let folder = Folder::open(path)?;
        let damaged = |reason: serde_json::Error| ResultError::Damaged {
            path: folder.place(FLEET),
            line: 0,
            reason: reason.to_string(),
        };
        let text = serde_json::to_string(self).map_err(damaged)?;
        let written = folder
            .write_whole(FLEET, text.as_bytes(), FLEET_LEN_MAX)
            .and_then(|()| folder.write_whole(REPORT, page.as_bytes(), u64::MAX));
        written.map_err(|error| {
            folder.remove(FLEET);
            match error {
                // No samples are kept here.
                ResultError::Full { .. } => ResultError::NoRoom { path: path.to_owned() },
                error => error,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_whose_page_cannot_be_written_does_not_stay() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("outliers");
        FleetDocument::make_place(&path).unwrap();
        std::fs::create_dir(path.join(REPORT)).unwrap();
        let error = FleetDocument::default().write(&path, "page").unwrap_err();
        assert!(error.to_string().contains("report.html"), "{error}");
        assert!(!path.join(FLEET).exists());
        std::fs::remove_dir(path.join(REPORT)).unwrap();
        FleetDocument::default().write(&path, "page").unwrap();
        assert!(path.join(FLEET).exists() && path.join(REPORT).exists());
    }
}
