//! Addresses of sockets, as a user types them: with a port or without, and with an IPv6 zone.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// Why a text is no address. It says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is none, and no name that can be looked up.
    #[error("`{text}` is no address: give one such as 192.0.2.7, [2001:db8::7]:{port} or a name")]
    NoAddress {
        /// The text.
        text: String,
        /// A port that would do.
        port: u16,
    },
    /// It is a name, and nobody knows its address.
    #[error(
        "the name {name} cannot be resolved: {why}; mend it, or give an address such as 192.0.2.7"
    )]
    NoName {
        /// The name.
        name: String,
        /// The resolver's error.
        why: String,
    },
    /// A percent sign with nothing behind it.
    #[error("`{text}`: name the interface behind %; `ip link` lists those that are here")]
    EmptyZone {
        /// The text.
        text: String,
    },
    /// The zone is no interface of this machine.
    #[error("`{text}`: no interface {zone} here; `ip link` lists those that are")]
    NoInterface {
        /// The text.
        text: String,
        /// Behind the percent sign.
        zone: String,
    },
    /// Every interface has link-local addresses: one must be named.
    #[error(
        "`{text}` is link-local: add its interface, for instance {ip}%eth0 or [{ip}%eth0]:{port}"
    )]
    NoZone {
        /// The text.
        text: String,
        /// The address.
        ip: Ipv6Addr,
        /// A port that would do.
        port: u16,
    },
    /// The address has no zones.
    #[error("`{text}` names an interface, which only link-local addresses have; leave %{zone} out")]
    ZoneOfNone {
        /// The text.
        text: String,
        /// Behind the percent sign.
        zone: String,
    },
}

/// Reads an address with a port, or without one, which is `port` then; or the name of a host. A
/// link-local address has the zone that RFC 4007 (section 11) asks for, an interface's name or
/// number: `fe80::1%eth0`, `[fe80::1%2]:9`; in brackets also as RFC 6874 writes it in a URI
/// (`%25eth0`).
///
/// # Errors
/// [`AddressError`].
pub fn read(text: &str, port: u16) -> Result<SocketAddr, AddressError> {
    let no_address = || AddressError::NoAddress { text: text.to_owned(), port };
    let (host, own_port) = split(text).ok_or_else(no_address)?;
    let given = own_port.unwrap_or(port);
    let (bare, zone) = match host.split_once('%') {
        Some((bare, zone)) => (bare, Some(zone)),
        None => (host, None),
    };
    let ip = match (bare.parse::<IpAddr>(), zone) {
        (Ok(IpAddr::V6(ip)), zone) => return of_v6(text, (ip, given), zone, port),
        (Ok(ip), None) => ip,
        (Ok(IpAddr::V4(_)), Some(zone)) => {
            return Err(AddressError::ZoneOfNone { text: text.to_owned(), zone: zone.to_owned() });
        }
        (Err(_), Some(_)) => return Err(no_address()),
        (Err(_), None) if text.starts_with('[') => return Err(no_address()),
        (Err(_), None) => {
            let found = (host, given).to_socket_addrs();
            let why = match found.map(|mut all| all.next()) {
                Ok(Some(address)) => return Ok(address),
                Ok(None) => "it has no address".to_owned(),
                Err(error) => error.to_string(),
            };
            let no_name = AddressError::NoName { name: host.to_owned(), why };
            return Err(if is_name(host) { no_name } else { no_address() });
        }
    };
    Ok(SocketAddr::new(ip, given))
}

/// Whether an address, as [`read`] takes it, has a port of its own.
pub fn has_port(text: &str) -> bool {
    split(text).is_some_and(|(_, port)| port.is_some())
}

/// `true` of what can be the name of a host: words between dots, of which the last is no number
/// (RFC 1123, section 2.1).
fn is_name(host: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut words = host.strip_suffix('.').unwrap_or(host).split('.');
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    words.clone().all(|word| !word.is_empty() && word.chars().all(is_part))
        && words.next_back().is_some_and(|last| !is_number(last))
}

/// An address as a user types it: its zone is the name of the interface, not its number.
pub fn display(address: SocketAddr) -> String {
    let name = match address {
        SocketAddr::V6(of) if of.scope_id() != 0 => interface(of.scope_id()),
        _ => None,
    };
    match name {
        Some(name) => format!("[{}%{name}]:{}", address.ip(), address.port()),
        None => address.to_string(),
    }
}

/// The host and the port, where there is one. An address of IPv6 has a port in brackets alone.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, behind) = rest.split_once(']')?;
        return match behind.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => behind.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Some((host, Some(port.parse().ok()?))),
        _ => (!text.is_empty()).then_some((text, None)),
    }
}

