//! Properties that a card reports: driver, firmware, queues, rings, statistics.

use std::io;

use serde::{Deserialize, Serialize};

use super::Card;
use super::layout::{Bytes, text_at, u32_at, u64_at};

const GDRVINFO: u32 = 0x03;
const GRINGPARAM: u32 = 0x10;
const GPAUSEPARAM: u32 = 0x12;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
const GFLAGS: u32 = 0x25;
const SFLAGS: u32 = 0x26;
const GCHANNELS: u32 = 0x3c;
const SCHANNELS: u32 = 0x3d;

/// `ETH_SS_STATS`, and bytes of a name in a set of texts (`ETH_GSTRING_LEN`).
const STATISTICS: u32 = 1;
const NAME_LEN: usize = 32;

/// Lengths of `ethtool_drvinfo`, `ethtool_ringparam` and `ethtool_channels`; of `ethtool_gstrings`,
/// `ethtool_stats` and `ethtool_sset_info` without what follows them.
pub(super) const DRVINFO_LEN: usize = 196;
pub(super) const RINGPARAM_LEN: usize = 36;
pub(super) const CHANNELS_LEN: usize = 36;
pub(super) const PAUSEPARAM_LEN: usize = 16;
pub(super) const GSTRINGS_LEN: usize = 12;
pub(super) const STATS_LEN: usize = 8;
pub(super) const SSET_INFO_LEN: usize = 16;

/// Length of `ethtool_value`, and `ETH_FLAG_NTUPLE` in it.
pub(super) const VALUE_LEN: usize = 8;
pub(super) const FLAG_NTUPLE: u32 = 1 << 27;

/// The driver of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Its name.
    pub name: String,
    /// Its version; that of the kernel where it has none of its own.
    pub version: String,
    /// Version of the card's firmware; empty where there is none.
    pub firmware: String,
    /// The PCI address of the card; empty if it has none.
    pub bus: String,
}

impl Driver {
    pub(super) fn read(answer: &[u8]) -> Driver {
        Driver {
            name: text_at(answer, 4, 32),
            version: text_at(answer, 36, 32),
            firmware: text_at(answer, 68, 32),
            bus: text_at(answer, 100, 32),
        }
    }
}

/// Numbers of queues of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// Receive-only queues.
    pub rx: u32,
    /// Transmit-only queues.
    pub tx: u32,
    /// For other interrupts than of packets.
    pub other: u32,
    /// Combined queues.
    pub combined: u32,
}

impl Queues {
    /// Queues that receive.
    pub fn receiving(&self) -> u32 {
        self.rx + self.combined
    }
}

/// Queues that a card has (`ethtool_channels`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// As it is set.
    pub now: Queues,
    /// At most.
    pub most: Queues,
}

impl Channels {
    pub(super) fn read(answer: &[u8]) -> Channels {
        let queues = |at| Queues {
            rx: u32_at(answer, at),
            tx: u32_at(answer, at + 4),
            other: u32_at(answer, at + 8),
            combined: u32_at(answer, at + 12),
        };
        Channels { most: queues(4), now: queues(20) }
    }

    pub(super) fn set(queues: &Queues) -> Vec<u8> {
        let Queues { rx, tx, other, combined } = *queues;
        let bytes = Bytes::of(SCHANNELS, CHANNELS_LEN);
        bytes.u32(20, rx).u32(24, tx).u32(28, other).u32(32, combined).0
    }

    /// The numbers with which `count` queues receive: those that do both, where the card has such,
    /// else those that receive and as many that send. `None` where it has not so many.
    pub fn with_receiving(&self, count: u32) -> Option<Queues> {
        let Channels { now, most } = *self;
        if most.combined > 0 {
            // What only receives beside them is counted by the card after them.
            return (count <= most.combined).then_some(Queues { rx: 0, combined: count, ..now });
        }
        let tx = count.min(most.tx);
        (count <= most.rx).then_some(Queues { rx: count, tx, ..now })
    }
}

/// Descriptors of the rings of each queue (`ethtool_ringparam`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// To receive by.
    pub rx: u32,
    /// At most.
    pub rx_most: u32,
    /// To send by.
    pub tx: u32,
    /// At most.
    pub tx_most: u32,
}

/// Which pause frames an interface uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// It obeys those of the other end.
    pub rx: bool,
    /// It sends them.
    pub tx: bool,
}

impl Pause {
    pub(super) fn read(answer: &[u8]) -> Pause {
        Pause { rx: u32_at(answer, 8) != 0, tx: u32_at(answer, 12) != 0 }
    }
}

impl Rings {
    pub(super) fn read(answer: &[u8]) -> Rings {
        Rings {
            rx_most: u32_at(answer, 4),
            tx_most: u32_at(answer, 16),
            rx: u32_at(answer, 20),
            tx: u32_at(answer, 32),
        }
    }
}

