//! A program on a core: where it has its packets go, and how it is replaced.
//!
//! The control side makes what a core needs and pushes it into a ring; the core takes it between
//! two bursts, so that no packet sees two programs, and sends back what it had, which is freed
//! where it was made.

use std::sync::Arc;

use niclab_apps::kvs::store::QuiescenceCounters;
use niclab_nic::limits::BURST;
use niclab_nic::memory::Desc;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_program::limits::WORK_FRAME_LEN;
use niclab_program::{Fate, Lost, Pipeline, Site, Worker};

use crate::applications::{LossCounters, OwnedOutputs};
use crate::card::FRAME_LEN_MAX;
use rtrb::{Consumer, Producer, RingBuffer};

/// Copies that a burst can make, at most: more are not made, and counted. As many as all its frames
/// for a group of twelve ports.
const COPIES_MAX: usize = 12 * BURST;

/// Frames that a core has in its hands at most: a burst and its copies.
pub(crate) const IN_HAND: usize = BURST + COPIES_MAX;

// Work is reckoned with frames as long as the card has them.
const _: () = assert!(FRAME_LEN_MAX == WORK_FRAME_LEN);

/// A program as one core carries it out.
pub(crate) struct ProgramInstance {
    pub(crate) worker: Worker,
    fates: [Fate; BURST],
    /// Copies of the last burst, and the port that each leaves by.
    pub(crate) copies: Vec<(usize, Desc)>,
    /// Copies that were not made, by the port that they were to leave by.
    pub(crate) missed: Vec<u64>,
    /// The ports and queues that it may send by.
    pub(crate) outputs: OwnedOutputs,
    /// Work of a packet at worst, in instructions.
    pub(crate) worst_work: u64,
    /// Frames that it did not let through, until somebody takes the numbers.
    pub(crate) lost: LossCounters,
    /// The quiescence counters and the number of this core, if a store waits for it.
    quiescence: Option<(Arc<QuiescenceCounters>, usize)>,
}

impl ProgramInstance {
    /// A program for one more core.
    pub(crate) fn new(of: &Pipeline, owned: OwnedOutputs) -> Box<ProgramInstance> {
        let site = Site { frame_len: FRAME_LEN_MAX, ports: owned.ports() as u64 };
        let (worker, worst_work) = (of.worker(), of.program().worst_work(site));
        let fates = [Fate::Dropped(Lost::Told); BURST];
        let (copies, missed) = (Vec::with_capacity(COPIES_MAX), vec![0; owned.ports()]);
        let (lost, turns) = (LossCounters::default(), None);
        Box::new(ProgramInstance {
            worker,
            fates,
            copies,
            missed,
            outputs: owned,
            worst_work,
            lost,
            quiescence: turns,
        })
    }

    /// The same on the core of this number, which says where it has nothing under way.
    pub(crate) fn with_quiescence(
        self: Box<ProgramInstance>,
        turns: &Arc<QuiescenceCounters>,
        core: usize,
    ) -> Box<ProgramInstance> {
        Box::new(ProgramInstance { quiescence: Some((Arc::clone(turns), core)), ..*self })
    }

    /// The core is between two bursts.
    #[inline]
    pub(crate) fn end_turn(&self) {
        self.quiescence.iter().for_each(|(turns, core)| turns.end(*core));
    }

    /// It carries no burst through before [`ProgramInstance::wake`].
    pub(crate) fn rest(&mut self) {
        self.worker.offline();
        self.quiescence.iter().for_each(|(turns, core)| turns.sleep(*core));
    }

    /// It may carry bursts through again.
    pub(crate) fn wake(&mut self) {
        self.worker.online();
        self.quiescence.iter().for_each(|(turns, core)| turns.wake(*core));
    }

    /// Carries a burst through; [`ProgramInstance::fate`] says where each frame goes.
    pub(crate) fn run(&mut self, port: usize, burst: &mut Burst, pool: &mut FramePool) {
        let ProgramInstance { worker, fates, copies, missed, outputs: owned, lost, .. } = self;
        let region = Arc::clone(pool.region());
        worker.run(&region, burst, port as u64, fates, |to, bytes| {
            let to = to as usize;
            if !owned.has_port(to as u64) {
                return lost.add(Fate::Port(to as u64));
            }
            // Not cut: what was put before a frame may make it too long for another slot.
            let room = copies.len() < COPIES_MAX && bytes.len() <= region.frame_len_max();
            match if room { pool.take() } else { None } {
                Some(mut desc) => {
                    region.slot_mut(&mut desc)[..bytes.len()].copy_from_slice(bytes);
                    region.set_len(&mut desc, bytes.len() as u16);
                    copies.push((to, desc));
                }
                None => missed.iter_mut().skip(to).take(1).for_each(|missed| *missed += 1),
            }
        });
    }

    /// The fate of frame `i` of the burst.
    #[inline]
    pub(crate) fn fate(&self, i: usize) -> Fate {
        self.fates[i]
    }
}

/// The control side's end of the way to a core.
pub(crate) struct InstanceSender {
    to: Producer<Option<Box<ProgramInstance>>>,
    back: Consumer<Box<ProgramInstance>>,
}

/// The core's end.
pub(crate) struct InstanceReceiver {
    from: Consumer<Option<Box<ProgramInstance>>>,
    back: Producer<Box<ProgramInstance>>,
    /// The running program.
    pub(crate) instance: Option<Box<ProgramInstance>>,
}

/// Both ends, with what the core begins with.
pub(crate) fn channel(
    instance: Option<Box<ProgramInstance>>,
) -> (InstanceSender, InstanceReceiver) {
    let (to, from) = RingBuffer::new(1);
    // One that is replaced, and one that is left at the end.
    let (producer, back) = RingBuffer::new(2);
    (InstanceSender { to, back }, InstanceReceiver { from, back: producer, instance })
}

impl InstanceSender {
    /// Whether the core has taken the last one.
    pub(crate) fn is_free(&self) -> bool {
        !self.to.is_full()
    }

    /// Gives the core another program, or none; to be called where it has taken the last one.
    pub(crate) fn send(&mut self, instance: Option<Box<ProgramInstance>>) {
        // There is room, as was seen.
        let _ = self.to.push(instance);
    }

    /// Frees what the core had.
    pub(crate) fn free_returned(&mut self) {
        while self.back.pop().is_ok() {}
    }
}

impl InstanceReceiver {
    /// Takes a new program where there is one.
    #[inline]
    pub(crate) fn receive(&mut self) {
        if !self.from.is_empty() {
            self.replace();
        }
    }

    #[cold]
    fn replace(&mut self) {
        if self.instance.is_some() && self.back.is_full() {
            return;
        }
        if let Ok(next) = self.from.pop()
            && let Some(mut last) = std::mem::replace(&mut self.instance, next)
        {
            last.rest();
            // There is room, as was just seen.
            let _ = self.back.push(last);
        }
    }
}
