//! Traffic with attacks of our own: connections, datagrams, fragments and tunnels.

use std::net::Ipv4Addr;

use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{ethernet, gre, icmp, ipv4, ipv6, tcp, udp, vxlan};

/// An IPv4 packet as layers, without Ethernet.
pub type Packet = Vec<Layer>;

/// The ends of a connection.
#[derive(Clone, Copy)]
pub struct Ends {
    pub client: Ipv4Addr,
    pub client_port: u16,
    pub server: Ipv4Addr,
    pub server_port: u16,
}

pub fn ends(client: &str, client_port: u16, server: &str, server_port: u16) -> Ends {
    let [client, server] = [client, server].map(|address| address.parse().unwrap());
    Ends { client, client_port, server, server_port }
}

fn ip(src: Ipv4Addr, dst: Ipv4Addr) -> ipv4::Repr {
    ipv4::Repr { src, dst, ttl: 64, ..Default::default() }
}

/// A connection that sends these payloads, each `(from the client, bytes)`, and closes.
pub fn connection(ends: Ends, payloads: &[(bool, &[u8])]) -> Vec<Packet> {
    let (mut packets, mut sequence) = (Vec::new(), [1000u32, 5000u32]);
    let mut send = |from_client: bool, flags: tcp::Flags, payload: &[u8]| {
        let Ends { client, client_port, server, server_port } = ends;
        let (src, src_port, dst, dst_port, [mine, others]) = if from_client {
            (client, client_port, server, server_port, sequence)
        } else {
            (server, server_port, client, client_port, [sequence[1], sequence[0]])
        };
        let has_ack = flags.contains(tcp::Flags::ACK);
        let header = tcp::Repr {
            src_port,
            dst_port,
            sequence: mine,
            acknowledgement: if has_ack { others } else { 0 },
            flags,
            window: 64000,
            ..Default::default()
        };
        let mut packet = vec![ip(src, dst).into(), header.into()];
        if !payload.is_empty() {
            packet.push(Layer::Payload(payload.to_vec()));
        }
        packets.push(packet);
        let counts = flags.contains(tcp::Flags::SYN) || flags.contains(tcp::Flags::FIN);
        sequence[usize::from(!from_client)] += payload.len() as u32 + u32::from(counts);
    };
    let [ack, syn, fin] = [tcp::Flags::ACK, tcp::Flags::SYN, tcp::Flags::FIN];
    send(true, syn, &[]);
    send(false, syn | ack, &[]);
    send(true, ack, &[]);
    for &(from_client, payload) in payloads {
        send(from_client, ack | tcp::Flags::PSH, payload);
        send(!from_client, ack, &[]);
    }
    send(true, fin | ack, &[]);
    send(false, fin | ack, &[]);
    send(true, ack, &[]);
    packets
}

/// A datagram.
pub fn datagram(ends: Ends, payload: &[u8]) -> Packet {
    let Ends { client, client_port, server, server_port } = ends;
    let header = udp::Repr { src_port: client_port, dst_port: server_port, ..Default::default() };
    vec![ip(client, server).into(), header.into(), Layer::Payload(payload.to_vec())]
}

/// A query for the address of a name.
pub fn dns_query(ends: Ends, name: &str) -> Packet {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    datagram(ends, &message)
}

/// The first message of TLS 1.2, with a server name.
pub fn client_hello(name: &str) -> Vec<u8> {
    let two = |len: usize| (len as u16).to_be_bytes();
    let server_name = [&[0][..], &two(name.len()), name.as_bytes()].concat();
    let list = [&two(server_name.len())[..], &server_name].concat();
    let extension = [&[0, 0][..], &two(list.len()), &list].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &[0, 2, 0xc0, 0x2f],
        &[1, 0],
        &two(extension.len()),
        &extension,
    ]
    .concat();
    let message = [&[1, 0][..], &two(body.len()), &body].concat();
    [&[22, 3, 1][..], &two(message.len()), &message].concat()
}

