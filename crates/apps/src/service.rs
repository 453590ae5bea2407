//! A service on the queues of a core: frames come by bursts, and frames go as answers.
//!
//! Each core has one of its own. A burst is there to be gone through step by step: all keys hashed,
//! all places asked for, all looked up.

use niclab_nic::memory::{Desc, Region};

/// A service for the frames of one core's queues.
pub trait Service: Send {
    /// Serves a burst, at most `niclab_nic::limits::BURST` frames in the order in which they came;
    /// [`Desc::queue`] says by which queue. The frames are the caller's and stay as they are.
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers);

    /// Its turn, again and again: between two bursts of the core, whether there are frames for it
    /// or not. Here it reads the rings that a program fills: those with the number of its core. Its
    /// answers leave by the card's first port. Whether there was anything to do.
    fn turn(&mut self, _: &mut dyn Answers) -> bool {
        false
    }

    /// Whether its next turn has something to do: the core does not go to sleep then.
    fn has_work(&self) -> bool {
        false
    }
}

/// The output for answers, by the port that the burst came by.
pub trait Answers {
    /// A frame of so many bytes, without FCS, to be written; it leaves once it is. `None` where
    /// there is no free frame, or none so long: the answer is lost, as frames may be, and counted.
    fn frame(&mut self, len: usize) -> Option<&mut [u8]>;
}
