//! Receive side scaling: hash, indirection table, queue.
//!
//! The hash is Toeplitz's, over what Microsoft says of the types NDIS_HASH_TCP, _UDP and both _IPV4
//! and _IPV6 together ("RSS Hashing Types"):
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

use crate::limits::{BURST, INDIRECTION_LEN, SPREAD_BULK_MIN};
use crate::memory::Desc;
use crate::tables::bits;
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

    /// Gives those packets of a burst whose bit is set in `wanted` their hash and queue; `keys` is
    /// indexed as the burst is.
    #[inline]
    pub(crate) fn spread(&self, keys: &[Key; BURST], wanted: u64, burst: &mut [Desc]) {
        let read = keys.iter().take(burst.len()).enumerate();
        let ipv6 = read.fold(0, |mask, (i, key)| mask | u64::from(is_ipv6(key)) << i);
        self.spread_tuples(keys, wanted & !ipv6, ipv4_tuple, burst);
        self.spread_tuples(keys, wanted & ipv6, ipv6_tuple, burst);
    }

    /// [`Rss::spread`] for packets whose hash is taken over as many bytes: all at once where they
    /// are most of a long burst.
    #[inline]
    fn spread_tuples<const N: usize>(
        &self,
        keys: &[Key; BURST],
        wanted: u64,
        tuple: impl Fn(&Key) -> [u8; N],
        burst: &mut [Desc],
    ) {
        let count = wanted.count_ones() as usize;
        if count >= SPREAD_BULK_MIN && 4 * count >= 3 * burst.len() {
            return self.spread_bulk(keys, wanted, tuple, burst);
        }
        for i in bits(wanted) {
            self.steer(&mut burst[i], self.toeplitz.hash(&tuple(&keys[i])));
        }
    }

    /// [`Rss::spread_tuples`] all at once. The whole burst is hashed as it stands: to pick what is
    /// wanted costs more than to hash the rest.
    #[inline(never)]
    fn spread_bulk<const N: usize>(
        &self,
        keys: &[Key; BURST],
        wanted: u64,
        tuple: impl Fn(&Key) -> [u8; N],
        burst: &mut [Desc],
    ) {
        let (mut tuples, mut hashes) = ([[0; N]; BURST], [0; BURST]);
        let keys = &keys[..burst.len()];
        for (into, key) in tuples.iter_mut().zip(keys) {
            *into = tuple(key);
        }
        self.toeplitz.hash_bulk(&tuples[..keys.len()], &mut hashes[..keys.len()]);
        for (i, (desc, hash)) in burst.iter_mut().zip(hashes).enumerate() {
            if wanted >> i & 1 == 1 {
                self.steer(desc, hash);
            }
        }
    }

    #[inline]
    fn steer(&self, desc: &mut Desc, hash: u32) {
        desc.hash = hash;
        desc.queue = self.indirection[hash as usize % INDIRECTION_LEN];
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
    let [addresses, src, both, dst] = [2, 4, 5, 6].map(|word| key.0[word].to_le_bytes());
    let mut tuple = [0; IPV6_4_TUPLE_LEN];
    tuple[..4].copy_from_slice(&addresses[..4]);
    tuple[4..12].copy_from_slice(&src);
    tuple[12..16].copy_from_slice(&both[..4]);
    tuple[16..20].copy_from_slice(&addresses[4..]);
    tuple[20..24].copy_from_slice(&both[4..]);
    tuple[24..32].copy_from_slice(&dst);
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
const _: () = assert!(field::SRC_TAIL.start == 32 && field::DST_TAIL.start == 44, "words 4 to 6");
const _: () = assert!(field::FRAGMENT.start == 60, "word 7");
