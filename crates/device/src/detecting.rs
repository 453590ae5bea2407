//! Packets in memory that engines of an intrusion detection inspect behind a card: the task, and
//! its observation.

use serde::{Deserialize, Serialize};

/// Packets in memory, the rules, and the engines that inspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detecting {
    /// What inspects.
    pub engine: InspectionEngine,
    /// The rules that each core has.
    pub division: RuleDivision,
    /// Rules and packets.
    pub workload: DetectionWorkload,
    /// Cores that inspect, an engine each.
    pub cores: u16,
    /// Time that is measured, nanoseconds. Suricata inspects a packet for each microsecond of it,
    /// and 262,144 at least.
    pub duration_ns: u64,
    /// Time before it, never counted.
    pub warmup_ns: u64,
}

/// What inspects packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InspectionEngine {
    /// The engine of niclab, in this process.
    Niclab,
    /// Suricata, with the matcher of patterns that it prefers on this machine.
    Suricata,
    /// Suricata with Aho-Corasick, its matcher on machines without Hyperscan.
    SuricataAhoCorasick,
}

/// The rules that each core has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleDivision {
    /// All of them; a hash spreads flows over the cores.
    Copies,
    /// A part; the card gives each core the packets that its rules can match.
    Partitions,
}

/// What rules name, so that a card can tell their packets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleMix {
    /// The port of a service: each service has rules of its own.
    Services,
    /// The address of a server: all servers are guarded against the same attacks.
    Servers,
    /// Neither.
    Any,
}

/// Rules, and packets that some of them match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DetectionWorkload {
    /// What the rules name.
    pub mix: RuleMix,
    /// Their number, 1 to 50,000.
    pub rules: u32,
    /// All of it is drawn from this.
    pub seed: u64,
}

/// The observation of [`Task::Detection`](crate::Task::Detection).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DetectionObservation {
    /// Packets of a pass.
    pub packets: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Alerts of one engine with all rules on the packets that were checked.
    pub alerts: u64,
    /// Alerts that the cores had too few or too many.
    pub wrong: u64,
    /// Packets that were lost on their way to the cores.
    pub lost: u64,
    /// Rules that niclab's engines gave up on a packet that was checked, because of their limits.
    pub given_up: u64,
    /// The cores.
    pub cores: Vec<DetectionCore>,
    /// Time of the busiest core for the packets of a pass, pass by pass, nanoseconds. Passes in
    /// which the machine took a core away are left out where there are others.
    pub passes_ns: Vec<u64>,
    /// Time of all cores together for the same passes, nanoseconds.
    pub worked_ns: Vec<u64>,
    /// There were no others.
    pub is_disturbed: bool,
    /// Time that the card's own work takes for a packet where a core does it, nanoseconds; `None`
    /// if it was not timed.
    pub card_ns: Option<f64>,
    /// Cache misses of all cores for a packet; `None` if the machine does not count them.
    pub cache_misses: Option<f64>,
}

/// A core that inspects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetectionCore {
    /// Its rules.
    pub rules: u64,
    /// Packets of a pass that it gets.
    pub packets: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Its time for them: the median of the passes, nanoseconds.
    pub worked_ns: u64,
    /// Memory of its engine, bytes: resident, or of niclab's engine that of rules and tables.
    pub memory_bytes: u64,
}
