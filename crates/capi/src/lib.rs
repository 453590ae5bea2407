#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod abi;
pub mod control;
pub mod failure;
pub mod flow_queue;
pub mod indirect_actions;
pub mod modelled_card;
pub mod port;
pub mod shapes;
pub mod templates;
