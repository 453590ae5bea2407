#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod abi;
pub mod control;
pub mod failure;
pub mod flow_queue;
pub mod port;
pub mod shapes;
pub mod shared_actions;
pub mod templates;
