#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod applications;
mod balance;
mod capture;
mod card;
mod core_service;
mod counters;
mod engine;
mod error;
mod external_queues;
mod flow_migration;
pub mod items;
mod name;
mod port_context;
mod ports;
mod program_instance;
mod program_view;
pub mod steering;
mod steering_rings;
mod sync;
mod transmit_queue;
mod workload;

pub use applications::{Application, ApplicationError, Grant, LoadedApplication};
pub use balance::Balance;
pub use capture::CaptureCounters;
pub use card::{Card, CardConfig, CardResult, Receive, RssAdjustment};
pub use engine::Core;
pub use error::{CardError, ChangeError};
pub use external_queues::ExternalQueueConfig;
pub use name::{PortName, PortSource, UnknownPort};
pub use niclab_control::{
    ApplicationCounters, CardCounters, CoreCounters, ExternalQueueCounters, PortCounters,
    QueueCounters,
};
pub use niclab_port::error::PortError;
pub use program_view::ProgramView;
pub use workload::{CardWorkload, PacketProcessor};
