//! Tuples on the wire: one frame is the whole payload of a UDP datagram. Numbers are big endian.
//!
//! Every frame begins with a header:
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | magic number, `nict` |
//! | 4 | version, 1 |
//! | 5 | kind: 1 tuples, 2 progress, 3 acknowledgement |
//! | 6..8 | count: of tuples; 0; of words |
//! | 8..16 | source: the sender's id |
//!
//! A frame of tuples has `count` tuples behind it, and nothing else:
//!
//! | bytes of a tuple | content |
//! |---|---|
//! | 0..2 | stream |
//! | 2..4 | length of the payload, at most 1024 bytes |
//! | 4..8 | zeros |
//! | 8..16 | key |
//! | 16..24 | sequence: 0 for a source's first tuple, then one more for each |
//! | 24..32 | event time, nanoseconds, at most 2^63 - 1 |
//! | 32.. | payload |
//!
//! A frame of progress says that no tuple with an earlier time follows, and that its source is
//! there:
//!
//! | bytes | content |
//! |---|---|
//! | 16..24 | the sequence of the source's next tuple |
//! | 24..32 | no tuple from that sequence on has an earlier event time; 2^64 - 1: there is none |
//!
//! A receiver answers both with an acknowledgement:
//!
//! | bytes | content |
//! |---|---|
//! | 16..24 | cumulative: all tuples below this sequence are safe |
//! | 24..28 | credit: how many sequences from `cumulative` on the source may send |
//! | 28..32 | bits, see below |
//! | 32.. | words of 64 bits; bit i of word j, lowest first: `cumulative` + 1 + 64 j + i is safe |
//!
//! | bit of an acknowledgement | meaning |
//! |---|---|
//! | 0 | the end is acknowledged |
//! | 1 | refused: there are too many sources |
//! | 2 | a gap: tuples behind `cumulative` were not kept, and have to come again |
//! | 3 | with bit 1: the card steers by key, and the source has keys of several cores |

use std::fmt;

/// Bytes of a frame at most: a UDP payload in an Ethernet frame of 1500 bytes.
pub const FRAME_LEN_MAX: usize = 1_472;
/// Bytes of the header of every frame.
pub const HEADER_LEN: usize = 16;
/// Bytes of progress, and of an acknowledgement without words.
pub const FIXED_LEN: usize = HEADER_LEN + 16;
/// Bytes of a tuple without its payload.
pub const TUPLE_LEN: usize = 32;
/// Bytes of a tuple's payload at most.
pub const PAYLOAD_LEN_MAX: usize = 1_024;
/// Tuples of a frame at most: those without a payload.
pub const TUPLES_MAX: usize = (FRAME_LEN_MAX - HEADER_LEN) / TUPLE_LEN;
/// Words of an acknowledgement at most.
pub const WORDS_MAX: usize = (FRAME_LEN_MAX - FIXED_LEN) / 8;
/// The latest event time of a tuple, nanoseconds.
pub const TIME_NS_MAX: u64 = i64::MAX as u64;
/// The event time of a source that has ended.
pub const END_NS: u64 = u64::MAX;

/// Marks a frame as ours: `nict`.
const MAGIC: [u8; 4] = *b"nict";
/// The version of this format.
const VERSION: u8 = 1;
/// Bits of an acknowledgement.
const ENDED: u32 = 1;
const REFUSED: u32 = 2;
const GAP: u32 = 4;
const FOREIGN: u32 = 8;

const _: () = assert!(HEADER_LEN + TUPLE_LEN + PAYLOAD_LEN_MAX <= FRAME_LEN_MAX);

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Tuples = 1,
    Progress = 2,
    Acknowledgement = 3,
}

/// A tuple of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuple<'a> {
    /// The stream that it belongs to.
    pub stream: u16,
    /// The key that it is counted under.
    pub key: u64,
    /// Its number among the tuples of its source.
    pub sequence: u64,
    /// Event time, nanoseconds, at most [`TIME_NS_MAX`].
    pub time_ns: u64,
    /// At most [`PAYLOAD_LEN_MAX`] bytes, which nobody interprets.
    pub payload: &'a [u8],
}

impl Tuple<'_> {
    /// Bytes on the wire.
    pub fn wire_len(&self) -> usize {
        TUPLE_LEN + self.payload.len()
    }
}

