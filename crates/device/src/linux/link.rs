//! Interfaces over rtnetlink: making a veth pair, giving it addresses, finding one by its address.
//!
//! One request and its answer at a time on a socket of its own: no runtime is needed for that. The
//! functions work in the namespace of the thread that calls them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

pub use niclab_port::link::{Link, LinkCounters, find};
use niclab_port::link::{read, request, send};
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NetlinkPayload};
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
    request(RouteNetlinkMessage::NewLink(pair), NLM_F_CREATE | NLM_F_EXCL)?;
    let far = || LinkUnspec::new_with_name(far);
    request(RouteNetlinkMessage::SetLink(far().mtu(mtu).build()), 0)?;
    let moved = far().setns_by_fd(far_ns.as_raw_fd()).build();
    request(RouteNetlinkMessage::SetLink(moved), 0)?;
    switch_on(near)
}

/// Switches an interface on.
pub fn switch_on(name: &str) -> io::Result<()> {
    let message = LinkUnspec::new_with_name(name).up().build();
    request(RouteNetlinkMessage::SetLink(message), 0).map(|_| ())
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
    request(RouteNetlinkMessage::NewAddress(message), flags).map(|_| ())
}

/// Name of the interface of this namespace that has an address; `None` where none has.
pub fn of_address(address: IpAddr) -> io::Result<Option<String>> {
    let socket = send(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
    let mut index = None;
    'parts: loop {
        let (part, _) = socket.recv_from_full()?;
        let mut bytes = part.as_slice();
        while !bytes.is_empty() {
            let message = read(bytes)?;
            match message.payload {
                NetlinkPayload::Done(_) => break 'parts,
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(of)) => {
                    let is_it = |attribute: &AddressAttribute| match attribute {
                        // Over a point-to-point link `Address` is the neighbour's.
                        AddressAttribute::Local(local) => *local == address,
                        AddressAttribute::Address(own) => *own == address,
                        _ => false,
                    };
                    if of.attributes.iter().any(is_it) {
                        index = Some(of.header.index);
                    }
                }
                _ => {}
            }
            // Each begins at a multiple of four.
            let len = (message.header.length as usize).next_multiple_of(4).max(4);
            bytes = bytes.get(len..).unwrap_or_default();
        }
    }
    let Some(index) = index else {
        return Ok(None);
    };
    let asked = LinkUnspec::new_with_index(index).build();
    let reply = request(RouteNetlinkMessage::GetLink(asked), 0)?;
    let name = |attribute: LinkAttribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    };
    Ok(reply.and_then(|reply| reply.attributes.into_iter().find_map(name)))
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
