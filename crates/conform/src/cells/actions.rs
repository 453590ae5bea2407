//! Items by actions.

use std::net::{Ipv4Addr, Ipv6Addr};

use niclab_device::rule_case::{RuleStep, WrittenRule};
use niclab_nic::rss::RssAction;
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_nic::rule::{Action, Set, compile};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp, vxlan};
use niclab_result::conform::ConformPart;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{
    PRIORITY, PRIORITY_BELOW, PlannedCase, PlannedCell, any_rule, case_of, cell, fates, random_of,
    send,
};
use crate::sample::{SampleFrame, other_frames};

/// The actions, by testpmd's names: fates first.
pub const COLUMNS: [&str; 34] = [
    "queue",
    "drop",
    "represented_port",
    "rss",
    "jump",
    "count",
    "mark",
    "flag",
    "age",
    "set_meta",
    "set_tag",
    "dec_ttl",
    "set_ttl",
    "set_mac_src",
    "set_mac_dst",
    "mac_swap",
    "set_ipv4_src",
    "set_ipv4_dst",
    "set_ipv4_dscp",
    "set_ipv6_src",
    "set_ipv6_dst",
    "set_ipv6_dscp",
    "set_tp_src",
    "set_tp_dst",
    "of_push_vlan",
    "of_pop_vlan",
    "of_set_vlan_vid",
    "of_set_vlan_pcp",
    "raw_encap",
    "raw_decap",
    "vxlan_encap",
    "vxlan_decap",
    "nvgre_encap",
    "nvgre_decap",
];

/// The cells of an item: those of actions whose header its patterns name, as `rte_flow` wants it.
pub fn action_cells(item: Item, queues: u16, seed: u64) -> Vec<PlannedCell> {
    let cells = COLUMNS.iter().filter_map(|column| {
        let mut random = random_of(seed, &["actions", item.name(), column]);
        let case = action_case(item, column, queues, &mut random)?;
        Some(cell(ConformPart::Actions, item.name(), column, vec![case]))
    });
    cells.collect()
}

fn action_case(
    item: Item,
    column: &str,
    queues: u16,
    random: &mut Xoshiro256PlusPlus,
) -> Option<PlannedCase> {
    let sample = SampleFrame::random(item, random)?;
    let items = sample.pattern(usual_field(&sample)?);
    let pattern = compile::pattern(&items).ok()?;
    let hit = sample.bytes()?;
    let misses = other_frames().into_iter().filter(|frame| !pattern.matches(frame));
    let miss: Vec<Vec<u8>> = misses.take(1).collect();
    let (to_hit, to_miss) = fates(queues);
    let rule =
        |actions| WrittenRule { group: 0, priority: PRIORITY, items: items.clone(), actions };
    let below = |action| any_rule(0, PRIORITY_BELOW, action);
    let frames: Vec<Vec<u8>> = [hit.clone()].into_iter().chain(miss).collect();
    // A rule that has a queue lies above one that has another, or that drops.
    let (queue, below_queue) = match queues {
        0 | 1 => (Action::Queue(0), Action::Drop),
        _ => (to_hit.clone(), to_miss.clone()),
    };
    let behind = any_rule(1, PRIORITY, queue.clone());
    Some(match column {
        "queue" => case_of(vec![below(below_queue)], rule(vec![queue]), &frames),
        "drop" => case_of(vec![below(Action::Queue(0))], rule(vec![Action::Drop]), &frames),
        "represented_port" => {
            case_of(vec![below(Action::Queue(0))], rule(vec![Action::Port(0)]), &frames)
        }
        "rss" => {
            let action = rss((0..queues.clamp(1, 2)).collect());
            case_of(vec![below(Action::Drop)], rule(vec![action]), &frames)
        }
        "jump" => case_of(vec![below(below_queue), behind], rule(vec![Action::Jump(1)]), &frames),
        "set_meta" | "set_tag" => noted_case(column, rule, (queue, below_queue), &frames)?,
        "count" => {
            let mut planned =
                case_of(vec![below(below_queue)], rule(vec![Action::Count, queue]), &frames);
            planned.case.steps.push(send(&hit));
            planned.case.steps.push(RuleStep::Count { rule: 1, wanted: (0, 0) });
            planned
        }
        other => {
            let mut actions = changes(other, &sample, random)?;
            actions.push(queue);
            case_of(vec![below(below_queue)], rule(actions), &frames)
        }
    })
}

