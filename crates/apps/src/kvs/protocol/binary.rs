//! Frames of the binary protocol: 24 bytes, and behind them extras, key and value.

/// Bytes of a header.
pub const HEAD_LEN: usize = 24;

/// First byte of each request of the binary protocol.
pub const BINARY_MAGIC: u8 = 0x80;

/// First byte of an answer.
const ANSWER_MAGIC: u8 = 0x81;

/// Offsets of the fields of a header, big-endian.
mod field {
    pub const OPCODE: usize = 1;
    pub const KEY_LEN: usize = 2;
    pub const EXTRAS_LEN: usize = 4;
    /// In an answer.
    pub const STATUS: usize = 6;
    pub const BODY_LEN: usize = 8;
    pub const OPAQUE: usize = 12;
    pub const CAS: usize = 16;
}

/// Codes of requests; a quiet one is answered only where something went wrong, or was found.
pub mod opcode {
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCREMENT: u8 = 0x05;
    pub const DECREMENT: u8 = 0x06;
    pub const QUIT: u8 = 0x07;
    pub const FLUSH: u8 = 0x08;
    pub const GETQ: u8 = 0x09;
    pub const NOOP: u8 = 0x0a;
    pub const VERSION: u8 = 0x0b;
    pub const GETK: u8 = 0x0c;
    pub const GETKQ: u8 = 0x0d;
    pub const APPEND: u8 = 0x0e;
    pub const PREPEND: u8 = 0x0f;
    pub const STAT: u8 = 0x10;
    pub const SETQ: u8 = 0x11;
    pub const PREPENDQ: u8 = 0x1a;
    pub const TOUCH: u8 = 0x1c;
    pub const GAT: u8 = 0x1d;
    pub const GATQ: u8 = 0x1e;
    pub const SASL_LIST: u8 = 0x20;
    pub const SASL_AUTH: u8 = 0x21;
    pub const SASL_STEP: u8 = 0x22;
    pub const GATK: u8 = 0x23;
    pub const GATKQ: u8 = 0x24;

    /// The request that a quiet one is the quiet form of, and whether it is one.
    #[inline]
    pub fn strip_quiet(code: u8) -> (u8, bool) {
        match code {
            GETQ => (GET, true),
            GETKQ => (GETK, true),
            GATQ => (GAT, true),
            GATKQ => (GATK, true),
            0x11..=0x18 => (code - SETQ + SET, true),
            0x19..=PREPENDQ => (code - 0x19 + APPEND, true),
            _ => (code, false),
        }
    }
}

/// The status of an answer: a code, and the text of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Done,
    NotFound,
    Exists,
    TooLarge,
    Invalid,
    NotStored,
    NotNumeric,
    Unknown,
    NoMemory,
}

impl Status {
    fn code(self) -> u16 {
        match self {
            Status::Done => 0x00,
            Status::NotFound => 0x01,
            Status::Exists => 0x02,
            Status::TooLarge => 0x03,
            Status::Invalid => 0x04,
            Status::NotStored => 0x05,
            Status::NotNumeric => 0x06,
            Status::Unknown => 0x81,
            Status::NoMemory => 0x82,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Status::Done => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotNumeric => "Non-numeric server-side value for incr or decr",
            Status::Unknown => "Unknown command",
            Status::NoMemory => "Out of memory",
        }
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// The request code, as received.
    pub code: u8,
    pub key_len: usize,
    pub extras_len: usize,
    pub body_len: usize,
    /// Bytes that are returned with the answer.
    pub opaque: [u8; 4],
    pub cas: u64,
}

/// A request that is whole.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub head: RequestHeader,
    /// The request without its quietness.
    pub loud: u8,
    pub is_quiet: bool,
    pub extras: &'a [u8],
    /// The key.
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl RequestHeader {
    /// The header in these bytes.
    #[inline]
    pub fn read(bytes: &[u8; HEAD_LEN]) -> RequestHeader {
        let [_, code, k0, k1, extras_len, _, _, _, rest @ ..] = *bytes;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        RequestHeader {
            code,
            key_len: u16::from_be_bytes([k0, k1]).into(),
            extras_len: extras_len.into(),
            body_len: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            opaque: [o0, o1, o2, o3],
            cas: u64::from_be_bytes(cas),
        }
    }

    /// Bytes of the value, where the lengths agree.
    #[inline]
    pub fn value_len(&self) -> Option<usize> {
        self.body_len.checked_sub(self.key_len + self.extras_len)
    }

    /// The whole request, of whose body as much is there as is wanted.
    #[inline]
    pub fn request<'a>(&self, input: &'a [u8]) -> Request<'a> {
        let (loud, is_quiet) = opcode::strip_quiet(self.code);
        let (extras, rest) = input[HEAD_LEN..].split_at(self.extras_len);
        let (key, rest) = rest.split_at(self.key_len);
        let value_len = self.value_len().unwrap_or(0).min(rest.len());
        Request { head: *self, loud, is_quiet, extras, key, value: &rest[..value_len] }
    }
}

