#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod applications;
mod balance;
mod capture;
mod card;
mod counters;
mod engine;
mod error;
mod external_queues;
pub mod items;
mod look;
mod moving;
mod name;
mod port_context;
mod ports;
mod program_instance;
mod serving;
mod steered;
pub mod steering;
mod sync;
mod transmit_queue;
mod workload;

pub use applications::{Application, ApplicationError, Grant, LoadedApplication};
pub use balance::Balance;
pub use capture::Captured;
pub use card::{Balanced, Card, CardConfig, Ended, Receive};
pub use engine::Core;
pub use error::{CardError, ChangeError};
pub use external_queues::ExternalQueueConfig;
pub use look::Look;
pub use name::{Opens, PortName, UnknownPort};
pub use niclab_control::{
    ApplicationCounters, CardCounters, CoreCounters, ExternalQueueCounters, PortCounters,
    QueueCounters,
};
pub use niclab_port::error::PortError;
pub use workload::{CardWorkload, PacketProcessor};
