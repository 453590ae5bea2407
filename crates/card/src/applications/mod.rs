//! Applications on a card: each has a program of its own, for flows of its own.
//!
//! # What keeps them apart
//! - **Frames.** A classifier of rules says whose a frame is, before any program sees it; of
//!   several applications whose flows a frame is in, the first has it. What is nobody's goes on as
//!   on a card without applications.
//! - **Ways out.** A program sends by the ports and to the queues that its application owns, and
//!   back where a frame came from. Elsewhere it is refused where that is known when it is loaded,
//!   and dropped and counted where it is not.
//! - **Memory.** Windows and rings are of one program; the frames that are not its own are not in
//!   the bursts that it is given.
//! - **Time.** What waits for an application waits in a queue of its own on each core. A core takes
//!   turns: each application may work for a time in proportion to its share, and what it takes
//!   beyond, at most one burst, is taken off its next turn. What the function does with frames that
//!   it steered to a queue, on whichever core, is its work, too. Time in which the system ran
//!   something else on the core is nobody's. One that asks for more than its share has its queue
//!   full, and loses frames of its own.
//! - **Room.** What it sends waits for a port apart from what others send (`transmit_queue`), and
//!   what it steers goes to other cores by rings of its own (`steered`).

mod counters;
mod error;
mod flows;
mod grant;
mod host;
mod time;

use std::sync::Arc;

use niclab_control::ApplicationCounters;
use niclab_nic::{Nic, Worker};
use niclab_program::{Instruction, Operand, Pipeline, Program};

pub(crate) use self::counters::LossCounters;
use self::counters::PublishedCounters;
pub use self::error::ApplicationError;
pub use self::grant::Grant;
pub(crate) use self::grant::OwnedOutputs;
use self::host::{ApplicationContext, TURN_NS, WAITING_MAX};
pub(crate) use self::host::{CoreServices, Host, OverflowCounts};
use crate::error::CardError;
use crate::program_instance::{InstanceSender, ProgramInstance, channel};
use crate::steering_rings::{self, SteeringRings};
use crate::transmit_queue::OWN;

/// The largest share.
const SHARE_MAX: u32 = 100;

/// Applications of a card, at most: a frame says whose it is by a number of a queue.
const APPLICATIONS_MAX: usize = 64;

/// An application that a card is to run.
#[derive(Debug)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// Its program, with its tables.
    pub pipeline: Pipeline,
    /// Ports that its frames come by and that it may send by.
    pub ports: Vec<u16>,
    /// Queues that it may steer to.
    pub queues: Vec<u16>,
    /// Its flows: patterns as of rules, such as `eth / ipv4 / udp dst is 11211 / end`.
    pub flows: Vec<String>,
    /// Its share of the cores' time beside those of others, 1 to 100.
    pub share: u32,
    /// Memory that its program may take.
    pub grant: Grant,
}

/// An application that a card runs, to be looked at.
#[derive(Clone, Debug)]
pub struct LoadedApplication<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its program, with its tables.
    pub pipeline: &'a Pipeline,
    /// Ports that its frames come by and that it may send by.
    pub ports: Vec<u16>,
    /// Queues that it may steer to.
    pub queues: Vec<u16>,
    /// Its share of the cores' time beside those of others, 1 to 100.
    pub share: u32,
}

/// An application as the control side has it.
struct HostedApplication {
    name: String,
    pipeline: Pipeline,
    owned: OwnedOutputs,
    grant: Grant,
    /// Cores that its program runs on.
    cores: usize,
    to_cores: Vec<InstanceSender>,
    shown: Vec<Arc<PublishedCounters>>,
}

/// All applications of a card, and whose flows are whose.
pub(crate) struct Applications {
    all: Vec<HostedApplication>,
    /// By port: what says whose a frame is.
    dispatch: Vec<Nic>,
    shares: Vec<u32>,
}

