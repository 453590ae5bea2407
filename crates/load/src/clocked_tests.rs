//! A core that takes a known time for each frame, in virtual time: queueing theory says what it
//! forwards, what it misses and how long frames take.

use std::collections::VecDeque;

use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

use super::*;
use crate::spec::Arrivals;
use crate::stamp::Stamp;

/// A receive ring, and the frames that are reserved of it.
struct Ring {
    depth: usize,
    waiting: VecDeque<[u8; 64]>,
    reserved: Vec<[u8; 64]>,
}

impl Outlet for Ring {
    fn reserve(&mut self, want: usize) -> usize {
        let room = want.min(self.depth - self.waiting.len());
        self.reserved.resize(room, [0; 64]);
        room
    }

    fn slot(&mut self, i: usize) -> &mut [u8] {
        &mut self.reserved[i]
    }

    fn commit(&mut self, lens: &[u16]) -> usize {
        self.waiting.extend(&self.reserved[..lens.len()]);
        lens.len()
    }
}

/// Frames that leave.
struct Sent([u8; 64]);

impl Inlet for Sent {
    fn poll(&mut self) -> usize {
        1
    }

    fn frame(&self, _: usize) -> &[u8] {
        &self.0[..60]
    }

    fn release(&mut self) {}
}

fn load(rate: Rate, arrivals: Arrivals, duration_ns: u64) -> Load {
    Load {
        flows: FlowSpec { count: 100, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate,
        arrivals,
        duration_ns,
        warmup_ns: duration_ns / 10,
        seed: 7,
        trace: None,
    }
}

/// Time between two polls that find nothing.
const IDLE_NS: u64 = 4;

/// One core that takes so long for each frame, one after the other, and is away once.
struct Core {
    service_ns: u64,
    /// When, and for how long.
    away: Option<(u64, u64)>,
}

impl Core {
    /// Serves a load behind a ring of `depth` frames.
    fn serve(mut self, load: &Load, depth: u32) -> LoadObservation {
        let mut wire = ClockedWire::one(load, depth, 1_518).unwrap();
        let (waiting, reserved) = Default::default();
        let mut ring = Ring { depth: depth as usize, waiting, reserved };
        let mut now_ns = 0;
        while now_ns < wire.end_ns() || !ring.waiting.is_empty() {
            if let Some((_, for_ns)) = self.away.take_if(|(at_ns, _)| *at_ns <= now_ns) {
                now_ns += for_ns;
            }
            wire.turn(&mut ring, now_ns);
            match ring.waiting.pop_front() {
                Some(frame) => {
                    wire.count_taken(1);
                    now_ns += self.service_ns;
                    wire.complete(&Sent(frame), 1, now_ns);
                }
                None => now_ns += IDLE_NS,
            }
        }
        let observation = observe(vec![wire]);
        assert_eq!(observation.planned, observation.offered + observation.unsent);
        assert_eq!(observation.offered, observation.received + observation.lost);
        assert_eq!(
            (observation.lost, observation.unsent),
            (observation.rx_missed, 0),
            "nothing else loses a frame"
        );
        assert_eq!(
            (
                observation.reordered,
                observation.duplicated,
                observation.damaged,
                observation.foreign
            ),
            (0, 0, 0, 0)
        );
        observation
    }
}

fn core(service_ns: u64) -> Core {
    Core { service_ns, away: None }
}

#[track_caller]
fn is_near(is: f64, should_be: f64) {
    assert!((is / should_be - 1.0).abs() < 0.02, "{is} and not {should_be} within 2 %");
}

fn latency_ns(observation: &LoadObservation) -> f64 {
    observation.latency.as_ref().unwrap().0.mean()
}

const MS: u64 = 1_000_000;

#[test]
fn below_its_capacity_a_core_forwards_all_and_nothing_waits() {
    // D/D/1: 8 million frames a second of 100 ns each.
    let observation = core(100).serve(&load(Rate::Pps(8e6), Arrivals::Constant, 20 * MS), 64);
    assert_eq!((observation.offered, observation.rx_missed), (160_000, 0));
    is_near(latency_ns(&observation), 100.0);
    let idle_ratio = observation.honesty.device_idle_ratio.unwrap();
    assert!((idle_ratio - 0.2).abs() < 0.005, "{idle_ratio}");
    is_near(
        observation.honesty.device_busy_ns.unwrap() as f64 / observation.received as f64,
        100.0,
    );
}

#[test]
fn frames_at_random_times_wait_as_queueing_theory_says() {
    // M/D/1: a frame waits rho S / (2 (1 - rho)) on average (Pollaczek and Khinchine).
    for (rho, depth) in [(0.5, 512), (0.8, 512), (0.9, 1_024)] {
        let service_ns = 100.0;
        let rate = Rate::Pps(rho * 1e9 / service_ns);
        let observation = core(100).serve(&load(rate, Arrivals::Poisson, 300 * MS), depth);
        let waits_ns = rho * service_ns / (2.0 * (1.0 - rho));
        assert_eq!(observation.rx_missed, 0, "such a ring never fills");
        // Where nothing waits a poll finds a frame two nanoseconds late, which is within the bar.
        is_near(latency_ns(&observation), service_ns + waits_ns);
        is_near(observation.offered as f64, rho * 3e6);
    }
}

#[test]
fn beyond_its_capacity_a_core_forwards_what_it_can_and_misses_the_rest() {
    let depth = 64;
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let observation = core(200).serve(&load(Rate::Pps(10e6), arrivals, 20 * MS), depth);
        is_near(observation.received as f64, 20e6 / 200.0);
        is_near(observation.rx_missed as f64, 200_000.0 - 20e6 / 200.0);
        // The ring is full: a frame waits for those before it and is served.
        is_near(latency_ns(&observation), f64::from(depth) * 200.0 + 100.0);
        assert!(observation.honesty.device_idle_ratio.unwrap() < 0.001);
    }
}

