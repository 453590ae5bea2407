//! From the items of a rule to the pattern that packets' lines are compared with.
//!
//! Items not named are passed over: a VLAN tag that no item names does not keep `eth / ipv4` from
//! matching. A field means its own header: `eth type is 0x0800` is the type behind the addresses,
//! which a tagged frame has elsewhere. `ipv6 proto` is the protocol behind extension headers. An
//! item is matched by frames that have its header, and a field by those that have its bytes.
//! Headers behind a tunnel's are those inside it.

mod draft;
mod order;

use super::Pattern;
use super::item::{IMAGE_LEN, ItemMatch};
use crate::limits::PATTERN_WORDS_MAX;
use draft::Draft;

/// Why items make no pattern. The index is that of the item, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// No frame could match.
    #[error("{reason}")]
    Contradiction {
        /// The item that contradicts one before it, or itself.
        index: usize,
        /// What does not go together, and what would.
        reason: String,
    },
    /// The packet's lines have no place for it, or no classifier matches it.
    #[error("not supported: {name}")]
    NotSupported {
        /// Which item.
        index: usize,
        /// What of it.
        name: String,
    },
    /// The headers do not follow each other.
    #[error("{reason}")]
    Order {
        /// The item in the wrong place.
        index: usize,
        /// Where it stands and where it belongs.
        reason: String,
    },
    /// More fields than one key can hold.
    #[error(
        "fields of {words} words of 8 bytes are matched, and {PATTERN_WORDS_MAX} can be: \
         name fewer fields"
    )]
    TooWide {
        /// The last item.
        index: usize,
        /// Words in which the fields lie.
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

/// The pattern of these items, outermost first. No item, or `eth` alone, is every frame, even one
/// too short for Ethernet.
///
/// # Errors
/// Items in an order that no frame has; values that no frame has at once; a field that the lines
/// have no place for, and `last` where it makes a range of a field that can have none, or under a
/// mask that is no prefix; a search by `raw`; more than [`PATTERN_WORDS_MAX`] words.
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
