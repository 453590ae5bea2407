//! The forwarding function on the queues of an interface, over AF_XDP: frames stay where they are.

use std::io;
use std::sync::Arc;

use niclab_apps::forward::swap_macs;
use niclab_load::{PortCounters, QueueCounters};
use niclab_nic::memory::Region;
use niclab_packet::size::FCS_LEN;
use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::frame_pool::{FramePool, frame_pools};
use niclab_port::link::HEADER_LEN;
use niclab_port::queue_pair::QueuePair;
use niclab_port::xdp::{self, XdpQueuePair};

use super::forward::FRAME_NS;
use super::link::Link;
use crate::pair::{DeviceSide, LAST_TURNS_MAX, ShowFrame};

/// A queue of the interface.
struct Queue {
    queue_pair: XdpQueuePair,
    /// Frames that wait to be sent.
    waiting: Burst,
    /// Frames that found no room when the trial began.
    missed_before: u64,
}

/// The function, on the queues of the interface under test.
pub struct Forward {
    queues: Vec<Queue>,
    pool: FramePool,
    region: Arc<Region>,
    /// Frames that found no room, and that somebody was told of.
    reported_missed: u64,
    /// Why nothing comes any more.
    gone: Option<io::Error>,
}

impl Forward {
    /// Opens the first `count` queues of an interface of the calling thread's namespace. Others get
    /// nothing, or are not there: `Held::receive_by`.
    ///
    /// # Errors
    /// Those of [`xdp::open_first`].
    pub fn open(link: &Link, count: u16) -> Result<Forward, PortError> {
        let frames = usize::from(count) * xdp::FRAMES;
        let no_memory = |error: &dyn ToString| PortError::System {
            what: "get frame memory for",
            name: link.name.clone(),
            source: io::Error::other(error.to_string()),
        };
        let pools = frame_pools(1, frames, (link.mtu + HEADER_LEN) as usize);
        let pool = pools.map_err(|e| no_memory(&e))?.pop();
        let pool = pool.ok_or_else(|| no_memory(&"no frame pool was made"))?;
        let region = Arc::clone(pool.region());
        let queue_pairs = xdp::open_first(&link.name, count.into(), &region)?;
        let queue = |queue_pair| Queue { queue_pair, waiting: Burst::new(), missed_before: 0 };
        let queues = queue_pairs.into_iter().map(queue).collect();
        Ok(Forward { queues, pool, region, reported_missed: 0, gone: None })
    }

    /// Why nothing came any more, where a queue failed since this was asked last.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.gone.take()
    }

    /// Throws away what has arrived so far, and has the kernel ready for more.
    ///
    /// # Errors
    /// Of an interface that is gone.
    pub fn drain(&mut self) -> io::Result<()> {
        let mut burst = Burst::new();
        for queue in &mut self.queues {
            self.pool.give_all(&mut queue.waiting);
            // Bounded, lest a flood from elsewhere hold us here.
            for _ in 0..xdp::FRAMES / burst.capacity() {
                queue.queue_pair.receive(&mut self.pool, &mut burst)?;
                if burst.is_empty() {
                    break;
                }
                self.pool.give_all(&mut burst);
            }
            queue.missed_before = queue.queue_pair.counters().rx_missed;
        }
        self.reported_missed = 0;
        Ok(())
    }

    /// Takes up to a burst from one queue, shows it, and sends it back.
    fn serve(
        &mut self,
        at: usize,
        counters: &mut PortCounters,
        mut show: Option<&mut ShowFrame<'_>>,
    ) -> io::Result<usize> {
        let Queue { queue_pair, waiting, .. } = &mut self.queues[at];
        let counted = &mut counters.queues[at];
        let held = waiting.len();
        queue_pair.receive(&mut self.pool, waiting)?;
        let with_fcs = |len: u16| u64::from(len + FCS_LEN);
        for desc in &mut waiting[held..] {
            counted.rx_bytes += with_fcs(desc.len());
            if let Some(show) = &mut show {
                show(self.region.frame_mut(desc));
            }
            swap_macs(self.region.frame_mut(desc));
        }
        let found = waiting.len() - held;
        counted.rx_frames += found as u64;
        let bytes = |burst: &Burst| burst.iter().map(|desc| with_fcs(desc.len())).sum::<u64>();
        let (frames_before, bytes_before) = (waiting.len(), bytes(waiting));
        queue_pair.send(&mut self.pool, waiting)?;
        counted.tx_frames += (frames_before - waiting.len()) as u64;
        counted.tx_bytes += bytes_before - bytes(waiting);
        Ok(found)
    }

    /// Frames that found no room since the trial began, a number for each queue.
    fn missed_by_queue(&self) -> impl Iterator<Item = u64> {
        let now = |queue: &Queue| queue.queue_pair.counters().rx_missed;
        self.queues.iter().map(move |queue| now(queue).saturating_sub(queue.missed_before))
    }
}

impl DeviceSide for Forward {
    // As of AF_PACKET: what is sent passes the receiver's soft interrupt within the call.
    fn frame_ns(&self) -> u64 {
        FRAME_NS
    }

    fn queues(&self) -> u16 {
        self.queues.len() as u16
    }

    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        let mut found = 0;
        for at in 0..self.queues.len() {
            match self.serve(at, counters, None) {
                Ok(more) => found += more,
                // What comes behind the first follows from it.
                Err(error) => _ = self.gone.get_or_insert(error),
            }
        }
        found
    }

    fn turn_shown(&mut self, show: &mut ShowFrame<'_>) -> usize {
        let mut uncounted = PortCounters {
            queues: vec![QueueCounters::default(); self.queues.len()],
            ..PortCounters::default()
        };
        let mut found = 0;
        for at in 0..self.queues.len() {
            match self.serve(at, &mut uncounted, Some(&mut *show)) {
                Ok(more) => found += more,
                Err(error) => _ = self.gone.get_or_insert(error),
            }
        }
        found
    }

    fn last(&mut self, counters: &mut PortCounters) {
        for _ in 0..LAST_TURNS_MAX {
            let found = self.turn(counters);
            if found == 0 && self.queues.iter().all(|queue| queue.waiting.is_empty()) {
                break;
            }
        }
        for queue in &mut self.queues {
            counters.tx_dropped += queue.waiting.len() as u64;
            self.pool.give_all(&mut queue.waiting);
        }
        for (queue, missed) in counters.queues.iter_mut().zip(self.missed_by_queue()) {
            queue.rx_missed = missed;
        }
    }

    fn missed(&mut self) -> u64 {
        let all = self.missed_by_queue().sum::<u64>();
        all - std::mem::replace(&mut self.reported_missed, all)
    }
}
