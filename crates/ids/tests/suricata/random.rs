//! Rules and packets from a seed, so that many of the rules match some of the packets.

use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{ethernet, icmp, ipv4, ipv6, tcp, udp, vlan};

/// Numbers from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count
    }

    /// `true` one time of `count`.
    fn one_of(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn choose<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Bytes of payloads: letters of both cases, digits, blanks, and bytes that are no text.
const BYTES: &[u8] = b"aabbcABC012xf \n/\0\xff";

/// Short contents that payloads are made of.
pub fn contents(random: &mut Random) -> Vec<Vec<u8>> {
    let content = |random: &mut Random| {
        let len = 1 + random.below(5);
        (0..len).map(|_| BYTES[random.below(BYTES.len())]).collect()
    };
    (0..24).map(|_| content(random)).collect()
}

/// A rule, which the engine may lack something for.
pub fn rule(random: &mut Random, sid: usize, contents: &[Vec<u8>]) -> String {
    let action = random.choose(&["alert", "alert", "alert", "alert", "alert", "alert", "drop"]);
    let action = if random.one_of(60) { "pass" } else { action };
    let protocols =
        ["tcp-pkt", "tcp-pkt", "udp", "udp", "icmp", "ip", "tcp", "icmpv4", "ip6", "ip4"];
    let protocol = random.choose(&protocols);
    let addresses = [
        "any",
        "any",
        "any",
        "any",
        "10.0.0.0/30",
        "[10.0.0.0/8,!10.0.0.2]",
        "!10.0.0.1",
        "[!10.0.0.1,!10.0.0.2]",
        "$EXTERNAL_NET",
        "!$HOME_NET",
    ];
    let six = ["any", "any", "fd00::/64", "[fd00::1,10.0.0.0/30]", "[10.0.0.0/30,!fd00::1]"];
    let address = |random: &mut Random| {
        let is_six = random.one_of(5);
        random.choose(if is_six { &six[..] } else { &addresses[..] })
    };
    let [source, destination] = [address(random), address(random)];
    let ports = ["any", "any", "any", "any", "20001", "[20000:20002,20005]", "!20001", "20003:"];
    let has_ports = !protocol.starts_with("icmp");
    let port = |random: &mut Random| if has_ports { random.choose(&ports) } else { "any" };
    let (from, to) = (port(random), port(random));
    let direction = if random.one_of(6) { "<>" } else { "->" };
    let mut options = String::new();
    let needs_packets = protocol == "tcp" || protocol.starts_with("ip");
    if needs_packets || random.one_of(5) {
        options += &format!("dsize:{}; ", size(random));
    }
    let mut to = to;
    if protocol.starts_with("tcp") && random.one_of(3) {
        let flags = flags(random);
        // Suricata matches SYN alone, to given ports, by the direction of the flow.
        to = if flags.contains('S') { "any" } else { to };
        options += &format!("flags:{flags}; ");
    }
    let count = 1 + random.below(4);
    for at in 0..count {
        options += &test(random, at, contents);
    }
    if random.one_of(8) {
        options += &format!("priority:{}; ", 1 + random.below(4));
    }
    if random.one_of(40) {
        options += "noalert; ";
    }
    format!(
        "{action} {protocol} {source} {from} {direction} {destination} {to} ({options}sid:{sid};)"
    )
}

fn size(random: &mut Random) -> String {
    let size = random.below(60);
    match random.below(6) {
        0 => format!("{size}"),
        1 => format!("!{size}"),
        2 => format!("<{}", size + 1),
        3 => format!(">={}", 1 + size / 4),
        4 => format!("{}<>{}", size / 2, size + 20),
        _ => format!(">{}", size / 4),
    }
}

fn flags(random: &mut Random) -> &'static str {
    let all =
        ["S", "SA", "A", "+A", "PA", "*SF", "*SA", "!S", "!A", "F", "R+", "S,CE", "0", "!0", "U"];
    random.choose(&all)
}

/// A test of the payload.
fn test(random: &mut Random, at: usize, contents: &[Vec<u8>]) -> String {
    let is_relative = at > 0 && random.one_of(2);
    match random.below(12) {
        0..=6 => content(random, at, contents),
        7..=8 => pcre(random, is_relative),
        9 => {
            let negated = if random.one_of(2) { "!" } else { "" };
            let relative = if is_relative { ",relative" } else { "" };
            format!("isdataat:{negated}{}{relative}; ", random.below(30))
        }
        10 => byte_test(random, is_relative),
        _ => byte_jump(random, is_relative),
    }
}

fn content(random: &mut Random, at: usize, contents: &[Vec<u8>]) -> String {
    let bytes = &contents[random.below(contents.len())];
    let negated = if random.one_of(6) { "!" } else { "" };
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut text = format!("content:{negated}\"|{}|\"; ", hex.join(" "));
    if random.one_of(3) {
        text += "nocase; ";
    }
    let len = bytes.len();
    match random.below(6) {
        0 => text += &format!("depth:{}; ", len + random.below(30)),
        1 => text += &format!("offset:{}; depth:{}; ", random.below(20), len + random.below(20)),
        2 if random.one_of(2) => text += "startswith; ",
        2 => text += &format!("offset:{}; ", random.below(20)),
        _ if at > 0 && random.below(4) > 0 => {
            let distance = random.below(12) as i64 - 3;
            let within = (len + random.below(12)) as i64;
            match random.below(3) {
                0 => text += &format!("distance:{distance}; "),
                1 => text += &format!("within:{within}; "),
                _ => text += &format!("distance:{distance}; within:{within}; "),
            }
        }
        _ => {}
    }
    if random.one_of(8) {
        text += "endswith; ";
    }
    text
}

