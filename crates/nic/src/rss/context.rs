//! An RSS context: a state of RSS, prepared for workers.
//!
//! A mask for each class of packets tells which fields are hashed, so that one code path serves all
//! hash types. A zero byte adds nothing to the hash: fields that are not hashed are zero, and so
//! there are two lengths of input, not four.

use std::sync::Arc;

use niclab_packet::key::{Depth, Key, field};

use super::{HashFunction, HashTypes, Indirection, Rss, RssLevel, RssStamp};
use crate::limits::{BURST, INDIRECTION_LEN, RSS_BULK_MIN};
use crate::memory::Desc;
use crate::tables::bits;
use crate::toeplitz::{IPV4_4_TUPLE_LEN, IPV6_4_TUPLE_LEN, Toeplitz};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Classes of packets of one version of IP. Classes from [`FRAGMENT`] on are of fragments.
const CLASSES: usize = 8;
const CLASS_TCP: usize = 1;
const CLASS_UDP: usize = 2;
const CLASS_SCTP: usize = 3;
const FRAGMENT: usize = 4;

/// The bits of a key that are hashed, for packets of one class.
#[derive(Clone, Copy, Default)]
struct Counting {
    /// Bits of word 2: source in the low half, destination in the high half.
    addresses: u64,
    /// Bits of the low half of word 3: source port, then destination port.
    ports: u32,
}

/// A state of RSS, prepared for workers.
pub(crate) struct Context {
    stamp: RssStamp,
    toeplitz: Arc<Toeplitz>,
    symmetric: bool,
    /// No type of packets is hashed: all have the hash 0.
    hashes_none: bool,
    level: RssLevel,
    ipv4: [Counting; CLASSES],
    ipv6: [Counting; CLASSES],
    indirection: Box<Indirection>,
}

impl Context {
    /// `toeplitz` is the state's key, expanded.
    pub(crate) fn new(rss: &Rss, toeplitz: Arc<Toeplitz>, stamp: RssStamp) -> Context {
        let ipv4 = [
            (HashTypes::IPV4_OTHER, HashTypes::NONE),
            (HashTypes::NONE, HashTypes::IPV4_TCP),
            (HashTypes::NONE, HashTypes::IPV4_UDP),
            (HashTypes::NONE, HashTypes::IPV4_SCTP),
            (HashTypes::IPV4_FRAG, HashTypes::NONE),
        ];
        let ipv6 = [
            (HashTypes::IPV6_OTHER, HashTypes::NONE),
            (HashTypes::NONE, HashTypes::IPV6_TCP),
            (HashTypes::NONE, HashTypes::IPV6_UDP),
            (HashTypes::NONE, HashTypes::IPV6_SCTP),
            (HashTypes::IPV6_FRAG, HashTypes::NONE),
        ];
        let classes = |any: HashTypes, of: [(HashTypes, HashTypes); FRAGMENT + 1]| {
            std::array::from_fn(|class| {
                let (addresses, ports) = of[class.min(FRAGMENT)];
                counting(rss.types, [any, addresses, ports], ports)
            })
        };
        Context {
            stamp,
            symmetric: rss.function == HashFunction::SymmetricToeplitz,
            hashes_none: rss.types == HashTypes::NONE,
            level: rss.level,
            ipv4: classes(HashTypes::IPV4, ipv4),
            ipv6: classes(HashTypes::IPV6, ipv6),
            indirection: rss.indirection.clone(),
            toeplitz,
        }
    }

    /// The stamp of the state.
    pub(crate) fn stamp(&self) -> RssStamp {
        self.stamp
    }

    /// The indirection table.
    pub(crate) fn indirection(&self) -> &Indirection {
        &self.indirection
    }

    /// Which headers are hashed.
    pub(crate) fn level(&self) -> RssLevel {
        self.level
    }

    /// The key, expanded.
    pub(crate) fn toeplitz(&self) -> &Arc<Toeplitz> {
        &self.toeplitz
    }

