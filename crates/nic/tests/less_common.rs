//! Items that few rules have, against frames whose bytes are written out. The property test of
//! `definition` compares them with the definition.

use niclab_nic::rule::Pattern;
use niclab_nic::rule::text::{Command, Parser};

fn compile(text: &str) -> Result<Pattern, String> {
    let line = format!("flow create 0 ingress pattern {text} / end actions drop / end");
    let mut parser = Parser::default();
    let parsed = parser.parse(1, &line).map_err(|error| error.problem().to_string())?;
    let Command::Create { rule, .. } = parsed.command else { panic!("{line}") };
    parsed.pattern(&rule).map_err(|error| error.problem().to_string())
}

/// Checks which of these patterns match a frame.
fn check(frame: &[u8], hits: &[&str], misses: &[&str]) {
    let matches =
        |text: &&str| compile(text).unwrap_or_else(|e| panic!("{text}: {e}")).matches(frame);
    for text in hits {
        assert!(matches(text), "{text} misses {frame:02x?}");
    }
    for text in misses {
        assert!(!matches(text), "{text} hits {frame:02x?}");
    }
}

/// Ethernet with this type, and what follows.
fn ethernet(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    [&addresses[..], &ether_type.to_be_bytes(), packet].concat()
}

fn ipv4(protocol: u8, segment: &[u8]) -> Vec<u8> {
    let len = (20 + segment.len() as u16).to_be_bytes();
    let head = [0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&head[..], segment].concat()
}

fn ipv6(next: u8, segment: &[u8]) -> Vec<u8> {
    let len = (segment.len() as u16).to_be_bytes();
    let mut head = vec![0x60, 0, 0, 0, len[0], len[1], next, 64];
    head.extend([[0; 15].as_slice(), &[1], &[0; 15], &[2]].concat());
    [head, segment.to_vec()].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    [&[0, 9, high, low, 0, 0, 0, 0][..], payload].concat()
}

#[test]
fn sctp_has_ports_and_a_tag() {
    let header = [0x0b, 0x59, 0x0b, 0x5a, 1, 2, 3, 4, 0, 0, 0, 0];
    for frame in [ethernet(0x0800, &ipv4(132, &header)), ethernet(0x86dd, &ipv6(132, &header))] {
        let hits = ["sctp", "sctp src is 2905 dst is 2906", "sctp tag is 0x01020304"];
        check(&frame, &hits, &["sctp tag is 0x01020305", "sctp dst is 2905", "tcp", "udp"]);
        check(&frame, &["sctp dst is 2900 dst last 3000"], &["sctp dst is 2907 dst last 3000"]);
        // The tag is cut off, the ports are not.
        let cut = &frame[..frame.len() - 5];
        check(
            cut,
            &["sctp src is 2905"],
            &["sctp tag spec 0 tag mask 1", "sctp tag is 0x01020304"],
        );
    }
}

#[test]
fn esp_and_ah_have_an_spi() {
    let esp = [0, 0, 0x10, 1, 0, 0, 0, 7];
    let frame = ethernet(0x0800, &ipv4(50, &esp));
    let hits =
        ["eth / ipv4 / esp", "ipv4 / esp spi is 0x1001", "ipv4 / esp spi is 1 spi last 5000"];
    check(&frame, &hits, &["ipv4 / esp spi is 0x1002", "ipv4 / ah", "ipv6 / esp"]);
    check(&frame[..frame.len() - 1], &["ipv4 proto is 50"], &["ipv4 / esp"]);
    let ah = [59, 1, 0, 0, 0, 0, 0x20, 2, 0, 0, 0, 7];
    let frame = ethernet(0x86dd, &ipv6(51, &ah));
    check(&frame, &["ipv6 / ah spi is 0x2002"], &["ipv6 / ah spi is 0x2003", "ipv6 / esp"]);
    check(&frame[..frame.len() - 1], &[], &["ipv6 / ah"]);
}

#[test]
fn arp_has_four_addresses() {
    let arp =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let tagged = ethernet(0x8100, &[&[0, 5, 8, 6][..], &arp].concat());
    for frame in [ethernet(0x0806, &arp), tagged] {
        let hits = [
            "eth / arp_eth_ipv4",
            "arp_eth_ipv4 sha is 02:00:00:00:00:02 spa is 10.0.0.1",
            "arp_eth_ipv4 tha is 00:00:00:00:00:00 tpa spec 10.0.0.0 tpa prefix 24",
            "arp_eth_ipv4 tpa is 10.0.0.0 tpa last 10.0.0.3",
        ];
        check(&frame, &hits, &["arp_eth_ipv4 spa is 10.0.0.2", "ipv4", "eth / pppoes"]);
        let mut other = frame.clone();
        let at = frame.len() - 28;
        other[at + 1] = 6;
        check(&other, &[], &["arp_eth_ipv4"]);
        check(&frame[..frame.len() - 1], &[], &["arp_eth_ipv4"]);
    }
}

