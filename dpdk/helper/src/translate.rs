//! Rules of niclab as rules of DPDK.

use niclab_nic::rss::{HashFunction, RssAction, RssLevel};
use niclab_nic::rule::item::{Image, Item, ItemMatch};
use niclab_nic::rule::{Action, Set};

use crate::shim::flow::{ActionKind, FlowAction, FlowRule, ItemKind, RawItem};

/// The arguments of a rule; or what of it rte_flow has no words for.
pub fn flow_rule(
    (group, priority): (u32, u32),
    items: &[ItemMatch],
    actions: &[Action],
    port: u16,
) -> Result<FlowRule, Unsaid> {
    let items: Vec<RawItem> = items.iter().map(item).collect();
    let actions = actions.iter().map(|action| flow_action(action, port));
    let actions = actions.collect::<Result<Vec<FlowAction<'_>>, Unsaid>>()?;
    FlowRule::new((group, priority), &items, &actions).ok_or(Unsaid("memory for its arguments"))
}

/// What of a rule niclab cannot write for rte_flow: niclab's limit, not the card's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsaid(pub &'static str);

fn item(item: &ItemMatch) -> RawItem {
    let kind = match item.item {
        Item::Eth => ItemKind::Eth,
        Item::Vlan => ItemKind::Vlan,
        Item::Ipv4 => ItemKind::Ipv4,
        Item::Ipv6 => ItemKind::Ipv6,
        Item::Icmp => ItemKind::Icmp,
        Item::Icmp6 => ItemKind::Icmp6,
        Item::Tcp => ItemKind::Tcp,
        Item::Udp => ItemKind::Udp,
        Item::Gre => ItemKind::Gre,
        Item::GreKey => ItemKind::GreKey,
        Item::Vxlan => ItemKind::Vxlan,
        Item::Geneve => ItemKind::Geneve,
        Item::Mpls => ItemKind::Mpls,
        Item::Meta => ItemKind::Meta,
        Item::Tag => ItemKind::Tag,
        Item::Raw => ItemKind::Raw,
        Item::Nvgre => ItemKind::Nvgre,
        Item::Sctp => ItemKind::Sctp,
        Item::Esp => ItemKind::Esp,
        Item::Ah => ItemKind::Ah,
        Item::ArpEthIpv4 => ItemKind::ArpEthIpv4,
        Item::Ipv6FragExt => ItemKind::Ipv6FragExt,
        Item::Pppoed => ItemKind::Pppoed,
        Item::Pppoes => ItemKind::Pppoes,
        Item::VxlanGpe => ItemKind::VxlanGpe,
        Item::Gtp => ItemKind::Gtp,
        Item::Gtpc => ItemKind::Gtpc,
        Item::Gtpu => ItemKind::Gtpu,
        Item::GtpPsc => ItemKind::GtpPsc,
    };
    RawItem::new(kind, item.spec, item.last, item.mask)
}

fn flow_action(action: &Action, port: u16) -> Result<FlowAction<'_>, Unsaid> {
    let plain = |kind| FlowAction {
        kind,
        numbers: [0; 3],
        bytes: Vec::new(),
        queues: &[],
        headers: Vec::new(),
    };
    let number = |kind, value: u32| FlowAction { numbers: [value, 0, 0], ..plain(kind) };
    let tunnel =
        |kind, bytes: &[u8]| headers(bytes).map(|headers| FlowAction { headers, ..plain(kind) });
    Ok(match action {
        Action::Age(timeout) => number(ActionKind::Age, *timeout),
        Action::Count => plain(ActionKind::Count),
        Action::DecTtl => plain(ActionKind::DecTtl),
        Action::Drop => plain(ActionKind::Drop),
        Action::Flag => plain(ActionKind::Flag),
        Action::Jump(group) => number(ActionKind::Jump, *group),
        Action::MacSwap => plain(ActionKind::MacSwap),
        Action::Mark(mark) => number(ActionKind::Mark, *mark),
        Action::Meter(meter) => number(ActionKind::Meter, *meter),
        Action::NvgreDecap => plain(ActionKind::NvgreDecap),
        Action::NvgreEncap(bytes) => tunnel(ActionKind::NvgreEncap, bytes)?,
        Action::PopVlan => plain(ActionKind::OfPopVlan),
        // Port 0 is the one that the frame came by.
        Action::Port(0) => number(ActionKind::Port, port.into()),
        Action::Port(other) => number(ActionKind::Port, (*other).into()),
        Action::PushVlan(kind) => number(ActionKind::OfPushVlan, (*kind).into()),
        Action::Queue(queue) => number(ActionKind::Queue, (*queue).into()),
        Action::RawDecap(len) => number(ActionKind::RawDecap, (*len).into()),
        Action::RawEncap(bytes) => {
            FlowAction { bytes: bytes.to_vec(), ..plain(ActionKind::RawEncap) }
        }
        Action::Rss(rss) => spread(rss),
        Action::Set(set) => set_field(set, plain(ActionKind::SetTtl)),
        Action::SetMeta { data, mask } => {
            FlowAction { numbers: [*data, *mask, 0], ..plain(ActionKind::SetMeta) }
        }
        Action::SetTag { index, data, mask } => {
            FlowAction { numbers: [*data, *mask, u32::from(*index)], ..plain(ActionKind::SetTag) }
        }
        Action::VxlanDecap => plain(ActionKind::VxlanDecap),
        Action::VxlanEncap(bytes) => tunnel(ActionKind::VxlanEncap, bytes)?,
    })
}

