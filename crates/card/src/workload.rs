//! The workload of a card: rules or a program, applications, services.

use niclab_apps::service::Service;
use niclab_nic::Nic;
use niclab_program::Pipeline;

use crate::applications::Application;
use crate::error::CardError;
use crate::items::Items;

/// Classifies frames in place of rules and RSS.
#[derive(Debug)]
pub enum PacketProcessor {
    /// The program that writes items for a store, whose services are those of the card: it has a
    /// core for each core of the card.
    Items(Items),
    /// A program, whose ports are those of the card.
    Program(Pipeline),
}

impl From<Items> for PacketProcessor {
    fn from(items: Items) -> PacketProcessor {
        PacketProcessor::Items(items)
    }
}

impl From<Pipeline> for PacketProcessor {
    fn from(program: Pipeline) -> PacketProcessor {
        PacketProcessor::Program(program)
    }
}

impl PacketProcessor {
    /// Checks that it can run on `cores` cores.
    pub(crate) fn fits(&self, cores: usize) -> Result<(), CardError> {
        match self {
            // Who is not counted would not be waited for.
            PacketProcessor::Items(items) if items.cores() != cores => {
                Err(CardError::ItemsCores { items: items.cores(), cores })
            }
            PacketProcessor::Items(_) | PacketProcessor::Program(_) => Ok(()),
        }
    }

    /// Lets what packets no longer see be used again, so many steps.
    pub(crate) fn run_housekeeping(&mut self, steps: usize) {
        match self {
            PacketProcessor::Items(items) => items.run_housekeeping(steps),
            PacketProcessor::Program(program) => _ = program.run_housekeeping(steps),
        }
    }
}

/// The workload of a card from its first frame on.
#[derive(Default)]
pub struct CardWorkload<'a> {
    /// `flow` commands.
    pub rules: &'a str,
    /// Classifies frames in place of rules and RSS.
    pub program: Option<PacketProcessor>,
    /// Applications that have flows of their own; a frame of several is the first one's.
    pub applications: Vec<Application>,
    /// The services that answer the frames of the queues of each core, in the order of the cores;
    /// where there is none the card forwards. External queues are for cards that forward.
    pub services: Vec<Box<dyn Service>>,
    /// Rules and RSS of each port, in the order of the ports; empty: each port gets new ones. They
    /// are for as many queues as the card has, and for as many ports.
    pub controls: Vec<Nic>,
}
