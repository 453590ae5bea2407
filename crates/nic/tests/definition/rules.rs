//! Random patterns: items in every order that headers have, with any fields under any masks.

use niclab_nic::rule::item::{Field, FieldKind, IMAGE_LEN, Image, Item, ItemMatch};
use niclab_packet::LayerKind;
use niclab_packet::stack::walk;
use proptest::prelude::*;

/// Names of items, outermost first.
type Names = BoxedStrategy<Vec<Item>>;

/// Names one behind the other.
fn chain(one: impl Strategy<Value = Vec<Item>> + 'static, other: Names) -> Names {
    (one, other).prop_map(|(one, other)| [one, other].concat()).boxed()
}

fn one_of(names: &[&[Item]]) -> Names {
    prop::sample::select(names.iter().map(|names| names.to_vec()).collect::<Vec<_>>()).boxed()
}

/// Items of a pattern, outermost first. Some cannot be compiled.
pub fn items() -> impl Strategy<Value = Vec<ItemMatch>> {
    let names = prop_oneof![
        5 => chain(link(), network()),
        5 => chain(link(), tunnel()),
    ];
    let marks = prop_oneof![
        9 => Just(vec![]),
        1 => prop::collection::vec(prop::sample::select(vec![Item::Meta, Item::Tag]), 1..3),
    ];
    let raws = prop_oneof![5 => Just(vec![]), 1 => prop::collection::vec(raw(), 1..4)];
    let items = (marks, names, any::<prop::sample::Index>());
    let items = items.prop_flat_map(|(marks, mut names, at)| {
        let at = at.index(names.len() + 1);
        names.splice(at..at, marks);
        names.into_iter().map(item).collect::<Vec<_>>()
    });
    (items, raws).prop_map(|(items, raws)| [items, raws].concat())
}

/// Bytes by their offset, of which few frames have many.
fn raw() -> impl Strategy<Value = ItemMatch> {
    let near = prop_oneof![8 => -8..40i32, 2 => -60..120i32, 1 => Just(505), 1 => any::<i32>()];
    let byte = prop::sample::select(vec![0, 0, 0, 1, 2, 6, 10, 17, 0x45, 0x60]);
    let mask = prop_oneof![3 => Just(0xff), 2 => Just(0), 1 => any::<u8>()];
    let bytes = prop::collection::vec((byte, mask), 1..12);
    (any::<bool>(), near, bytes).prop_map(|(relative, offset, bytes)| {
        let (bytes, masks): (Vec<u8>, Vec<u8>) = bytes.into_iter().unzip();
        raw_of(relative, offset, &bytes, &masks)
    })
}

/// A `raw` that asks for these bytes.
fn raw_of(relative: bool, offset: i32, bytes: &[u8], masks: &[u8]) -> ItemMatch {
    let mut raw = ItemMatch::any(Item::Raw);
    let mut put = |name, value: u32| {
        let field = Item::Raw.field(name).unwrap();
        field.put(&mut raw.spec, value.into());
        field.put(&mut raw.mask, field.ones());
    };
    put("relative", u32::from(relative));
    put("offset", offset as u32);
    raw.spec[7] = bytes.len() as u8;
    raw.spec[8..][..bytes.len()].copy_from_slice(bytes);
    raw.mask[8..][..masks.len()].copy_from_slice(masks);
    raw
}

/// How bytes of a frame are asked for that ends somewhere: how often one behind the other, from
/// where on, so far from the end of the item before, and how many.
type Likely = (u8, bool, i32, usize);

fn likely() -> impl Strategy<Value = Likely> {
    let often = prop_oneof![4 => Just(0u8), 2 => Just(1), 1 => Just(2)];
    (often, prop::bool::weighted(0.7), -12..30i32, 1..20usize)
}

/// Bytes that a frame has there, where it has any.
fn raw_like(frame: &[u8], end: usize, (often, relative, offset, len): Likely) -> Vec<ItemMatch> {
    let (mut raws, mut end) = (Vec::new(), end);
    for _ in 0..often {
        let first = if relative { end as i32 + offset } else { offset.abs() * 3 };
        let bytes = usize::try_from(first).ok().and_then(|first| frame.get(first..));
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { break };
        let bytes = &bytes[..len.min(bytes.len())];
        let masks: Vec<u8> =
            (0..bytes.len()).map(|at| if at % 5 == 3 { 0xf0 } else { 255 }).collect();
        let offset = if relative { offset } else { first };
        raws.push(raw_of(relative, offset, bytes, &masks));
        end = first as usize + bytes.len();
    }
    raws
}

