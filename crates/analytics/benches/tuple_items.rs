//! The time of a card's core for a tuple, by the program `tuple-items`.
//!
//! `cargo bench -p niclab-analytics --bench tuple_items`: a table in Markdown. A source sends
//! frames of 45, 8 and 1 tuples in order, with and without a checksum of UDP, to two workers. The
//! program gets one frame at a time, as on a card. Frames are written to their slots, and rings are
//! read, while the clock stands still. Without `--bench` (as under `cargo test --benches`)
//! everything runs once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_analytics::partition::PARTS;
use niclab_analytics::tuple::{self, Tuple};
use niclab_nic::dma::Reader;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};
use niclab_program::{Command, Fate, Lost, Pipeline, Program, Worker};

const PROGRAM: &str = include_str!("../../../programs/tuple-items/tuple-items.spec");

const SOURCE: u64 = 7;
const SOURCE_IP: [u8; 4] = [10, 9, 0, 1];
const SOURCE_PORT: u16 = 4_000;
const MAC: MacAddress = MacAddress([2, 0, 10, 9, 0, 2]);
const IP: [u8; 4] = [10, 9, 0, 2];
const PORT: u16 = 9_770;
const SLOT: u64 = 5;
const WORKERS: usize = 2;
const UDP_CHECKSUM_AT: usize = 40;
/// Slices of a figure.
const SLICES: usize = 15;

fn main() {
    let timed = std::env::args().any(|argument| argument == "--bench");
    let slice = Duration::from_millis(if timed { 100 } else { 0 });
    println!("| tuples in a frame | checksum of UDP | ns/frame | ns/tuple | tuples/s |");
    println!("|---|---|---|---|---|");
    for has_checksum in [true, false] {
        for tuples in [45, 8, 1] {
            let ns = Setup::new(tuples, has_checksum).frame_ns(slice);
            let tuple_ns = ns / tuples as f64;
            let checksum = if has_checksum { "yes" } else { "no" };
            println!(
                "| {tuples} | {checksum} | {ns:.0} | {tuple_ns:.0} | {:.2} M |",
                1e3 / tuple_ns
            );
        }
    }
}

/// A card's worker with frames of one length.
struct Setup {
    pipeline: Pipeline,
    worker: Worker,
    /// The register that has the sequence of the next tuple.
    expected: usize,
    readers: Vec<Reader>,
    region: Arc<Region>,
    descs: Vec<Desc>,
    /// Frames with consecutive sequences from 0 on.
    frames: Vec<Vec<u8>>,
    tuples: usize,
}

impl Setup {
    fn new(tuples: usize, has_checksum: bool) -> Setup {
        let program = Program::read(PROGRAM).expect("a program");
        let expected = program.registers.iter().position(|of| of.name == "expected");
        let expected = expected.expect("a register");
        let mut pipeline = Pipeline::new(program).expect("memory");
        let commands: Vec<Command> = commands()
            .map(|command| Command::read(pipeline.program(), &command).expect("a command"))
            .collect();
        pipeline.tell(&commands, 0).expect("room for entries");
        let readers = (0..WORKERS).map(|ring| pipeline.reader(0, ring).expect("a ring")).collect();
        let (region, descs) = Region::new(BURST, 1_536).expect("memory");
        let frames = (0..BURST).map(|number| frame(number * tuples, tuples, has_checksum));
        let frames = frames.collect();
        let worker = pipeline.worker();
        Setup { pipeline, worker, expected, readers, region, descs, frames, tuples }
    }

    /// The median time of a frame.
    fn frame_ns(&mut self, slice: Duration) -> f64 {
        let mut time = || {
            let (mut rounds, mut all) = (0, Duration::ZERO);
            while rounds == 0 || all < slice {
                all += self.round();
                rounds += 1;
            }
            all.as_nanos() as f64 / f64::from(rounds) / BURST as f64
        };
        // The first warms up.
        time();
        let mut times: Vec<f64> = (0..SLICES).map(|_| time()).collect();
        times.sort_by(f64::total_cmp);
        times[SLICES / 2]
    }

    /// Runs all frames one by one; the time of the program alone.
    fn round(&mut self) -> Duration {
        self.pipeline.set_register(self.expected, SLOT, 0);
        for (desc, frame) in self.descs.iter_mut().zip(&self.frames) {
            self.region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            self.region.set_len(desc, frame.len() as u16);
        }
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        let start = Instant::now();
        for (desc, fate) in self.descs.iter_mut().zip(&mut fates) {
            let (desc, fate) = (std::slice::from_mut(desc), std::slice::from_mut(fate));
            self.worker.run(&self.region, desc, 0, fate, |_, _| {});
        }
        let elapsed = start.elapsed();
        assert!(fates.iter().all(|fate| *fate == Fate::Back), "{fates:?}");
        let mut entry = [0; 24];
        let mut entries = 0;
        for reader in &mut self.readers {
            while reader.take(|shared, at| shared.copy_out(at, &mut entry)).is_some() {
                // Kind 1 is a tuple; other entries mark steps of event time.
                entries += usize::from(entry[20] == 1);
            }
        }
        assert_eq!(entries, BURST * self.tuples);
        elapsed
    }
}

/// The commands that register receiver and source, and distribute keys over the workers.
fn commands() -> impl Iterator<Item = String> {
    let owner = |part: usize| format!("register_write owners {part} {}", part % WORKERS);
    let fixed = [
        "add receivers h.ethernet.dst:02:00:0a:09:00:02 h.ipv4.dst:10.9.0.2 dst_port:9770 serve()"
            .to_owned(),
        format!(
            "add sources h.frame.source:{SOURCE} h.ipv4.src:10.9.0.1 src_port:{SOURCE_PORT} \
             known(slot:{SLOT})"
        ),
        format!("register_write workers 0 {WORKERS}"),
        "register_write shift 0 26".to_owned(),
        "register_write credit 0 1024".to_owned(),
    ];
    fixed.into_iter().chain((0..PARTS).map(owner))
}

/// A frame of `tuples` tuples with random keys. The first one has the sequence `sequence`.
fn frame(sequence: usize, tuples: usize, has_checksum: bool) -> Vec<u8> {
    let mut payload = Vec::new();
    tuple::begin_tuples(&mut payload, SOURCE);
    for sequence in (sequence as u64..).take(tuples) {
        let key = (sequence + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tuple = Tuple { stream: 1, key, sequence, time_ns: 1_000 * sequence, payload: &[] };
        assert!(tuple::push_tuple(&mut payload, &tuple));
    }
    let layers = [
        Layer::Ethernet(ethernet::Repr { dst: MAC, ..ethernet::Repr::default() }),
        Layer::Ipv4(ipv4::Repr {
            src: SOURCE_IP.into(),
            dst: IP.into(),
            protocol: IpProtocol::UDP,
            ttl: 64,
            dont_fragment: true,
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr { src_port: SOURCE_PORT, dst_port: PORT, ..udp::Repr::default() }),
        Layer::Payload(payload),
    ];
    let mut frame = build(&layers).expect("a frame");
    if !has_checksum {
        frame[UDP_CHECKSUM_AT..][..2].fill(0);
    }
    frame
}
