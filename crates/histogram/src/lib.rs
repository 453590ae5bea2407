//! HdrHistogram's bytes, believed only after they were checked.
//!
//! The library that decodes them takes lengths and ranges as they stand: forty bytes can make it
//! allocate 4 GiB. [`plain`] and [`packed`] check every such number first.
#![forbid(unsafe_code)]

use std::io::Read;

use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// Most counters of a histogram: 1 ns to 60 s at three digits has 28 thousand.
pub const COUNTERS_MAX: u64 = 1 << 20;

/// Cookies of the V2 encoding, plain and compressed (HdrHistogram, `AbstractHistogram`).
const PLAIN: u32 = 0x1c84_9313;
const PACKED: u32 = 0x1c84_9314;
/// Bytes before the compressed part: cookie and length.
const PACKED_HEAD: usize = 8;
/// Bytes before the counts of a plain one: cookie, length, offset, digits, lowest and highest
/// value, ratio.
const PLAIN_HEAD: usize = 40;
/// Longest plain form: nine bytes a counter.
const PLAIN_LEN_MAX: u64 = PLAIN_HEAD as u64 + 9 * COUNTERS_MAX;

/// Why bytes are no histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// They end before it does.
    #[error("the histogram is cut short")]
    Cut,
    /// It is of another encoding.
    #[error("the histogram is not {form} HdrHistogram V2")]
    Form {
        /// What it should be.
        form: &'static str,
    },
    /// Two of its lengths disagree.
    #[error("the histogram is longer or shorter than it says")]
    Length,
    /// It needs too much memory.
    #[error("the histogram has more than {COUNTERS_MAX} counters")]
    Counters,
    /// It counts more values than its range has.
    #[error("the histogram has more counts than its range has")]
    Range,
    /// Its counts add up to more than a word holds.
    #[error("the histogram's counts exceed 64 bits")]
    Total,
    /// It cannot be unpacked or read.
    #[error("the histogram cannot be read: {reason}")]
    Unreadable {
        /// What the library said.
        reason: String,
    },
}

/// Reads a compressed histogram, as logs hold it.
///
/// # Errors
/// [`HistogramError`], before more memory is taken than [`COUNTERS_MAX`] counters need.
pub fn packed(bytes: &[u8]) -> Result<Histogram<u64>, HistogramError> {
    if word(bytes, 0)? != PACKED {
        return Err(HistogramError::Form { form: "compressed" });
    }
    if word(bytes, 4)? as usize != bytes.len() - PACKED_HEAD {
        return Err(HistogramError::Length);
    }
    let mut unpacked = Vec::new();
    let mut unpacker = ZlibDecoder::new(&bytes[PACKED_HEAD..]).take(PLAIN_LEN_MAX + 1);
    unpacker
        .read_to_end(&mut unpacked)
        .map_err(|error| HistogramError::Unreadable { reason: error.to_string() })?;
    match unpacked.len() as u64 > PLAIN_LEN_MAX {
        true => Err(HistogramError::Counters),
        false => plain(&unpacked),
    }
}

/// Reads a plain histogram.
///
/// # Errors
/// [`HistogramError`], before more memory is taken than [`COUNTERS_MAX`] counters need.
pub fn plain(mut bytes: &[u8]) -> Result<Histogram<u64>, HistogramError> {
    if word(bytes, 0)? != PLAIN {
        return Err(HistogramError::Form { form: "plain" });
    }
    if word(bytes, 4)? as usize + PLAIN_HEAD != bytes.len() {
        return Err(HistogramError::Length);
    }
    let digits = word(bytes, 12)?;
    let highest = (u64::from(word(bytes, 24)?) << 32) | u64::from(word(bytes, 28)?);
    let counters = counters_max(digits, highest);
    if counters > COUNTERS_MAX {
        return Err(HistogramError::Counters);
    }
    check_counts(bytes.get(PLAIN_HEAD..).ok_or(HistogramError::Cut)?, counters)?;
    let read = Deserializer::new().deserialize(&mut bytes);
    read.map_err(|error| HistogramError::Unreadable { reason: error.to_string() })
}

/// The word at a place.
fn word(bytes: &[u8], at: usize) -> Result<u32, HistogramError> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_be_bytes).ok_or(HistogramError::Cut)
}