/// A number of up to eight bytes, the highest first.
#[inline]
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The content of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub status: Status,
    pub cas: u64,
    pub extras: &'a [u8],
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// An answer that says no more than that it is one.
pub const DONE: Answer<'static> =
    Answer { status: Status::Done, cas: 0, extras: b"", key: b"", value: b"" };

/// Adds an answer.
#[inline]
pub fn answer(head: &RequestHeader, answer: &Answer<'_>, out: &mut Vec<u8>) {
    let body_len = answer.extras.len() + answer.key.len() + answer.value.len();
    out.reserve(HEAD_LEN + body_len);
    let mut bytes = [0; HEAD_LEN];
    (bytes[0], bytes[field::OPCODE]) = (ANSWER_MAGIC, head.code);
    let mut put = |at: usize, number: &[u8]| bytes[at..][..number.len()].copy_from_slice(number);
    put(field::KEY_LEN, &(answer.key.len() as u16).to_be_bytes());
    put(field::EXTRAS_LEN, &[answer.extras.len() as u8]);
    put(field::STATUS, &answer.status.code().to_be_bytes());
    put(field::BODY_LEN, &(body_len as u32).to_be_bytes());
    put(field::OPAQUE, &head.opaque);
    put(field::CAS, &answer.cas.to_be_bytes());
    out.extend_from_slice(&bytes);
    for part in [answer.extras, answer.key, answer.value] {
        out.extend_from_slice(part);
    }
}

/// Bytes of the answer to a get before the value.
pub const FOUND_LEN: usize = HEAD_LEN + 4;

/// The answer to a get that has found an item, before the value.
#[inline]
pub fn found(opaque: [u8; 4], cas: u64, flags: u32, value_len: u32) -> [u8; FOUND_LEN] {
    let mut bytes = [0; FOUND_LEN];
    (bytes[0], bytes[field::OPCODE], bytes[field::EXTRAS_LEN]) = (ANSWER_MAGIC, opcode::GET, 4);
    bytes[field::BODY_LEN..][..4].copy_from_slice(&(4 + value_len).to_be_bytes());
    bytes[field::OPAQUE..][..4].copy_from_slice(&opaque);
    bytes[field::CAS..][..8].copy_from_slice(&cas.to_be_bytes());
    bytes[HEAD_LEN..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

/// Adds an answer that says what went wrong.
pub fn refuse(head: &RequestHeader, status: Status, out: &mut Vec<u8>) {
    answer(head, &Answer { status, value: status.words().as_bytes(), ..DONE }, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_item_is_answered_like_any_other() {
        let head = RequestHeader { opaque: [1, 2, 3, 4], ..RequestHeader::default() };
        let extras = 0x0102_0304_u32.to_be_bytes();
        let message = Answer { cas: 1 << 63 | 5, extras: &extras, value: b"value", ..DONE };
        let mut out = Vec::new();
        answer(&head, &message, &mut out);
        assert_eq!(out[..FOUND_LEN], found(head.opaque, message.cas, 0x0102_0304, 5));
    }

    #[test]
    fn quiet_forms_are_known() {
        let pairs = [
            (0x09, 0x00),
            (0x0d, 0x0c),
            (0x11, 0x01),
            (0x12, 0x02),
            (0x13, 0x03),
            (0x14, 0x04),
            (0x15, 0x05),
            (0x16, 0x06),
            (0x17, 0x07),
            (0x18, 0x08),
            (0x19, 0x0e),
            (0x1a, 0x0f),
            (0x1e, 0x1d),
            (0x24, 0x23),
        ];
        for code in 0..=0xff {
            let expected = pairs.iter().find(|(quiet, _)| *quiet == code);
            let expected = expected.map_or((code, false), |(_, loud)| (*loud, true));
            assert_eq!(opcode::strip_quiet(code), expected, "{code:#x}");
        }
    }
}