/// The item with a field that most cards know: an address or a port, else the first free one.
fn usual_field(sample: &SampleFrame) -> Option<ItemMatch> {
    let (mut named, image) = (ItemMatch::any(sample.item()), sample.image()?);
    let fields = sample.free_fields();
    let usual = fields.iter().find(|field| ["dst", "src"].contains(&field.name));
    if let Some(field) = usual.or(fields.first()) {
        field.put(&mut named.spec, field.value(&image));
        field.put(&mut named.mask, field.ones());
    }
    Some(named)
}

/// RSS over these queues, with what the port has for the rest.
pub(super) fn rss(queues: Vec<u16>) -> Action {
    let rest =
        RssAction { function: None, key: None, level: None, queues: Vec::new(), types: None };
    Action::Rss(Box::new(RssAction { queues, ..rest }))
}

/// A rule that notes something, and rules of a later group that match it.
fn noted_case(
    column: &str,
    rule: impl Fn(Vec<Action>) -> WrittenRule,
    (queue, below_queue): (Action, Action),
    frames: &[Vec<u8>],
) -> Option<PlannedCase> {
    let (data, mask) = (0x1234_0077, 0xffff_00ff);
    let (item, set) = match column {
        "set_meta" => (Item::Meta, Action::SetMeta { data, mask }),
        _ => (Item::Tag, Action::SetTag { index: 2, data, mask }),
    };
    let mut named = ItemMatch::any(item);
    let data_field = item.field("data")?;
    data_field.put(&mut named.spec, (data & mask).into());
    data_field.put(&mut named.mask, data_field.ones());
    if let Some(index) = item.field("index") {
        index.put(&mut named.spec, 2);
        index.put(&mut named.mask, index.ones());
    }
    let matching =
        WrittenRule { group: 1, priority: PRIORITY, items: vec![named], actions: vec![queue] };
    let around = vec![
        any_rule(0, PRIORITY_BELOW, below_queue.clone()),
        any_rule(1, PRIORITY_BELOW, below_queue),
        matching,
    ];
    Some(case_of(around, rule(vec![set, Action::Jump(1)]), frames))
}

