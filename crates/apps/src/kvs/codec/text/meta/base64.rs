//! Base64 of keys: the usual alphabet, with `=` at the end (RFC 4648 §4).

use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use base64::{Engine, encoded_len};

use crate::kvs::protocol::limits::KEY_LEN_MAX;

/// Bits behind the last byte may have any value, as in memcached.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// Adds the text of a key.
pub fn encode(key: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + encoded_len(key.len(), true).unwrap_or(0), 0);
    // The length was reserved.
    let _ = BASE64.encode_slice(key, &mut out[start..]);
}

/// Decodes a text of at most [`KEY_LEN_MAX`] letters; `None` if it is empty or not base64.
pub fn decode<'a>(text: &[u8], room: &'a mut [u8; KEY_LEN_MAX]) -> Option<&'a [u8]> {
    if text.is_empty() || text.len() > KEY_LEN_MAX {
        return None;
    }
    let len = BASE64.decode_slice(text, room).ok()?;
    Some(&room[..len])
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
