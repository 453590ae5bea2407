//! The flags behind a meta command: a letter each, some with a token.

use super::base64;
use crate::kvs::codec::text::words::each;
use crate::kvs::codec::text::{BAD_FORMAT, WholeLine};
use crate::kvs::protocol::limits::{KEY_LEN_MAX, OPAQUE_LEN_MAX};
use crate::kvs::protocol::number::{signed_32, unsigned, unsigned_32};

const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
const UNKNOWN_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
/// What `mg` says to more flags than there may be, and what the others say.
pub const TOO_MANY: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
pub const TOO_LONG: &[u8] = b"CLIENT_ERROR options flags too long\r\n";
pub const OPAQUE_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";

/// The flags of a command.
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    /// `b`: the key is in base64.
    pub is_binary: bool,
    /// `u`: the item is not in use for that.
    pub is_idle: bool,
    /// `v`: with the value.
    pub with_value: bool,
    /// `I`: make it stale, or put up with it.
    pub is_stale: bool,
    /// `q`: no answer where all went as usual.
    pub is_quiet: bool,
    /// `x`: the value goes, the item stays.
    pub without_value: bool,
    /// `N`: make an item that lives so long where there is none.
    pub vivify: Option<i64>,
    /// `T`: it lives so long.
    pub time: Option<i64>,
    /// `R`: win where it lives shorter.
    pub recache: Option<i64>,
    /// `F`: what the client keeps beside the value.
    pub flags: u32,
    /// `C`: only where the item has this number.
    pub compare: Option<u64>,
    /// `E`: the number that it gets.
    pub cas: Option<u64>,
    /// `M`: the mode.
    pub mode: Option<u8>,
    /// `J`: the first value.
    pub initial: u64,
    /// `D`: by how much.
    pub delta: u64,
    /// `O`: longer than it may be.
    pub is_opaque_long: bool,
}

const NONE: Flags = Flags {
    is_binary: false,
    is_idle: false,
    with_value: false,
    is_stale: false,
    is_quiet: false,
    without_value: false,
    vivify: None,
    time: None,
    recache: None,
    flags: 0,
    compare: None,
    cas: None,
    mode: None,
    initial: 0,
    delta: 1,
    is_opaque_long: false,
};

impl Flags {
    /// The flags behind the first `before` words of a line, and the bytes of the key, which is
    /// decoded into `room` where it is in base64.
    ///
    /// A letter that is no flag, or comes a second time, ends it at once. Of other errors the
    /// answer has the last one, be it in a flag or in the key, whose turn is that of its `b`; but a
    /// number of the client's own (`F`) is reported only where nothing else is wrong.
    ///
    /// # Errors
    /// What the client is to be answered.
    pub fn read<'a>(
        line: &WholeLine<'a>,
        before: usize,
        room: &'a mut [u8; KEY_LEN_MAX],
    ) -> Result<(Flags, &'a [u8]), &'static [u8]> {
        let key = line.words.at(1);
        let (mut flags, mut decoded_len) = (NONE, 0);
        let (mut observed, mut complaint) = (0u128, None);
        for word in each(line.text).skip(before) {
            let (letter, token) = (word[0], &word[1..]);
            let bit = 1u128.checked_shl(letter.into()).unwrap_or(0);
            if letter >= 127 || observed & bit != 0 {
                return Err(b"CLIENT_ERROR duplicate flag\r\n");
            }
            observed |= bit;
            if letter == b'b' {
                match base64::decode(key, room) {
                    Some(bytes) => decoded_len = bytes.len(),
                    None => complaint = Some(BAD_KEY),
                }
            }
            match flags.take(letter, token) {
                Ok(()) => {}
                Err(UNKNOWN_FLAG) => return Err(UNKNOWN_FLAG),
                Err(BAD_FORMAT) => complaint = complaint.or(Some(BAD_FORMAT)),
                Err(reported) => complaint = Some(reported),
            }
        }
        let bytes = if flags.is_binary { &room[..decoded_len] } else { key };
        complaint.map_or(Ok((flags, bytes)), Err)
    }

    /// No flags, but perhaps `b`.
    pub fn binary(is_binary: bool) -> Flags {
        Flags { is_binary, ..NONE }
    }

    fn take(&mut self, letter: u8, token: &[u8]) -> Result<(), &'static [u8]> {
        let time = || signed_32(token).map(|time| Some(time.into())).ok_or(BAD_TOKEN);
        let number = |complaint| unsigned(token).ok_or(complaint);
        match letter {
            b'b' => self.is_binary = true,
            b'u' => self.is_idle = true,
            b'v' => self.with_value = true,
            b'I' => self.is_stale = true,
            b'q' => self.is_quiet = true,
            b'x' => self.without_value = true,
            b'N' => self.vivify = time()?,
            b'T' => self.time = time()?,
            b'R' => self.recache = time()?,
            b'F' => self.flags = unsigned_32(token).ok_or(BAD_FORMAT)?,
            b'C' => self.compare = Some(number(BAD_TOKEN)?),
            b'E' => self.cas = Some(number(BAD_TOKEN)?),
            b'J' => {
                self.initial = number(b"CLIENT_ERROR invalid numeric initial value\r\n")?;
            }
            b'D' => self.delta = number(b"CLIENT_ERROR invalid numeric delta value\r\n")?,
            b'M' => match *token {
                [mode] => self.mode = Some(mode),
                _ => return Err(b"CLIENT_ERROR incorrect length for M token\r\n"),
            },
            b'O' if token.len() >= OPAQUE_LEN_MAX => self.is_opaque_long = true,
            // Those that only ask for an answer, and hints to proxies, which we are none of.
            b'O' | b'P' | b'L' | b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' => {}
            _ => return Err(UNKNOWN_FLAG),
        }
        Ok(())
    }
}
