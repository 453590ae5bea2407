//! Rules: pattern, actions, priority and group, in testpmd's syntax.
//!
//! [`text`] reads and prints rules, [`item`] has the items of a pattern, and [`compile`] makes of
//! them the [`Pattern`] that packets are compared with. An item such as `udp` matches the frames
//! that have this header.

mod action;
pub mod compile;
pub mod item;
mod item_document;
pub mod overlap;
pub mod session;
pub mod text;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Range, RangeInclusive};

use niclab_packet::key::{Depth, Ends, KEY_WORDS, Key, field, read_deep};

use crate::bounds::Bounds;
use crate::raw::{RawByte, RawWords};
use crate::tuple::{Ranges, ports_of};

pub use action::{Action, Set};

/// A rule to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule<'a> {
    /// Group of the rule; 0 is the root.
    pub group: u32,
    /// Priority, 0 is highest; at most [`PRIORITY_MAX`](crate::limits::PRIORITY_MAX).
    pub priority: u32,
    /// Which packets it matches.
    pub pattern: Pattern,
    /// Its actions; one of them is a fate.
    pub actions: &'a [Action],
}

/// Which packets a rule matches: values of fields, and a mask that says which fields count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern {
    outer: MaskedKey,
    /// `None` for a pattern of outer headers alone, which most are: such patterns are cheap to
    /// create.
    deep: Option<Box<Deep>>,
    /// Ranges of outer ports that bits cannot express.
    ranges: Ranges,
}

/// The parts of a pattern other than the outer headers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Deep {
    keys: [MaskedKey; HEADER_KEYS - 1],
    /// Where the words of the last key are.
    raw: RawWords,
    bounds: Bounds,
}

/// Values of one header key of a packet, and the bits that count; values are zero outside the mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct MaskedKey {
    pub(crate) value: Key,
    pub(crate) mask: Key,
}

/// The header keys of packets: the outer key, the inner key (headers inside a tunnel), the extra
/// key (fields that neither has room for, `niclab_packet::key::extra`), and the raw key (bytes at
/// offsets, `raw`).
pub(crate) const HEADER_KEYS: usize = 4;
pub(crate) const OUTER: usize = 0;
pub(crate) const INNER: usize = 1;
pub(crate) const EXTRA: usize = 2;
pub(crate) const RAW: usize = 3;

const ETHER_IPV4: [u8; 2] = [0x08, 0x00];
const ETHER_IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
const UDP: u8 = 17;

impl Pattern {
    /// The frames whose keys have these values in the bits of the mask.
    pub fn masked(value: &Key, mask: &Key) -> Pattern {
        Pattern { outer: MaskedKey::new(value, mask), ..Pattern::default() }
    }

    /// The packets whose header keys have these values in the bits of the masks, have the words of
    /// the last key, and lie in these ranges.
    fn of_keys(
        outer: MaskedKey,
        keys: [MaskedKey; HEADER_KEYS - 1],
        (raw, bounds): (RawWords, Bounds),
    ) -> Pattern {
        let is_deep = keys.iter().any(|key| key.mask != Key::default()) || !bounds.is_empty();
        let deep = is_deep.then(|| Box::new(Deep { keys, raw, bounds }));
        Pattern { outer, deep, ..Pattern::default() }
    }

    /// Every Ethernet frame: `eth`.
    #[inline]
    pub fn any() -> Pattern {
        Pattern::default()
    }

    /// Every IPv4 packet: `eth / ipv4`.
    #[inline]
    pub fn ipv4() -> Pattern {
        Pattern::any().and(|pattern| pattern.ip(&ETHER_IPV4))
    }

    /// Every IPv6 packet: `eth / ipv6`.
    #[inline]
    pub fn ipv6() -> Pattern {
        Pattern::any().and(|pattern| pattern.ip(&ETHER_IPV6))
    }

    /// With this destination MAC address.
    #[inline]
    pub fn eth_dst(self, address: [u8; 6]) -> Pattern {
        self.and(|pattern| {
            pattern.set(field::ETH_DST, &address);
            pattern.reach(Depth::Ethernet);
        })
    }

