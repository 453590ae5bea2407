//! The generator: which frames are due, which of them leave, which find no room.

use niclab_packet::size::FCS_LEN;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::histogram::Latency;
use crate::observation::QueueCounters;
use crate::rings::{BURST, Outlet};
use crate::sink::CountedInterval;
use crate::spec::{Arrivals, Load, Rate};
use crate::tape::Tape;

/// When frames are due: frame k at the sum of the first k gaps.
pub struct Schedule {
    /// Due time of the next frame, nanoseconds with 20 bits behind the point (2^44 ns: 4.8 hours).
    next: u64,
    /// Mean gap, in the same form.
    gap: u64,
    /// A stretch of another one: its beginning and its end in the same form, and the gap.
    step: Option<(u64, u64, u64)>,
    /// Source of exponential gaps.
    random: Option<Xoshiro256PlusPlus>,
}

/// Bits behind the point of a schedule's times.
const POINT: u32 = 20;

impl Schedule {
    /// A schedule of `rate_pps` frames a second, from 1 a minute to 10^9.
    pub fn new(rate_pps: f64, arrivals: Arrivals, seed: u64) -> Schedule {
        let gap = gap(rate_pps);
        let random = match arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson => Some(Xoshiro256PlusPlus::seed_from_u64(seed)),
        };
        Schedule { next: 0, gap, step: None, random }
    }

    /// The same, but for another rate from `from_ns` to `until_ns`.
    pub fn with_step(self, (from_ns, until_ns): (u64, u64), rate_pps: f64) -> Schedule {
        let step = Some((from_ns << POINT, until_ns << POINT, gap(rate_pps)));
        Schedule { step, ..self }
    }

    /// When the next frame is due.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        self.next >> POINT
    }

    /// Goes on to the frame after it.
    #[inline]
    pub fn step(&mut self) {
        let mean = match self.step {
            Some((from, until, gap)) if (from..until).contains(&self.next) => gap,
            _ => self.gap,
        };
        self.next += match &mut self.random {
            None => mean,
            Some(random) => {
                let gap: f64 = Exp1.sample(random);
                (gap * mean as f64) as u64
            }
        };
    }

    /// Passes over the frames that were due before `limit_ns`; says how many.
    fn pass(&mut self, limit_ns: u64) -> u64 {
        let mut passed = 0;
        while self.due_ns() < limit_ns {
            self.step();
            passed += 1;
        }
        passed
    }
}

/// Mean gap of so many frames a second, as a schedule has it.
fn gap(rate_pps: f64) -> u64 {
    (1e9 * f64::from(1 << POINT) / rate_pps) as u64
}

/// The outcome of the frames that were due in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Left, or found the device's ring full.
    pub offered: u64,
    /// Found the device's ring full.
    pub missed: u64,
    /// Not offered in their slot.
    pub unsent: u64,
    /// Bytes of the offered, with FCS.
    pub offered_bytes: u64,
}

/// Offers frames at their planned times.
pub struct Generator<T> {
    tape: T,
    schedule: Option<Schedule>,
    counted: CountedInterval,
    /// A frame that is later than this is not offered any more: as long as the ring would have
    /// covered.
    late_ns_max: u64,
    /// Frames bear their due time and no lateness, whenever they are written.
    is_on_time: bool,
    /// Frames and bytes offered in the whole trial, warm-up and frames that found the ring full
    /// included.
    pub counters: QueueCounters,
    /// Frames of the whole trial that found the ring full.
    pub missed_all: u64,
    /// Lateness of the first frame of each burst.
    pub departure_error: Latency,
    /// Turns in which frames were too late to be offered.
    pub deadlines_missed: u64,
    lens: [u16; BURST],
}

impl<T: Tape> Generator<T> {
    /// A generator for `load`; `depth` is the number of frames the device's ring holds.
    pub fn new(load: &Load, tape: T, counted: CountedInterval, depth: u32) -> Generator<T> {
        let covered_ns = |pps: f64| (f64::from(depth) * 1e9 / pps) as u64;
        let schedule = |pps| Schedule::new(pps, load.arrivals, load.seed);
        let (schedule, late_ns_max) = match load.rate {
            Rate::Saturate => (None, u64::MAX),
            Rate::Pps(pps) => (Some(schedule(pps)), covered_ns(pps)),
            Rate::Step { low_pps, high_pps, from_ns, until_ns } => {
                let part = (load.warmup_ns + from_ns, load.warmup_ns + until_ns);
                let schedule = schedule(low_pps).with_step(part, high_pps);
                (Some(schedule), covered_ns(low_pps.max(high_pps)))
            }
        };
        Generator {
            tape,
            schedule,
            counted,
            late_ns_max,
            is_on_time: false,
            counters: QueueCounters::default(),
            missed_all: 0,
            departure_error: Latency::new(),
            deadlines_missed: 0,
            lens: [0; BURST],
        }
    }

    /// A generator whose frames come by the clock: none is ever late, and what is due is written or
    /// missed whenever the device looks.
    pub fn on_time(load: &Load, tape: T, counted: CountedInterval) -> Generator<T> {
        let generator = Generator::new(load, tape, counted, 0);
        Generator { late_ns_max: u64::MAX, is_on_time: true, ..generator }
    }

