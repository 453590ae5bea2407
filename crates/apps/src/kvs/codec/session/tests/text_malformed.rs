//! Malformed forms of every command: each is an error, changes nothing and ends no talk.

use super::text::answers;
use crate::kvs::protocol::limits::KEY_LEN_MAX;

/// Commands, what each of their words is, and the value that follows.
const COMMANDS: [(&str, &[Word], &str); 20] = [
    ("set", &STORAGE, "\r\nx"),
    ("add", &STORAGE, "\r\nx"),
    ("replace", &STORAGE, "\r\nx"),
    ("append", &STORAGE, "\r\nx"),
    ("prepend", &STORAGE, "\r\nx"),
    ("cas", &[Word::Key, Word::Flags, Word::Time, Word::Length, Word::Number], "\r\nx"),
    ("get", &[Word::Key], ""),
    ("gets", &[Word::Key], ""),
    ("gat", &[Word::Time, Word::Key], ""),
    ("gats", &[Word::Time, Word::Key], ""),
    ("delete", &[Word::Key], ""),
    ("incr", &[Word::Key, Word::Number], ""),
    ("decr", &[Word::Key, Word::Number], ""),
    ("touch", &[Word::Key, Word::Time], ""),
    ("verbosity", &[Word::Flags], ""),
    ("mg", &[Word::Key], ""),
    ("md", &[Word::Key], ""),
    ("ma", &[Word::Key], ""),
    ("me", &[Word::Key], ""),
    ("ms", &[Word::Key, Word::Length], "\r\nx"),
];

const STORAGE: [Word; 4] = [Word::Key, Word::Flags, Word::Time, Word::Length];

/// What a word behind a command is.
#[derive(Clone, Copy)]
enum Word {
    Key,
    /// Without a sign, of which 32 bits count.
    Flags,
    /// With a sign, of which 32 bits count.
    Time,
    /// The same, and neither negative nor longer than a value and its end may be.
    Length,
    /// 64 bits without a sign.
    Number,
}

/// What is no number of any kind.
const NO_NUMBERS: [&str; 12] =
    ["x", "1x", "0x1", "+", "1.5", "1e3", "-", "--1", "\u{1}", "\0", "ü", "'1'"];

/// Numbers that are too large whatever the word is.
const HUGE: [&str; 2] = ["18446744073709551616", "99999999999999999999999999999999999"];

impl Word {
    fn good(self) -> &'static str {
        match self {
            Word::Key => "k",
            Word::Length => "1",
            Word::Flags | Word::Time | Word::Number => "0",
        }
    }

    fn bad(self) -> Vec<String> {
        let more: &[&str] = match self {
            Word::Key => return vec!["k".repeat(KEY_LEN_MAX + 1), "k".repeat(2_000)],
            Word::Flags => &["-1"],
            Word::Time => &["9223372036854775808", "-9223372036854775809"],
            Word::Length => &["-1", "2147483646", "18446744073709551615"],
            Word::Number => &["-1"],
        };
        [&NO_NUMBERS[..], &HUGE, more].concat().iter().map(|word| (*word).to_owned()).collect()
    }
}

/// Flags of meta commands that are none, alone or together.
const FLAGS: [&str; 18] = [
    "!",
    "\u{1}",
    "ü",
    "v v",
    "T",
    "Tx",
    "T9223372036854775808",
    "N",
    "N1x",
    "R-",
    "F-1",
    "C",
    "C-1",
    "E18446744073709551616",
    "J",
    "Dx",
    "O23456789012345678901234567890123",
    "v k q O1 s f t c h l u T1 N1 R1 F1 C1 E1 J1 D1",
];

/// Nothing but errors is answered to it, to what follows an answer is given, and the item that was
/// there is as it was.
#[track_caller]
fn is_refused(form: &str) {
    let message = format!("set k 7 0 1\r\nv\r\n{form}\r\nmn\r\ngets k\r\n");
    let reported = answers(message.as_bytes());
    let rest = reported.strip_prefix("STORED\r\n");
    let errors = rest.and_then(|rest| rest.strip_suffix("MN\r\nVALUE k 7 1 2\r\nv\r\nEND\r\n"));
    let errors = errors.unwrap_or_else(|| panic!("{form:?} is answered {reported:?}"));
    let is_error = |line: &str| {
        ["ERROR", "CLIENT_ERROR ", "SERVER_ERROR "].iter().any(|start| line.starts_with(start))
    };
    let is_right = !errors.is_empty() && errors.lines().all(is_error);
    assert!(is_right, "{form:?} is answered {reported:?}");
}

#[test]
fn a_word_that_is_none_of_its_kind_is_refused() {
    for (command, words, value) in COMMANDS {
        for at in 0..words.len() {
            for bad in words[at].bad() {
                let mut form = command.to_owned();
                for (place, word) in words.iter().enumerate() {
                    form += " ";
                    form += if place == at { &bad } else { word.good() };
                }
                is_refused(&(form + value));
            }
        }
    }
}

#[test]
fn too_few_words_and_too_many_are_refused() {
    for (command, words, value) in COMMANDS {
        let mut form = command.to_owned();
        for (at, word) in words.iter().enumerate() {
            // No key at all may be asked for with a time.
            if !(command.starts_with("gat") && at == 1) {
                is_refused(&form);
                is_refused(&format!("{form}{value}"));
            }
            form = form + " " + word.good();
        }
        let is_list = command.starts_with("ge") || command.starts_with("ga");
        let is_meta = command.len() == 2;
        // Of these what is beyond is more keys, a flag, or not looked at.
        if !is_list && !is_meta && command != "verbosity" {
            is_refused(&format!("{form} noreply and more{value}"));
        }
    }
    is_refused("flush_all 0 noreply and more");
    is_refused("flush_all x");
}

#[test]
fn flags_that_are_none_are_refused() {
    for (command, words, value) in COMMANDS.iter().filter(|(command, ..)| command.len() == 2) {
        let good: String = words.iter().map(|word| " ".to_owned() + word.good()).collect();
        // Of `me` none is looked at but a `b`.
        for flags in FLAGS.into_iter().filter(|_| *command != "me") {
            is_refused(&format!("{command}{good} {flags}{value}"));
        }
        // A key that is said to be in base64 and is not.
        is_refused(&format!("{command}{good} b{value}"));
    }
    is_refused("ms k 1 MZ\r\nx");
    is_refused("ms k 1 M\r\nx");
    is_refused("ma k MZ");
}
