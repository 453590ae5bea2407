//! Items by the forms of their masks.

use niclab_device::rule_case::WrittenRule;
use niclab_nic::rule::compile;
use niclab_nic::rule::item::{Field, Item, ItemMatch};
use niclab_nic::rule::{Action, Pattern};
use niclab_result::conform::ConformPart;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{
    PRIORITY, PRIORITY_BELOW, PlannedCase, PlannedCell, any_rule, case_of, cell, fates, random_of,
};
use crate::fault::is_number;
use crate::sample::{SampleFrame, other_frames};

/// The forms of a mask: no field, all fields whole, each field alone, leading bits of a field, some
/// of its bits, and a range by `last`.
pub const FORMS: [&str; 6] = ["any", "whole", "field", "prefix", "bits", "range"];

/// Frames of a case of each kind, at most.
const FLIPS_MAX: usize = 3;

/// The cells of an item.
pub fn pattern_cells(item: Item, queues: u16, seed: u64) -> Vec<PlannedCell> {
    let cells = FORMS.iter().map(|form| {
        let mut random = random_of(seed, &["patterns", item.name(), form]);
        let cases = match item {
            Item::Raw => raw_cases(form, queues, &mut random),
            Item::Meta | Item::Tag => mark_cases(item, form, queues, &mut random),
            item => header_cases(item, form, queues, &mut random),
        };
        cell(ConformPart::Patterns, item.name(), form, cases)
    });
    cells.filter(|cell| !cell.cases.is_empty()).collect()
}

/// A frame with an item under a rule of every frame; none of items that are no headers.
pub fn passing_case(item: Item, seed: u64) -> Option<PlannedCase> {
    let mut random = random_of(seed, &["passing", item.name()]);
    let frame = SampleFrame::random(item, &mut random)?.bytes()?;
    Some(case_of(Vec::new(), any_rule(0, PRIORITY_BELOW, Action::Queue(0)), &[frame]))
}

