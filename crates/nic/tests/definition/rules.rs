//! Random patterns: items in every order that headers have, with any fields under any masks.

use niclab_nic::rule::item::{Field, FieldKind, IMAGE_LEN, Image, Item, ItemMatch};
use proptest::prelude::*;

/// Items of a pattern, outermost first. Some cannot be compiled.
pub fn items() -> impl Strategy<Value = Vec<ItemMatch>> {
    let transport = |ip: Item, icmp: Item| {
        let above = prop_oneof![
            Just(None),
            prop::sample::select(vec![icmp, Item::Tcp, Item::Udp]).prop_map(Some),
        ];
        above.prop_map(move |above| [Some(ip), above])
    };
    let ip = prop_oneof![
        1 => Just([None, None]),
        4 => transport(Item::Ipv4, Item::Icmp),
        4 => transport(Item::Ipv6, Item::Icmp6),
    ];
    let tags = prop_oneof![4 => Just(0), 2 => Just(1), 1 => Just(2), 0 => Just(3)];
    (any::<bool>(), tags, ip).prop_flat_map(|(eth, tags, ip)| {
        let outer = eth.then_some(Item::Eth).into_iter();
        let names = outer.chain(std::iter::repeat_n(Item::Vlan, tags));
        names.chain(ip.into_iter().flatten()).map(item).collect::<Vec<_>>()
    })
}

/// An item with a few fields; what the mask leaves out is any value.
fn item(item: Item) -> impl Strategy<Value = ItemMatch> {
    let fields = prop::sample::subsequence(matched(item), 0..=matched(item).len().min(2));
    let fields = prop_oneof![1 => Just(Vec::new()), 1 => fields];
    let values = fields.prop_flat_map(|fields| {
        let each = |field: &'static Field| (Just(field), value(field), mask(field));
        fields.into_iter().map(each).collect::<Vec<_>>()
    });
    (values, prop::array::uniform::<_, IMAGE_LEN>(any::<u8>()), 0..8u8).prop_map(
        move |(values, noise, has)| {
            let mut written = ItemMatch::any(item);
            for (field, value, mask) in values {
                field.put(&mut written.spec, value);
                field.put(&mut written.mask, mask);
            }
            written.last = match has & 3 {
                // One that makes no range.
                0 => Some(written.spec),
                1 => last(&written, &noise),
                _ => None,
            };
            if has & 4 == 0 {
                let other = |at: usize| written.spec[at] | noise[at] & !written.mask[at];
                written.spec = std::array::from_fn(other);
            }
            written
        },
    )
}

/// The ends of ranges of those whole ports that the item asks for.
fn last(item: &ItemMatch, noise: &Image) -> Option<Image> {
    let mut last = [0; IMAGE_LEN];
    let ports = matched(item.item).into_iter().filter(|field| field.bits == 16);
    let whole = |field: &&Field| field.value(&item.mask) == field.ones();
    for field in ports.filter(|_| matches!(item.item, Item::Tcp | Item::Udp)).filter(whole) {
        let widths = [1, 3, 4, 53, 1_023, 3_000, 60_000, 0xffff];
        let width = widths[usize::from(noise[field.bit_offset / 8]) % widths.len()];
        field.put(&mut last, (field.value(&item.spec) + width).min(0xffff));
    }
    (last != [0; IMAGE_LEN]).then_some(last)
}

/// The fields that a pattern can match.
fn matched(item: Item) -> Vec<&'static Field> {
    let not = ["version_ihl", "packet_id", "fragment_offset", "flow", "has_frag_ext"];
    let can =
        |field: &&Field| !matches!(item, Item::Icmp | Item::Icmp6) && !not.contains(&field.name);
    item.fields().iter().filter(can).collect()
}

/// A value that frames have, as often as not.
fn value(field: &Field) -> impl Strategy<Value = u128> + use<> {
    let common: &[u128] = match (field.kind, field.name) {
        (FieldKind::Mac, _) => &[0, 0x0200_0000_0001, 0x0200_0000_0002],
        (FieldKind::Ipv4, _) => &[0, 0x0a00_0001, 0x0a00_0002],
        (FieldKind::Ipv6, _) => &[0, 0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2],
        (_, "type" | "inner_type") => &[0, 0x0800, 0x86dd, 0x0806],
        (_, "proto") => &[0, 1, 6, 17, 44, 58, 60, 132],
        (_, "src" | "dst") => &[0, 53, 1_024],
        (_, "tos" | "tc") => &[0, 4, 0xb9],
        (_, "ttl" | "hop") => &[0, 64],
        (_, "flags") => &[0, 2, 0x12],
        (_, _) => &[0, 1, 2],
    };
    let ones = field.ones();
    prop_oneof![
        9 => prop::sample::select(common.to_vec()),
        1 => any::<u128>(),
    ]
    .prop_map(move |value| value & ones)
}

/// All bits of a field, so many leading ones, or any.
fn mask(field: &Field) -> impl Strategy<Value = u128> + use<> {
    let (ones, bits) = (field.ones(), field.bits);
    prop_oneof![
        5 => Just(ones),
        2 => (0..=bits).prop_map(move |len| ones & !(ones.checked_shr(len as u32).unwrap_or(0))),
        1 => any::<u128>().prop_map(move |mask| mask & ones),
        1 => (any::<u128>(), any::<u128>()).prop_map(move |(a, b)| a & b & ones),
    ]
}
