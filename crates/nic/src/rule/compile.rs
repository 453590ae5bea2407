//! Compiles the items of a rule to the pattern that packets' header keys are compared with.
//!
//! Headers that no item names may be in a frame too: `eth / ipv4` also matches a frame with a VLAN
//! tag. A field belongs to its own header: `eth type is 0x0800` is the type right after the
//! addresses, which a tagged frame has elsewhere. `ipv6 proto` is the protocol after the extension
//! headers. An item matches frames that have its header, and a field matches frames that have its
//! bytes. Items after that of a tunnel name headers inside the tunnel.

mod draft;
mod order;

use super::Pattern;
use super::item::{IMAGE_LEN, ItemMatch};
use crate::limits::PATTERN_WORDS_MAX;
use draft::Draft;

/// Why items cannot be compiled. The index is that of the item, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// No frame can match.
    #[error("{reason}")]
    Contradiction {
        /// The item that contradicts one before it, or itself.
        index: usize,
        /// What contradicts what, and what would be valid.
        reason: String,
    },
    /// The header keys have no room for it, or no classifier matches it.
    #[error("not supported: {name}")]
    NotSupported {
        /// Which item.
        index: usize,
        /// Which part of it.
        name: String,
    },
    /// The order of the headers is wrong.
    #[error("{reason}")]
    Order {
        /// The item in the wrong place.
        index: usize,
        /// Where the item is, and where it belongs.
        reason: String,
    },
    /// The fields need too many words.
    #[error(
        "fields of {words} words of 8 bytes are matched, and {PATTERN_WORDS_MAX} can be: \
         name fewer fields"
    )]
    TooWide {
        /// The last item.
        index: usize,
        /// Words of the fields.
        words: usize,
    },
}

impl CompileError {
    /// The item that is refused, from 0.
    pub fn index(&self) -> usize {
        match self {
            CompileError::Contradiction { index, .. }
            | CompileError::NotSupported { index, .. }
            | CompileError::Order { index, .. }
            | CompileError::TooWide { index, .. } => *index,
        }
    }
}

/// The pattern of these items, outermost first. No item, or `eth` alone, matches every frame, even
/// one that is too short for Ethernet.
///
/// # Errors
/// An order of items, or a combination of values, that no frame has; a field that the header keys
/// have no room for; a `last` that gives a range to a field without ranges, or under a mask that is
/// no prefix; a search by `raw`; more than [`PATTERN_WORDS_MAX`] words.
pub fn pattern(items: &[ItemMatch]) -> Result<Pattern, CompileError> {
    let mut draft = Draft::default();
    for (index, read) in items.iter().enumerate() {
        order::check(items, index)?;
        let mut rest = *read;
        draft.begin(items, index)?;
        draft.take_ranges(&mut rest)?;
        draft.item(&mut rest)?;
        draft.note_end(read.item);
        if rest.mask != [0; IMAGE_LEN] {
            let left = read.item.fields().iter().find(|field| field.value(&rest.mask) != 0);
            return Err(draft.not_supported(read.item, left.map_or("mask", |field| field.name)));
        }
    }
    let (pattern, words) = draft.pattern();
    match words {
        words if words > PATTERN_WORDS_MAX => {
            Err(CompileError::TooWide { index: items.len() - 1, words })
        }
        _ => Ok(pattern),
    }
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
