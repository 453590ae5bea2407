//! A testbed of two hosts: the tester's agent offers a load, the device's agent serves it, and this
//! side tells both when.

use std::time::{Duration, Instant};

use niclab_load::{Alignment, AlignmentBy, Load, LoadObservation};

use super::asked::AskedDevice;
use super::files::{of_load, of_setup};
use super::name::Name;
use super::protocol::{AgentAnswer, AgentRequest};
use super::start::AgentStart;
use crate::face::{
    DeviceError, DeviceInfo, Observation, PathNode, Setup, SetupReport, Task, Testbed,
};
use crate::plan::Plan;
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::two_hosts::{
    FarAnswer, FarRequest, HalfObservation, HalfTask, MarkedTrips, Role, SeenMarker, ServeNotice,
    ServeSignal, TesterObservation, align, merge,
};

/// Markers before each trial: of this many, one is under way without delay.
const MARKERS: u32 = 64;

/// How long both hosts have to hear when a load begins, at first; what it takes grows with each
/// attempt that was too late.
const LEAD_FIRST: Duration = Duration::from_millis(50);

/// How often a trial is begun.
const ATTEMPTS: u32 = 6;

/// Both halves.
pub(super) struct TwoHosts {
    about: DeviceInfo,
    tester: AskedDevice,
    device: AskedDevice,
    /// The device's half is opened before the tester's.
    is_device_first: bool,
    lead: Duration,
}

/// What the tester counted, the difference of the clocks, and how many markers the function has not
/// seen.
type OfferedLoad = (TesterObservation, (Alignment, u64));

/// A clock of another host, read over its connection.
#[derive(Clone, Copy)]
struct ClockReading {
    /// What it showed, nanoseconds.
    ns: u64,
    /// When it was asked, and how long that took, by this host's clock.
    asked: Instant,
    took: Duration,
}

impl TwoHosts {
    pub(super) fn open(
        text: &str,
        (tester, device): (&str, &str),
        start: &AgentStart,
    ) -> Result<TwoHosts, DeviceError> {
        let names = (Name::parse_half(tester)?, Name::parse_half(device)?);
        // An interface has no link before a card at the other end is started, which DPDK does.
        let is_device_first = is_dpdk(&names.1) && !is_dpdk(&names.0);
        let open_tester = |other: Option<&AskedDevice>| {
            let half = (names.0.clone(), Role::Tester);
            AskedDevice::open(tester, half, start, other.map(AskedDevice::taken))
        };
        let open_device = |other: Option<&AskedDevice>| {
            let half = (names.1.clone(), Role::Device);
            AskedDevice::open(device, half, start, other.map(AskedDevice::taken))
        };
        let (tester, device) = if is_device_first {
            let device = open_device(None)?;
            (open_tester(Some(&device))?, device)
        } else {
            let tester = open_tester(None)?;
            let device = open_device(Some(&tester))?;
            (tester, device)
        };
        let about = about(text, &tester.about, &device.about);
        Ok(TwoHosts { about, tester, device, is_device_first, lead: LEAD_FIRST })
    }

    /// Asks the device, whose work may need the tester.
    fn ask_device(&mut self, request: &AgentRequest) -> Result<AgentAnswer, DeviceError> {
        let mut answer = self.device.ask(request);
        // The device would report an error of the tester as its own.
        let mut of_tester = None;
        loop {
            let asked = match answer {
                Ok(AgentAnswer::Ask(asked)) => asked,
                Ok(answer) => return Ok(answer),
                Err(error) => return Err(of_tester.unwrap_or(error)),
            };
            let far = self.of_tester(asked).unwrap_or_else(|error| {
                of_tester = Some(error.clone());
                FarAnswer::Failed(error)
            });
            answer = self.device.ask(&AgentRequest::Far(far));
        }
    }

    /// What the tester does for the device.
    fn of_tester(&mut self, asked: FarRequest) -> Result<FarAnswer, DeviceError> {
        let frames = match &asked {
            FarRequest::Send(frame) => vec![frame.clone()],
            FarRequest::Receive => Vec::new(),
        };
        match self.half_of_tester(HalfTask::Exchange { frames })? {
            HalfObservation::Exchanged(exchanged) => Ok(match asked {
                FarRequest::Send(_) => FarAnswer::Sent(exchanged.sent == 1),
                FarRequest::Receive => FarAnswer::Received(exchanged.received),
            }),
            other => Err(self.tester.confused(&AgentAnswer::Half(other))),
        }
    }

