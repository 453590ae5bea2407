//! The experiments `queue-scaling` and `queue-overhead`: what cores, queues and ports bring.
//!
//! Three curves belong together: what cores with queues of their own forward; what they forward
//! where one of them receives for all (a card with a single queue, multiplied in software); and the
//! ideal, what one core forwards times their number, as far as ports carry it.

use niclab_device::{Observation, Placement, Receive, Setup};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point, Sample};

use crate::axes::{at_axes, name_of, numbers, words};
use crate::flows;
use crate::frame_size::wire_ns;
use crate::measure::{Metrics, put, put_ratio};
use crate::occupancy::Place;
use crate::run::{PlannedRate, Resolver, Task, Trial, index_of};
use crate::spec::{Hits, ScalingSweep, SpecError, TrialKind};
use crate::spread::QUEUES_MAX;
use crate::values::Values;

/// Most ports.
const PORTS_MAX: u32 = 64;

/// Cores that receive, by name.
pub(crate) const RECEIVE: [(&str, Receive); 2] =
    [("multi-queue", Receive::Queues), ("serial", Receive::Serial)];

/// Frames a second of each core, on average.
pub(crate) const PER_CORE: &str = "core_pps";
/// Time of a core for a frame, those that it waits in included.
pub(crate) const CORE_NS: &str = "core_ns_per_frame";
/// Share of the frames that one core received and another forwarded.
pub(crate) const CROSSED: &str = "crossed_ratio";

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Which cores receive.
    pub receive: Receive,
    /// Ports.
    pub ports: u32,
    /// Receive queues of all ports.
    pub queues: u32,
    /// Cores.
    pub cores: u32,
    /// Flows of the traffic.
    pub flows: u32,
}

/// All places of a sweep: the product of its axes, where each port has as many queues as another.
pub fn places(sweep: &ScalingSweep) -> Result<Vec<Scaling>, SpecError> {
    let mut all = Vec::new();
    for receive in words("receive", &sweep.receive, &RECEIVE)? {
        for ports in numbers("ports", &sweep.ports, 1, PORTS_MAX)? {
            for queues in numbers("queues", &sweep.queues, 1, QUEUES_MAX)? {
                for cores in cores(&sweep.cores, receive, queues)? {
                    for flows in numbers("flows", &sweep.flows, 1, FLOWS_MAX)? {
                        all.push(Scaling { receive, ports, queues, cores, flows });
                    }
                }
            }
        }
    }
    all.retain(|place| place.queues.is_multiple_of(place.ports));
    Ok(all)
}

/// Cores of so many queues: no more than these, unless one of them receives for all.
fn cores(values: &Values, receive: Receive, queues: u32) -> Result<Vec<u32>, SpecError> {
    match receive {
        Receive::Queues => crate::spread::cores(values, queues),
        Receive::Serial => {
            let each = |value: &Coordinate| match value {
                Coordinate::Word(word) if word == "each" => Coordinate::Number(queues.into()),
                other => other.clone(),
            };
            let values = Values(values.0.iter().map(each).collect());
            crate::spread::cores(&values, QUEUES_MAX)
        }
    }
}

impl Scaling {
    fn point(&self, frame: &Coordinate) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        at_axes([
            ("receive", Coordinate::Word(name_of(&RECEIVE, self.receive).into())),
            ("ports", number(self.ports)),
            ("queues", number(self.queues)),
            ("cores", number(self.cores)),
            ("flows", number(self.flows)),
            ("frame", frame.clone()),
        ])
    }
}

impl Resolver<'_> {
    /// A trial at full load at each place.
    pub fn add_scalings(&mut self) -> Result<(), SpecError> {
        for sweep in &self.grid.scaling {
            for scaling in places(sweep)? {
                for frame in self.frames(&sweep.frame) {
                    self.add_scaling(&scaling, &frame)?;
                }
            }
        }
        Ok(())
    }

    fn add_scaling(&mut self, of: &Scaling, frame: &Coordinate) -> Result<(), SpecError> {
        let (groups, rules, match_percent, hits) = (0, 0, 0, Hits::Flows);
        let place = Place { groups, rules, match_percent, hits, flows: of.flows };
        let setup = Setup {
            queues: (of.queues / of.ports) as u16,
            cores: of.cores as u16,
            ports: of.ports as u16,
            receive: of.receive,
            placement: Placement::Staged,
            ..place.setup(self.seed, self.frame_len_max(frame))
        };
        let setup = index_of(&mut self.run.setups, setup);
        let task = Task::offer(self.load_of(flows::sent(of.flows, self.seed), frame)?);
        let (rate, point) = (PlannedRate::Saturate, of.point(frame));
        self.trial(Trial { kind: TrialKind::Scaling, setup, task, rate, point });
        Ok(())
    }
}

/// Adds what so many cores did, each for itself.
pub(crate) fn put_scaling(metrics: &mut Metrics, o: &Observation, cores: u16) {
    let Some(pps) = metrics.get("throughput_pps").map(|pps| pps.value) else { return };
    let cores = f64::from(cores.max(1));
    put(metrics, PER_CORE, pps / cores, "pps");
    if pps > 0.0 {
        put(metrics, CORE_NS, cores * 1e9 / pps, "ns");
    }
    if let Some(staged) = o.staged {
        put_ratio(metrics, CROSSED, staged.crossed, o.received);
        put(metrics, "staged_passes", staged.passes as f64, "passes");
    }
}

/// `true` where frames stood in memory.
pub(crate) fn is_staged(sample: &Sample) -> bool {
    sample.metrics.contains_key("staged_passes")
}

/// What an ideal card forwards: so many cores as much as each alone, as far as its ports carry it.
pub(crate) fn ideal_pps(one_pps: f64, cores: f64, ports: f64, frame: (f64, Option<f64>)) -> f64 {
    let (frame_len, port_gbps) = frame;
    let carried = port_gbps.map(|gbps| ports * 1e9 / wire_ns(frame_len, gbps));
    (one_pps * cores).min(carried.unwrap_or(f64::INFINITY))
}

/// What cores forward that take `one_ns` for a frame, and `more_ns` more for each that another core
/// received: of so many cores all but one have it.
pub(crate) fn modelled_pps(one_ns: f64, more_ns: f64, cores: f64) -> f64 {
    cores * 1e9 / (one_ns + more_ns * (cores - 1.0) / cores)
}

#[cfg(test)]
#[path = "scaling_tests.rs"]
mod tests;
