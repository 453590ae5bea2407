//! The result of `niclab fleet`: the groups of equal cards, what was compared in each, and the
//! hosts that are unlike the others.

use std::path::Path;

use serde::Serialize;

use crate::directory::make_directory;
use crate::folder::Folder;
use crate::{REPORT, ResultError};

/// Version of [`FleetDocument`].
pub const FLEET_SCHEMA: u32 = 1;
/// Name of the document in its directory.
pub const FLEET: &str = "fleet.json";
/// Longest document: a hundred thousand hosts take a fifth of it.
const FLEET_LEN_MAX: u64 = 256 << 20;

/// The hosts of a fleet, compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetDocument {
    /// [`FLEET_SCHEMA`].
    pub schema: u32,
    /// Name and version of the program that wrote it.
    pub program: String,
    /// Chance that any host is named in a fleet of equal hosts.
    pub false_alarm_rate: f64,
    /// A host is named only for a difference larger than this share of the group's median.
    pub difference_min: f64,
    /// Comparisons of a host with its group, in one figure each.
    pub comparisons: u64,
    /// Values that were left out because a mark puts them in doubt.
    pub marked_values: u64,
    /// Sources that could not be used, each with the reason.
    pub left_out: Vec<String>,
    /// The groups of equal cards.
    pub groups: Vec<FleetGroup>,
    /// The hosts that are unlike the others, the farthest first.
    pub odd: Vec<OddHost>,
    /// All hosts, in the order of their names.
    pub hosts: Vec<FleetHost>,
}

/// Equal cards.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetGroup {
    /// Kind of device and driver, such as `linux, mlx5_core`.
    pub name: String,
    /// Number of hosts.
    pub hosts: usize,
    /// Why no host can be named; none if the group was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The figures that were compared.
    pub figures: Vec<FleetFigure>,
}

/// A metric at a point, or over all points of its sweep, of all hosts of a group.
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
    /// Its unit; `1` over all points, where hosts are compared by ratios.
    pub unit: String,
    /// Whether more is better.
    pub is_higher_better: bool,
    /// Hosts with enough repeats.
    pub hosts: usize,
    /// Median of the hosts' medians.
    pub median: f64,
    /// Robust spread between hosts, as a share of the median.
    pub spread: f64,
    /// Hosts that this figure names.
    pub odd: usize,
    /// How the hosts lie, if the figure names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<RatioHistogram>,
}

/// How many hosts have which ratio to the median of their group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RatioHistogram {
    /// Ratio at the left edge.
    pub low: f64,
    /// Ratio at the right edge.
    pub high: f64,
    /// Hosts in each of equally wide bins.
    pub counts: Vec<u32>,
}

/// A host that is unlike the others of its group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OddHost {
    /// Index in [`FleetDocument::hosts`].
    pub host: usize,
    /// Index in [`FleetDocument::groups`].
    pub group: usize,
    /// Its driver's firmware, with that of most others if theirs is another; empty if not known.
    pub firmware: String,
    /// In which figures, the farthest first.
    pub differences: Vec<FleetDifference>,
}

/// How far a host is from the median of its group, in one figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FleetDifference {
    /// Index in [`FleetGroup::figures`].
    pub figure: usize,
    /// Its median as a ratio to the group's.
    pub ratio: f64,
    /// The 95 % interval of the ratio, from its repeats and the number of hosts.
    pub interval: (f64, f64),
    /// Distance in robust spreads of the group; negative below the median.
    pub distance: f64,
    /// The interval of the distance.
    pub distance_interval: (f64, f64),
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetHost {
    /// Its name.
    pub host: String,
    /// Its groups.
    pub groups: Vec<usize>,
    /// Firmware of its devices, each version once.
    pub firmware: String,
    /// Figures in which it was compared.
    pub figures: u32,
    /// Its farthest figure, and the index of its group; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub farthest: Option<(usize, FleetDifference)>,
    /// Whether it is unlike the others.
    pub is_odd: bool,
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

    /// Writes it and its page into a directory ([`FleetDocument::make_place`]), each whole.
    ///
    /// # Errors
    /// [`ResultError::Full`], [`ResultError::ReadOnly`], [`ResultError::TooLong`],
    /// [`ResultError::Disk`].
    pub fn write(&self, path: &Path, page: &str) -> Result<(), ResultError> {
        let folder = Folder::open(path)?;
        let damaged = |reason: serde_json::Error| ResultError::Damaged {
            path: folder.place(FLEET),
            line: 0,
            reason: reason.to_string(),
        };
        let text = serde_json::to_string(self).map_err(damaged)?;
        folder.write_whole(FLEET, text.as_bytes(), FLEET_LEN_MAX)?;
        folder.write_whole(REPORT, page.as_bytes(), u64::MAX)
    }
}
