//! The packets of a program: as many as are more than a second cache holds, each to one of the
//! entries of its tables, all of them equally often.

use niclab_packet::BuildError;
use niclab_packet::size::FCS_LEN;
use niclab_packet::stack::{Layer, build, build_with_len};
use niclab_packet::wire::{MacAddress, ethernet, ipv4, udp};

use super::filled::{HOPS, OURS, flow, route, station};
use super::grown::key;
use super::{Case, Loaded, mix};

/// Packets that go through a program in a pass: of short ones 2 MiB of cache lines.
pub const PACKETS: usize = 32_768;

/// The first address and the port of the load balancer's services, and the first of its clients.
pub(super) const SERVICE: u32 = 0xc000_0200;
pub(super) const SERVICE_PORT: u16 = 53;
pub(super) const CLIENTS: u32 = 0x0a00_0000;

/// The port of the key-value store.
pub(super) const STORE_PORT: u16 = 11_211;

/// Keys that are asked for.
const KEYS: u32 = 100_000;

/// Shortest frame, bytes with FCS.
const LEN_MIN: u16 = 64;

/// Stations that frames come from, which a switch learns.
const SENDERS: u32 = 64;

/// The frames, without FCS.
pub(super) fn frames(of: Loaded) -> Result<Vec<Vec<u8>>, BuildError> {
    (0..PACKETS).map(|at| frame(of, at)).collect()
}

fn frame(of: Loaded, at: usize) -> Result<Vec<u8>, BuildError> {
    let random = mix(1 << 40 | at as u64);
    // Every entry comes; the order is that of no table.
    let entry = match of.entries {
        0 => 0,
        entries => (random >> 32) as u32 % entries,
    };
    let random = random as u32;
    let sender = station(0x0100_0000 | (random % SENDERS));
    let flow_port = 1_024 + at as u16 % 1_024;
    match of.case {
        Case::Headers => Ok(tagged(of.count, sender)),
        Case::L2Switch | Case::VxlanGateway => {
            let dst = station(entry);
            udp4([dst, sender], [CLIENTS + random % 65_536, SERVICE], [flow_port, 53])
        }
        Case::L3Router | Case::Router => {
            let (prefix, bits, _) = route(entry);
            let dst = prefix | random.checked_shr(bits).unwrap_or(0);
            udp4([OURS, sender], [CLIENTS + 1, dst], [flow_port, 53])
        }
        Case::Acl => {
            let (src, dst, port) = flow(entry);
            udp4([OURS, sender], [src, dst], [flow_port, port])
        }
        Case::RateLimiter => {
            let src = CLIENTS | entry << 8 | random & 0xff;
            udp4([OURS, sender], [src, SERVICE], [flow_port, 53])
        }
        Case::LoadBalancer => {
            let (client, port) = (CLIENTS | entry >> 8, 1_024 + (entry & 0xff) as u16);
            let service = SERVICE + entry % HOPS;
            udp4([OURS, sender], [client, service], [port, SERVICE_PORT])
        }
        Case::KvsSteering => request([sender, OURS], random, &get(random % KEYS)),
        Case::KvsItems => request([sender, OURS], random, &set(random % KEYS)),
        Case::Exact | Case::Lpm | Case::Wildcard => {
            let ([src, dst], [src_mask, dst_mask]) = key(of.case, entry);
            let within = |value: u32, mask: u32| value | random & !mask;
            let addresses = match of.case {
                Case::Wildcard => [within(src, src_mask), within(dst, dst_mask)],
                _ => [CLIENTS + 1, within(dst, dst_mask)],
            };
            udp4([OURS, sender], addresses, [flow_port, 53])
        }
        _ => udp4([OURS, sender], [CLIENTS + at as u32, random], [flow_port, 53]),
    }
}

/// UDP over IPv4 to and from MAC addresses, addresses and ports; destinations stand first of the
/// MAC addresses, as in the frame, and last of the others.
fn udp4(
    [dst_mac, src_mac]: [[u8; 6]; 2],
    [src, dst]: [u32; 2],
    [src_port, dst_port]: [u16; 2],
) -> Result<Vec<u8>, BuildError> {
    let ethernet = ethernet::Repr {
        dst: MacAddress(dst_mac),
        src: MacAddress(src_mac),
        ..ethernet::Repr::default()
    };
    let ip = ipv4::Repr { src: src.into(), dst: dst.into(), ..ipv4::Repr::default() };
    let udp = udp::Repr { src_port, dst_port, ..udp::Repr::default() };
    build_with_len(&[Layer::Ethernet(ethernet), Layer::Ipv4(ip), Layer::Udp(udp)], LEN_MIN)
}

/// A request for the store, of the binary protocol: its code and extras, a key of 32 bytes and a
/// value, behind memcached's frame header of one datagram.
fn content(code: u8, extras: &[u8], key: u32, value: &[u8]) -> Vec<u8> {
    let key = format!("{key:032}");
    let body_len = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = vec![0, 7, 0, 0, 0, 1, 0, 0, 0x80, code, 0, key.len() as u8];
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(body_len.to_be_bytes());
    bytes.extend([0; 12]);
    [&bytes[..], extras, key.as_bytes(), value].concat()
}

fn get(key: u32) -> Vec<u8> {
    content(0, b"", key, b"")
}

/// Of a value of 64 bytes that stays for ever.
fn set(key: u32) -> Vec<u8> {
    content(1, &[0; 8], key, &[b'v'; 64])
}

/// A frame with a request from a station and a client to the store.
fn request([from, to]: [[u8; 6]; 2], client: u32, content: &[u8]) -> Result<Vec<u8>, BuildError> {
    let (src, dst) = (MacAddress(from), MacAddress(to));
    let ip = ipv4::Repr {
        src: (CLIENTS + client % 65_536).into(),
        dst: SERVICE.into(),
        ..ipv4::Repr::default()
    };
    // None is the port of a store: the card leaves what comes from one to the host.
    let src_port = 32_768 + (client >> 16 & 0x3fff) as u16;
    let udp = udp::Repr { src_port, dst_port: STORE_PORT, ..udp::Repr::default() };
    build(&[
        Layer::Ethernet(ethernet::Repr { dst, src, ..ethernet::Repr::default() }),
        Layer::Ipv4(ip),
        Layer::Udp(udp),
        Layer::Payload(content.to_vec()),
    ])
}

/// Ethernet with so many tags that there are `headers` headers.
fn tagged(headers: u32, sender: [u8; 6]) -> Vec<u8> {
    let mut frame = [OURS, sender].concat();
    for tag in 1..headers {
        frame.extend([0x81, 0x00]);
        frame.extend((tag as u16).to_be_bytes());
    }
    frame.extend([0x08, 0x00]);
    frame.resize(frame.len().max(usize::from(LEN_MIN - FCS_LEN)), 0);
    frame
}
