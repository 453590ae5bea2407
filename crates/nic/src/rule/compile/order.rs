//! Which items may follow each other.

use super::CompileError;
use crate::rule::item::{Item, ItemMatch};

/// The headers that may come right before an item.
fn behind(item: Item) -> &'static [Item] {
    use Item::{
        Eth, Geneve, Gre, GreKey, Gtp, GtpPsc, Gtpu, Ipv4, Ipv6, Ipv6FragExt, Mpls, Nvgre, Pppoes,
        Udp, Vlan, Vxlan, VxlanGpe,
    };
    match item {
        Eth => &[Gre, GreKey, Nvgre, Vxlan, VxlanGpe, Geneve],
        Vlan | Item::ArpEthIpv4 | Item::Pppoed | Pppoes => &[Eth, Vlan],
        Ipv4 | Ipv6 => &[
            Eth, Vlan, Pppoes, Ipv4, Ipv6, Gre, GreKey, Nvgre, Vxlan, VxlanGpe, Gtp, Gtpu, GtpPsc,
            Geneve, Mpls,
        ],
        Item::Icmp => &[Ipv4],
        Item::Icmp6 => &[Ipv6],
        Ipv6FragExt => &[Ipv6],
        Item::Tcp | Udp | Item::Sctp | Item::Esp | Item::Ah | Gre | Nvgre => &[Ipv4, Ipv6],
        GreKey => &[Gre],
        Vxlan | VxlanGpe | Geneve | Gtp | Item::Gtpc | Gtpu => &[Udp],
        GtpPsc => &[Gtp, Gtpu],
        Mpls => &[Eth, Vlan, Udp, Gre, GreKey],
        Item::Meta | Item::Tag | Item::Raw => &[],
    }
}

/// The last header before an item.
pub(super) fn header_before(items: &[ItemMatch], index: usize) -> Option<Item> {
    items[..index].iter().rev().map(|read| read.item).find(|item| item.is_header())
}

/// The next header after an item.
pub(super) fn header_after(items: &[ItemMatch], index: usize) -> Option<Item> {
    items[index + 1..].iter().map(|read| read.item).find(|item| item.is_header())
}

/// Whether an item may be where it is. Items that are no headers may be anywhere.
pub(super) fn check(items: &[ItemMatch], index: usize) -> Result<(), CompileError> {
    let (item, name) = (items[index].item, items[index].item.name());
    if item.is_header() && items[..index].iter().any(|read| read.item == Item::Raw) {
        let reason = format!("{name} stands behind raw; put raw behind all headers");
        return Err(CompileError::Order { index, reason });
    }
    let before = header_before(items, index);
    // An `eth` without fields may be left out, and so may all headers before a transport header.
    let outer = match before.unwrap_or(Item::Eth) {
        // What follows IPv6 follows its fragment header too; only the first such header counts, and
        // IP in fragments of IP is left out.
        Item::Ipv6FragExt if !matches!(item, Item::Ipv4 | Item::Ipv6 | Item::Ipv6FragExt) => {
            Item::Ipv6
        }
        before => before,
    };
    let may_begin =
        matches!(item, Item::Eth | Item::Tcp | Item::Udp | Item::Sctp | Item::Icmp | Item::Icmp6);
    let is_first = may_begin && before.is_none();
    if !item.is_header() || is_first || behind(item).contains(&outer) {
        return Ok(());
    }
    if (item, before) == (Item::Mpls, Some(Item::Mpls)) {
        let name =
            "a second mpls: niclab reads one label, and passes over those behind it".to_owned();
        return Err(CompileError::NotSupported { index, name });
    }
    let stands = match before {
        Some(before) => format!("{name} stands behind {}", before.name()),
        None => format!("{name} stands first"),
    };
    let is_ip = |item: Item| matches!(item, Item::Ipv4 | Item::Ipv6);
    // IP in IP would be valid, but is hardly what was meant.
    let fits = |bridge: Item| behind(bridge).contains(&outer) && !(is_ip(bridge) && is_ip(outer));
    let bridges: Vec<Item> =
        behind(item).iter().copied().filter(|&bridge| bridge != item && fits(bridge)).collect();
    let remedy = match (item, &bridges[..], before) {
        (Item::Eth, ..) => format!("it belongs first, or behind {}", names(behind(item))),
        (_, [], _) => format!("it belongs behind {}", names(behind(item))),
        (_, bridges, Some(_)) => format!("put {} between", names(bridges)),
        (_, bridges, None) => format!("put {} before it", names(bridges)),
    };
    Err(CompileError::Order { index, reason: format!("{stands}; {remedy}") })
}

fn names(items: &[Item]) -> String {
    let names: Vec<&str> = items.iter().map(|item| item.name()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
