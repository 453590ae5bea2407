//! RSS of a card: key, indirection table, hash, and the fields that it
//! is taken of.

use std::io;

use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::rss::{HashFunction, HashTypes, Rss, RssLevel};
use serde::{Deserialize, Serialize};

use super::Card;
use super::layout::{Bytes, u32_at, u64_at};

const GRXFH: u32 = 0x29;
const SRXFH: u32 = 0x2a;
const GRSSH: u32 = 0x46;
const SRSSH: u32 = 0x47;

/// Length of `ethtool_rxfh` without table and key, and of the part of `ethtool_rxnfc` that says
/// which fields count.
pub(super) const RXFH_LEN: usize = 24;
pub(super) const FIELDS_LEN: usize = 16;

/// No change of the table (`ETH_RXFH_INDIR_NO_CHANGE`).
const INDIR_NO_CHANGE: u32 = u32::MAX;

/// Bytes of a key that the software card can compute with.
const KEY_LENS: std::ops::RangeInclusive<usize> = 40..=128;

/// `ETH_RSS_HASH_TOP`, and `RXH_XFRM_SYM_XOR` of newer kernels.
const TOEPLITZ: u8 = 1;
const SYMMETRIC: u8 = 1;

/// Hash fields (`RXH_…`): addresses, ports.
pub const IP_SRC: u32 = 1 << 4;
/// Destination address.
pub const IP_DST: u32 = 1 << 5;
/// Source port.
pub const L4_SRC: u32 = 1 << 6;
/// Destination port.
pub const L4_DST: u32 = 1 << 7;

const ADDRESSES: u32 = IP_SRC | IP_DST;
const PORTS: u32 = L4_SRC | L4_DST;

/// Packets whose hash fields can be asked for, by the kernel's number of them (`TCP_V4_FLOW`, …).
pub const FLOWS: [(&str, u32, HashTypes); 8] = [
    ("tcp4", 0x01, HashTypes::IPV4_TCP),
    ("udp4", 0x02, HashTypes::IPV4_UDP),
    ("sctp4", 0x03, HashTypes::IPV4_SCTP),
    ("tcp6", 0x05, HashTypes::IPV6_TCP),
    ("udp6", 0x06, HashTypes::IPV6_UDP),
    ("sctp6", 0x07, HashTypes::IPV6_SCTP),
    ("ipv4", 0x10, HashTypes::IPV4),
    ("ipv6", 0x11, HashTypes::IPV6),
];

/// The RSS hash of a card and its indirection table (`ethtool_rxfh`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RssConfig {
    /// The queue for each remainder of the hash; empty where the card has no table to be told.
    pub indirection: Vec<u32>,
    /// The hash's key; empty where the card has none to be told.
    pub key: Vec<u8>,
    /// The hash: 1 Toeplitz, 2 exclusive or, 4 CRC32.
    pub function: u8,
    /// The transform of the fields: 1 for the same hash of both directions.
    pub transform: u8,
}

/// The fields that the hash of some packets is taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields {
    /// Which packets: a number of [`FLOWS`].
    pub flow: u32,
    /// `RXH_…` bits.
    pub fields: u32,
}

impl RssConfig {
    /// The question for a table and a key of these lengths; of none, for their lengths.
    pub(super) fn ask(entries: u32, key_len: u32) -> (Vec<u8>, usize) {
        let command = Bytes::of(GRSSH, RXFH_LEN).u32(8, entries).u32(12, key_len).0;
        (command, RXFH_LEN + entries as usize * 4 + key_len as usize)
    }

    pub(super) fn lens(answer: &[u8]) -> (u32, u32) {
        (u32_at(answer, 8), u32_at(answer, 12))
    }

    pub(super) fn read(answer: &[u8]) -> RssConfig {
        let (entries, key_len) = RssConfig::lens(answer);
        let rest = answer.get(RXFH_LEN..).unwrap_or_default();
        let (table, key) = rest.split_at(rest.len().min(entries as usize * 4));
        RssConfig {
            indirection: table.chunks_exact(4).map(|entry| u32_at(entry, 0)).collect(),
            key: key.iter().copied().take(key_len as usize).collect(),
            function: answer.get(16).copied().unwrap_or(0),
            transform: answer.get(17).copied().unwrap_or(0),
        }
    }

