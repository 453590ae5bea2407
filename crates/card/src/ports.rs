//! Ports on the control side: opened, with the state of each core, and counted.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use niclab_control::{PortCounters, QueueCounters};
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::Region;
use niclab_nic::rule::session::Session;
use niclab_nic::{Nic, NicConfig};
use niclab_port::queue_pair::QueuePair;
use rtrb::{Producer, RingBuffer};

use crate::balance::{Balancer, PortLoad};
use crate::capture::{Capture, CoreCapture};
use crate::card::{CardConfig, RuleOperations};
use crate::counters::{PublishedCoreCounters, PublishedPort};
use crate::error::CardError;
use crate::external_queues::{self, ExternalQueueConfig, ExternalQueueEnd, ExternalQueueListener};
use crate::flow_migration::{FlowMigration, Progress};
use crate::name::PortSource;
use crate::port_context::PortContext;
use crate::transmit_queue::TransmitQueue;

/// One port as the control side has it.
pub(crate) struct Port {
    pub(crate) name: Box<dyn PortSource>,
    pub(crate) nic: Nic,
    pub(crate) session: Session,
    /// Counts of the rule operations by commands.
    pub(crate) rule_operations: RuleOperations,
    /// By core.
    pub(crate) published: Vec<Arc<PublishedPort>>,
    pub(crate) queue_pairs: Vec<Producer<Box<dyn QueuePair>>>,
    /// Ways to the clients of its external queues.
    pub(crate) listeners: Vec<ExternalQueueListener>,
    /// Frames that go into a trace, and where cores get their part of it.
    pub(crate) capture: Option<Capture>,
    pub(crate) captures: Vec<Producer<CoreCapture>>,
    /// The reaction to a queue that fills, and the counters at the last decision.
    pub(crate) balancer: Option<Balancer>,
    pub(crate) before: LoadCounters,
}

/// The counters that RSS decisions are made from, since the start of the card.
#[derive(Clone)]
pub(crate) struct LoadCounters {
    pub(crate) at: Instant,
    pub(crate) entries: Box<[u64; INDIRECTION_LEN]>,
    pub(crate) busy_ns: Vec<u64>,
    pub(crate) missed: u64,
}

impl LoadCounters {
    /// Counts after `before`.
    pub(crate) fn since(&self, before: &LoadCounters) -> PortLoad {
        let passed_ns = self.at.duration_since(before.at).as_nanos().max(1) as f64;
        let later = |entry: usize| self.entries[entry].saturating_sub(before.entries[entry]);
        let busy = self.busy_ns.iter().zip(&before.busy_ns);
        PortLoad {
            entries: Box::new(std::array::from_fn(later)),
            busy: busy.map(|(now, old)| now.saturating_sub(*old) as f64 / passed_ns).collect(),
            missed: self.missed.saturating_sub(before.missed),
        }
    }
}

impl Port {
    /// The counts so far on these cores.
    pub(crate) fn load_counters(
        &self,
        cores: &[(u32, Arc<PublishedCoreCounters>)],
    ) -> LoadCounters {
        let mut entries = Box::new([0; INDIRECTION_LEN]);
        let queues = usize::from(self.nic.queues());
        let queues = vec![QueueCounters::default(); queues];
        let mut counters = PortCounters { queues, ..PortCounters::default() };
        for shown in &self.published {
            shown.add_entries(&mut entries);
            shown.add_to(&mut counters);
        }
        LoadCounters {
            at: Instant::now(),
            entries,
            busy_ns: cores.iter().map(|(_, of)| of.busy_ns.load(Ordering::Relaxed)).collect(),
            missed: counters.queues.iter().map(|queue| queue.rx_missed).sum(),
        }
    }

