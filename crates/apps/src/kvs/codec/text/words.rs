//! The words of a line.

use crate::kvs::protocol::limits::WORDS_MAX;

/// The first words of a line, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    words: [&'a [u8]; WORDS_MAX],
    /// The last one, wherever it stands.
    pub last: &'a [u8],
    /// All words, those beyond the first [`WORDS_MAX`] included.
    pub count: usize,
}

impl<'a> Words<'a> {
    /// The words of a line without its end.
    pub fn of(line: &'a [u8]) -> Words<'a> {
        let mut words = Words { words: [b""; WORDS_MAX], last: b"", count: 0 };
        for word in each(line) {
            if let Some(place) = words.words.get_mut(words.count) {
                *place = word;
            }
            words.last = word;
            words.count += 1;
        }
        words
    }

    /// The word at a place, the command being the first; empty where there is none.
    pub fn at(&self, at: usize) -> &'a [u8] {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// The client wants no answer.
    pub fn is_noreply(&self) -> bool {
        self.count > 1 && self.last == b"noreply"
    }
}

/// All words of a line.
pub fn each(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// The end of the first `count` words of a line.
pub fn behind(line: &[u8], count: usize) -> usize {
    let mut at = 0;
    for _ in 0..count {
        at += line[at..].iter().take_while(|byte| **byte == b' ').count();
        at += line[at..].iter().take_while(|byte| **byte != b' ').count();
    }
    at
}

/// The line without `\r` at its end.
pub fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_by_any_number_of_spaces() {
        let words = Words::of(b"  set a  0 0 1 noreply ");
        assert_eq!((words.count, words.at(0), words.at(1)), (6, &b"set"[..], &b"a"[..]));
        assert!(words.is_noreply() && words.at(7).is_empty());
        let many = Words::of(b"get 1 2 3 4 5 6 7 8 9 noreply");
        assert_eq!((many.count, many.at(7), many.at(9)), (11, &b"7"[..], &b""[..]));
        assert!(many.is_noreply());
        assert_eq!(Words::of(b"noreply").count, 1);
        assert!(!Words::of(b"noreply").is_noreply());
        assert_eq!(Words::of(b"   ").count, 0);
        assert_eq!(
            (behind(b" get  a b", 1), behind(b" get  a b", 2), behind(b"get", 2)),
            (4, 7, 3)
        );
    }
}