/// A statistic that the driver keeps, by its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// As `ethtool -S` shows it.
    pub name: String,
    /// Its value.
    pub value: u64,
}

pub(super) fn ask_names(count: u32) -> (Vec<u8>, usize) {
    let command = Bytes::of(GSTRINGS, GSTRINGS_LEN).u32(4, STATISTICS).u32(8, count).0;
    (command, GSTRINGS_LEN + count as usize * NAME_LEN)
}

pub(super) fn read_names(answer: &[u8]) -> Vec<String> {
    let names = answer.get(GSTRINGS_LEN..).unwrap_or_default().chunks_exact(NAME_LEN);
    names.take(u32_at(answer, 8) as usize).map(|name| text_at(name, 0, NAME_LEN)).collect()
}

pub(super) fn ask_values(count: u32) -> (Vec<u8>, usize) {
    (Bytes::of(GSTATS, STATS_LEN).u32(4, count).0, STATS_LEN + count as usize * 8)
}

pub(super) fn read_values(answer: &[u8]) -> Vec<u64> {
    let values = answer.get(STATS_LEN..).unwrap_or_default().chunks_exact(8);
    values.take(u32_at(answer, 4) as usize).map(|value| u64_at(value, 0)).collect()
}

pub(super) fn ask_count() -> (Vec<u8>, usize) {
    let command = Bytes::of(GSSET_INFO, SSET_INFO_LEN).u64(8, 1 << STATISTICS).0;
    (command, SSET_INFO_LEN + 4)
}

/// How many texts there are; none where the kernel took the set's bit away.
pub(super) fn read_count(answer: &[u8]) -> u32 {
    if u64_at(answer, 8) == 0 { 0 } else { u32_at(answer, SSET_INFO_LEN) }
}

pub(super) fn ask_flags() -> Vec<u8> {
    Bytes::of(GFLAGS, VALUE_LEN).0
}

pub(super) fn read_flags(answer: &[u8]) -> u32 {
    u32_at(answer, 4)
}

pub(super) fn set_flags(flags: u32) -> Vec<u8> {
    Bytes::of(SFLAGS, VALUE_LEN).u32(4, flags).0
}

impl Card {
    /// Whether n-tuple rules are switched on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn ntuple(&mut self) -> io::Result<bool> {
        let flags = self.if_known(&ask_flags(), VALUE_LEN, read_flags)?;
        Ok(flags.is_some_and(|flags| flags & FLAG_NTUPLE != 0))
    }

    /// Switches n-tuple rules on or off.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_ntuple(&mut self, on: bool) -> io::Result<()> {
        let flags = self.if_known(&ask_flags(), VALUE_LEN, read_flags)?.unwrap_or(0);
        let flags = if on { flags | FLAG_NTUPLE } else { flags & !FLAG_NTUPLE };
        self.caller.call(&set_flags(flags), 0).map(|_| ())
    }

    /// The driver.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn driver(&mut self) -> io::Result<Driver> {
        let command = Bytes::of(GDRVINFO, DRVINFO_LEN).0;
        Ok(Driver::read(self.caller.call(&command, DRVINFO_LEN)?))
    }

    /// The queues; `None` where the driver does not tell.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn channels(&mut self) -> io::Result<Option<Channels>> {
        let command = Bytes::of(GCHANNELS, CHANNELS_LEN).0;
        self.if_known(&command, CHANNELS_LEN, Channels::read)
    }

    /// Gives it so many queues.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_channels(&mut self, queues: &Queues) -> io::Result<()> {
        self.caller.call(&Channels::set(queues), 0).map(|_| ())
    }

    /// The rings; `None` where the driver does not tell.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn rings(&mut self) -> io::Result<Option<Rings>> {
        let command = Bytes::of(GRINGPARAM, RINGPARAM_LEN).0;
        self.if_known(&command, RINGPARAM_LEN, Rings::read)
    }

    /// Pause frames (IEEE 802.3, annex 31B); `None` where the driver does not tell.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pause(&mut self) -> io::Result<Option<Pause>> {
        let command = Bytes::of(GPAUSEPARAM, PAUSEPARAM_LEN).0;
        self.if_known(&command, PAUSEPARAM_LEN, Pause::read)
    }

    /// The driver's statistics; empty if it has none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn statistics(&mut self) -> io::Result<Vec<Statistic>> {
        let (command, len) = ask_count();
        let count = self.if_known(&command, len, read_count)?.unwrap_or(0);
        if count == 0 {
            return Ok(Vec::new());
        }
        let (command, len) = ask_names(count);
        let names = read_names(self.caller.call(&command, len)?);
        let (command, len) = ask_values(count);
        let values = read_values(self.caller.call(&command, len)?);
        let of = |(name, value)| Statistic { name, value };
        Ok(names.into_iter().zip(values).map(of).collect())
    }
}
