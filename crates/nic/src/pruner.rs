//! The filter of a group, which leads to the masks that can have a rule for a packet.
//!
//! A group of few masks probes all of them, best first. A group of many has a filter
//! (`niclab_table::MaskFilter`, which also says why no worker misses a rule).
//!
//! The order of a mask's best rule is its bound. It is lowered before the rule's word is stored,
//! and not raised while the mask exists. The number of a removed mask is reused only after a grace
//! period, which began after its slot lost its bound.

use niclab_table::{EntryCursor, MaskFilter, MaskSource, MaskView, Span};

use crate::limits::PRUNE_KEYS;
use crate::mask::Mask;
use crate::tuple::{FIELDS, Shape};

const F: usize = FIELDS.len();

/// A mask, as packets are looked up in it. The first cache line has what most look-ups need.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) number: u16,
    /// The table of its keys.
    pub(crate) width: u8,
    pub(crate) shape: Shape,
}

const _: () = assert!(std::mem::offset_of!(Slot, shape) + Shape::FOUR_WORDS <= 64);

/// The filter of a group, for the control side.
pub(crate) type Pruner = MaskFilter<F, Box<Slot>>;

/// The masks behind a group's filter, as workers see them.
pub(crate) type PrunedMasks = MaskView<F, Box<Slot>>;

/// A group's masks, by number.
pub(crate) struct GroupMasks<'a>(pub(crate) &'a [Mask]);

/// The slot of a mask.
pub(crate) fn slot_of(mask: &Mask) -> Box<Slot> {
    let (shape, number) = (mask.tuple.shape, mask.tuple.number);
    let width = shape.selector.width().unwrap_or(0) as u8;
    Box::new(Slot { number, width, shape })
}

impl MaskSource<F> for GroupMasks<'_> {
    type Slot = Box<Slot>;

    /// All but the empty mask and those without rules.
    fn masks(&self) -> impl Iterator<Item = (u64, u16)> {
        let masks = self.0.iter();
        let masks = masks.filter(|mask| mask.rules > 0 && mask.tuple.shape.selector.words() > 0);
        masks.map(|mask| (mask.tuple.best(), mask.tuple.number))
    }

    fn entries(&self) -> usize {
        self.0.iter().map(|mask| mask.keys.places() as usize).sum()
    }

    fn slot(&self, number: u16) -> Option<Box<Slot>> {
        self.0.get(usize::from(number)).map(slot_of)
    }

    fn visit(
        &mut self,
        number: u16,
        cursor: &mut EntryCursor,
        visit: &mut dyn FnMut(&[Span; F], u64),
    ) -> bool {
        let Some(mask) = self.0.get(usize::from(number)) else { return false };
        let end = (cursor.at + PRUNE_KEYS).min(mask.keys.places() as usize);
        for place in cursor.at..end {
            let key = mask.keys.get(place as u32);
            visit(&mask.tuple.shape.spans(&key), mask.tuple.best());
        }
        cursor.at = end;
        end < mask.keys.places() as usize
    }

    /// Bounds of masks stay.
    fn raise(&mut self, _: u16, _: u64) {}
}
