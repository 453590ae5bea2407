//! Trials and knee searches of a run, and groups of trials that share a set-up.

use niclab_result::Point;
use serde::{Deserialize, Serialize};

use crate::place::SweepPoint;
use crate::spec::{KneeSpec, TrialKind};

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its kind.
    pub kind: TrialKind,
    /// Index of the set-up.
    pub setup: usize,
    /// Its task.
    #[serde(flatten)]
    pub task: TaskIndex,
    /// Its rate.
    pub rate: PlannedRate,
    /// The point of the sweep.
    pub point: Point,
}

impl Trial {
    /// It needs no set-up: all of it lies in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(
            self.task,
            TaskIndex::Process { .. }
                | TaskIndex::Serve { .. }
                | TaskIndex::Detect { .. }
                | TaskIndex::Count { .. }
        )
    }

    /// Index of its load, where frames are sent.
    pub fn load(&self) -> Option<usize> {
        match self.task {
            TaskIndex::Offer { load, .. } => Some(load),
            _ => None,
        }
    }

    /// Index of its plan, where the control side has one.
    pub fn plan(&self) -> Option<usize> {
        match self.task {
            TaskIndex::Offer { plan, .. } => plan,
            TaskIndex::Operate { plan } => Some(plan),
            _ => None,
        }
    }
}

/// Where the [`ExperimentRun`](super::ExperimentRun) has the parts of a trial's task: each number
/// is an index into the list of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a trial has one of: load, alone or with a plan; plan; round_trips; application; \
                 stream; processing; serving"
)]
pub enum TaskIndex {
    /// Take a load while the control side carries out a plan.
    Offer {
        /// The load.
        load: usize,
        /// The plan; none: the control side rests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<usize>,
    },
    /// Carry out a plan; no packet is sent.
    Operate {
        /// The plan.
        plan: usize,
    },
    /// Let messages go to and fro; in a breakdown, stamped.
    RoundTrips {
        /// The messages.
        round_trips: usize,
    },
    /// Let clients ask a server.
    Apply {
        /// What they ask.
        application: usize,
    },
    /// Carry bulk data.
    Stream {
        /// The data.
        stream: usize,
    },
    /// Let packets in memory through a program.
    Process {
        /// The program.
        processing: usize,
    },
    /// Let a key-value store serve requests in memory.
    Serve {
        /// The requests.
        serving: usize,
    },
    /// Let engines of an intrusion detection inspect packets in memory.
    Detect {
        /// Rules and packets.
        detection: usize,
    },
    /// Let workers count tuples in memory.
    Count {
        /// The tuples.
        counting: usize,
    },
}

impl TaskIndex {
    /// A load beside which the control side rests.
    pub fn offer(load: usize) -> TaskIndex {
        TaskIndex::Offer { load, plan: None }
    }
}

/// A rate that may hang on another trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedRate {
    /// As much as the device takes.
    Saturate,
    /// So many frames a second.
    Pps(f64),
    /// So many frames a second, and others in the middle third of the measured part.
    Step {
        /// In the first and last third.
        low_pps: f64,
        /// In the middle one.
        high_pps: f64,
    },
    /// `share` of the median throughput that the `saturate` trial `of` has shown when this trial is
    /// first measured; its other repeats keep that rate. Where a device cannot make `of`, that of
    /// the trial's own point stands in for it.
    ShareOf {
        /// Index of the trial.
        of: usize,
        /// The share, above 0.
        share: f64,
    },
}

/// Beginning and end of the step in a measured part of this length, nanoseconds.
pub(crate) fn step(duration_ns: u64) -> (u64, u64) {
    (duration_ns / 3, 2 * duration_ns / 3)
}

/// A search for a knee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The specification of the search.
    pub spec: KneeSpec,
    /// Index of the load of its trials; where they hit rules, that of the largest number of these.
    pub load: usize,
    /// Where, with the number of rules left open.
    pub place: SweepPoint,
    /// Seed of its flows.
    pub seed: u64,
    /// Longest frame of its load, bytes with FCS.
    #[serde(default)]
    pub frame_len_max: u16,
}

/// Trials of one set-up, made one after the other on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<usize>", into = "Vec<usize>")]
pub struct Visit {
    /// Repeat, from 0.
    pub repeat: usize,
    /// Index of the device.
    pub device: usize,
    /// Indices of the trials.
    pub trials: Vec<usize>,
}

impl From<Vec<usize>> for Visit {
    fn from(numbers: Vec<usize>) -> Visit {
        let number = |i: usize| numbers.get(i).copied().unwrap_or(0);
        let trials = numbers.get(2..).unwrap_or_default().to_vec();
        Visit { repeat: number(0), device: number(1), trials }
    }
}

impl From<Visit> for Vec<usize> {
    fn from(visit: Visit) -> Vec<usize> {
        let head = [visit.repeat, visit.device];
        head.into_iter().chain(visit.trials).collect()
    }
}