    /// With this source MAC address.
    #[inline]
    pub fn eth_src(self, address: [u8; 6]) -> Pattern {
        self.and(|pattern| {
            pattern.set(field::ETH_SRC, &address);
            pattern.reach(Depth::Ethernet);
        })
    }

    /// With this source address, and its version of IP.
    #[inline]
    pub fn src(self, address: IpAddr) -> Pattern {
        self.and(|pattern| pattern.set_address(address, field::SRC_HEAD, field::SRC_TAIL))
    }

    /// With this destination address, and its version of IP.
    #[inline]
    pub fn dst(self, address: IpAddr) -> Pattern {
        self.and(|pattern| pattern.set_address(address, field::DST_HEAD, field::DST_TAIL))
    }

    /// Every UDP datagram among these packets, first fragments included.
    #[inline]
    pub fn udp(self) -> Pattern {
        self.and(|pattern| pattern.transport(UDP))
    }

    /// Every TCP segment among these packets, first fragments included.
    #[inline]
    pub fn tcp(self) -> Pattern {
        self.and(|pattern| pattern.transport(TCP))
    }

    /// With this source port.
    #[inline]
    pub fn sport(self, port: u16) -> Pattern {
        self.and(|pattern| pattern.set(field::SPORT, &port.to_be_bytes()))
    }

    /// With this destination port.
    #[inline]
    pub fn dport(self, port: u16) -> Pattern {
        self.and(|pattern| pattern.set(field::DPORT, &port.to_be_bytes()))
    }

    /// With a source port in this range, both ends included; the first is not above the last.
    pub fn sport_range(self, range: RangeInclusive<u16>) -> Pattern {
        self.port_range(0, field::SPORT, range)
    }

    /// With a destination port in this range, both ends included; the first is not above the last.
    pub fn dport_range(self, range: RangeInclusive<u16>) -> Pattern {
        self.port_range(1, field::DPORT, range)
    }

    /// Matches the leading bits that all ports of the range share as bits. A range that bits
    /// express fully is stored as bits only, so that the same packets give the same pattern.
    fn port_range(mut self, at: usize, place: Range<usize>, range: RangeInclusive<u16>) -> Pattern {
        let (low, high) = range.into_inner();
        let free = u16::MAX.checked_shr((low ^ high).leading_zeros()).unwrap_or(0);
        let (value, mask) = ((low & !free).to_be_bytes(), (!free).to_be_bytes());
        let (mut values, mut masks) = (self.value().to_bytes(), self.mask().to_bytes());
        values[place.clone()].copy_from_slice(&value);
        masks[place].copy_from_slice(&mask);
        self.outer = MaskedKey { value: Key::from_bytes(&values), mask: Key::from_bytes(&masks) };
        let whole = low & free == 0 && high & free == free;
        let (low, high) = if whole { (0, u16::MAX) } else { (low, high) };
        (self.ranges.low[at], self.ranges.high[at]) = (low, high);
        self
    }

    /// The ranges of ports that bits cannot express.
    pub(crate) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The values of the outer headers' fields; zero where the mask is.
    pub fn value(&self) -> &Key {
        &self.outer.value
    }

    /// Which bits of the outer headers count.
    pub fn mask(&self) -> &Key {
        &self.outer.mask
    }

    /// Whether [`Pattern::value`] and [`Pattern::mask`] are the whole pattern: no header inside a
    /// tunnel, no field without a place in the outer key, no range.
    pub fn is_of_outer_bits(&self) -> bool {
        self.deep.is_none() && self.ranges == Ranges::default()
    }

    /// The header keys beside the outer one: inner, extra and raw. Empty if no bit of them counts
    /// and no other range than that of outer ports is required.
    pub(crate) fn deep_keys(&self) -> &[MaskedKey] {
        self.deep.as_ref().map_or(&[], |deep| &deep.keys[..])
    }

    /// Where the words of the raw key are.
    pub(crate) fn raw(&self) -> RawWords {
        self.deep.as_ref().map_or_else(RawWords::default, |deep| deep.raw)
    }

    /// The ranges of other fields than outer ports.
    pub(crate) fn bounds(&self) -> Bounds {
        self.deep.as_ref().map_or_else(Bounds::default, |deep| deep.bounds)
    }

