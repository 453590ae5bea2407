#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod applications;
mod balance;
mod capture;
mod card;
mod counters;
mod engine;
mod guests;
pub mod items;
mod leaving;
mod moving;
mod name;
mod programmed;
mod serving;
mod steered;
pub mod steering;
mod sync;

pub use applications::{
    Application, ApplicationCounters, ApplicationError, Grant, LoadedApplication,
};
pub use balance::Balance;
pub use capture::Captured;
pub use card::{Balanced, Card, CardConfig, CardError, ChangeError, Decider, Ended, Receive, Runs};
pub use counters::{CoreCounters, Counters, GuestCounters, PortCounters, QueueCounters};
pub use guests::GuestAt;
pub use name::{Opens, PortName, UnknownPort};
pub use niclab_port::error::PortError;
