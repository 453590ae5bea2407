//! An intrusion detection behind the card: what an engine with a part of the rules saves against
//! one with all of them.
//!
//! The card routes packets by the program `ids-steering`, as `niclab ids run` does. Its tables are
//! those of a partition, or of copies: then a hash spreads the flows, as RSS does.
//!
//! The engine of niclab is **staged**: the card gives all packets to the cores before anything is
//! timed (`staging`). Then all cores inspect theirs at once, and that is timed (`inspection`).
//! Suricata runs as `niclab ids run` has it (`suricata`); its time on CPUs counts. Neither shows
//! latency or loss.
//!
//! The alerts of all cores are compared with those of one engine with all rules.

mod alerts;
mod inspection;
mod load;
mod staging;
mod suricata;

use niclab_ids::STEERING_CORES_MAX;
use niclab_ids::partition::{Partition, Traffic};

pub use load::{DetectionLoad, PACKETS, RULES_MAX};

use super::broken;
use super::staged::{check_ranges, path};
use crate::cores;
use crate::detecting::{Detecting, DetectionObservation, InspectionEngine, RuleDivision};
use crate::face::{DeviceError, PathNode};

/// Most cores of engines.
pub const CORES_MAX: usize = STEERING_CORES_MAX;

/// What stands along the packets' way.
pub(super) fn places() -> Vec<PathNode> {
    path([
        ("memory", "packets of all clients"),
        ("device", "card with the program ids-steering: timed apart"),
        ("function", "an engine on each core"),
    ])
}

/// Lets engines inspect. Returns the frames that the card took, too.
pub(super) fn detect(
    of: &Detecting,
    is_pinned: bool,
) -> Result<(DetectionObservation, u64), DeviceError> {
    check(of)?;
    let (allowed, count) = (cores::allowed(), usize::from(of.cores));
    if count > allowed.len() {
        let capability = format!("{count} cores: there are {}", allowed.len());
        return Err(DeviceError::lacks(capability));
    }
    if of.engine != InspectionEngine::Niclab {
        // Before rules and packets are made for nothing.
        suricata::find()?;
    }
    let load = DetectionLoad::new(&of.workload)?;
    let partition = divide(&load, of.division, count)?;
    match of.engine {
        InspectionEngine::Niclab => {
            let cores = allowed.iter().take(count).map(|core| Some(*core).filter(|_| is_pinned));
            inspection::detect(of, &load, &partition, &cores.collect::<Vec<_>>())
        }
        InspectionEngine::Suricata | InspectionEngine::SuricataAhoCorasick => {
            suricata::detect(of, load, partition, &allowed)
        }
    }
}

/// The rules that each core has. The partition weighs them by the packets themselves.
fn divide(
    load: &DetectionLoad,
    division: RuleDivision,
    cores: usize,
) -> Result<Partition, DeviceError> {
    let divided = match division {
        RuleDivision::Copies => Partition::copies(&load.rules, cores),
        RuleDivision::Partitions => {
            let mut traffic = Traffic::default();
            load.frames.iter().for_each(|frame| traffic.add_frame(frame));
            Partition::new(&load.rules, &traffic, cores)
        }
    };
    divided.map_err(broken)
}

/// Refuses numbers out of their ranges.
fn check(of: &Detecting) -> Result<(), DeviceError> {
    check_ranges(&[
        ("rules", of.workload.rules, 1, RULES_MAX),
        ("cores", u32::from(of.cores), 1, CORES_MAX as u32),
    ])
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
