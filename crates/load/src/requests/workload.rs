//! The workload: the sequence of keys, their text, and the stored values.
//!
//! Keys, lengths and values follow from a key's number alone and not from the seed: what one client
//! has stored another one knows.

use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{KEY_LEN_MAX, KeyLength, Order, Requests, RequestsError, VALUE_LEN_MAX, Values, etc};

/// A request, before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Number of the key, from 0.
    pub key: u32,
    pub kind: RequestKind,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    #[default]
    Get,
    Set,
}

/// Values begin at any of so many places of one text.
const PLACES: usize = 1 << 16;

/// Decimal digits of a number.
pub fn digits(number: u32) -> u32 {
    number.checked_ilog10().map_or(1, |log| log + 1)
}

/// Keys and values, by the number of a key.
pub struct Workload {
    key_lens: Lengths,
    value_lens: Lengths,
    /// Printable bytes, of which every value is a part.
    text: Vec<u8>,
}

enum Lengths {
    Fixed(u32),
    /// [`etc::QUANTILES`] of them.
    Table(Vec<u32>),
}

impl Lengths {
    #[inline]
    fn of(&self, bits: u64) -> usize {
        match self {
            Lengths::Fixed(len) => *len as usize,
            Lengths::Table(lens) => lens[bits as usize % etc::QUANTILES] as usize,
        }
    }

    fn longest(&self) -> usize {
        match self {
            Lengths::Fixed(len) => *len as usize,
            Lengths::Table(lens) => lens.iter().max().map_or(0, |len| *len as usize),
        }
    }
}

