//! The flags behind a meta command: a letter each, some with a token.

use super::super::super::hash::Key;
use super::super::super::limits::{KEY_LEN_MAX, META_FLAGS_MAX, OPAQUE_LEN_MAX};
use super::super::super::session::Context;
use super::super::words::{each, signed, unsigned, unsigned_32};
use super::super::{BAD_FORMAT, Line};
use super::base64;

const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";

/// What the flags of a command say, whichever command it is.
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
};

impl Flags {
    /// The flags behind the first `before` words of a line.
    ///
    /// # Errors
    /// What the client is to be answered.
    pub fn read(line: &Line<'_>, before: usize) -> Result<Flags, &'static [u8]> {
        if line.words.count > META_FLAGS_MAX {
            return Err(b"CLIENT_ERROR options flags are too long\r\n");
        }
        let (mut flags, mut seen) = (NONE, 0u128);
        for word in each(line.text).skip(before) {
            let (letter, token) = (word[0], &word[1..]);
            let bit = 1u128.checked_shl(letter.into()).unwrap_or(0);
            if bit == 0 || seen & bit != 0 {
                return Err(b"CLIENT_ERROR duplicate flag\r\n");
            }
            seen |= bit;
            flags.take(letter, token)?;
        }
        Ok(flags)
    }

    fn take(&mut self, letter: u8, token: &[u8]) -> Result<(), &'static [u8]> {
        let time = || signed(token).map(Some).ok_or(BAD_TOKEN);
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
            b'F' => self.flags = unsigned_32(token).ok_or(BAD_TOKEN)?,
            b'C' => self.compare = Some(number(BAD_TOKEN)?),
            b'E' => self.cas = Some(number(BAD_TOKEN)?),
            b'J' => {
                self.initial = number(b"CLIENT_ERROR invalid numeric initial value\r\n")?;
            }
            b'D' => self.delta = number(b"CLIENT_ERROR invalid numeric delta value\r\n")?,
            b'M' => self.mode = Some(token.first().copied().unwrap_or(b' ')),
            b'O' if token.len() >= OPAQUE_LEN_MAX => {
                return Err(b"CLIENT_ERROR opaque token too long\r\n");
            }
            // Those that only ask for an answer, and hints to proxies, which we are none of.
            b'O' | b'P' | b'L' | b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' => {}
            _ => return Err(b"CLIENT_ERROR invalid flag\r\n"),
        }
        Ok(())
    }

    /// The key of a command, decoded where it is in base64.
    ///
    /// # Errors
    /// What the client is to be answered.
    pub fn key<'a>(
        &self,
        word: &'a [u8],
        room: &'a mut [u8; KEY_LEN_MAX],
        context: &Context<'_>,
    ) -> Result<Key<'a>, &'static [u8]> {
        if word.is_empty() || word.len() > KEY_LEN_MAX {
            return Err(BAD_FORMAT);
        }
        let bytes = match self.is_binary {
            true => {
                base64::decode(word, room).ok_or(&b"CLIENT_ERROR error decoding key\r\n"[..])?
            }
            false => word,
        };
        Ok(context.store.key(bytes))
    }
}