/// What is left out has the driver's values: function and level 0, no types, no key.
fn spread(rss: &RssAction) -> FlowAction<'_> {
    let function = u32::from(rss.function == Some(HashFunction::SymmetricToeplitz));
    let level = match rss.level {
        None => 0,
        Some(RssLevel::Outermost) => 1,
        Some(RssLevel::Inner) => 2,
    };
    let types = rss.types.map_or(0, |types| types.bits());
    FlowAction {
        kind: ActionKind::Rss,
        numbers: [function, level, types],
        bytes: rss.key.clone().unwrap_or_default(),
        queues: &rss.queues,
        headers: Vec::new(),
    }
}

fn set_field<'a>(set: &Set, plain: FlowAction<'a>) -> FlowAction<'a> {
    let number = |kind, value: u16| (kind, u32::from(value), Vec::new());
    let address = |kind, bytes: &[u8]| (kind, 0, bytes.to_vec());
    let (kind, value, bytes) = match set {
        Set::Ipv4Dscp(dscp) => number(ActionKind::SetIpv4Dscp, (*dscp).into()),
        Set::Ipv4Dst(to) => address(ActionKind::SetIpv4Dst, &to.octets()),
        Set::Ipv4Src(to) => address(ActionKind::SetIpv4Src, &to.octets()),
        Set::Ipv6Dscp(dscp) => number(ActionKind::SetIpv6Dscp, (*dscp).into()),
        Set::Ipv6Dst(to) => address(ActionKind::SetIpv6Dst, &to.octets()),
        Set::Ipv6Src(to) => address(ActionKind::SetIpv6Src, &to.octets()),
        Set::MacDst(to) => address(ActionKind::SetMacDst, to),
        Set::MacSrc(to) => address(ActionKind::SetMacSrc, to),
        Set::TpDst(port) => number(ActionKind::SetTpDst, *port),
        Set::TpSrc(port) => number(ActionKind::SetTpSrc, *port),
        Set::Ttl(ttl) => number(ActionKind::SetTtl, (*ttl).into()),
        Set::VlanPcp(pcp) => number(ActionKind::OfSetVlanPcp, (*pcp).into()),
        Set::VlanVid(vid) => number(ActionKind::OfSetVlanVid, *vid),
    };
    FlowAction { kind, numbers: [value, 0, 0], bytes, ..plain }
}

/// The headers of a tunnel, which rte_flow wants item by item: Ethernet, VLAN tags, IP, and UDP
/// and VXLAN, or GRE with its key. The NIC's own rules took no others.
fn headers(bytes: &[u8]) -> Result<Vec<RawItem>, Unsaid> {
    let mut found = Vec::new();
    let (mut rest, mut next) = (bytes, Some((ItemKind::Eth, 14)));
    while let Some((kind, len)) = next {
        let Some((header, behind)) = rest.split_at_checked(len) else {
            return Err(Unsaid("headers of a tunnel that end within one"));
        };
        let (mut spec, mut mask) = ([0; size_of::<Image>()], [0; size_of::<Image>()]);
        spec[..len].copy_from_slice(header);
        mask[..len].fill(0xff);
        found.push(RawItem::new(kind, spec, None, mask));
        let kind_of = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        next = match kind {
            ItemKind::Eth => after_ethernet(kind_of(12))?,
            ItemKind::Vlan => after_ethernet(kind_of(2))?,
            ItemKind::Ipv4 => after_ip(header[9])?,
            ItemKind::Ipv6 => after_ip(header[6])?,
            ItemKind::Udp => Some((ItemKind::Vxlan, 8)),
            _ => None,
        };
        rest = behind;
    }
    Ok(found)
}

type NextHeader = Result<Option<(ItemKind, usize)>, Unsaid>;

fn after_ethernet(kind: u16) -> NextHeader {
    match kind {
        0x8100 | 0x88a8 => Ok(Some((ItemKind::Vlan, 4))),
        0x0800 => Ok(Some((ItemKind::Ipv4, 20))),
        0x86dd => Ok(Some((ItemKind::Ipv6, 40))),
        _ => Err(Unsaid("headers of a tunnel without IP")),
    }
}

fn after_ip(protocol: u8) -> NextHeader {
    match protocol {
        17 => Ok(Some((ItemKind::Udp, 8))),
        47 => Ok(Some((ItemKind::Nvgre, 8))),
        _ => Err(Unsaid("headers of a tunnel without UDP or GRE")),
    }
}