    /// The `raw` bytes that count, by their offsets, ascending: values and masks.
    fn raw_bytes(&self) -> Vec<RawByte> {
        self.deep.as_ref().map_or_else(Vec::new, |deep| deep.raw.bytes(&deep.keys[RAW - 1]))
    }

    /// Number of words of all header keys in which bits count.
    pub(crate) fn words(&self) -> usize {
        let masks = [&self.outer].into_iter().chain(self.deep_keys()).flat_map(|key| key.mask.0);
        masks.filter(|&mask| mask != 0).count()
    }

    /// A word of the values, by its place among the words of all header keys.
    pub(crate) fn value_word(&self, place: u8) -> u64 {
        let (key, at) = (usize::from(place) / KEY_WORDS, usize::from(place) % KEY_WORDS);
        match key.checked_sub(1) {
            None => self.outer.value.0[at],
            Some(deep) => self.deep_keys().get(deep).map_or(0, |key| key.value.0[at]),
        }
    }

    /// Whether a frame (no FCS) without metadata and tags matches.
    pub fn matches(&self, frame: &[u8]) -> bool {
        let (mut inner, mut extra, mut raw) = (Key::default(), Key::default(), Key::default());
        if let Some(deep) = &self.deep {
            read_deep(frame, &mut inner, &mut extra);
            let Some(bytes) = deep.raw.read(frame, &Ends::read(frame)) else { return false };
            raw = bytes;
        }
        let (outer, deep) = (Key::parse(frame), self.deep_keys().iter().zip([inner, extra, raw]));
        let keys = [outer, inner, extra, raw];
        let word = |place: u8| keys[usize::from(place) / KEY_WORDS].0[usize::from(place) % 8];
        self.bounds().hold(word)
            && self.outer.matches(&outer)
            && self.ranges.hold(ports_of(&outer))
            && deep.into_iter().all(|(masked, key)| masked.matches(&key))
    }

    #[inline]
    fn and(mut self, change: impl FnOnce(&mut Pattern)) -> Pattern {
        change(&mut self);
        self
    }

    #[inline]
    fn transport(&mut self, protocol: u8) {
        self.set(field::PROTOCOL, &[protocol]);
        self.reach(Depth::Transport);
    }

    #[inline]
    fn ip(&mut self, ether_type: &[u8; 2]) {
        self.set(field::ETHER_TYPE, ether_type);
        self.reach(Depth::Ip);
    }

    /// Requires a header: in a key, a missing header is zero, and a rule may match zeros.
    #[inline]
    fn reach(&mut self, depth: Depth) {
        let (word, shift) = (field::DEPTH.start / 8, 8 * (field::DEPTH.start % 8) as u32);
        self.outer.value.0[word] |= u64::from(depth.bit()) << shift;
        self.outer.mask.0[word] |= u64::from(depth.bit()) << shift;
    }

    #[inline]
    fn set_address(&mut self, address: IpAddr, head: Range<usize>, tail: Range<usize>) {
        match address {
            IpAddr::V4(v4) => {
                self.ip(&ETHER_IPV4);
                self.set(head, &v4.octets());
            }
            IpAddr::V6(v6) => {
                let (first, rest) = (&v6.octets()[..4], &v6.octets()[4..]);
                self.ip(&ETHER_IPV6);
                self.set(head, first);
                self.set(tail, rest);
            }
        }
    }

    /// Matches a field exactly. Works on words, because most fields are in one word: by bytes it
    /// took longer than the creation of the rule.
    #[inline]
    fn set(&mut self, place: Range<usize>, bytes: &[u8]) {
        let MaskedKey { value, mask } = &mut self.outer;
        for (at, &byte) in place.zip(bytes) {
            let (word, shift) = (at / 8, 8 * (at % 8) as u32);
            value.0[word] = value.0[word] & !(0xff << shift) | u64::from(byte) << shift;
            mask.0[word] |= 0xff << shift;
        }
    }
}

impl MaskedKey {
    fn new(value: &Key, mask: &Key) -> MaskedKey {
        let mut value = *value;
        value.0.iter_mut().zip(mask.0).for_each(|(word, mask)| *word &= mask);
        MaskedKey { value, mask: *mask }
    }

