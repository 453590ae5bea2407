//! How a core ends: what is under way leaves, and every frame is given back.

use niclab_port::Burst;
use niclab_port::crossing::Crossing;
use niclab_port::frame_pool::FramePool;
use niclab_port::lane::Lane;

use super::Engine;

/// Turns at the end in which frames that wait may still leave.
const LAST_TURNS: u32 = 1_000;

impl Engine {
    /// Whether no other core gives anything any more.
    fn are_last(&self) -> bool {
        self.crossings.iter().all(Crossing::is_last)
            && self.host.as_ref().is_none_or(|host| host.is_last())
    }

    /// Lets what is under way leave, and gives back every frame.
    pub(super) fn end(mut self, mut burst: Burst) -> FramePool {
        for _ in 0..LAST_TURNS {
            if !self.host() {
                break;
            }
            self.pass_on(&mut burst);
        }
        if let Some(host) = &mut self.host {
            host.end(&mut self.pool);
            host.close();
        }
        for _ in 0..LAST_TURNS {
            if self.sides.iter().all(|side| side.moving.is_calm()) {
                break;
            }
            self.pass_on(&mut burst);
            std::thread::yield_now();
        }
        for side in &mut self.sides {
            for desc in side.moving.end() {
                side.seen.held_drops += 1;
                self.pool.give(desc);
            }
        }
        // Nothing is handed over from here on; the others learn it by this.
        self.crossings.iter_mut().for_each(Crossing::close);
        for _ in 0..LAST_TURNS {
            let are_last = self.are_last();
            let is_busy = self.host() | self.pass_on(&mut burst);
            let waits = self.sides.iter().any(|side| !side.leaving.is_empty());
            if are_last && !is_busy && !waits {
                break;
            }
            std::thread::yield_now();
        }
        // A core that still works has not ended its turn: wait for it, however long that takes.
        while !self.are_last() {
            self.host();
            self.pass_on(&mut burst);
            std::thread::yield_now();
        }
        while self.host() | self.take_over(&mut burst) | self.serve() {}
        // What the last turns answered leaves where the port takes it.
        for _ in 0..LAST_TURNS {
            if self.sides.iter().all(|side| side.leaving.is_empty()) {
                break;
            }
            for side in &mut self.sides {
                side.send(&mut burst, &mut self.pool);
            }
            std::thread::yield_now();
        }
        self.sides.iter_mut().for_each(|side| side.drop_leaving(&mut self.pool));
        for side in &mut self.sides {
            let lanes: Vec<Box<dyn Lane>> =
                std::iter::from_fn(|| side.lanes.pop().ok()).chain(side.lane.take()).collect();
            for lane in lanes {
                if let Err(error) = side.close(lane, &mut self.pool) {
                    side.note(&error);
                }
            }
        }
        self.program.carried.iter_mut().for_each(|carried| carried.rest());
        self.show();
        self.seats.into_iter().for_each(|seat| seat.end(&mut self.pool));
        self.pool
    }
}
