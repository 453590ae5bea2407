//! Protocols of rules, and the transports that carry them.

use std::fmt;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP of either version of IP.
    Icmp,
    /// Any other protocol.
    Other,
}

/// A set of transports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transports(u8);

impl Transports {
    /// All of them.
    pub const ALL: Transports = Transports(0b1_1111);

    /// Those of a list.
    pub const fn of(list: &[Transport]) -> Transports {
        let (mut bits, mut at) = (0, 0);
        while at < list.len() {
            bits |= 1 << list[at] as u8;
            at += 1;
        }
        Transports(bits)
    }

    /// Whether it has this one.
    pub fn contains(self, transport: Transport) -> bool {
        self.0 >> transport as u8 & 1 == 1
    }

    /// Those of either set.
    #[must_use]
    pub fn union(self, other: Transports) -> Transports {
        Transports(self.0 | other.0)
    }
}

impl fmt::Display for Transports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Transport::{Icmp, Sctp, Tcp, Udp};
        let names = [(Tcp, "TCP"), (Udp, "UDP"), (Sctp, "SCTP"), (Icmp, "ICMP")];
        let names = names.iter().filter(|(transport, _)| self.contains(*transport));
        match *self {
            Transports::ALL => f.write_str("any protocol"),
            _ => f.write_str(&names.map(|(_, name)| *name).collect::<Vec<_>>().join(" and ")),
        }
    }
}

/// The protocol of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// Its name in the rule.
    pub name: String,
    /// The transports that can carry it.
    pub transports: Transports,
}

/// Names that the language has, and what carries each.
const NAMES: [(&[&str], Transports); 6] = {
    use Transport::{Icmp, Sctp, Tcp, Udp};
    [
        (&["ip", "ip4", "ip6", "ipv4", "ipv6", "pkthdr"], Transports::ALL),
        (
            &[
                "tcp",
                "tcp-pkt",
                "tcp-stream",
                "http",
                "http1",
                "http2",
                "tls",
                "ssl",
                "ssh",
                "smtp",
                "imap",
                "ftp",
                "ftp-data",
                "smb",
                "modbus",
                "rfb",
                "mqtt",
                "telnet",
                "rdp",
                "pgsql",
                "websocket",
                "ldap",
                "pop3",
                "msn",
                "jabber",
            ],
            Transports::of(&[Tcp]),
        ),
        (
            &[
                "udp",
                "ntp",
                "dhcp",
                "snmp",
                "tftp",
                "quic",
                "ike",
                "ikev2",
                "bittorrent-dht",
                "mdns",
            ],
            Transports::of(&[Udp]),
        ),
        (&["icmp", "icmpv4", "icmpv6"], Transports::of(&[Icmp])),
        (&["sctp"], Transports::of(&[Sctp])),
        (
            &["dns", "doh2", "dcerpc", "nfs", "krb5", "sip", "dnp3", "enip", "irc"],
            Transports::of(&[Tcp, Udp]),
        ),
    ]
};

impl Protocol {
    /// The protocol of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Protocol> {
        let (_, transports) = NAMES.iter().find(|(names, _)| names.contains(&name))?;
        Some(Protocol { name: name.to_owned(), transports: *transports })
    }
}
