//! Values without masks: where they mean more than they say.

use std::fmt;

use crate::rule::item::{Field, FieldKind, Item, ItemMatch};

/// What an item comes to mean because a value of it has no mask: `rte_flow` then takes the item's
/// default mask, which compares fields that were not named with zero, or takes none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare {
    item: Item,
    /// Fields that were not named and have to be zero, as bits by their place.
    zeros: u16,
    /// Fields whose value does not count.
    idle: u16,
}

/// Which fields of an item were named, as bits by their place.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// With a value.
    pub(super) values: u16,
    /// With a mask or prefix, or by `is`.
    pub(super) masks: u16,
}

impl Named {
    /// What an item means beside what it says; `read` has its mask, which may be the default one.
    pub(super) fn bare(&self, read: &ItemMatch, is_default: bool) -> Option<Bare> {
        // What `raw` has beside its bytes is zero where it is not said.
        if self.values & !self.masks == 0 || read.item == Item::Raw {
            return None;
        }
        let fields = || read.item.fields().iter().enumerate();
        let has = |bits: u16, at: usize| bits >> at & 1 == 1;
        let is_named =
            |field: &Field| fields().any(|(at, it)| has(self.values, at) && it.overlaps(field));
        let (mut zeros, mut idle) = (0, 0);
        for (at, field) in fields().filter(|(_, field)| field.kind != FieldKind::Index) {
            let mask = field.value(&read.mask);
            if has(self.values & !self.masks, at) && mask == 0 {
                idle |= 1 << at;
            }
            if is_default && mask == field.ones() && !is_named(field) {
                zeros |= 1 << at;
            }
        }
        (zeros | idle != 0).then_some(Bare { item: read.item, zeros, idle })
    }
}

/// Such as `ipv4 dst has to be 0, and ttl does not count`.
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
            (name, 1) => write!(f, " {name} has to be 0")?,
            (names, _) => write!(f, " {names} have to be 0")?,
        }
        let and = if self.zeros != 0 && self.idle != 0 { ", and" } else { "" };
        match idle {
            (_, 0) => Ok(()),
            (name, 1) => write!(f, "{and} {name} does not count"),
            (names, _) => write!(f, "{and} {names} do not count"),
        }
    }
}