    fn half_of_tester(&mut self, task: HalfTask) -> Result<HalfObservation, DeviceError> {
        let TwoHosts { tester, device, .. } = self;
        // The device may be serving meanwhile.
        match tester.ask_beside(&AgentRequest::MeasureHalf(task), || device.show_waiting())? {
            AgentAnswer::Half(observation) => Ok(observation),
            other => Err(self.tester.confused(&other)),
        }
    }

    /// A notice of the device that serves.
    fn notice(&mut self, request: &AgentRequest) -> Result<ServeNotice, DeviceError> {
        match self.ask_device(request)? {
            AgentAnswer::Notice(notice) => Ok(notice),
            other => Err(self.device.confused(&other)),
        }
    }

    /// Offers a load on one host and serves it on the other.
    fn offer(&mut self, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
        for _ in 1..ATTEMPTS {
            if let Some(observation) = self.attempt(load, plan)? {
                return Ok(observation);
            }
            self.lead *= 2;
        }
        self.attempt(load, plan)?.ok_or_else(|| DeviceError::Interrupted {
            device: self.about.name.clone(),
            reason: format!(
                "the tester was ready later than {:?} after it heard when a load begins, \
                 {ATTEMPTS} times; run niclab on the tester, or nearer to it",
                self.lead
            ),
        })
    }

    /// The same; `None` where the tester heard too late when it was to begin.
    fn attempt(
        &mut self,
        load: &Load,
        plan: &Plan,
    ) -> Result<Option<LoadObservation>, DeviceError> {
        let serve = HalfTask::Serve { load: load.clone(), plan: plan.clone() };
        let serving = self.notice(&AgentRequest::MeasureHalf(serve))?;
        let begun = self.begin(load, serving);
        // Whatever came of it, the device serves until a signal ends that.
        let served = self.ask_device(&AgentRequest::Signal(ServeSignal::Finish));
        let Some((offered, aligned)) = begun? else { return served.map(|_| None) };
        match served? {
            AgentAnswer::Half(HalfObservation::Served(served)) => {
                Ok(Some(merge(load, offered, *served, aligned)))
            }
            other => Err(self.device.confused(&other)),
        }
    }

    /// Aligns the clocks, says when the load begins, and waits for its end.
    fn begin(
        &mut self,
        load: &Load,
        serving: ServeNotice,
    ) -> Result<Option<OfferedLoad>, DeviceError> {
        let ServeNotice::Serving { depth, .. } = serving else {
            return Err(self.device.confused(&AgentAnswer::Notice(serving)));
        };
        let (alignment, unseen, tester) = self.align()?;
        let since = tester.asked.elapsed().saturating_add(self.lead);
        let start_ns = tester.ns.saturating_add(since.as_nanos() as u64);
        let at_ns = alignment.to_device(start_ns.saturating_add(load.warmup_ns));
        self.notice(&AgentRequest::Signal(ServeSignal::Open { at_ns }))?;
        let task = HalfTask::Offer { load: load.clone(), start_ns, depth };
        match self.half_of_tester(task) {
            Ok(HalfObservation::Offered(offered)) => Ok(Some((*offered, (alignment, unseen)))),
            Ok(HalfObservation::TooLate) => Ok(None),
            Ok(other) => Err(self.tester.confused(&AgentAnswer::Half(other))),
            Err(error) => Err(error),
        }
    }

    /// The difference of both clocks, how many markers the function has not seen, and the tester's
    /// clock.
    fn align(&mut self) -> Result<(Alignment, u64, ClockReading), DeviceError> {
        let MarkedTrips { sent, trips } =
            match self.half_of_tester(HalfTask::Mark { count: MARKERS })? {
                HalfObservation::Marked(marked) => marked,
                other => return Err(self.tester.confused(&AgentAnswer::Half(other))),
            };
        let (seen, device) = self.device_clock()?;
        let tester = self.tester_clock()?;
        let alignment = align(&trips, &seen).unwrap_or_else(|| by_connections(tester, device));
        Ok((alignment, sent.saturating_sub(seen.len() as u64), tester))
    }