#[test]
fn a_core_that_is_away_loses_what_its_ring_has_no_room_for_and_no_frame_more() {
    for (away_ns, depth, missed) in [(MS, 64, 936), (MS, 1_000, 0), (5 * MS, 256, 4_744)] {
        let away = Some((10 * MS + 500, away_ns));
        let of = load(Rate::Pps(1e6), Arrivals::Constant, 40 * MS);
        let observation = Core { service_ns: 100, away }.serve(&of, depth);
        assert_eq!(
            (observation.offered, observation.rx_missed),
            (40_000, missed),
            "{away_ns} ns, {depth}"
        );
        assert_eq!(observation.honesty.device_stalls.unwrap().count, 1);
        let disturbed = observation.slices.iter().filter(|slice| slice.disturbed).count() as u64;
        let covers = u64::from(depth) * 1_000;
        assert_eq!(disturbed > 0, away_ns > covers.min(MS / 2), "{away_ns} ns, {depth}");
        // The first of those that were due meanwhile waited for all of it.
        let most_ns = observation.latency.unwrap().0.max();
        assert!(most_ns >= away_ns - 1_000, "{most_ns}");
    }
}

#[test]
fn a_saturating_load_keeps_the_ring_full() {
    let observation = core(125).serve(&load(Rate::Saturate, Arrivals::Constant, 10 * MS), 256);
    is_near(observation.received as f64, 10e6 / 125.0);
    assert_eq!((observation.lost, observation.offered), (0, observation.received));
    is_near(latency_ns(&observation), 256.0 * 125.0);
}

#[test]
fn several_queues_share_the_rate_by_their_flows() {
    let of = load(Rate::Pps(10e6), Arrivals::Poisson, 10 * MS);
    let queue_of = |tuple: &FiveTuple| usize::from(!tuple.sport.is_multiple_of(4));
    let mut wires = ClockedWire::several(&of, 64, 1_518, 3, queue_of).unwrap();
    let set = FlowSet::new(&of.flows).unwrap();
    let mut observation = [0_u64; 3];
    for (queue, wire) in wires.iter_mut().enumerate() {
        let (waiting, reserved) = Default::default();
        let mut ring = Ring { depth: 64, waiting, reserved };
        for now_ns in (0..=wire.end_ns()).step_by(1_000) {
            wire.turn(&mut ring, now_ns);
            for frame in ring.waiting.drain(..) {
                let flow = Stamp::of_frame(&frame[..60]).unwrap().flow;
                assert_eq!(queue_of(&set.tuple(flow)), queue);
                observation[queue] += 1;
                wire.complete(&Sent(frame), 1, now_ns);
            }
        }
    }
    let share = set.tuples().filter(|tuple| queue_of(tuple) == 0).count() as f64 / 100.0;
    assert!((0.05..0.95).contains(&share) && observation[2] == 0, "{share}, {observation:?}");
    assert!(
        (observation[0] as f64 / (observation[0] + observation[1]) as f64 / share - 1.0).abs()
            < 0.05
    );
    let all = observe(wires);
    is_near(all.offered as f64, 100_000.0);
    assert_eq!((all.offered, all.rx_missed), (all.received, 0));
    let sent: Vec<u64> = all.generator.queues.iter().map(|queue| queue.tx_frames).collect();
    let back: Vec<u64> = all.sink.queues.iter().map(|queue| queue.rx_frames).collect();
    assert_eq!((&sent[..], &back[..]), (&observation[..], &observation[..]));
}

#[test]
fn an_impossible_load_is_refused() {
    let of = |rate| load(rate, Arrivals::Constant, MS);
    let refused =
        |load: &Load| ClockedWire::one(load, 64, 1_518).err().map(|error| error.to_string());
    let none = "rate: 0 frames a second; use more than 0 and at most 1e9";
    assert_eq!(refused(&of(Rate::Pps(0.0))).as_deref(), Some(none));
    let long = Load { sizes: FrameSizes::Fixed(9_000), ..of(Rate::Saturate) };
    let message = "sizes: frames of 9000 B, but set up for at most 1518 B";
    assert_eq!(refused(&long).as_deref(), Some(message));
    let trace = Load { trace: Some("none.pcap".into()), ..of(Rate::Saturate) };
    let message = ClockedWire::several(&trace, 64, 1_518, 2, |_| 0).err().unwrap().to_string();
    assert_eq!(message, "trace none.pcap: a trace goes to a single receive queue");
}
