//! The function that frames come to on the core of their queue.

use niclab_apps::forward::swap_macs;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;

use crate::guests::Seat;
use crate::serving::Serving;
use crate::side::Side;

/// The port whose lane frames of a port leave by, of so many ports.
#[inline]
pub(super) fn way_out(port: usize, ports: usize) -> usize {
    if ports == 1 { port } else { port ^ 1 }
}

/// The function on frames that came by a port and are this core's: where there is no service, out
/// by the other port, or back with the MAC addresses swapped. A guest gets the frames of its queue
/// instead.
pub(super) fn work_on(
    sides: &mut [Side],
    seats: &mut [Seat],
    pool: &mut FramePool,
    service: &mut Option<Serving>,
    port: usize,
    burst: &mut Burst,
) {
    if let (Some(serving), false) = (service, burst.is_empty()) {
        return serving.serve(&mut sides[port], pool, burst);
    }
    if !seats.is_empty() {
        for desc in std::mem::take(burst) {
            let is_its = |seat: &&mut Seat| seat.port == port && seat.queue == desc.queue;
            match seats.iter_mut().find(is_its) {
                Some(seat) => seat.give(desc, pool),
                None => burst.push(desc),
            }
        }
    }
    if sides.len() == 1 {
        let region = pool.region();
        burst.iter_mut().for_each(|desc| swap_macs(region.frame_mut(desc)));
    }
    sides[way_out(port, sides.len())].leave_all(burst, pool);
}
