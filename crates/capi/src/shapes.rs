//! Shapes of patterns: rules that differ in addresses, ports, tags and the like alone are compiled
//! once.
//!
//! To compile items takes longer than to create their rule. Most programs give the same items with
//! the same masks over and over, and only such free values differ. A shape has the compiled
//! pattern, and for each free byte its place in the key. Every other byte must have the value that
//! was compiled; otherwise the items are compiled again. To make a shape takes some twenty times as
//! long as to compile, so it is made of items that are the first of their kinds and masks, or whose
//! other values have come twice in a row.

use arrayvec::ArrayVec;
use niclab_nic::rule::Pattern;
use niclab_nic::rule::compile::{self, CompileError};
use niclab_nic::rule::item::{IMAGE_LEN, Image, Item, ItemMatch};
use niclab_packet::key::Key;

/// The most items that a shape has; patterns with more are compiled each time.
const ITEMS_MAX: usize = 8;
/// The most shapes that are kept; the oldest goes first.
const SHAPES_MAX: usize = 32;

/// An item as a program gives it: as many bytes each as [`bytes_len`] says.
#[derive(Clone, Copy, Debug)]
pub struct ItemBytes<'a> {
    /// The header.
    pub item: Item,
    /// Values; without them the item matches every packet with the header.
    pub spec: Option<&'a [u8]>,
    /// Greatest values of ranges.
    pub last: Option<&'a [u8]>,
    /// Which bits count; `None` for the default mask.
    pub mask: Option<&'a [u8]>,
}

/// Bytes of an item: the header, and a byte of flags if the header has one.
#[inline]
pub fn bytes_len(item: Item) -> usize {
    match item {
        Item::Eth | Item::Vlan | Item::Ipv6 => item.header_len() + 1,
        item => item.header_len(),
    }
}

impl<'a> From<&'a ItemMatch> for ItemBytes<'a> {
    fn from(from: &'a ItemMatch) -> ItemBytes<'a> {
        let len = bytes_len(from.item);
        let last = from.last.as_ref().map(|last| &last[..len]);
        let (spec, mask) = (Some(&from.spec[..len]), Some(&from.mask[..len]));
        ItemBytes { item: from.item, spec, last, mask }
    }
}

impl ItemBytes<'_> {
    /// The item with its bytes in place.
    pub fn to_match(self) -> ItemMatch {
        let image = |bytes: &[u8]| {
            let mut image = [0; IMAGE_LEN];
            image[..bytes.len()].copy_from_slice(bytes);
            image
        };
        match self.spec {
            None => ItemMatch::any(self.item),
            Some(spec) => ItemMatch {
                item: self.item,
                spec: image(spec),
                last: self.last.map(image),
                mask: self.mask.map_or_else(|| self.item.default_mask(), image),
            },
        }
    }
}

/// Bytes of an item that may have any value and that one word of the key has in a row. They are
/// moved by words: a load of a word whose bytes were just stored would wait for them.
#[derive(Clone, Copy, Debug)]
struct FreeRun {
    item: u8,
    /// First byte in the item, and the number of bytes, 1 to 8.
    from: u8,
    len: u8,
    /// Word of the key, and the place of the first byte in it, in bits.
    word: u8,
    shift: u8,
    /// Which bits count.
    mask: u64,
}

/// An item of a shape.
#[derive(Debug)]
struct KnownItem {
    item: Item,
    has_spec: bool,
    /// The mask as it was given.
    mask: Option<Image>,
    /// Values that were compiled, and which bits of them must not differ.
    spec: Image,
    fixed: Image,
    has_fixed: bool,
}

/// Items that were compiled, and how others with the same masks follow from them.
#[derive(Debug)]
struct PatternShape {
    items: ArrayVec<KnownItem, ITEMS_MAX>,
    free: Vec<FreeRun>,
    /// Values of the bits that are not free.
    value: Key,
    mask: Key,
    /// The last items of the same kinds and masks that have other values than those.
    missed: Vec<Image>,
}

/// The key of a pattern of outer bits: values, and the bits that count.
#[derive(Clone, Copy, Debug)]
pub struct OuterKey {
    /// Values; zero where the mask is.
    pub value: Key,
    /// Which bits count.
    pub mask: Key,
}

/// A compiled pattern.
#[derive(Debug)]
pub enum Compiled {
    /// Outer headers and bits alone.
    Outer(OuterKey),
    /// Any other pattern.
    Other(Pattern),
}

