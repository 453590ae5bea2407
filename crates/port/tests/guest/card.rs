//! A card as far as a lane sees it: frames, and a door.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::frame_pool::{FramePool, count, frame_pools};
use niclab_port::guest::{ExternalQueueSize, GuestLane, Listener};
use niclab_port::lane::Lane;
use tempfile::{TempDir, tempdir};

use crate::peer::{Peer, has_message, knock};

/// Few, so that rings wrap and slots run out.
pub const SMALL: ExternalQueueSize = ExternalQueueSize::new(64, 96).unwrap();

/// Frames of its memory.
pub const FRAMES: usize = 512;

/// A card as far as a lane sees it: frames, and a door.
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

    /// Lets the guest in that is on its way.
    pub fn guest(&mut self) -> GuestLane {
        until("a guest", || self.listener.accept(&self.region).unwrap())
    }

    /// A guest of the tests', and its lane.
    pub fn peer(&mut self) -> (GuestLane, Peer) {
        let socket = knock(&self.path());
        self.enter(socket)
    }

    /// Lets a guest in that has knocked.
    pub fn enter(&mut self, socket: OwnedFd) -> (GuestLane, Peer) {
        until("the layout", || {
            assert!(self.listener.accept(&self.region).unwrap().is_none());
            has_message(&socket).then_some(())
        });
        let peer = Peer::join(socket);
        (self.guest(), peer)
    }

    /// A frame of these bytes.
    pub fn frame(&mut self, bytes: &[u8]) -> Desc {
        let mut desc = self.pools[0].take().unwrap();
        self.region.slot_mut(&mut desc)[..bytes.len()].copy_from_slice(bytes);
        self.region.set_len(&mut desc, bytes.len() as u16);
        desc
    }

    /// Sends frames, which all are gone then: to the guest or dropped.
    pub fn send<'a>(&mut self, lane: &mut GuestLane, frames: impl IntoIterator<Item = &'a [u8]>) {
        let mut burst = Burst::new();
        for bytes in frames {
            burst.push(self.frame(bytes));
        }
        lane.send(&mut self.pools[0], &mut burst).unwrap();
        assert!(burst.is_empty());
    }

    /// Takes a burst of what a guest has sent.
    pub fn receive(&mut self, lane: &mut GuestLane) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        lane.receive(&mut self.pools[0], &mut burst).unwrap();
        let frames = burst.iter().map(|desc| self.region.frame(desc).to_vec()).collect();
        self.pools[0].give_all(&mut burst);
        frames
    }

    /// Ends, and counts: no frame is lost.
    pub fn end(mut self, lanes: impl IntoIterator<Item = GuestLane>) {
        for lane in lanes {
            Box::new(lane).close(&mut self.pools[0]).unwrap();
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
