//! A program of the card beside the same one in DPDK's SWX pipeline, generated as C: a router.
//!
//! Both get the same text, the same routes and next hops, and the frames of a capture, which lie
//! still: a program finds them as it left them. Before anything is timed, each frame must leave
//! both by the same port and with the same bytes.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use niclab_device::cases::ROUTER;
use niclab_nic::limits::BURST;
use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, Writer};
use niclab_pairing::slice;
use niclab_peer::{Answer, Peer, PeerError};
use niclab_program::{Change, Entry, Fate, Invocation, Lost, Part, Pipeline, Program, Worker};

use crate::frames::Frames;
use crate::keys::mix;
use crate::sets::PacketValues;
use crate::{Bench, BenchError, Measured};

/// Next hops, each of a port of its own of four.
const HOPS: u32 = 64;
const PORTS: u32 = 4;
/// Packets that go round.
const PACKETS: usize = 1 << 14;
/// Lengths of prefixes, in turn: most of 24 bits, as in tables of the Internet.
const LENGTHS: [u32; 8] = [24, 16, 24, 22, 24, 20, 24, 32];

/// The row: so many routes, against the peer `spec`.
pub fn route(bench: &Bench, routes: u32) -> Result<Measured, BenchError> {
    let routes: Vec<Route> = self::routes(routes);
    let packets = packets(&routes);
    let mut router = Router::new(&routes, &packets)?;
    let scratch = tempfile::tempdir().map_err(BenchError::Temporary)?;
    let peer = match bench.peer("spec", &[]) {
        Ok(mut peer) => {
            prepare(&mut peer, scratch.path(), &routes, &router.frames)?;
            agree(&mut peer, scratch.path(), &mut router)?;
            Ok(peer)
        }
        Err(error) => Err(error),
    };
    let command = format!("forward {}", bench.slice_ms);
    let ours = || Ok(router.run(bench.slice_ms));
    bench.compare(bench.pairs, peer, ours, |peer| Ok(peer.ask(&command)?))
}

/// A prefix and its next hop.
#[derive(Clone, Copy)]
struct Route {
    prefix: u32,
    bits: u32,
    hop: u32,
}

/// Different routes.
fn routes(count: u32) -> Vec<Route> {
    let mut seen = std::collections::HashSet::new();
    let route = |index: u64| {
        let bits = LENGTHS[index as usize % LENGTHS.len()];
        let prefix = mix(index) as u32 & u32::MAX << (32 - bits);
        Route { prefix, bits, hop: index as u32 % HOPS }
    };
    (0..).map(route).filter(|of| seen.insert((of.prefix, of.bits))).take(count as usize).collect()
}

/// Packets to addresses within the routes, each as often as the others.
fn packets(routes: &[Route]) -> Vec<PacketValues> {
    let packet = |at: usize| {
        let random = mix(1 << 40 | at as u64);
        let of = routes[(random >> 32) as usize % routes.len()];
        let within = (random as u32).checked_shr(of.bits).unwrap_or(0);
        [0x0a00_0001, of.prefix | within, 1_000 + at as u32 % 1_000, 53, 17]
    };
    (0..PACKETS).map(packet).collect()
}

/// The MAC addresses and the port of a next hop.
fn hop(number: u32) -> ([u8; 6], [u8; 6], u32) {
    let [_, _, a, b] = number.to_be_bytes();
    ([2, 0, 0, 1, a, b], [2, 0, 0, 0, 0, (number % PORTS) as u8], number % PORTS)
}

/// Has a peer load the program, its tables and the frames.
fn prepare(
    peer: &mut Peer,
    directory: &Path,
    routes: &[Route],
    frames: &Frames,
) -> Result<(), BenchError> {
    let write = |name: &str, text: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(BenchError::Temporary)?;
        Ok::<_, BenchError>(path.display().to_string())
    };
    let (mut of_routes, mut of_hops) = (String::new(), String::new());
    for Route { prefix, bits, hop } in routes {
        let mask = u32::MAX << (32 - bits);
        // A string takes whatever is written to it.
        let _ = writeln!(of_routes, "match {prefix:#x}/{mask:#x} action route next_hop {hop}");
    }
    for number in 0..HOPS {
        let (dst, src, port) = hop(number);
        let hex = |mac: [u8; 6]| mac.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let (dst, src) = (hex(dst), hex(src));
        let _ =
            writeln!(of_hops, "match {number} action hop dst {dst:#x} src {src:#x} port {port}");
    }
    let mut capture = Vec::new();
    let format = Format::Pcap(Endian::Little, Resolution::Micro);
    let mut writer = Writer::new(&mut capture, format)?;
    for desc in &frames.descs {
        let data = frames.region.frame(desc);
        let original_len = data.len() as u32;
        writer.write(&Record { timestamp_ns: 0, original_len, link_type: LINK_ETHERNET, data })?;
    }
    writer.finish()?;
    let spec = write("router.spec", ROUTER.as_bytes())?;
    let (routes, hops) =
        (write("routes", of_routes.as_bytes())?, write("hops", of_hops.as_bytes())?);
    let frames = write("frames.pcap", &capture)?;
    peer.tell(&format!("frames {frames} 0"))?;
    peer.tell(&format!("load {spec}"))?;
    peer.tell(&format!("entries routes {routes}"))?;
    peer.tell(&format!("entries hops {hops}"))?;
    peer.tell("commit")?;
    Ok(())
}

