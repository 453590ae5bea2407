//! Headers of packets: `flags`, `dsize`, and the ends of a rule.

use std::sync::Arc;

use super::packet::InspectedPacket;
use super::signature::Unfit;
use crate::ranges::AddressSet;
use crate::rule::RuleEnd;

const SYN: u8 = 0x02;
/// FIN, SYN and RST.
const OPENS_OR_CLOSES: u8 = 0x07;
/// URG, ECE and CWR.
const UNUSUAL: u8 = 0xe0;

/// `dsize`: bytes of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PayloadSize {
    /// The least and the greatest.
    low: u16,
    high: u16,
    /// Whether all other sizes but 0 are meant.
    pub(super) negated: bool,
    /// The size that contents must fit, if Suricata checks it.
    pub(super) contents_max: Option<u16>,
}

impl PayloadSize {
    /// Reads `300<>400`, `>10`, `!0` or `128`.
    pub(super) fn read(value: &str) -> Result<PayloadSize, Unfit> {
        const EXPECTED: &str = "a size such as 128, <128, >=16, !0 or 16<>32 (17 to 31)";
        let number = |text: &str| -> Option<u16> {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number)
        };
        let range =
            |low, high, contents_max| Ok(PayloadSize { low, high, negated: false, contents_max });
        let value = value.trim();
        if let Some((low, high)) = value.split_once("<>").or_else(|| value.split_once('-')) {
            let bounds = number(low.trim_end()).zip(number(high.trim_start()));
            let (low, high) =
                bounds.filter(|(low, high)| *high > low.saturating_add(1)).ok_or(EXPECTED)?;
            return range(low + 1, high - 1, Some(high));
        }
        let operators = [">=", "<=", ">", "<", "!=", "!", "="];
        let operator = operators.into_iter().find(|operator| value.starts_with(operator));
        let rest = value[operator.map_or(0, str::len)..].trim_start();
        if let Some(size) = kilobytes(rest).filter(|_| matches!(operator, None | Some("="))) {
            return range(size, size, Some(size));
        }
        let size = number(rest).ok_or(EXPECTED)?;
        let last = u16::MAX;
        match operator {
            None | Some("=") => range(size, size, Some(size)),
            Some("<") if size > 0 => range(0, size - 1, Some(size)),
            Some("<=") if size < last => range(0, size, None),
            Some(">") if size < last => range(size + 1, last, None),
            Some(">=") if size > 0 => range(size, last, None),
            Some("!" | "!=") => {
                Ok(PayloadSize { low: size, high: size, negated: true, contents_max: Some(size) })
            }
            _ => Err(EXPECTED.into()),
        }
    }

    pub(super) fn matches(self, len: usize) -> bool {
        let is_in = (usize::from(self.low)..=usize::from(self.high)).contains(&len);
        if self.negated { len > 0 && !is_in } else { is_in }
    }
}

/// `2kb`: 2048.
fn kilobytes(text: &str) -> Option<u16> {
    let digits = text.len().checked_sub(2).and_then(|at| text.split_at_checked(at))?;
    let number: u16 = digits.0.parse().ok().filter(|_| digits.1.eq_ignore_ascii_case("kb"))?;
    number.checked_mul(1024)
}

/// `flags`: bits of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlagTest {
    flags: u8,
    /// The bits that count.
    mask: u8,
    mode: FlagMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlagMode {
    /// These and no others.
    Equal,
    /// All of these.
    All,
    /// One of these.
    Any,
    /// Not all of these.
    Not,
}

