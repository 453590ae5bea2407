//! The generator on a ring that forgets, against testpmd's on a null port.
//!
//! Ours writes 64-byte UDP frames with both checksums, a sequence number in the flow and the
//! planned time; testpmd's writes neither UDP checksum nor number nor time.

use niclab_load::rings::{BURST, Inlet, Outlet};
use niclab_load::{Arrivals, Load, Rate, drive};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_peer::Answer;

use crate::{Bench, BenchError, Measured};

/// Frames that go round: a burst, as on the other side, where the null port frees what it is given
/// at once and the pool hands out first what came back last.
const FRAMES: usize = BURST;
/// Bytes from one frame to the next.
const SLOT: usize = 2_048 + 64;
/// Unmeasured start of a slice, nanoseconds; the peer's does not count either.
const WARMUP_NS: u64 = 2_000_000;

/// The row: as fast as it goes, `flows` flows in turn.
pub fn saturated(bench: &Bench, flows: u32) -> Result<Measured, BenchError> {
    let control = if bench.core == 0 { "1" } else { "0" };
    let peer = bench.peer("flowgen", &[control, &flows.to_string(), "64"]);
    let command = format!("generate {}", bench.slice_ms);
    let mut null = Null { memory: vec![0; FRAMES * SLOT], at: 0 };
    let load = Load {
        flows: FlowSpec { count: flows, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Saturate,
        arrivals: Arrivals::Constant,
        duration_ns: bench.slice_ms * 1_000_000,
        warmup_ns: WARMUP_NS,
        seed: 1,
        trace: None,
    };
    let ours = || generate(&load, &mut null);
    bench.compare(bench.pairs, peer, ours, |peer| Ok(peer.ask(&command)?))
}

fn generate(load: &Load, null: &mut Null) -> Result<Answer, BenchError> {
    let mut nothing = Null { memory: Vec::new(), at: 0 };
    let seen = drive(load, FRAMES as u32, null, &mut nothing, &mut ())?;
    Ok(Answer { ops: seen.offered, ns: seen.duration_ns, rest: Vec::new() })
}

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
