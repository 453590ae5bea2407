//! Two queues one behind the other, in virtual time: frames flow as a fluid, and only probes are
//! followed one by one.
//!
//! The FIFO in front of the classifier is filled at the rate of arrivals and emptied at that of the
//! classifier; what leaves it fills the receive ring, which the host's core empties, or does not
//! while it carries out operations on rules. Between two changes of a rate, and between two moments
//! at which a queue becomes empty or full, all counts are straight lines: only their ends are kept.

/// Rates between two changes, frames a nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub arrivals: f64,
    pub classifier: f64,
    pub host: f64,
}

/// Counts at a moment, frames since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PipeCounts {
    pub at_ns: f64,
    /// That arrived.
    pub arrived: f64,
    /// That found room in the FIFO.
    pub taken: f64,
    /// That left it.
    pub classified: f64,
    /// That found room in the ring.
    pub ringed: f64,
    /// That left it.
    pub done: f64,
}

impl PipeCounts {
    fn fifo(&self) -> f64 {
        self.taken - self.classified
    }

    fn ring(&self) -> f64 {
        self.ringed - self.done
    }

    /// Frames lost so far.
    pub fn lost(&self) -> f64 {
        self.arrived - self.taken + self.classified - self.ringed
    }

    /// Frames on their way.
    pub fn under_way(&self) -> f64 {
        self.fifo() + self.ring()
    }

    /// This one and what went another way by the same moment.
    pub fn and(&self, other: &PipeCounts) -> PipeCounts {
        PipeCounts {
            at_ns: self.at_ns,
            arrived: self.arrived + other.arrived,
            taken: self.taken + other.taken,
            classified: self.classified + other.classified,
            ringed: self.ringed + other.ringed,
            done: self.done + other.done,
        }
    }

    fn between(&self, next: &PipeCounts, at_ns: f64) -> PipeCounts {
        let length = next.at_ns - self.at_ns;
        let share =
            if length > 0.0 { ((at_ns - self.at_ns) / length).clamp(0.0, 1.0) } else { 1.0 };
        let mix = |a: f64, b: f64| a + (b - a) * share;
        PipeCounts {
            at_ns,
            arrived: mix(self.arrived, next.arrived),
            taken: mix(self.taken, next.taken),
            classified: mix(self.classified, next.classified),
            ringed: mix(self.ringed, next.ringed),
            done: mix(self.done, next.done),
        }
    }
}

/// The queues, and what went through them.
pub(super) struct Pipe {
    fifo: f64,
    ring: f64,
    now: PipeCounts,
    /// Ends of the straight lines, by time; the last is now.
    marks: Vec<PipeCounts>,
}

/// Less than this of a frame is none: queues become empty and full in numbers with a fraction.
const NOTHING: f64 = 1e-6;

impl Pipe {
    /// Empty queues of these lengths, frames, from `start_ns` on.
    pub fn new(fifo: f64, ring: f64, start_ns: f64) -> Pipe {
        let now = PipeCounts { at_ns: start_ns, ..PipeCounts::default() };
        Pipe { fifo, ring, now, marks: vec![now] }
    }

    /// The state now.
    pub fn now(&self) -> PipeCounts {
        self.now
    }

    /// Lets time pass at these rates.
    pub fn pass(&mut self, end_ns: f64, rates: &Rates) {
        while self.now.at_ns < end_ns {
            self.now = self.step(end_ns, rates);
            self.marks.push(self.now);
        }
    }

    /// Until the end or the first moment at which a queue becomes empty or full.
    fn step(&self, end_ns: f64, rates: &Rates) -> PipeCounts {
        let now = self.now;
        let (fifo, ring) = (now.fifo(), now.ring());
        let classified = match fifo > NOTHING {
            true => rates.classifier,
            false => rates.classifier.min(rates.arrivals),
        };
        let taken = match fifo >= self.fifo - NOTHING {
            true => rates.arrivals.min(classified),
            false => rates.arrivals,
        };
        let done = if ring > NOTHING { rates.host } else { rates.host.min(classified) };
        let ringed = if ring >= self.ring - NOTHING { classified.min(done) } else { classified };
        let until = |level: f64, room: f64, rate: f64| match rate {
            rate if rate > 0.0 => (room - level).max(0.0) / rate,
            rate if rate < 0.0 => level.max(0.0) / -rate,
            _ => f64::INFINITY,
        };
        let least =
            until(fifo, self.fifo, taken - classified).min(until(ring, self.ring, ringed - done));
        // At least a little, lest time should stand still at an edge.
        let length = least.max(1e-3).min(end_ns - now.at_ns);
        PipeCounts {
            at_ns: if length >= end_ns - now.at_ns { end_ns } else { now.at_ns + length },
            arrived: now.arrived + rates.arrivals * length,
            taken: now.taken + taken * length,
            classified: now.classified + classified * length,
            ringed: now.ringed + ringed * length,
            done: now.done + done * length,
        }
    }

    /// Lets what is under way come out.
    pub fn drain(&mut self, rates: &Rates) {
        let rates = Rates { arrivals: 0.0, ..*rates };
        let rate = rates.classifier.min(rates.host);
        while self.now.under_way() > 0.01 && rate > 0.0 {
            let end_ns = self.now.at_ns + self.now.under_way() / rate + 1.0;
            self.pass(end_ns, &rates);
        }
    }