fn pcre(random: &mut Random, is_relative: bool) -> String {
    let parts = [
        "a",
        "b+",
        "[a-c]{2}",
        "x?",
        ".",
        "\\d",
        "\\w+",
        "\\s",
        "[^a]",
        "(a|B0)",
        "(?:b|c)*?",
        "^a",
        "\\x00",
        "\\bx",
        "f$",
        "0{1,2}",
        "A.c",
        "[[:upper:]]",
        "a.*b",
        "(?i)abc",
    ];
    let count = 1 + random.below(3);
    let mut text = String::new();
    for _ in 0..count {
        text += random.choose(&parts);
    }
    let mut flags = String::new();
    for (flag, often) in [('i', 3), ('s', 3), ('m', 6), ('A', 8), ('G', 8), ('E', 4)] {
        if random.one_of(often) {
            flags.push(flag);
        }
    }
    if is_relative {
        flags.push('R');
    }
    let negated = if random.one_of(6) { "!" } else { "" };
    format!("pcre:{negated}\"/{text}/{flags}\"; ")
}

fn byte_test(random: &mut Random, is_relative: bool) -> String {
    let operator = random.choose(&["=", "!=", "<", ">", "<=", ">=", "&", "!&", "^"]);
    let offset = random.below(16) as i64 - if is_relative { 4 } else { 0 };
    let (len, mut options) = match random.below(3) {
        0 => {
            let base = random.choose(&["", ",dec", ",hex", ",oct"]);
            (1 + random.below(4), format!(",string{base}"))
        }
        1 => (1 + random.below(4), ",little".to_owned()),
        _ => (1 + random.below(8), String::new()),
    };
    if is_relative {
        options += ",relative";
    }
    if random.one_of(4) {
        options += ",bitmask 0xf0";
    }
    let value = random.choose(&["0", "1", "12", "0x61", "0x6162", "2000000"]);
    format!("byte_test:{len},{operator},{value},{offset}{options}; ")
}

fn byte_jump(random: &mut Random, is_relative: bool) -> String {
    let offset = random.below(10) as i64 - if is_relative { 3 } else { 0 };
    let (len, mut options) = match random.below(3) {
        0 => (1 + random.below(3), ",string,dec".to_owned()),
        1 => (1 + random.below(2), ",little".to_owned()),
        _ => (random.below(3), String::new()),
    };
    for (option, often) in [
        (",align", 4),
        (",multiplier 2", 5),
        (",post_offset -90", 3),
        (",post_offset 3", 6),
        (if is_relative { ",relative" } else { ",from_beginning" }, 1),
    ] {
        if random.one_of(often) && !(option.contains("post") && options.contains("post")) {
            options += option;
        }
    }
    if random.one_of(5) && !options.contains("from_beginning") {
        options += ",from_end";
    }
    format!("byte_jump:{len},{offset}{options}; ")
}

/// A frame with contents in its payload.
pub fn frame(random: &mut Random, contents: &[Vec<u8>]) -> Vec<u8> {
    let mut layers: Vec<Layer> = vec![ethernet::Repr::default().into()];
    if random.one_of(10) {
        layers.push(vlan::Repr::default().into());
    }
    let is_six = random.one_of(4);
    let [from, to] = [random.below(4), random.below(4)];
    if is_six {
        let [src, dst] = [from, to].map(|host| format!("fd00::{host}").parse().unwrap());
        layers.push(ipv6::Repr { src, dst, hop_limit: 64, ..Default::default() }.into());
    } else {
        let [src, dst] = [from, to].map(|host| format!("10.0.0.{host}").parse().unwrap());
        layers.push(ipv4::Repr { src, dst, ttl: 64, ..Default::default() }.into());
    }
    let [src_port, dst_port] = [0; 2].map(|_| 20000 + random.below(7) as u16);
    match random.below(5) {
        0 | 1 => {
            let flags = [0x02, 0x12, 0x10, 0x18, 0x11, 0x14, 0x19, 0xc2, 0x20, 0, 0x38];
            let flags = tcp::Flags(flags[random.below(flags.len())]);
            let sequence = random.below(1 << 20) as u32;
            let header = tcp::Repr { src_port, dst_port, sequence, flags, ..Default::default() };
            layers.push(header.into());
        }
        2 if !is_six => layers.push(icmp::Repr::echo_request(7, 1).into()),
        _ => layers.push(udp::Repr { src_port, dst_port, ..Default::default() }.into()),
    }
    let payload = payload(random, contents);
    if !payload.is_empty() {
        layers.push(Layer::Payload(payload));
    }
    build(&layers).unwrap()
}

fn payload(random: &mut Random, contents: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..random.below(14) {
        match random.below(3) {
            0 => payload.push(BYTES[random.below(BYTES.len())]),
            _ => payload.extend(&contents[random.below(contents.len())]),
        }
    }
    payload
}
