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
mod packets;
mod plan;
mod record;
mod replace;
mod shown;
mod single;
mod state;
mod tables;
mod worker;

pub use control::{Pipeline, SharedRegisters};
pub use replace::Replaced;
pub use worker::Worker;
