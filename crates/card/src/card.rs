//! A card: one thread makes, changes, queries and ends it, while its cores work.
//!
//! It is made of a [`CardConfig`] (`config`), opens its ports and starts its cores (`start`), takes
//! rules (`rules`), reports and changes its RSS (`rss`), and captures frames (`captures`). Its
//! owner runs its background work (`housekeeping`), and shuts it down (`shutdown`). The program
//! that classifies frames in place of rules is changed here.

mod captures;
mod config;
mod housekeeping;
mod rss;
mod rules;
mod shutdown;
mod start;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use niclab_apps::kvs::protocol::time::UnixTime;
use niclab_control::{CardCounters, CoreCounters, PortCounters, QueueCounters};
use niclab_nic::memory::Region;
use niclab_port::frame_pool::FramePool;
use niclab_port::wake::Doorbell;
use niclab_program::{Pipeline, Program};

use crate::applications::{ApplicationError, Applications, LoadedApplication, OwnedOutputs};
use crate::counters::PublishedCoreCounters;
use crate::error::ChangeError;
use crate::external_queues::ExternalQueueListener;
use crate::items::ItemCounters;
use crate::ports::Port;
use crate::program_instance::{InstanceSender, ProgramInstance};
use crate::program_view::ProgramView;
use crate::workload::PacketProcessor;

pub use config::{CardConfig, Receive};
pub use rss::RssAdjustment;
pub(crate) use rules::RuleOperations;
pub use shutdown::CardResult;

/// Longest frame, bytes without FCS: an Ethernet frame of 1,500 B with two VLAN tags and more.
pub(crate) const FRAME_LEN_MAX: usize = 1_536;

/// A card at work.
pub struct Card {
    ports: Vec<Port>,
    threads: Vec<JoinHandle<FramePool>>,
    /// Cores, and where each shows its counters.
    cores: Vec<(u32, Arc<PublishedCoreCounters>)>,
    doorbells: Arc<[Doorbell]>,
    /// How often the cores were told something.
    notifications: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    region: Arc<Region>,
    queues: u16,
    begun: Instant,
    /// The program that classifies frames in place of rules and RSS, and the channel to each core.
    program: Option<PacketProcessor>,
    to_cores: Vec<InstanceSender>,
    applications: Applications,
    /// Texts of rules that were refused.
    rule_texts_refused: u64,
    /// Errors to report at the end.
    errors: Vec<String>,
}

impl Card {
    /// The program that decides about frames, to change its tables; `None` where rules and RSS do,
    /// or the program of a store.
    pub fn program(&mut self) -> Option<&mut Pipeline> {
        match &mut self.program {
            Some(PacketProcessor::Program(program)) => Some(program),
            Some(PacketProcessor::Items(_)) | None => None,
        }
    }

