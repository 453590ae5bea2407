#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod action_executor;
mod action_list;
mod action_word;
mod age;
mod batch;
pub mod borrowed;
mod bounds;
mod control;
mod counters;
pub mod definition;
mod describe;
pub mod dma;
mod error;
mod families;
mod groups;
mod keys;
pub mod limits;
mod mask;
mod matching;
pub mod memory;
mod meter;
mod modify;
mod parsed_headers;
mod priority_list;
mod pruner;
mod queue;
mod raw;
mod reclaim;
pub mod rss;
pub mod rule;
pub mod shared_memory;
#[cfg(test)]
mod shared_memory_tests;
mod tables;
mod template;
pub mod text;
#[allow(unsafe_code)]
pub mod toeplitz;
mod transaction;
mod tuple;
mod worker;

pub use age::Age;
pub use batch::Operation;
pub use control::{Nic, NicConfig, RuleId};
pub use counters::Counts;
pub use error::{NicError, RuleError};
pub use meter::{Colour, Meter, Meters};
pub use queue::{OperationQueue, OperationResult, QueueError};
pub use template::{Template, TemplateAction, TemplateActions, TemplateRule, TemplateTable};
pub use transaction::Transaction;
pub use worker::Worker;
