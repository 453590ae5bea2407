//! Applications on a core: their waiting frames, and their turns.

use std::collections::VecDeque;
use std::sync::Arc;

use niclab_nic::Worker;
use niclab_nic::limits::BURST;
use niclab_nic::memory::Desc;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_program::STEP_NS;

use super::counters::{
    BUSY_NS, DROPS, FAULTS, FRAMES, MISSED, Numbers, OUTSIDE, PublishedCounters, QUEUE_MISSED,
    REPORTED, RING_FULL, TX_DROPPED,
};
use super::time::Clock;
use crate::program_instance::{InstanceReceiver, ProgramInstance};
use crate::steering_rings::SteeringRings;

/// Frames that wait for an application on a core, at most.
pub(super) const WAITING_MAX: usize = 512;

/// Time in which each application has a turn, all of them asking for more, nanoseconds for each of
/// them: some bursts of a fast program, some packets of a slow one.
pub(super) const TURN_NS: i64 = 10_000;

/// An application on a core.
pub(super) struct ApplicationContext {
    /// Its frames among those that are to leave.
    whose: usize,
    program: InstanceReceiver,
    /// Its rings from and to the other cores.
    steered: SteeringRings,
    /// By port: its frames that wait.
    waiting: Vec<VecDeque<Desc>>,
    count: usize,
    /// The port whose frames come next.
    next: usize,
    /// Time that it may work in a turn.
    turn_ns: i64,
    /// Time that it may still work, or has worked too long.
    credit_ns: i64,
    /// Estimated time of a frame.
    each_ns: u64,
    seen: Numbers,
    shown: Arc<PublishedCounters>,
}

/// The services of a core for an application.
pub(crate) trait CoreServices {
    /// Has the program decide about a burst of a port, and hands each frame on: some to other cores
    /// by `steered`. What was lost on the way.
    fn classify(
        &mut self,
        whose: usize,
        instance: &mut ProgramInstance,
        steered: &mut SteeringRings,
        port: usize,
        burst: &mut Burst,
    ) -> OverflowCounts;

    /// Has the function work on a burst that came by a port. What was lost on the way.
    fn serve(&mut self, whose: usize, port: usize, burst: &mut Burst) -> OverflowCounts;
}

/// Frames of an application for which there was no room: on the way to a queue, and out by a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverflowCounts {
    pub(crate) queue: u64,
    pub(crate) port: u64,
}

impl ApplicationContext {
    /// For a core of so many ports.
    pub(super) fn new(
        whose: usize,
        program: InstanceReceiver,
        steered: SteeringRings,
        ports: usize,
        turn_ns: i64,
        shown: Arc<PublishedCounters>,
    ) -> ApplicationContext {
        ApplicationContext {
            whose,
            program,
            steered,
            waiting: (0..ports).map(|_| VecDeque::with_capacity(WAITING_MAX)).collect(),
            count: 0,
            next: 0,
            turn_ns,
            credit_ns: 0,
            each_ns: 1,
            seen: Numbers::default(),
            shown,
        }
    }

    fn is_idle(&self) -> bool {
        self.count == 0 && self.steered.is_empty()
    }

    fn turn(&mut self, clock: &mut Clock, core: &mut impl CoreServices) {
        if self.is_idle() {
            // What it did not use is not kept: else it could hold others up later.
            self.credit_ns = self.credit_ns.min(0);
            return;
        }
        self.credit_ns = (self.credit_ns + self.turn_ns).min(self.turn_ns);
        for _ in 0..self.steered.cores() {
            if self.credit_ns > 0 && !self.steered.is_empty() {
                let begun = clock.begin();
                let (mut lost, whose) = (OverflowCounts::default(), self.whose);
                let count = self.steered.take(|port, burst| {
                    let OverflowCounts { port, .. } = core.serve(whose, port, burst);
                    lost.port += port;
                });
                if count > 0 {
                    self.charge(clock.own(begun), lost);
                }
            }
        }
        while self.credit_ns > 0 && self.count > 0 {
            self.decide(clock, core);
        }
    }

