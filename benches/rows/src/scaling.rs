//! The software card on two cores against one, both under a saturating clocked wire: each core has
//! a receive queue of its own, which is always full.
//!
//! A slice starts a card, and its figure is of the time in which that runs ([`run_on`]).

use niclab_device::soft::run_on;
use niclab_device::{Arrivals, Function, Load, Rate, Receive, Setup};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_pairing::alternate;
use niclab_peer::Answer;

use crate::{Bench, BenchError, Measured, Slices, median};

/// Flows of the traffic.
const FLOWS: u32 = 10_000;

/// Time before the measured part of a slice, nanoseconds: caches and branch predictors warm up.
const WARMUP_NS: u64 = 5_000_000;

/// A queue for each of two cores, against one core with one.
///
/// # Errors
/// [`BenchError::Device`]. A machine of one core is no error but [`Slices::NotSupported`].
pub fn two_cores(bench: &Bench) -> Result<Measured, BenchError> {
    let Some(other) = bench.other else {
        let why = "two cores on a machine that has one".to_owned();
        return Ok(Measured::of(Slices::NotSupported(why)));
    };
    let (first, second) = (bench.core as u32, other as u32);
    let one = || slice(bench, vec![first]);
    let pairs = alternate(bench.pairs, || slice(bench, vec![first, second]), one)?;
    let ns = |rates: &[f64], cores: f64| median(rates).map_or(0.0, |rate| cores * 1e9 / rate);
    let (alone, beside) = (ns(&pairs.theirs, 1.0), ns(&pairs.ours, 2.0));
    let more = beside - alone;
    let note = format!("a frame takes {alone:.1} ns of one core, and {more:+.1} ns of each of two");
    Ok(Measured::of(Slices::Paired(pairs)).with(note))
}

/// Forwards for a slice on these cores.
fn slice(bench: &Bench, cores: Vec<u32>) -> Result<Answer, BenchError> {
    let queues = cores.len() as u16;
    let setup = Setup {
        rules: Vec::new(),
        queues,
        cores: queues,
        ports: 1,
        receive: Receive::Queues,
        function: Function::Forward,
        frame_len_max: 64,
    };
    let load = Load {
        flows: FlowSpec { count: FLOWS, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Saturate,
        arrivals: Arrivals::Constant,
        duration_ns: bench.slice_ms * 1_000_000,
        warmup_ns: WARMUP_NS,
        seed: 1,
        trace: None,
    };
    let seen = run_on(&load, &setup, cores)?;
    Ok(Answer { ops: seen.received, ns: seen.duration_ns, rest: Vec::new() })
}