impl Compiled {
    /// As a pattern.
    #[inline]
    pub fn into_pattern(self) -> Pattern {
        match self {
            Compiled::Outer(OuterKey { value, mask }) => Pattern::masked(&value, &mask),
            Compiled::Other(pattern) => pattern,
        }
    }
}

/// The shapes of the newest patterns.
#[derive(Debug, Default)]
pub struct PatternShapes {
    shapes: Vec<PatternShape>,
    /// The shape that was used last.
    last: usize,
    oldest: usize,
}

/// Whether the value of a byte of an item never matters to other items: addresses, ports, tags,
/// DSCP, TTL, flags of TCP, type and code of ICMP.
fn is_free(item: Item, byte: usize) -> bool {
    match item {
        Item::Eth => byte < 12,
        Item::Vlan => byte < 2,
        Item::Ipv4 => matches!(byte, 1 | 8 | 12..20),
        Item::Ipv6 => (7..40).contains(&byte),
        Item::Tcp => matches!(byte, 0..4 | 13),
        Item::Udp => byte < 4,
        Item::Icmp | Item::Icmp6 => byte < 2,
        _ => false,
    }
}

impl KnownItem {
    fn new(given: &ItemBytes<'_>, compiled: &ItemMatch) -> KnownItem {
        let mask = given.mask.map(|_| compiled.mask);
        let (spec, fixed) = (compiled.spec, compiled.mask);
        let has_spec = given.spec.is_some();
        KnownItem { item: given.item, has_spec, mask, spec, fixed, has_fixed: true }
    }

    /// Whether an item has this shape.
    #[inline]
    fn suits(&self, given: &ItemBytes<'_>) -> bool {
        self.is_of_kind(given) && given.spec.is_none_or(|spec| self.has_values(spec))
    }

    /// Whether an item has this kind and mask.
    #[inline]
    fn is_of_kind(&self, given: &ItemBytes<'_>) -> bool {
        if given.item != self.item || given.last.is_some() {
            return false;
        }
        if given.spec.is_none() {
            return !self.has_spec;
        }
        let same_mask = match (given.mask, &self.mask) {
            (Some(mask), Some(known)) => *mask == known[..mask.len()],
            (mask, known) => mask.is_none() && known.is_none(),
        };
        self.has_spec && same_mask
    }

    /// The values of an item that are not free.
    fn fixed_values(&self, given: &ItemBytes<'_>) -> Image {
        let mut image = [0; IMAGE_LEN];
        let spec = given.spec.unwrap_or_default();
        let values = spec.iter().zip(&self.fixed).map(|(value, fixed)| value & fixed);
        image.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        image
    }

    /// Whether an item of this kind and mask has the values that were compiled, where they matter.
    #[inline]
    fn has_values(&self, spec: &[u8]) -> bool {
        let differs = || {
            let known = self.spec.iter().zip(&self.fixed).zip(spec);
            known.into_iter().any(|((known, fixed), given)| (known ^ given) & fixed != 0)
        };
        !(self.has_fixed && differs())
    }
}