    /// Sets hash and queue of the packets in `wanted`; `keys` is indexed as the burst is.
    #[inline]
    pub(crate) fn steer_packets(&self, keys: &[Key; BURST], wanted: u64, burst: &mut [Desc]) {
        match self.symmetric {
            _ if self.hashes_none => bits(wanted).for_each(|i| self.steer(&mut burst[i], 0)),
            true => self.steer_packets_with::<true>(keys, wanted, burst),
            false => self.steer_packets_with::<false>(keys, wanted, burst),
        }
    }

    #[inline]
    fn steer_packets_with<const SYMMETRIC: bool>(
        &self,
        keys: &[Key; BURST],
        wanted: u64,
        burst: &mut [Desc],
    ) {
        let read = keys.iter().take(burst.len()).enumerate();
        let ipv6 = read.fold(0, |mask, (i, key)| mask | u64::from(is_ipv6(key)) << i);
        let tuple = |key: &Key| ipv4_tuple::<SYMMETRIC>(key, &self.ipv4);
        self.steer_tuples(keys, wanted & !ipv6, tuple, burst);
        let tuple = |key: &Key| ipv6_tuple::<SYMMETRIC>(key, &self.ipv6);
        self.steer_tuples(keys, wanted & ipv6, tuple, burst);
    }

    /// [`Context::steer_packets`] for packets with the same length of input: hashes them together
    /// if they are many.
    #[inline]
    fn steer_tuples<const N: usize>(
        &self,
        keys: &[Key; BURST],
        wanted: u64,
        tuple: impl Fn(&Key) -> [u8; N],
        burst: &mut [Desc],
    ) {
        let count = wanted.count_ones() as usize;
        if count < RSS_BULK_MIN {
            for i in bits(wanted) {
                self.steer(&mut burst[i], self.toeplitz.hash(&tuple(&keys[i])));
            }
        } else if 4 * count >= 3 * burst.len() {
            self.steer_whole_burst(keys, wanted, tuple, burst);
        } else {
            self.steer_picked(keys, wanted, tuple, burst);
        }
    }

