//! A service on a core: its answers leave by the port that the frames came by.

use std::sync::Arc;

use niclab_apps::service::{Answers, Service};
use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;

use crate::port_context::PortContext;

/// A service on a core.
pub(crate) struct CoreService {
    service: Box<dyn Service>,
    /// Memory of the frames.
    region: Arc<Region>,
}

impl CoreService {
    pub(crate) fn new(service: Box<dyn Service>, region: Arc<Region>) -> CoreService {
        CoreService { service, region }
    }

    /// Serves a burst that came by a port, and gives its frames back.
    pub(crate) fn serve(
        &mut self,
        context: &mut PortContext,
        pool: &mut FramePool,
        burst: &mut Burst,
    ) {
        let mut out = AnswerOutput { context, pool, last: None };
        self.service.serve(&self.region, burst, &mut out);
        out.send();
        pool.give_all(burst);
    }

    /// Lets the service have its turn; whether it had anything to do.
    #[inline]
    pub(crate) fn turn(&mut self, context: &mut PortContext, pool: &mut FramePool) -> bool {
        let mut out = AnswerOutput { context, pool, last: None };
        let is_busy = self.service.turn(&mut out);
        out.send();
        is_busy
    }

    /// Whether its next turn has something to do.
    pub(crate) fn has_work(&self) -> bool {
        self.service.has_work()
    }
}

/// The output of the answers to a burst.
struct AnswerOutput<'a> {
    context: &'a mut PortContext,
    pool: &'a mut FramePool,
    /// The one that is being written.
    last: Option<Desc>,
}

impl AnswerOutput<'_> {
    /// Lets the last one leave: it is written.
    #[inline]
    fn send(&mut self) {
        if let Some(desc) = self.last.take() {
            self.context.transmit(desc, self.pool);
        }
    }
}

impl Answers for AnswerOutput<'_> {
    #[inline]
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.send();
        let fits = len <= self.pool.region().frame_len_max();
        let Some(mut desc) = (if fits { self.pool.take() } else { None }) else {
            self.context.tally.tx_dropped += 1;
            return None;
        };
        let region = self.pool.region();
        region.slot_mut(&mut desc);
        region.set_len(&mut desc, len as u16);
        Some(region.frame_mut(self.last.insert(desc)))
    }
}
