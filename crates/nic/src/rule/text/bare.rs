//! The values and masks of an item's fields, and values without a mask, which mean more than they
//! say.

use std::fmt;

use super::read_value;
use super::words::Words;
use crate::rule::item::{Field, FieldKind, Item, ItemMatch, Written};
use crate::text::{Problem, TextError};

/// The effect of a value without a mask: `rte_flow` then uses the item's default mask, which
/// compares fields that were not named with zero, or no mask at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare {
    item: Item,
    /// Fields that were not named and have to be zero, a bit each.
    zeros: u16,
    /// Fields whose value does not count.
    idle: u16,
}

/// The most fields of one item.
const FIELDS_MAX: usize = 8;

/// The named fields of an item, by their index among its fields. Their order does not matter,
/// though one may be a part of another (`gre k_bit` of `gre c_rsvd0_ver`).
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Values, and their places.
    values: [Option<(u128, (usize, usize))>; FIELDS_MAX],
    /// Masks and prefixes, and all bits for `is`.
    masks: [Option<u128>; FIELDS_MAX],
}

impl Named {
    /// Reads the value of a field, which may already have one.
    pub(super) fn value(
        &mut self,
        words: &mut Words<'_>,
        item: Item,
        at: usize,
    ) -> Result<(), TextError> {
        let field = &item.fields()[at];
        let value = read_value(words, field)?;
        if let Some((first, _)) = self.values[at].filter(|(first, _)| *first != value) {
            let [first, second] = [first, value].map(|value| Written(field, value));
            let (item, name) = (item.name(), field.name);
            let reason = format!("{item} {name} is given twice, as {first} and as {second}");
            return Err(words.error(Problem::Unfit { reason }));
        }
        self.values[at] = Some((value, words.place()));
        Ok(())
    }

    pub(super) fn mask(&mut self, at: usize, mask: u128) {
        self.masks[at] = Some(mask);
    }

    pub(super) fn has_values(&self) -> bool {
        self.values.iter().any(Option::is_some)
    }

    pub(super) fn has_masks(&self) -> bool {
        self.masks.iter().any(Option::is_some)
    }

    /// Puts values and masks into an item, which has its default mask if that applies. Fields that
    /// share bits must not require different ones.
    pub(super) fn put(&self, words: &Words<'_>, read: &mut ItemMatch) -> Result<(), TextError> {
        let (fields, default) = (read.item.fields(), read.mask);
        let has_masks = self.has_masks();
        // Later writes override, so fields with a mask are written last.
        for (field, value) in fields.iter().zip(self.values) {
            let Some((value, _)) = value else { continue };
            let before = field.value(&read.spec);
            field.put(&mut read.spec, before | value);
        }
        let mut asked = ItemMatch::any(read.item);
        for (at, field) in fields.iter().enumerate() {
            let mask = match has_masks {
                true => self.masks[at].unwrap_or(0),
                false if self.values[at].is_some() => field.value(&default),
                false => 0,
            };
            let value = match self.values[at] {
                Some((value, _)) => value & mask,
                // The mask covers bits of another field's value.
                None => field.value(&read.spec) & mask,
            };
            let common = field.value(&asked.mask) & mask;
            if (field.value(&asked.spec) ^ value) & common != 0 {
                return Err(self.contradiction(words, read.item, at));
            }
            let (spec, bits) = (field.value(&read.spec), field.value(&asked.mask));
            field.put(&mut read.spec, spec & !mask | value);
            let kept = field.value(&asked.spec);
            field.put(&mut asked.spec, kept | value);
            field.put(&mut asked.mask, bits | mask);
        }
        for field in fields.iter().filter(|_| has_masks) {
            let mask = field.value(&asked.mask);
            field.put(&mut read.mask, mask);
        }
        Ok(())
    }

    /// An error that a field contradicts an earlier field with shared bits.
    fn contradiction(&self, words: &Words<'_>, item: Item, at: usize) -> TextError {
        let fields = item.fields();
        let is_other = |other: &usize| {
            *other != at && fields[*other].overlaps(&fields[at]) && self.values[*other].is_some()
        };
        let other = (0..fields.len()).find(is_other).unwrap_or(at);
        let said = [other, at].map(|at| {
            let (value, place) = self.values[at].unwrap_or_default();
            (format!("{} {}", fields[at].name, Written(&fields[at], value)), place)
        });
        let place = said[0].1.max(said[1].1);
        let reason =
            format!("{}: {} and {} contradict each other", item.name(), said[0].0, said[1].0);
        TextError::new(words.line, words.text, place, Problem::Unfit { reason })
    }

    /// What an item means beyond its text; `read` has its mask, which may be the default mask.
    pub(super) fn bare(&self, read: &ItemMatch, is_default: bool) -> Option<Bare> {
        let has = |bits: u16, at: usize| bits >> at & 1 == 1;
        let bits = |is_named: &dyn Fn(usize) -> bool| {
            (0..FIELDS_MAX).filter(|at| is_named(*at)).fold(0, |bits, at| bits | 1 << at)
        };
        let values: u16 = bits(&|at| self.values[at].is_some());
        let masks: u16 = bits(&|at| self.masks[at].is_some());
        // The fields of `raw` are zero if they are not given.
        if values & !masks == 0 || read.item == Item::Raw {
            return None;
        }
        let fields = || read.item.fields().iter().enumerate();
        let is_named =
            |field: &Field| fields().any(|(at, it)| has(values, at) && it.overlaps(field));
        let (mut zeros, mut idle) = (0, 0);
        for (at, field) in fields().filter(|(_, field)| field.kind != FieldKind::Index) {
            let mask = field.value(&read.mask);
            if has(values & !masks, at) && mask == 0 {
                idle |= 1 << at;
            }
            if is_default && mask == field.ones() && !is_named(field) {
                zeros |= 1 << at;
            }
        }
        (zeros | idle != 0).then_some(Bare { item: read.item, zeros, idle })
    }
}

/// An example: `ipv4 dst must be 0 by rte_flow's default mask, and ttl does not count`.
impl fmt::Display for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |bits: u16| {
            let fields = self.item.fields().iter().enumerate();
            let names: Vec<&str> =
                fields.filter(|(at, _)| bits >> at & 1 == 1).map(|(_, it)| it.name).collect();
            (names.join(" and "), names.len())
        };
        write!(f, "{}", self.item.name())?;
        let (zeros, idle) = (names(self.zeros), names(self.idle));
        match zeros {
            (_, 0) => {}
            (names, _) => write!(f, " {names} must be 0 by rte_flow's default mask")?,
        }
        let and = if self.zeros != 0 && self.idle != 0 { ", and" } else { "" };
        match idle {
            (_, 0) => Ok(()),
            (name, 1) => write!(f, "{and} {name} does not count"),
            (names, _) => write!(f, "{and} {names} do not count"),
        }
    }
}
