//! The receiving side of an engine: datagrams in, acknowledgements out. Sockets and cards use it.

use std::sync::Arc;

use super::Demultiplexer;
use crate::cost::{StepObserver, WorkStep};
use crate::job::JobEngine;
use crate::partition::PARTS;
use crate::receiver::{Receiver, ReceiverCounters, ReceiverOptions, Watermark};
use crate::tuple::FRAME_LEN_MAX;

/// The steps of the receiving side.
const STEPS: [WorkStep; 4] =
    [WorkStep::Receive, WorkStep::Demultiplex, WorkStep::HandOver, WorkStep::Acknowledge];

/// A source of a burst: where it is, and how many bytes it has sent.
#[derive(Debug)]
struct SourceAnswer<T> {
    source: u64,
    to: T,
    bytes: usize,
}

/// A receiver with the workers that it feeds.
#[derive(Debug)]
pub struct Reception {
    receiver: Receiver,
    demultiplexer: Demultiplexer,
    frame: Vec<u8>,
}

impl Reception {
    /// The only receiver that feeds an engine, with its windows.
    pub fn new(engine: &JobEngine, options: ReceiverOptions) -> Reception {
        let watermark = Watermark::new(engine.query().windows, options.sources_awaited, 1);
        Reception::one_of(engine, options, Arc::new(watermark), 0)
    }

    /// One of several receivers that feed an engine, each with a number and a lane of its own.
    pub fn one_of(
        engine: &JobEngine,
        options: ReceiverOptions,
        watermark: Arc<Watermark>,
        place: usize,
    ) -> Reception {
        Reception {
            receiver: Receiver::one_of(options, watermark, place),
            demultiplexer: Demultiplexer::new(engine, place),
            frame: Vec::with_capacity(FRAME_LEN_MAX),
        }
    }

    /// Works on the payloads of a burst of datagrams, each with the address of its sender. Gives
    /// `answer` an acknowledgement for each source and address: nothing is acknowledged before it
    /// was handed over. A burst without datagrams applies that time has passed.
    pub fn burst<'a, T: Copy + PartialEq>(
        &mut self,
        now_ns: u64,
        datagrams: impl Iterator<Item = (&'a [u8], T)>,
        observer: &mut dyn StepObserver,
        mut answer: impl FnMut(T, &[u8]),
    ) {
        let Reception { receiver, demultiplexer, frame } = self;
        let room = demultiplexer.begin();
        let mut answers: Vec<SourceAnswer<T>> = Vec::new();
        for (bytes, to) in datagrams {
            let Ok(Some(source)) = receiver.receive(now_ns, bytes, demultiplexer) else { continue };
            match answers.iter_mut().find(|of| of.source == source && of.to == to) {
                Some(answer) => answer.bytes += bytes.len(),
                None => answers.push(SourceAnswer { source, to, bytes: bytes.len() }),
            }
        }
        let watermark_ns = receiver.watermark_ns(now_ns);
        observer.done(WorkStep::Demultiplex);
        let taken = demultiplexer.hand_over(watermark_ns);
        observer.done(WorkStep::HandOver);
        let live = receiver.live_sources().max(1);
        let credit = u32::try_from(room.saturating_sub(taken) / live).unwrap_or(u32::MAX);
        for SourceAnswer { source, to, bytes } in answers {
            receiver.write_acknowledgement(source, credit, bytes, frame);
            answer(to, frame);
        }
        observer.done(WorkStep::Acknowledge);
        observer.passed(&STEPS, taken);
    }

    /// Takes sources of these lowest bytes of their ids alone ([`Receiver::own`]).
    pub fn own(&mut self, own: [bool; PARTS]) {
        self.receiver.own(own);
    }

    /// Sources that were ever there, of all receivers of the engine.
    pub fn seen_sources(&self) -> usize {
        self.receiver.seen_sources()
    }

    /// The counters of the receiver.
    pub fn counters(&self) -> ReceiverCounters {
        self.receiver.counters
    }

    /// Sources that were heard of lately, and have not ended.
    pub fn live_sources(&self) -> usize {
        self.receiver.live_sources()
    }

    /// Sources that have fallen silent before their end.
    pub fn silent_sources(&self) -> usize {
        self.receiver.silent_sources()
    }

    /// Whether all awaited sources were there, and all sources have ended or are silent.
    pub fn is_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Whether it takes nothing more.
    pub fn is_closed(&self) -> bool {
        self.receiver.is_closed()
    }

    /// Takes nothing more; sources are still told what is safe.
    pub fn close(&mut self) {
        self.receiver.close();
    }
}