impl FlagTest {
    /// Reads `S`, `SA,12`, `+SA`, `*SF` or `!S`.
    pub(super) fn read(value: &str) -> Result<FlagTest, Unfit> {
        const EXPECTED: &str = "flags such as S, +SA, *SF, !A or SA,CE";
        let (flags_text, ignored) = match value.split_once(',') {
            Some((flags, ignored)) => (flags.trim(), Some(ignored.trim())),
            None => (value.trim(), None),
        };
        let (mut flags, mut mode, mut is_some) = (0, FlagMode::Equal, false);
        for symbol in flags_text.chars().filter(|symbol| !symbol.is_whitespace()) {
            let next = match symbol {
                '+' => FlagMode::All,
                '*' => FlagMode::Any,
                '!' => FlagMode::Not,
                '0' => {
                    (flags, is_some) = (0, true);
                    continue;
                }
                symbol => {
                    flags |= flag(symbol).ok_or(EXPECTED)?;
                    is_some = true;
                    continue;
                }
            };
            if mode != FlagMode::Equal {
                return Err("one of `+`, `*` and `!`".into());
            }
            mode = next;
        }
        let mut mask = 0xff;
        for symbol in ignored.unwrap_or_default().chars() {
            mask &= !flag(symbol).ok_or(EXPECTED)?;
        }
        if !is_some || ignored == Some("") {
            return Err(EXPECTED.into());
        }
        Ok(FlagTest { flags, mask, mode })
    }

    /// Whether flags are as the rule says. `has_pattern` tells whether a content of the rule finds
    /// candidates: Suricata tries other rules with SYN on packets with SYN alone.
    pub(super) fn matches(self, flags: u8, has_pattern: bool) -> bool {
        let needs = |bits: u8| self.flags & bits != 0 && flags & bits == 0;
        if needs(OPENS_OR_CLOSES) || needs(UNUSUAL) {
            return false;
        }
        if self.mode != FlagMode::Not && !has_pattern && needs(SYN) {
            return false;
        }
        if self.flags == 0 && flags != 0 {
            return self.mode == FlagMode::Not;
        }
        let flags = flags & self.mask;
        match self.mode {
            FlagMode::Equal => flags == self.flags,
            FlagMode::All => flags & self.flags == self.flags,
            FlagMode::Any => flags & self.flags != 0,
            FlagMode::Not => flags & self.flags != self.flags,
        }
    }
}

/// The bit of a flag.
fn flag(symbol: char) -> Option<u8> {
    Some(match symbol {
        'F' => 0x01,
        'S' => 0x02,
        'R' => 0x04,
        'P' => 0x08,
        'A' => 0x10,
        'U' => 0x20,
        '2' | 'E' => 0x40,
        '1' | 'C' => 0x80,
        _ => return None,
    })
}

/// Protocols of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocols {
    Tcp,
    Udp,
    Sctp,
    /// ICMP of IPv4, IPv6 or both.
    Icmp {
        four: bool,
        six: bool,
    },
    /// Any protocol over IPv4, IPv6 or both.
    Ip {
        four: bool,
        six: bool,
    },
}

impl Protocols {
    /// Those of a rule, by the protocol's name; `None` for those of applications and streams.
    pub(super) fn named(name: &str) -> Option<Protocols> {
        Some(match name {
            "tcp" | "tcp-pkt" => Protocols::Tcp,
            "udp" => Protocols::Udp,
            "sctp" => Protocols::Sctp,
            "icmp" => Protocols::Icmp { four: true, six: true },
            "icmpv4" => Protocols::Icmp { four: true, six: false },
            "icmpv6" => Protocols::Icmp { four: false, six: true },
            "ip" | "pkthdr" => Protocols::Ip { four: true, six: true },
            "ip4" | "ipv4" => Protocols::Ip { four: true, six: false },
            "ip6" | "ipv6" => Protocols::Ip { four: false, six: true },
            _ => return None,
        })
    }

    fn contains(self, packet: &InspectedPacket<'_>) -> bool {
        let is_six = packet.source.is_ipv6();
        match self {
            Protocols::Tcp => packet.protocol == 6,
            Protocols::Udp => packet.protocol == 17,
            Protocols::Sctp => packet.protocol == 132,
            Protocols::Icmp { four, six } => match packet.protocol {
                1 => four,
                58 => six,
                _ => false,
            },
            Protocols::Ip { four, six } => {
                if is_six {
                    six
                } else {
                    four
                }
            }
        }
    }
}

