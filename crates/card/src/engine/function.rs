//! The function that frames come to on the core of their queue.

use niclab_apps::forward::swap_macs;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;

use crate::core_service::CoreService;
use crate::external_queues::ExternalQueueEnd;
use crate::port_context::PortContext;

/// The port by which frames of `port` leave a card that has this number of ports: the other one of
/// its pair, or itself.
#[inline]
pub(super) fn output_port(port: usize, ports: usize) -> usize {
    if port ^ 1 < ports { port ^ 1 } else { port }
}

/// The function on frames that came by a port and are this core's: where there is no service, out
/// by the other port, or back with the MAC addresses swapped. The client of an external queue gets
/// the frames of its queue instead.
pub(super) fn apply_function(
    contexts: &mut [PortContext],
    external_queues: &mut [ExternalQueueEnd],
    pool: &mut FramePool,
    service: &mut Option<CoreService>,
    port: usize,
    burst: &mut Burst,
) {
    if let (Some(serving), false) = (service, burst.is_empty()) {
        return serving.serve(&mut contexts[port], pool, burst);
    }
    if !external_queues.is_empty() {
        for desc in std::mem::take(burst) {
            let is_its = |external_queue: &&mut ExternalQueueEnd| {
                external_queue.port == port && external_queue.queue == desc.queue
            };
            match external_queues.iter_mut().find(is_its) {
                Some(external_queue) => external_queue.send_to_client(desc, pool),
                None => burst.push(desc),
            }
        }
    }
    let output = output_port(port, contexts.len());
    if output == port {
        let region = pool.region();
        burst.iter_mut().for_each(|desc| swap_macs(region.frame_mut(desc)));
    }
    contexts[output].transmit_burst(burst, pool);
}
