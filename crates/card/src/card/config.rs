//! The configuration of a card, and its check.

use niclab_nic::toeplitz::Toeplitz;

use crate::balance::Balance;
use crate::error::CardError;
use crate::external_queues::ExternalQueueConfig;
use crate::name::PortName;

use super::FRAME_LEN_MAX;

/// The configuration of a card.
#[derive(Clone, Debug, PartialEq)]
pub struct CardConfig<P = PortName> {
    /// Its ports, one at least. Frames of the first leave by the second, and so on in pairs; those
    /// of a port without another return by it.
    pub ports: Vec<P>,
    /// Queues of each port, 1 to 256; RSS spreads over them.
    pub queues: u16,
    /// The cores it runs on, by their numbers; each has a queue pair of each port.
    pub cores: Vec<u32>,
    /// How cores wait for frames.
    pub receive: Receive,
    /// The reaction to a queue that fills, if any.
    pub balance: Option<Balance>,
    /// Queues that other processes serve.
    pub external_queues: Vec<ExternalQueueConfig>,
    /// Longest frame that it has room for, bytes without FCS: 1,536, or more where no program
    /// decides about frames.
    pub frame_len_max: usize,
}

impl<P> CardConfig<P> {
    /// A card that forwards, and whose cores look for frames all the time.
    pub fn new(ports: Vec<P>, queues: u16, cores: Vec<u32>) -> CardConfig<P> {
        let (receive, balance, external_queues) = (Receive::BusyPoll, None, Vec::new());
        let frame_len_max = FRAME_LEN_MAX;
        CardConfig { ports, queues, cores, receive, balance, external_queues, frame_len_max }
    }
}

/// How a core learns that a frame has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receive {
    /// It looks all the time.
    #[default]
    BusyPoll,
    /// It sleeps until the system wakes it.
    Interrupt,
}

/// Refuses a card of no use.
pub(super) fn check<P>(config: &CardConfig<P>, services: usize) -> Result<(), CardError> {
    let count = config.ports.len();
    if count == 0 {
        return Err(CardError::Ports);
    }
    if config.cores.is_empty() {
        return Err(CardError::Cores);
    }
    if services > 0 && (services != config.cores.len() || !config.external_queues.is_empty()) {
        let (cores, external_queues) = (config.cores.len(), config.external_queues.len());
        return Err(CardError::Services { services, cores, external_queues });
    }
    if let Some(Balance::Keys(keys)) = &config.balance {
        keys.iter().try_for_each(|key| Toeplitz::new(key).map(drop)).map_err(CardError::Key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::Card;

    #[test]
    fn a_card_of_no_use_is_refused() {
        let tap = |at| PortName::Tap(format!("none{at}"));
        let config = |ports: usize, cores: Vec<u32>| {
            CardConfig::new((0..ports).map(tap).collect(), 1, cores)
        };
        assert!(matches!(Card::start(&config(0, vec![0]), ""), Err(CardError::Ports)));
        assert!(matches!(Card::start(&config(1, vec![]), ""), Err(CardError::Cores)));
        let none = CardConfig { queues: 0, ..config(1, vec![0]) };
        assert!(matches!(Card::start(&none, ""), Err(CardError::Nic(_))));
    }
}