fn of_v6(
    text: &str,
    (ip, given): (Ipv6Addr, u16),
    zone: Option<&str>,
    port: u16,
) -> Result<SocketAddr, AddressError> {
    // Of one link: unicast (RFC 4291, 2.5.6), and multicast of the interface and link (2.7).
    let is_of_link =
        ip.is_unicast_link_local() || matches!(ip.segments()[0] & 0xff0f, 0xff01 | 0xff02);
    let text = || text.to_owned();
    let index = match zone {
        None if is_of_link => return Err(AddressError::NoZone { text: text(), ip, port }),
        None => 0,
        Some(zone) if !is_of_link => {
            return Err(AddressError::ZoneOfNone { text: text(), zone: zone.to_owned() });
        }
        Some("") => return Err(AddressError::EmptyZone { text: text() }),
        Some(zone) => index_of(zone)
            .or_else(|| index_of(zone.strip_prefix("25").filter(|_| text().starts_with('['))?))
            .ok_or_else(|| AddressError::NoInterface { text: text(), zone: zone.to_owned() })?,
    };
    Ok(SocketAddrV6::new(ip, given, 0, index).into())
}

/// The name of the interface of that number, of the calling thread's namespace; 0 is none.
pub(crate) fn interface(index: u32) -> Option<String> {
    netdevice::index_to_name(&asking()?, index).ok()
}

/// A socket that the kernel can be asked by.
fn asking() -> Option<OwnedFd> {
    [AddressFamily::INET6, AddressFamily::INET]
        .into_iter()
        .find_map(|family| socket(family, SocketType::DGRAM, None).ok())
}

/// The number of an interface of the calling thread's namespace, by its name or number.
fn index_of(zone: &str) -> Option<u32> {
    let socket = asking()?;
    if let Ok(index) = netdevice::name_to_index(&socket, zone) {
        return Some(index);
    }
    let index = zone.parse().ok()?;
    netdevice::index_to_name(&socket, index).is_ok().then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(text: &str) -> Result<String, String> {
        read(text, 17_007).map(|address| address.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_has_a_port_or_the_usual_one() {
        for (text, address) in [
            ("192.0.2.7", "192.0.2.7:17007"),
            ("192.0.2.7:9", "192.0.2.7:9"),
            ("2001:db8::7", "[2001:db8::7]:17007"),
            ("[2001:db8::7]", "[2001:db8::7]:17007"),
            ("[2001:db8::7]:9", "[2001:db8::7]:9"),
            ("::", "[::]:17007"),
            ("::ffff:192.0.2.7", "[::ffff:192.0.2.7]:17007"),
        ] {
            assert_eq!(read_as(text).as_deref(), Ok(address));
        }
        let none = [
            "",
            ":",
            ":9",
            "[",
            "]",
            "[]",
            "[]:9",
            "[::1",
            "[::1]9",
            "[::1]:",
            "[::1]:x",
            "%lo",
            "[::1]:65536",
            "192.0.2.7:",
            "192.0.2.7:65536",
            "[no such host]:9",
            "no such host",
            "nobody%lo:9",
            "192.0.2.300",
            "a..b",
        ];
        for text in none {
            let error = read_as(text).unwrap_err();
            assert!(error.contains(&format!("`{text}` is no address: give one")), "{error}");
        }
    }

    #[test]
    fn a_name_that_nobody_knows_is_a_name() {
        for text in ["nosuch.invalid", "nosuch.invalid:9"] {
            let error = read_as(text).unwrap_err();
            assert!(error.starts_with("the name nosuch.invalid cannot be resolved: "), "{error}");
        }
    }

    #[test]
    fn a_link_local_address_has_its_interface_by_name_or_number() {
        // The loopback interface is there in every namespace, and is the first.
        for (text, address) in [
            ("fe80::7%lo", "[fe80::7%1]:17007"),
            ("fe80::7%1", "[fe80::7%1]:17007"),
            ("[fe80::7%lo]", "[fe80::7%1]:17007"),
            ("[fe80::7%lo]:9", "[fe80::7%1]:9"),
            ("[fe80::7%1]:9", "[fe80::7%1]:9"),
            ("[fe80::7%25lo]:9", "[fe80::7%1]:9"),
            ("[febf::7%251]:9", "[febf::7%1]:9"),
            ("ff02::1%lo", "[ff02::1%1]:17007"),
        ] {
            assert_eq!(read_as(text).as_deref(), Ok(address));
        }
        let empty = read_as("[fe80::7%]:9").unwrap_err();
        assert!(empty.starts_with("`[fe80::7%]:9`: name the interface behind %"), "{empty}");
        for address in ["[fe80::7%lo]:9", "[2001:db8::7]:9", "192.0.2.7:9"] {
            assert_eq!(display(read(address, 9).unwrap()), address);
        }
        for zone in ["nowhere", "0", "4294967295", "4294967296", "-1", "lo%lo", "25lo"] {
            let text = format!("fe80::7%{zone}");
            let error = read_as(&text).unwrap_err();
            let right = format!("`{text}`: no interface {zone} here; `ip link` lists");
            assert!(error.starts_with(&right), "{error}");
        }
        let error = read_as("[fe80::7]:9").unwrap_err();
        let remedy = "is link-local: add its interface, for instance fe80::7%eth0";
        assert!(error.contains(remedy), "{error}");
        for text in ["[2001:db8::7%lo]:9", "::%lo", "192.0.2.7%lo", "192.0.2.7%lo:9"] {
            let error = read_as(text).unwrap_err();
            assert!(error.contains("only link-local addresses have; leave %lo"), "{error}");
        }
    }
}
