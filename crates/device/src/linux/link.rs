//! Interfaces as the kernel tells of them over rtnetlink: looking one up, making a veth pair.
//!
//! One request and its answer at a time on a socket of its own: no runtime is needed for that. The
//! functions work in the namespace of the thread that calls them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Stats64};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};
use rtnetlink::{AddressMessageBuilder, LinkUnspec, LinkVeth};

/// An interface and its counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its number in its namespace.
    pub index: u32,
    /// It was switched on and has a carrier.
    pub up: bool,
    /// Longest packet without the Ethernet header, bytes.
    pub mtu: u32,
    /// Kind of a virtual interface, such as `veth`; `None` for a physical one.
    pub kind: Option<String>,
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
    /// What was counted since `before`.
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
pub fn look(name: &str) -> io::Result<Option<Link>> {
    let asked = LinkUnspec::new_with_name(name).build();
    match request(RouteNetlinkMessage::GetLink(asked), 0) {
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(e) => Err(e),
        Ok(message) => Ok(message.map(|message| Link::from_message(name, &message))),
    }
}

impl Link {
    fn from_message(name: &str, message: &LinkMessage) -> Link {
        let on = LinkFlags::Up | LinkFlags::LowerUp;
        let mut link = Link {
            name: name.into(),
            index: message.header.index,
            up: message.header.flags.contains(on),
            mtu: 0,
            kind: None,
            counters: LinkCounters::default(),
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Stats64(stats) => link.counters = LinkCounters::from(stats),
                LinkAttribute::LinkInfo(infos) => link.kind = infos.iter().find_map(kind),
                _ => {}
            }
        }
        link
    }
}

fn kind(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

/// Makes a veth pair: `near` in this namespace and switched on, `far` in that of `far_ns`, where it
/// waits for [`switch_on`]; both with this MTU.
pub fn make_pair(near: &str, far: &str, far_ns: BorrowedFd<'_>, mtu: u32) -> io::Result<()> {
    let pair = LinkVeth::new(near, far).mtu(mtu).build();
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
    let told = request(RouteNetlinkMessage::GetLink(asked), 0)?;
    let name = |attribute: LinkAttribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    };
    Ok(told.and_then(|told| told.attributes.into_iter().find_map(name)))
}

/// Sends one request and reads its answer: the link it tells of, or nothing but success.
fn request(payload: RouteNetlinkMessage, flags: u16) -> io::Result<Option<LinkMessage>> {
    let (bytes, _) = send(payload, NLM_F_ACK | flags)?.recv_from_full()?;
    match read(&bytes)?.payload {
        NetlinkPayload::Error(error) if error.raw_code() == 0 => Ok(None),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(Some(link)),
        other => Err(io::Error::other(format!("unexpected netlink answer {other:?}"))),
    }
}

/// Sends a request; where its answer comes.
fn send(payload: RouteNetlinkMessage, flags: u16) -> io::Result<Socket> {
    let mut message = NetlinkMessage::from(payload);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    Ok(socket)
}

fn read(bytes: &[u8]) -> io::Result<NetlinkMessage<RouteNetlinkMessage>> {
    NetlinkMessage::deserialize(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_and_an_unknown_one_is_none() {
        let lo = look("lo").unwrap().unwrap();
        assert_eq!((lo.index, lo.kind), (1, None));
        assert!(lo.mtu >= 1500);
        assert_eq!(look("niclab-none").unwrap(), None);
    }

    #[test]
    fn an_interface_is_found_by_its_address() {
        let of = |address: &str| of_address(address.parse().unwrap()).unwrap();
        assert_eq!(of("127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(of("198.51.100.1"), None, "set aside for texts (RFC 5737)");
        assert_eq!(of("0.0.0.0"), None);
    }
}