    /// The last error of each of its queue pairs.
    pub(crate) fn errors(&self) -> Vec<String> {
        let of = |shown: &Arc<PublishedPort>| {
            shown.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        self.published.iter().flat_map(of).collect()
    }
}

/// Opens a port: its control side, and what each core has of it.
pub(crate) fn open_port<P: std::fmt::Display>(
    (number, applications): (u16, usize),
    (name, control): (Box<dyn PortSource>, Option<Nic>),
    config: &CardConfig<P>,
    region: &Arc<Region>,
    progress: &Arc<Progress>,
) -> Result<(Port, Vec<PortContext>), CardError> {
    let (queues, ports) = (config.queues, config.ports.len() as u16);
    let mut nic = match control {
        Some(nic) if nic.queues() == queues => nic,
        Some(nic) => return Err(CardError::Control { port: number, has: nic.queues(), queues }),
        None => Nic::new(&NicConfig { queues, ports, ..NicConfig::default() })?,
    };
    let refused = |source| CardError::Port { name: name.to_string(), source };
    let queue_pairs = name.open(config.cores.len() as u32, region).map_err(refused)?;
    let names = config.ports.iter().map(ToString::to_string).collect();
    let session = Session::new(number).among(names);
    let (mut shown, mut to, mut taps, mut contexts) = (vec![], vec![], vec![], vec![]);
    for (place, queue_pair) in queue_pairs.into_iter().enumerate() {
        let here = Arc::new(PublishedPort::new(queues));
        let (producer, consumer) = RingBuffer::new(1);
        let (tap, to_tap) = RingBuffer::new(1);
        taps.push(tap);
        let consumer = (consumer, to_tap);
        let moving = FlowMigration::new(place, number.into(), Arc::clone(progress));
        let transmit = TransmitQueue::new(applications, ports.into());
        let shows = (Arc::clone(&here), queues);
        contexts.push(PortContext::new(
            queue_pair,
            nic.worker(),
            shows,
            consumer,
            (moving, transmit),
        ));
        shown.push(here);
        to.push(producer);
    }
    let balance = config.balance.clone();
    let is_external = |queue: &u16| {
        config.external_queues.iter().any(|at| (at.port, at.queue) == (number, *queue))
    };
    let own = (0..queues).filter(|queue| !is_external(queue)).collect();
    let balancer = balance.map(|how| Balancer::new(how, own, config.cores.len()));
    let before = LoadCounters {
        at: Instant::now(),
        entries: Box::new([0; INDIRECTION_LEN]),
        busy_ns: vec![0; config.cores.len()],
        missed: 0,
    };
    let (doors, capture, rule_operations) = Default::default();
    let port = Port {
        name,
        nic,
        session,
        rule_operations,
        published: shown,
        queue_pairs: to,
        listeners: doors,
        capture,
        captures: taps,
        balancer,
        before,
    };
    Ok((port, contexts))
}

/// Makes the listeners of external queues, which the ports get, and the ends of the queues, by
/// core.
pub(crate) fn external_queues<P>(
    config: &CardConfig<P>,
    ports: &mut [Port],
) -> Result<Vec<Vec<ExternalQueueEnd>>, CardError> {
    let mut external_queues: Vec<Vec<ExternalQueueEnd>> =
        config.cores.iter().map(|_| Vec::new()).collect();
    for (place, at) in config.external_queues.iter().enumerate() {
        let ExternalQueueConfig { port, queue, .. } = *at;
        let is_twice = config.external_queues[..place]
            .iter()
            .any(|one| (one.port, one.queue) == (port, queue));
        let of = ports.get_mut(usize::from(port)).filter(|_| queue < config.queues && !is_twice);
        let Some(of) = of else {
            let (ports, queues) = (config.ports.len(), config.queues);
            return Err(CardError::ExternalQueueNumber { port, queue, ports, queues });
        };
        let made = external_queues::listen(at);
        let (listener, external_queue) =
            made.map_err(|source| CardError::ExternalQueue { port, queue, source })?;
        of.listeners.push(listener);
        external_queues[usize::from(queue) % config.cores.len()].push(external_queue);
    }
    Ok(external_queues)
}
