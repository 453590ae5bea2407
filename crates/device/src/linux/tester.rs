//! The tester's half of a testbed of two hosts: generator and sink on one interface.

use niclab_load::clock::Clock;

use super::ethtool::Card;
use super::link::{Link, LinkCounters};
use super::name::{Ends, Name, Path};
use super::rings::{TesterRings, of_port};
use super::settings::HeldCard;
use super::stamp_setting::Stamping;
use super::tester_xdp::XdpRings;
use super::{End, FRAME_LEN_DEFAULT, HEADER_AND_FCS_LEN, facts, refused};
use crate::capability;
use crate::cores::Cores;
use crate::face::{
    DeviceError, DeviceInfo, Observation, PathNode, Setup, SetupReport, Task, Testbed,
};
use crate::two_hosts::{
    ExchangedFrames, HalfObservation, HalfTask, InterfaceCounts, MarkedTrips, Role, TesterEnds,
    TesterObservation,
};
use crate::{Load, LoadObservation};

/// Generator and sink.
pub(super) struct LinuxTester {
    about: DeviceInfo,
    core: u32,
    end: End,
    rings: PathRings,
    /// Dropped behind the rings.
    stamping: Stamping,
    /// The same: a card of which one queue receives all frames, for AF_XDP.
    _held: Option<HeldCard>,
    /// Longest frame and queues that the rings are for.
    shape: (u16, bool),
    /// The number of the next marker.
    next: u64,
}

/// The rings, by the path of the frames.
enum PathRings {
    Packet(TesterRings),
    Xdp(Box<XdpRings>),
}

/// The work of both paths: an expression of the rings' outlet and inlet.
macro_rules! with_ends {
    ($tester:expr, $ends:ident => $work:expr) => {
        match &mut $tester.rings {
            PathRings::Packet(TesterRings { outlet, inlet }) => {
                let mut $ends = TesterEnds { outlet, inlet, core: $tester.core };
                $work
            }
            PathRings::Xdp(rings) => {
                let XdpRings { outlet, inlet } = &mut **rings;
                let mut $ends = TesterEnds { outlet, inlet, core: $tester.core };
                $work
            }
        }
    };
}

/// Queues by which an interface receives.
fn receiving(end: &End) -> Result<u32, DeviceError> {
    let channels =
        end.within("asking for the queues of", |link| Card::open(&link.name)?.channels())?;
    Ok(channels.map_or(1, |channels| channels.now.receiving()))
}

impl LinuxTester {
    pub(super) fn open(name: &str) -> Result<LinuxTester, DeviceError> {
        let Name { path, ends, stamps } = Name::parse(name, Role::Tester)?;
        let Ends::Alone(interface) = ends else {
            return Err(DeviceError::lacks(capability::TWO_HOSTS));
        };
        if path == Path::Tc {
            let what = "a tester behind filters; give linux:IFACE or linux-xdp:IFACE";
            return Err(DeviceError::lacks(what));
        }
        if path == Path::Xdp && stamps.is_some() {
            return Err(DeviceError::lacks(format!(
                "time stamps of the port `{name}`: niclab lacks it; a tester `linux:IFACE` has them"
            )));
        }
        let core = Cores::alone(name)?.tester;
        let end = End::named(&interface)?;
        let stamping = Stamping::take(&end, stamps)?;
        let shape = (FRAME_LEN_DEFAULT, false);
        let mut held = None;
        let rings = match path {
            Path::Xdp => {
                let count = if end.link.is_veth() {
                    // The other end cannot have more queues to send than this one receives by.
                    receiving(&end)?
                } else {
                    held.insert(HeldCard::hold(&end.link, false)?).receive_by(1)?;
                    1
                };
                let open = |link: &Link| Ok(XdpRings::open(link, count));
                let opened = end.within("opening AF_XDP sockets on", open);
                PathRings::Xdp(Box::new(opened?.map_err(of_port)?))
            }
            _ => PathRings::Packet(TesterRings::open(&end, shape, stamps)?),
        };
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
        Ok(LinuxTester { about, core, end, rings, stamping, _held: held, shape, next: 0 })
    }

    /// Throws away what has arrived so far.
    fn drain(&mut self) -> Result<(), DeviceError> {
        match &mut self.rings {
            PathRings::Packet(rings) => rings.drain(),
            PathRings::Xdp(rings) => rings.drain().map_err(|e| refused("emptying the rings", &e)),
        }
    }

