//! Base64 of keys: the usual alphabet, with `=` at the end (RFC 4648 §4).

use crate::kvs::protocol::limits::KEY_LEN_MAX;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Adds the text of some bytes.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at > three.len() { b'=' } else { letter });
        }
    }
}

/// Writes the bytes that a text of at most [`KEY_LEN_MAX`] letters stands for; `None` where it
/// stands for none.
pub fn decode<'a>(text: &[u8], room: &'a mut [u8; KEY_LEN_MAX]) -> Option<&'a [u8]> {
    if text.is_empty() || !text.len().is_multiple_of(4) || text.len() > KEY_LEN_MAX {
        return None;
    }
    let padding = text.iter().rev().take_while(|letter| **letter == b'=').count();
    let letters = text.len() - padding;
    if padding > 2 {
        return None;
    }
    let mut len = 0;
    for four in text[..letters].chunks(4) {
        let mut bits = 0;
        for letter in four {
            bits = bits << 6 | value(*letter)?;
        }
        bits <<= 6 * (4 - four.len());
        for shift in [16, 8, 0].into_iter().take(four.len() - 1) {
            room[len] = (bits >> shift) as u8;
            len += 1;
        }
    }
    Some(&room[..len])
}

fn value(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_rfc_go_both_ways() {
        // RFC 4648 §10.
        let samples = ["f", "fo", "foo", "foob", "fooba", "foobar", "\u{ff}\0~"];
        let texts = ["Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy", "w78Afg=="];
        for (sample, text) in samples.into_iter().zip(texts) {
            let mut out = Vec::new();
            encode(sample.as_bytes(), &mut out);
            assert_eq!(out, text.as_bytes(), "{sample}");
            assert_eq!(decode(&out, &mut [0; KEY_LEN_MAX]), Some(sample.as_bytes()));
        }
    }

    #[test]
    fn invalid_base64_is_refused() {
        for text in ["", "Z", "Zg=", "Z===", "====", "Zg==Zg==", "Z!==", "Zm9v ", "=Zm9"] {
            assert_eq!(decode(text.as_bytes(), &mut [0; KEY_LEN_MAX]), None, "{text}");
        }
    }
}
