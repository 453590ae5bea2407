//! A load on a modelled card, beside a plan, and its observation.

use niclab_load::{
    Control, FLOWS_PROBED_MAX, Honesty, Latency, Load, LoadObservation, PortCounters,
    QueueCounters, Rate, Slice,
};
use rand::{Rng, RngExt};

use super::card::{Path, SECOND_NS};
use super::control::{Effects, Operations};
use super::pipe::{Pipe, PipeCounts, Rates};
use super::polled_queues::PolledQueue;
use super::rules::FrameShares;

/// Length of a slice, nanoseconds.
const SLICE_NS: u64 = 1_000_000;

/// Frames that are followed one by one.
const PROBES: u32 = 10_000;

/// Everything that a trial is made of.
pub(super) struct ModelTrial<'a> {
    pub path: &'a Path,
    pub met: &'a FrameShares,
    /// The queues that get frames; core 0 carries out what the same core is to.
    pub polled_queues: &'a [PolledQueue],
    /// Share of the frames that each queue gets by the hash, of those that no rule decides.
    pub shares: &'a [f64],
    pub load: &'a Load,
    /// Queues of the set-up.
    pub queues: u16,
    /// Frames a second that arrive.
    pub arrivals_pps: f64,
    /// Time of a frame in the classifier, nanoseconds.
    pub frame_ns: f64,
}

