//! A change of a port's RSS, as somebody asks for it.

use super::{Rss, RssAction, evenly};
use crate::control::Nic;
use crate::error::RuleError;

/// What is to be another in a state of RSS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RssChange {
    /// Queues for entries of the indirection table: of two pairs for one entry the last holds.
    Entries(Vec<(usize, u16)>),
    /// What the action says; what it leaves out stays. Queues make a new table, which names them in
    /// turn.
    Spread(RssAction),
}

impl Nic {
    /// The state of RSS that the port would have after a change; nothing is changed.
    ///
    /// # Errors
    /// [`RuleError::EntryUnknown`], [`RuleError::QueueUnknown`], [`RuleError::QueuesTooMany`].
    pub fn rss_after(&self, change: &RssChange) -> Result<Rss, RuleError> {
        match change {
            RssChange::Entries(entries) => {
                let mut rss = self.rss().clone();
                for &(entry, queue) in entries {
                    match rss.indirection.get_mut(entry) {
                        Some(slot) => *slot = queue,
                        None => return Err(RuleError::EntryUnknown { entry }),
                    }
                }
                Ok(rss)
            }
            RssChange::Spread(action) => {
                let mut rss = self.rss_of(action)?;
                rss.indirection = match &action.queues[..] {
                    [] => self.rss().indirection.clone(),
                    queues => evenly(queues.iter().copied()),
                };
                Ok(rss)
            }
        }
    }
}