    /// Has the program decide about a burst.
    fn decide(&mut self, clock: &mut Clock, core: &mut impl CoreServices) {
        let mut burst = Burst::new();
        let ports = self.waiting.len();
        let has = |port: &usize| !self.waiting[*port].is_empty();
        let next = (self.next..self.next + ports).map(|port| port % ports).find(has);
        let Some(port) = next else { return };
        self.next = port + 1;
        let usual = self.turn_ns as u64 / self.each_ns;
        let worst = self.program.instance.as_ref().map_or(1, |of| of.worst_work);
        // A burst is so short that its worst packets take some turns and no more.
        let most = usual.min(4 * TURN_NS as u64 / (worst * STEP_NS).max(1));
        let most = most.clamp(1, BURST as u64) as usize;
        let count = self.waiting[port].len().min(most);
        burst.extend(self.waiting[port].drain(..count));
        self.count -= count;
        let begun = clock.begin();
        let lost = match &mut self.program.instance {
            None => OverflowCounts::default(),
            Some(of) => core.classify(self.whose, of, &mut self.steered, port, &mut burst),
        };
        let took_ns = clock.own(begun);
        self.charge(took_ns, lost);
        self.seen[FRAMES] += count as u64;
        self.each_ns = ((7 * self.each_ns + took_ns / count as u64) / 8).max(1);
        if let Some(instance) = &mut self.program.instance {
            let [drops, faults, outside, ring_full, no_way, reported] = instance.lost.take();
            self.seen[DROPS] += drops;
            self.seen[REPORTED] += reported;
            self.seen[FAULTS] += faults;
            self.seen[OUTSIDE] += outside + no_way;
            self.seen[RING_FULL] += ring_full;
        }
    }

    /// Takes time that was worked for it off what it may work.
    fn charge(&mut self, took_ns: u64, lost: OverflowCounts) {
        self.credit_ns -= took_ns as i64;
        self.seen[BUSY_NS] += took_ns;
        self.seen[QUEUE_MISSED] += lost.queue;
        self.seen[TX_DROPPED] += lost.port;
    }
}

/// All applications on a core.
pub(crate) struct Host {
    /// By port.
    dispatch: Vec<Worker>,
    places: Vec<ApplicationContext>,
    /// `None` until the core runs.
    clock: Option<Clock>,
}

impl Host {
    /// With what says whose a frame is, by port.
    pub(super) fn new(dispatch: Vec<Worker>, places: Vec<ApplicationContext>) -> Host {
        Host { dispatch, places, clock: None }
    }

    /// Takes the frames of applications out of a burst of a port; what finds no room is dropped.
    pub(crate) fn take(&mut self, port: usize, burst: &mut Burst, pool: &mut FramePool) {
        let worker = &mut self.dispatch[port];
        worker.classify(pool.region(), burst);
        let (mut i, spread) = (0, worker.port_rss_packets());
        let mut rest = Burst::new();
        for desc in burst.drain(..) {
            let is_nobodys = spread >> i & 1 == 1;
            i += 1;
            match self.places.get_mut(usize::from(desc.queue)).filter(|_| !is_nobodys) {
                None => rest.push(desc),
                Some(place) if place.count == WAITING_MAX => {
                    place.seen[MISSED] += 1;
                    pool.give(desc);
                }
                Some(place) => {
                    place.waiting[port].push_back(desc);
                    place.count += 1;
                }
            }
        }
        *burst = rest;
    }

    /// The turn of each. Whether any had something to do.
    pub(crate) fn turns(&mut self, core: &mut impl CoreServices) -> bool {
        let has_work = self.places.iter().any(|place| !place.is_idle());
        if has_work {
            let clock = self.clock.get_or_insert_with(Clock::now);
            self.places.iter_mut().for_each(|place| place.turn(clock, core));
        }
        has_work
    }

    /// Whether there are frames that other cores gave.
    pub(crate) fn has_frames(&self) -> bool {
        self.places.iter().any(|place| !place.steered.is_empty())
    }

    /// Gives other cores nothing any more.
    pub(crate) fn close(&mut self) {
        self.places.iter_mut().for_each(|place| place.steered.close());
    }

    /// Whether no other core gives anything any more.
    pub(crate) fn is_producer_closed(&self) -> bool {
        self.places.iter().all(|place| place.steered.is_producer_closed())
    }

