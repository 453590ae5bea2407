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
    /// Time in which packets were taken: from when the engines were ready to the end, seconds.
    pub seconds: f64,
    /// Packets that came in this time, and that the card took. Each is counted at every engine that
    /// it was for.
    pub packets: u64,
    /// Packets that came in this time, and that the card had no room for.
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
    /// Those of `packets` that it did not inspect, because it was too slow or died. An engine
    /// counts every 3 s: what it inspected after that and before it died is in this number, too.
    /// `None` if it did not say how many it inspected.
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
            (1, _) => "1 was lost on its way, so alerts may be missing.".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn document(packets_missed: &[Option<u64>]) -> DetectionDocument {
        let engine = |packets_missed: &Option<u64>| DetectionEngine {
            cpu: 1,
            packets: 10,
            packets_dropped: 0,
            packets_missed: *packets_missed,
            alerts: 1,
            other_events: 0,
            double_events: 0,
            damaged_events: 0,
            deaths: 0,
            cpu_seconds: 0.5,
            resident_bytes: 1,
        };
        DetectionDocument {
            schema: DETECTION_SCHEMA,
            program: "niclab".to_owned(),
            port: "packet:va".to_owned(),
            seconds: 4.0,
            packets: 10,
            packets_missed: 0,
            engines: packets_missed.iter().map(engine).collect(),
            alerts: vec![RuleAlerts { gid: 1, sid: 1, alerts: 1 }],
            late_events: 0,
            reloads: 0,
        }
    }

    #[test]
    fn the_lead_says_how_many_packets_were_lost() {
        for (missed, lost) in [
            (Some(0), "No packet was lost."),
            (Some(1), "1 was lost on its way, so alerts may be missing."),
            (Some(2), "2 were lost on their way, so alerts may be missing."),
            (None, "Not all engines reported how many packets they inspected."),
        ] {
            let lead = document(&[missed]).lead();
            assert_eq!(lead, format!("10 packets in 4.0 s, 1 alert by 1 engine. {lost}"));
        }
    }
}