/// Items of a pattern that the frame matches most likely: its first headers, of which some values
/// count.
pub fn items_like(frame: &[u8]) -> impl Strategy<Value = Vec<ItemMatch>> + use<> {
    let headers = named_headers(frame);
    let frame = frame.to_vec();
    (0..=headers.len(), likely()).prop_flat_map(move |(count, likely)| {
        let named = headers[..count].iter().cloned();
        let items: Vec<_> =
            named.map(|(item, bytes, _)| (item_like(item, bytes), 0..4u8)).collect();
        let end = headers[..count].last().map_or(0, |(.., end)| *end);
        let raws = raw_like(&frame, end, likely);
        items.prop_map(move |items| {
            // What may be passed over is left out now and then, but not before `raw`.
            let passed = |item: Item| {
                use Item::{Eth, GreKey, GtpPsc, Ipv6FragExt, Vlan};
                matches!(item, Eth | Vlan | GreKey | GtpPsc | Ipv6FragExt)
            };
            let stays = !raws.is_empty();
            let kept =
                items.into_iter().filter(|(item, keep)| stays || *keep > 0 || !passed(item.item));
            kept.map(|(item, _)| item).chain(raws.iter().copied()).collect()
        })
    })
}

/// A header's item, its bytes, and where it ends in the frame.
type Named = (Item, Vec<u8>, usize);

/// The headers of a frame that items name, outermost first.
fn named_headers(frame: &[u8]) -> Vec<Named> {
    let mut headers: Vec<Named> = Vec::new();
    let stack = walk(frame);
    for span in stack.spans() {
        let bytes = &frame[span.start..span.start + span.header_len];
        let Some(item) = item_of(span.kind) else { continue };
        let is_nvgre = bytes.starts_with(&[0x20, 0, 0x65, 0x58]) && bytes[4..] != [0; 4];
        if item == Item::Gre && is_nvgre {
            headers.push((Item::Nvgre, bytes.to_vec(), span.start + 8));
            continue;
        }
        let len = if item == Item::Gre { 4 } else { bytes.len() };
        headers.push((item, bytes.to_vec(), span.start + len));
        let key = 4 + 4 * usize::from(bytes[0] >> 7);
        if item == Item::Gre && bytes[0] & 0x20 != 0 {
            headers.push((Item::GreKey, bytes[key..].to_vec(), span.start + key + 4));
        }
        if item == Item::Ah {
            return headers;
        }
    }
    if let [.., before, payload] = stack.spans()
        && payload.kind == LayerKind::Payload
    {
        let head = &frame[before.start..before.start + before.header_len];
        unwalked(frame, before.kind, head, payload.start, &mut headers);
    }
    headers
}