/// How far a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceProgress {
    /// The sequence of its next tuple.
    pub next: u64,
    /// No tuple from there on has an earlier event time; [`END_NS`] if there is none.
    pub time_ns: u64,
}

/// The tuples of a source that are safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement<'a> {
    /// All tuples below this sequence are safe.
    pub cumulative: u64,
    /// How many sequences from `cumulative` on the source may send.
    pub credit: u32,
    /// The end of the source is acknowledged.
    pub is_ended: bool,
    /// The receiver takes none of this source: it has too many, or the source is foreign.
    pub is_refused: bool,
    /// The card steers by key, and the source has keys of other cores.
    pub is_foreign: bool,
    /// The receiver keeps the order of sequences: it did not keep those behind a gap, which begins
    /// at `cumulative`.
    pub has_gap: bool,
    words: &'a [[u8; 8]],
}

impl<'a> Acknowledgement<'a> {
    /// Sequences above `cumulative` that are safe, ascending.
    pub fn selective(&self) -> impl Iterator<Item = u64> + 'a {
        let first = self.cumulative.saturating_add(1);
        let words = self.words.iter().map(|word| u64::from_be_bytes(*word)).enumerate();
        words.flat_map(move |(at, word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| first.saturating_add(64 * at as u64 + bit))
        })
    }
}

/// The tuples of a frame, all of which are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuples<'a> {
    count: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for Tuples<'a> {
    type Item = Tuple<'a>;

    fn next(&mut self) -> Option<Tuple<'a>> {
        self.count = self.count.checked_sub(1)?;
        let (tuple, rest) = split(self.rest)?;
        self.rest = rest;
        Some(tuple)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

/// A frame whose bytes were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Tuples of a source.
    Tuples(Tuples<'a>),
    /// How far a source is.
    Progress(SourceProgress),
    /// What a receiver has of a source.
    Acknowledgement(Acknowledgement<'a>),
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Shorter than its header, or than its kind is.
    #[error("a frame of {len} bytes: at least {least} are needed")]
    Short {
        /// Bytes of the frame.
        len: usize,
        /// Bytes that a frame of its kind has at least.
        least: usize,
    },
    /// Longer than a frame can be.
    #[error("a frame of {len} bytes: at most {FRAME_LEN_MAX} are allowed")]
    Long {
        /// Bytes of the frame.
        len: usize,
    },
    /// No frame of ours.
    #[error("bytes 0 to 3 are not `nict`: another program's datagram")]
    Magic,
    /// A version that this program does not have.
    #[error("byte 4: version {0}: this program reads version {VERSION}")]
    Version(u8),
    /// A kind that does not exist.
    #[error("byte 5: kind {0}: 1, 2 and 3 exist")]
    Kind(u8),
    /// A count that does not belong to the kind.
    #[error("bytes 6 to 7: a count of {0} for a frame of this kind and length")]
    Count(u16),
    /// A tuple that is not whole.
    #[error("tuple {at}: cut short")]
    CutShort {
        /// Its place in the frame, from 0.
        at: usize,
    },
    /// A tuple whose payload is too long.
    #[error("tuple {at}: a payload of {len} bytes: at most {PAYLOAD_LEN_MAX} are allowed")]
    Payload {
        /// Its place in the frame, from 0.
        at: usize,
        /// Bytes of its payload.
        len: usize,
    },
    /// A tuple with an event time that is too late.
    #[error("tuple {at}: the event time has bit 63 set")]
    Time {
        /// Its place in the frame, from 0.
        at: usize,
    },
    /// A tuple whose reserved bytes are not zero.
    #[error("tuple {at}: bytes 4 to 7 are not zero")]
    Reserved {
        /// Its place in the frame, from 0.
        at: usize,
    },
    /// Bytes behind the last tuple.
    #[error("{0} bytes behind the last tuple")]
    Surplus(usize),
}

/// Eight bytes at a place, 0 behind the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |of| u64::from_be_bytes(*of))
}

/// Two bytes at a place, 0 behind the end.
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |of| u16::from_be_bytes(*of))
}