/// The masks of an item in a form, each with an item that has it.
fn header_cases(
    item: Item,
    form: &str,
    queues: u16,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<PlannedCase> {
    let Some(sample) = SampleFrame::random(item, random) else { return Vec::new() };
    let matches = matches_of(&sample, form, random);
    let cases = matches.into_iter().filter_map(|named| {
        let items = sample.pattern(named);
        let pattern = compile::pattern(&items).ok()?;
        let frames = frames_of(&sample, &named, &pattern, random)?;
        Some(pattern_case(items, queues, &frames))
    });
    cases.collect()
}

/// A rule with this pattern above one of every frame.
fn pattern_case(items: Vec<ItemMatch>, queues: u16, frames: &[Vec<u8>]) -> PlannedCase {
    let (hit, miss) = fates(queues);
    let below = any_rule(0, PRIORITY_BELOW, miss);
    let rule = WrittenRule { group: 0, priority: PRIORITY, items, actions: vec![hit] };
    case_of(vec![below], rule, frames)
}

/// An item that a sample matches, in a form.
pub(super) fn match_of(
    sample: &SampleFrame,
    form: &str,
    random: &mut Xoshiro256PlusPlus,
) -> Option<ItemMatch> {
    let all = matches_of(sample, form, random);
    let at = random.random_range(0..all.len().max(1));
    all.get(at).copied()
}

/// Items that a sample matches, in a form.
fn matches_of(sample: &SampleFrame, form: &str, random: &mut Xoshiro256PlusPlus) -> Vec<ItemMatch> {
    let item = sample.item();
    let Some(image) = sample.image() else { return Vec::new() };
    let free = sample.free_fields();
    let masked = |fields: &[(&Field, u128)]| {
        let mut named = ItemMatch::any(item);
        for (field, mask) in fields {
            field.put(&mut named.mask, *mask);
            field.put(&mut named.spec, field.value(&image) & mask);
        }
        named
    };
    let each = |mask: &mut dyn FnMut(&Field) -> Option<u128>| -> Vec<ItemMatch> {
        let fields = free.iter().filter_map(|field| Some((*field, mask(field)?)));
        fields.map(|(field, mask)| masked(&[(field, mask)])).collect()
    };
    match form {
        "any" => vec![masked(&[])],
        "whole" => {
            let mut fields: Vec<(&Field, u128)> =
                free.iter().map(|field| (*field, field.ones())).collect();
            // As many as a pattern has room for.
            while fields.len() > 1 && compile::pattern(&sample.pattern(masked(&fields))).is_err() {
                fields.remove(0);
            }
            if fields.is_empty() { Vec::new() } else { vec![masked(&fields)] }
        }
        "field" => {
            let is_bits = |field: &&Field| field.bits > 0;
            item.fields()
                .iter()
                .filter(is_bits)
                .map(|field| masked(&[(field, field.ones())]))
                .collect()
        }
        "prefix" => each(&mut |field| {
            let len = field.bits / 2 + random.random_range(0..field.bits.div_ceil(4));
            (field.bits >= 8).then(|| field.ones() & !(field.ones() >> len))
        }),
        "bits" => each(&mut |field| {
            let mask = random.random::<u128>() & field.ones();
            (field.bits >= 3).then(|| if mask == 0 || mask == field.ones() { 0b101 } else { mask })
        }),
        _ => {
            let ranged = free.iter().filter(|field| is_number(field) && field.bits > 7);
            ranged
                .filter_map(|field| ranged_match(masked(&[(field, field.ones())]), field))
                .collect()
        }
    }
}

/// Some values on both sides of the item's own.
fn ranged_match(mut named: ItemMatch, field: &Field) -> Option<ItemMatch> {
    let value = field.value(&named.spec);
    let first = value.saturating_sub(3).max(1);
    let last = (value + 5).min(field.ones() - 1);
    if first >= last {
        return None;
    }
    field.put(&mut named.spec, first);
    let mut image = [0; niclab_nic::rule::item::IMAGE_LEN];
    field.put(&mut image, last);
    named.last = Some(image);
    Some(named)
}

/// Frames that show the pattern: the sample, changes that it has to tell from the sample, changes
/// that must not count, and frames of other headers.
fn frames_of(
    sample: &SampleFrame,
    named: &ItemMatch,
    pattern: &Pattern,
    random: &mut Xoshiro256PlusPlus,
) -> Option<Vec<Vec<u8>>> {
    let image = sample.image()?;
    let mut frames = vec![sample.bytes()?];
    let (mut hits, mut misses) = (Vec::new(), Vec::new());
    for field in sample.free_fields() {
        let (mask, value) = (field.value(&named.mask), field.value(&image));
        let try_value = |value: u128, hits: &mut Vec<_>, misses: &mut Vec<_>| {
            let frame = sample.with(field, value).bytes();
            match frame {
                Some(frame) if pattern.matches(&frame) => hits.push(frame),
                Some(frame) => misses.push(frame),
                None => {}
            }
        };
        if named.has_range(field) {
            let (first, last) =
                (field.value(&named.spec), named.last.as_ref().map_or(0, |last| field.value(last)));
            for value in [first, last] {
                frames.extend(sample.with(field, value).bytes());
            }
            for value in [first - 1, last + 1] {
                frames.extend(sample.with(field, value).bytes());
            }
            continue;
        }
        for bits in [mask, field.ones() & !mask] {
            let bits = bits & !group_bit(sample.item(), field);
            if bits != 0 {
                try_value(value ^ one_bit(bits, random), &mut hits, &mut misses);
                try_value(value ^ (bits & !(bits >> 1)), &mut hits, &mut misses);
            }
        }
    }
    let others = other_frames().into_iter().filter(|frame| !pattern.matches(frame));
    hits.truncate(FLIPS_MAX);
    misses.truncate(FLIPS_MAX);
    frames.extend(hits.into_iter().chain(misses));
    frames.extend(others.take(1));
    Some(frames)
}

/// The bit of a source address that makes it one of a group: no frame has such a source, and
/// devices may drop it (IEEE 802.3, 3.2.3). Zero for any other field.
pub(super) fn group_bit(item: Item, field: &Field) -> u128 {
    if (item, field.name) == (Item::Eth, "src") { 1 << 40 } else { 0 }
}

/// One of the bits of a number.
fn one_bit(bits: u128, random: &mut Xoshiro256PlusPlus) -> u128 {
    let mut rest = bits;
    for _ in 0..random.random_range(0..bits.count_ones()) {
        rest &= rest - 1;
    }
    rest & rest.wrapping_neg()
}

/// Bytes by their offset: from the start of the frame, and from the end of a header.
fn raw_cases(form: &str, queues: u16, random: &mut Xoshiro256PlusPlus) -> Vec<PlannedCase> {
    // The source address of IPv4, and the ports of UDP.
    let absolute = SampleFrame::random(Item::Ipv4, random);
    let relative = SampleFrame::random(Item::Udp, random);
    let (Some(absolute), Some(relative)) = (absolute, relative) else { return Vec::new() };
    let mask: [u8; 4] = match form {
        "whole" => [0xff; 4],
        "prefix" => [0xff, 0xff, 0xf0, 0],
        "bits" => [0x0f, 0, 0xff, 0x11],
        _ => return Vec::new(),
    };
    let cases = [(absolute, false), (relative, true)].map(|(sample, is_relative)| {
        let frame = sample.bytes()?;
        let offset = if is_relative { 34 } else { 26 };
        let raw =
            raw_item(is_relative, if is_relative { 0 } else { 26 }, &frame[offset..][..4], mask);
        let before = [Item::Eth, Item::Ipv4].map(ItemMatch::any);
        let items = if is_relative { before.into_iter().chain([raw]).collect() } else { vec![raw] };
        let pattern = compile::pattern(&items).ok()?;
        let field = sample.item().field(if is_relative { "dst" } else { "src" })?;
        let value = field.value(&sample.image()?);
        let flips = (0..field.bits).step_by(5).map(|bit| sample.with(field, value ^ 1 << bit));
        let mut frames = vec![frame];
        frames.extend(flips.filter_map(|sample| sample.bytes()));
        let _ = pattern;
        Some(pattern_case(items, queues, &frames))
    });
    cases.into_iter().flatten().collect()
}

fn raw_item(is_relative: bool, offset: u32, bytes: &[u8], mask: [u8; 4]) -> ItemMatch {
    let mut raw = ItemMatch::any(Item::Raw);
    let numbers = [("relative", u32::from(is_relative)), ("offset", offset)];
    for (name, value) in numbers {
        if let Some(field) = Item::Raw.field(name) {
            field.put(&mut raw.spec, value.into());
            field.put(&mut raw.mask, field.ones());
        }
    }
    // The number of bytes, and the bytes behind it.
    raw.spec[7] = bytes.len() as u8;
    for (at, (byte, mask)) in bytes.iter().zip(mask).enumerate() {
        (raw.spec[8 + at], raw.mask[8 + at]) = (byte & mask, mask);
    }
    raw
}

/// Metadata and tags, which a rule of an earlier group sets.
fn mark_cases(
    item: Item,
    form: &str,
    queues: u16,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<PlannedCase> {
    let value = random.random::<u32>() | 0x0100_0000;
    let mask: u32 = match form {
        "whole" => u32::MAX,
        "prefix" => 0xffff_ff00,
        "bits" => 0x0ff0_00ff,
        _ => return Vec::new(),
    };
    let mut named = ItemMatch::any(item);
    let mut put = |name: &str, value: u32, mask: u128| {
        if let Some(field) = item.field(name) {
            field.put(&mut named.spec, u128::from(value) & mask);
            field.put(&mut named.mask, mask);
        }
    };
    put("data", value, mask.into());
    put("index", 1, u8::MAX.into());
    let set = |data: u32| match item {
        Item::Meta => Action::SetMeta { data, mask: u32::MAX },
        _ => Action::SetTag { index: 1, data, mask: u32::MAX },
    };
    let Some(frame) = SampleFrame::random(Item::Ipv4, random).and_then(|sample| sample.bytes())
    else {
        return Vec::new();
    };
    let (hit, miss) = fates(queues);
    let changes = [0, 1 << 31, 1 << 4, 1 << 10, 1];
    let cases = changes.into_iter().map(|change| {
        let first = WrittenRule {
            actions: vec![set(value ^ change), Action::Jump(1)],
            ..any_rule(0, PRIORITY, Action::Drop)
        };
        let below = any_rule(1, PRIORITY_BELOW, miss.clone());
        let rule = WrittenRule {
            group: 1,
            priority: PRIORITY,
            items: vec![named],
            actions: vec![hit.clone()],
        };
        PlannedCase {
            under_test: 0,
            ..case_of(vec![first, below], rule, std::slice::from_ref(&frame))
        }
    });
    cases.collect()
}