    /// [`Context::steer_tuples`] for most of a burst: hashes the whole burst, because picking the
    /// wanted packets costs more than hashing the others.
    #[inline(never)]
    fn steer_whole_burst<const N: usize>(
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

    /// [`Context::steer_tuples`] for fewer packets of a burst.
    #[inline(never)]
    fn steer_picked<const N: usize>(
        &self,
        keys: &[Key; BURST],
        wanted: u64,
        tuple: impl Fn(&Key) -> [u8; N],
        burst: &mut [Desc],
    ) {
        let (mut tuples, mut hashes) = ([[0; N]; BURST], [0; BURST]);
        for (into, i) in tuples.iter_mut().zip(bits(wanted)) {
            *into = tuple(&keys[i]);
        }
        let count = wanted.count_ones() as usize;
        self.toeplitz.hash_bulk(&tuples[..count], &mut hashes[..count]);
        for (hash, i) in hashes.into_iter().zip(bits(wanted)) {
            self.steer(&mut burst[i], hash);
        }
    }

    #[inline]
    fn steer(&self, desc: &mut Desc, hash: u32) {
        desc.hash = hash;
        desc.queue = self.indirection[hash as usize % INDIRECTION_LEN];
    }
}

/// The bits that are hashed of packets that each of `names` names; `ports` is the type with ports.
fn counting(types: HashTypes, names: [HashTypes; 3], ports: HashTypes) -> Counting {
    let has = |name: HashTypes| name != HashTypes::NONE && types.contains(name);
    let both = |src: HashTypes, dst: HashTypes| match [types.contains(src), types.contains(dst)] {
        [true, false] => [true, false],
        [false, true] => [false, true],
        _ => [true; 2],
    };
    let mut counting = Counting::default();
    if names.into_iter().any(has) {
        let [src, dst] = both(HashTypes::L3_SRC_ONLY, HashTypes::L3_DST_ONLY).map(u64::from);
        counting.addresses = 0xffff_ffff * (src | dst << 32);
    }
    if has(ports) {
        let [src, dst] = both(HashTypes::L4_SRC_ONLY, HashTypes::L4_DST_ONLY).map(u32::from);
        counting.ports = 0xffff * (src | dst << 16);
    }
    counting
}

/// The keys for a hash of inner headers: the inner key of a packet that has one and is no fragment
/// outside, else the outer key.
#[cold]
#[inline(never)]
pub(crate) fn innermost(outer: &[Key; BURST], inner: &[Key; BURST], wanted: u64) -> [Key; BURST] {
    let mut keys = *outer;
    for i in bits(wanted) {
        if class(&outer[i]) < FRAGMENT && has_ip(&inner[i]) {
            keys[i] = inner[i];
        }
    }
    keys
}

fn has_ip(key: &Key) -> bool {
    key.to_bytes()[field::DEPTH.start] & Depth::Ip.bit() != 0
}

fn is_ipv6(key: &Key) -> bool {
    (key.0[3] >> 48) as u16 == u16::from_le_bytes([0x86, 0xdd])
}

/// The class of an IP packet; ports that it lacks are zero in its key.
#[inline]
fn class(key: &Key) -> usize {
    let [protocol, fragment] = [key.0[3] >> 32, key.0[7] >> 32].map(|word| word as u8);
    let is = |number: u8| usize::from(protocol == number);
    let fragment = usize::from(fragment & 1) * FRAGMENT;
    fragment + is(TCP) * CLASS_TCP + is(UDP) * CLASS_UDP + is(SCTP) * CLASS_SCTP
}

/// The ports to hash.
#[inline]
fn ports<const SYMMETRIC: bool>(key: &Key, counting: Counting) -> [u8; 4] {
    let ports = key.0[3] as u32 & counting.ports;
    let ports = if SYMMETRIC { ports ^ ports.rotate_left(16) } else { ports };
    ports.to_le_bytes()
}

/// The hash input of an IPv4 packet; all zero for frames that are not IP.
#[inline]
fn ipv4_tuple<const SYMMETRIC: bool>(
    key: &Key,
    classes: &[Counting; CLASSES],
) -> [u8; IPV4_4_TUPLE_LEN] {
    let counting = classes[class(key)];
    let addresses = key.0[2] & counting.addresses;
    let addresses = if SYMMETRIC { addresses ^ addresses.rotate_left(32) } else { addresses };
    let mut tuple = [0; IPV4_4_TUPLE_LEN];
    tuple[..8].copy_from_slice(&addresses.to_le_bytes());
    tuple[8..].copy_from_slice(&ports::<SYMMETRIC>(key, counting));
    tuple
}

/// The hash input of an IPv6 packet; all zero if its header is cut off.
#[inline]
fn ipv6_tuple<const SYMMETRIC: bool>(
    key: &Key,
    classes: &[Counting; CLASSES],
) -> [u8; IPV6_4_TUPLE_LEN] {
    let counting = classes[class(key)];
    let [first, src, both, dst] = [2, 4, 5, 6].map(|word| key.0[word]);
    let [first, both] = [first, both].map(|word| word & counting.addresses);
    let src = u128::from(first as u32) | u128::from(src) << 32 | u128::from(both as u32) << 96;
    let dst = u128::from(first >> 32) | u128::from(both >> 32) << 32 | u128::from(dst) << 64;
    let whole = |half: u64| u128::from(half as u32 & 1).wrapping_neg();
    let src = src & whole(counting.addresses);
    let dst = dst & whole(counting.addresses >> 32);
    let [src, dst] = if SYMMETRIC { [src ^ dst; 2] } else { [src, dst] };
    let mut tuple = [0; IPV6_4_TUPLE_LEN];
    tuple[..16].copy_from_slice(&src.to_le_bytes());
    tuple[16..32].copy_from_slice(&dst.to_le_bytes());
    tuple[32..].copy_from_slice(&ports::<SYMMETRIC>(key, counting));
    tuple
}

const _: () = assert!(field::SRC_HEAD.start == 16 && field::DST_HEAD.end == 24, "word 2");
const _: () = assert!(field::SPORT.start == 24 && field::DPORT.end == 28, "word 3");
const _: () = assert!(field::PROTOCOL.start == 28 && field::ETHER_TYPE.start == 30, "word 3");
const _: () = assert!(field::SRC_TAIL.start == 32 && field::DST_TAIL.start == 44, "words 4 to 6");
const _: () = assert!(field::FRAGMENT.start == 60, "word 7");
const _: () = assert!(CLASS_SCTP < FRAGMENT && FRAGMENT + CLASS_SCTP < CLASSES);