    /// Counts at moments in ascending order.
    pub fn at(&self, moments: impl IntoIterator<Item = f64>) -> Vec<PipeCounts> {
        let mut place = 0;
        let look = |at_ns: f64| {
            while place + 2 < self.marks.len() && self.marks[place + 1].at_ns < at_ns {
                place += 1;
            }
            match self.marks.get(place + 1) {
                Some(next) => self.marks[place].between(next, at_ns),
                None => self.marks[place],
            }
        };
        moments.into_iter().map(look).collect()
    }

    /// When frames come out that arrive at these moments, in ascending order. `None` for what is
    /// lost: where only a share finds room, `lot` of 0 to 1 decides.
    pub fn out_ns(&self, probes: &[(f64, f64)]) -> Vec<Option<f64>> {
        let (mut first, mut second, mut third) = (0, 0, 0);
        let follow = |(at_ns, lot): &(f64, f64)| {
            while first + 2 < self.marks.len() && self.marks[first + 1].at_ns < *at_ns {
                first += 1;
            }
            let (from, to) = (&self.marks[first], self.marks.get(first + 1)?);
            let share =
                (to.taken - from.taken) / (to.arrived - from.arrived).max(f64::MIN_POSITIVE);
            if *lot > share {
                return None;
            }
            let taken = from.between(to, *at_ns).taken;
            let (at, left_ns) = self.reaches(second, taken, |mark| mark.classified)?;
            second = at;
            let (from, to) = (&self.marks[at], &self.marks[at + 1]);
            let passed = to.classified - from.classified;
            let through = (to.ringed - from.ringed) / passed.max(f64::MIN_POSITIVE);
            if passed > 0.0 && *lot > share * through {
                return None;
            }
            let ringed = from.between(to, left_ns).ringed;
            let (at, out_ns) = self.reaches(third, ringed, |mark| mark.done)?;
            third = at;
            Some(out_ns.max(left_ns).max(*at_ns))
        };
        probes.iter().map(follow).collect()
    }

    /// When a count reaches a level, from a mark on.
    fn reaches(&self, from: usize, level: f64, of: fn(&PipeCounts) -> f64) -> Option<(usize, f64)> {
        let mut at = from;
        while of(self.marks.get(at + 1)?) < level - NOTHING && at + 2 < self.marks.len() {
            at += 1;
        }
        let (a, b) = (&self.marks[at], &self.marks[at + 1]);
        if of(b) < level - 0.1 {
            return None;
        }
        let length = of(b) - of(a);
        let share = if length > 0.0 { ((level - of(a)) / length).clamp(0.0, 1.0) } else { 0.0 };
        Some((at, a.at_ns + (b.at_ns - a.at_ns) * share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Rates = Rates { arrivals: 0.01, classifier: 0.02, host: 0.04 };

    #[test]
    fn arriving_frames_leave_or_are_lost() {
        let mut pipe = Pipe::new(100.0, 50.0, 0.0);
        pipe.pass(1e5, &BUSY);
        // The host stands still: the ring fills up, and what goes on arriving is lost.
        pipe.pass(2e5, &Rates { host: 0.0, ..BUSY });
        // The classifier is too slow: the FIFO fills up.
        pipe.pass(3e5, &Rates { classifier: 0.005, ..BUSY });
        pipe.drain(&BUSY);
        let end = pipe.now();
        assert!((end.arrived - 3_000.0).abs() < 1e-6, "{end:?}");
        // 1000 less the ring, 500 less the FIFO.
        assert!((end.lost() - (950.0 + 400.0)).abs() < 1.0, "{end:?}");
        assert!((end.done + end.lost() - end.arrived).abs() < 0.1, "{end:?}");
    }

    #[test]
    fn a_probe_waits_as_long_as_the_queues_in_front_of_it_take() {
        let mut pipe = Pipe::new(100.0, 50.0, 0.0);
        pipe.pass(1e6, &Rates { classifier: 0.005, ..BUSY });
        pipe.drain(&BUSY);
        // A full FIFO of 100 frames at one in 200 ns; half of the frames find room.
        let out = pipe.out_ns(&[(5e5, 0.4), (6e5, 0.6)]);
        assert!((out[0].unwrap() - 5e5 - 20_000.0).abs() < 300.0, "{out:?}");
        assert_eq!(out[1], None);
    }

    #[test]
    fn a_probe_that_meets_a_standing_host_waits_until_it_goes_on() {
        let mut pipe = Pipe::new(100.0, 1e6, 0.0);
        pipe.pass(1e5, &BUSY);
        pipe.pass(2e5, &Rates { host: 0.0, ..BUSY });
        pipe.pass(4e5, &BUSY);
        pipe.drain(&BUSY);
        let out = pipe.out_ns(&[(1.5e5, 0.5)]);
        // 500 frames in front of it, which the host deals with in 12.5 us.
        assert!((out[0].unwrap() - 212_500.0).abs() < 100.0, "{out:?}");
    }
}
