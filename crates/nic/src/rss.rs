//! Receive side scaling: hash, indirection table, queue.
//!
//! The hash is Toeplitz's, over what Microsoft's "RSS Hashing Types" says of NDIS_HASH_TCP, _UDP and
//! both _IPV4 and _IPV6 together:
//! <https://learn.microsoft.com/windows-hardware/drivers/network/rss-hashing-types>
//!
//! - TCP and UDP: addresses and ports, behind IP options and IPv6 extension headers;
//! - any other IP packet: its addresses. SCTP is one of them, for it has no hash type of its own;
//! - a fragment, the first included though it has ports: its addresses, so that all fragments of a
//!   packet reach one queue;
//! - a frame that is not IP: not hashed; it gets the queue of hash 0.
//!
//! A zero byte adds nothing to this hash, so addresses alone are hashed as addresses with ports of
//! zero: there are two lengths of input, not four.

use niclab_packet::key::{Key, field};

use crate::limits::INDIRECTION_LEN;
use crate::toeplitz::{IPV4_4_TUPLE_LEN, IPV6_4_TUPLE_LEN, Toeplitz, ToeplitzError};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The hash and the table that turns it into a queue.
pub(crate) struct Rss {
    toeplitz: Toeplitz,
    indirection: Box<[u16; INDIRECTION_LEN]>,
}

impl Rss {
    /// Spreads evenly over `queues` queues.
    pub(crate) fn new(key: &[u8], queues: u16) -> Result<Rss, ToeplitzError> {
        let toeplitz = Toeplitz::new(key)?;
        let mut indirection = Box::new([0; INDIRECTION_LEN]);
        for (i, queue) in indirection.iter_mut().enumerate() {
            *queue = (i % usize::from(queues)) as u16;
        }
        Ok(Rss { toeplitz, indirection })
    }

    /// Hash and queue of a packet.
    pub(crate) fn spread(&self, key: &Key) -> (u32, u16) {
        let hash = match is_ipv6(key) {
            true => self.toeplitz.hash(&ipv6_tuple(key)),
            false => self.toeplitz.hash(&ipv4_tuple(key)),
        };
        (hash, self.indirection[hash as usize % INDIRECTION_LEN])
    }
}

fn is_ipv6(key: &Key) -> bool {
    (key.0[3] >> 48) as u16 == u16::from_le_bytes([0x86, 0xdd])
}

/// What the hash of an IPv4 packet is taken over; all zero for frames that are not IP.
fn ipv4_tuple(key: &Key) -> [u8; IPV4_4_TUPLE_LEN] {
    let mut tuple = [0; IPV4_4_TUPLE_LEN];
    tuple[..8].copy_from_slice(&key.0[2].to_le_bytes());
    tuple[8..].copy_from_slice(&ports(key));
    tuple
}

/// What the hash of an IPv6 packet is taken over; all zero if its header is cut off.
fn ipv6_tuple(key: &Key) -> [u8; IPV6_4_TUPLE_LEN] {
    let line = key.to_bytes();
    let mut tuple = [0; IPV6_4_TUPLE_LEN];
    tuple[..4].copy_from_slice(&line[field::SRC_HEAD]);
    tuple[4..16].copy_from_slice(&line[field::SRC_TAIL]);
    tuple[16..20].copy_from_slice(&line[field::DST_HEAD]);
    tuple[20..32].copy_from_slice(&line[field::DST_TAIL]);
    tuple[32..].copy_from_slice(&ports(key));
    tuple
}

/// Both ports where the hash is taken over them, else zeros.
fn ports(key: &Key) -> [u8; 4] {
    let [protocol, fragment] = [key.0[3] >> 32, key.0[7] >> 32].map(|word| word as u8);
    let hashed = fragment == 0 && (protocol == TCP || protocol == UDP);
    ((key.0[3] as u32) * u32::from(hashed)).to_le_bytes()
}

const _: () = assert!(field::SRC_HEAD.start == 16 && field::DST_HEAD.end == 24, "word 2");
const _: () = assert!(field::SPORT.start == 24 && field::DPORT.end == 28, "word 3");
const _: () = assert!(field::PROTOCOL.start == 28 && field::ETHER_TYPE.start == 30, "word 3");
const _: () = assert!(field::FRAGMENT.start == 60, "word 7");
