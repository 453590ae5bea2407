//! Limits of requests and answers, each with its reason.

/// Longest key, bytes: memcached's, whose clients check it themselves.
pub const KEY_LEN_MAX: usize = 250;

/// Longest value, bytes: memcached's default is 1 MiB for the whole item; here it is the value's.
pub const VALUE_LEN_MAX: usize = 1 << 20;

/// Longest line of a command that does not read many keys, bytes. memcached closes the connection
/// of whoever sends so much without an end of line.
pub const LINE_LEN_MAX: usize = 2048;

/// Longest opaque token of a meta command, bytes (memcached's protocol.txt).
pub const OPAQUE_LEN_MAX: usize = 32;

/// Words of a classic command that are looked at; the longest, `cas`, has seven.
pub const WORDS_MAX: usize = 8;

/// Most words of a meta command: memcached refuses more.
pub const META_WORDS_MAX: usize = 19;

/// Answers of one connection that wait to be sent, bytes, beyond which no further request of it is
/// carried out. One value more may stand behind.
pub const ANSWERS_LEN_MAX: usize = 64 << 10;

/// Answer to one datagram, bytes: a value of the longest kind and its line. What would be longer is
/// refused: so many datagrams would not arrive anyhow.
pub const DATAGRAM_ANSWER_LEN_MAX: usize = VALUE_LEN_MAX + (64 << 10);

/// Length of an answer's datagram with its frame header, bytes, as memcached's UDP: it fits into an
/// Ethernet frame.
pub const DATAGRAM_LEN_MAX: usize = 1400;

const _: () = assert!(KEY_LEN_MAX <= u8::MAX as usize, "an item keeps the length in a byte");
const _: () = assert!(LINE_LEN_MAX > 2 * KEY_LEN_MAX, "each command with its key fits");
const _: () = assert!(
    DATAGRAM_ANSWER_LEN_MAX / DATAGRAM_LEN_MAX < u16::MAX as usize,
    "datagrams of an answer are numbered by 16 bits"
);
