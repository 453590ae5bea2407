//! What a card runs: rules or a program, applications, services.

use niclab_apps::service::Service;
use niclab_nic::Nic;
use niclab_program::Pipeline;

use crate::applications::Application;
use crate::error::CardError;
use crate::items::Items;

/// What decides about frames in place of rules and RSS.
#[derive(Debug)]
pub enum Decider {
    /// The program that writes items for a store, whose services are those of the card: it has a
    /// core for each core of the card.
    Items(Items),
    /// A program, whose ports are those of the card.
    Program(Pipeline),
}

impl From<Items> for Decider {
    fn from(items: Items) -> Decider {
        Decider::Items(items)
    }
}

impl From<Pipeline> for Decider {
    fn from(program: Pipeline) -> Decider {
        Decider::Program(program)
    }
}

impl Decider {
    /// That it can run on so many cores.
    pub(crate) fn fits(&self, cores: usize) -> Result<(), CardError> {
        match self {
            // Who is not counted would not be waited for.
            Decider::Items(items) if items.cores() != cores => {
                Err(CardError::ItemsCores { items: items.cores(), cores })
            }
            Decider::Items(_) | Decider::Program(_) => Ok(()),
        }
    }

    /// Lets what packets no longer see be used again, so many steps.
    pub(crate) fn settle(&mut self, steps: usize) {
        match self {
            Decider::Items(items) => items.settle(steps),
            Decider::Program(program) => _ = program.settle(steps),
        }
    }
}

/// What a card runs from its first frame on.
#[derive(Default)]
pub struct Runs<'a> {
    /// `flow` commands.
    pub rules: &'a str,
    /// What decides about frames in place of rules and RSS.
    pub program: Option<Decider>,
    /// Who has flows of its own: the first of those whose a frame is.
    pub applications: Vec<Application>,
    /// What answers the frames of its queues on each core, in the order of the cores; where there
    /// is none the card forwards. Guests are for cards that forward.
    pub services: Vec<Box<dyn Service>>,
    /// Rules and RSS of each port, in the order of the ports; empty: each port gets new ones. They
    /// are for as many queues as the card has, and for as many ports.
    pub controls: Vec<Nic>,
}
