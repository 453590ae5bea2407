//! Texts of rules, each command for the port that it names.

use niclab_nic::Nic;
use niclab_nic::rule::session::Record;
use niclab_nic::rule::text::{ReadError, by_port, port_of};

use super::Card;

impl Card {
    /// Rules and RSS of a port, to be changed by calls in place of texts. The ids of rules that are
    /// made so are not those of texts.
    pub fn control(&mut self, port: u16) -> Option<&mut Nic> {
        self.ports.get_mut(usize::from(port)).map(|port| &mut port.nic)
    }

    /// Carries out a text of `flow` commands, each for the port that it names. What is for one port
    /// is applied whole or not at all, port by port.
    ///
    /// # Errors
    /// What cannot be read or is refused, with its line; what was for ports before that one stays.
    pub fn apply(&mut self, text: &str) -> Result<Vec<(u16, Record)>, ReadError> {
        // A port that is not there is refused by the first.
        let is_unknown = |port: u16| usize::from(port) >= self.ports.len();
        let unknown = text.lines().filter_map(port_of).any(is_unknown);
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let (ports, mut records) = (self.ports.len() as u16, Vec::new());
        let mut texts = by_port(text, 0..if unknown { 0 } else { ports });
        for (number, port) in (0..).zip(&mut self.ports) {
            port.nic.set_time_ns(now_ns);
            let own = texts.remove(&number);
            let own = own.as_deref().unwrap_or(text);
            let done = port.session.apply(&mut port.nic, own.as_bytes())?;
            records.extend(done.into_iter().map(|record| (number, record)));
        }
        self.wake();
        Ok(records)
    }
}