/// Headers that `walk` takes for a payload, which begins here.
fn unwalked(frame: &[u8], kind: LayerKind, head: &[u8], at: usize, headers: &mut Vec<Named>) {
    let bytes = &frame[at..];
    let mut name = |item: Item, at: usize| {
        let end = frame.len().min(at + item.header_len());
        headers.push((item, frame[at..end].to_vec(), end));
    };
    let protocol = match kind {
        LayerKind::Ipv4 => head[9],
        LayerKind::Ipv6 => head[6],
        LayerKind::Ipv6Fragment
        | LayerKind::Ipv6HopByHop
        | LayerKind::Ipv6Destination
        | LayerKind::Ipv6Routing => head[0],
        _ => 0,
    };
    let last = u16::from_be_bytes([head[head.len() - 2], head[head.len() - 1]]);
    let port = if kind == LayerKind::Udp { u16::from_be_bytes([head[2], head[3]]) } else { 0 };
    let is_link = matches!(kind, LayerKind::Ethernet | LayerKind::Vlan);
    let inside = match (protocol, port, last) {
        (132, ..) => return name(Item::Sctp, at),
        (50, ..) => return name(Item::Esp, at),
        (51, ..) => return name(Item::Ah, at),
        (_, _, 0x8863) if is_link => return name(Item::Pppoed, at),
        (_, _, 0x8864) if is_link => {
            name(Item::Pppoes, at);
            bytes.get(8..)
        }
        (_, 2_123, _) => return name(Item::Gtpc, at),
        (_, 2_152, _) => {
            name(if bytes.last() == Some(&0) { Item::Gtp } else { Item::Gtpu }, at);
            match bytes {
                [flags, ..] if flags & 7 == 0 => bytes.get(8..),
                [_, _, _, _, _, _, _, _, _, _, _, 0x85, words, ..] => {
                    name(Item::GtpPsc, at + 12);
                    bytes.get(12 + 4 * usize::from(*words)..)
                }
                _ => bytes.get(12..),
            }
        }
        (_, 4_790, _) => {
            name(Item::VxlanGpe, at);
            match bytes.get(3) {
                Some(3) => return inner(frame, &[], at + 8, headers),
                _ => bytes.get(8..),
            }
        }
        _ => return,
    };
    if let Some(inside) = inside.filter(|inside| !inside.is_empty()) {
        let kind = if inside[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        inner(frame, &[&[0; 12][..], &kind].concat(), frame.len() - inside.len(), headers);
    }
}

/// The headers of a packet that begins here, behind the Ethernet header that it lacks.
fn inner(frame: &[u8], ethernet: &[u8], at: usize, headers: &mut Vec<Named>) {
    let whole = [ethernet, frame.get(at..).unwrap_or_default()].concat();
    let skipped = usize::from(!ethernet.is_empty());
    for (item, bytes, end) in named_headers(&whole).into_iter().skip(skipped) {
        headers.push((item, bytes, at + end - ethernet.len()));
    }
}

fn item_of(kind: LayerKind) -> Option<Item> {
    Some(match kind {
        LayerKind::Arp => Item::ArpEthIpv4,
        LayerKind::Auth => Item::Ah,
        LayerKind::Ipv6Fragment => Item::Ipv6FragExt,
        LayerKind::Ethernet => Item::Eth,
        LayerKind::Geneve => Item::Geneve,
        LayerKind::Gre => Item::Gre,
        LayerKind::Icmp => Item::Icmp,
        LayerKind::Icmpv6 => Item::Icmp6,
        LayerKind::Ipv4 => Item::Ipv4,
        LayerKind::Ipv6 => Item::Ipv6,
        LayerKind::Mpls => Item::Mpls,
        LayerKind::Tcp => Item::Tcp,
        LayerKind::Udp => Item::Udp,
        LayerKind::Vlan => Item::Vlan,
        LayerKind::Vxlan => Item::Vxlan,
        _ => return None,
    })
}

/// An item that asks for some of these bytes.
fn item_like(item: Item, bytes: Vec<u8>) -> impl Strategy<Value = ItemMatch> {
    let some = prop::sample::subsequence(all(item), 0..=item.fields().len().min(2));
    let fields = prop_oneof![3 => Just(vec![]), 2 => some];
    let around = prop_oneof![1 => Just(None), 1 => (0..4u128, 0..40u128).prop_map(Some)];
    (fields, around).prop_map(move |(fields, around)| {
        let mut written = ItemMatch::any(item);
        let len = bytes.len().min(item.header_len());
        written.spec[..len].copy_from_slice(&bytes[..len]);
        fields.iter().for_each(|field| field.put(&mut written.mask, field.ones()));
        let mut ranged = fields.iter().filter(|field| {
            let is_number = matches!(field.kind, FieldKind::Number | FieldKind::Ipv4);
            is_number && field.bits <= 32 && !["tci", "flags", "type"].contains(&field.name)
        });
        if let (Some((less, more)), Some(field)) = (around, ranged.next_back()) {
            let (value, mut last) = (field.value(&written.spec), [0; IMAGE_LEN]);
            field.put(&mut last, (value + more).min(field.ones()));
            field.put(&mut written.spec, value.saturating_sub(less));
            written.last = Some(last);
        }
        written
    })
}

/// Ethernet and its tags.
fn link() -> Names {
    let tags = prop_oneof![4 => Just(0), 2 => Just(1), 1 => Just(2), 0 => Just(3)];
    let names = (any::<bool>(), tags).prop_map(|(eth, tags)| {
        let outer = eth.then_some(Item::Eth).into_iter();
        outer.chain(std::iter::repeat_n(Item::Vlan, tags)).collect()
    });
    names.boxed()
}

/// IP and what it carries.
fn network() -> Names {
    use Item::{Ah, Esp, Icmp, Icmp6, Ipv4, Ipv6, Ipv6FragExt, Sctp, Tcp, Udp};
    prop_oneof![
        1 => Just(vec![]),
        4 => one_of(&[&[Ipv4], &[Ipv4, Icmp], &[Ipv4, Tcp], &[Ipv4, Udp]]),
        4 => one_of(&[&[Ipv6], &[Ipv6, Icmp6], &[Ipv6, Tcp], &[Ipv6, Udp]]),
        1 => one_of(&[&[Ipv4, Sctp], &[Ipv4, Esp], &[Ipv4, Ah], &[Ipv6, Sctp], &[Ipv6, Esp]]),
        1 => one_of(&[&[Ipv6, Ipv6FragExt], &[Ipv6, Ipv6FragExt, Udp], &[Ipv6, Ah]]),
        1 => one_of(&[&[Tcp], &[Udp], &[Sctp], &[Icmp], &[Icmp6]]),
    ]
    .boxed()
}

/// IP, a tunnel and what is in it.
fn tunnel() -> Names {
    use Item::{
        ArpEthIpv4, Eth, Geneve, Gre, GreKey, Gtp, GtpPsc, Gtpc, Gtpu, Ipv4, Ipv6, Mpls, Nvgre,
        Pppoed, Pppoes, Udp, Vxlan, VxlanGpe,
    };
    let tunnels = one_of(&[
        &[],
        &[Gre],
        &[Gre],
        &[Gre, GreKey],
        &[Gre, Mpls],
        &[Gre, GreKey, Mpls],
        &[Udp, Vxlan],
        &[Udp, Vxlan],
        &[Udp, Geneve],
        &[Udp, Geneve],
        &[Udp, Mpls],
        &[Nvgre],
        &[Udp, VxlanGpe],
        &[Udp, Gtp],
        &[Udp, Gtpu],
        &[Udp, Gtpu, GtpPsc],
        &[Udp, Gtpc],
    ]);
    let inside = prop_oneof![3 => network(), 2 => chain(behind_eth(), network())].boxed();
    let over_ip = chain(one_of(&[&[Ipv4], &[Ipv6]]), chain(tunnels, inside));
    let labels = chain(Just(vec![Mpls]), network());
    let nested = Just(vec![Ipv4, Udp, Vxlan, Eth, Ipv4, Gre]);
    let session = chain(Just(vec![Pppoes]), network());
    let others = one_of(&[&[ArpEthIpv4], &[ArpEthIpv4], &[Pppoed]]);
    prop_oneof![10 => over_ip, 1 => labels, 1 => nested, 1 => session, 1 => others].boxed()
}

/// Ethernet and its tags inside a tunnel.
fn behind_eth() -> Names {
    one_of(&[
        &[Item::Eth],
        &[Item::Eth],
        &[Item::Eth, Item::Vlan],
        &[Item::Eth, Item::Vlan, Item::Vlan],
    ])
}

/// An item with a few fields; what the mask leaves out is any value.
fn item(item: Item) -> impl Strategy<Value = ItemMatch> {
    let fields = prop::sample::subsequence(all(item), 0..=item.fields().len().min(2));
    let fields = prop_oneof![7 => Just(Vec::new()), 2 => fields];
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

/// The ends of ranges of some fields that the item asks for.
fn last(item: &ItemMatch, noise: &Image) -> Option<Image> {
    let mut last = [0; IMAGE_LEN];
    for field in all(item.item).into_iter().filter(|field| field.value(&item.mask) != 0) {
        let widths = [1, 3, 4, 53, 1_023, 3_000, 60_000, 0xffff, 1 << 31];
        let width = widths[usize::from(noise[field.bit_offset / 8]) % widths.len()];
        let end = field.value(&item.spec).saturating_add(width).min(field.ones());
        if field.kind != FieldKind::Index && field.bits < 64 {
            field.put(&mut last, end);
        }
    }
    (last != [0; IMAGE_LEN]).then_some(last)
}

fn all(item: Item) -> Vec<&'static Field> {
    item.fields().iter().collect()
}

/// A value that frames have, as often as not.
fn value(field: &Field) -> impl Strategy<Value = u128> + use<> {
    let common: &[u128] = match (field.kind, field.name) {
        (FieldKind::Mac, _) => &[0, 0x0200_0000_0001, 0x0200_0000_0002],
        (FieldKind::Ipv4, _) => &[0, 0x0a00_0001, 0x0a00_0002],
        (FieldKind::Ipv6, _) => &[0, 0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2],
        (_, "type") if field.bits == 8 => &[0, 8, 128],
        (_, "type" | "inner_type") => &[0, 0x0800, 0x86dd, 0x0806, 0x8100, 0x88a8, 0x8847],
        (_, "protocol") => &[0, 0x0800, 0x86dd, 0x6558, 0x8847],
        (_, "proto" | "next_hdr") => &[0, 1, 4, 6, 17, 41, 44, 47, 50, 51, 58, 60, 132],
        (_, "spi" | "tag") => &[0, 1, 0x0101_0101, 0x0505_0505],
        (_, "teid" | "tni") => &[0, 5, 0xff_ffff],
        (_, "msg_type") => &[1, 255],
        (_, "v_pt_rsv_flags") => &[0x30, 0x34, 0x36],
        (_, "frag_data") => &[0, 1, 8],
        (_, "src" | "dst") => &[0, 53, 1_024, 4_789, 6_081, 6_635],
        (_, "vni" | "value" | "label") => &[0, 5, 0xff_ffff],
        (_, "version_ihl") => &[0x45, 0x46],
        (_, "fragment_offset") => &[0, 1, 0x2000],
        (_, "flow") => &[0, 1, 0xf_ffff],
        (_, "c_rsvd0_ver") => &[0, 0x2000, 0x8000, 0xb000],
        (_, "data") => &[0, 0, 0, 1],
        (_, "index") => &[0, 1, 2, 3],
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
