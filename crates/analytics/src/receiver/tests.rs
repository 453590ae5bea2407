//! Senders and a receiver over a network that loses, repeats and reorders.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::source::{NewTuple, OfferError, Sender, SenderOptions};
use crate::tuple::{begin_tuples, push_tuple};

/// Takes as many tuples as there is room for.
#[derive(Default)]
struct Taken {
    tuples: Vec<(u64, u64, u64)>,
    room: usize,
}

impl TupleSink for Taken {
    fn take(&mut self, tuple: &Tuple<'_>) -> bool {
        if self.room > 0 {
            self.room -= 1;
            self.tuples.push((tuple.key, tuple.sequence, tuple.time_ns));
            return true;
        }
        false
    }
}

#[derive(Clone, Copy, Debug)]
struct Network {
    lost_percent: u32,
    repeated_percent: u32,
    delay_ns: u64,
    jitter_ns: u64,
}

const BAD: Network =
    Network { lost_percent: 20, repeated_percent: 5, delay_ns: 100_000, jitter_ns: 2_000_000 };

/// Datagrams under way: arrival, whether it goes to the receiver, the sender's place, bytes.
struct SimulatedWire {
    network: Network,
    random: Xoshiro256PlusPlus,
    under_way: Vec<(u64, bool, usize, Vec<u8>)>,
}

