//! Reads RSS of the port under test, and changes it while frames flow.

use std::sync::Arc;

use niclab_device::control::RandomRss;
use niclab_device::pair::PlanWork;
use niclab_device::{DeviceError, RSS_CHANGES_PER_S_MAX, Rss, RssChangeKind, RssPlan};
use niclab_load::RssChanges;
use niclab_load::clock::Clock;
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::rss::HashTypes;

use crate::shim::{Port, PortRss, Refusal};

/// How a port says that it spreads frames, where its table is one that can be told: of at most
/// [`INDIRECTION_LEN`] entries, which they are a multiple of.
pub fn of_port(port: &Port) -> Option<Rss> {
    let told = port.rss().ok()?;
    let entries = told.table.len();
    let fits = (1..=INDIRECTION_LEN).contains(&entries) && INDIRECTION_LEN.is_multiple_of(entries);
    fits.then(|| Rss {
        indirection: Box::new(std::array::from_fn(|at| told.table[at % entries])),
        key: told.key,
        types: HashTypes::from_bits(told.types & HashTypes::ALL.bits()).unwrap_or_default(),
        ..Rss::default()
    })
}

/// The changes of a plan.
pub struct RssWork {
    port: Arc<Port>,
    plan: RssPlan,
    random: RandomRss,
    rss: Rss,
    /// As the port had it before.
    first: PortRss,
    clock: Clock,
    /// When the next change is due; `None` before the measured part.
    due_ns: Option<u64>,
    changes: u64,
    refusal: Option<Refusal>,
}

impl RssWork {
    /// Prepares a plan on a port of so many queues.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] for what DPDK has no calls for, and for a port that does not
    /// tell its RSS; [`DeviceError::BadPlan`] for a number that is out of range.
    pub fn new(port: &Arc<Port>, plan: RssPlan, queues: u16) -> Result<RssWork, DeviceError> {
        if plan.answer.is_some() {
            return Err(DeviceError::lacks("answers of the card to a queue that fills"));
        }
        if let Some(RssChangeKind::Function | RssChangeKind::Any) = plan.change {
            let capability = "changes of the hash function (DPDK 22.11 has no call for it)";
            return Err(DeviceError::lacks(capability));
        }
        if !(1..=RSS_CHANGES_PER_S_MAX).contains(&plan.per_s) {
            let reason = format!("per_s {}: use 1 to {RSS_CHANGES_PER_S_MAX}", plan.per_s);
            return Err(DeviceError::BadPlan { reason });
        }
        let lacks = || DeviceError::lacks("changes of RSS: the port does not tell its own");
        let (first, rss) = port.rss().ok().zip(of_port(port)).ok_or_else(lacks)?;
        Ok(RssWork {
            port: Arc::clone(port),
            plan,
            random: RandomRss::new(plan.seed, queues, first.table.len()),
            rss,
            first,
            clock: Clock::new(),
            due_ns: None,
            changes: 0,
            refusal: None,
        })
    }

    fn change(&mut self) {
        let Some(change) = self.plan.change else { return };
        let rss = self.random.changed(&self.rss, change);
        let entries = self.first.table.len();
        let table = rss.indirection[..entries].to_vec();
        // Types that niclab has no bits for stay, as long as the others do.
        let is_same = rss.types.bits() == self.first.types;
        let port_types = if is_same { self.first.port_types } else { 0 };
        let set = PortRss { types: rss.types.bits(), port_types, key: rss.key.clone(), table };
        match self.port.set_rss(&set) {
            Ok(()) => {
                self.changes += 1;
                self.rss = rss;
            }
            Err(refusal) => self.refusal = self.refusal.take().or(Some(refusal)),
        }
    }

    /// Gives the port its RSS back.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where the port does not take it.
    pub fn restore(&self) -> Result<(), DeviceError> {
        self.port.set_rss(&self.first).map_err(|refusal| DeviceError::Broken {
            device: "dpdk".into(),
            reason: format!("giving the port its RSS back: {}", refusal.0),
        })
    }

    /// What was done, and why a change was refused.
    pub fn end(self) -> (RssChanges, Option<String>) {
        let refusal = self.refusal.map(|refusal| format!("a change was refused: {}", refusal.0));
        (RssChanges { changes: self.changes, ..RssChanges::default() }, refusal)
    }
}

impl PlanWork for RssWork {
    fn opened(&mut self, at_ns: u64) {
        self.due_ns = Some(at_ns);
    }

    fn turn(&mut self) -> u64 {
        let now_ns = self.clock.now_ns();
        let Some(due_ns) = self.due_ns.filter(|due_ns| *due_ns <= now_ns) else { return 0 };
        self.due_ns = Some(due_ns + 1_000_000_000 / u64::from(self.plan.per_s.max(1)));
        self.change();
        self.clock.now_ns() - now_ns
    }

    fn is_behind(&self) -> bool {
        self.due_ns.is_some_and(|due_ns| due_ns <= self.clock.now_ns())
    }
}
