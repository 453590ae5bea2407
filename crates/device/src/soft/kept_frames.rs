//! Frames that a host keeps in memory, as a card writes them there, until a pass asks for them.

use std::sync::{Arc, Mutex, PoisonError};

use niclab_nic::memory::{Desc, Region};

use super::broken;
use crate::face::DeviceError;

/// Memory for the frames of all cores.
#[derive(Clone)]
pub(super) struct FrameMemory {
    region: Arc<Region>,
    /// The slots that no core has.
    free: Arc<Mutex<Vec<Desc>>>,
}

impl FrameMemory {
    /// Memory for `frames` frames of at most `longest` bytes.
    pub(super) fn new(frames: usize, longest: usize) -> Result<FrameMemory, DeviceError> {
        let (region, free) = Region::new(frames, longest).map_err(broken)?;
        Ok(FrameMemory { region, free: Arc::new(Mutex::new(free)) })
    }
}

/// The frames of one core, in the order in which they came.
pub(super) struct KeptFrames {
    memory: FrameMemory,
    kept: Vec<Desc>,
    /// Frames of `kept` that were taken out.
    taken: usize,
}

impl KeptFrames {
    /// None yet.
    pub(super) fn new(memory: &FrameMemory) -> KeptFrames {
        KeptFrames { memory: memory.clone(), kept: Vec::new(), taken: 0 }
    }

    /// Frames that were kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Forgets all frames.
    pub(super) fn clear(&mut self) {
        let mut free = self.memory.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.append(&mut self.kept);
        self.taken = 0;
    }

    /// Keeps copies of frames, as long as there is a slot for each.
    pub(super) fn keep(&mut self, from: &Region, frames: &[Desc]) {
        let FrameMemory { region, free } = &self.memory;
        let mut free = free.lock().unwrap_or_else(PoisonError::into_inner);
        for received in frames {
            let Some(mut desc) = free.pop() else { return };
            let frame = from.frame(received);
            region.slot_mut(&mut desc)[..frame.len()].copy_from_slice(frame);
            region.set_len(&mut desc, frame.len() as u16);
            desc.queue = received.queue;
            self.kept.push(desc);
        }
    }

    /// Takes out the next frames, at most `most`, with their memory.
    #[inline]
    pub(super) fn take(&mut self, most: usize) -> (&Region, &[Desc]) {
        let KeptFrames { memory, kept, taken } = self;
        let (now, behind) = kept[*taken..].split_at(most.min(kept.len() - *taken));
        // As where they come from a ring, the first lines of those behind are asked for.
        behind.iter().take(most).for_each(|desc| memory.region.prefetch(desc));
        *taken += now.len();
        (&memory.region, now)
    }
}
