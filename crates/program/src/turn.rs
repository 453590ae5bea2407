//! A frame is turned round: what was its source is its destination, and the other way round.
//!
//! Ethernet addresses, those of IPv4 and IPv6, and the ports of UDP and TCP change places. The sums
//! of RFC 1071 over them stay as they are, for these do not see the order of words.

const ETHERTYPE: usize = 12;
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Tags that are looked behind.
const VLAN_TAGS_MAX: usize = 2;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Turns a frame round. What is cut off, a fragment but the first, or behind other headers of IPv6
/// keeps its ports; what is no IP keeps all but the addresses of Ethernet.
pub(crate) fn turn(frame: &mut [u8]) {
    exchange(frame, 0, 6);
    let word = |frame: &[u8], at: usize| match frame.get(at..at + 2) {
        Some(pair) => u16::from_be_bytes([pair[0], pair[1]]),
        None => 0,
    };
    let mut at = ETHERTYPE;
    for _ in 0..VLAN_TAGS_MAX {
        at += if VLAN_TAGS.contains(&word(frame, at)) { 4 } else { 0 };
    }
    let ip = at + 2;
    let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
    let ports = match word(frame, at) {
        IPV4 => {
            let (head, protocol) = (usize::from(byte(ip) & 0xf) * 4, byte(ip + 9));
            let is_first = word(frame, ip + 6) & 0x1fff == 0;
            exchange(frame, ip + 12, 4);
            (is_first && head >= 20 && matches!(protocol, TCP | UDP)).then_some(ip + head)
        }
        IPV6 => {
            let protocol = byte(ip + 6);
            exchange(frame, ip + 8, 16);
            matches!(protocol, TCP | UDP).then_some(ip + 40)
        }
        _ => None,
    };
    if let Some(ports) = ports {
        exchange(frame, ports, 2);
    }
}

/// Two stretches of so many bytes, the first at `at`, change places, if both are there.
fn exchange(frame: &mut [u8], at: usize, len: usize) {
    if let Some(both) = frame.get_mut(at..at + 2 * len) {
        let (first, second) = both.split_at_mut(len);
        first.swap_with_slice(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(hex: &str) -> String {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let mut frame: Vec<u8> = digits.chunks(2).map(byte).collect();
        turn(&mut frame);
        frame.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn plain(hex: &str) -> String {
        hex.replace(' ', "")
    }

    #[test]
    fn addresses_and_ports_change_places() {
        let ipv4 = "4500001c00000000 4011 abcd 0a000001 0a000002";
        let back = "4500001c00000000 4011 abcd 0a000002 0a000001";
        for tag in ["", "8100 0064", "88a8 0001 8100 0064"] {
            let there = format!("02aaaaaaaaaa 02bbbbbbbbbb {tag} 0800 {ipv4} 1111 2222 0008 1234");
            let here = format!("02bbbbbbbbbb 02aaaaaaaaaa {tag} 0800 {back} 2222 1111 0008 1234");
            assert_eq!(turned(&there), plain(&here), "{tag}");
        }
        let ipv6 = |a: &str, b: &str, next: &str| format!("86dd 60000000 0008 {next} 40 {a} {b}");
        let (a, b) = ("fe80".repeat(8), "2001".repeat(8));
        let there = format!("02aaaaaaaaaa 02bbbbbbbbbb {} 1111 2222", ipv6(&a, &b, "06"));
        let here = format!("02bbbbbbbbbb 02aaaaaaaaaa {} 2222 1111", ipv6(&b, &a, "06"));
        assert_eq!(turned(&there), plain(&here));
        let there = format!("02aaaaaaaaaa 02bbbbbbbbbb {} 1111 2222", ipv6(&a, &b, "2c"));
        let here = format!("02bbbbbbbbbb 02aaaaaaaaaa {} 1111 2222", ipv6(&b, &a, "2c"));
        assert_eq!(turned(&there), plain(&here), "a fragment");
    }

    #[test]
    fn what_has_no_ports_or_is_cut_off_keeps_the_rest() {
        let cases = [
            // A later fragment, ICMP, and options before the ports.
            (
                "0800 4500001c00002001 4011 0000 0a000001 0a000002 11112222",
                "0800 4500001c00002001 4011 0000 0a000002 0a000001 11112222",
            ),
            (
                "0800 4500001c00000000 4001 0000 0a000001 0a000002 11112222",
                "0800 4500001c00000000 4001 0000 0a000002 0a000001 11112222",
            ),
            (
                "0800 4600001c00000000 4006 0000 0a000001 0a000002 01020304 11112222",
                "0800 4600001c00000000 4006 0000 0a000002 0a000001 01020304 22221111",
            ),
            (
                "0800 4500001c00000000 4011 0000 0a000001 0a00",
                "0800 4500001c00000000 4011 0000 0a000001 0a00",
            ),
            ("0806 0001", "0806 0001"),
        ];
        for (there, here) in cases {
            let there = format!("02aaaaaaaaaa 02bbbbbbbbbb {there}");
            let here = format!("02bbbbbbbbbb 02aaaaaaaaaa {here}");
            assert_eq!(turned(&there), plain(&here), "{there}");
        }
        assert_eq!(turned("02aaaaaaaaaa02bb"), "02aaaaaaaaaa02bb");
        assert_eq!(turned(""), "");
    }
}
