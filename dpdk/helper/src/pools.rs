//! Pools of frames.

use std::ffi::CStr;

use crate::shim::{Dpdk, Pool, Refusal};

/// Frames of a pool: both rings full, both cards' queues full, every burst and cache full.
/// One less than a power of two uses memory best (rte_mempool.h).
pub const POOL_FRAMES: u32 = 16_383;

/// Room of a frame, bytes: the usual, and the longest.
const FRAME_ROOMS: [(u16, &CStr); 2] = [(2048, c"niclab-frames"), (9728, c"niclab-jumbo-frames")];

// What the room of a frame must hold is its length without FCS, so rooms are counted generously.
const _: () = assert!(FRAME_ROOMS[1].0 > 9000 + 4 && FRAME_ROOMS[0].0 > 1518);

/// The pools, each made when it is first needed.
pub struct Pools {
    dpdk: Dpdk,
    pools: [Option<Pool>; FRAME_ROOMS.len()],
}

impl Pools {
    /// None yet.
    pub fn new(dpdk: Dpdk) -> Pools {
        Pools { dpdk, pools: [None; FRAME_ROOMS.len()] }
    }

    /// DPDK itself.
    pub fn dpdk(&self) -> &Dpdk {
        &self.dpdk
    }

    /// The pool whose frames are long enough.
    ///
    /// # Errors
    /// No frame is so long; DPDK's.
    pub fn of_frames(&mut self, frame_len_max: u16) -> Result<Pool, Refusal> {
        let fits = |room: &(u16, &CStr)| room.0 >= frame_len_max;
        let at = FRAME_ROOMS.iter().position(fits).ok_or_else(|| {
            let longest = FRAME_ROOMS[FRAME_ROOMS.len() - 1].0;
            Refusal(format!("frames of {frame_len_max} bytes: at most {longest}"))
        })?;
        if let Some(pool) = self.pools[at] {
            return Ok(pool);
        }
        let (room, name) = FRAME_ROOMS[at];
        let pool = self.dpdk.pool(name, POOL_FRAMES, room)?;
        self.pools[at] = Some(pool);
        Ok(pool)
    }
}