    fn device_clock(&mut self) -> Result<(Vec<SeenMarker>, ClockReading), DeviceError> {
        let asked = Instant::now();
        match self.notice(&AgentRequest::Signal(ServeSignal::Markers))? {
            ServeNotice::Markers { seen, now_ns } => {
                Ok((seen, ClockReading { ns: now_ns, asked, took: asked.elapsed() }))
            }
            other => Err(self.device.confused(&AgentAnswer::Notice(other))),
        }
    }

    fn tester_clock(&mut self) -> Result<ClockReading, DeviceError> {
        let asked = Instant::now();
        match self.half_of_tester(HalfTask::Clock)? {
            HalfObservation::Clock(ns) => Ok(ClockReading { ns, asked, took: asked.elapsed() }),
            other => Err(self.tester.confused(&AgentAnswer::Half(other))),
        }
    }
}

/// Whether half a testbed is a port of DPDK.
fn is_dpdk(name: &Name) -> bool {
    name.device.starts_with("dpdk:")
}

/// The difference of two clocks that were each read over a connection.
fn by_connections(tester: ClockReading, device: ClockReading) -> Alignment {
    let half = |reading: ClockReading| reading.took.as_nanos() as u64 / 2;
    // When each showed its time, after the first was asked.
    let first = tester.asked.min(device.asked);
    let at = |reading: ClockReading| {
        (reading.asked - first).as_nanos() as i128 + i128::from(half(reading))
    };
    let offset = i128::from(device.ns) - at(device) - (i128::from(tester.ns) - at(tester));
    let offset_ns = i64::try_from(offset).unwrap_or(if offset < 0 { i64::MIN } else { i64::MAX });
    let error_ns = half(tester) + half(device) + 1;
    Alignment { by: AlignmentBy::Connections, offset_ns, error_ns }
}

/// The description of both.
fn about(text: &str, tester: &DeviceInfo, device: &DeviceInfo) -> DeviceInfo {
    let mut facts = device.facts.clone();
    facts.extend(tester.facts.iter().map(|fact| {
        let mut fact = fact.clone();
        if !fact.name.ends_with(" of the tester") {
            fact.name += " of the tester";
        }
        fact
    }));
    let wire = PathNode { role: "wire".into(), label: "cable".into(), core: None };
    let of = |about: &DeviceInfo, role: &str| {
        about.places.iter().filter(|place| place.role == role).cloned().collect::<Vec<_>>()
    };
    let mut places = of(tester, "generator");
    places.push(wire);
    places.extend(device.places.iter().cloned());
    places.extend(of(tester, "sink"));
    let both = device.environments.iter().chain(&tester.environments);
    DeviceInfo {
        name: text.to_owned(),
        facts,
        places,
        environments: both.cloned().collect(),
        hosts: Vec::new(),
        is_one_machine: false,
        ..device.clone()
    }
}

impl Testbed for TwoHosts {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let TwoHosts { tester, device, is_device_first, .. } = self;
        let (first, second) = if *is_device_first { (device, tester) } else { (tester, device) };
        first.reconnect()?;
        second.reconnect()?;
        let bare = Setup { rules: Vec::new(), ..setup.clone() };
        match self.tester.ask(&AgentRequest::Setup(bare))? {
            AgentAnswer::Ready(_) => {}
            other => return Err(self.tester.confused(&other)),
        }
        self.device.send_files(of_setup(setup))?;
        match self.ask_device(&AgentRequest::Setup(setup.clone()))? {
            AgentAnswer::Ready(report) => Ok(report),
            other => Err(self.device.confused(&other)),
        }
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        match task {
            Task::Load { load, plan } => {
                self.tester.send_files(of_load(load).into_iter())?;
                self.offer(load, plan).map(Observation::Load)
            }
            Task::Plan(_) => match self.ask_device(&AgentRequest::Measure(task.clone()))? {
                AgentAnswer::Observed(observation) => Ok(*observation),
                other => Err(self.device.confused(&other)),
            },
            _ => Err(task.not_supported()),
        }
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        match self.ask_device(&AgentRequest::TryRules(cases.clone()))? {
            AgentAnswer::Tried(observation) => Ok(observation),
            other => Err(self.device.confused(&other)),
        }
    }
}
