//! Shapes of patterns: rules that differ in addresses and ports alone are compiled once.
//!
//! To compile items takes longer than to create their rule. Most programs give the same items with
//! the same masks over and over, and only addresses and ports differ. A shape has the compiled
//! pattern, and for each byte of an address or a port its place in the key. Every other byte must
//! have the value that was compiled; otherwise the items are compiled again.

use arrayvec::ArrayVec;
use niclab_nic::rule::Pattern;
use niclab_nic::rule::compile::{self, CompileError};
use niclab_nic::rule::item::{Image, Item, ItemMatch};
use niclab_packet::key::Key;

/// The most items that a shape has; patterns with more are compiled each time.
const ITEMS_MAX: usize = 8;
/// The most shapes that are kept; the oldest goes first.
const SHAPES_MAX: usize = 32;

/// A byte of an item that may have any value: where it is, and its place in the key.
#[derive(Clone, Copy, Debug)]
struct FreeByte {
    item: u8,
    from: u8,
    to: u8,
}

/// Items that were compiled, and how others with the same masks follow from them.
#[derive(Debug)]
pub struct Shape {
    items: ArrayVec<ItemMatch, ITEMS_MAX>,
    /// For each item, the bytes that must equal those that were compiled.
    fixed: ArrayVec<Image, ITEMS_MAX>,
    free: Vec<FreeByte>,
    value: [u8; 64],
    mask: Key,
}

/// The shapes of the newest patterns.
#[derive(Debug, Default)]
pub struct Shapes {
    shapes: Vec<Shape>,
    /// The shape that was used last.
    last: usize,
    oldest: usize,
}

/// Bytes of an item whose values never matter to other items.
fn free_bytes(item: Item) -> std::ops::Range<usize> {
    match item {
        Item::Eth => 0..12,
        Item::Ipv4 => 12..20,
        Item::Ipv6 => 8..40,
        Item::Tcp | Item::Udp => 0..4,
        _ => 0..0,
    }
}

impl Shape {
    /// The shape of these items, and their pattern. No shape if the pattern is not one of outer
    /// bits alone.
    fn compile(items: &[ItemMatch]) -> Result<(Pattern, Option<Shape>), CompileError> {
        let pattern = compile::pattern(items)?;
        let fits = items.len() <= ITEMS_MAX && items.iter().all(|item| item.last.is_none());
        if !fits || !pattern.is_of_outer_bits() {
            return Ok((pattern, None));
        }
        let (value, mask) = (pattern.value().to_bytes(), *pattern.mask());
        let mut shape = Shape {
            items: items.iter().copied().collect(),
            fixed: items.iter().map(|item| item.mask).collect(),
            free: Vec::new(),
            value,
            mask,
        };
        // The port of a tunnel is part of what makes it one.
        let last_header = items.iter().rposition(|item| item.item.is_header());
        for (at, item) in items.iter().enumerate() {
            let is_port = matches!(item.item, Item::Tcp | Item::Udp);
            if is_port && last_header != Some(at) {
                continue;
            }
            for from in free_bytes(item.item).filter(|&from| item.mask[from] != 0) {
                if let Some(to) = shape.place_of(items, at, from) {
                    shape.free.push(FreeByte { item: at as u8, from: from as u8, to });
                    shape.fixed[at][from] = 0;
                }
            }
        }
        Ok((pattern, Some(shape)))
    }

    /// The place in the key of a byte of an item: the only byte that changes with it.
    fn place_of(&self, items: &[ItemMatch], at: usize, from: usize) -> Option<u8> {
        let mut changed: ArrayVec<ItemMatch, ITEMS_MAX> = items.iter().copied().collect();
        let flipped = changed[at].mask[from];
        changed[at].spec[from] ^= flipped;
        let pattern = compile::pattern(&changed).ok().filter(Pattern::is_of_outer_bits)?;
        let value = pattern.value().to_bytes();
        let mut places = (0..value.len()).filter(|&to| value[to] != self.value[to]);
        let to = places.next().filter(|_| *pattern.mask() == self.mask)?;
        let is_copied = value[to] == self.value[to] ^ flipped && places.next().is_none();
        is_copied.then_some(to as u8)
    }

