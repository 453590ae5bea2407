//! External queues of a card: the end on the core of the queue, and the listener by which the
//! control side accepts clients.
//!
//! A client gets the frames of its queue in place of the function, and what it sends leaves by the
//! port that the queue belongs to. Without a client the frames of this queue are dropped and
//! counted, and of no other queue.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use niclab_control::ExternalQueueCounters;
use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::external_queue::{ExternalQueueSize, Listener, Refusals};
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::counters::add_queue_pair;

/// A queue that another process is to serve, and where it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalQueueConfig {
    /// The port.
    pub port: u16,
    /// Its queue.
    pub queue: u16,
    /// The Unix socket that is made there.
    pub path: PathBuf,
}

/// Counters that a core publishes of a client.
#[derive(Debug, Default)]
struct PublishedClient {
    /// Nobody is there, or on the way.
    is_free: AtomicBool,
    /// Given, dropped, taken.
    numbers: [AtomicU64; 3],
    /// Why the last one has gone.
    trouble: Mutex<Option<String>>,
}

/// One external queue as its core has it.
pub(crate) struct ExternalQueueEnd {
    pub(crate) port: usize,
    pub(crate) queue: u16,
    queue_pair: Option<Box<dyn QueuePair>>,
    /// Frames that it is to get in this turn.
    waiting: Burst,
    /// Counts of the clients before this one.
    before: QueuePairCounters,
    dropped: u64,
    queue_pairs: Consumer<Box<dyn QueuePair>>,
    shown: Arc<PublishedClient>,
}

impl ExternalQueueEnd {
    /// Gives the client a frame.
    #[inline]
    pub(crate) fn send_to_client(&mut self, desc: Desc, pool: &mut FramePool) {
        if self.waiting.is_full() {
            self.send(pool);
        }
        self.waiting.push(desc);
    }

    /// Gives the client what it is to get, and takes what it sends; whether there was any.
    pub(crate) fn serve(&mut self, from: &mut Burst, pool: &mut FramePool) -> bool {
        if self.queue_pair.is_none() {
            self.queue_pair = self.queue_pairs.pop().ok();
        }
        let is_busy = !self.waiting.is_empty();
        self.send(pool);
        if let Some(queue_pair) = &mut self.queue_pair {
            let received = queue_pair.receive(pool, from);
            self.handle_result(received, pool);
        }
        is_busy || !from.is_empty()
    }

    fn send(&mut self, pool: &mut FramePool) {
        if let Some(queue_pair) = &mut self.queue_pair
            && !self.waiting.is_empty()
        {
            let sent = queue_pair.send(pool, &mut self.waiting);
            self.handle_result(sent, pool);
        }
        self.dropped += self.waiting.len() as u64;
        pool.give_all(&mut self.waiting);
    }

    fn handle_result(&mut self, result: io::Result<()>, pool: &mut FramePool) {
        if let Err(error) = result
            && let Some(queue_pair) = self.queue_pair.take()
        {
            add_queue_pair(&mut self.before, &queue_pair.counters());
            let _ = queue_pair.close(pool);
            let mut trouble = self.shown.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            *trouble = Some(error.to_string());
            self.shown.is_free.store(true, Ordering::Release);
        }
    }

    /// Whether there is something that nobody tells a core that sleeps: a client, or one that
    /// comes.
    pub(crate) fn needs_polling(&self) -> bool {
        self.queue_pair.is_some() || !self.queue_pairs.is_empty()
    }

    pub(crate) fn publish(&self) {
        let now =
            self.queue_pair.as_ref().map(|queue_pair| queue_pair.counters()).unwrap_or_default();
        let sum = |of: fn(&QueuePairCounters) -> u64| of(&now) + of(&self.before);
        let dropped = self.dropped + sum(|queue_pair| queue_pair.tx_dropped);
        let values = [
            sum(|queue_pair| queue_pair.tx_frames),
            dropped,
            sum(|queue_pair| queue_pair.rx_frames),
        ];
        for (slot, value) in self.shown.numbers.iter().zip(values) {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// Ends, and gives back every frame.
    pub(crate) fn end(mut self, pool: &mut FramePool) {
        self.dropped += self.waiting.len() as u64;
        pool.give_all(&mut self.waiting);
        self.publish();
        let rest = std::iter::from_fn(|| self.queue_pairs.pop().ok());
        for queue_pair in rest.chain(self.queue_pair.take()).collect::<Vec<_>>() {
            let _ = queue_pair.close(pool);
        }
    }
}

/// One external queue as the control side has it.
pub(crate) struct ExternalQueueListener {
    queue: u16,
    listener: Listener,
    queue_pairs: Producer<Box<dyn QueuePair>>,
    refusals: Refusals,
    shown: Arc<PublishedClient>,
}

/// A listener, and the end of the queue that its clients get.
///
/// # Errors
/// [`PortError`].
pub(crate) fn listen(
    at: &ExternalQueueConfig,
) -> Result<(ExternalQueueListener, ExternalQueueEnd), PortError> {
    let listener = Listener::bind(&at.path, ExternalQueueSize::default())?;
    let (queue_pairs, coming) = RingBuffer::new(1);
    let shown =
        Arc::new(PublishedClient { is_free: AtomicBool::new(true), ..PublishedClient::default() });
    let external_queue = ExternalQueueEnd {
        port: at.port.into(),
        queue: at.queue,
        queue_pair: None,
        waiting: Burst::new(),
        before: QueuePairCounters::default(),
        dropped: 0,
        queue_pairs: coming,
        shown: Arc::clone(&shown),
    };
    Ok((
        ExternalQueueListener {
            queue: at.queue,
            listener,
            queue_pairs,
            refusals: Refusals::default(),
            shown,
        },
        external_queue,
    ))
}

impl ExternalQueueListener {
    /// The queue behind it.
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// Lets in who waits, where nobody is there; whether somebody came.
    ///
    /// # Errors
    /// [`PortError`].
    pub(crate) fn accept(&mut self, region: &Arc<Region>) -> Result<bool, PortError> {
        if !self.shown.is_free.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Some(external) = self.listener.accept(region)? else { return Ok(false) };
        self.refusals = external.refusals();
        self.shown.is_free.store(false, Ordering::Release);
        // There is room, for no client is there.
        let _ = self.queue_pairs.push(Box::new(external));
        Ok(true)
    }

    pub(crate) fn counters(&self) -> ExternalQueueCounters {
        let [given_frames, dropped, taken_frames] =
            [0, 1, 2].map(|at: usize| self.shown.numbers[at].load(Ordering::Relaxed));
        let refused = self.refusals.counters();
        ExternalQueueCounters {
            queue: self.queue,
            is_there: !self.shown.is_free.load(Ordering::Acquire),
            given_frames,
            dropped,
            taken_frames,
            refused: refused.addresses + refused.held + refused.lens,
            ended: self.shown.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