    /// Offers a load, with time stamps of some of its frames. Also returns the time at which the
    /// measured part began, and the frames that the sink had no room for.
    fn drive(
        &mut self,
        load: &Load,
        start_ns: u64,
        depth: u32,
    ) -> Result<(LoadObservation, u64, u64), DeviceError> {
        if let PathRings::Packet(rings) = &mut self.rings {
            rings.outlet.begin_stamps(load);
        }
        let offered = with_ends!(self, ends => ends.offer(load, start_ns, depth));
        match &mut self.rings {
            PathRings::Packet(rings) => {
                // Ends it even after an error, so that markers are not stamped.
                let stamped = rings.end_stamps(load)?;
                let (mut offered, opened_ns) = offered?;
                offered.stamped = stamped;
                let sink = rings.inlet.counters();
                let sink = sink.map_err(|e| refused("reading the sink's counters", &e))?;
                Ok((offered, opened_ns, sink.dropped))
            }
            PathRings::Xdp(rings) => {
                let (offered, opened_ns) = offered?;
                let missed = rings.inlet.missed();
                self.check()?;
                Ok((offered, opened_ns, missed))
            }
        }
    }

    fn exchange(&mut self, frames: &[Vec<u8>]) -> Result<ExchangedFrames, DeviceError> {
        // A card may switch its link off while its queues are set.
        self.end.wait_for_carrier(super::CARRIER_MAX)?;
        let exchanged = with_ends!(self, ends => ends.exchange(frames));
        self.check()?;
        Ok(exchanged)
    }

    /// Whether the rings have worked since the last call.
    fn check(&self) -> Result<(), DeviceError> {
        match &self.rings {
            PathRings::Packet(_) => Ok(()),
            PathRings::Xdp(rings) => {
                rings.take_error().map_err(|e| refused("sending and receiving by AF_XDP", &e))
            }
        }
    }

    fn offer(
        &mut self,
        load: &Load,
        start_ns: u64,
        depth: u32,
    ) -> Result<HalfObservation, DeviceError> {
        self.drain()?;
        let before = self.end.counters()?;
        let (offered, opened_ns, dropped) = self.drive(load, start_ns, depth)?;
        let LinkCounters { rx_frames, tx_frames, rx_missed, tx_dropped, .. } =
            self.end.counters()?.since(&before);
        Ok(HalfObservation::Offered(Box::new(TesterObservation {
            load: offered,
            opened_ns,
            // The sink also loses the frames that its card had no room for.
            sink_missed: dropped + rx_missed,
            interface: InterfaceCounts { rx_frames, tx_frames, rx_missed, tx_dropped },
        })))
    }

    fn mark(&mut self, count: u32) -> Result<MarkedTrips, DeviceError> {
        self.end.wait_for_carrier(super::CARRIER_MAX)?;
        self.drain()?;
        let mut next = self.next;
        let marked = with_ends!(self, ends => ends.mark(count, &mut next));
        self.next = next;
        self.check()?;
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
        match &mut self.rings {
            PathRings::Packet(rings) if shape != self.shape => {
                *rings = TesterRings::open(&self.end, shape, self.stamping.clock())?;
                self.shape = shape;
            }
            PathRings::Xdp(_) if shape.1 => {
                return Err(DeviceError::lacks(
                    "several queues of a veth pair with a tester by AF_XDP, whose frames all \
                     arrive in one queue; a tester `linux:IFACE` spreads them",
                ));
            }
            _ => {}
        }
        self.drain()?;
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        Err(task.not_supported())
    }

    fn measure_half(&mut self, task: &HalfTask) -> Result<HalfObservation, DeviceError> {
        match task {
            HalfTask::Offer { load, start_ns, depth } => self.offer(load, *start_ns, *depth),
            HalfTask::Mark { count } => self.mark(*count).map(HalfObservation::Marked),
            HalfTask::Exchange { frames } => self.exchange(frames).map(HalfObservation::Exchanged),
            HalfTask::Clock => Ok(HalfObservation::Clock(Clock::new().now_ns())),
            HalfTask::Serve { .. } => Err(DeviceError::lacks(capability::TWO_HOSTS)),
        }
    }
}
