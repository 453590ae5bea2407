//! Tuples of many sources as frames, pass by pass.

use std::net::Ipv4Addr;

use niclab_analytics::partition;
use niclab_analytics::source::NewTuple;
use niclab_analytics::tuple::{
    self, FRAME_LEN_MAX, SourceProgress, Tuple, begin_tuples, push_tuple, write_progress,
};
use niclab_apps::endpoint::Identity;
use niclab_packet::BuildError;
use niclab_packet::flow::{FlowSet, FlowSpec, Picker, Popularity};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};

use super::super::broken;
use crate::cases::mix;
use crate::counting::{TupleMode, TupleWorkload};
use crate::face::DeviceError;

/// Most keys of a load.
pub const KEYS_MAX: u32 = 1_000_000;
/// Tuples of a pass: all of them fit into the ring of one worker, with their marks.
pub const TUPLES: u64 = 32_768;
/// Passes of a pane.
pub const PASSES: u64 = 2;
/// Streams: the workers count the tuples of the first one.
const STREAMS: u64 = 2;
/// Sources for each worker.
const SOURCES: usize = 64;
/// Bytes of Ethernet, IPv4 and UDP before a frame's content.
const HEADS_LEN: usize = 42;
/// Bytes of the longest frame.
pub(super) const LONGEST: usize = HEADS_LEN + FRAME_LEN_MAX;

/// The receiver's addresses.
pub(super) const RECEIVER: Identity = Identity {
    mac: MacAddress([2, 0, 10, 9, 0, 2]),
    ip: Ipv4Addr::new(10, 9, 0, 2),
    network_bits: 24,
    port: 9_770,
};

/// A source: where it sends from, its next tuple, and the tuples of its next frame.
struct TupleSource {
    id: u64,
    ip: Ipv4Addr,
    port: u16,
    next: u64,
    frame: Vec<u8>,
    count: usize,
}

/// A tuple that is to be counted.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) stream: u16,
    pub(super) key: u64,
}

/// All sources.
pub(super) struct TupleLoad {
    workload: TupleWorkload,
    sources: Vec<TupleSource>,
    /// Sources whose keys are all of one worker: those of worker i are the i-th of each
    /// `parts`.
    parts: usize,
    /// By part: the source that has the next tuple.
    turn: Vec<usize>,
    picker: Picker,
    payload: Vec<u8>,
    /// Tuples of all passes.
    made: u64,
    /// Event time between two tuples, nanoseconds.
    interval_ns: u64,
}

impl TupleLoad {
    /// The sources for `workers` workers. A pane takes `pane_ns` of event time.
    pub(super) fn new(
        workload: &TupleWorkload,
        (mode, workers): (TupleMode, usize),
        pane_ns: u64,
    ) -> Result<TupleLoad, DeviceError> {
        let popularity = match workload.zipf {
            0.0 => Popularity::Uniform,
            exponent => Popularity::Zipf { exponent },
        };
        let spec = FlowSpec { count: workload.keys, popularity, ..FlowSpec::default() };
        let picker = FlowSet::new(&spec).map_err(broken)?.picker(workload.seed);
        let parts = if mode == TupleMode::Steer { workers } else { 1 };
        let source = |number: usize| {
            let random = mix((workload.seed << 40) ^ number as u64).to_le_bytes();
            TupleSource {
                // The card gives progress to the worker of the lowest byte.
                id: (((number / parts) << 8) | (number % parts)) as u64,
                ip: Ipv4Addr::new(10, 10, random[0], random[1]),
                port: 32_768 | u16::from_le_bytes([random[2], random[3]]),
                next: 0,
                frame: Vec::new(),
                count: 0,
            }
        };
        Ok(TupleLoad {
            workload: *workload,
            sources: (0..SOURCES * workers).map(source).collect(),
            parts,
            turn: (0..parts).collect(),
            picker,
            payload: vec![7; workload.payload_len.into()],
            made: 0,
            interval_ns: pane_ns / (TUPLES * PASSES),
        })
    }

    /// Sources.
    pub(super) fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Tuples of all passes so far.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Frames of a pass at most.
    pub(super) fn frames_max(&self) -> usize {
        let wire_len = Tuple { payload: &self.payload, ..Tuple::default() }.wire_len();
        let fit = (FRAME_LEN_MAX - tuple::HEADER_LEN) / wire_len;
        let batch = usize::from(self.workload.batch).min(fit).max(1);
        TUPLES as usize / batch + 1 + 2 * self.sources.len()
    }