/// Bits that look random, of a key's number: the finalizer of SplitMix64.
#[inline]
fn mixed(number: u32) -> u64 {
    let mut bits = u64::from(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Workload {
    /// The keys and values of checked requests.
    pub fn new(requests: &Requests) -> Workload {
        let least = digits(requests.keys.count - 1);
        let key_lens = match requests.keys.length {
            KeyLength::Fixed(len) => Lengths::Fixed(len.into()),
            KeyLength::Etc => Lengths::Table(etc::key_lens(least, KEY_LEN_MAX.into())),
        };
        let value_lens = match requests.values {
            Values::Fixed(len) => Lengths::Fixed(len),
            Values::Etc => Lengths::Table(etc::value_lens(VALUE_LEN_MAX)),
        };
        // Any constant will do: all clients have the same text.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(0x6e69_636c_6162);
        let text_len = PLACES + value_lens.longest();
        let printable = |bits: u64| b'!' + (bits % 94) as u8;
        let text = (0..text_len).map(|_| printable(random.next_u64() >> 32)).collect();
        Workload { key_lens, value_lens, text }
    }

    /// Length of the longest value, bytes.
    pub fn value_len_max(&self) -> usize {
        self.value_lens.longest()
    }

    /// Length of a key, bytes.
    #[inline]
    pub fn key_len(&self, key: u32) -> usize {
        self.key_lens.of(mixed(key) >> 32)
    }

    /// Writes a key: its number behind zeros.
    #[inline]
    pub fn write_key(&self, key: u32, out: &mut Vec<u8>) {
        write_number(key.into(), self.key_len(key), out);
    }

    /// The value of a key.
    #[inline]
    pub fn value(&self, key: u32) -> &[u8] {
        let bits = mixed(key);
        let (place, len) = (bits as usize % PLACES, self.value_lens.of(bits >> 16));
        &self.text[place..place + len]
    }
}

/// Writes a number in decimal digits, behind zeros where it has fewer than `len`.
#[inline]
pub fn write_number(mut number: u64, len: usize, out: &mut Vec<u8>) {
    const MOST: usize = KEY_LEN_MAX as usize;
    let mut digits = [b'0'; MOST];
    let mut start = MOST;
    while number > 0 {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let start = start.min(MOST - len.clamp(1, MOST));
    out.extend_from_slice(&digits[start..]);
}

/// Which request comes next.
pub enum Source {
    /// As the order and the share of gets say.
    Random { random: Xoshiro256PlusPlus, count: u32, zipf: Option<Zipf<f64>>, gets: Gets },
    /// A set of each key, in order.
    Fill { next: u32, count: u32 },
}

/// The share of gets, of 2^32.
pub struct Gets(u64);

impl Source {
    /// The sequence of checked requests.
    pub fn new(requests: &Requests) -> Result<Source, RequestsError> {
        let count = requests.keys.count;
        let zipf = match requests.keys.order {
            Order::Uniform => None,
            Order::Zipf { exponent } => {
                let made = Zipf::new(f64::from(count), exponent);
                Some(made.map_err(|error| RequestsError::Range {
                    field: "exponent",
                    value: exponent.to_string(),
                    range: error.to_string(),
                })?)
            }
        };
        let gets = Gets((requests.get_ratio * 2f64.powi(32)) as u64);
        let random = Xoshiro256PlusPlus::seed_from_u64(requests.seed);
        Ok(Source::Random { random, count, zipf, gets })
    }

    /// Sets of all keys.
    pub fn fill(requests: &Requests) -> Source {
        Source::Fill { next: 0, count: requests.keys.count }
    }

    /// `true` where nothing comes any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self, Source::Fill { next, count } if next == count)
    }

    /// The next request; where nothing comes any more, the last one again.
    #[inline]
    pub fn next(&mut self) -> PlannedRequest {
        match self {
            Source::Random { random, count, zipf, gets } => {
                let bits = random.next_u64();
                let kind = if bits >> 32 < gets.0 { RequestKind::Get } else { RequestKind::Set };
                let key = match zipf {
                    // Multiply and shift: as even as 32 bits allow.
                    None => ((bits & u64::from(u32::MAX)) * u64::from(*count)) >> 32,
                    Some(zipf) => (zipf.sample(random) as u64 - 1).min(u64::from(*count) - 1),
                };
                PlannedRequest { key: key as u32, kind }
            }
            Source::Fill { next, count } => {
                let key = (*next).min(*count - 1);
                *next = key + 1;
                PlannedRequest { key, kind: RequestKind::Set }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::tests::requests;
    use super::super::{KeySelection, Protocol};
    use super::*;

    fn keys(count: u32, order: Order, length: KeyLength) -> Requests {
        let base = requests(Protocol::MemcachedTcp);
        Requests { keys: KeySelection { count, order, length }, values: Values::Etc, ..base }
    }

    fn sequence(requests: &Requests, count: usize) -> Vec<PlannedRequest> {
        let mut source = Source::new(requests).unwrap();
        (0..count).map(|_| source.next()).collect()
    }

    #[test]
    fn numbers_are_written_behind_zeros() {
        let text = |number, len| {
            let mut out = b"x".to_vec();
            write_number(number, len, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!((text(0, 1), text(0, 3)), ("x0".into(), "x000".into()));
        assert_eq!((text(120, 2), text(120, 5)), ("x120".into(), "x00120".into()));
        assert_eq!(text(u64::MAX, 0), "x18446744073709551615");
        assert_eq!(text(7, 250).len(), 251);
        assert_eq!([0, 9, 10, 999_999_999].map(digits), [1, 1, 2, 9]);
    }

    #[test]
    fn every_key_is_another_one_and_so_are_their_values() {
        let requests = keys(20_000, Order::Uniform, KeyLength::Etc);
        let workload = Workload::new(&requests);
        let mut observed = HashSet::new();
        for key in 0..requests.keys.count {
            let mut text = Vec::new();
            workload.write_key(key, &mut text);
            assert!((5..=250).contains(&text.len()));
            assert!(observed.insert(text));
        }
        let long: Vec<&[u8]> =
            (0..20_000).map(|key| workload.value(key)).filter(|value| value.len() > 14).collect();
        let others = long.iter().collect::<HashSet<_>>().len();
        // Two may begin at one place.
        assert!(others * 10 > long.len() * 9, "{others} of {}", long.len());
        let other_seed = Workload::new(&Requests { seed: 77, ..requests.clone() });
        assert!((0..1000).all(|key| workload.value(key) == other_seed.value(key)));
    }

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        for order in [Order::Uniform, Order::Zipf { exponent: 0.99 }] {
            let requests = keys(1000, order, KeyLength::Fixed(30));
            let first = sequence(&requests, 500);
            assert_eq!(first, sequence(&requests, 500));
            assert_ne!(first, sequence(&Requests { seed: 2, ..requests }, 500));
        }
    }

    #[test]
    fn gets_and_keys_have_their_shares() {
        let count = 100_000;
        let share = |asked: &[PlannedRequest], is: &dyn Fn(&PlannedRequest) -> bool| {
            asked.iter().filter(|one| is(one)).count() as f64 / asked.len() as f64
        };
        for ratio in [0.0, 0.3, 1.0] {
            let base = keys(10, Order::Uniform, KeyLength::Fixed(1));
            let asked = sequence(&Requests { get_ratio: ratio, ..base }, count);
            assert!((share(&asked, &|one| one.kind == RequestKind::Get) - ratio).abs() < 0.01);
            for key in 0..10 {
                assert!((share(&asked, &|one| one.key == key) - 0.1).abs() < 0.01);
            }
        }
        // 1 / k over the harmonic number of 100 keys.
        let zipf = keys(100, Order::Zipf { exponent: 1.0 }, KeyLength::Fixed(2));
        let asked = sequence(&zipf, count);
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for key in [0, 1, 9, 99] {
            let expected = 1.0 / f64::from(key + 1) / harmonic;
            assert!((share(&asked, &|one| one.key == key) - expected).abs() < 0.01);
        }
    }

    #[test]
    fn a_fill_has_every_key_once() {
        let mut source = Source::fill(&keys(5, Order::Uniform, KeyLength::Fixed(1)));
        let mut observed = Vec::new();
        while !source.is_over() {
            observed.push(source.next());
        }
        let all: Vec<PlannedRequest> =
            (0..5).map(|key| PlannedRequest { key, kind: RequestKind::Set }).collect();
        assert_eq!(observed, all);
    }
}
