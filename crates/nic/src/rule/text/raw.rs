//! The bytes of a `raw` item: `pattern`, literal text, and `pattern_hex`.

use super::one_of;
use super::words::{Words, hex};
use crate::rule::item::{ItemMatch, RAW_BYTES, RAW_LEN, RAW_LEN_MAX};
use crate::text::{Problem, TextError};

/// Names of the parameters that give bytes.
pub(super) const NAMES: [&str; 2] = ["pattern", "pattern_hex"];

const PARAMETERS: [&str; 3] = ["is", "mask", "spec"];

/// Which of an item's parameters for bytes were read.
#[derive(Default)]
pub(super) struct Bytes {
    pub(super) has_spec: bool,
    /// Length of the mask in bytes, if there is one.
    pub(super) mask_len: Option<usize>,
}

impl Bytes {
    /// Reads the words after one of the names.
    pub(super) fn read(
        &mut self,
        words: &mut Words<'_>,
        name: &str,
        read: &mut ItemMatch,
    ) -> Result<(), TextError> {
        let parameter = words.next();
        if !PARAMETERS.contains(&parameter) {
            return Err(words.unknown(&PARAMETERS, one_of(&PARAMETERS)));
        }
        let word = words.next();
        let bytes = match name {
            "pattern" => Some(word.as_bytes().to_vec()).filter(|bytes| !bytes.is_empty()),
            _ => hex(word),
        };
        let Some(bytes) = bytes else {
            let what = if name == "pattern" { "text without blanks" } else { "hexadecimal digits" };
            return Err(words.expected(format!("{name}: {what}")));
        };
        if bytes.len() > RAW_LEN_MAX {
            let len = bytes.len();
            let reason = format!("{len} bytes are too many: one raw item has 1 to {RAW_LEN_MAX}");
            return Err(words.error(Problem::Unfit { reason }));
        }
        let put = |image: &mut [u8], bytes: &[u8]| {
            image[RAW_BYTES..].fill(0);
            image[RAW_BYTES..][..bytes.len()].copy_from_slice(bytes);
        };
        if parameter != "mask" {
            put(&mut read.spec, &bytes);
            read.spec[RAW_LEN] = bytes.len() as u8;
            self.has_spec = true;
        }
        if parameter != "spec" {
            let ones = [0xff; RAW_LEN_MAX];
            let mask = if parameter == "is" { &ones[..bytes.len()] } else { &bytes };
            put(&mut read.mask, mask);
            self.mask_len = Some(mask.len());
        }
        Ok(())
    }

    /// Whether the mask is as long as the pattern; called when an item that has a mask was read.
    pub(super) fn check(&self, read: &ItemMatch) -> Result<(), String> {
        let len = usize::from(read.spec[RAW_LEN]);
        match self.mask_len {
            None if len > 0 => {
                Err("raw has a mask and none for its pattern: write `is` for `spec`".to_owned())
            }
            Some(mask_len) if mask_len != len => {
                Err(format!("raw has a pattern of {len} bytes and a mask of {mask_len} for it"))
            }
            _ => Ok(()),
        }
    }
}

/// Clears the bits of a mask that belong to no byte of the pattern.
pub(super) fn trim(read: &mut ItemMatch) {
    let len = usize::from(read.spec[RAW_LEN]);
    read.mask[RAW_BYTES + len..].fill(0);
}
