//! A requested change of a port's RSS.

use super::{Rss, RssAction, evenly};
use crate::control::Nic;
use crate::error::RuleError;

/// A change of a state of RSS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RssChange {
    /// Queues for entries of the indirection table; of two pairs for one entry the last counts.
    Entries(Vec<(usize, u16)>),
    /// The settings of the action; settings that it leaves out stay. Queues make a new table, which
    /// names them in turn.
    Settings(RssAction),
}

impl Nic {
    /// The state of RSS that the port would have after a change; changes nothing.
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
            RssChange::Settings(action) => {
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
