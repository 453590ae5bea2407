#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod applications;
mod balance;
mod capture;
mod card;
mod counters;
mod engine;
mod error;
mod guests;
pub mod items;
mod leaving;
mod look;
mod moving;
mod name;
mod ports;
mod programmed;
mod runs;
mod serving;
mod side;
mod steered;
pub mod steering;
mod sync;

pub use applications::{
    Application, ApplicationCounters, ApplicationError, Grant, LoadedApplication,
};
pub use balance::Balance;
pub use capture::Captured;
pub use card::{Balanced, Card, CardConfig, Ended, Receive};
pub use counters::{CoreCounters, Counters, GuestCounters, PortCounters, QueueCounters};
pub use engine::Core;
pub use error::{CardError, ChangeError};
pub use guests::GuestAt;
pub use look::Look;
pub use name::{Opens, PortName, UnknownPort};
pub use niclab_port::error::PortError;
pub use runs::{Decider, Runs};
