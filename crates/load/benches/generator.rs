//! The generator on a null lane against testpmd's, in pairs of slices on one core.
//!
//! `make -C benches/peers` builds the peer; then
//! `cargo bench -p niclab-load --bench generator -- [--core N] [--pairs N] [--peers DIR]`.
//! Ours writes 64-byte UDP frames of 10,000 flows with both checksums, a sequence number in the flow
//! and the planned time; testpmd's writes neither UDP checksum nor number nor time.

use std::error::Error;
use std::path::PathBuf;

use niclab_load::lane::{BURST, Inlet, Outlet};
use niclab_load::{Arrivals, Load, Rate, drive};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_pairing::{Answer, PAIRS_MIN, Peer, alternate, median_interval, pin};

/// Frames that go round, as in a card's transmit ring.
const FRAMES: usize = 1_024;
/// Bytes from one frame to the next.
const SLOT: usize = 2_048 + 64;
/// Length of a slice.
const SLICE_MS: u64 = 20;
/// The bar.
const GOAL: f64 = 4.0;

/// Takes every frame and forgets it; nothing comes back.
struct Null {
    memory: Vec<u8>,
    at: usize,
}

impl Outlet for Null {
    fn reserve(&mut self, want: usize) -> usize {
        want.min(BURST)
    }

    fn slot(&mut self, i: usize) -> &mut [u8] {
        let frame = (self.at + i) % FRAMES;
        &mut self.memory[frame * SLOT..][..SLOT]
    }

    fn commit(&mut self, lens: &[u16]) -> usize {
        self.at += lens.len();
        lens.len()
    }
}

impl Inlet for Null {
    fn poll(&mut self) -> usize {
        0
    }

    fn frame(&self, _: usize) -> &[u8] {
        &[]
    }

    fn release(&mut self) {}
}

fn ours(null: &mut Null, rate: Rate) -> Result<Answer, Box<dyn Error>> {
    let load = Load {
        flows: FlowSpec { count: 10_000, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate,
        arrivals: Arrivals::Constant,
        duration_ns: SLICE_MS * 1_000_000,
        warmup_ns: 2_000_000,
        seed: 1,
        trace: None,
    };
    let mut nothing = Null { memory: Vec::new(), at: 0 };
    let seen = drive(&load, FRAMES as u32, null, &mut nothing, &mut ())?;
    Ok(Answer { ops: seen.offered, ns: seen.duration_ns, rest: Vec::new() })
}

fn option(name: &str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|a| a == name)?;
    arguments.get(at + 1).cloned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let core: usize = option("--core").map_or(Ok(1), |text| text.parse())?;
    let pairs: usize = option("--pairs").map_or(Ok(PAIRS_MIN), |text| text.parse())?;
    let peers = option("--peers").map_or_else(|| PathBuf::from("target/peers"), PathBuf::from);
    pin(core)?;
    let mut null = Null { memory: vec![0; FRAMES * SLOT], at: 0 };
    let mut own = || ours(&mut null, Rate::Saturate);
    own()?;
    let alone = own()?;
    println!("generator alone: {:.1} Mpps", alone.rate() / 1e6);
    let program = peers.join("flowgen");
    if !program.exists() {
        println!("SKIP flowgen: {} is not built (make -C benches/peers)", program.display());
        return Ok(());
    }
    let mut peer = Peer::spawn(&program, &[&core.to_string(), "0", "10000", "64"])?;
    let mut failed = None;
    let pairs = alternate(
        pairs,
        || {
            Ok(own().unwrap_or_else(|error| {
                failed = Some(error);
                Answer { ops: 0, ns: 1, rest: Vec::new() }
            }))
        },
        || peer.ask(&format!("generate {SLICE_MS}")),
    )?;
    if let Some(error) = failed {
        return Err(error);
    }
    let ratio = median_interval(&pairs.ratios()).ok_or("too few pairs")?;
    let mpps = |rates: &[f64]| median_interval(rates).map_or(0.0, |i| i.median / 1e6);
    println!(
        "generator: ours {:.1} Mpps, testpmd flowgen {:.1} Mpps, ratio {:.2} [{:.2}, {:.2}], goal {GOAL}",
        mpps(&pairs.ours),
        mpps(&pairs.theirs),
        ratio.median,
        ratio.low,
        ratio.high
    );
    Ok(())
}
