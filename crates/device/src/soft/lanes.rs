//! The far end of a memory wire as a generator and a sink see it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use niclab_load::lane::{BURST, Inlet, Outlet};
use niclab_nic::memory::Region;
use niclab_port::wire::{Burst, Far};

/// Both lanes belong to one thread and share the far end.
type SharedFar = Rc<RefCell<Far>>;

/// Towards the NIC.
pub(super) struct Out {
    far: SharedFar,
    region: Arc<Region>,
    burst: Burst,
    frame_len_max: u16,
}

/// From the NIC.
pub(super) struct In {
    far: SharedFar,
    region: Arc<Region>,
    burst: Burst,
}

/// The two lanes of a far end, for frames of at most so many bytes without FCS.
pub(super) fn lanes(far: Far, frame_len_max: u16) -> (Out, In) {
    let region = Arc::clone(far.region());
    let far = Rc::new(RefCell::new(far));
    let back = In { far: Rc::clone(&far), region: Arc::clone(&region), burst: Burst::new() };
    (Out { far, region, burst: Burst::new(), frame_len_max }, back)
}

impl Outlet for Out {
    fn frame_len_max(&self) -> u16 {
        self.frame_len_max
    }

    #[inline]
    fn reserve(&mut self, want: usize) -> usize {
        let missing = want.min(BURST).saturating_sub(self.burst.len());
        self.far.borrow_mut().reserve(missing, &mut self.burst);
        self.burst.len()
    }

    #[inline]
    fn slot(&mut self, i: usize) -> &mut [u8] {
        self.region.slot_mut(&mut self.burst[i])
    }

    #[inline]
    fn commit(&mut self, lens: &[u16]) -> usize {
        for (desc, &len) in self.burst.iter_mut().zip(lens) {
            self.region.set_len(desc, len);
        }
        let mut far = self.far.borrow_mut();
        // What was reserved beyond the frames to send goes back: it lies at the end.
        while self.burst.len() > lens.len() {
            far.give_back(self.burst.pop());
        }
        far.send(&mut self.burst)
    }
}

impl Inlet for In {
    #[inline]
    fn poll(&mut self) -> usize {
        self.far.borrow_mut().receive(&mut self.burst);
        for desc in &self.burst {
            self.region.prefetch(desc);
        }
        self.burst.len()
    }

    #[inline]
    fn frame(&self, i: usize) -> &[u8] {
        self.region.frame(&self.burst[i])
    }

    #[inline]
    fn release(&mut self) {
        self.far.borrow_mut().release(&mut self.burst);
    }
}