impl PatternShape {
    /// The pattern of these items, and its shape. No shape if the pattern is not one of outer bits
    /// alone.
    fn compile(given: &[ItemBytes<'_>]) -> Result<(Pattern, Option<PatternShape>), CompileError> {
        let items: Vec<ItemMatch> = given.iter().map(|item| item.to_match()).collect();
        let pattern = compile::pattern(&items)?;
        let fits = items.len() <= ITEMS_MAX && items.iter().all(|item| item.last.is_none());
        if !fits || !pattern.is_of_outer_bits() {
            return Ok((pattern, None));
        }
        let (value, mask) = (*pattern.value(), *pattern.mask());
        let known = given.iter().zip(&items).map(|(given, item)| KnownItem::new(given, item));
        let (items_known, missed) = (known.collect(), Vec::new());
        let mut shape = PatternShape { items: items_known, free: Vec::new(), value, mask, missed };
        // The port of a tunnel is part of what makes it one.
        let last_header = items.iter().rposition(|item| item.item.is_header());
        for (at, item) in items.iter().enumerate() {
            let is_port = matches!(item.item, Item::Tcp | Item::Udp);
            let can_be_free = !is_port || last_header == Some(at);
            let counts = |&from: &usize| is_free(item.item, from) && item.mask[from] != 0;
            for from in (0..item.item.header_len()).filter(|from| can_be_free && counts(from)) {
                if let Some(to) = place_of(&items, (at, from), &pattern) {
                    shape.add_free((at, from), item.mask[from], to);
                    shape.items[at].fixed[from] = 0;
                }
            }
            shape.items[at].has_fixed = shape.items[at].fixed != [0; IMAGE_LEN];
        }
        Ok((pattern, Some(shape)))
    }

    /// Adds a free byte, behind the last run if it continues that.
    fn add_free(&mut self, (item, from): (usize, usize), mask: u8, to: usize) {
        let (item, from, word, shift) = (item as u8, from as u8, to / 8, 8 * (to % 8) as u8);
        self.value.0[word] &= !(u64::from(mask) << shift);
        let bits = |run: &FreeRun| 8 * run.len;
        match self.free.last_mut() {
            Some(run)
                if (run.item, run.from + run.len) == (item, from)
                    && (usize::from(run.word), run.shift + bits(run)) == (word, shift) =>
            {
                run.mask |= u64::from(mask) << bits(run);
                run.len += 1;
            }
            _ => {
                let (word, mask) = (word as u8, mask.into());
                self.free.push(FreeRun { item, from, len: 1, word, shift, mask });
            }
        }
    }

    /// Whether items have these kinds and masks, and other values than the shape has: whether they
    /// have come for the first time, since others came.
    fn is_missed_once(&mut self, items: &[ItemBytes<'_>]) -> bool {
        let of_kind = |(known, given): (&KnownItem, &ItemBytes<'_>)| known.is_of_kind(given);
        if items.len() != self.items.len() || !self.items.iter().zip(items).all(of_kind) {
            return false;
        }
        let values = self.items.iter().zip(items).map(|(known, given)| known.fixed_values(given));
        let values: Vec<Image> = values.collect();
        let is_new = self.missed != values;
        self.missed = values;
        is_new
    }

    /// The value of the key of these items, if they have this shape.
    #[inline]
    fn fill(&self, items: &[ItemBytes<'_>]) -> Option<Key> {
        let is_it = items.len() == self.items.len()
            && self.items.iter().zip(items).all(|(known, given)| known.suits(given));
        if is_it { self.value_of(items) } else { None }
    }

    /// The value of the key of items that have this shape.
    #[inline]
    fn value_of(&self, items: &[ItemBytes<'_>]) -> Option<Key> {
        let mut value = self.value;
        for &FreeRun { item, from, len, word, shift, mask } in &self.free {
            let spec = items[usize::from(item)].spec?;
            let bytes = &spec[usize::from(from)..][..usize::from(len)];
            let read = match *bytes {
                [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
                [a, b] => u16::from_le_bytes([a, b]).into(),
                ref bytes => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            };
            value.0[usize::from(word)] |= (read & mask) << shift;
        }
        Some(value)
    }
}

/// The place in the key of a byte of an item: the only byte that changes with it.
fn place_of(items: &[ItemMatch], (at, from): (usize, usize), compiled: &Pattern) -> Option<usize> {
    let mut changed = items.to_vec();
    let flipped = changed[at].mask[from];
    changed[at].spec[from] ^= flipped;
    let pattern = compile::pattern(&changed).ok().filter(Pattern::is_of_outer_bits)?;
    let (value, before) = (pattern.value().to_bytes(), compiled.value().to_bytes());
    let mut places = (0..value.len()).filter(|&to| value[to] != before[to]);
    let to = places.next().filter(|_| pattern.mask() == compiled.mask())?;
    let is_copied = value[to] == before[to] ^ flipped && places.next().is_none();
    is_copied.then_some(to)
}

impl PatternShapes {
    /// The compiled pattern of these items.
    ///
    /// # Errors
    /// As [`compile::pattern`].
    #[inline]
    pub fn compile(&mut self, items: &[ItemBytes<'_>]) -> Result<Compiled, CompileError> {
        let count = self.shapes.len();
        for at in (self.last..count).chain(0..self.last.min(count)) {
            let shape = &self.shapes[at];
            if let Some(value) = shape.fill(items) {
                self.last = at;
                return Ok(Compiled::Outer(OuterKey { value, mask: shape.mask }));
            }
        }
        self.compile_new(items)
    }

    /// The shape that was used last, for [`PatternShapes::refill`].
    pub fn last(&self) -> usize {
        self.last
    }

    /// The key of items of a template that had this shape when they were compiled last: their kinds
    /// and masks are the same. `None` if other values than the free ones differ.
    #[inline]
    pub fn refill(&self, shape: usize, items: &[ItemBytes<'_>]) -> Option<Key> {
        let shape = self.shapes.get(shape)?;
        let same = |(known, given): (&KnownItem, &ItemBytes<'_>)| {
            given.spec.is_some_and(|spec| known.has_values(spec))
        };
        shape.items.iter().zip(items).all(same).then(|| shape.value_of(items))?
    }

    /// [`PatternShapes::compile`] for items that have none of the known shapes.
    #[cold]
    fn compile_new(&mut self, items: &[ItemBytes<'_>]) -> Result<Compiled, CompileError> {
        if self.shapes.iter_mut().any(|shape| shape.is_missed_once(items)) {
            let items: Vec<ItemMatch> = items.iter().map(|item| item.to_match()).collect();
            return compile::pattern(&items).map(Compiled::Other);
        }
        let (pattern, shape) = PatternShape::compile(items)?;
        let Some(shape) = shape else { return Ok(Compiled::Other(pattern)) };
        if self.shapes.len() < SHAPES_MAX {
            self.last = self.shapes.len();
            self.shapes.push(shape);
        } else {
            self.last = self.oldest;
            self.shapes[self.oldest] = shape;
            self.oldest = (self.oldest + 1) % SHAPES_MAX;
        }
        Ok(Compiled::Outer(OuterKey { value: *pattern.value(), mask: *pattern.mask() }))
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

    fn pattern_of(
        shapes: &mut PatternShapes,
        items: &[ItemMatch],
    ) -> Result<Pattern, CompileError> {
        let bytes: Vec<ItemBytes<'_>> = items.iter().map(ItemBytes::from).collect();
        shapes.compile(&bytes).map(Compiled::into_pattern)
    }

    #[test]
    fn a_pattern_is_the_same_whether_it_was_compiled_or_filled_in() {
        let mut shapes = PatternShapes::default();
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
            "eth / vlan tci spec 0x2006 tci mask 0xefff / ipv4 ttl is 3 tos is 8 / end",
            "eth / vlan tci spec 0x4107 tci mask 0xefff / ipv4 ttl is 4 tos is 9 / end",
            "eth / ipv6 hop is 3 / icmp6 type is 135 code is 1 / end",
            "eth / ipv6 hop is 4 / icmp6 type is 136 code is 2 / end",
            "eth / ipv4 / icmp type is 8 code is 1 / end",
            "eth / ipv4 / icmp type is 3 code is 2 / end",
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
            let compiled = pattern_of(&mut shapes, &items);
            assert_eq!(compiled, compile::pattern(&items), "{text}");
        }
        assert!(shapes.shapes.len() < 18, "free values are filled in");
    }

    #[test]
    fn a_tag_is_filled_in_and_a_value_that_never_comes_again_makes_no_shape() {
        let mut shapes = PatternShapes::default();
        for vid in 1..100 {
            let tagged = items(&format!("eth / vlan vid is {vid} / ipv4 src is 1.1.1.1"));
            let compiled = pattern_of(&mut shapes, &tagged);
            assert_eq!(compiled, compile::pattern(&tagged));
        }
        assert_eq!(shapes.shapes.len(), 1);
        for protocol in [6, 17, 6, 1, 17, 17] {
            let of_protocol = items(&format!("eth / ipv4 src is 1.1.1.1 proto is {protocol}"));
            let compiled = pattern_of(&mut shapes, &of_protocol);
            assert_eq!(compiled, compile::pattern(&of_protocol), "{protocol}");
        }
        assert_eq!(shapes.shapes.len(), 3, "of the first, and of one that came twice in a row");
    }

    #[test]
    fn items_that_contradict_each_other_are_refused_when_a_shape_is_known_too() {
        let mut shapes = PatternShapes::default();
        let right = items("eth type is 0x0800 / ipv4 src is 1.1.1.1");
        pattern_of(&mut shapes, &right).unwrap();
        let wrong = items("eth type is 0x86dd / ipv4 src is 1.1.1.1");
        assert_eq!(pattern_of(&mut shapes, &wrong), compile::pattern(&wrong));
        assert!(compile::pattern(&wrong).is_err());
    }

    #[test]
    fn a_mask_that_is_left_out_is_the_default_one() {
        let mut shapes = PatternShapes::default();
        let (mut one, mut other) = ([0; 20], [0; 20]);
        (one[15], other[15]) = (1, 2);
        for spec in [&one, &other] {
            let ipv4 = ItemBytes { item: Item::Ipv4, spec: Some(spec), last: None, mask: None };
            let eth = ItemBytes { item: Item::Eth, spec: None, ..ipv4 };
            let items = [eth.to_match(), ipv4.to_match()];
            assert_eq!(items[1].mask, Item::Ipv4.default_mask());
            let compiled = shapes.compile(&[eth, ipv4]).unwrap().into_pattern();
            assert_eq!(compiled, compile::pattern(&items).unwrap());
        }
        assert_eq!(shapes.shapes.len(), 1);
    }
}
