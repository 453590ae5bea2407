//! The software card on two cores against one: frames from memory through hash and function.
//!
//! Both sides have frames of all flows in front of each core, as the `staged` placement of the soft
//! device does ([`niclab_device::soft::staged`]): of two cores every other frame goes to the one
//! that did not receive it.

use std::time::{Duration, Instant};

use niclab_device::soft::staged::Staged;
use niclab_device::{Arrivals, Function, Load, Placement, Rate, Receive, Setup};
use niclab_nic::{Nic, NicConfig};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_pairing::alternate;
use niclab_peer::Answer;

use crate::{Bench, BenchError, Measured, Slices, median};

/// Flows of the traffic.
const FLOWS: u32 = 10_000;

/// A queue for each of two cores, against one core with one.
///
/// # Errors
/// [`BenchError::Device`]. A machine of one core is no error but [`Slices::NotSupported`].
pub fn two_cores(bench: &Bench) -> Result<Measured, BenchError> {
    let Some(other) = bench.other else {
        let why = "two cores on a machine that has one".to_owned();
        return Ok(Measured::of(Slices::NotSupported(why)));
    };
    let [first, second] = [bench.core, other].map(|core| Some(core as u32));
    let (mut one, mut two) = (Cores::new(vec![first])?, Cores::new(vec![first, second])?);
    let pairs = alternate(bench.pairs, || two.slice(bench), || one.slice(bench))?;
    let ns = |rates: &[f64], cores: f64| median(rates).map_or(0.0, |rate| cores * 1e9 / rate);
    let (alone, beside) = (ns(&pairs.theirs, 1.0), ns(&pairs.ours, 2.0));
    let share = two.crossed as f64 / two.frames.max(1) as f64;
    let note = format!(
        "staged: a frame takes {alone:.1} ns of one core, and {:.1} ns more of each of two, where \
         {:.0} % of the frames change cores",
        beside - alone,
        100.0 * share
    );
    Ok(Measured::of(Slices::Paired(pairs)).with(note))
}

/// A card on some cores.
struct Cores {
    /// Its tables are those of the workers.
    _nic: Nic,
    staged: Staged,
    frames: u64,
    crossed: u64,
}

impl Cores {
    fn new(cores: Vec<Option<u32>>) -> Result<Cores, BenchError> {
        let queues = cores.len() as u16;
        let mut nic = Nic::new(&NicConfig { queues, ..NicConfig::default() })?;
        let setup = Setup {
            rules: Vec::new(),
            queues,
            cores: queues,
            ports: 1,
            receive: Receive::Queues,
            function: Function::Forward,
            placement: Placement::Staged,
            frame_len_max: 64,
        };
        let load = Load {
            flows: FlowSpec { count: FLOWS, ..FlowSpec::default() },
            sizes: FrameSizes::Fixed(64),
            rate: Rate::Saturate,
            arrivals: Arrivals::Constant,
            duration_ns: 0,
            warmup_ns: 0,
            seed: 1,
            trace: None,
        };
        let staged = Staged::new(&mut nic, &setup, &load, cores)?;
        Ok(Cores { _nic: nic, staged, frames: 0, crossed: 0 })
    }

    /// Passes for a slice. Only their own time counts, and that of passes in which the machine took
    /// a core away only where there is no other.
    fn slice(&mut self, bench: &Bench) -> Result<Answer, BenchError> {
        let start = Instant::now();
        let (mut calm, mut others) = ((0, 0), (0, 0));
        while start.elapsed() < Duration::from_millis(bench.slice_ms) {
            let pass = self.staged.pass()?;
            let (ops, ns) = if pass.is_disturbed { &mut others } else { &mut calm };
            (*ops, *ns) = (*ops + pass.frames, *ns + pass.ns);
            (self.frames, self.crossed) = (self.frames + pass.frames, self.crossed + pass.crossed);
        }
        let (ops, ns) = if calm.0 > 0 { calm } else { others };
        Ok(Answer { ops, ns, rest: Vec::new() })
    }
}