/// No histogram of this precision and highest value has more counters; a lowest value above 1 only
/// makes them fewer.
fn counters_max(digits: u32, highest: u64) -> u64 {
    // Sub-buckets: twice ten to the digits, up to the next power of two; one bucket of them for
    // each doubling from there to the highest value, of which half is new.
    let sub_buckets = 2u64.saturating_mul(10u64.saturating_pow(digits)).checked_next_power_of_two();
    let Some(sub_buckets) = sub_buckets else { return u64::MAX };
    let doublings = (highest / sub_buckets).checked_ilog2().map_or(0, |log| log + 1);
    (u64::from(doublings) + 2).saturating_mul(sub_buckets / 2)
}

/// Walks through the counts (ZigZag LEB128 of up to nine bytes; below zero is a run of zeros):
/// they end with the bytes, stay within the counters, and add up to what a word holds.
fn check_counts(mut bytes: &[u8], counters: u64) -> Result<(), HistogramError> {
    let (mut at, mut total) = (0u64, 0u64);
    while !bytes.is_empty() {
        let (word, len) = count(bytes)?;
        bytes = &bytes[len..];
        let half = word >> 1;
        let (step, count) = if word & 1 == 0 { (1, half) } else { (half.saturating_add(1), 0) };
        at = at.saturating_add(step);
        total = total.checked_add(count).ok_or(HistogramError::Total)?;
        if at > counters {
            return Err(HistogramError::Range);
        }
    }
    Ok(())
}

/// One word of the counts, and how many bytes it has.
fn count(bytes: &[u8]) -> Result<(u64, usize), HistogramError> {
    let mut word = 0;
    for (at, &byte) in bytes.iter().enumerate().take(9) {
        if at == 8 {
            return Ok((word | u64::from(byte) << 56, 9));
        }
        word |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((word, at + 1));
        }
    }
    Err(HistogramError::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compressed histogram of these bytes.
    fn compressed(plain: &[u8]) -> Vec<u8> {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut zlib, plain).unwrap();
        let zlib = zlib.finish().unwrap();
        let len = (zlib.len() as u32).to_be_bytes();
        [&PACKED.to_be_bytes()[..], &len, &zlib].concat()
    }

    /// A plain histogram with this head and these counts.
    fn made(len: u32, digits: u32, highest: u64, counts: &[u8]) -> Vec<u8> {
        let mut bytes = PLAIN.to_be_bytes().to_vec();
        for word in [len, 0, digits, 0, 1] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(&highest.to_be_bytes());
        bytes.extend_from_slice(&1f64.to_be_bytes());
        bytes.extend_from_slice(counts);
        bytes
    }

    fn refused(bytes: &[u8]) -> HistogramError {
        let error = plain(bytes).unwrap_err();
        assert_eq!(packed(&compressed(bytes)).unwrap_err(), error);
        error
    }

    #[test]
    fn what_hostile_bytes_claim_is_not_believed() {
        // 4 GiB of counts in forty bytes.
        assert_eq!(refused(&made(u32::MAX, 3, 60_000_000_000, &[])), HistogramError::Length);
        for digits in [5, 19, 20, u32::MAX] {
            // Six million counters, and more than there are digits for.
            assert_eq!(refused(&made(0, digits, u64::MAX, &[])), HistogramError::Counters);
        }
        // A kilobyte that unpacks to megabytes.
        let bomb = compressed(&vec![0; PLAIN_LEN_MAX as usize + 1]);
        assert_eq!(packed(&bomb).unwrap_err(), HistogramError::Counters);
        let counts = |counts: &[u8]| refused(&made(counts.len() as u32, 3, 1_000, counts));
        // A run of 2^63 zeros, a count that is cut short, too many counts.
        assert_eq!(counts(&[0xff; 9]), HistogramError::Range);
        assert_eq!(counts(&[0x80]), HistogramError::Cut);
        let most = [[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]; 3].concat();
        assert_eq!(counts(&most), HistogramError::Total);
        for len in 0..PLAIN_HEAD {
            assert!(plain(&made(0, 3, 1_000, &[])[..len]).is_err(), "{len} bytes");
        }
        // Two zeros and a one.
        let read = plain(&made(2, 3, 1_000, &[3, 2])).unwrap();
        assert_eq!((read.len(), read.max()), (1, 2));
    }

    #[test]
    fn no_histogram_has_more_counters_than_are_reckoned() {
        for digits in 0..=4 {
            for highest in [2, 1_000, 4_095, 4_096, 60_000_000_000, u64::MAX] {
                let made = Histogram::<u64>::new_with_bounds(1, highest, digits).unwrap();
                let (is, most) =
                    (made.distinct_values() as u64, counters_max(digits.into(), highest));
                assert!(is <= most && most <= 4 * is, "{digits} {highest}: {is} of {most}");
            }
        }
    }
}