impl ModelTrial<'_> {
    /// Lets packets flow, and says what was seen.
    pub fn run(
        &self,
        plan: Option<(Operations, (Control, Effects))>,
        random: &mut impl Rng,
    ) -> LoadObservation {
        let nothing = Effects::default();
        let effects = plan.as_ref().map_or(&nothing, |(_, (_, effects))| effects);
        let pipes: Vec<Pipe> = self
            .polled_queues
            .iter()
            .map(|polled_queue| self.flow(polled_queue, effects))
            .collect();
        let mut seen = self.counted(&pipes);
        seen.latency = self.path.idle_ns.map(|idle_ns| self.latencies(&pipes, idle_ns, random));
        // Service begins when a frame leaves, and each leaves when it is due.
        seen.service = seen.latency.clone();
        let mut moved = Vec::new();
        let operations = plan.as_ref().map(|(operations, _)| operations);
        if let Some(operations) = operations {
            moved = self.change(operations, effects);
            self.drop_frames(operations, effects, &mut seen);
        }
        self.latest(operations, effects, &mut seen, random);
        self.count_ports(&pipes, &moved, &mut seen);
        seen.control = plan.map(|(_, (control, _))| control);
        seen.balance(0);
        seen
    }

    /// The fate of the frames of a queue. They are spread evenly among all that wait for the
    /// classifier: each queue has its share of the FIFO and of its time.
    fn flow(&self, polled_queue: &PolledQueue, effects: &Effects) -> Pipe {
        // Operations on core 0 begin with the stall.
        let away_ns = match polled_queue.core == 0 && !effects.away_ns.is_empty() {
            true => &effects.away_ns,
            false => &effects.stalled_ns,
        };
        let rates = Rates {
            arrivals: polled_queue.share * self.arrivals_pps / SECOND_NS,
            classifier: polled_queue.share / self.frame_ns.max(1e-3),
            host: 1.0 / polled_queue.host_ns.max(1e-3),
        };
        let standing = Rates { host: 0.0, ..rates };
        let end_ns = self.load.duration_ns as f64;
        let fifo = polled_queue.share * self.path.fifo;
        let mut pipe = Pipe::new(fifo, self.path.ring, -(self.load.warmup_ns as f64));
        for (from_ns, to_ns) in away_ns {
            pipe.pass(from_ns.min(end_ns), &rates);
            pipe.pass(to_ns.min(end_ns), &standing);
        }
        pipe.pass(end_ns, &rates);
        // What began before the end goes on behind it, and keeps what is left waiting.
        if let Some((_, to_ns)) = away_ns.iter().rfind(|(from_ns, _)| *from_ns < end_ns) {
            pipe.pass(*to_ns, &Rates { arrivals: 0.0, ..standing });
        }
        pipe.drain(&rates);
        pipe
    }

    /// Counts of the measured part, and over time.
    fn counted(&self, pipes: &[Pipe]) -> LoadObservation {
        let duration_ns = self.load.duration_ns;
        let slices = duration_ns.div_ceil(SLICE_NS);
        let edges = (0..=slices).map(|at| (at * SLICE_NS).min(duration_ns) as f64);
        let marks = sum_at(pipes, edges);
        let kept = 1.0 - self.path.loss;
        let round =
            |of: fn(&PipeCounts) -> f64| marks.iter().map(|mark| of(mark).round() as u64).collect();
        let arrived: Vec<u64> = round(|mark| mark.arrived);
        let lost: Vec<u64> = marks
            .iter()
            .map(|mark| (mark.arrived * self.path.loss + mark.lost() * kept).round() as u64)
            .collect();
        let back: Vec<u64> = marks.iter().map(|mark| (mark.done * kept).round() as u64).collect();
        // A rate that the wire does not carry is the generator's failing.
        let more = match self.load.rate {
            Rate::Saturate => 1.0,
            Rate::Pps(pps) | Rate::Step { high_pps: pps, .. } => (pps / self.arrivals_pps).max(1.0),
        };
        let planned: Vec<u64> =
            marks.iter().map(|mark| (mark.arrived * more).round() as u64).collect();
        let slice = |at: usize| Slice {
            start_ns: at as u64 * SLICE_NS,
            offered: arrived[at + 1] - arrived[at],
            received: back[at + 1].saturating_sub(back[at]),
            rx_missed: lost[at + 1].saturating_sub(lost[at]),
            unsent: planned[at + 1].saturating_sub(planned[at] + arrived[at + 1] - arrived[at]),
            disturbed: false,
        };
        let offered = arrived.last().unwrap_or(&0) - arrived.first().unwrap_or(&0);
        let lost = lost.last().unwrap_or(&0) - lost.first().unwrap_or(&0);
        let frame_len = self.load.sizes.mean();
        let received = offered.saturating_sub(lost);
        let planned = planned.last().unwrap_or(&0) - planned.first().unwrap_or(&0);
        let planned = planned.max(offered);
        LoadObservation {
            planned,
            offered,
            unsent: planned - offered,
            received,
            offered_bytes: (offered as f64 * frame_len) as u64,
            received_bytes: (received as f64 * frame_len) as u64,
            lost: offered - received,
            rx_missed: offered - received,
            duration_ns,
            slices: (0..slices as usize).map(slice).collect(),
            honesty: Honesty {
                achieved_ratio: offered as f64 / planned.max(1) as f64,
                ..Honesty::default()
            },
            ..LoadObservation::default()
        }
    }

    fn latencies(
        &self,
        pipes: &[Pipe],
        (base_ns, wait_ns): (f64, f64),
        random: &mut impl Rng,
    ) -> Latency {
        let path = self.path;
        let step_ns = self.load.duration_ns as f64 / f64::from(PROBES);
        let probes: Vec<(f64, f64)> = (0..PROBES)
            .map(|at| ((f64::from(at) + random.random::<f64>()) * step_ns, random.random()))
            .collect();
        let mut latency = Latency::new();
        for ((at_ns, _), out_ns) in probes.iter().zip(self.out_ns(pipes, &probes, random)) {
            let Some(out_ns) = out_ns else { continue };
            let spike_ns = match path.spike {
                Some((spike_ns, share)) if random.random::<f64>() < share => spike_ns,
                _ => 0.0,
            };
            let wait_ns = random.random::<f64>() * wait_ns;
            // However short the queues are, a frame takes its own time in the classifier.
            let waited_ns = (out_ns - at_ns).max(self.frame_ns);
            latency.record((waited_ns + base_ns + wait_ns + spike_ns) as u64);
        }
        latency
    }

    /// When probes come out, each of a queue that a lot decides; `None` for what is lost.
    fn out_ns(
        &self,
        pipes: &[Pipe],
        probes: &[(f64, f64)],
        random: &mut impl Rng,
    ) -> Vec<Option<f64>> {
        if let [pipe] = pipes {
            return pipe.out_ns(probes);
        }
        let mut of_queue: Vec<Vec<usize>> = vec![Vec::new(); pipes.len()];
        for at in 0..probes.len() {
            let mut lot = random.random::<f64>();
            let is_here = |polled_queue: &PolledQueue| {
                lot -= polled_queue.share;
                lot < 0.0
            };
            let polled_queue =
                self.polled_queues.iter().position(is_here).unwrap_or(pipes.len() - 1);
            of_queue[polled_queue].push(at);
        }
        let mut out = vec![None; probes.len()];
        for (pipe, places) in pipes.iter().zip(of_queue) {
            let probes: Vec<(f64, f64)> = places.iter().map(|at| probes[*at]).collect();
            for (at, out_ns) in places.into_iter().zip(pipe.out_ns(&probes)) {
                out[at] = out_ns;
            }
        }
        out
    }

    /// What moves between queues as rules are changed, as shares of the frames.
    fn change(&self, operations: &Operations, effects: &Effects) -> Vec<(u16, f64)> {
        let (Some(new), Some(old)) = (operations.queue(), operations.block.queue()) else {
            return Vec::new();
        };
        let rules = effects.changed_ns.len().max(1);
        let each = operations.block.share_of(self.load) / f64::from(operations.block.count.max(1));
        let whole_ns = (self.load.duration_ns + self.load.warmup_ns) as f64;
        let end_ns = self.load.duration_ns as f64;
        let (mut none, mut changed) = (0.0, 0.0);
        for (gone_ns, there_ns) in &effects.changed_ns[..rules.min(effects.changed_ns.len())] {
            let (gone_ns, there_ns) = (gone_ns.min(end_ns), there_ns.min(end_ns));
            none += each * (there_ns - gone_ns) / whole_ns;
            changed += each * (end_ns - there_ns) / whole_ns;
        }
        let mut moved = vec![(old, -none - changed), (new, changed)];
        moved.extend(self.met.defaults(none, self.shares));
        moved
    }

    /// Takes out the frames that rules drop, each from the moment on at which it is in effect.
    fn drop_frames(&self, operations: &Operations, effects: &Effects, seen: &mut LoadObservation) {
        if !operations.drops() || operations.block.share_of(self.load) == 0.0 {
            return;
        }
        let flows = f64::from(self.load.flows.count);
        let share = |slice: &Slice| {
            let end_ns = (slice.start_ns + SLICE_NS).min(self.load.duration_ns) as f64;
            let length_ns = end_ns - slice.start_ns as f64;
            let of = |(_, there_ns): &(f64, f64)| (end_ns - there_ns).clamp(0.0, length_ns);
            effects.changed_ns.iter().map(of).sum::<f64>() / length_ns.max(1.0) / flows
        };
        let mut dropped = 0;
        for slice in &mut seen.slices {
            let of_slice = (slice.received as f64 * share(slice)).round() as u64;
            slice.received -= of_slice.min(slice.received);
            dropped += of_slice;
        }
        let dropped = dropped.min(seen.received);
        seen.received -= dropped;
        seen.received_bytes = (seen.received as f64 * self.load.sizes.mean()) as u64;
        seen.lost += dropped;
        seen.device.get_or_insert_default().rule_drops = dropped;
    }

    /// When the last frame of each flow left that came back.
    fn latest(
        &self,
        operations: Option<&Operations>,
        effects: &Effects,
        seen: &mut LoadObservation,
        random: &mut impl Rng,
    ) {
        let flows = self.load.flows.count;
        if flows > FLOWS_PROBED_MAX {
            return;
        }
        if seen.received == 0 {
            seen.latest_ns = vec![None; flows as usize];
            return;
        }
        let gap_ns = f64::from(flows) * SECOND_NS / self.arrivals_pps;
        let dropping = operations.filter(|operations| operations.drops());
        let first =
            dropping.and_then(|all| all.block.flows.as_ref()).map_or(0, |(_, first)| *first);
        let latest = |flow: u32| {
            let at = dropping.and_then(|_| flow.checked_sub(first));
            let dropped = at.and_then(|at| effects.changed_ns.get(at as usize));
            let end_ns = dropped.map_or(f64::INFINITY, |(_, there_ns)| *there_ns);
            let end_ns = end_ns.min(self.load.duration_ns as f64);
            let at_ns = end_ns - random.random::<f64>() * gap_ns;
            (at_ns >= 0.0).then_some(at_ns as u64)
        };
        seen.latest_ns = (0..flows).map(latest).collect();
    }

    /// Counters of the three ends, of the whole trial; `moved` are shares of the frames that
    /// changes of rules took to other queues.
    fn count_ports(&self, pipes: &[Pipe], moved: &[(u16, f64)], seen: &mut LoadObservation) {
        let frame_len = self.load.sizes.mean();
        let bytes = |frames: u64| (frames as f64 * frame_len) as u64;
        let last = sum(pipes.iter().map(Pipe::now));
        let offered = last.arrived.round() as u64;
        let warmup = offered.saturating_sub(seen.offered);
        let before = sum_at(pipes, [0.0])[0];
        let kept = 1.0 - self.path.loss;
        let lost_before = (before.arrived * self.path.loss + before.lost() * kept).round() as u64;
        let drops = seen.device.as_ref().map_or(0, |device| device.rule_drops);
        let missed = seen.rx_missed + lost_before.min(warmup);
        let taken = offered - missed;
        let back = taken - drops;
        let mut device =
            PortCounters { rule_drops: drops, rx_missed: missed, ..PortCounters::default() };
        device.queues = self.count_queues(pipes, moved, (taken, missed));
        device.queues.iter_mut().for_each(|queue| queue.rx_bytes = bytes(queue.rx_frames));
        let first = &mut device.queues[0];
        (first.tx_frames, first.tx_bytes) = (back, bytes(back));
        let rx_bytes: u64 = device.queues[1..].iter().map(|queue| queue.rx_bytes).sum();
        device.queues[0].rx_bytes = bytes(taken).saturating_sub(rx_bytes);
        let one = |rx: u64, tx: u64| PortCounters {
            queues: vec![QueueCounters {
                rx_frames: rx,
                rx_bytes: bytes(rx),
                tx_frames: tx,
                tx_bytes: bytes(tx),
                rx_missed: 0,
            }],
            ..PortCounters::default()
        };
        seen.generator = one(0, offered);
        seen.sink = one(back, 0);
        seen.device = Some(device);
    }

    /// What each queue got of the frames that were taken, and what it missed of those for which
    /// there was no room: what the FIFO lost no queue ever saw.
    fn count_queues(
        &self,
        pipes: &[Pipe],
        moved: &[(u16, f64)],
        (taken, missed): (u64, u64),
    ) -> Vec<QueueCounters> {
        let mut counters = vec![QueueCounters::default(); usize::from(self.queues)];
        let all: f64 = pipes.iter().map(|pipe| pipe.now().done).sum();
        let mut shares = vec![0.0; counters.len()];
        let mut left = missed;
        for (polled_queue, pipe) in self.polled_queues.iter().zip(pipes) {
            let end = pipe.now();
            let full = (end.classified - end.ringed).max(0.0) * (1.0 - self.path.loss);
            let at = usize::from(polled_queue.queue);
            shares[at] = end.done / all.max(f64::MIN_POSITIVE);
            counters[at].rx_missed = (full.round() as u64).min(left);
            left -= counters[at].rx_missed;
        }
        for (queue, share) in moved {
            shares[usize::from(*queue % self.queues)] += share;
        }
        for (counter, share) in counters.iter_mut().zip(shares) {
            counter.rx_frames = (share * taken as f64).round() as u64;
        }
        // What rounding left over belongs to the queue with most.
        let counted: u64 = counters.iter().map(|queue| queue.rx_frames).sum();
        if let Some(most) = counters.iter_mut().max_by_key(|queue| queue.rx_frames) {
            most.rx_frames = (most.rx_frames + taken).saturating_sub(counted);
        }
        counters
    }
}

/// Counts of several pipes.
fn sum(marks: impl Iterator<Item = PipeCounts>) -> PipeCounts {
    marks.reduce(|sum, mark| sum.and(&mark)).unwrap_or_default()
}

/// Counts of several pipes at moments in ascending order.
fn sum_at(pipes: &[Pipe], moments: impl IntoIterator<Item = f64>) -> Vec<PipeCounts> {
    let moments: Vec<f64> = moments.into_iter().collect();
    let of: Vec<Vec<PipeCounts>> =
        pipes.iter().map(|pipe| pipe.at(moments.iter().copied())).collect();
    (0..moments.len()).map(|at| sum(of.iter().map(|marks| marks[at]))).collect()
}

/// Frames a second that a load sends on a wire.
pub(super) fn arrivals_pps(load: &Load, line_pps: f64) -> f64 {
    match load.rate {
        Rate::Saturate => line_pps,
        Rate::Pps(pps) | Rate::Step { high_pps: pps, .. } => pps.min(line_pps),
    }
}
