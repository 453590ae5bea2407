//! The parameters of the action `rss`.

use super::error::{Problem, TextError};
use super::words::Words;
use super::{known, one_of};
use crate::limits::RSS_QUEUES_MAX;
use crate::rss::{HashFunction, HashTypes, RssAction, RssLevel};
use crate::toeplitz::KEY_LEN_MIN;

const PARAMETERS: &[&str] = &["func", "key", "key_len", "level", "queues", "types", "/"];
const FUNCTIONS: &[&str] = &["default", "symmetric_toeplitz", "toeplitz"];

/// Longest key that testpmd takes, bytes.
const KEY_LEN_MAX: usize = 64;

/// Reads parameters up to and with the `/`; of one that stands twice the last one counts.
pub(super) fn read_rss(words: &mut Words<'_>) -> Result<RssAction, TextError> {
    let mut action = RssAction::default();
    let mut key_len = None;
    loop {
        match words.next() {
            "/" => break,
            "func" => action.function = function(words)?,
            "key" => action.key = Some(key(words)?),
            "key_len" => key_len = Some(words.number_u32("key_len")?),
            "level" => match words.number_u32("level")? {
                0 => action.level = None,
                1 => action.level = Some(RssLevel::Outermost),
                2 => action.level = Some(RssLevel::Inner),
                level => return Err(words.not_supported(format!("rss level {level}"))),
            },
            "queues" => action.queues = queues(words)?,
            "types" => action.types = Some(types(words)?),
            _ => return Err(words.unended(PARAMETERS, one_of(PARAMETERS))),
        }
    }
    let given = action.key.as_ref().map_or(0, Vec::len);
    match key_len.filter(|len| *len as usize != given) {
        None => Ok(action),
        Some(len) => Err(unfit(words, format!("key_len is {len}; the key has {given} bytes"))),
    }
}

fn unfit(words: &Words<'_>, reason: String) -> TextError {
    words.error(Problem::Unfit { reason })
}

fn function(words: &mut Words<'_>) -> Result<Option<HashFunction>, TextError> {
    match words.next() {
        "default" => Ok(None),
        "symmetric_toeplitz" => Ok(Some(HashFunction::SymmetricToeplitz)),
        "toeplitz" => Ok(Some(HashFunction::Toeplitz)),
        "simple_xor" => Err(words.not_supported("rss func simple_xor")),
        _ => Err(words.unknown(FUNCTIONS, one_of(FUNCTIONS))),
    }
}

fn key(words: &mut Words<'_>) -> Result<Vec<u8>, TextError> {
    let word = words.next();
    if word.is_empty() {
        return Err(words.expected("the key in hexadecimal digits"));
    }
    let byte = |pair: &[u8]| {
        let digit = |at: usize| (*pair.get(at)? as char).to_digit(16);
        Some((digit(0)? << 4 | digit(1)?) as u8)
    };
    let bytes: Option<Vec<u8>> = word.as_bytes().chunks(2).map(byte).collect();
    match bytes.filter(|bytes| (KEY_LEN_MIN..=KEY_LEN_MAX).contains(&bytes.len())) {
        Some(bytes) => Ok(bytes),
        None => Err(unfit(
            words,
            format!(
                "a key has {KEY_LEN_MIN} to {KEY_LEN_MAX} bytes of two hexadecimal digits each"
            ),
        )),
    }
}

fn queues(words: &mut Words<'_>) -> Result<Vec<u16>, TextError> {
    let mut queues = Vec::new();
    loop {
        match words.next() {
            "end" if queues.is_empty() => {
                let reason =
                    "rss has no queue: name some, or leave `queues` out for all".to_owned();
                return Err(words.error(Problem::Unfit { reason }));
            }
            "end" => return Ok(queues),
            word => queues.push(words.number_of(word, "queue", u16::MAX.into())? as u16),
        }
        if queues.len() > RSS_QUEUES_MAX {
            return Err(unfit(words, format!("an rss action has at most {RSS_QUEUES_MAX} queues")));
        }
    }
}

fn types(words: &mut Words<'_>) -> Result<HashTypes, TextError> {
    let mut types = HashTypes::NONE;
    loop {
        match words.next() {
            "end" => return Ok(types),
            word => match HashTypes::from_name(word) {
                Some(named) => types = types | named,
                None if known::HASH_TYPES.contains(&word) => {
                    return Err(words.not_supported(format!("rss types {word}")));
                }
                None => {
                    let mut names = HashTypes::NAMES.map(|(name, _)| name).to_vec();
                    names.push("end");
                    return Err(words.unknown(&names, one_of(&names)));
                }
            },
        }
    }
}
