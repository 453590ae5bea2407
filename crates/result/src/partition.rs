//! The document of `niclab ids partition`: rules of an intrusion detection divided over cores.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::REPORT;
use crate::digits::grouped;
use crate::directory::make_directory;
use crate::error::ResultError;
use crate::folder::Folder;

/// The version of a [`PartitionDocument`].
pub const PARTITION_SCHEMA: u32 = 1;

/// The name of the document in its directory.
pub const PARTITION: &str = "partition.json";

/// The content of `partition.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionDocument {
    /// [`PARTITION_SCHEMA`] of the writer.
    pub schema: u32,
    /// The program that wrote it, and its version.
    pub program: String,
    /// The files of rules.
    pub sources: Vec<RuleSource>,
    /// The traffic that the groups were weighed by, if any.
    pub traffic: Option<PartitionTraffic>,
    /// The cores with the rules on any flow. Each flow goes to one of them; only there the alerts
    /// of rules on several cores count.
    pub reporters: Vec<usize>,
    /// Each core.
    pub cores: Vec<PartitionCore>,
    /// Each group of rules, the largest first.
    pub groups: Vec<PartitionGroup>,
    /// Why the card has no program that routes packets to the cores, if it has none.
    pub card_lacks: Option<String>,
}

/// A file of rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleSource {
    /// Its path, as it was given.
    pub path: String,
    /// Its rules.
    pub rules: usize,
}

/// Traffic, by its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionTraffic {
    /// The traces, as they were given.
    pub paths: Vec<String>,
    /// Packets of all traces.
    pub packets: u64,
    /// Packets whose flow a card cannot tell; all cores get them.
    pub packets_to_all: u64,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionCore {
    /// The file of its rules, in the directory of the document.
    pub file: String,
    /// Its rules.
    pub rules: usize,
    /// Those that no other core has.
    pub placed_rules: usize,
    /// Packets that it gets, as a share of all packets. Some packets go to several cores, so these
    /// may add up to more than 1.
    pub traffic_ratio: f64,
    /// Its work as a share of the work of a single core, by the model of cost.
    pub cost_ratio: f64,
}

/// Rules that stay together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionGroup {
    /// The flows that they can concern.
    pub concerns: String,
    /// How many rules there are.
    pub rules: usize,
    /// Their `sid`s.
    pub sids: Vec<u32>,
    /// Their core; none if they are on several.
    pub core: Option<usize>,
    /// Why they are on several cores, or why their core gets all that they concern.
    pub reason: Option<String>,
}

impl PartitionDocument {
    /// Makes the directory for one, before anything is computed.
    ///
    /// # Errors
    /// [`ResultError::Exists`] and its like for a path that is taken; [`ResultError::NoRoom`],
    /// [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn make_place(path: &Path) -> Result<(), ResultError> {
        make_directory(path)
    }

    /// Writes files with their names, the page and the document into a directory
    /// ([`PartitionDocument::make_place`]). A directory with `partition.json` is complete.
    ///
    /// # Errors
    /// [`ResultError::Absent`] and its like for the directory; [`ResultError::Full`],
    /// [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn write(
        &self,
        path: &Path,
        files: &[(String, String)],
        page: &str,
    ) -> Result<(), ResultError> {
        let folder = Folder::open(path)?;
        for (name, text) in files {
            folder.write_whole(name, text.as_bytes(), u64::MAX)?;
        }
        folder.write_whole(REPORT, page.as_bytes(), u64::MAX)?;
        let damaged = |reason: serde_json::Error| ResultError::Damaged {
            path: folder.place(PARTITION),
            line: 0,
            reason: reason.to_string(),
        };
        let text = serde_json::to_string_pretty(self).map_err(damaged)?;
        folder.write_whole(PARTITION, text.as_bytes(), u64::MAX)
    }
}

impl PartitionDocument {
    /// Rules, cores, and what is replicated, in one or two sentences.
    pub fn lead(&self) -> String {
        let rules: usize = self.sources.iter().map(|source| source.rules).sum();
        let several = |group: &&PartitionGroup| group.core.is_none();
        let replicated: usize = self.groups.iter().filter(several).map(|group| group.rules).sum();
        let most = self.cores.iter().map(|core| core.cost_ratio).fold(0.0, f64::max);
        format!(
            "{} on {}. {} report on one core, {} on several. The busiest core has {:.0} % of the \
             work of a single core with all rules.",
            counted(rules, "rule"),
            counted(self.cores.len(), "core"),
            whole(rules - replicated),
            whole(replicated),
            most * 100.0,
        )
    }

    /// The traffic, in a sentence or two.
    pub fn about_traffic(&self) -> String {
        let Some(traffic) = &self.traffic else {
            return "No trace was given. The shares assume as many packets for each group, and as \
                    many again that only rules on any flow can match."
                .to_owned();
        };
        let PartitionTraffic { packets, packets_to_all, .. } = traffic;
        format!(
            "The shares come from {} packets in {}. {} of them go to all cores: fragments, \
             tunnels, errors of ICMP, frames without IP or with wrong lengths.",
            whole(packets),
            counted(traffic.paths.len(), "trace"),
            whole(packets_to_all),
        )
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", whole(count), if count == 1 { "" } else { "s" })
}

/// A count with its thousands apart.
fn whole(count: impl ToString) -> String {
    grouped(&count.to_string())
}
