//! The job: filter, count by key in sliding windows, rank on each worker, merge the ranks.
//!
//! [`JobEngine`] runs it on timely dataflow, a worker on each core. The workers' tuples and counts
//! are in inboxes outside of it ([`crate::inbox`]). If a worker dies the engine ends the whole
//! dataflow, because timely has no part of it alone, and starts another one on the same inboxes.

mod cluster;
mod dataflow;
mod engine;
mod sliding;
#[cfg(test)]
mod tests;

pub use cluster::{ClusterError, ClusterOptions, is_of_a_lost_connection};
pub use engine::{
    EngineError, EngineOptions, EngineStatus, EngineView, JobEngine, WORKERS_MAX, allowed_cores,
};