/// The first tuple, and what is behind it; `None` if it is not whole.
fn split(bytes: &[u8]) -> Option<(Tuple<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(TUPLE_LEN)?;
    let (payload, rest) = rest.split_at_checked(half(head, 2).into())?;
    let (stream, key) = (half(head, 0), word(head, 8));
    let tuple = Tuple { stream, key, sequence: word(head, 16), time_ns: word(head, 24), payload };
    Some((tuple, rest))
}

impl<'a> Frame<'a> {
    /// Reads the payload of a datagram: the source, and the frame.
    ///
    /// # Errors
    /// [`FrameError`]: whatever is not exactly one frame.
    pub fn parse(bytes: &'a [u8]) -> Result<(u64, Frame<'a>), FrameError> {
        let short = |least| FrameError::Short { len: bytes.len(), least };
        let (header, rest) = bytes.split_at_checked(HEADER_LEN).ok_or(short(HEADER_LEN))?;
        if bytes.len() > FRAME_LEN_MAX {
            return Err(FrameError::Long { len: bytes.len() });
        }
        if !header.starts_with(&MAGIC) {
            return Err(FrameError::Magic);
        }
        if header[4] != VERSION {
            return Err(FrameError::Version(header[4]));
        }
        let (count, source) = (half(header, 6), word(header, 8));
        let frame = match header[5] {
            1 => Frame::Tuples(checked(count, rest)?),
            2 | 3 if bytes.len() < FIXED_LEN => return Err(short(FIXED_LEN)),
            2 if count != 0 || bytes.len() != FIXED_LEN => return Err(FrameError::Count(count)),
            2 => Frame::Progress(SourceProgress { next: word(rest, 0), time_ns: word(rest, 8) }),
            3 => {
                let (words, surplus) = rest[FIXED_LEN - HEADER_LEN..].as_chunks();
                if !surplus.is_empty() || words.len() != usize::from(count) {
                    return Err(FrameError::Count(count));
                }
                let both = word(rest, 8);
                let (credit, bits) = ((both >> 32) as u32, both as u32);
                Frame::Acknowledgement(Acknowledgement {
                    cumulative: word(rest, 0),
                    credit,
                    is_ended: bits & ENDED != 0,
                    is_refused: bits & REFUSED != 0,
                    is_foreign: bits & FOREIGN != 0,
                    has_gap: bits & GAP != 0,
                    words,
                })
            }
            kind => return Err(FrameError::Kind(kind)),
        };
        Ok((source, frame))
    }
}

/// The tuples behind a header, each of which is looked at.
fn checked(count: u16, bytes: &[u8]) -> Result<Tuples<'_>, FrameError> {
    if count == 0 || usize::from(count) > TUPLES_MAX {
        return Err(FrameError::Count(count));
    }
    let mut rest = bytes;
    for at in 0..count.into() {
        let len = usize::from(half(rest, 2));
        if len > PAYLOAD_LEN_MAX {
            return Err(FrameError::Payload { at, len });
        }
        let reserved = word(rest, 0) as u32;
        let (tuple, behind) = split(rest).ok_or(FrameError::CutShort { at })?;
        if tuple.time_ns > TIME_NS_MAX {
            return Err(FrameError::Time { at });
        }
        if reserved != 0 {
            return Err(FrameError::Reserved { at });
        }
        rest = behind;
    }
    match rest.len() {
        0 => Ok(Tuples { count: count.into(), rest: bytes }),
        surplus => Err(FrameError::Surplus(surplus)),
    }
}

/// Begins a frame in place of whatever `out` has.
fn begin(out: &mut Vec<u8>, kind: FrameKind, count: u16, source: u64) {
    out.clear();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, kind as u8]);
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&source.to_be_bytes());
}

/// Begins a frame of tuples of a source in place of whatever `out` has.
pub fn begin_tuples(out: &mut Vec<u8>, source: u64) {
    begin(out, FrameKind::Tuples, 0, source);
}

