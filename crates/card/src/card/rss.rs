//! RSS of the ports. It changes while frames flow, by a command or because a queue fills.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_nic::rss::{Rss, RssChange};

use super::Card;
use crate::balance::Decision;
use crate::counters::PublishedPort;
use crate::error::ChangeError;

/// A change of RSS because a queue filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssAdjustment {
    /// The port whose RSS has changed.
    pub port: u16,
    /// Entries of its table that name another queue now; `None` where it has another key.
    pub moved_entries: Option<usize>,
}

impl Card {
    /// The RSS of a port, for frames that no rule matches; `None` where there is no such port.
    pub fn rss(&self, port: u16) -> Option<&Rss> {
        self.ports.get(usize::from(port)).map(|port| port.nic.rss())
    }

    /// Changes the RSS of a port: key, hash function, set of fields or table, or all of them. The
    /// change loses no frame and keeps the order of each flow: where a flow goes from one core to
    /// another, its frames wait until the earlier ones have left (up to a limit:
    /// [`held_drops`](crate::PortCounters::held_drops)).
    ///
    /// # Errors
    /// [`ChangeError`]; nothing is then changed.
    pub fn set_rss(&mut self, port: u16, rss: &Rss) -> Result<(), ChangeError> {
        if let Some(core) = self.core_without_rss(port)? {
            return Err(ChangeError::UnderWay { port, core });
        }
        let refused = |source| ChangeError::Unfit { port, source };
        self.ports[usize::from(port)].nic.set_rss(rss).map_err(refused)?;
        self.wake();
        Ok(())
    }

    /// [`Card::set_rss`] with what a change makes of the present state.
    ///
    /// # Errors
    /// As of [`Card::set_rss`].
    pub fn change_rss(&mut self, port: u16, change: &RssChange) -> Result<(), ChangeError> {
        let ports = self.ports.len();
        let of = self.ports.get(usize::from(port)).ok_or(ChangeError::Port { port, ports })?;
        let rss = of.nic.rss_after(change);
        self.set_rss(port, &rss.map_err(|source| ChangeError::Unfit { port, source })?)
    }

    /// A core that has not followed the last RSS change of a port yet: it has not looked, or it
    /// holds frames that wait for earlier ones. `None` once the new state holds for all frames.
    ///
    /// # Errors
    /// [`ChangeError::Port`].
    pub fn core_without_rss(&self, port: u16) -> Result<Option<u32>, ChangeError> {
        let ports = self.ports.len();
        let of = self.ports.get(usize::from(port)).ok_or(ChangeError::Port { port, ports })?;
        let wanted = of.nic.rss_stamp().state;
        let lags = |(shown, _): &(&Arc<PublishedPort>, _)| {
            shown.rss_state.load(Ordering::Acquire) != wanted
        };
        Ok(of.published.iter().zip(&self.cores).find(lags).map(|(_, (core, _))| *core))
    }

    /// Decides, where that was asked for, whether the RSS of ports should change, by the counters
    /// since the last call, and changes it ([`Card::set_rss`]); to be called some times a second.
    /// Returns the changes, by port.
    pub fn balance(&mut self) -> Vec<RssAdjustment> {
        (0..self.ports.len() as u16).filter_map(|port| self.balance_port(port)).collect()
    }

    fn balance_port(&mut self, number: u16) -> Option<RssAdjustment> {
        let waits = self.core_without_rss(number);
        let port = self.ports.get_mut(usize::from(number))?;
        port.balancer.as_ref()?;
        let now = port.load_counters(&self.cores);
        let observed = now.since(&port.before);
        port.before = now;
        if !matches!(waits, Ok(None)) {
            // Frames of two states of RSS are in it.
            return None;
        }
        let mut rss = port.nic.rss().clone();
        let decision = port.balancer.as_mut()?.decide(&observed, &rss.indirection)?;
        let balanced = match decision {
            Decision::Key(key) => {
                rss.key = key;
                RssAdjustment { port: number, moved_entries: None }
            }
            Decision::Table(table) => {
                let pairs = table.iter().zip(rss.indirection.iter());
                let moved = pairs.filter(|(new, old)| new != old).count();
                rss.indirection = table;
                RssAdjustment { port: number, moved_entries: Some(moved) }
            }
        };
        // What was decided is a table of known queues, or a key that was looked at before.
        self.set_rss(number, &rss).ok().map(|()| balanced)
    }
}
