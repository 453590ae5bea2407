//! The parameters of the action `rss`, which are also those of a port's RSS settings.

use super::words::Words;
use super::{known, one_of};
use crate::limits::{INDIRECTION_LEN, RSS_QUEUES_MAX};
use crate::rss::{HashFunction, HashTypes, RssAction, RssChange, RssLevel};
use crate::text::{Problem, TextError};
use crate::toeplitz::KEY_LEN_MIN;

const PARAMETERS: &[&str] = &["func", "key", "key_len", "level", "queues", "types", "/"];
const OF_PORT: &[&str] = &["func", "key", "key_len", "level", "queues", "reta", "types"];
const FUNCTIONS: &[&str] = &["default", "symmetric_toeplitz", "toeplitz"];

/// Longest key that testpmd takes, bytes.
const KEY_LEN_MAX: usize = 64;

/// Reads a command about the RSS settings of a port. `rss PORT` shows them. `rss PORT reta
/// (ENTRY,QUEUE),…` sets entries of the indirection table, as testpmd's `port config PORT rss reta`
/// does. `rss PORT` with parameters of the action `rss` changes these settings; `queues` fills the
/// table with these queues in turn.
///
/// # Errors
/// A text that is none of these, with the position of the first word that is wrong.
pub fn port_rss(text: &str) -> Result<(u16, Option<RssChange>), TextError> {
    let mut words = Words::new(1, text);
    words.keyword("rss")?;
    let port = words.number_u16("port")?;
    let (behind, first) = (words.place().1, words.next());
    let change = match first {
        "" => None,
        "reta" => {
            let entries = entries(&mut words)?;
            words.end()?;
            Some(RssChange::Entries(entries))
        }
        _ => {
            let mut words = Words::at(1, text, behind);
            Some(RssChange::Settings(parameters(&mut words, "", OF_PORT)?))
        }
    };
    Ok((port, change))
}

/// `(ENTRY,QUEUE),…`
fn entries(words: &mut Words<'_>) -> Result<Vec<(usize, u16)>, TextError> {
    let word = words.next();
    let expected = || words.expected("(ENTRY,QUEUE),… without blanks");
    let mut entries = Vec::new();
    let pairs = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    for pair in pairs.ok_or_else(expected)?.split("),(") {
        let (entry, queue) = pair.split_once(',').ok_or_else(expected)?;
        let entry = words.number_of(entry, "entry", INDIRECTION_LEN as u128 - 1)?;
        let queue = words.number_of(queue, "queue", u16::MAX.into())?;
        entries.push((entry as usize, queue as u16));
    }
    Ok(entries)
}

/// Reads parameters up to and including the `/`; if one is given twice, the last one counts.
pub(super) fn read_rss(words: &mut Words<'_>) -> Result<RssAction, TextError> {
    parameters(words, "/", PARAMETERS)
}

/// Reads parameters up to and including the word `end`; `names` are those allowed here.
fn parameters(
    words: &mut Words<'_>,
    last: &str,
    names: &[&'static str],
) -> Result<RssAction, TextError> {
    let mut action = RssAction::default();
    let mut key_len = None;
    loop {
        match words.next() {
            word if word == last => break,
            "func" => action.function = function(words)?,
            "key" => action.key = Some(key(words)?),
            "key_len" => key_len = Some(words.number_u32("key_len")?),
            "level" => match words.number_u32("level")? {
                0 => action.level = None,
                1 => action.level = Some(RssLevel::Outermost),
                2 => action.level = Some(RssLevel::Inner),
                level => return Err(words.not_supported(format!("rss level {level}"))),
            },
            "queues" => action.queues = queues(words, last.is_empty())?,
            "types" => action.types = Some(types(words)?),
            _ if last.is_empty() => return Err(words.unknown(names, one_of(names))),
            _ => return Err(words.unended(names, one_of(names))),
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

/// The key that hexadecimal digits give, two digits a byte.
///
/// # Errors
/// If the digits are not a key: a description of what a key is.
pub fn rss_key(digits: &str) -> Result<Vec<u8>, String> {
    let byte = |pair: &[u8]| {
        let digit = |at: usize| (*pair.get(at)? as char).to_digit(16);
        Some((digit(0)? << 4 | digit(1)?) as u8)
    };
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    bytes.filter(|bytes| (KEY_LEN_MIN..=KEY_LEN_MAX).contains(&bytes.len())).ok_or_else(|| {
        format!("a key has {KEY_LEN_MIN} to {KEY_LEN_MAX} bytes of two hexadecimal digits each")
    })
}

fn key(words: &mut Words<'_>) -> Result<Vec<u8>, TextError> {
    match words.next() {
        "" => Err(words.expected("the key in hexadecimal digits")),
        word => rss_key(word).map_err(|reason| unfit(words, reason)),
    }
}

/// The queues up to the word `end`; an empty list means all queues of the card, for an action as in
/// testpmd.
fn queues(words: &mut Words<'_>, is_of_port: bool) -> Result<Vec<u16>, TextError> {
    let mut queues = Vec::new();
    loop {
        match words.next() {
            "end" if queues.is_empty() && is_of_port => {
                return Err(unfit(words, "no queue: name those of the table".to_owned()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_ports_rss_are_read() {
        assert_eq!(port_rss("rss 3").unwrap(), (3, None));
        let entries = RssChange::Entries(vec![(0, 1), (511, 7)]);
        assert_eq!(port_rss("rss 0 reta (0,1),(511,7)").unwrap(), (0, Some(entries)));
        let action = RssAction {
            function: Some(HashFunction::SymmetricToeplitz),
            queues: vec![0, 2],
            types: Some(HashTypes::IP | HashTypes::UDP),
            ..RssAction::default()
        };
        let text = "rss 1 queues 0 2 end types ip udp end func symmetric_toeplitz # why";
        assert_eq!(port_rss(text).unwrap(), (1, Some(RssChange::Settings(action))));
    }

    #[test]
    fn what_is_no_change_is_refused_with_its_place() {
        for (text, said) in [
            ("rss", "expected port: a number"),
            ("rss x", "expected port: a number"),
            ("rss 0 reta", "expected (ENTRY,QUEUE),… without blanks"),
            ("rss 0 reta (1,2) (3,4)", "expected the end of the line"),
            ("rss 0 reta (1,2,(3,4)", "expected queue: a number"),
            ("rss 0 reta (512,2)", "512 is too great: entry is 0 to 511"),
            ("rss 0 reta (1;2)", "expected (ENTRY,QUEUE),… without blanks"),
            ("rss 0 queues end", "no queue: name those of the table"),
            ("rss 0 queues 0 1", "expected queue: a number"),
            ("rss 0 que 0 end", "`que` is short for `queues`"),
            ("rss 0 key 6d5a", "a key has 40 to 64 bytes"),
            ("rss 0 types eth end", "not supported: rss types eth"),
            ("rss 0 func toeplitz /", "expected `func`"),
            ("rss 0 func toeplitz key_len 40", "key_len is 40; the key has 0 bytes"),
        ] {
            let refused = port_rss(text).unwrap_err().to_string();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
