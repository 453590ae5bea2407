//! Sets of ternary rules: read from ClassBench's files, or generated in their manner.

use std::path::Path;

use niclab_table::{Bits, Span};

use crate::BenchError;
use crate::keys::mix;

/// Source, destination, their ports, protocol.
pub const FIELDS: [Bits; 5] =
    [Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen, Bits::Sixteen, Bits::Eight];

/// The values of a packet.
pub type PacketValues = [u32; 5];

/// A rule; its priority is its place in the set.
pub type Rule = [Span; 5];

/// Random numbers from a counter.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0 += 1;
        (((mix(self.0) >> 32) * u64::from(end)) >> 32) as u32
    }

    /// As many random bits as an IPv6 address has.
    pub fn bits(&mut self) -> u128 {
        self.0 += 2;
        u128::from(mix(self.0 - 1)) << 64 | u128::from(mix(self.0))
    }

    /// A value of a span.
    pub fn within(&mut self, span: Span) -> u32 {
        let wide = u64::from(span.high - span.low) + 1;
        self.0 += 1;
        span.low + (((mix(self.0) >> 32) * wide) >> 32) as u32
    }
}

/// Reads a file of ClassBench's; its last column, the flags of TCP, is left out.
///
/// # Errors
/// [`BenchError::File`] where the file cannot be read, [`BenchError::Line`] at the first line that
/// is no rule.
pub fn read(path: &Path) -> Result<Vec<Rule>, BenchError> {
    let file = |source| BenchError::File { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(file)?;
    let rule = |(index, line): (usize, &str)| {
        let (path, text) = (path.to_owned(), line.to_owned());
        parse(line).ok_or(BenchError::Line { path, number: index + 1, text })
    };
    text.lines().enumerate().map(rule).collect()
}

fn parse(line: &str) -> Option<Rule> {
    let words: Vec<&str> = line.strip_prefix('@')?.split_whitespace().collect();
    let &[source, destination, from, ":", to, low, ":", high, protocol, ..] = &words[..] else {
        return None;
    };
    let port =
        |low: &str, high: &str| Some(Span { low: low.parse().ok()?, high: high.parse().ok()? });
    let hexadecimal = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (value, mask) = protocol.split_once('/')?;
    let protocol = match hexadecimal(mask)? {
        0 => Span { low: 0, high: 255 },
        _ => Span::one(hexadecimal(value)?),
    };
    let prefixes = [prefix(source)?, prefix(destination)?];
    Some([prefixes[0], prefixes[1], port(from, to)?, port(low, high)?, protocol])
}

fn prefix(text: &str) -> Option<Span> {
    let (address, length) = text.split_once('/')?;
    let address: std::net::Ipv4Addr = address.parse().ok()?;
    Some(Span::prefix(Bits::ThirtyTwo, address.to_bits(), length.parse().ok()?))
}

/// Masks of generated rules, at most.
const MASKS_MAX: u32 = 800;

/// Rules of few networks with many hosts, well-known ports and a few ranges; some masks are much
/// more frequent than others.
pub fn generate(count: usize) -> Vec<Rule> {
    let mut draw = Draw::new(count as u64);
    let mut pool =
        |size: usize, bits: u32| -> Vec<u32> { (0..size).map(|_| draw.below(1 << bits)).collect() };
    let (networks, hosts) = (pool(count / 40 + 1, 16), pool(count / 4 + 1, 12));
    let masks = (count as u32 / 10).clamp(1, MASKS_MAX);
    let mut draw = Draw::new(1);
    let mut rule = || {
        // What the mask is like follows from its number.
        let mut like = Draw::new(u64::from(draw.below(masks).min(draw.below(masks))));
        let mut address = || {
            let lengths = [0, 8, 16, 18, 20, 22, 24, 26, 28, 30, 32, 32, 32, 32, 32, 32];
            let length = lengths[like.below(lengths.len() as u32) as usize];
            let network = networks[draw.below(networks.len() as u32) as usize];
            let host = hosts[draw.below(hosts.len() as u32) as usize];
            Span::prefix(Bits::ThirtyTwo, network << 16 | host, length)
        };
        let addresses = [address(), address()];
        let mut port = |exact: u32| match like.below(100) {
            part if part < exact => Span::one(20 + mix(u64::from(draw.below(100))) as u32 % 9000),
            part if part < exact + 8 => Span { low: 1024, high: 65_535 },
            part if part < exact + 10 => Span { low: 33_434, high: 33_600 },
            _ => Span { low: 0, high: 65_535 },
        };
        let ports = [port(10), port(60)];
        let protocol = [Span::one(6), Span::one(6), Span::one(17), Span { low: 0, high: 255 }];
        [addresses[0], addresses[1], ports[0], ports[1], protocol[like.below(4) as usize]]
    };
    let mut rules: Vec<Rule> = (0..count).map(|_| rule()).collect();
    // As in the real sets the narrow ones come first: a wide one would hide them.
    rules.sort_by_cached_key(|rule| mask(rule).iter().map(|bits| 32 - bits).sum::<u32>());
    rules
}

/// Leading bits that all values of a span have in common, in a value of 32 bits.
pub fn mask(rule: &Rule) -> [u32; 5] {
    rule.map(|span| (span.low ^ span.high).leading_zeros())
}
