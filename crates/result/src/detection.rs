//! The document of `niclab ids run`: what became of packets and events.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::ResultError;
use crate::folder::Folder;

/// The version of a [`DetectionDocument`].
pub const DETECTION_SCHEMA: u32 = 1;

/// The name of the document in its directory.
pub const DETECTION: &str = "detection.json";

/// The content of `detection.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectionDocument {
    /// [`DETECTION_SCHEMA`] of the writer.
    pub schema: u32,
    /// The program that wrote it, and its version.
    pub program: String,
    /// The port that packets came by.
    pub port: String,
    /// From the first packet that could come to the end, seconds.
    pub seconds: f64,
    /// Packets that came since the engines were ready.
    pub packets: u64,
    /// Packets that came, and that the card had no room for.
    pub packets_missed: u64,
    /// Each engine.
    pub engines: Vec<DetectionEngine>,
    /// Alerts of each rule, by `gid` and `sid`.
    pub alerts: Vec<RuleAlerts>,
    /// Events that are not in the order of their times in `eve.json`.
    pub late_events: u64,
    /// How often other rules took the place of those before.
    pub reloads: u64,
}

/// An engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectionEngine {
    /// Its CPU.
    pub cpu: u32,
    /// Packets that the card gave it.
    pub packets: u64,
    /// Packets for it that the card dropped, because the engine was not there or too slow.
    pub packets_dropped: u64,
    /// Packets that the card gave it and that it did not inspect, because it was too slow or died;
    /// `None` if the engine did not say how many it inspected.
    pub packets_missed: Option<u64>,
    /// Its alerts that count.
    pub alerts: u64,
    /// Its other events that count.
    pub other_events: u64,
    /// Its events that do not count: another engine reports them, or their rule does not hold.
    pub double_events: u64,
    /// Lines that it did not write to their end, or that are no JSON.
    pub damaged_events: u64,
    /// How often it died and was started again.
    pub deaths: u64,
    /// Its time on CPUs since it was ready for packets, seconds.
    pub cpu_seconds: f64,
    /// The most memory that it had at a time, bytes.
    pub resident_bytes: u64,
}

/// The alerts of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleAlerts {
    /// Number of the group of the rule.
    pub gid: u32,
    /// Number of the rule.
    pub sid: u32,
    /// Its alerts.
    pub alerts: u64,
}

impl DetectionDocument {
    /// Writes it into a directory that exists.
    ///
    /// # Errors
    /// [`ResultError::Absent`] and its like for the directory; [`ResultError::Full`],
    /// [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn write(&self, path: &Path) -> Result<(), ResultError> {
        let folder = Folder::open(path)?;
        let damaged = |reason: serde_json::Error| ResultError::Damaged {
            path: folder.place(DETECTION),
            line: 0,
            reason: reason.to_string(),
        };
        let text = serde_json::to_string_pretty(self).map_err(damaged)?;
        folder.write_whole(DETECTION, text.as_bytes(), u64::MAX)
    }

    /// Packets, alerts, and what was lost, in one or two sentences.
    pub fn lead(&self) -> String {
        let counted =
            |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let alerts = self.alerts.iter().map(|rule| rule.alerts).sum();
        let of_engine = |of: &DetectionEngine| of.packets_dropped + of.packets_missed.unwrap_or(0);
        let lost = self.packets_missed + self.engines.iter().map(of_engine).sum::<u64>();
        let is_known = self.engines.iter().all(|of| of.packets_missed.is_some());
        let lost = match (lost, is_known) {
            (0, true) => "No packet was lost.".to_owned(),
            (0, false) => "Not all engines reported how many packets they inspected.".to_owned(),
            (lost, _) => format!("{lost} were lost on their way, so alerts may be missing."),
        };
        format!(
            "{} in {:.1} s, {} by {}. {lost}",
            counted(self.packets, "packet"),
            self.seconds,
            counted(alerts, "alert"),
            counted(self.engines.len() as u64, "engine"),
        )
    }
}
