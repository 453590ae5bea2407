//! Tuples in memory that workers count behind a card: the task, and its observation.

use serde::{Deserialize, Serialize};

/// Tuples in memory, and who counts them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counting {
    /// What the card does for the workers.
    pub mode: TupleMode,
    /// The tuples.
    pub workload: TupleWorkload,
    /// Workers, a core each. Unless the card does it, these cores receive, too.
    pub workers: u16,
    /// Time in which panes are measured, nanoseconds.
    pub duration_ns: u64,
    /// Time before it, never counted.
    pub warmup_ns: u64,
}

/// What a card does for workers that count tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TupleMode {
    /// It spreads sources over the cores by their addresses. Each core checks, divides batches,
    /// hands over to all workers and acknowledges.
    Rss,
    /// It gives a frame to the core that has the key of its first tuple. That core does the same;
    /// all keys of a source are of one worker.
    Steer,
    /// It checks, divides batches, writes tuples into the ring of their worker and acknowledges.
    Dma,
}

/// Tuples of many sources.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TupleWorkload {
    /// Keys, 1 to [`KEYS_MAX`](crate::soft::analytics::KEYS_MAX).
    pub keys: u32,
    /// Key `i` occurs in proportion to `1 / (i + 1)^zipf`; 0: all equally often.
    pub zipf: f64,
    /// Bytes of a tuple's payload, at most 1,024.
    pub payload_len: u16,
    /// Tuples of a frame at most, 1 to 45. Fewer fit if they have a payload.
    pub batch: u16,
    /// All of it is drawn from this.
    pub seed: u64,
}

/// A step of the work on tuples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkStepTime {
    /// Its name.
    pub name: String,
    /// Time for a tuple, nanoseconds.
    pub tuple_ns: f64,
}

/// The observation of [`Task::Analytics`](crate::Task::Analytics).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnalyticsObservation {
    /// Tuples of a pane.
    pub tuples: u64,
    /// Frames of a pane.
    pub frames: u64,
    /// Windows whose results were compared with a plain count.
    pub windows: u64,
    /// Windows whose results were not the same.
    pub wrong: u64,
    /// Time on the CPU of the busiest core for a pane, pane by pane, nanoseconds.
    pub panes_ns: Vec<u64>,
    /// Time on the CPU of all workers' cores together for the same panes, nanoseconds.
    pub worked_ns: Vec<u64>,
    /// Time of a tuple on the workers' cores by step: `receive`, `demultiplex`, `hand_over`,
    /// `acknowledge`, `operator`, and `rest` of the receiving side.
    pub steps: Vec<WorkStepTime>,
    /// Time that the card's own work takes for a tuple where a core does it, nanoseconds.
    pub card_ns: f64,
    /// From the first frame that ends a pane to the result of its window, nanoseconds, ascending.
    pub results_ns: Vec<u64>,
}