/// Appends a tuple to a frame of tuples. `false` if it does not fit: the frame is as it was.
pub fn push_tuple(out: &mut Vec<u8>, tuple: &Tuple<'_>) -> bool {
    let fits = out.len() + tuple.wire_len() <= FRAME_LEN_MAX
        && tuple.payload.len() <= PAYLOAD_LEN_MAX
        && tuple.time_ns <= TIME_NS_MAX;
    let Some(count) = out.get_mut(6..8).filter(|_| fits) else { return false };
    let tuples = half(count, 0) + 1;
    count.copy_from_slice(&tuples.to_be_bytes());
    out.extend_from_slice(&tuple.stream.to_be_bytes());
    out.extend_from_slice(&(tuple.payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    for word in [tuple.key, tuple.sequence, tuple.time_ns] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(tuple.payload);
    true
}

/// Writes a frame of progress in place of whatever `out` has.
pub fn write_progress(out: &mut Vec<u8>, source: u64, progress: &SourceProgress) {
    begin(out, FrameKind::Progress, 0, source);
    out.extend_from_slice(&progress.next.to_be_bytes());
    out.extend_from_slice(&progress.time_ns.to_be_bytes());
}

/// The fields of an acknowledgement that is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgementHead {
    /// See [`Acknowledgement`].
    pub cumulative: u64,
    /// See [`Acknowledgement`].
    pub credit: u32,
    /// See [`Acknowledgement`].
    pub is_ended: bool,
    /// See [`Acknowledgement`].
    pub is_refused: bool,
    /// See [`Acknowledgement`].
    pub is_foreign: bool,
    /// See [`Acknowledgement`].
    pub has_gap: bool,
}

/// Writes an acknowledgement in place of whatever `out` has. Of the words, which
/// [`Acknowledgement::selective`] explains, at most [`WORDS_MAX`] are written.
pub fn write_acknowledgement(
    out: &mut Vec<u8>,
    source: u64,
    head: &AcknowledgementHead,
    words: impl Iterator<Item = u64>,
) {
    begin(out, FrameKind::Acknowledgement, 0, source);
    let ended = if head.is_ended { ENDED } else { 0 };
    let refused = if head.is_refused { REFUSED } else { 0 };
    out.extend_from_slice(&head.cumulative.to_be_bytes());
    out.extend_from_slice(&head.credit.to_be_bytes());
    let gap = if head.has_gap { GAP } else { 0 };
    let foreign = if head.is_foreign { FOREIGN } else { 0 };
    out.extend_from_slice(&(ended | refused | gap | foreign).to_be_bytes());
    for word in words.take(WORDS_MAX) {
        out.extend_from_slice(&word.to_be_bytes());
    }
    let count = ((out.len() - FIXED_LEN) / 8) as u16;
    out[6..8].copy_from_slice(&count.to_be_bytes());
}

impl fmt::Display for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuple { stream, key, sequence, time_ns, payload } = self;
        let len = payload.len();
        write!(f, "stream {stream} key {key} sequence {sequence} at {time_ns} ns, {len} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const TWO: [u8; 83] = [
        b'n', b'i', b'c', b't', // magic
        1, 1, 0, 2,             // version, tuples, two of them
        0, 0, 0, 0, 0, 0, 0, 7, // source
        0, 1, 0, 3, 0, 0, 0, 0, // stream 1, a payload of 3 bytes, zeros
        0, 0, 0, 0, 0, 0, 0, 42,            // key
        0, 0, 0, 0, 0, 0, 0, 5,             // sequence
        0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0,    // one second
        b'a', b'b', b'c',
        0, 2, 0, 0, 0, 0, 0, 0, // stream 2, no payload, zeros
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0, 0, 0, 0, 0, 0, 0, 6,
        0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ];

    fn two() -> [Tuple<'static>; 2] {
        let first =
            Tuple { stream: 1, key: 42, sequence: 5, time_ns: 1_000_000_000, payload: b"abc" };
        let (key, time_ns) = (u64::MAX, TIME_NS_MAX);
        [first, Tuple { stream: 2, key, sequence: 6, time_ns, payload: &[] }]
    }

    #[test]
    fn tuples_are_read_as_documented() {
        let (source, Frame::Tuples(tuples)) = Frame::parse(&TWO).unwrap() else { panic!("kind") };
        assert_eq!((source, tuples.size_hint()), (7, (2, Some(2))));
        assert_eq!(tuples.collect::<Vec<_>>(), two());
        assert_eq!(two()[0].to_string(), "stream 1 key 42 sequence 5 at 1000000000 ns, 3 bytes");
    }

    #[test]
    fn tuples_are_written_as_documented() {
        let mut frame = Vec::new();
        begin_tuples(&mut frame, 7);
        assert!(two().iter().all(|tuple| push_tuple(&mut frame, tuple)));
        assert_eq!(frame, TWO);
        let long = [0; PAYLOAD_LEN_MAX + 1];
        assert!(!push_tuple(&mut frame, &Tuple { payload: &long, ..Tuple::default() }));
        assert!(!push_tuple(&mut frame, &Tuple { time_ns: TIME_NS_MAX + 1, ..Tuple::default() }));
        assert_eq!(frame, TWO, "a tuple that does not fit leaves no trace");
        begin_tuples(&mut frame, 7);
        let count = (0..).take_while(|_| push_tuple(&mut frame, &Tuple::default())).count();
        assert_eq!((count, frame.len()), (TUPLES_MAX, HEADER_LEN + TUPLES_MAX * TUPLE_LEN));
        assert!(Frame::parse(&frame).is_ok());
    }

    #[test]
    fn a_frame_cut_short_is_refused_wherever_it_ends() {
        for len in 0..TWO.len() {
            let error = Frame::parse(&TWO[..len]).unwrap_err();
            let expected = match len {
                0..16 => FrameError::Short { len, least: HEADER_LEN },
                16..51 => FrameError::CutShort { at: 0 },
                _ => FrameError::CutShort { at: 1 },
            };
            assert_eq!(error, expected, "{len}");
        }
    }

    #[test]
    fn every_defect_has_its_message() {
        let with = |at: usize, byte: u8| {
            let mut frame = TWO;
            frame[at] = byte;
            Frame::parse(&frame).unwrap_err().to_string()
        };
        assert_eq!(with(0, b'N'), "bytes 0 to 3 are not `nict`: another program's datagram");
        assert_eq!(with(4, 2), "byte 4: version 2: this program reads version 1");
        assert_eq!(with(5, 9), "byte 5: kind 9: 1, 2 and 3 exist");
        assert_eq!(with(7, 0), "bytes 6 to 7: a count of 0 for a frame of this kind and length");
        assert_eq!(with(7, 1), "32 bytes behind the last tuple");
        assert_eq!(with(7, 3), "tuple 2: cut short");
        let long = "tuple 0: a payload of 1027 bytes: at most 1024 are allowed";
        assert_eq!(with(18, 4), long);
        assert_eq!(with(20, 1), "tuple 0: bytes 4 to 7 are not zero");
        assert_eq!(with(40, 0x80), "tuple 0: the event time has bit 63 set");
        let long = Frame::parse(&[0; FRAME_LEN_MAX + 1]).unwrap_err();
        assert_eq!(long, FrameError::Long { len: FRAME_LEN_MAX + 1 });
    }

    #[test]
    fn progress_and_acknowledgements_are_read_as_they_are_written() {
        let mut frame = Vec::new();
        let progress = SourceProgress { next: 9, time_ns: END_NS };
        write_progress(&mut frame, 3, &progress);
        assert_eq!(Frame::parse(&frame), Ok((3, Frame::Progress(progress))));
        assert_eq!(Frame::parse(&frame[..31]), Err(FrameError::Short { len: 31, least: 32 }));
        frame.push(0);
        assert_eq!(Frame::parse(&frame), Err(FrameError::Count(0)));

        let head = AcknowledgementHead {
            cumulative: 100,
            credit: 64,
            is_ended: true,
            is_refused: false,
            is_foreign: true,
            has_gap: true,
        };
        write_acknowledgement(&mut frame, 3, &head, [1 << 63 | 1, 2].into_iter());
        let (3, Frame::Acknowledgement(read)) = Frame::parse(&frame).unwrap() else {
            panic!("kind")
        };
        assert_eq!((read.cumulative, read.credit), (100, 64));
        assert!(read.is_ended && !read.is_refused && read.has_gap && read.is_foreign);
        assert_eq!(read.selective().collect::<Vec<_>>(), [101, 164, 166]);
        frame.pop();
        assert_eq!(Frame::parse(&frame), Err(FrameError::Count(2)));
        write_acknowledgement(&mut frame, 3, &head, std::iter::repeat(u64::MAX));
        assert_eq!((frame.len(), Frame::parse(&frame).is_ok()), (FRAME_LEN_MAX, true));
    }
}
