//! The tester's half of a testbed of two hosts: generator and sink on one interface.

use niclab_load::clock::Clock;

use super::link::LinkCounters;
use super::name::{Ends, Name, Path};
use super::ring::{RxRing, TxRing};
use super::rings::TesterRings;
use super::stamp_setting::Stamping;
use super::{End, FRAME_LEN_DEFAULT, HEADER_AND_FCS_LEN, facts, refused};
use crate::Load;
use crate::capability;
use crate::cores::Cores;
use crate::face::{
    DeviceError, DeviceInfo, Observation, PathNode, Setup, SetupReport, Task, Testbed,
};
use crate::two_hosts::{
    HalfObservation, HalfTask, InterfaceCounts, MarkedTrips, Role, TesterEnds, TesterObservation,
};

/// Generator and sink.
pub(super) struct LinuxTester {
    about: DeviceInfo,
    core: u32,
    end: End,
    rings: TesterRings,
    /// Dropped behind the rings.
    stamping: Stamping,
    /// Longest frame and queues that the rings are for.
    shape: (u16, bool),
    /// The number of the next marker.
    next: u64,
}

impl LinuxTester {
    pub(super) fn open(name: &str) -> Result<LinuxTester, DeviceError> {
        let Name { path, ends, stamps } = Name::parse(name, Role::Tester)?;
        let Ends::Alone(interface) = ends else {
            return Err(DeviceError::lacks(capability::TWO_HOSTS));
        };
        if path != Path::Packet {
            let what = "a tester by AF_XDP or behind filters; niclab's sends by AF_PACKET: linux:…";
            return Err(DeviceError::lacks(what));
        }
        let core = Cores::alone(name)?.tester;
        let end = End::named(&interface)?;
        let stamping = Stamping::take(&end, stamps)?;
        let shape = (FRAME_LEN_DEFAULT, false);
        let rings = TesterRings::open(&end, shape, stamps)?;
        let place = |role: &str| PathNode {
            role: role.into(),
            label: end.link.name.clone(),
            core: Some(core),
        };
        let about = DeviceInfo {
            name: name.into(),
            facts: facts::of_tester(&end, &stamping),
            places: vec![place("generator"), place("sink")],
            ..DeviceInfo::default()
        };
        Ok(LinuxTester { about, core, end, rings, stamping, shape, next: 0 })
    }

    /// The ends of the interface.
    fn ends(&mut self) -> TesterEnds<'_, TxRing, RxRing> {
        let TesterRings { outlet, inlet } = &mut self.rings;
        TesterEnds { outlet, inlet, core: self.core }
    }

    fn offer(
        &mut self,
        load: &Load,
        start_ns: u64,
        depth: u32,
    ) -> Result<HalfObservation, DeviceError> {
        self.rings.drain()?;
        let before = self.end.counters()?;
        self.rings.outlet.begin_stamps(load);
        let offered = self.ends().offer(load, start_ns, depth);
        // Also behind an error: a marker is not to be stamped.
        let stamped = self.rings.end_stamps(load)?;
        let (mut offered, opened_ns) = offered?;
        offered.stamped = stamped;
        let sink = self.rings.inlet.counters();
        let sink = sink.map_err(|e| refused("reading the sink's counters", &e))?;
        let LinkCounters { rx_frames, tx_frames, rx_missed, tx_dropped, .. } =
            self.end.counters()?.since(&before);
        Ok(HalfObservation::Offered(Box::new(TesterObservation {
            load: offered,
            opened_ns,
            // The sink also loses the frames that its card had no room for.
            sink_missed: sink.dropped + rx_missed,
            interface: InterfaceCounts { rx_frames, tx_frames, rx_missed, tx_dropped },
        })))
    }

    fn mark(&mut self, count: u32) -> Result<MarkedTrips, DeviceError> {
        self.end.wait_for_carrier(super::CARRIER_MAX)?;
        self.rings.drain()?;
        let mut next = self.next;
        let marked = self.ends().mark(count, &mut next);
        self.next = next;
        Ok(marked)
    }
}

impl Testbed for LinuxTester {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let (longest, asked) = (self.end.link.mtu + HEADER_AND_FCS_LEN, setup.frame_len_max);
        if u32::from(asked) > longest {
            return Err(DeviceError::BadLoad {
                reason: format!(
                    "frames of {asked} bytes do not fit the MTU of the tester's interface; use at \
                     most {longest}, or set a greater MTU on both interfaces"
                ),
            });
        }
        let shape = (asked, setup.queues > 1 && self.end.link.is_veth());
        if shape != self.shape {
            self.rings = TesterRings::open(&self.end, shape, self.stamping.clock())?;
            self.shape = shape;
        }
        self.rings.drain()?;
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        Err(task.not_supported())
    }

    fn measure_half(&mut self, task: &HalfTask) -> Result<HalfObservation, DeviceError> {
        match task {
            HalfTask::Offer { load, start_ns, depth } => self.offer(load, *start_ns, *depth),
            HalfTask::Mark { count } => self.mark(*count).map(HalfObservation::Marked),
            HalfTask::Exchange { frames } => {
                Ok(HalfObservation::Exchanged(self.ends().exchange(frames)))
            }
            HalfTask::Clock => Ok(HalfObservation::Clock(Clock::new().now_ns())),
            HalfTask::Serve { .. } => Err(DeviceError::lacks(capability::TWO_HOSTS)),
        }
    }
}
