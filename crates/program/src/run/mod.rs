//! The fast path: a program carried out burst by burst, on any number of cores, while its tables
//! change.

mod burst;
mod content;
mod control;
mod exec;
mod keyed;
mod learner;
mod memory;
mod order;
mod plan;
mod record;
mod replace;
mod shown;
mod state;
mod tables;
mod worker;

pub use control::{Pipeline, SharedRegisters};
pub use replace::Replaced;
pub use worker::Worker;