/// An echo request.
pub fn ping(client: &str, server: &str) -> Packet {
    let [client, server] = [client, server].map(|address| address.parse().unwrap());
    let echo = icmp::Repr::echo_request(7, 1);
    vec![ip(client, server).into(), echo.into(), Layer::Payload(b"abcdefgh".to_vec())]
}

/// The answer to a datagram for a port without a server: the datagram's IP header and eight bytes.
pub fn unreachable_port(frame: &[u8]) -> Packet {
    let address = |at: usize| Ipv4Addr::from(*frame[at..].first_chunk::<4>().unwrap());
    let message = icmp::Repr { message_type: icmp::MessageType(3), code: 3, rest: 0 };
    let about = Layer::Payload(frame[14..14 + 28].to_vec());
    vec![ip(address(14 + 16), address(14 + 12)).into(), message.into(), about]
}

/// A datagram of IPv6.
pub fn datagram6(port: u16) -> Packet {
    let [src, dst] = ["2001:db8::5", "2001:db8:9::1"].map(|address| address.parse().unwrap());
    let header = udp::Repr { src_port: port, dst_port: 7000, ..Default::default() };
    let ip = ipv6::Repr { src, dst, hop_limit: 64, ..Default::default() };
    vec![ip.into(), header.into(), Layer::Payload(b"EVIL and new".to_vec())]
}

/// A segment whose header claims fewer bytes than a header has.
pub fn cut_header(ends: Ends) -> Packet {
    let Ends { client, client_port, server, server_port } = ends;
    let mut bytes = vec![0; 24];
    bytes[..2].copy_from_slice(&client_port.to_be_bytes());
    bytes[2..4].copy_from_slice(&server_port.to_be_bytes());
    bytes[12] = 0x30;
    let header = ipv4::Repr { protocol: niclab_packet::wire::IpProtocol(6), ..ip(client, server) };
    vec![header.into(), Layer::Payload(bytes)]
}

/// The packet in pieces with at most `len` bytes behind the IP header.
pub fn fragments(packet: Packet, identification: u16, len: usize) -> Vec<Packet> {
    let frame = frame(packet.clone());
    let header_len = 14 + 20;
    let header = match &packet[0] {
        Layer::Ipv4(header) => *header,
        other => panic!("{other:?}"),
    };
    let protocol = niclab_packet::wire::IpProtocol(frame[14 + 9]);
    let bytes = &frame[header_len..];
    let mut pieces = Vec::new();
    for (index, piece) in bytes.chunks(len).enumerate() {
        let mut part = header;
        part.protocol = protocol;
        part.identification = identification;
        part.more_fragments = (index + 1) * len < bytes.len();
        part.fragment_offset = (index * len) as u16;
        pieces.push(vec![part.into(), Layer::Payload(piece.to_vec())]);
    }
    pieces
}

/// The packets inside GRE.
pub fn in_gre(packets: Vec<Packet>) -> Vec<Packet> {
    let outer = |packet: Packet| {
        let outer = ip("172.16.0.1".parse().unwrap(), "172.16.0.2".parse().unwrap());
        [vec![outer.into(), gre::Repr::default().into()], packet].concat()
    };
    packets.into_iter().map(outer).collect()
}

/// The packets inside VXLAN.
pub fn in_vxlan(packets: Vec<Packet>) -> Vec<Packet> {
    let outer = |packet: Packet| {
        let outer = ip("172.16.0.3".parse().unwrap(), "172.16.0.4".parse().unwrap());
        let udp = udp::Repr { src_port: 9999, ..Default::default() };
        let tunnel = vxlan::Repr { vni: 5 };
        let ethernet = ethernet::Repr::default();
        [vec![outer.into(), udp.into(), tunnel.into(), ethernet.into()], packet].concat()
    };
    packets.into_iter().map(outer).collect()
}

