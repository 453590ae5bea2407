//! The addresses of a host that is made of a card's frames.

use std::net::Ipv4Addr;

use niclab_card::{CardError, PortError, PortName};
use niclab_packet::wire::MacAddress;

use crate::failure::Failure;

/// An address and the bits of its network.
pub fn read(text: &str) -> Result<(Ipv4Addr, u8), Failure> {
    let parts = text.split_once('/').and_then(|(ip, bits)| {
        let (ip, bits): (Ipv4Addr, u8) = (ip.parse().ok()?, bits.parse().ok()?);
        let host = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
        let is_all = host > 1 && [0, host].contains(&(u32::from(ip) & host));
        let first = ip.octets()[0];
        let is_host = !is_all && first != 0 && first != 127 && first < 224;
        ((1..=32).contains(&bits) && is_host).then_some((ip, bits))
    });
    parts.ok_or_else(|| Failure::Address {
        reason: format!("--address {text}: give a host's IPv4 address such as 10.9.0.2/24"),
    })
}

/// The Ethernet address: an interface's own, or, where the card is the other end of a new one, an
/// address that is made of the IPv4 address.
pub fn mac(port: &PortName, ip: Ipv4Addr) -> Result<MacAddress, Failure> {
    let (PortName::Xdp(name) | PortName::Packet(name)) = port else {
        let [a, b, c, d] = ip.octets();
        return Ok(MacAddress([2, 0, a, b, c, d]));
    };
    let absent = || {
        let source = PortError::Absent { name: name.clone() };
        CardError::Port { name: port.to_string(), source }
    };
    Ok(port.mac()?.ok_or_else(absent)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_address_is_read_and_nothing_else() {
        let ok = |text: &str| read(text).ok().map(|(ip, bits)| format!("{ip} {bits}"));
        assert_eq!(ok("10.9.0.2/24").as_deref(), Some("10.9.0.2 24"));
        assert_eq!(ok("10.9.0.2/32").as_deref(), Some("10.9.0.2 32"));
        assert_eq!(ok("10.9.0.0/31").as_deref(), Some("10.9.0.0 31"));
        for wrong in [
            "10.9.0.2",
            "10.9.0.2/33",
            "10.9.0.2/0",
            "10.9.0.0/24",
            "10.9.0.255/24",
            "::1/64",
            "",
            "224.0.0.1/24",
            "127.0.0.1/8",
            "0.0.0.1/24",
            "10.9.0.2/24x",
        ] {
            assert_eq!(ok(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_ethernet_address_is_the_interfaces_or_made_up() {
        let of = |port: &str| mac(&port.parse().unwrap(), Ipv4Addr::new(10, 9, 0, 2));
        assert_eq!(of("tap:kvs0").ok(), Some(MacAddress([2, 0, 10, 9, 0, 2])));
        let refused = of("xdp:nowhere0").err().unwrap().to_string();
        assert!(refused.contains("no interface nowhere0"), "{refused}");
    }
}