impl Applications {
    /// Makes what a card of so many ports, queues and cores needs for these.
    ///
    /// # Errors
    /// [`ApplicationError`] of the first that cannot be had.
    pub(crate) fn new(
        given: Vec<Application>,
        (ports, cores): (usize, usize),
        queues: u16,
    ) -> Result<Applications, CardError> {
        if given.len() > APPLICATIONS_MAX {
            return Err(ApplicationError::TooMany { count: given.len() }.into());
        }
        let mut dispatch = flows::dispatch(given.len(), ports)?;
        let (mut all, mut shares): (Vec<HostedApplication>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut claimed = Vec::new();
        for (number, of) in given.into_iter().enumerate() {
            if all.iter().any(|other| other.name == of.name) {
                return Err(ApplicationError::Twice { name: of.name }.into());
            }
            let owned = OwnedOutputs::of(&of, ports, queues)?;
            for port in &of.ports {
                flows::claim(
                    &mut dispatch[usize::from(*port)],
                    &of,
                    (number, *port),
                    &mut claimed,
                )?;
            }
            shares.push(of.share);
            let Application { name, pipeline, grant, .. } = of;
            let (to_cores, shown) = (Vec::new(), Vec::new());
            let hosted = HostedApplication { name, pipeline, owned, grant, cores, to_cores, shown };
            hosted.permits(hosted.pipeline.program())?;
            all.push(hosted);
        }
        Ok(Applications { all, dispatch, shares })
    }

    /// The frames that so many of them have waiting for a core, of so many, at most, without those
    /// that are to leave.
    pub(crate) fn frames(count: usize, cores: usize) -> usize {
        count * (WAITING_MAX + steering_rings::frames_max(cores))
    }

    /// What one more core needs, with its ends of each one's rings; `None` where there are no
    /// applications.
    pub(crate) fn core(&mut self, steered: Vec<SteeringRings>) -> Option<Box<Host>> {
        if self.all.is_empty() {
            return None;
        }
        let dispatch: Vec<Worker> = self.dispatch.iter_mut().map(|nic| nic.worker()).collect();
        let total: i64 = self.shares.iter().map(|share| i64::from(*share)).sum();
        let round_ns = TURN_NS * self.all.len() as i64;
        let ports = dispatch.len();
        let rings = self.shares.iter().zip(steered);
        let places = self.all.iter_mut().zip(rings).enumerate().map(|(at, (of, rings))| {
            let (share, steered) = rings;
            let (to_core, program) = channel(Some(of.instance()));
            let shown = Arc::<PublishedCounters>::default();
            of.to_cores.push(to_core);
            of.shown.push(Arc::clone(&shown));
            let turn_ns = round_ns * i64::from(*share) / total;
            ApplicationContext::new(OWN + 1 + at, program, steered, ports, turn_ns, shown)
        });
        let places = places.collect();
        Some(Box::new(Host::new(dispatch, places)))
    }

    /// All of them, in their order.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = LoadedApplication<'_>> {
        self.all.iter().zip(&self.shares).map(|(of, share)| {
            let (ports, queues) = of.owned.numbers();
            let (name, pipeline) = (of.name.as_str(), &of.pipeline);
            LoadedApplication { name, pipeline, ports, queues, share: *share }
        })
    }

    /// The program of an application.
    ///
    /// # Errors
    /// [`ApplicationError::Unknown`].
    pub(crate) fn pipeline(&mut self, name: &str) -> Result<&mut Pipeline, ApplicationError> {
        self.of(name).map(|of| &mut of.pipeline)
    }

    fn of(&mut self, name: &str) -> Result<&mut HostedApplication, ApplicationError> {
        match self.all.iter().position(|of| of.name == name) {
            Some(at) => Ok(&mut self.all[at]),
            None => {
                let names: Vec<&str> = self.all.iter().map(|of| of.name.as_str()).collect();
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Err(ApplicationError::Unknown { name: name.to_owned(), there })
            }
        }
    }

    /// Checks that a program may run for an application.
    ///
    /// # Errors
    /// [`ApplicationError`].
    pub(crate) fn check_grant(
        &mut self,
        name: &str,
        program: &Program,
    ) -> Result<(), ApplicationError> {
        self.of(name)?.permits(program)
    }

    /// Whether all cores have taken its last program.
    ///
    /// # Errors
    /// [`ApplicationError::Unknown`].
    pub(crate) fn is_current(&mut self, name: &str) -> Result<bool, ApplicationError> {
        Ok(self.of(name)?.has_taken())
    }

    /// Has another program run for an application.
    ///
    /// # Errors
    /// [`ApplicationError`]; the last one goes on then.
    pub(crate) fn replace(&mut self, name: &str, by: Pipeline) -> Result<(), ApplicationError> {
        let of = self.of(name)?;
        of.permits(by.program())?;
        if !of.has_taken() {
            return Err(ApplicationError::UnderWay { name: name.to_owned() });
        }
        of.pipeline = by;
        for place in 0..of.to_cores.len() {
            let instance = of.instance();
            of.to_cores[place].send(Some(instance));
        }
        Ok(())
    }

    /// Lets what packets no longer see be used again.
    pub(crate) fn run_housekeeping(&mut self, steps: usize) {
        for of in &mut self.all {
            of.pipeline.run_housekeeping(steps);
            of.to_cores.iter_mut().for_each(InstanceSender::free_returned);
        }
    }

    /// Their counters.
    pub(crate) fn counters(&self) -> Vec<ApplicationCounters> {
        let of = |of: &HostedApplication| counters::sum(&of.name, &of.shown);
        self.all.iter().map(of).collect()
    }
}

impl HostedApplication {
    /// Whether all cores have taken the last program; what they had before is freed, for while they
    /// cannot give it back they take no other one.
    fn has_taken(&mut self) -> bool {
        self.to_cores.iter_mut().for_each(InstanceSender::free_returned);
        self.to_cores.iter().all(InstanceSender::is_free)
    }

    /// Checks that a program uses only the application's ports, queues and memory.
    fn permits(&self, program: &Program) -> Result<(), ApplicationError> {
        let codes = program.actions.iter().map(|action| &action.code).chain([&program.apply]);
        for step in codes.flat_map(|code| &code.steps) {
            let (what, number) = match step {
                Instruction::Tx(Operand::Value(port)) if !self.owned.has_port(*port) => {
                    ("port", *port)
                }
                Instruction::Steer(Operand::Value(queue)) if !self.owned.has_queue(*queue) => {
                    ("queue", *queue)
                }
                _ => continue,
            };
            return Err(ApplicationError::Outside { name: self.name.clone(), what, number });
        }
        self.grant.check(&self.name, program, self.cores)
    }

    fn instance(&self) -> Box<ProgramInstance> {
        ProgramInstance::new(&self.pipeline, self.owned.clone())
    }
}