    /// The command to have it so; an empty table or key stays as it is.
    pub(super) fn set(&self) -> Vec<u8> {
        let entries = match self.indirection.len() {
            0 => INDIR_NO_CHANGE,
            entries => entries as u32,
        };
        let table: Vec<u8> =
            self.indirection.iter().flat_map(|queue| queue.to_ne_bytes()).collect();
        let len = RXFH_LEN + table.len() + self.key.len();
        let mut bytes = Bytes::of(SRSSH, len).u32(8, entries).u32(12, self.key.len() as u32);
        bytes.put(16, &[self.function, self.transform]);
        bytes.put(RXFH_LEN, &table);
        bytes.put(RXFH_LEN + table.len(), &self.key);
        bytes.0
    }

    /// The same over the first `count` queues, each with as many entries as any other, or one less.
    pub fn evenly(&self, count: u32) -> RssConfig {
        let queues = (0..count.max(1)).cycle().take(self.indirection.len());
        RssConfig { indirection: queues.collect(), ..self.clone() }
    }

    /// As the software card would be told it; `None` where it has no such hash, no such table, or
    /// takes other fields.
    pub fn as_rss(&self, fields: &[Fields]) -> Option<Rss> {
        let function = match (self.function, self.transform) {
            (TOEPLITZ, 0) => HashFunction::Toeplitz,
            (TOEPLITZ, SYMMETRIC) => HashFunction::SymmetricToeplitz,
            _ => return None,
        };
        let entries = self.indirection.len();
        // A table stands in a longer one over and over.
        if entries == 0 || !INDIRECTION_LEN.is_multiple_of(entries) {
            return None;
        }
        let queues: Option<Vec<u16>> =
            self.indirection.iter().map(|queue| u16::try_from(*queue).ok()).collect();
        let mut queues = queues?.into_iter().cycle();
        let indirection = Box::new(std::array::from_fn(|_| queues.next().unwrap_or(0)));
        let key = KEY_LENS.contains(&self.key.len()).then(|| self.key.clone())?;
        let (types, level) = (types(fields)?, RssLevel::Outermost);
        Some(Rss { function, indirection, key, level, types })
    }
}

/// Of which packets a hash is taken that has these fields; `None` for others than whole pairs of
/// addresses and ports.
fn types(fields: &[Fields]) -> Option<HashTypes> {
    let mut types = HashTypes::NONE;
    for Fields { flow, fields } in fields {
        let (_, _, of_it) = FLOWS.iter().find(|(_, number, _)| number == flow)?;
        let is_v6 = HashTypes::TCP.contains(*of_it) && *of_it != HashTypes::IPV4_TCP
            || [HashTypes::IPV6_UDP, HashTypes::IPV6_SCTP, HashTypes::IPV6].contains(of_it);
        let addresses = match is_v6 {
            true => HashTypes::IPV6 | HashTypes::IPV6_FRAG | HashTypes::IPV6_OTHER,
            false => HashTypes::IPV4 | HashTypes::IPV4_FRAG | HashTypes::IPV4_OTHER,
        };
        types = types
            | match *fields {
                0 => HashTypes::NONE,
                ADDRESSES => addresses,
                both if both == ADDRESSES | PORTS => addresses | *of_it,
                _ => return None,
            };
    }
    Some(types)
}

impl Fields {
    pub(super) fn ask(flow: u32) -> Vec<u8> {
        Bytes::of(GRXFH, FIELDS_LEN).u32(4, flow).0
    }

    pub(super) fn read(answer: &[u8]) -> Fields {
        Fields { flow: u32_at(answer, 4), fields: u64_at(answer, 8) as u32 }
    }

    pub(super) fn set(self) -> Vec<u8> {
        Bytes::of(SRXFH, FIELDS_LEN).u32(4, self.flow).u64(8, self.fields.into()).0
    }
}

