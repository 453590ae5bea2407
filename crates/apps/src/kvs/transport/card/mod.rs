//! The queues of a card: a host made of frames ([`crate::endpoint`]) that serves a store.
//!
//! Frames come in bursts, and answers leave as frames. Reflection protection: no answer of the
//! store goes to another store, for an answer may be a thousand times as long as its request.

mod events;
#[cfg(test)]
mod events_tests;
mod queues;
#[cfg(test)]
mod refusal_tests;
mod reply;
#[cfg(test)]
mod tests;

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};

pub(super) use queues::Queues;

use crate::endpoint::{Endpoint, FrameCounters, Identity, RequestSource, prefetch_frames};
use crate::kvs::codec::context::Context;
use crate::kvs::codec::datagram::batch::{AnswerBuffers, BatchDatagram, BatchStep, StepObserver};
use crate::kvs::protocol::event::Event;
use crate::service::Answers;

/// The host on one core.
#[derive(Debug)]
pub struct Station {
    endpoint: Endpoint,
    batch: AnswerBuffers,
    /// Events of a card that are served together.
    events: Box<[Event; BURST]>,
}

impl Station {
    /// A host with these addresses.
    pub fn new(identity: Identity) -> Station {
        let (endpoint, batch) = (Endpoint::new(identity), AnswerBuffers::default());
        Station { endpoint, batch, events: Box::new([Event::default(); BURST]) }
    }

    /// Its counters; a reader takes them and leaves zeros.
    pub fn counted(&mut self) -> &mut FrameCounters {
        &mut self.endpoint.counted
    }

    /// Serves a burst of frames. `owner` says of a queue the partition that its requests are of,
    /// where a card has told them apart: it has checked Ethernet, IPv4 but for its end, and the
    /// lengths of UDP and of the request then, and what it looked at is not looked at again.
    pub fn serve<W: StepObserver>(
        &mut self,
        region: &Region,
        frames: &[Desc],
        owner: impl Fn(u16) -> Option<usize>,
        context: &Context<'_>,
        watch: &mut W,
        answers: &mut dyn Answers,
    ) {
        let frames = &frames[..frames.len().min(BURST)];
        prefetch_frames(region, frames);
        let mut asked = [BatchDatagram { datagram: &[], owner: None }; BURST];
        let (mut peers, mut count) = ([RequestSource::default(); BURST], 0);
        let Station { endpoint, batch, .. } = self;
        for desc in frames {
            let (frame, owner) = (region.frame(desc), owner(desc.queue));
            let received = match owner {
                Some(_) => endpoint.steered(frame),
                None => endpoint.read(frame),
            };
            if let Some((peer, datagram)) = endpoint.answer(received, context.now.0, answers) {
                (asked[count], peers[count]) = (BatchDatagram { datagram, owner }, peer);
                count += 1;
            }
        }
        watch.done(BatchStep::Receive);
        let (template, counted) = endpoint.answering();
        counted.frames += frames.len() as u64;
        counted.datagrams += count as u64;
        counted.datagram_bytes +=
            asked[..count].iter().map(|of| of.datagram.len() as u64).sum::<u64>();
        batch.serve(&asked[..count], context, watch, |i, id, answer| {
            reply::send(template, &peers[i], id, answer, counted, answers);
        });
    }
}
