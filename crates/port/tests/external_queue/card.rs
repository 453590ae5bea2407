//! A card as far as a queue pair sees it: frames, and a door.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::external_queue::{ExternalQueue, ExternalQueueSize, Listener};
use niclab_port::frame_pool::{FramePool, count, frame_pools};
use niclab_port::queue_pair::QueuePair;
use tempfile::{TempDir, tempdir};

use crate::peer::{Peer, has_message, knock};

/// Few, so that rings wrap and slots run out.
pub const SMALL: ExternalQueueSize = ExternalQueueSize::new(64, 96).unwrap();

/// Frames of its memory.
pub const FRAMES: usize = 512;

/// A card as far as a queue pair sees it: frames, and a door.
pub struct Card {
    pub directory: TempDir,
    pub listener: Listener,
    pub pools: Vec<FramePool>,
    pub region: Arc<Region>,
}

impl Card {
    pub fn new(shape: ExternalQueueSize) -> Card {
        let directory = tempdir().unwrap();
        let listener = Listener::bind(&directory.path().join("queue"), shape).unwrap();
        let pools = frame_pools(1, FRAMES, 1_514).unwrap();
        let region = Arc::clone(pools[0].region());
        Card { directory, listener, pools, region }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("queue")
    }

    /// Lets the client in that is on its way.
    pub fn queue(&mut self) -> ExternalQueue {
        until("a client", || self.listener.accept(&self.region).unwrap())
    }

    /// A client of the tests', and its queue pair.
    pub fn peer(&mut self) -> (ExternalQueue, Peer) {
        let socket = knock(&self.path());
        self.enter(socket)
    }

    /// Lets a client in that has knocked.
    pub fn enter(&mut self, socket: OwnedFd) -> (ExternalQueue, Peer) {
        until("the layout", || {
            assert!(self.listener.accept(&self.region).unwrap().is_none());
            has_message(&socket).then_some(())
        });
        let peer = Peer::join(socket);
        (self.queue(), peer)
    }

    /// A frame of these bytes.
    pub fn frame(&mut self, bytes: &[u8]) -> Desc {
        let mut desc = self.pools[0].take().unwrap();
        self.region.slot_mut(&mut desc)[..bytes.len()].copy_from_slice(bytes);
        self.region.set_len(&mut desc, bytes.len() as u16);
        desc
    }

    /// Sends frames, which all are gone then: to the client or dropped.
    pub fn send<'a>(
        &mut self,
        queue_pair: &mut ExternalQueue,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) {
        let mut burst = Burst::new();
        for bytes in frames {
            burst.push(self.frame(bytes));
        }
        queue_pair.send(&mut self.pools[0], &mut burst).unwrap();
        assert!(burst.is_empty());
    }

    /// Takes a burst of what a client has sent.
    pub fn receive(&mut self, queue_pair: &mut ExternalQueue) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        queue_pair.receive(&mut self.pools[0], &mut burst).unwrap();
        let frames = burst.iter().map(|desc| self.region.frame(desc).to_vec()).collect();
        self.pools[0].give_all(&mut burst);
        frames
    }

    /// Ends, and counts: no frame is lost.
    pub fn end(mut self, queue_pairs: impl IntoIterator<Item = ExternalQueue>) {
        for queue_pair in queue_pairs {
            Box::new(queue_pair).close(&mut self.pools[0]).unwrap();
        }
        assert_eq!(count(self.pools), FRAMES, "no frame is lost, and none is there twice");
    }
}

/// Asks until there is an answer, for ten seconds.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::yield_now();
    }
    panic!("{what} did not come");
}

/// A frame whose bytes say which one it is.
pub fn bytes(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len as u32).map(|at| (at + number) as u8).collect();
    bytes[..12].copy_from_slice(b"\x02to...\x02from.");
    bytes
}

/// What comes back of it.
pub fn swapped(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[..12].copy_from_slice(b"\x02from.\x02to...");
    bytes
}
