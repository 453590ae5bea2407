//! The trials of `queue-scaling` and `queue-overhead`: throughput of cores, queues and ports.
//!
//! Three curves belong together: what cores with queues of their own forward; what they forward
//! where one of them receives for all (a card with a single queue, multiplied in software); and the
//! ideal, what one core forwards times their number, as far as ports carry it.

use niclab_device::{Receive, Setup};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point};

use super::metrics::SCALING;
use super::spec::ScalingSweep;
use crate::axes::{QUEUES_MAX, at_axes, name_of, numbers, words};
use crate::flows;
use crate::place::SweepPoint;
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of};
use crate::spec::SpecError;
use crate::values::Values;

/// Most ports.
const PORTS_MAX: u32 = 64;

/// Cores that receive, by name.
pub(crate) const RECEIVE: [(&str, Receive); 2] =
    [("multi-queue", Receive::Queues), ("serial", Receive::Serial)];

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
pub(crate) fn cores(values: &Values, receive: Receive, queues: u32) -> Result<Vec<u32>, SpecError> {
    match receive {
        Receive::Queues => crate::axes::cores(values, queues),
        Receive::Serial => {
            let each = |value: &Coordinate| match value {
                Coordinate::Word(word) if word == "each" => Coordinate::Number(queues.into()),
                other => other.clone(),
            };
            let values = Values(values.0.iter().map(each).collect());
            crate::axes::cores(&values, QUEUES_MAX)
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
    pub fn add_scalings(&mut self, sweeps: &[ScalingSweep]) -> Result<(), SpecError> {
        for sweep in sweeps {
            for scaling in places(sweep)? {
                for frame in self.frames(&sweep.frame) {
                    self.add_scaling(&scaling, &frame)?;
                }
            }
        }
        Ok(())
    }

    fn add_scaling(&mut self, of: &Scaling, frame: &Coordinate) -> Result<(), SpecError> {
        let place = SweepPoint::without_rules(of.flows);
        let setup = Setup {
            queues: (of.queues / of.ports) as u16,
            cores: of.cores as u16,
            ports: of.ports as u16,
            receive: of.receive,
            ..place.setup(self.seed, self.frame_len_max(frame))
        };
        let setup = index_of(&mut self.run.setups, setup);
        let task = TaskIndex::offer(self.load_of(flows::sent(of.flows, self.seed), frame)?);
        let (rate, point) = (PlannedRate::Saturate, of.point(frame));
        self.trial(Trial { kind: SCALING, setup, task, rate, point });
        Ok(())
    }
}