impl SimulatedWire {
    fn send(&mut self, now_ns: u64, to_receiver: bool, place: usize, bytes: &[u8]) {
        let Network { lost_percent, repeated_percent, delay_ns, jitter_ns } = self.network;
        let times = 1 + usize::from(self.random.random_range(0..100) < repeated_percent);
        for _ in 0..times {
            if self.random.random_range(0..100) >= lost_percent {
                let at_ns = now_ns + delay_ns + self.random.random_range(0..=jitter_ns);
                self.under_way.push((at_ns, to_receiver, place, bytes.to_vec()));
            }
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.under_way.iter().map(|of| of.0).min()
    }

    /// What arrives until a time.
    fn arrived(&mut self, now_ns: u64) -> Vec<(bool, usize, Vec<u8>)> {
        let (mut arrived, later): (Vec<_>, Vec<_>) =
            self.under_way.drain(..).partition(|of| of.0 <= now_ns);
        self.under_way = later;
        arrived.sort_by_key(|of| of.0);
        arrived.into_iter().map(|(_, to, place, bytes)| (to, place, bytes)).collect()
    }
}

/// Sends `count` tuples from each source, with so much room in each turn; what was taken, and the
/// receiver. Each source's event times are its sequences in microseconds.
fn transfer(
    (sources, count, window): (usize, u64, u32),
    room: usize,
    network: Network,
    seed: u64,
) -> (Taken, Receiver) {
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut wire = SimulatedWire { network, random, under_way: Vec::new() };
    let sender = |source| Sender::new(SenderOptions { window, ..SenderOptions::new(source) });
    let mut senders: Vec<Sender> = (0..sources as u64).map(sender).collect();
    let options =
        ReceiverOptions { window, sources_awaited: sources, ..ReceiverOptions::default() };
    let (mut receiver, mut taken) = (Receiver::new(options), Taken::default());
    let (mut now_ns, mut offered, mut frame) = (0, vec![0; sources], Vec::new());
    while !senders.iter().all(Sender::is_finished) {
        assert!(now_ns < 3_600_000_000_000, "an hour is enough");
        for (place, sender) in senders.iter_mut().enumerate() {
            while offered[place] < count {
                let key = offered[place] % 7;
                let tuple =
                    NewTuple { key, time_ns: offered[place] * 1_000, ..NewTuple::default() };
                match sender.offer(&tuple) {
                    Ok(()) => offered[place] += 1,
                    Err(error) => {
                        assert_eq!(error, OfferError::Full);
                        break;
                    }
                }
            }
            if offered[place] == count {
                sender.end();
            }
            while sender.frame(now_ns, &mut frame) {
                wire.send(now_ns, true, place, &frame);
            }
        }
        taken.room = room;
        for (to_receiver, place, bytes) in wire.arrived(now_ns) {
            if to_receiver {
                let source = receiver.receive(now_ns, &bytes, &mut taken).unwrap();
                receiver.write_acknowledgement(
                    source.unwrap(),
                    room as u32,
                    bytes.len(),
                    &mut frame,
                );
                wire.send(now_ns, false, place, &frame);
            } else {
                senders[place].acknowledge(now_ns, &bytes).unwrap();
            }
        }
        let due = senders.iter().filter_map(|sender| sender.due_ns(now_ns)).min();
        let next = wire.next_ns().into_iter().chain(due).min().unwrap_or(now_ns);
        now_ns = next.max(now_ns + 1);
        let watermark_ns = receiver.watermark_ns(now_ns);
        let early = taken.tuples.iter().filter(|of| of.2 < watermark_ns).count() as u64;
        let before = sources as u64 * (watermark_ns / 1_000).min(count);
        assert!(early >= before, "{early} of {before} tuples before {watermark_ns} ns");
    }
    assert!(receiver.is_finished());
    (taken, receiver)
}

fn assert_exact(taken: &mut Taken, sources: usize, count: u64) {
    taken.tuples.sort_unstable();
    let each = |sequence| std::iter::repeat_n((sequence % 7, sequence, sequence * 1_000), sources);
    let mut expected: Vec<_> = (0..count).flat_map(each).collect();
    expected.sort_unstable();
    assert_eq!(taken.tuples.len(), expected.len());
    assert_eq!(taken.tuples, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn each_tuple_is_taken_once_over_a_bad_network(
        seed: u64,
        sources in 1_usize..4,
        count in 0_u64..700,
        window in 1_u32..300,
        room in 1_usize..200,
        lost_percent in 0_u32..50,
    ) {
        let network = Network { lost_percent, ..BAD };
        let (mut taken, receiver) = transfer((sources, count, window), room, network, seed);
        assert_exact(&mut taken, sources, count);
        prop_assert_eq!(receiver.counters.late, 0);
    }
}

#[test]
fn counts_are_exact_at_20_percent_loss_5_percent_duplicates_and_reordering() {
    let (mut taken, receiver) = transfer((3, 20_000, 1_024), 4_096, BAD, 7);
    assert_exact(&mut taken, 3, 20_000);
    let ReceiverCounters { taken, duplicates, late, malformed, .. } = receiver.counters;
    assert_eq!((taken, late, malformed), (60_000, 0, 0));
    assert!(duplicates > 3_000, "{duplicates} duplicates");
}

#[test]
fn a_good_network_repeats_nothing() {
    let good = Network { lost_percent: 0, repeated_percent: 0, delay_ns: 50_000, jitter_ns: 0 };
    let (mut taken, receiver) = transfer((1, 10_000, 1_024), 4_096, good, 7);
    assert_exact(&mut taken, 1, 10_000);
    assert_eq!(receiver.counters.duplicates, 0);
}

/// A receiver with these limits, and a sink with room.
fn receiver(options: ReceiverOptions) -> (Receiver, Taken) {
    (Receiver::new(options), Taken { room: usize::MAX, ..Taken::default() })
}

/// A frame with tuples of these sequences and event times.
fn frame(source: u64, tuples: &[(u64, u64)]) -> Vec<u8> {
    let mut frame = Vec::new();
    begin_tuples(&mut frame, source);
    for &(sequence, time_ns) in tuples {
        assert!(push_tuple(&mut frame, &Tuple { sequence, time_ns, ..Tuple::default() }));
    }
    frame
}

fn progress(source: u64, next: u64, time_ns: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    tuple::write_progress(&mut frame, source, &SourceProgress { next, time_ns });
    frame
}

#[test]
fn a_source_that_lies_about_sequences_gets_no_memory_and_no_count() {
    let (mut receiver, mut taken) = receiver(ReceiverOptions::default());
    let lies = [(1_024, 5), (u64::MAX, 5), (u64::MAX / 2, 5)];
    receiver.receive(0, &frame(1, &lies), &mut taken).unwrap();
    assert_eq!((receiver.counters.beyond, taken.tuples.len()), (3, 0));
    // An end before tuples that it sends all the same.
    receiver.receive(0, &progress(1, 2, END_NS), &mut taken).unwrap();
    receiver.receive(0, &frame(1, &[(0, 5), (1, 5), (2, 5)]), &mut taken).unwrap();
    assert_eq!((receiver.counters.beyond, taken.tuples.len()), (4, 2));
    receiver.watermark_ns(0);
    assert!(receiver.is_finished());
    // Another end, later.
    receiver.receive(0, &progress(1, 9, END_NS), &mut taken).unwrap();
    receiver.receive(0, &frame(1, &[(2, 5)]), &mut taken).unwrap();
    assert_eq!(taken.tuples.len(), 2);
}

#[test]
fn whoever_replays_a_source_adds_nothing() {
    let windows = Windows::new(2_000, 1_000).unwrap();
    let options = ReceiverOptions { windows, sources_max: 1, ..ReceiverOptions::default() };
    let (mut receiver, mut taken) = receiver(options);
    let frames = [frame(1, &[(0, 500), (1, 5_000)]), progress(1, 2, END_NS)];
    frames.iter().for_each(|frame| _ = receiver.receive(0, frame, &mut taken).unwrap());
    frames.iter().for_each(|frame| _ = receiver.receive(1, frame, &mut taken).unwrap());
    assert_eq!((taken.tuples.len(), receiver.counters.duplicates), (2, 2));
    // Its memory goes to another source once all of its tuples are late.
    receiver.receive(2, &frame(2, &[(0, 9_000)]), &mut taken).unwrap();
    assert_eq!((receiver.counters.refused, receiver.watermark_ns(3)), (1, 7_000));
    let later_ns = 3 + FULL_NS;
    receiver.receive(later_ns, &frame(2, &[(0, 9_000)]), &mut taken).unwrap();
    receiver.receive(later_ns, &progress(2, 1, END_NS), &mut taken).unwrap();
    assert_eq!((taken.tuples.len(), receiver.watermark_ns(later_ns)), (3, 11_000));
    // And comes back as a source without a past: it counts nothing a second time.
    receiver.receive(later_ns, &frames[0], &mut taken).unwrap();
    assert_eq!((taken.tuples.len(), receiver.counters.late), (3, 2));
}

#[test]
fn a_new_source_among_many_holds_results_back_at_once() {
    let sources = LOOKED_AT as u64 + 2;
    let options =
        ReceiverOptions { sources_awaited: sources as usize, ..ReceiverOptions::default() };
    let (mut receiver, mut taken) = receiver(options);
    for source in 1..sources {
        receiver.receive(0, &frame(source, &[(0, 9_000)]), &mut taken).unwrap();
        assert_eq!(receiver.watermark_ns(0), 0);
    }
    // Within the time of one look.
    receiver.receive(1, &frame(sources, &[(0, 5_000)]), &mut taken).unwrap();
    assert_eq!(receiver.watermark_ns(2), 0);
    receiver.receive(3, &frame(sources, &[(1, 5_500)]), &mut taken).unwrap();
    assert_eq!((receiver.watermark_ns(LOOK_NS), receiver.counters.late), (5_500, 0));
}

#[test]
fn a_source_that_stops_holds_results_back_for_a_while() {
    let (mut receiver, mut taken) = receiver(ReceiverOptions::default());
    let silence_ns = ReceiverOptions::default().silence_ns;
    receiver.receive(0, &frame(1, &[(0, 5_000)]), &mut taken).unwrap();
    receiver.receive(0, &frame(2, &[(0, 3_000)]), &mut taken).unwrap();
    assert_eq!((receiver.watermark_ns(0), receiver.live_sources()), (3_000, 2));
    let later_ns = silence_ns - 1;
    receiver.receive(later_ns, &frame(1, &[(1, 8_000)]), &mut taken).unwrap();
    assert_eq!(receiver.watermark_ns(later_ns), 3_000);
    assert_eq!((receiver.watermark_ns(silence_ns), receiver.live_sources()), (8_000, 1));
    assert!(!receiver.is_finished());
}

#[test]
fn nothing_is_complete_before_all_awaited_sources_were_there() {
    let options = ReceiverOptions { sources_awaited: 2, ..ReceiverOptions::default() };
    let (mut receiver, mut taken) = receiver(options);
    receiver.receive(0, &frame(1, &[(0, 5_000)]), &mut taken).unwrap();
    receiver.receive(0, &progress(1, 1, END_NS), &mut taken).unwrap();
    assert_eq!((receiver.watermark_ns(0), receiver.is_finished()), (0, false));
    receiver.receive(0, &progress(2, 0, 7_000), &mut taken).unwrap();
    assert_eq!(receiver.watermark_ns(0), 7_000);
}

#[test]
fn a_source_without_memory_is_refused_and_told_so_by_the_acknowledgement() {
    let options = ReceiverOptions { sources_max: 1, ..ReceiverOptions::default() };
    let (mut receiver, mut taken) = receiver(options);
    receiver.receive(0, &frame(1, &[(0, 5)]), &mut taken).unwrap();
    let refused = receiver.receive(0, &frame(2, &[(0, 5)]), &mut taken);
    assert_eq!((refused, receiver.counters.refused), (Ok(Some(2)), 1));
    let (mut sender, mut bytes) = (Sender::new(SenderOptions::new(2)), Vec::new());
    receiver.write_acknowledgement(2, 9, 48, &mut bytes);
    sender.acknowledge(0, &bytes).unwrap();
    assert!(sender.is_refused());
}

#[test]
fn a_frame_that_is_cut_short_counts_nothing() {
    let (mut receiver, mut taken) = receiver(ReceiverOptions::default());
    let whole = frame(1, &[(0, 5), (1, 6)]);
    for len in 0..whole.len() {
        assert!(receiver.receive(0, &whole[..len], &mut taken).is_err());
    }
    assert_eq!((receiver.counters.malformed, taken.tuples.len()), (whole.len() as u64, 0));
}
