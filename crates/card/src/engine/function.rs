//! The function that frames come to on the core of their queue.

use niclab_apps::forward::swap_macs;
use niclab_nic::memory::Desc;
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

/// The function where there is no service: out by the other port, or back with the MAC addresses
/// swapped. A guest gets the frames of its queue instead.
#[inline]
fn forward(
    sides: &mut [Side],
    seats: &mut [Seat],
    pool: &mut FramePool,
    port: usize,
    mut desc: Desc,
) {
    let is_its = |seat: &&mut Seat| seat.port == port && seat.queue == desc.queue;
    if let Some(seat) = seats.iter_mut().find(is_its) {
        return seat.give(desc, pool);
    }
    if sides.len() == 1 {
        swap_macs(pool.region().frame_mut(&mut desc));
    }
    sides[way_out(port, sides.len())].leave(desc, pool);
}

/// The function on frames that came by a port and are this core's.
pub(super) fn work_on(
    sides: &mut [Side],
    seats: &mut [Seat],
    pool: &mut FramePool,
    service: &mut Option<Serving>,
    port: usize,
    burst: &mut Burst,
) {
    match service {
        Some(serving) if !burst.is_empty() => serving.serve(&mut sides[port], pool, burst),
        _ => burst.drain(..).for_each(|desc| forward(sides, seats, pool, port, desc)),
    }
}