    /// Takes new programs, and lets what was in tables before be used again.
    pub(crate) fn refresh(&mut self, pool: &mut FramePool) {
        self.dispatch.iter_mut().for_each(|of| _ = of.classify(pool.region(), &mut []));
        for place in &mut self.places {
            place.program.receive();
            if let Some(instance) = &mut place.program.instance {
                instance.run(0, &mut Burst::new(), pool);
            }
        }
    }

    /// Nobody looks at what was there before, until [`Host::online`].
    pub(crate) fn offline(&mut self) {
        self.dispatch.iter_mut().for_each(Worker::offline);
        let instance = self.places.iter_mut().filter_map(|place| place.program.instance.as_mut());
        instance.for_each(|instance| instance.worker.offline());
    }

    pub(crate) fn online(&mut self) {
        self.dispatch.iter_mut().for_each(Worker::online);
        let instance = self.places.iter_mut().filter_map(|place| place.program.instance.as_mut());
        instance.for_each(|instance| instance.worker.online());
    }

    pub(crate) fn publish(&self) {
        self.places.iter().for_each(|place| place.shown.publish(&place.seen));
    }

    /// Gives back what waits for programs.
    pub(crate) fn end(&mut self, pool: &mut FramePool) {
        for place in &mut self.places {
            place.seen[MISSED] += place.count as u64;
            place.waiting.iter_mut().flat_map(|of| of.drain(..)).for_each(|desc| pool.give(desc));
            place.count = 0;
        }
        self.publish();
    }
}

#[cfg(test)]
mod tests {
    use niclab_nic::memory::Region;
    use niclab_program::{Pipeline, Program};

    use super::*;
    use crate::applications::grant::OwnedOutputs;
    use crate::card::FRAME_LEN_MAX;
    use crate::program_instance::channel;
    use crate::transmit_queue::OWN;

    /// Says how many frames a program was given at once, and keeps them.
    #[derive(Default)]
    struct Bursts(Vec<usize>, Vec<Desc>);

    impl CoreServices for Bursts {
        fn classify(
            &mut self,
            _: usize,
            _: &mut ProgramInstance,
            _: &mut SteeringRings,
            _: usize,
            burst: &mut Burst,
        ) -> OverflowCounts {
            self.0.push(burst.len());
            self.1.extend(burst.drain(..));
            OverflowCounts::default()
        }

        fn serve(&mut self, _: usize, _: usize, _: &mut Burst) -> OverflowCounts {
            OverflowCounts::default()
        }
    }

    /// The first burst of a program, of as many frames as wait.
    fn first_burst(body: &str) -> usize {
        let text = format!(
            "struct large_t {{\n bit<32768> a\n}}\nheader large instanceof large_t\n\
             struct m_t {{\n bit<32> a\n}}\nmetadata instanceof m_t\nwindow w size 8192\n\
             apply {{\nrx m.a\n{body}drop\n}}\n"
        );
        let pipeline = Pipeline::new(Program::read(&text).unwrap()).unwrap();
        let instance = ProgramInstance::new(&pipeline, OwnedOutputs::all(8, 1));
        let (region, descs) = Region::new(100, FRAME_LEN_MAX).unwrap();
        let steered = SteeringRings::between(1, &region).remove(0);
        let (_to_core, program) = channel(Some(instance));
        let shown = Arc::default();
        let mut place = ApplicationContext::new(OWN + 1, program, steered, 1, TURN_NS, shown);
        place.count = descs.len();
        place.waiting[0].extend(descs);
        let mut core = Bursts::default();
        place.decide(&mut Clock::now(), &mut core);
        core.0[0]
    }

    #[test]
    fn the_work_of_few_instructions_over_many_bytes_makes_a_burst_short() {
        assert_eq!(first_burst(""), BURST);
        assert_eq!(first_burst(&"mov m.a 1\n".repeat(50)), BURST);
        // 33 us, 1.6 us, and 2.6 us.
        assert_eq!(first_burst(&"hash crc16 m.a h.large.a h.large.a\n".repeat(4)), 1);
        assert_eq!(first_burst(&"dma_read_at w 0 h.large\n".repeat(2)), 24);
        assert_eq!(first_burst("hash crc32 m.a h.large.a h.large.a\n"), 15);
        // Eight copies.
        assert_eq!(first_burst("multicast 1\n"), 29);
    }
}