#[test]
fn a_fragment_header_has_an_offset_and_a_number() {
    let header = [17, 0, 0, 1, 0x11, 0x22, 0x33, 0x44];
    let frame = ethernet(0x86dd, &ipv6(44, &[&header[..], &udp(53, &[])].concat()));
    let hits = [
        "ipv6 / ipv6_frag_ext",
        "ipv6 / ipv6_frag_ext packet_id is 0x11223344 next_hdr is 17 frag_data is 1",
        "ipv6 / ipv6_frag_ext / udp dst is 53",
        "ipv6 has_frag_ext is 1 / udp dst is 53",
    ];
    let misses =
        ["ipv6 / ipv6_frag_ext packet_id is 0x11223345", "ipv6 / ipv6_frag_ext frag_data is 0"];
    check(&frame, &hits, &misses);
    check(&ethernet(0x86dd, &ipv6(17, &udp(53, &[]))), &["ipv6 / udp"], &["ipv6 / ipv6_frag_ext"]);
}

#[test]
fn a_session_of_pppoe_carries_ip() {
    let session = |version: u8, code: u8, kind: u8, packet: &[u8]| {
        let head = [version, code, 0, 5, 0, 0, 0, kind];
        ethernet(0x8864, &[&head[..], packet].concat())
    };
    let inside = ipv4(17, &udp(53, &[]));
    let frame = session(0x11, 0, 0x21, &inside);
    let hits = ["eth / pppoes", "eth / pppoes seid is 5 / ipv4 dst is 10.0.0.2 / udp dst is 53"];
    check(
        &frame,
        &hits,
        &["eth / pppoes seid is 6", "eth / pppoed", "eth / ipv4", "pppoes / ipv6"],
    );
    check(&session(0x12, 0, 0x21, &inside), &["eth type is 0x8864"], &["eth / pppoes"]);
    check(&session(0x11, 9, 0x21, &inside), &["eth / pppoes"], &["eth / pppoes / ipv4"]);
    check(&session(0x11, 0, 0xc0, &inside), &["eth / pppoes"], &["eth / pppoes / ipv4"]);
    let frame = session(0x11, 0, 0x57, &ipv6(17, &udp(53, &[])));
    check(&frame, &["pppoes / ipv6 / udp dst is 53"], &["pppoes / ipv4"]);
}

#[test]
fn nvgre_is_gre_with_a_key_and_a_frame() {
    let inside = ethernet(0x0800, &ipv4(17, &udp(53, &[])));
    let gre = |flags: u8, kind: u16| {
        let head = [&[flags, 0][..], &kind.to_be_bytes(), &[0, 0, 5, 9]].concat();
        ethernet(0x0800, &ipv4(47, &[head, inside.clone()].concat()))
    };
    let hits = [
        "ipv4 / nvgre",
        "ipv4 / nvgre tni is 5 / eth dst is 02:00:00:00:00:01 / ipv4 / udp dst is 53",
        "ipv4 / nvgre tni is 5 / ipv4 dst is 10.0.0.2",
        "ipv4 / gre / gre_key value is 0x509",
    ];
    check(&gre(0x20, 0x6558), &hits, &["ipv4 / nvgre tni is 6"]);
    check(&gre(0x20, 0x0800), &["ipv4 / gre / gre_key"], &["ipv4 / nvgre"]);
    check(&gre(0x30, 0x6558), &["ipv4 / gre / gre_key"], &["ipv4 / nvgre"]);
}

#[test]
fn vxlan_gpe_says_what_it_carries() {
    let gpe = |flags: u8, kind: u8, inside: &[u8]| {
        let head = [flags, 0, 0, kind, 0, 0, 5, 0];
        ethernet(0x0800, &ipv4(17, &udp(4_790, &[&head[..], inside].concat())))
    };
    let packet = ipv4(17, &udp(53, &[]));
    let frame = ethernet(0x0800, &packet);
    let pattern = "ipv4 / udp / vxlan-gpe vni is 5";
    let (bridged, routed) = (format!("{pattern} / eth / ipv4 / udp"), format!("{pattern} / ipv4"));
    check(
        &gpe(0x0c, 3, &frame),
        &[pattern, &bridged, &routed],
        &["ipv4 / udp / vxlan-gpe vni is 6"],
    );
    check(&gpe(0x08, 0, &frame), &[&bridged], &[]);
    check(&gpe(0x0c, 1, &packet), &[&routed], &[&bridged]);
    check(&gpe(0x0c, 4, &packet), &[pattern], &[&routed]);
    check(&gpe(0x04, 3, &frame), &["ipv4 / udp dst is 4790"], &[pattern]);
    check(&gpe(0x1c, 3, &frame), &["ipv4 / udp dst is 4790"], &[pattern]);
}

