//! Frames that an application steers to queues of other cores.
//!
//! An application has rings of its own between the cores: who steers more than the core of a queue
//! works on fills those, and nobody else's. What is in them is worked on in the turn of the
//! application on that core, whose time it takes.

use std::sync::Arc;

use niclab_nic::limits::{BURST, PORTS_MAX, QUEUES_MAX};
use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::inter_core::InterCoreRings;

/// Frames that a ring between two of so many cores holds.
fn ring_frames(cores: usize) -> usize {
    (1_024 / cores).clamp(BURST, 512)
}

/// Frames that wait in an application's rings to a core, at most.
pub(crate) fn frames_max(cores: usize) -> usize {
    (cores - 1) * ring_frames(cores)
}

/// In the rings a frame's queue says the port that it came by, too, in the upper byte.
const PORT_SHIFT: u32 = 8;

const _: () = assert!(QUEUES_MAX <= 1 << PORT_SHIFT && PORTS_MAX <= 1 << (16 - PORT_SHIFT));

/// One core's ends of an application's rings.
pub(crate) struct SteeringRings {
    rings: InterCoreRings,
    region: Arc<Region>,
    cores: usize,
    /// The core whose frames come next.
    next: usize,
}

impl SteeringRings {
    /// The ends of so many cores.
    pub(crate) fn between(cores: usize, region: &Arc<Region>) -> Vec<SteeringRings> {
        let ends = InterCoreRings::between(cores, ring_frames(cores)).into_iter();
        ends.map(|rings| SteeringRings { rings, region: Arc::clone(region), cores, next: 0 })
            .collect()
    }

    /// Gives another core frames that came by a port; those that find no room stay.
    pub(crate) fn send(&mut self, core: usize, port: usize, burst: &mut Burst) -> usize {
        burst.iter_mut().for_each(|desc| desc.queue |= (port as u16) << PORT_SHIFT);
        let given = self.rings.send(core, burst);
        burst.iter_mut().for_each(|desc| _ = take_port(desc));
        given
    }

    /// Takes frames of one other core, and lets `work` have them by the port that they came by: by
    /// turns all other cores'. How many they were.
    pub(crate) fn take(&mut self, mut work: impl FnMut(usize, &mut Burst)) -> usize {
        let (mut burst, mut part) = (Burst::new(), Burst::new());
        self.next = (self.next + 1) % self.cores;
        self.rings.receive(self.next, &self.region, &mut burst);
        let count = burst.len();
        let mut last = None;
        for mut desc in burst.drain(..) {
            let port = take_port(&mut desc);
            if let Some(other) = last.replace(port).filter(|last| *last != port) {
                work(other, &mut part);
            }
            part.push(desc);
        }
        last.into_iter().for_each(|port| work(port, &mut part));
        count
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    /// Whether nothing waits to be worked on here.
    pub(crate) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Gives nothing any more.
    pub(crate) fn close(&mut self) {
        self.rings.close();
    }

    /// Whether nobody gives anything any more; what was given is there.
    pub(crate) fn is_producer_closed(&self) -> bool {
        self.rings.is_producer_closed()
    }
}

/// The port that a frame came by, which its queue forgets.
fn take_port(desc: &mut Desc) -> usize {
    let port = desc.queue >> PORT_SHIFT;
    desc.queue &= (1 << PORT_SHIFT) - 1;
    port.into()
}