/// Each frame must leave both by the same port and with the same bytes.
fn agree(peer: &mut Peer, directory: &Path, router: &mut Router) -> Result<(), BenchError> {
    let (frames, out) = (directory.join("frames.pcap"), directory.join("out"));
    peer.tell(&format!("send {} {}", frames.display(), out.display()))?;
    let said = fs::read_to_string(&out).map_err(BenchError::Temporary)?;
    let ours = router.send();
    for (number, (ours, theirs)) in ours.iter().zip(said.lines()).enumerate() {
        let ours = format!("{number} {ours}");
        if !ours.eq_ignore_ascii_case(theirs) {
            return Err(BenchError::Frames { ours, theirs: theirs.to_owned() });
        }
    }
    match said.lines().count() == ours.len() {
        true => Ok(()),
        false => {
            let answer = format!("{} lines for {} frames", said.lines().count(), ours.len());
            let command = "send".to_owned();
            Err(PeerError::Answer { peer: peer.name().to_owned(), command, answer }.into())
        }
    }
}

/// The program with its tables, and the frames.
struct Router {
    _pipeline: Pipeline,
    worker: Worker,
    frames: Frames,
}

impl Router {
    fn new(routes: &[Route], packets: &[PacketValues]) -> Result<Router, BenchError> {
        let program = Program::read(ROUTER)?;
        let [routes_at, hops_at] = [program.table_number("routes")?, program.table_number("hops")?];
        let mut pipeline = Pipeline::new(program)?;
        for Route { prefix, bits, hop } in routes {
            let key = vec![Part::prefix(&prefix.to_be_bytes(), *bits)];
            let does = Invocation { action: 0, arguments: vec![hop.to_be_bytes().to_vec()] };
            let entry = Entry { key, priority: 0, does };
            pipeline.change(&[Change::Add { table: routes_at, entry }])?;
        }
        for number in 0..HOPS {
            let (dst, src, port) = hop(number);
            let key = vec![Part::exact(number.to_be_bytes().to_vec())];
            let arguments = vec![dst.to_vec(), src.to_vec(), port.to_be_bytes().to_vec()];
            let entry = Entry { key, priority: 0, does: Invocation { action: 1, arguments } };
            pipeline.change(&[Change::Add { table: hops_at, entry }])?;
        }
        let frames = Frames::new(packets)?;
        Ok(Router { worker: pipeline.worker(), _pipeline: pipeline, frames })
    }

    /// Lets each frame through once; its port and bytes, as the peer writes them.
    fn send(&mut self) -> Vec<String> {
        let (mut said, mut fates) = (Vec::new(), [Fate::Dropped(Lost::Told); BURST]);
        let Frames { region, descs, .. } = &mut self.frames;
        for burst in descs.chunks_mut(BURST) {
            self.worker.run(region, burst, 0, &mut fates, |_, _| {});
            for (desc, fate) in burst.iter().zip(&fates) {
                said.push(match fate {
                    Fate::Port(port) => {
                        let bytes = region.frame(desc).iter();
                        let hex = bytes.map(|byte| format!("{byte:02x}")).collect::<String>();
                        format!("{port} {hex}")
                    }
                    _ => "drop".to_owned(),
                });
            }
        }
        said
    }

    fn run(&mut self, slice_ms: u64) -> Answer {
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        let worker = &mut self.worker;
        slice(slice_ms, || {
            for _ in 0..16 {
                let (region, burst) = self.frames.burst();
                worker.run(region, burst, 0, &mut fates, |_, _| {});
                black_box(&fates);
            }
            16 * BURST as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_meets_a_route_and_leaves_with_its_next_hop() {
        let routes = routes(100);
        assert_eq!(routes.len(), 100);
        let packets = packets(&routes);
        let mut router = Router::new(&routes, &packets[..128]).unwrap();
        let said = router.send();
        for (said, [_, dst, ..]) in said.iter().zip(&packets) {
            let meets = |of: &&Route| (dst ^ of.prefix).checked_shr(32 - of.bits).unwrap_or(0) == 0;
            let best = routes.iter().filter(meets).max_by_key(|of| of.bits).unwrap();
            let (mac, _, port) = hop(best.hop);
            let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(said.starts_with(&format!("{port} {hex}")), "{said}");
        }
        assert!(router.run(1).ops > 0);
    }

    #[test]
    fn the_peer_itself_does_the_same_with_each_frame() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
        let bench = Bench { core: 0, other: None, pairs: 6, peers, slice_ms: 1 };
        let measured = route(&bench, 200).unwrap();
        if let crate::Slices::Alone { missing, .. } = measured.slices {
            println!("SKIP the_peer_itself_does_the_same_with_each_frame: {missing}");
        }
    }
}