/// The actions of a column that changes frames or notes something; `None` where the patterns of
/// the sample do not name the header.
pub(super) fn changes(
    column: &str,
    sample: &SampleFrame,
    random: &mut Xoshiro256PlusPlus,
) -> Option<Vec<Action>> {
    let names = |items: &[Item]| items.iter().any(|item| sample.names(*item));
    let set = |set: Set| Some(vec![Action::Set(set)]);
    let ipv4 = Ipv4Addr::from_bits(10 << 24 | random.random::<u32>() & 0x00ff_ffff);
    let ipv6 = Ipv6Addr::from_bits(0x2001_0db8 << 96 | random.random::<u128>() >> 32);
    let mac = [2, 0, random.random(), random.random(), random.random(), random.random()];
    let dscp = random.random_range(1..64);
    let port = random.random_range(0x8000..0xffff);
    match column {
        "mark" => Some(vec![Action::Mark(random.random_range(1..0x1_0000))]),
        "flag" => Some(vec![Action::Flag]),
        "age" => Some(vec![Action::Age(100)]),
        "dec_ttl" if names(&[Item::Ipv4, Item::Ipv6]) => Some(vec![Action::DecTtl]),
        "set_ttl" if names(&[Item::Ipv4, Item::Ipv6]) => set(Set::Ttl(random.random_range(2..255))),
        "set_mac_src" => set(Set::MacSrc(mac)),
        "set_mac_dst" => set(Set::MacDst(mac)),
        "mac_swap" => Some(vec![Action::MacSwap]),
        "set_ipv4_src" if names(&[Item::Ipv4]) => set(Set::Ipv4Src(ipv4)),
        "set_ipv4_dst" if names(&[Item::Ipv4]) => set(Set::Ipv4Dst(ipv4)),
        "set_ipv4_dscp" if names(&[Item::Ipv4]) => set(Set::Ipv4Dscp(dscp)),
        "set_ipv6_src" if names(&[Item::Ipv6]) => set(Set::Ipv6Src(ipv6)),
        "set_ipv6_dst" if names(&[Item::Ipv6]) => set(Set::Ipv6Dst(ipv6)),
        "set_ipv6_dscp" if names(&[Item::Ipv6]) => set(Set::Ipv6Dscp(dscp)),
        "set_tp_src" if names(&[Item::Tcp, Item::Udp]) => set(Set::TpSrc(port)),
        "set_tp_dst" if names(&[Item::Tcp, Item::Udp]) => set(Set::TpDst(port)),
        "of_push_vlan" => Some(vec![Action::PushVlan(0x8100)]),
        "of_pop_vlan" if names(&[Item::Vlan]) => Some(vec![Action::PopVlan]),
        "of_set_vlan_vid" if names(&[Item::Vlan]) => {
            set(Set::VlanVid(random.random_range(1..4_095)))
        }
        "of_set_vlan_pcp" if names(&[Item::Vlan]) => set(Set::VlanPcp(random.random_range(0..8))),
        "raw_encap" | "vxlan_encap" => {
            let headers = vxlan_headers()?.into();
            let is_raw = column == "raw_encap";
            Some(vec![if is_raw { Action::RawEncap(headers) } else { Action::VxlanEncap(headers) }])
        }
        "raw_decap" => {
            let ethernet = sample.bytes()?;
            let mut ethernet = ethernet.get(..14)?.to_vec();
            ethernet[..6].copy_from_slice(&mac);
            Some(vec![Action::RawDecap(14), Action::RawEncap(ethernet.into())])
        }
        "vxlan_decap" if names(&[Item::Vxlan]) => Some(vec![Action::VxlanDecap]),
        "nvgre_encap" => Some(vec![Action::NvgreEncap(nvgre_headers()?.into())]),
        "nvgre_decap" if names(&[Item::Nvgre]) => Some(vec![Action::NvgreDecap]),
        _ => None,
    }
}

fn outer(protocol: IpProtocol) -> [Layer; 2] {
    let ethernet = ethernet::Repr {
        dst: MacAddress([2, 0, 0, 0, 0, 4]),
        src: MacAddress([2, 0, 0, 0, 0, 3]),
        ..ethernet::Repr::default()
    };
    let ipv4 = ipv4::Repr {
        protocol,
        ttl: 64,
        src: [10, 9, 0, 1].into(),
        dst: [10, 9, 0, 2].into(),
        ..ipv4::Repr::default()
    };
    [ethernet.into(), ipv4.into()]
}

/// The headers of a VXLAN tunnel, whose UDP has no checksum.
fn vxlan_headers() -> Option<Vec<u8>> {
    let udp = udp::Repr { src_port: 0xc000, dst_port: 4_789, ..udp::Repr::default() };
    let layers =
        outer(IpProtocol::UDP).into_iter().chain([udp.into(), vxlan::Repr { vni: 5 }.into()]);
    let mut headers = build(&layers.collect::<Vec<Layer>>()).ok()?;
    headers.get_mut(40..42)?.fill(0);
    Some(headers)
}

/// The headers of an NVGRE tunnel: GRE with a key.
fn nvgre_headers() -> Option<Vec<u8>> {
    let gre = Layer::from(vec![0x20, 0, 0x65, 0x58, 0, 0, 1, 0]);
    build(&outer(IpProtocol::GRE).into_iter().chain([gre]).collect::<Vec<Layer>>()).ok()
}
