#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod acker;
pub mod card;
pub mod cost;
pub mod definition;
pub mod inbox;
pub mod input;
pub mod job;
pub mod partition;
pub mod rank;
pub mod receiver;
pub mod source;
pub mod tuple;
pub mod window;
