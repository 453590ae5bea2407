//! Interfaces as the kernel describes them over rtnetlink.
//!
//! The functions work in the network namespace of the thread that calls them.

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Stats64};
use niclab_netlink::Netlink;
use niclab_packet::wire::MacAddress;

/// Ethernet header with a VLAN tag, bytes: what the MTU leaves out.
pub const HEADER_LEN: u32 = 18;

/// An interface and its counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its number in its namespace.
    pub index: u32,
    /// It was switched on and has a carrier.
    pub up: bool,
    /// It was switched on, with a carrier or without.
    pub is_on: bool,
    /// It has a carrier; of a TAP interface: a program has it open.
    pub has_carrier: bool,
    /// Longest packet without the Ethernet header, bytes.
    pub mtu: u32,
    /// Kind of a virtual interface, such as `veth`; `None` for a physical one.
    pub kind: Option<String>,
    /// Number of the interface behind it, such as the other end of a veth pair, where that is in
    /// the same namespace.
    pub peer: Option<u32>,
    /// Its Ethernet address, where it has one.
    pub mac: Option<MacAddress>,
    /// Counters.
    pub counters: LinkCounters,
}

/// Counters of an interface (`struct rtnl_link_stats64`); bytes are without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames received.
    pub rx_frames: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames that the interface had no room for.
    pub rx_missed: u64,
    /// Frames to be sent that the interface dropped.
    pub tx_dropped: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

impl LinkCounters {
    /// Counts since `before`.
    pub fn since(&self, before: &LinkCounters) -> LinkCounters {
        LinkCounters {
            rx_frames: self.rx_frames.wrapping_sub(before.rx_frames),
            tx_frames: self.tx_frames.wrapping_sub(before.tx_frames),
            rx_missed: self.rx_missed.wrapping_sub(before.rx_missed),
            tx_dropped: self.tx_dropped.wrapping_sub(before.tx_dropped),
            rx_bytes: self.rx_bytes.wrapping_sub(before.rx_bytes),
            tx_bytes: self.tx_bytes.wrapping_sub(before.tx_bytes),
        }
    }
}

impl From<&Stats64> for LinkCounters {
    fn from(stats: &Stats64) -> LinkCounters {
        LinkCounters {
            rx_frames: stats.rx_packets,
            tx_frames: stats.tx_packets,
            rx_missed: stats.rx_missed_errors,
            tx_dropped: stats.tx_dropped,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
        }
    }
}

/// Looks an interface up; `None` where there is none of this name.
///
/// # Errors
/// What the kernel says.
pub fn find(name: &str) -> io::Result<Option<Link>> {
    let mut asked = LinkMessage::default();
    asked.attributes.push(LinkAttribute::IfName(name.to_owned()));
    match Netlink::route()?.request(RouteNetlinkMessage::GetLink(asked), 0) {
        Err(refusal) if refusal.error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(refusal) => Err(refusal.error),
        Ok(answers) => Ok(answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(message) => Some(Link::from_message(name, message)),
            _ => None,
        })),
    }
}

impl Link {
    /// Whether it is an end of a veth pair.
    pub fn is_veth(&self) -> bool {
        self.kind.as_deref() == Some("veth")
    }

    fn from_message(name: &str, message: &LinkMessage) -> Link {
        let on = LinkFlags::Up | LinkFlags::LowerUp;
        let mut link = Link {
            name: name.into(),
            index: message.header.index,
            up: message.header.flags.contains(on),
            is_on: message.header.flags.contains(LinkFlags::Up),
            has_carrier: false,
            mtu: 0,
            kind: None,
            peer: None,
            mac: None,
            counters: LinkCounters::default(),
        };
        let mut is_apart = false;
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::Carrier(carrier) => link.has_carrier = *carrier != 0,
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Link(index) => link.peer = Some(*index),
                LinkAttribute::LinkNetNsId(_) => is_apart = true,
                LinkAttribute::Stats64(stats) => link.counters = LinkCounters::from(stats),
                LinkAttribute::Address(bytes) => {
                    link.mac = bytes.as_slice().try_into().ok().map(MacAddress);
                }
                LinkAttribute::LinkInfo(infos) => link.kind = infos.iter().find_map(kind),
                _ => {}
            }
        }
        link.peer = link.peer.filter(|_| !is_apart);
        link
    }
}

fn kind(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_and_an_unknown_one_is_none() {
        let lo = find("lo").unwrap().unwrap();
        assert_eq!((lo.index, lo.kind, lo.mac), (1, None, Some(MacAddress([0; 6]))));
        assert!(lo.mtu >= 1500);
        assert_eq!(find("niclab-none").unwrap(), None);
    }
}
