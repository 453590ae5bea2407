//! A testbed of two hosts: niclab has the tester's agent offer a load and the device's agent serve
//! it, and tells both when the load begins.

use std::time::{Duration, Instant};

use niclab_load::{Alignment, AlignmentBy, Load, LoadObservation};

use super::asked::{AskedDevice, open_at_once, reconnect};
use super::cores::{HalfCores, divide};
use super::files::{of_load, of_setup};
use super::name::Name;
use super::protocol::{AgentAnswer, AgentRequest};
use super::start::AgentStart;
use crate::face::{
    DeviceError, DeviceInfo, Fact, Observation, PathNode, Setup, SetupReport, Task, Testbed,
};
use crate::plan::Plan;
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::two_hosts::{
    FarAnswer, FarRequest, HalfObservation, HalfTask, MarkedTrips, Role, SeenMarker, ServeNotice,
    ServeSignal, TesterObservation, align, merge,
};

/// Markers before each trial. Of 64, at least one is hardly ever delayed.
const MARKERS: u32 = 64;

/// The time from telling both hosts when a load begins to that beginning, in the first attempt.
/// Each attempt that was too late doubles it.
const LEAD_FIRST: Duration = Duration::from_millis(50);

/// Attempts to begin a trial.
const ATTEMPTS: u32 = 6;

/// Both halves.
pub(super) struct TwoHosts {
    about: DeviceInfo,
    tester: AskedDevice,
    device: AskedDevice,
    lead: Duration,
    /// The one core of both, where they are on one machine and have no other.
    shared_core: Option<u32>,
}

/// The tester's counts, the difference of the clocks, and the number of markers that the function
/// did not see.
type OfferedLoad = (TesterObservation, (Alignment, u64));

/// A clock of another host, read over its connection.
#[derive(Clone, Copy)]
struct ClockReading {
    /// Its time, nanoseconds.
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
        let name = Name::parse_half(tester, Role::Tester)?;
        let mut tester = AskedDevice::start(tester, (name, Role::Tester), start)?;
        let name = Name::parse_half(device, Role::Device)?;
        let mut device = AskedDevice::start(device, (name, Role::Device), start)?;
        let HalfCores { tester: of_tester, device: of_device, shared: shared_core } =
            divide(&tester.host, &device.host);
        (tester.cores, device.cores) = (of_tester, of_device);
        open_at_once(&mut [&mut tester, &mut device])?;
        let mut about = about(text, &tester.about, &device.about);
        about.facts.extend(shared_core.map(|core| Fact {
            name: "shared core".into(),
            value: format!("tester and function share core {core} of one machine"),
        }));
        Ok(TwoHosts { about, tester, device, lead: LEAD_FIRST, shared_core })
    }

    /// Asks the device, and has the tester carry out what the device asks of it meanwhile.
    fn ask_device(&mut self, request: &AgentRequest) -> Result<AgentAnswer, DeviceError> {
        let mut answer = self.device.ask(request);
        let mut failed = None;
        while let Ok(AgentAnswer::Ask(asked)) = answer {
            let of_tester = self.of_tester(asked).unwrap_or_else(|error| {
                failed = Some(error.clone());
                FarAnswer::Failed(error)
            });
            answer = self.device.ask(&AgentRequest::Far(of_tester));
        }
        // The device hands an error of the tester back as its own.
        answer.map_err(|error| failed.unwrap_or(error))
    }

    /// Has the tester carry out a request of the device.
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
        match self.tester.ask(&AgentRequest::MeasureHalf(task))? {
            AgentAnswer::Half(observation) => Ok(observation),
            other => Err(self.tester.confused(&other)),
        }
    }

    /// Asks the device while it serves a load, and returns its notice.
    fn notice(&mut self, request: &AgentRequest) -> Result<ServeNotice, DeviceError> {
        match self.ask_device(request)? {
            AgentAnswer::Notice(notice) => Ok(notice),
            other => Err(self.device.confused(&other)),
        }
    }

    /// Has the tester offer a load and the device serve it.
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
                "the tester needs more than {:?} to prepare a load, in {ATTEMPTS} attempts; run \
                 niclab on the tester, or nearer to it",
                self.lead
            ),
        })
    }

    /// Begins a load once; `None` where the tester was not ready when the load was to begin.
    fn attempt(
        &mut self,
        load: &Load,
        plan: &Plan,
    ) -> Result<Option<LoadObservation>, DeviceError> {
        let serve = HalfTask::Serve { load: load.clone(), plan: plan.clone() };
        let serving = self.notice(&AgentRequest::MeasureHalf(serve))?;
        let begun = self.begin(load, serving);
        // The device serves until this signal, whatever has failed.
        let served = self.ask_device(&AgentRequest::Signal(ServeSignal::Finish));
        let Some((offered, aligned)) = begun? else { return served.map(|_| None) };
        match served? {
            AgentAnswer::Half(HalfObservation::Served(served)) => {
                if let Some(fault) = served.fault() {
                    return Err(self.device.end(&format!("gave {fault}")));
                }
                let mut observation = merge(load, offered, *served, aligned);
                observation.honesty.reasons.extend(self.shared_core.map(shared));
                Ok(Some(observation))
            }
            other => Err(self.device.confused(&other)),
        }
    }

    /// Aligns the clocks, tells both when the load begins, and waits for its end; `None` where the
    /// tester was not ready then.
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
            Ok(other) => Err(self.tester.confused(&AgentAnswer::Half(other))),
            Err(DeviceError::TooLate) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The difference of both clocks, the number of markers that the function did not see, and a
    /// reading of the tester's clock.
    fn align(&mut self) -> Result<(Alignment, u64, ClockReading), DeviceError> {
        let marked = match self.half_of_tester(HalfTask::Mark { count: MARKERS })? {
            HalfObservation::Marked(marked) => marked,
            other => return Err(self.tester.confused(&AgentAnswer::Half(other))),
        };
        if let Some(fault) = marked.fault(MARKERS) {
            return Err(self.tester.end(&format!("gave {fault}")));
        }
        let MarkedTrips { sent, trips } = marked;
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

/// The difference of two clocks that were each read over a connection.
fn by_connections(tester: ClockReading, device: ClockReading) -> Alignment {
    let half = |reading: ClockReading| reading.took.as_nanos() as u64 / 2;
    // The moment of each reading, counted from the first request.
    let first = tester.asked.min(device.asked);
    let at = |reading: ClockReading| {
        (reading.asked - first).as_nanos() as i128 + i128::from(half(reading))
    };
    let offset = i128::from(device.ns) - at(device) - (i128::from(tester.ns) - at(tester));
    let offset_ns = i64::try_from(offset).unwrap_or(if offset < 0 { i64::MIN } else { i64::MAX });
    let error_ns = half(tester) + half(device) + 1;
    Alignment { by: AlignmentBy::Connections, offset_ns, error_ns }
}

/// The words of a trial whose halves had one core.
fn shared(core: u32) -> String {
    format!(
        "tester and function shared core {core} of one machine, so the figures are those of both; \
         give each half a core of its own, for example `exec:taskset -c 1 COMMAND=PORT`"
    )
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
        reconnect([&mut self.tester, &mut self.device])?;
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
