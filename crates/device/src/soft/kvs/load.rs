//! Requests for a key-value store as frames: keys of 32 B, values of 64 B, memcached's binary
//! protocol over UDP.

use std::net::Ipv4Addr;

use niclab_apps::endpoint::Identity;
use niclab_packet::BuildError;
use niclab_packet::flow::{FlowSet, FlowSpec, Popularity};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};

use serde::{Deserialize, Serialize};

use super::super::broken;
use crate::cases::mix;
use crate::face::DeviceError;

/// Bytes of a key.
pub const KEY_LEN: usize = 32;
/// Bytes of a value.
pub const VALUE_LEN: usize = 64;

/// Most keys of a load.
pub const KEYS_MAX: u32 = 1_000_000;

/// Frames of all cores together: two or three lines each, several times a second cache.
pub const FRAMES: usize = 32_768;

/// Clients, of random addresses and ports, so that RSS has no pattern to fall for.
const CLIENTS: u64 = 1_024;

/// How often each key is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPopularity {
    /// All equally often.
    Uniform,
    /// In proportion to the inverse of its rank (exponent 0.99, as in YCSB).
    Zipf,
}

impl KeyPopularity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            KeyPopularity::Uniform => "uniform",
            KeyPopularity::Zipf => "Zipf",
        }
    }
}

/// A workload of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyWorkload {
    /// How often each key is.
    pub keys: KeyPopularity,
    /// Keys, at most [`KEYS_MAX`]; the store has all of them.
    pub count: u32,
    /// Of a hundred requests so many are a get, the others a set.
    pub gets_percent: u32,
}

impl KeyWorkload {
    /// The published workload: 100 k keys, nine of ten requests a get.
    pub fn published(keys: KeyPopularity) -> KeyWorkload {
        KeyWorkload { keys, count: 100_000, gets_percent: 90 }
    }
}

/// The store's addresses.
pub const STORE: Identity = Identity {
    mac: MacAddress([2, 0, 10, 9, 0, 2]),
    ip: Ipv4Addr::new(10, 9, 0, 2),
    network_bits: 24,
    port: 11211,
};

/// A key: digits of random numbers, different for each.
pub fn key(number: u32) -> [u8; KEY_LEN] {
    let text = format!("{:016x}{:016x}", mix(number.into()), number);
    let mut key = [0; KEY_LEN];
    key.copy_from_slice(&text.as_bytes()[..KEY_LEN]);
    key
}

/// The value of a key.
pub fn value(number: u32) -> [u8; VALUE_LEN] {
    let words = std::array::from_fn::<_, { VALUE_LEN / 8 }, _>(|word| {
        mix(u64::from(number) << 8 | word as u64).to_le_bytes()
    });
    let mut value = [0; VALUE_LEN];
    value.copy_from_slice(words.as_flattened());
    value
}

/// The frames of all requests, in the order in which they come.
pub fn frames(asked: &KeyWorkload) -> Result<Vec<Vec<u8>>, DeviceError> {
    let popularity = match asked.keys {
        KeyPopularity::Uniform => Popularity::Uniform,
        KeyPopularity::Zipf => Popularity::Zipf { exponent: 0.99 },
    };
    let spec = FlowSpec { count: asked.count, popularity, ..FlowSpec::default() };
    let mut picker = FlowSet::new(&spec).map_err(broken)?.picker(1);
    // A rank is no key: those that are often asked for lie anywhere.
    let frames = (0..FRAMES).map(|at| frame(at, picker.next(), asked.gets_percent));
    frames.collect::<Result<_, _>>().map_err(broken)
}

/// One request for a key.
fn frame(at: usize, number: u32, gets_percent: u32) -> Result<Vec<u8>, BuildError> {
    let random = mix(1 << 40 | at as u64);
    let client = random % CLIENTS;
    let is_set = (random >> 32) % 100 >= u64::from(gets_percent);
    let value = value(number);
    let (code, extras, value): (u8, &[u8], &[u8]) = match is_set {
        true => (0x01, &[0; 8], &value),
        false => (0x00, &[], &[]),
    };
    let mut content = [at as u16, 0, 1, 0].map(u16::to_be_bytes).as_flattened().to_vec();
    content.extend_from_slice(&[0x80, code, 0, KEY_LEN as u8, extras.len() as u8, 0, 0, 0]);
    let body_len = (extras.len() + KEY_LEN + value.len()) as u32;
    content.extend_from_slice(&body_len.to_be_bytes());
    // The number of the key comes back with the answer.
    content.extend_from_slice(&number.to_be_bytes());
    content.extend_from_slice(&[0; 8]);
    let content = [&content[..], extras, &key(number), value].concat();
    let [a, b, c, d, ..] = mix(2 << 40 | client).to_le_bytes();
    let (src_port, dst_port) = (32_768 | u16::from_le_bytes([a, b]), STORE.port);
    build(&[
        Layer::Ethernet(ethernet::Repr {
            dst: STORE.mac,
            src: MacAddress::local(client as u32),
            ..ethernet::Repr::default()
        }),
        Layer::Ipv4(ipv4::Repr {
            src: Ipv4Addr::new(10, 10, c, d),
            dst: STORE.ip,
            protocol: IpProtocol::UDP,
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr { src_port, dst_port, ..udp::Repr::default() }),
        Layer::Payload(content),
    ])
}

/// Whether a frame of the load is a get.
pub fn is_get(frame: &[u8]) -> bool {
    frame[42 + 8 + 1] == 0
}

/// Where in a frame with the answer to a get the number of its key and the value stand.
pub const KEY_NUMBER_AT: usize = 42 + 8 + 12;
pub const VALUE_AT: usize = 42 + 8 + 24 + 4;
