//! Requests in memory that a key-value store serves behind a card's queues: the task, and its
//! observation.

use serde::{Deserialize, Serialize};

use crate::soft::kvs::{Build, KeyWorkload};

/// Requests in memory, and who serves them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// What the card does for the store.
    pub build: Build,
    /// The requests.
    pub asked: KeyWorkload,
    /// Cores that serve.
    pub cores: u16,
    /// Requests that are served together.
    pub burst: u16,
    /// Time in which passes of the application are measured, nanoseconds.
    pub duration_ns: u64,
    /// Time before it, never counted.
    pub warmup_ns: u64,
}

/// The observation of [`Task::Store`](crate::Task::Store).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreObservation {
    /// Requests of a pass: each is served once. They are more than are timed.
    pub requests: u64,
    /// Of these, those of each core.
    pub cores: Vec<u64>,
    /// Of these, those that were not answered right.
    pub wrong: u64,
    /// Requests that are timed: those behind the first quarter of each core.
    pub timed: u64,
    /// What these took, pass by pass, from the first core's beginning to the last one's end,
    /// nanoseconds. Passes in which the machine took a core away are left out where there are
    /// others.
    pub passes_ns: Vec<u64>,
    /// What the same passes took of all cores together, waiting for each other included,
    /// nanoseconds.
    pub worked_ns: Vec<u64>,
    /// There were no others.
    pub is_disturbed: bool,
    /// Where the time of a request goes, of a core.
    pub steps: Vec<StepTime>,
    /// Time that the card's own work takes for a request where a core does it, nanoseconds.
    pub card_ns: f64,
    /// What crosses the bus between card and host.
    pub crossed: BusTraffic,
}

/// A step of serving a burst, watched in passes of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// `receive`, `parse`, `hash`, `lock`, `look_up`, `carry_out` or `reply`.
    pub name: String,
    /// What it takes for a request, nanoseconds.
    pub request_ns: f64,
}

/// What crosses the bus between card and host for a request: means over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusTraffic {
    /// Frames that the host gets.
    pub frames: f64,
    /// Their bytes, without FCS.
    pub frame_bytes: f64,
    /// Frames that it sends.
    pub answers: f64,
    /// Their bytes, without FCS.
    pub answer_bytes: f64,
    /// Pieces that a program writes into the store's memory.
    pub dma_writes: f64,
    /// Their bytes.
    pub dma_bytes: f64,
}
