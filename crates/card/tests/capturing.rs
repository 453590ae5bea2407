//! When a capture begins: a core that has not looked yet is reported.

mod made;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use made::Made;
use niclab_card::{Card, CardConfig};
use niclab_packet::trace::{Trace, TraceLimits};

const FRAME_LEN: u16 = 60;

/// Two queue pairs, of which the second can be kept from work.
#[derive(Default)]
struct World {
    /// It is to stand still.
    stops: AtomicBool,
    /// It does.
    stands: AtomicBool,
    /// Frames that are to come by it.
    coming: AtomicU32,
    left: AtomicU32,
}

impl made::World for World {
    type Own = bool;

    const HELD: usize = 0;

    fn own(&self, place: u32, _: u32) -> bool {
        place == 1
    }

    fn make(&self, is_second: &mut bool, _: usize, slot: &mut [u8]) -> Option<u16> {
        if !*is_second {
            return None;
        }
        // A test that fails does not lift it.
        let end = Instant::now() + Duration::from_secs(30);
        while self.stops.load(Ordering::Acquire) && Instant::now() < end {
            self.stands.store(true, Ordering::Release);
            thread::sleep(Duration::from_millis(1));
        }
        if self.coming.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.coming.fetch_sub(1, Ordering::Relaxed);
        slot[..usize::from(FRAME_LEN)].fill(7);
        Some(FRAME_LEN)
    }

    fn left(&self, _: &mut bool, _: &[u8]) {
        self.left.fetch_add(1, Ordering::Release);
    }
}

#[track_caller]
fn until(what: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < end, "it does not come to that");
        thread::sleep(Duration::from_millis(1));
    }
}

fn frames(path: &Path) -> usize {
    let trace = Trace::load(fs::File::open(path).unwrap(), TraceLimits::default());
    trace.map_err(|incomplete| incomplete.error).unwrap().records().count()
}

#[test]
fn a_capture_has_begun_when_every_core_has_come_to_look() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("seen");
    let world = Arc::new(World::default());
    let ports = vec![Made(Arc::clone(&world))];
    let mut card = Card::start(&CardConfig::new(ports, 1, vec![0, 1]), "").unwrap();
    assert_eq!(card.core_without_capture(0), None, "nothing is captured");
    world.stops.store(true, Ordering::Release);
    until(|| world.stands.load(Ordering::Acquire));
    card.capture(0, (&path, fs::File::create(&path).unwrap()), u64::MAX).unwrap();
    until(|| card.core_without_capture(0) == Some(1));
    thread::sleep(Duration::from_millis(5));
    assert_eq!(card.core_without_capture(0), Some(1), "it stands still");
    world.stops.store(false, Ordering::Release);
    until(|| card.core_without_capture(0).is_none());
    // The very first frame is in the trace: as it came, and as it left.
    world.coming.store(1, Ordering::Release);
    until(|| world.left.load(Ordering::Acquire) == 1);
    assert_eq!(card.end_capture(0).unwrap().unwrap().frames, 2);
    assert_eq!(frames(&path), 2);
    assert_eq!(card.shut_down().frames_lost, 0);
}