impl Card {
    /// Its RSS; `None` where the driver does not report it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn rss_config(&mut self) -> io::Result<Option<RssConfig>> {
        let (command, len) = RssConfig::ask(0, 0);
        let Some((entries, key_len)) = self.if_known(&command, len, RssConfig::lens)? else {
            return Ok(None);
        };
        if entries == 0 && key_len == 0 {
            return Ok(None);
        }
        let (command, len) = RssConfig::ask(entries, key_len);
        self.if_known(&command, len, RssConfig::read)
    }

    /// Sets its RSS; an empty table or key leaves the old one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_rss_config(&mut self, config: &RssConfig) -> io::Result<()> {
        self.caller.call(&config.set(), 0).map(|_| ())
    }

    /// Gives it the table that the kernel makes itself, for as long as nobody sets another;
    /// `transform` is [`RssConfig::transform`], which stays.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn reset_indirection(&mut self, transform: u8) -> io::Result<()> {
        // A table without entries means that, where the other settings have their own "no change".
        let mut command = RssConfig { transform, ..RssConfig::default() }.set();
        command[8..12].fill(0);
        self.caller.call(&command, 0).map(|_| ())
    }

    /// The fields that hashes are taken of, of the packets for which the driver tells.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn hash_fields(&mut self) -> io::Result<Vec<Fields>> {
        let mut all = Vec::new();
        for (_, flow, _) in FLOWS {
            match self.if_known(&Fields::ask(flow), FIELDS_LEN, Fields::read) {
                // A driver says so of packets that it does not know.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
                reply => all.extend(reply?),
            }
        }
        Ok(all)
    }

    /// Has it take the hash of some packets of these fields.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_hash_fields(&mut self, fields: Fields) -> io::Result<()> {
        self.caller.call(&fields.set(), 0).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> RssConfig {
        let key: Vec<u8> = (0..40).collect();
        RssConfig { indirection: vec![0, 1, 2, 3], key, function: TOEPLITZ, transform: 0 }
    }

    #[test]
    fn a_table_is_spread_evenly_over_fewer_queues() {
        assert_eq!(config().evenly(3).indirection, [0, 1, 2, 0]);
        assert_eq!(config().evenly(1).indirection, [0; 4]);
        assert_eq!(config().evenly(3).key, config().key);
    }

    #[test]
    fn an_rss_that_the_software_card_can_compute_is_reported_in_its_terms() {
        let all = ADDRESSES | PORTS;
        let fields = |fields: &[(u32, u32)]| -> Vec<Fields> {
            fields.iter().map(|&(flow, fields)| Fields { flow, fields }).collect()
        };
        let rss = config().as_rss(&fields(&[(1, all), (2, ADDRESSES), (5, all)])).unwrap();
        assert_eq!(rss.function, HashFunction::Toeplitz);
        assert_eq!(rss.indirection[..6], [0, 1, 2, 3, 0, 1]);
        assert_eq!(rss.types, HashTypes::IP | HashTypes::TCP);
        assert_eq!(rss.key, config().key);
        let symmetric = RssConfig { transform: SYMMETRIC, ..config() };
        let rss = symmetric.as_rss(&fields(&[(0x11, ADDRESSES)])).unwrap();
        assert_eq!(rss.function, HashFunction::SymmetricToeplitz);
        let v6 = HashTypes::IPV6 | HashTypes::IPV6_FRAG | HashTypes::IPV6_OTHER;
        assert_eq!(rss.types, v6);
        // What it cannot: another hash, another table, a short key, half of the addresses.
        for (config, reply) in [
            (RssConfig { function: 2, ..config() }, fields(&[])),
            (RssConfig { transform: 2, ..config() }, fields(&[])),
            (RssConfig { indirection: vec![0; 3], ..config() }, fields(&[])),
            (RssConfig { indirection: vec![0; 1_024], ..config() }, fields(&[])),
            (RssConfig { indirection: Vec::new(), ..config() }, fields(&[])),
            (RssConfig { indirection: vec![70_000; 4], ..config() }, fields(&[])),
            (RssConfig { key: vec![1; 16], ..config() }, fields(&[])),
            (config(), fields(&[(1, IP_SRC)])),
            (config(), fields(&[(0x77, ADDRESSES)])),
        ] {
            assert_eq!(config.as_rss(&reply), None, "{config:?} {reply:?}");
        }
    }
}
