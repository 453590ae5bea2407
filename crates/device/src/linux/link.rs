//! Interfaces over rtnetlink: making a veth pair, giving it addresses, finding one by its address.
//!
//! The functions work in the network namespace of the thread that calls them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use niclab_netlink::Netlink;
pub use niclab_port::link::{Link, LinkCounters, find};
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute};
use rtnetlink::{AddressMessageBuilder, LinkUnspec, LinkVeth};

/// Makes a veth pair: `near` in this namespace and switched on, `far` in that of `far_ns`, where it
/// waits for [`switch_on`]; both with this MTU, and with so many queues each way.
pub fn make_pair(
    near: &str,
    far: &str,
    far_ns: BorrowedFd<'_>,
    (mtu, queues): (u32, u32),
) -> io::Result<()> {
    let count = || [LinkAttribute::NumTxQueues(queues), LinkAttribute::NumRxQueues(queues)];
    let mut peer = LinkUnspec::new_with_name(far).build();
    peer.attributes.extend(count());
    let pair =
        LinkVeth::new(near, far).mtu(mtu).set_info_data(InfoData::Veth(InfoVeth::Peer(peer)));
    let mut pair = pair.build();
    pair.attributes.extend(count());
    change(RouteNetlinkMessage::NewLink(pair), NLM_F_CREATE | NLM_F_EXCL)?;
    let far = || LinkUnspec::new_with_name(far);
    change(RouteNetlinkMessage::SetLink(far().mtu(mtu).build()), 0)?;
    let moved = far().setns_by_fd(far_ns.as_raw_fd()).build();
    change(RouteNetlinkMessage::SetLink(moved), 0)?;
    switch_on(near)
}

/// Switches an interface on.
pub fn switch_on(name: &str) -> io::Result<()> {
    let message = LinkUnspec::new_with_name(name).up().build();
    change(RouteNetlinkMessage::SetLink(message), 0)
}

/// Gives an interface an address, whose first `prefix_len` bits its neighbours share. Nobody is
/// asked whether he has it already.
pub fn add_address(index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
    let mut message = match address {
        IpAddr::V4(address) => {
            let builder = AddressMessageBuilder::<Ipv4Addr>::new();
            builder.index(index).address(address, prefix_len).build()
        }
        IpAddr::V6(address) => {
            let builder = AddressMessageBuilder::<Ipv6Addr>::new();
            builder.index(index).address(address, prefix_len).build()
        }
    };
    message.header.flags |= AddressHeaderFlags::Nodad;
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    change(RouteNetlinkMessage::NewAddress(message), flags)
}

/// Name of the interface of this namespace that has an address; `None` where none has.
pub fn of_address(address: IpAddr) -> io::Result<Option<String>> {
    let netlink = Netlink::route()?;
    let is_it = |attribute: &AddressAttribute| match attribute {
        // Over a point-to-point link `Address` is the neighbour's.
        AddressAttribute::Local(local) => *local == address,
        AddressAttribute::Address(own) => *own == address,
        _ => false,
    };
    let all = netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let index = all.iter().find_map(|message| match message {
        RouteNetlinkMessage::NewAddress(of) if of.attributes.iter().any(is_it) => {
            Some(of.header.index)
        }
        _ => None,
    });
    let Some(index) = index else {
        return Ok(None);
    };
    let asked = LinkUnspec::new_with_index(index).build();
    let answers = netlink.request(RouteNetlinkMessage::GetLink(asked), 0)?;
    Ok(answers.into_iter().find_map(|answer| {
        let RouteNetlinkMessage::NewLink(link) = answer else { return None };
        link.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        })
    }))
}

/// Has the kernel change an interface.
fn change(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    Ok(Netlink::route()?.request(message, flags).map(|_| ())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_address() {
        let of = |address: &str| of_address(address.parse().unwrap()).unwrap();
        assert_eq!(of("127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(of("198.51.100.1"), None, "set aside for texts (RFC 5737)");
        assert_eq!(of("0.0.0.0"), None);
    }
}
