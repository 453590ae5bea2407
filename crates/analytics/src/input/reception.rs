//! The receiving side of an engine: datagrams in, acknowledgements out. Sockets and cards use it.

use super::Demultiplexer;
use crate::cost::{StepObserver, WorkStep};
use crate::job::JobEngine;
use crate::receiver::{Receiver, ReceiverCounters, ReceiverOptions};
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

/// A receiver with the workers that it feeds. An engine has one.
#[derive(Debug)]
pub struct Reception {
    receiver: Receiver,
    demultiplexer: Demultiplexer,
    frame: Vec<u8>,
}

impl Reception {
    /// A receiver that feeds an engine, with its windows.
    pub fn new(engine: &JobEngine, options: ReceiverOptions) -> Reception {
        let options = ReceiverOptions { windows: engine.query().windows, ..options };
        Reception {
            receiver: Receiver::new(options),
            demultiplexer: Demultiplexer::new(engine),
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
        let live = receiver.live_sources(now_ns).max(1);
        let credit = u32::try_from(room.saturating_sub(taken) / live).unwrap_or(u32::MAX);
        for SourceAnswer { source, to, bytes } in answers {
            receiver.write_acknowledgement(source, credit, bytes, frame);
            answer(to, frame);
        }
        observer.done(WorkStep::Acknowledge);
        observer.passed(&STEPS, taken);
    }

    /// The counters of the receiver.
    pub fn counters(&self) -> ReceiverCounters {
        self.receiver.counters
    }

    /// Sources that were heard of lately, and have not ended.
    pub fn live_sources(&self, now_ns: u64) -> usize {
        self.receiver.live_sources(now_ns)
    }

    /// Whether all awaited sources were there, and all sources have ended.
    pub fn is_finished(&self) -> bool {
        self.receiver.is_finished()
    }
}
