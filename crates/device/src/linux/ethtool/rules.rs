//! The table of n-tuple rules of a card (`ethtool_rxnfc`).

use std::io;

use super::Card;
use super::flow::Flow;
use super::layout::{Bytes, u32_at, u64_at};

const GRXCLSRLCNT: u32 = 0x2e;
const GRXCLSRLALL: u32 = 0x30;
const SRXCLSRLDEL: u32 = 0x31;
const SRXCLSRLINS: u32 = 0x32;

/// Length of `ethtool_rxnfc`; where its rule lies, the number of rules, and their locations.
pub(super) const RXNFC_LEN: usize = 192;
pub(super) const FLOW_AT: usize = 16;
pub(super) const COUNT_AT: usize = 184;
pub(super) const LOCATIONS_AT: usize = 188;
const LOCATION_AT: usize = FLOW_AT + 160;

/// The driver can find locations itself (`RX_CLS_LOC_SPECIAL`).
const LOCATION_SPECIAL: u64 = 0x8000_0000;

/// The n-tuple rules of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NtupleTable {
    /// Places that it has; 0 where the driver does not tell.
    pub places: u32,
    /// The driver finds a place for a rule where none is named.
    pub finds_places: bool,
    /// Places that are taken, ascending.
    pub taken: Vec<u32>,
}

impl NtupleTable {
    /// The free places, ascending: the lower one is looked at first.
    pub fn free(&self) -> impl DoubleEndedIterator<Item = u32> {
        (0..self.places).filter(|place| self.taken.binary_search(place).is_err())
    }
}

pub(super) fn ask_count() -> Vec<u8> {
    Bytes::of(GRXCLSRLCNT, RXNFC_LEN).0
}

/// The number of rules, and whether the driver finds places itself.
pub(super) fn read_count(answer: &[u8]) -> (u32, bool) {
    (u32_at(answer, COUNT_AT), u64_at(answer, 8) & LOCATION_SPECIAL != 0)
}

pub(super) fn ask_all(count: u32) -> (Vec<u8>, usize) {
    let command = Bytes::of(GRXCLSRLALL, RXNFC_LEN).u32(COUNT_AT, count).0;
    (command, LOCATIONS_AT + count as usize * 4)
}

/// The size of the table, and the places of its rules.
pub(super) fn read_all(answer: &[u8]) -> (u32, Vec<u32>) {
    let places = answer.get(LOCATIONS_AT..).unwrap_or_default().chunks_exact(4);
    let taken = places.take(u32_at(answer, COUNT_AT) as usize).map(|place| u32_at(place, 0));
    (u64_at(answer, 8) as u32, taken.collect())
}

pub(super) fn insert(flow: &Flow) -> Vec<u8> {
    let mut bytes = Bytes::of(SRXCLSRLINS, RXNFC_LEN);
    bytes.put(FLOW_AT, &flow.to_bytes());
    bytes.0
}

pub(super) fn at(command: u32, location: u32) -> Vec<u8> {
    Bytes::of(command, RXNFC_LEN).u32(LOCATION_AT, location).0
}

/// The place that an inserted rule has.
pub(super) fn read_location(answer: &[u8]) -> u32 {
    u32_at(answer, LOCATION_AT)
}

impl Card {
    /// The table of rules; `None` where the driver has none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn rules(&mut self) -> io::Result<Option<NtupleTable>> {
        let Some((count, finds_places)) = self.if_known(&ask_count(), RXNFC_LEN, read_count)?
        else {
            return Ok(None);
        };
        let (command, len) = ask_all(count);
        let reply = self.if_known(&command, len.max(RXNFC_LEN), read_all)?;
        let (places, mut taken) = reply.unwrap_or_default();
        taken.sort_unstable();
        Ok(Some(NtupleTable { places, finds_places, taken }))
    }

    /// Puts a rule in; where it lies then.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn insert(&mut self, flow: &Flow) -> io::Result<u32> {
        self.caller.call(&insert(flow), RXNFC_LEN).map(read_location)
    }

    /// Takes the rule at a place out.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&mut self, location: u32) -> io::Result<()> {
        self.caller.call(&at(SRXCLSRLDEL, location), RXNFC_LEN).map(|_| ())
    }
}