    fn matches(&self, key: &Key) -> bool {
        let words = self.value.0.iter().zip(self.mask.0).zip(key.0);
        words.into_iter().all(|((value, mask), word)| word & mask == *value)
    }
}

/// In testpmd's syntax, `eth / ipv4 src is 10.0.0.1 / udp dst is 53`, for patterns of the functions
/// above. A pattern that was compiled from items is printed by its items.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, mask) = (self.value().to_bytes(), self.mask().to_bytes());
        let get = |place: Range<usize>| (mask[place.start] != 0).then(|| &value[place]);
        write!(f, "eth")?;
        for (name, place) in [("dst", field::ETH_DST), ("src", field::ETH_SRC)] {
            if let Some(mac) = get(place) {
                let text: Vec<String> = mac.iter().map(|b| format!("{b:02x}")).collect();
                write!(f, " {name} is {}", text.join(":"))?;
            }
        }
        let ipv6 = get(field::ETHER_TYPE) == Some(&ETHER_IPV6);
        if mask[field::ETHER_TYPE.start] != 0 {
            write!(f, " / {}", if ipv6 { "ipv6" } else { "ipv4" })?;
        }
        let addresses =
            [("src", field::SRC_HEAD, field::SRC_TAIL), ("dst", field::DST_HEAD, field::DST_TAIL)];
        for (name, head, tail) in addresses {
            if let Some(head) = get(head) {
                write!(f, " {name} is {}", address(head, &value[tail], ipv6))?;
            }
        }
        match get(field::PROTOCOL) {
            Some(&[TCP]) => write!(f, " / tcp")?,
            Some(_) => write!(f, " / udp")?,
            None => {}
        }
        for (name, place) in [("src", field::SPORT), ("dst", field::DPORT)] {
            if let Some(&[high, low]) = get(place) {
                write!(f, " {name} is {}", u16::from_be_bytes([high, low]))?;
            }
        }
        Ok(())
    }
}

fn address(head: &[u8], tail: &[u8], ipv6: bool) -> IpAddr {
    let mut octets = [0; 16];
    octets[..4].copy_from_slice(head);
    octets[4..].copy_from_slice(tail);
    match ipv6 {
        true => IpAddr::V6(Ipv6Addr::from(octets)),
        false => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
    }
}

/// testpmd's `flow create` without the port, as a user would type it.
impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {} priority {} ingress ", self.group, self.priority)?;
        write!(f, "pattern {} / end actions ", self.pattern)?;
        for action in self.actions {
            write!(f, "{action} / ")?;
        }
        write!(f, "end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_testpmds_users_write_it() {
        let pattern = Pattern::any()
            .src("10.0.0.1".parse().unwrap())
            .dst("2.3.4.5".parse().unwrap())
            .udp()
            .sport(1024)
            .dport(53);
        let actions = [Action::Count, Action::Queue(3)];
        let rule = Rule { group: 1, priority: 2, pattern, actions: &actions };
        assert_eq!(
            rule.to_string(),
            "group 1 priority 2 ingress pattern eth / ipv4 src is 10.0.0.1 dst is 2.3.4.5 / \
             udp src is 1024 dst is 53 / end actions count / queue index 3 / end"
        );
        let v6 = Pattern::any().src("2001:db8::1".parse().unwrap()).tcp();
        assert_eq!(v6.to_string(), "eth / ipv6 src is 2001:db8::1 / tcp");
        let mac = Pattern::any().eth_dst([2, 0, 0, 0, 0, 1]);
        assert_eq!(mac.to_string(), "eth dst is 02:00:00:00:00:01");
    }

    #[test]
    fn an_ipv4_five_tuple_takes_two_words_and_an_ipv6_one_five() {
        let words = |p: Pattern| p.mask().0.iter().filter(|&&m| m != 0).count();
        let (a, b) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert_eq!(words(Pattern::any().src(a).dst(b).udp().sport(1).dport(2)), 2);
        let (a, b) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        assert_eq!(words(Pattern::any().src(a).dst(b).udp().sport(1).dport(2)), 5);
    }
}