    /// How long a stall the ring covers, nanoseconds; `u64::MAX` under saturation, where no frame
    /// has a time of its own.
    pub fn covered_ns(&self) -> u64 {
        self.late_ns_max
    }

    /// Offers what is due at `now_ns`; returns what became of the counted ones.
    #[inline]
    pub fn turn(&mut self, outlet: &mut impl Outlet, now_ns: u64) -> Tally {
        match self.schedule {
            None => self.fill(outlet, now_ns),
            Some(_) => self.follow(outlet, now_ns),
        }
    }

    /// Saturation: a burst, as far as there is room. A frame is planned when it leaves.
    #[inline]
    fn fill(&mut self, outlet: &mut impl Outlet, now_ns: u64) -> Tally {
        let mut tally = Tally::default();
        if now_ns >= self.counted.to_ns {
            return tally;
        }
        let room = outlet.reserve(BURST);
        for i in 0..room {
            self.lens[i] = self.tape.write(outlet.slot(i), now_ns, 0);
        }
        let (bytes, refused) = self.commit(outlet, room);
        if self.counted.holds(now_ns) {
            tally =
                Tally { offered: room as u64, missed: refused, unsent: 0, offered_bytes: bytes };
        }
        tally
    }

    /// Open loop: every frame that is due, in bursts, until none is due or the ring is full.
    fn follow(&mut self, outlet: &mut impl Outlet, now_ns: u64) -> Tally {
        let Some(mut schedule) = self.schedule.take() else { return Tally::default() };
        let mut tally = Tally::default();
        let end_ns = now_ns.min(self.counted.to_ns - 1);
        self.give_up_late(&mut schedule, end_ns, &mut tally);
        while schedule.due_ns() <= end_ns {
            let room = outlet.reserve(BURST);
            if room == 0 {
                self.miss(&mut schedule, end_ns, &mut tally);
                break;
            }
            self.burst(outlet, room, &mut schedule, now_ns, end_ns, &mut tally);
        }
        self.schedule = Some(schedule);
        tally
    }

    /// Frames that were due longer ago than the ring covers are the generator's loss.
    fn give_up_late(&mut self, schedule: &mut Schedule, end_ns: u64, tally: &mut Tally) {
        let limit_ns = end_ns.saturating_sub(self.late_ns_max);
        if schedule.due_ns() >= limit_ns {
            return;
        }
        let warm = schedule.pass(limit_ns.min(self.counted.from_ns));
        let unsent = schedule.pass(limit_ns);
        self.tape.skip(warm + unsent);
        self.deadlines_missed += u64::from(unsent > 0);
        tally.unsent += unsent;
    }

    /// Frames that are due and find the ring full are the device's loss.
    fn miss(&mut self, schedule: &mut Schedule, end_ns: u64, tally: &mut Tally) {
        let warm = schedule.pass((end_ns + 1).min(self.counted.from_ns));
        let missed = schedule.pass(end_ns + 1);
        let bytes = self.tape.skip(missed);
        self.counters.tx_bytes += bytes + self.tape.skip(warm);
        self.counters.tx_frames += warm + missed;
        self.missed_all += warm + missed;
        tally.offered_bytes += bytes;
        tally.offered += missed;
        tally.missed += missed;
    }

    /// At most `room` due frames.
    #[inline]
    fn burst(
        &mut self,
        outlet: &mut impl Outlet,
        room: usize,
        schedule: &mut Schedule,
        now_ns: u64,
        end_ns: u64,
        tally: &mut Tally,
    ) {
        let first_late_ns = now_ns - schedule.due_ns();
        let first_counts = self.counted.holds(schedule.due_ns());
        let mut count = 0;
        while count < room {
            let due_ns = schedule.due_ns();
            if due_ns > end_ns {
                break;
            }
            schedule.step();
            let late_ns = if self.is_on_time { 0 } else { now_ns - due_ns };
            let len = self.tape.write(outlet.slot(count), due_ns, late_ns);
            self.lens[count] = len;
            count += 1;
            if self.counted.holds(due_ns) {
                tally.offered += 1;
                tally.offered_bytes += u64::from(len + FCS_LEN);
            }
        }
        if first_counts && !self.is_on_time {
            self.departure_error.record(first_late_ns);
        }
        let (_, refused) = self.commit(outlet, count);
        tally.missed += if first_counts { refused } else { 0 };
    }

    /// Sends the first `count` slots; returns their bytes with FCS and how many found no room.
    #[inline]
    fn commit(&mut self, outlet: &mut impl Outlet, count: usize) -> (u64, u64) {
        let lens = &self.lens[..count];
        let refused = (count - outlet.commit(lens)) as u64;
        let bytes: u64 = lens.iter().map(|&len| u64::from(len + FCS_LEN)).sum();
        self.counters.tx_frames += count as u64;
        self.counters.tx_bytes += bytes;
        self.missed_all += refused;
        (bytes, refused)
    }
}