/// An Ethernet frame.
pub fn frame(packet: Packet) -> Vec<u8> {
    build(&[vec![ethernet::Repr::default().into()], packet].concat()).unwrap()
}

/// Everything: each attack between many hosts, with the packets of eight connections at a time
/// mixed, and some of them in the wrong order.
pub fn all(seed: u64) -> Vec<Vec<u8>> {
    let mut flows: Vec<Vec<Packet>> = Vec::new();
    for round in 0..12u16 {
        let client = format!("192.168.{}.{}", round % 3, 10 + round);
        let at = |port: u16, server_port: u16| {
            ends(&client, 30000 + round * 100 + port, "198.51.100.7", server_port)
        };
        let get: &[u8] = b"GET /evil.php?id=1 HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let found: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET";
        let login: &[u8] = b"USER root\r\n";
        for port in [80, 8080, 9999] {
            flows.push(connection(at(port % 97, port), &[(true, get), (false, found)]));
        }
        flows.push(connection(at(3, 21), &[(false, b"220 ready\r\n"), (true, login)]));
        flows.push(connection(at(4, 445), &[(true, b"\0\0\0\x04\xffSMBEVIL")]));
        flows.push(connection(at(5, 443), &[(true, &client_hello("bad.example"))]));
        let mail: [(bool, &[u8]); 3] =
            [(false, b"220 mail\r\n"), (true, b"EHLO EVIL\r\n"), (true, b"QUIT\r\n")];
        flows.push(connection(at(6, 25), &mail));
        flows.push(connection(at(7, 12345), &[(true, b"backdoor EVIL"), (false, b"SECRET")]));
        flows.push(vec![dns_query(at(8, 53), "bad.example")]);
        flows.push(vec![datagram(at(9, 161), b"EVIL datagram")]);
        let query = frame(dns_query(at(16, 53), "bad.example"));
        flows.push(vec![dns_query(at(16, 53), "bad.example"), unreachable_port(&query)]);
        flows.push(vec![datagram6(500 + round)]);
        flows.push(vec![cut_header(at(17, 445))]);
        flows.push(vec![ping(&client, "198.51.100.7")]);
        flows.push(vec![datagram(ends("203.0.113.66", 5, &client, 6000 + round), b"from a list")]);
        let large = [&b"EVIL in pieces"[..], &[b'x'; 300]].concat();
        flows.push(fragments(datagram(at(10, 161), &large), round, 104));
        let mut overlapping = fragments(datagram(at(15, 161), &large), 200 + round, 104);
        let Layer::Payload(first) = &mut overlapping[0][1] else { unreachable!() };
        first.extend([b'y'; 16]);
        flows.push(overlapping);
        let whole = connection(at(11, 80), &[(true, get), (false, found)]);
        let split = |packet: Packet| match packet.len() {
            3 => fragments(packet, 100 + round, 24),
            _ => vec![packet],
        };
        flows.push(whole.into_iter().flat_map(split).collect());
        flows.push(in_gre(connection(at(12, 80), &[(true, get), (false, found)])));
        flows.push(in_vxlan(connection(at(13, 445), &[(true, b"\0\0\0\x04\xffSMBEVIL")])));
        let mut late = connection(at(14, 80), &[(true, &get[..20]), (true, &get[20..])]);
        late.swap(3, 5);
        flows.push(late);
    }
    mixed(flows, seed).into_iter().map(frame).collect()
}

/// The packets of all flows: each next one is of one of the first eight flows that have any left.
fn mixed(flows: Vec<Vec<Packet>>, seed: u64) -> Vec<Packet> {
    let mut flows: Vec<_> = flows.into_iter().map(Vec::into_iter).collect();
    let (mut packets, mut state) = (Vec::new(), seed);
    while !flows.is_empty() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = (state >> 33) as usize % flows.len().min(8);
        match flows[at].next() {
            Some(packet) => packets.push(packet),
            None => drop(flows.remove(at)),
        }
    }
    packets
}