    /// The greetings of all sources.
    pub(super) fn greetings(&self) -> Result<Vec<Vec<u8>>, DeviceError> {
        self.progress(&SourceProgress { next: 0, time_ns: 0 })
    }

    /// All sources say that nothing before this event time follows.
    pub(super) fn ends(&self, time_ns: u64) -> Result<Vec<Vec<u8>>, DeviceError> {
        self.progress(&SourceProgress { next: u64::MAX, time_ns })
    }

    fn progress(&self, said: &SourceProgress) -> Result<Vec<Vec<u8>>, DeviceError> {
        let mut content = Vec::new();
        let frame = |source: &TupleSource| {
            let said = SourceProgress { next: said.next.min(source.next), ..*said };
            write_progress(&mut content, source.id, &said);
            frame(source, &content)
        };
        self.sources.iter().map(frame).collect::<Result<_, _>>().map_err(broken)
    }

    /// The frames of the next pass, from event time `start_ns` on, and what is to be counted.
    pub(super) fn pass(
        &mut self,
        start_ns: u64,
        counted: &mut Vec<Counted>,
    ) -> Result<Vec<Vec<u8>>, DeviceError> {
        let mut frames = Vec::with_capacity(self.frames_max());
        for at in 0..TUPLES {
            let (stream, key) = ((self.made % STREAMS) as u16, u64::from(self.picker.next()));
            self.made += 1;
            counted.push(Counted { stream, key });
            let time_ns = start_ns + at * self.interval_ns;
            let part = partition::worker(key, self.parts);
            let place = self.turn[part];
            let tuple = NewTuple { stream, key, time_ns, payload: &[] };
            let is_full = self.push(place, &tuple);
            if is_full {
                frames.push(self.end_frame(place)?);
                self.turn[part] = (place + self.parts) % self.sources.len();
            }
        }
        for place in 0..self.sources.len() {
            if self.sources[place].count > 0 {
                frames.push(self.end_frame(place)?);
            }
        }
        Ok(frames)
    }

    /// Appends a tuple to the frame of a source; whether that is full.
    fn push(&mut self, place: usize, tuple: &NewTuple<'_>) -> bool {
        let TupleLoad { sources, payload, workload, .. } = self;
        let source = &mut sources[place];
        if source.count == 0 {
            begin_tuples(&mut source.frame, source.id);
        }
        let NewTuple { stream, key, time_ns, .. } = *tuple;
        let tuple = Tuple { stream, key, sequence: source.next, time_ns, payload };
        let has_room = push_tuple(&mut source.frame, &tuple);
        debug_assert!(has_room, "a frame ends while it has room for one more");
        (source.next, source.count) = (source.next + 1, source.count + 1);
        source.count == usize::from(workload.batch)
            || source.frame.len() + tuple.wire_len() > FRAME_LEN_MAX
    }

    fn end_frame(&mut self, place: usize) -> Result<Vec<u8>, DeviceError> {
        let source = &mut self.sources[place];
        source.count = 0;
        let made = frame(source, &source.frame).map_err(broken)?;
        source.frame.clear();
        Ok(made)
    }
}

/// A frame of a source.
fn frame(source: &TupleSource, content: &[u8]) -> Result<Vec<u8>, BuildError> {
    build(&[
        Layer::Ethernet(ethernet::Repr {
            dst: RECEIVER.mac,
            src: MacAddress::local(source.id as u32),
            ..ethernet::Repr::default()
        }),
        Layer::Ipv4(ipv4::Repr {
            src: source.ip,
            dst: RECEIVER.ip,
            protocol: IpProtocol::UDP,
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr {
            src_port: source.port,
            dst_port: RECEIVER.port,
            ..udp::Repr::default()
        }),
        Layer::Payload(content.to_vec()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_one_worker_reports_its_progress_to_that_worker() {
        let workload = TupleWorkload { keys: 9, zipf: 0.0, payload_len: 0, batch: 9, seed: 1 };
        for workers in 1..=16 {
            let load = TupleLoad::new(&workload, (TupleMode::Steer, workers), 1 << 30).unwrap();
            for (number, source) in load.sources.iter().enumerate() {
                assert_eq!((source.id & 255) as usize % workers, number % workers, "{workers}");
            }
            let mut ids: Vec<u64> = load.sources.iter().map(|source| source.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), 64 * workers);
        }
    }
}