#[test]
fn gtp_carries_packets_behind_its_extension_headers() {
    let packet = ipv4(17, &udp(53, &[]));
    let gtp = |port: u16, head: &[u8], inside: &[u8]| {
        let head = [&head[..2], &[0, 0, 0, 0, 0x12, 0x34], &head[2..]].concat();
        ethernet(0x0800, &ipv4(17, &udp(port, &[head, inside.to_vec()].concat())))
    };
    let plain = gtp(2_152, &[0x30, 255], &packet);
    let hits = [
        "ipv4 / udp / gtpu teid is 0x1234 / ipv4 dst is 10.0.0.2 / udp dst is 53",
        "ipv4 / udp / gtp msg_type is 255",
        "ipv4 / udp / gtpu teid is 0x1000 teid last 0x2000",
    ];
    let misses =
        ["ipv4 / udp / gtpc", "ipv4 / udp / gtpu teid is 1", "ipv4 / udp / gtpu / gtp_psc"];
    check(&plain, &hits, &misses);
    let container = [0x34, 255, 0, 0, 0, 0x85, 1, 0x10, 0x49, 0];
    let hits = [
        "ipv4 / udp / gtpu / gtp_psc qfi is 9 pdu_t is 1 / ipv4 / udp dst is 53",
        "ipv4 / udp / gtpu v_pt_rsv_flags is 0x34 / ipv4",
    ];
    let misses = ["ipv4 / udp / gtpu / gtp_psc qfi is 8", "ipv4 / udp / gtpu / gtp_psc pdu_t is 0"];
    check(&gtp(2_152, &container, &packet), &hits, &misses);
    // An extension header without a length has no end.
    let endless = [0x34, 255, 0, 0, 0, 0x85, 0, 0x10, 9, 0];
    let misses = ["ipv4 / udp / gtpu / gtp_psc", "ipv4 / udp / gtpu / ipv4"];
    check(&gtp(2_152, &endless, &packet), &["ipv4 / udp / gtpu"], &misses);
    check(&gtp(2_152, &[0x30, 1], &packet), &["ipv4 / udp / gtpu"], &["ipv4 / udp / gtpu / ipv4"]);
    let misses = ["ipv4 / udp / gtpu", "ipv4 / udp / gtp / ipv4"];
    check(&gtp(2_123, &[0x32, 16], &packet), &["ipv4 / udp / gtpc", "ipv4 / udp / gtp"], &misses);
    check(&gtp(2_123, &[0x48, 32], &packet), &[], &["ipv4 / udp / gtpc", "ipv4 / udp / gtp"]);
}

#[test]
fn what_no_frame_has_is_refused() {
    for (text, said) in [
        ("eth type is 0x0800 / arp_eth_ipv4", "the type before arp_eth_ipv4 is 0x0800"),
        ("ipv4 / arp_eth_ipv4", "arp_eth_ipv4 stands behind ipv4"),
        ("ipv4 proto is 6 / sctp", "the proto before sctp is 6; that of sctp is 132"),
        ("ipv4 fragment_offset is 1 / esp", "a later fragment has no esp"),
        ("eth / esp", "esp stands behind eth; put ipv4"),
        ("ipv4 / ah / tcp", "tcp stands behind ah"),
        ("ipv4 / ipv6_frag_ext", "ipv6_frag_ext stands behind ipv4"),
        ("ipv4 / pppoes", "pppoes stands behind ipv4"),
        ("pppoed / ipv4", "ipv4 stands behind pppoed"),
        ("ipv4 / gtpu", "gtpu stands behind ipv4; put udp between"),
        ("ipv4 / udp dst is 53 / gtpu", "the udp dst before gtpu is not 2152"),
        ("ipv4 / udp dst is 2123 / gtpu", "the udp dst before gtpu is not 2152"),
        ("ipv4 / udp dst is 4789 / vxlan-gpe", "the udp dst before vxlan-gpe is not 4790"),
        ("ipv4 / udp / gtpc / ipv4", "ipv4 stands behind gtpc"),
        ("ipv4 / udp / gtp_psc", "gtp_psc stands behind udp"),
        ("ipv4 / udp / gtpu v_pt_rsv_flags is 0x48", "v_pt_rsv_flags are 0x30 to 0x3f"),
        ("ipv4 / udp / gtpu teid is 0x1ffffffff", "is too great: teid is 0 to 4294967295"),
        ("ipv4 / udp / vxlan / eth / arp_eth_ipv4", "not supported: arp_eth_ipv4 inside a tunnel"),
        ("ipv4 / udp / vxlan / eth / ipv4 / nvgre", "not supported: nvgre inside a tunnel"),
        ("pppoes / ipv6 / ipv6_frag_ext", "not supported: ipv6_frag_ext inside a tunnel"),
        ("ipv4 / sctp cksum is 5", "not supported: sctp cksum"),
        ("ipv4 / sctp tag is 1 tag last 9", "not supported: sctp tag last"),
        (
            "ipv6 / ipv6_frag_ext packet_id is 1 packet_id last 9",
            "not supported: ipv6_frag_ext packet_id last",
        ),
        (
            "arp_eth_ipv4 sha is 02:00:00:00:00:01 sha last 02:00:00:00:00:09",
            "arp_eth_ipv4 sha last",
        ),
        ("pppoes / raw relative is 1 pattern is a", "not supported: raw relative to pppoes"),
    ] {
        let refused = compile(text).unwrap_err();
        assert!(refused.contains(said), "{text}: {refused}");
    }
}
