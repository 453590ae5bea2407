//! The action `rss` of a rule: its packets get their queues from a state of RSS of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{HashFunction, HashTypes, Rss, RssLevel, evenly};
use crate::control::Nic;
use crate::error::RuleError;
use crate::limits::RSS_QUEUES_MAX;

/// How a rule's packets get their queues. Fields that are left out have the port's values at the
/// time when the rule is created or updated; later changes of the port do not change the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RssAction {
    /// The hash function.
    pub function: Option<HashFunction>,
    /// The hash's key, 40 to 128 bytes.
    pub key: Option<Vec<u8>>,
    /// Which headers are hashed.
    #[serde(default)]
    pub level: Option<RssLevel>,
    /// The queues, at most [`RSS_QUEUES_MAX`], which get even shares; the port's indirection table
    /// is not used. A queue that is listed twice gets two shares. An empty list stands for all
    /// queues of the NIC.
    pub queues: Vec<u16>,
    /// Which packets and fields are hashed.
    pub types: Option<HashTypes>,
}

impl Nic {
    /// The state of RSS of an action, with the port's present values.
    pub(crate) fn rss_of(&self, action: &RssAction) -> Result<Rss, RuleError> {
        let (port, queues) = (self.rss(), self.queues());
        if let Some(&queue) = action.queues.iter().find(|queue| **queue >= queues) {
            return Err(RuleError::QueueUnknown { queue, queues });
        }
        if action.queues.len() > RSS_QUEUES_MAX {
            return Err(RuleError::QueuesTooMany { count: action.queues.len() });
        }
        Ok(Rss {
            function: action.function.unwrap_or(port.function),
            indirection: match &action.queues[..] {
                [] => evenly(0..queues),
                some => evenly(some.iter().copied()),
            },
            key: action.key.as_ref().unwrap_or(&port.key).clone(),
            level: action.level.unwrap_or(port.level),
            types: action.types.unwrap_or(port.types),
        })
    }
}

/// In testpmd's syntax.
impl fmt::Display for RssAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rss")?;
        if !self.queues.is_empty() {
            f.write_str(" queues")?;
            self.queues.iter().try_for_each(|queue| write!(f, " {queue}"))?;
            f.write_str(" end")?;
        }
        if let Some(types) = self.types {
            write!(f, " types {types} end")?;
        }
        if let Some(key) = &self.key {
            f.write_str(" key ")?;
            key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            write!(f, " key_len {}", key.len())?;
        }
        match self.function {
            Some(HashFunction::SymmetricToeplitz) => f.write_str(" func symmetric_toeplitz")?,
            Some(HashFunction::Toeplitz) => f.write_str(" func toeplitz")?,
            None => {}
        }
        match self.level {
            Some(RssLevel::Inner) => f.write_str(" level 2"),
            Some(RssLevel::Outermost) => f.write_str(" level 1"),
            None => Ok(()),
        }
    }
}
