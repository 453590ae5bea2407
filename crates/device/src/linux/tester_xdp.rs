//! Generator and sink on queues of an interface, over AF_XDP: frames are written and read in place.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use niclab_load::rings::{BURST, Inlet, Outlet};
use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::frame_pool::{FramePool, frame_pools};
use niclab_port::link::HEADER_LEN;
use niclab_port::queue_pair::QueuePair;
use niclab_port::xdp::{self, XdpQueuePair};

use super::forward::FRAME_NS;
use super::link::Link;

/// The ends of generator and sink.
pub struct XdpRings {
    pub outlet: XdpOutlet,
    pub inlet: XdpInlet,
}

/// The queues, and the free frames.
struct Shared {
    /// The generator sends by the first, and the sink receives by all.
    queue_pairs: Vec<XdpQueuePair>,
    pool: FramePool,
    /// The first error of the queue.
    gone: Option<io::Error>,
}

/// The generator's end.
pub struct XdpOutlet {
    shared: Arc<Mutex<Shared>>,
    region: Arc<Region>,
    /// Frames that may be filled.
    reserved: Vec<Desc>,
    frame_len_max: u16,
}

/// The sink's end.
pub struct XdpInlet {
    shared: Arc<Mutex<Shared>>,
    region: Arc<Region>,
    /// Frames of the last poll.
    polled: Burst,
    missed_before: u64,
}

/// Locked once per burst, by one thread only, so it is never contended.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Sends a burst; what finds no room stays in it. Keeps the first error.
    fn send(&mut self, burst: &mut Burst) {
        if let Err(error) = self.queue_pairs[0].send(&mut self.pool, burst) {
            self.gone.get_or_insert(error);
        }
    }

    /// Receives up to a burst from all queues. Keeps the first error.
    fn receive(&mut self, burst: &mut Burst) {
        for queue_pair in &mut self.queue_pairs {
            if let Err(error) = queue_pair.receive(&mut self.pool, burst) {
                self.gone.get_or_insert(error);
            }
        }
    }
}

impl XdpRings {
    /// Opens the first `count` queues of an interface of the calling thread's namespace. They shall
    /// receive all its frames (`HeldCard::receive_by`).
    ///
    /// # Errors
    /// Those of [`xdp::open_first`].
    pub fn open(link: &Link, count: u32) -> Result<XdpRings, PortError> {
        let no_memory = |error: &dyn ToString| PortError::System {
            what: "get frame memory for",
            name: link.name.clone(),
            source: io::Error::other(error.to_string()),
        };
        let frame_len_max = link.mtu + HEADER_LEN;
        let frames = count as usize * xdp::FRAMES;
        let pools = frame_pools(1, frames, frame_len_max as usize);
        let pool = pools.map_err(|e| no_memory(&e))?.pop();
        let pool = pool.ok_or_else(|| no_memory(&"no frame pool was made"))?;
        let region = Arc::clone(pool.region());
        // It refuses to open none.
        let queue_pairs = xdp::open_first(&link.name, count, &region)?;
        let shared = Arc::new(Mutex::new(Shared { queue_pairs, pool, gone: None }));
        let outlet = XdpOutlet {
            shared: Arc::clone(&shared),
            region: Arc::clone(&region),
            reserved: Vec::with_capacity(BURST),
            frame_len_max: frame_len_max as u16,
        };
        let inlet = XdpInlet { shared, region, polled: Burst::new(), missed_before: 0 };
        Ok(XdpRings { outlet, inlet })
    }

    /// Throws away what has arrived so far and forgets what was counted.
    ///
    /// # Errors
    /// Of an interface that is gone.
    pub fn drain(&mut self) -> io::Result<()> {
        for _ in 0..xdp::FRAMES / BURST {
            let found = self.inlet.poll();
            self.inlet.release();
            if found == 0 {
                break;
            }
        }
        self.inlet.missed();
        self.take_error()
    }

    /// Whether the queue has worked since the last call.
    ///
    /// # Errors
    /// Its first error since then.
    pub fn take_error(&self) -> io::Result<()> {
        lock(&self.inlet.shared).gone.take().map_or(Ok(()), Err)
    }
}

impl Outlet for XdpOutlet {
    fn frame_ns(&self) -> u64 {
        FRAME_NS
    }

    fn frame_len_max(&self) -> u16 {
        self.frame_len_max
    }

    fn reserve(&mut self, want: usize) -> usize {
        let want = want.min(BURST);
        let shared = &mut *lock(&self.shared);
        if shared.queue_pairs[0].send_room() < want {
            // Frames that were sent come back.
            shared.send(&mut Burst::new());
        }
        let want = want.min(shared.queue_pairs[0].send_room());
        let missing = want.saturating_sub(self.reserved.len());
        self.reserved.extend((0..missing).map_while(|_| shared.pool.take()));
        self.reserved.len().min(want)
    }

    fn slot(&mut self, i: usize) -> &mut [u8] {
        self.region.slot_mut(&mut self.reserved[i])
    }

    fn commit(&mut self, lens: &[u16]) -> usize {
        let mut burst = Burst::new();
        for (mut desc, &len) in self.reserved.drain(..lens.len()).zip(lens) {
            self.region.set_len(&mut desc, len);
            burst.push(desc);
        }
        let shared = &mut *lock(&self.shared);
        shared.send(&mut burst);
        let left = lens.len() - burst.len();
        shared.pool.give_all(&mut burst);
        self.reserved.drain(..).for_each(|desc| shared.pool.give(desc));
        left
    }
}

impl XdpInlet {
    /// Frames that found no room since the last call.
    pub fn missed(&mut self) -> u64 {
        let shared = lock(&self.shared);
        let all = shared.queue_pairs.iter().map(|of| of.counters().rx_missed).sum();
        all - std::mem::replace(&mut self.missed_before, all)
    }
}

impl Inlet for XdpInlet {
    fn poll(&mut self) -> usize {
        let shared = &mut *lock(&self.shared);
        shared.receive(&mut self.polled);
        if self.polled.is_empty() {
            // The kernel may have left frames in the transmit ring for want of room.
            shared.send(&mut Burst::new());
        }
        self.polled.len()
    }

    fn frame(&self, i: usize) -> &[u8] {
        self.region.frame(&self.polled[i])
    }

    fn release(&mut self) {
        lock(&self.shared).pool.give_all(&mut self.polled);
    }
}
