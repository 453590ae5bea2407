//! Queues of a card that other processes serve: who sits there, on the core of the queue, and the
//! door that the control side lets guests in by.
//!
//! A guest gets the frames of its queue in place of the function, and what it sends leaves by the
//! port that the queue belongs to. Where nobody sits, frames of the queue are dropped and counted:
//! of no other queue.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::frame_pool::FramePool;
use niclab_port::guest::{ExternalQueueSize, Listener, Refusals};
use niclab_port::lane::{Lane, LaneCounters};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::counters::{GuestCounters, add_lane};

/// A queue that another process is to serve, and where it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestAt {
    /// The port.
    pub port: u16,
    /// Its queue.
    pub queue: u16,
    /// The Unix socket that is made there.
    pub path: PathBuf,
}

/// Where a core shows what it has seen of a guest.
#[derive(Debug, Default)]
struct Shown {
    /// Nobody is there, or on the way.
    is_free: AtomicBool,
    /// Given, dropped, taken.
    numbers: [AtomicU64; 3],
    /// Why the last one has gone.
    trouble: Mutex<Option<String>>,
}

/// One guest as the core of its queue has it.
pub(crate) struct Seat {
    pub(crate) port: usize,
    pub(crate) queue: u16,
    lane: Option<Box<dyn Lane>>,
    /// Frames that it is to get in this turn.
    waiting: Burst,
    /// What guests before it had.
    before: LaneCounters,
    dropped: u64,
    lanes: Consumer<Box<dyn Lane>>,
    shown: Arc<Shown>,
}

impl Seat {
    /// Has the guest get a frame.
    #[inline]
    pub(crate) fn give(&mut self, desc: Desc, pool: &mut FramePool) {
        if self.waiting.is_full() {
            self.send(pool);
        }
        self.waiting.push(desc);
    }

    /// Gives the guest what it is to get, and takes what it sends; whether there was any.
    pub(crate) fn serve(&mut self, from: &mut Burst, pool: &mut FramePool) -> bool {
        if self.lane.is_none() {
            self.lane = self.lanes.pop().ok();
        }
        let is_busy = !self.waiting.is_empty();
        self.send(pool);
        if let Some(lane) = &mut self.lane {
            let received = lane.receive(pool, from);
            self.met(received, pool);
        }
        is_busy || !from.is_empty()
    }

    fn send(&mut self, pool: &mut FramePool) {
        if let Some(lane) = &mut self.lane
            && !self.waiting.is_empty()
        {
            let sent = lane.send(pool, &mut self.waiting);
            self.met(sent, pool);
        }
        self.dropped += self.waiting.len() as u64;
        pool.give_all(&mut self.waiting);
    }

    fn met(&mut self, result: io::Result<()>, pool: &mut FramePool) {
        if let Err(error) = result
            && let Some(lane) = self.lane.take()
        {
            add_lane(&mut self.before, &lane.counters());
            let _ = lane.close(pool);
            let mut trouble = self.shown.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            *trouble = Some(error.to_string());
            self.shown.is_free.store(true, Ordering::Release);
        }
    }

    /// Whether there is something that nobody tells a core that sleeps: a guest, or one that comes.
    pub(crate) fn is_taken(&self) -> bool {
        self.lane.is_some() || !self.lanes.is_empty()
    }

    pub(crate) fn show(&self) {
        let now = self.lane.as_ref().map(|lane| lane.counters()).unwrap_or_default();
        let sum = |of: fn(&LaneCounters) -> u64| of(&now) + of(&self.before);
        let dropped = self.dropped + sum(|lane| lane.tx_dropped);
        let values = [sum(|lane| lane.tx_frames), dropped, sum(|lane| lane.rx_frames)];
        for (slot, value) in self.shown.numbers.iter().zip(values) {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// Ends, and gives back every frame.
    pub(crate) fn end(mut self, pool: &mut FramePool) {
        self.dropped += self.waiting.len() as u64;
        pool.give_all(&mut self.waiting);
        self.show();
        let rest = std::iter::from_fn(|| self.lanes.pop().ok());
        for lane in rest.chain(self.lane.take()).collect::<Vec<_>>() {
            let _ = lane.close(pool);
        }
    }
}

/// The way to one seat, as the control side has it.
pub(crate) struct Door {
    queue: u16,
    listener: Listener,
    lanes: Producer<Box<dyn Lane>>,
    refusals: Refusals,
    shown: Arc<Shown>,
}

/// A door that listens, and the seat that it leads to.
///
/// # Errors
/// [`PortError`].
pub(crate) fn make(at: &GuestAt) -> Result<(Door, Seat), PortError> {
    let listener = Listener::bind(&at.path, ExternalQueueSize::default())?;
    let (lanes, coming) = RingBuffer::new(1);
    let shown = Arc::new(Shown { is_free: AtomicBool::new(true), ..Shown::default() });
    let seat = Seat {
        port: at.port.into(),
        queue: at.queue,
        lane: None,
        waiting: Burst::new(),
        before: LaneCounters::default(),
        dropped: 0,
        lanes: coming,
        shown: Arc::clone(&shown),
    };
    Ok((Door { queue: at.queue, listener, lanes, refusals: Refusals::default(), shown }, seat))
}

impl Door {
    /// The queue behind it.
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// Lets in who waits, where nobody is there; whether somebody came.
    ///
    /// # Errors
    /// [`PortError`].
    pub(crate) fn look(&mut self, region: &Arc<Region>) -> Result<bool, PortError> {
        if !self.shown.is_free.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Some(guest) = self.listener.accept(region)? else { return Ok(false) };
        self.refusals = guest.refusals();
        self.shown.is_free.store(false, Ordering::Release);
        // There is room, for the seat is free.
        let _ = self.lanes.push(Box::new(guest));
        Ok(true)
    }

    pub(crate) fn counters(&self) -> GuestCounters {
        let [given_frames, dropped, taken_frames] =
            [0, 1, 2].map(|at: usize| self.shown.numbers[at].load(Ordering::Relaxed));
        let refused = self.refusals.seen();
        GuestCounters {
            queue: self.queue,
            is_there: !self.shown.is_free.load(Ordering::Acquire),
            given_frames,
            dropped,
            taken_frames,
            refused: refused.addresses + refused.lent + refused.lens,
            ended: self.shown.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