/// The header of a rule, in one direction.
#[derive(Clone, Debug)]
pub(super) struct RuleHeader {
    pub(super) protocols: Protocols,
    pub(super) source: Arc<RuleEnd>,
    pub(super) destination: Arc<RuleEnd>,
    has_source: bool,
    has_destination: bool,
}

impl RuleHeader {
    pub(super) fn new(
        protocols: Protocols,
        source: Arc<RuleEnd>,
        destination: Arc<RuleEnd>,
    ) -> RuleHeader {
        let all = AddressSet::all();
        let has = |end: &RuleEnd| end.addresses != all;
        let (has_source, has_destination) = (has(&source), has(&destination));
        RuleHeader { protocols, source, destination, has_source, has_destination }
    }

    /// Whether a packet is of this protocol, and has these ends.
    pub(super) fn matches(&self, packet: &InspectedPacket<'_>) -> bool {
        let (source, destination) = (&*self.source, &*self.destination);
        let has_ports = match packet.ports {
            Some([from, to]) => {
                (!source.names_ports || source.ports.contains(from.into()))
                    && (!destination.names_ports || destination.ports.contains(to.into()))
            }
            None => !source.names_ports && !destination.names_ports,
        };
        has_ports
            && self.protocols.contains(packet)
            && (!self.has_source || source.addresses.contains(packet.source))
            && (!self.has_destination || destination.addresses.contains(packet.destination))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_size(value: &str, len: usize) -> bool {
        PayloadSize::read(value).unwrap_or_else(|_| panic!("{value}")).matches(len)
    }

    #[test]
    fn dsize_is_a_size_or_a_range() {
        assert!(
            has_size("5", 5) && has_size("= 5", 5) && !has_size("5", 4) && has_size("1kb", 1024)
        );
        assert!(has_size("<5", 4) && !has_size("<5", 5) && has_size("<=5", 5) && has_size("<5", 0));
        assert!(has_size(">5", 6) && !has_size(">5", 5) && has_size(">=5", 5));
        assert!(has_size("5<>8", 6) && has_size("5 - 8", 7) && !has_size("5<>8", 5));
        assert!(has_size("!5", 4) && !has_size("!5", 5) && !has_size("!5", 0), "0 is none of both");
        for wrong in ["", "x", "<0", ">65535", "5<>6", "8<>5", "65536", "+5", "<1kb"] {
            assert!(PayloadSize::read(wrong).is_err(), "{wrong}");
        }
    }

    fn has_flags(value: &str, flags: u8) -> bool {
        FlagTest::read(value).unwrap_or_else(|_| panic!("{value}")).matches(flags, false)
    }

    #[test]
    fn flags_are_compared_by_their_mode() {
        assert!(has_flags("S", 0x02) && !has_flags("S", 0x12) && has_flags("SA", 0x12));
        assert!(has_flags("S,CE", 0xc2) && has_flags("S,12", 0xc2) && !has_flags("S", 0xc2));
        assert!(has_flags("+A", 0x18) && has_flags("A+", 0x18) && !has_flags("+AS", 0x18));
        assert!(has_flags("*AP", 0x10) && !has_flags("*AP", 0x02));
        assert!(has_flags("!A", 0x02) && !has_flags("!A", 0x18));
        assert!(has_flags("0", 0) && !has_flags("0", 1) && has_flags("!0", 1));
        for wrong in ["", "X", "S,", "S,X", "+!S", "s", "+"] {
            assert!(FlagTest::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn suricata_tries_rules_with_syn_on_few_packets() {
        assert!(!has_flags("!S", 0x10), "neither SYN, FIN nor RST");
        assert!(has_flags("!S", 0x11));
        assert!(!has_flags("*SA", 0x11), "no SYN");
        assert!(FlagTest::read("*SA").ok().unwrap().matches(0x11, true));
    }
}