    /// A view of the program that classifies frames; `None` if rules and RSS do.
    pub fn program_view(&self) -> Option<ProgramView<'_>> {
        Some(match self.program.as_ref()? {
            PacketProcessor::Items(items) => ProgramView::new(items.pipeline()),
            PacketProcessor::Program(program) => ProgramView::new(program),
        })
    }

    /// Counters of the program that writes items for a store; `None` if another one classifies
    /// frames.
    pub fn item_counters(&self) -> Option<ItemCounters> {
        match &self.program {
            Some(PacketProcessor::Items(items)) => Some(items.counters()),
            Some(PacketProcessor::Program(_)) | None => None,
        }
    }

    /// Says to the program that writes items for a store, where it decides, what time it is, for
    /// items to come.
    pub fn set_items_time(&mut self, now: UnixTime) {
        if let Some(PacketProcessor::Items(items)) = &mut self.program {
            items.set_time(now);
        }
    }

    /// Bytes of items that the segment has room for that the program fills for an owner of keys;
    /// `None` where no program writes items.
    pub fn items_room(&self, owner: usize) -> Option<usize> {
        match &self.program {
            Some(PacketProcessor::Items(items)) => Some(items.room(owner)),
            Some(PacketProcessor::Program(_)) | None => None,
        }
    }

    /// Has the program that writes items go on with the next segment of an owner of keys.
    pub fn skip_items_segment(&mut self, owner: usize) {
        if let Some(PacketProcessor::Items(items)) = &mut self.program {
            items.skip_segment(owner);
        }
    }

    /// Has another program decide about frames from now on, or none. No frame is lost for it, and
    /// none sees two programs: each core takes it between two of its bursts.
    ///
    /// # Errors
    /// Where a core has not taken the last one yet; nothing is then changed.
    pub fn set_program(&mut self, program: Option<Pipeline>) -> Result<(), ChangeError> {
        if let Some(core) = self.core_without_program() {
            return Err(ChangeError::ProgramUnderWay { core });
        }
        self.program = program.map(PacketProcessor::from);
        for place in 0..self.to_cores.len() {
            let instance = self.instance(place);
            self.to_cores[place].send(instance);
        }
        self.wake();
        Ok(())
    }

    /// A core that has not taken the last program yet: it has not come to look. `None` once that
    /// decides about all frames. What cores had before is freed: while they cannot give it back
    /// they take no other one.
    pub fn core_without_program(&mut self) -> Option<u32> {
        self.to_cores.iter_mut().for_each(InstanceSender::free_returned);
        let place = self.to_cores.iter().position(|to| !to.is_free())?;
        Some(self.cores.get(place).map_or(0, |(core, _)| *core))
    }

    /// The program, for the core of this number.
    fn instance(&self, core: usize) -> Option<Box<ProgramInstance>> {
        let owned = || OwnedOutputs::all(self.ports.len(), self.queues);
        let instance = |of: &Pipeline| ProgramInstance::new(of, owned());
        Some(match self.program.as_ref()? {
            PacketProcessor::Items(of) => {
                instance(of.pipeline()).with_quiescence(of.quiescence(), core)
            }
            PacketProcessor::Program(of) => instance(of),
        })
    }

    /// The applications that it runs, in their order.
    pub fn applications(&self) -> impl Iterator<Item = LoadedApplication<'_>> {
        self.applications.loaded()
    }

    /// The program of an application, to change its tables.
    ///
    /// # Errors
    /// [`ApplicationError::Unknown`].
    pub fn application(&mut self, name: &str) -> Result<&mut Pipeline, ApplicationError> {
        self.applications.pipeline(name)
    }

    /// Checks that a program may run for an application. Call it before you allocate memory for the
    /// program.
    ///
    /// # Errors
    /// [`ApplicationError`].
    pub fn check_grant(&mut self, name: &str, program: &Program) -> Result<(), ApplicationError> {
        self.applications.check_grant(name, program)
    }

    /// Has another program run for an application from now on, as [`Card::set_program`].
    ///
    /// # Errors
    /// [`ApplicationError`]; nothing is then changed.
    pub fn set_application(&mut self, name: &str, by: Pipeline) -> Result<(), ApplicationError> {
        self.applications.replace(name, by)?;
        self.wake();
        Ok(())
    }

    /// Whether all cores have taken the last program of an application.
    ///
    /// # Errors
    /// [`ApplicationError::Unknown`].
    pub fn is_application_current(&mut self, name: &str) -> Result<bool, ApplicationError> {
        self.applications.is_current(name)
    }

    /// Time since the card began, nanoseconds, as its program gets it.
    pub fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Memory of its frames.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Has the cores look at what they were told.
    fn wake(&self) {
        self.notifications.fetch_add(1, Ordering::Release);
        self.doorbells.iter().for_each(Doorbell::ring);
    }

    /// The counters so far. A core publishes its counters with a delay of about a millisecond.
    pub fn counters(&self) -> CardCounters {
        let ports = self.ports.iter().map(|port| {
            let core = |queue: usize| queue % port.published.len();
            let queue = |at| QueueCounters { core: core(at), ..QueueCounters::default() };
            let mut counters = PortCounters {
                name: port.name.to_string(),
                is_up: !port.published.iter().any(|shown| shown.is_gone.load(Ordering::Acquire)),
                rules: port.nic.len(),
                rules_created: port.rule_operations.created,
                rules_updated: port.rule_operations.updated,
                rules_destroyed: port.rule_operations.destroyed,
                queues: (0..usize::from(self.queues)).map(queue).collect(),
                ..PortCounters::default()
            };
            port.published.iter().for_each(|shown| shown.add_to(&mut counters));
            counters.external_queues =
                port.listeners.iter().map(ExternalQueueListener::counters).collect();
            counters
        });
        let core = |(core, shown): &(u32, Arc<PublishedCoreCounters>)| CoreCounters {
            core: *core,
            rx_frames: shown.rx_frames.load(Ordering::Relaxed),
            frames: shown.frames.load(Ordering::Relaxed),
            cpu_ns: shown.cpu_ns.load(Ordering::Relaxed),
            busy_ns: shown.busy_ns.load(Ordering::Relaxed),
        };
        CardCounters {
            ports: ports.collect(),
            cores: self.cores.iter().map(core).collect(),
            applications: self.applications.counters(),
            rule_texts_refused: self.rule_texts_refused,
        }
    }
}