    /// The value of the key of these items, if they have this shape.
    fn fill(&self, items: &[ItemMatch]) -> Option<Key> {
        if items.len() != self.items.len() {
            return None;
        }
        for ((item, known), fixed) in items.iter().zip(&self.items).zip(&self.fixed) {
            let len = known.item.header_len().min(known.mask.len() - 1) + 1;
            let differs = |i: usize| (item.spec[i] ^ known.spec[i]) & fixed[i] != 0;
            if item.item != known.item
                || item.last.is_some()
                || item.mask[..len] != known.mask[..len]
                || (0..len).any(differs)
            {
                return None;
            }
        }
        let mut value = self.value;
        for &FreeByte { item, from, to } in &self.free {
            let (item, from) = (&items[usize::from(item)], usize::from(from));
            value[usize::from(to)] = item.spec[from] & item.mask[from];
        }
        Some(Key::from_bytes(&value))
    }
}

impl Shapes {
    /// The pattern of these items.
    ///
    /// # Errors
    /// As [`compile::pattern`].
    pub fn pattern(&mut self, items: &[ItemMatch]) -> Result<Pattern, CompileError> {
        let count = self.shapes.len();
        for at in (self.last..count).chain(0..self.last.min(count)) {
            let shape = &self.shapes[at];
            if let Some(value) = shape.fill(items) {
                self.last = at;
                return Ok(Pattern::masked(&value, &shape.mask));
            }
        }
        let (pattern, shape) = Shape::compile(items)?;
        if let Some(shape) = shape {
            if count < SHAPES_MAX {
                self.shapes.push(shape);
                self.last = count;
            } else {
                self.last = self.oldest;
                self.shapes[self.oldest] = shape;
                self.oldest = (self.oldest + 1) % SHAPES_MAX;
            }
        }
        Ok(pattern)
    }
}

#[cfg(test)]
mod tests {
    use niclab_nic::rule::text::{Command, Parser};

    use super::*;

    fn items(text: &str) -> Vec<ItemMatch> {
        let line = format!("flow create 0 ingress pattern {text} / end actions drop / end");
        let mut parser = Parser::default();
        let Command::Create { rule, .. } = parser.parse(1, &line).unwrap().command else {
            panic!("{line}")
        };
        rule.items.to_vec()
    }

    #[test]
    fn a_pattern_is_the_same_whether_it_was_compiled_or_filled_in() {
        let mut shapes = Shapes::default();
        let patterns = [
            "eth / ipv4 src is 1.2.3.4 / end",
            "eth / ipv4 src is 9.8.7.6 / end",
            "eth / ipv4 src spec 9.8.7.6 src prefix 12 / end",
            "eth / ipv4 src spec 9.8.77.6 src prefix 12 / end",
            "eth dst is 02:00:00:00:00:01 / ipv4 proto is 6 / end",
            "eth dst is 02:00:00:00:00:09 / ipv4 proto is 17 / end",
            "eth / ipv6 src is 2001:db8::1 dst is ::2 / udp src is 7 dst is 9 / end",
            "eth / ipv6 src is ::77 dst is 9::2 / udp src is 8 dst is 10 / end",
            "eth / ipv4 / tcp dst is 80 flags is 2 / end",
            "eth / ipv4 / tcp dst is 81 flags is 2 / end",
            "eth / ipv4 / tcp dst is 82 flags is 16 / end",
            "eth / vlan vid is 5 / ipv4 dst is 1.1.1.1 / end",
            "eth / vlan vid is 6 / ipv4 dst is 1.1.1.2 / end",
            "eth / ipv4 / udp / vxlan vni is 7 / end",
            "eth / ipv4 / udp / vxlan vni is 8 / end",
            "eth / ipv4 / udp dst spec 5 dst last 9 dst mask 0xffff / end",
            "eth type is 0x0806 / end",
            "eth type is 0x0807 / end",
            "end",
        ];
        for text in patterns.iter().chain(&patterns).map(|text| text.trim_end_matches("/ end")) {
            let text = if *text == *"end" { "eth" } else { text };
            let items = items(text);
            assert_eq!(shapes.pattern(&items), compile::pattern(&items), "{text}");
        }
        assert!(shapes.shapes.len() < 16, "addresses and ports are filled in");
    }

    #[test]
    fn items_that_contradict_each_other_are_refused_when_a_shape_is_known_too() {
        let mut shapes = Shapes::default();
        shapes.pattern(&items("eth type is 0x0800 / ipv4 src is 1.1.1.1")).unwrap();
        let wrong = items("eth type is 0x86dd / ipv4 src is 1.1.1.1");
        assert_eq!(shapes.pattern(&wrong), compile::pattern(&wrong));
        assert!(shapes.pattern(&wrong).is_err());
    }
}
