#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod age;
mod batch;
mod bounds;
mod chain;
mod control;
mod counters;
pub mod definition;
pub mod dma;
mod error;
mod groups;
mod keys;
pub mod limits;
mod lines;
mod mask;
mod matching;
pub mod memory;
mod meter;
mod modify;
mod perform;
mod presence;
mod program;
mod pruner;
mod queue;
mod raw;
pub mod rss;
pub mod rule;
mod settle;
pub mod shared;
#[cfg(test)]
mod shared_tests;
mod tables;
mod template;
pub mod text;
#[allow(unsafe_code)]
pub mod toeplitz;
mod transaction;
mod tuple;
mod word;
mod worker;

pub use age::Age;
pub use batch::Operation;
pub use control::{Nic, NicConfig, RuleId};
pub use counters::Counts;
pub use error::{NicError, RuleError};
pub use meter::{Colour, Meter, Meters};
pub use queue::{Done, OperationQueue, QueueError};
pub use template::{Template, TemplateAction, TemplateActions, TemplateRule, TemplateTable};
pub use transaction::Transaction;
pub use worker::Worker;
