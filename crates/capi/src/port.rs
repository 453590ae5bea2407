//! Ports that lead out of the process: TAP interfaces, AF_XDP, packet traces.
//!
//! The port's frames lie in frame memory of its own, because the kernel wants them there; frames
//! are copied from and into the program's buffers. A queue pair may be received from by one thread
//! and sent by another, so each has a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

use niclab_card::{PortName, PortSource, UnknownPort};
use niclab_port::Burst;
use niclab_port::frame_pool::{FramePool, frame_pools};
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};

use crate::failure::{Failure, FailurePart};

/// Frames for each queue pair beside those that it holds: bursts under way.
const FRAMES: usize = 1_024;

/// Longest frame, bytes without FCS: 1,500 behind Ethernet and two VLAN tags.
pub const FRAME_LEN_MAX: usize = 1_522;

/// A queue pair and the free frames of its memory.
struct Queue {
    pair: Box<dyn QueuePair>,
    pool: FramePool,
    burst: Burst,
    /// Frames that did not fit the program's buffers, and such that were longer than any port's.
    rx_too_long: u64,
    tx_too_long: u64,
    /// Why the port is gone.
    gone: Option<std::io::Error>,
}

/// A port with its queue pairs.
pub struct Port {
    queues: Vec<Mutex<Queue>>,
}

impl Port {
    /// Opens a port with so many queue pairs.
    ///
    /// # Errors
    /// `EINVAL` for a name that no port has; what the system says of the port.
    pub fn open(name: &str, count: u32) -> Result<Port, Failure> {
        let unfit =
            |error: UnknownPort| Failure::new(libc::EINVAL, FailurePart::None, error.to_string());
        let name: PortName = name.parse().map_err(unfit)?;
        let frames = (name.queue_pair_frames() + FRAMES) * count as usize;
        let pools = frame_pools(count as usize, frames, FRAME_LEN_MAX);
        let pools = pools
            .map_err(|error| Failure::new(libc::ENOMEM, FailurePart::None, error.to_string()))?;
        let Some(region) = pools.first().map(|pool| pool.region().clone()) else {
            return Err(Failure::new(
                libc::EINVAL,
                FailurePart::None,
                "a port has at least one queue",
            ));
        };
        let pairs = name.open(count, &region)?;
        let queue = |(pair, pool)| Queue {
            pair,
            pool,
            burst: Burst::new(),
            rx_too_long: 0,
            tx_too_long: 0,
            gone: None,
        };
        let queues = pairs.into_iter().zip(pools).map(queue).map(Mutex::new).collect();
        Ok(Port { queues })
    }

    fn queue(&self, queue: usize) -> Result<MutexGuard<'_, Queue>, Failure> {
        let found = self.queues.get(queue).ok_or_else(|| {
            let text = format!("no queue {queue}; the port has {}", self.queues.len());
            Failure::new(libc::EINVAL, FailurePart::None, text)
        })?;
        Ok(found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies the frames that have arrived to where `buffers` says, one each; returns their number
    /// and calls `len` with the length of each. A frame longer than its buffer is dropped, and
    /// counts as missed.
    ///
    /// # Errors
    /// `EIO` if the port is gone.
    pub fn receive<'a>(
        &self,
        queue: usize,
        buffers: impl ExactSizeIterator<Item = &'a mut [u8]>,
        mut len: impl FnMut(usize),
    ) -> Result<usize, Failure> {
        let mut queue = self.queue(queue)?;
        queue.check()?;
        let Queue { pair, pool, burst, rx_too_long, gone, .. } = &mut *queue;
        // A burst that is empty has room for more than there are buffers; the rest waits in it.
        if burst.is_empty() {
            *gone = pair.receive(pool, burst).err();
        }
        let (mut count, mut buffers) = (0, buffers);
        let wanted = burst.len().min(buffers.len());
        let mut buffer = buffers.next();
        for desc in burst.drain(..wanted) {
            let region = pool.region().clone();
            let frame = region.frame(&desc);
            match &mut buffer {
                Some(to) if frame.len() <= to.len() => {
                    to[..frame.len()].copy_from_slice(frame);
                    len(frame.len());
                    count += 1;
                    buffer = buffers.next();
                }
                _ => *rx_too_long += 1,
            }
            pool.give(desc);
        }
        Ok(count)
    }

    /// Sends frames; returns how many, from the front, were sent or dropped because they are longer
    /// than [`FRAME_LEN_MAX`].
    ///
    /// # Errors
    /// `EIO` if the port is gone.
    pub fn send<'a>(
        &self,
        queue: usize,
        frames: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, Failure> {
        let mut queue = self.queue(queue)?;
        queue.check()?;
        let Queue { pair, pool, tx_too_long, gone, .. } = &mut *queue;
        let region = pool.region().clone();
        let mut burst = Burst::new();
        // For each frame that is too long, how many others come before it.
        let mut too_long = Vec::new();
        for frame in frames.take(burst.capacity()) {
            if frame.len() > FRAME_LEN_MAX {
                too_long.push(burst.len());
                continue;
            }
            let Some(mut desc) = pool.take() else { break };
            region.slot_mut(&mut desc)[..frame.len()].copy_from_slice(frame);
            region.set_len(&mut desc, frame.len() as u16);
            burst.push(desc);
        }
        let taken = burst.len();
        *gone = pair.send(pool, &mut burst).err();
        let sent = taken - burst.len();
        pool.give_all(&mut burst);
        // Those behind a frame that was not sent come again.
        let dropped = too_long.iter().filter(|before| **before <= sent).count();
        *tx_too_long += dropped as u64;
        Ok(sent + dropped)
    }

    /// The counters of a queue pair.
    ///
    /// # Errors
    /// `EINVAL` for a queue that does not exist.
    pub fn counters(&self, queue: usize) -> Result<QueuePairCounters, Failure> {
        let queue = self.queue(queue)?;
        let mut counters = queue.pair.counters();
        counters.rx_missed += queue.rx_too_long;
        counters.tx_dropped += queue.tx_too_long;
        Ok(counters)
    }

    /// Closes the port.
    ///
    /// # Errors
    /// `EIO` if not all that was sent arrived, such as in a file.
    pub fn close(self) -> Result<(), Failure> {
        let mut failed = None;
        for queue in self.queues {
            let mut queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
            queue.pool.give_all(&mut queue.burst);
            failed = failed.or(queue.pair.close(&mut queue.pool).err());
        }
        match failed {
            None => Ok(()),
            Some(error) => Err(Failure::new(libc::EIO, FailurePart::None, error.to_string())),
        }
    }
}

impl Queue {
    fn check(&self) -> Result<(), Failure> {
        match &self.gone {
            None => Ok(()),
            Some(error) => {
                let text = format!("the port is gone: {error}; close it and open it again");
                Err(Failure::new(libc::EIO, FailurePart::None, text))
            }
        }
    }
}
