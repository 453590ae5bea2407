//! Ports whose frames a test makes, and looks at when they leave.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use niclab_card::{PortError, PortSource};
use niclab_nic::memory::Region;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};

/// What a test has its queue pairs do.
pub trait World: Send + Sync + 'static {
    /// What one queue pair has of its own.
    type Own: Send + 'static;

    /// Frames that a queue pair holds at most.
    const HELD: usize;

    /// For the queue pair of this place, of so many.
    fn own(&self, place: u32, count: u32) -> Self::Own;

    /// Writes a frame that comes, the `at`-th of its burst; its length. `None`: no more comes now.
    fn make(&self, own: &mut Self::Own, at: usize, slot: &mut [u8]) -> Option<u16>;

    /// Whether a queue pair takes what is sent now.
    fn takes(&self, _own: &mut Self::Own) -> bool {
        true
    }

    /// What becomes readable when a frame comes; `None`: somebody has to look.
    fn waits_on(&self, _own: &Self::Own) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A frame has left.
    fn left(&self, own: &mut Self::Own, frame: &[u8]);
}

/// A port of such queue pairs.
pub struct Made<W>(pub Arc<W>);

impl<W> Clone for Made<W> {
    fn clone(&self) -> Made<W> {
        Made(Arc::clone(&self.0))
    }
}

impl<W> fmt::Display for Made<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("made")
    }
}

impl<W: World> PortSource for Made<W> {
    fn queue_pair_frames(&self) -> usize {
        W::HELD
    }

    fn open(&self, count: u32, region: &Arc<Region>) -> Result<Vec<Box<dyn QueuePair>>, PortError> {
        let queue_pair = |place| -> Box<dyn QueuePair> {
            let (world, region) = (Arc::clone(&self.0), Arc::clone(region));
            let own = world.own(place, count);
            Box::new(MadeQueuePair { world, own, region, counters: QueuePairCounters::default() })
        };
        Ok((0..count).map(queue_pair).collect())
    }

    fn can_reopen(&self) -> bool {
        false
    }
}

struct MadeQueuePair<W: World> {
    world: Arc<W>,
    own: W::Own,
    region: Arc<Region>,
    counters: QueuePairCounters,
}

impl<W: World> QueuePair for MadeQueuePair<W> {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        while !into.is_full() {
            let Some(mut desc) = pool.take() else { break };
            let slot = self.region.slot_mut(&mut desc);
            let Some(len) = self.world.make(&mut self.own, into.len(), slot) else {
                pool.give(desc);
                break;
            };
            self.region.set_len(&mut desc, len);
            self.counters.rx_frames += 1;
            into.push(desc);
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        if self.world.takes(&mut self.own) {
            for desc in burst.drain(..) {
                self.world.left(&mut self.own, self.region.frame(&desc));
                self.counters.tx_frames += 1;
                pool.give(desc);
            }
        }
        Ok(())
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.world.waits_on(&self.own)
    }

    fn counters(&self) -> QueuePairCounters {
        self.counters
    }

    fn close(self: Box<Self>, _: &mut FramePool) -> io::Result<QueuePairCounters> {
        Ok(self.counters())
    }
}
