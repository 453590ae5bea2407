//! Samples gathered by what they measured: one cell holds the repeats of one trial at one point.

use niclab_device::Latency;
use niclab_result::{Coordinate, Latencies, Mark, Mean, Outcome, Point, Sample};
use serde::Deserialize;

use crate::experiments;
use crate::measure::DEVICE_TIME;
use crate::statistics::{self, Ends, Estimate};

/// How much a median may hang on repeats that show the generator's limit, or stalls.
const LIMIT_SHIFT_MAX: f64 = 0.05;

/// Longest stalls of the device's core, by the time it was seen to work, with which that time is
/// trusted: a frame's time is at most a fifth too short.
const STALLED_RATIO_MAX: f64 = 0.25;

/// The repeats of one trial at one point of one device, in the order of measurement.
#[derive(Debug)]
pub struct Cell<'a> {
    /// Device.
    pub device: &'a str,
    /// Trial.
    pub trial: &'a str,
    /// The point of the sweep.
    pub point: &'a Point,
    /// The repeats.
    pub samples: Vec<&'a Sample>,
}

impl<'a> Cell<'a> {
    /// Takes in one more sample: of two of one repeat the later one counts.
    fn take(&mut self, sample: &'a Sample) {
        match self.samples.iter_mut().find(|taken| taken.repeat == sample.repeat) {
            Some(taken) => *taken = sample,
            None => self.samples.push(sample),
        }
    }
}

/// All cells of an experiment.
#[derive(Debug, Default)]
pub struct Cells<'a> {
    cells: Vec<Cell<'a>>,
}

impl<'a> Cells<'a> {
    /// Gathers the samples of `experiment` that measured something.
    pub fn new(experiment: &str, samples: &'a [Sample]) -> Cells<'a> {
        let mut cells: Vec<Cell<'a>> = Vec::new();
        let measured = samples.iter().filter(|s| s.experiment == experiment && is_measured(s));
        for sample in measured {
            let same = |c: &Cell<'_>| {
                c.device == sample.device && c.trial == sample.trial && *c.point == sample.point
            };
            match cells.iter_mut().find(|cell| same(cell)) {
                Some(cell) => cell.take(sample),
                None => cells.push(Cell {
                    device: &sample.device,
                    trial: &sample.trial,
                    point: &sample.point,
                    samples: vec![sample],
                }),
            }
        }
        for cell in &mut cells {
            cell.samples.sort_by_key(|sample| sample.order);
        }
        Cells { cells }
    }

    /// The cells of `trial` on `device`.
    pub fn of(&self, device: &str, trial: &str) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.device == device && cell.trial == trial)
    }

    /// The cell of another mode with the same words on the axes of `place`.
    pub fn in_mode(&self, cell: &Cell<'_>, place: &[&str], mode: &str) -> Option<&Cell<'a>> {
        let is_same = |other: &&Cell<'_>| place.iter().all(|at| other.word(at) == cell.word(at));
        let mut all = self.of(cell.device, cell.trial).filter(is_same);
        all.find(|other| other.word("mode") == mode)
    }

    /// Those whose counters add up in every repeat: of others nothing follows.
    pub fn balanced(mut self) -> Cells<'a> {
        self.cells.retain(|cell| !cell.is_unbalanced());
        self
    }

    /// All cells.
    pub fn all(&self) -> &[Cell<'a>] {
        &self.cells
    }
}

/// `true` for a sample with figures, be it that some rules were refused.
fn is_measured(sample: &Sample) -> bool {
    matches!(sample.outcome, Outcome::Measured | Outcome::Refused { .. })
}

/// A metric of a sample. The device's time is none where its core was watched to work little and to
/// stall much: turns that take longer than a stall is long are taken for stalls, and what was seen
/// of the work is too little.
fn value(sample: &Sample, metric: &str) -> Option<f64> {
    let of = |pointer| sample.honesty.pointer(pointer).and_then(serde_json::Value::as_f64);
    let (busy_ns, stalled_ns) = (of("/device_busy_ns"), of("/device_stalls/total_ns"));
    let is_unseen =
        busy_ns.zip(stalled_ns).is_some_and(|(busy, stalled)| stalled > busy * STALLED_RATIO_MAX);
    let quantity = sample.metrics.get(metric).filter(|_| metric != DEVICE_TIME || !is_unseen);
    quantity.map(|quantity| quantity.value)
}

/// How a metric of one cell stands to that of another, pair by pair of repeats; `None` without a
/// pair.
pub fn paired(with: &Cell<'_>, without: &Cell<'_>, metric: &str) -> Option<Estimate> {
    let (with, without) = with.paired(without, metric);
    statistics::paired_ratio(&with, &without)
}

impl Cell<'_> {
    /// The number at `axis`; `None` for a word, and where there is none.
    pub fn number(&self, axis: &str) -> Option<f64> {
        match self.point.get(axis)? {
            Coordinate::Number(number) => Some(*number),
            Coordinate::Word(_) => None,
        }
    }

    /// The text at `axis`, a number as it is typed; empty where there is none.
    pub fn word(&self, axis: &str) -> String {
        self.point.get(axis).map(Coordinate::to_string).unwrap_or_default()
    }

    /// `true` where the cell stands at all these numbers.
    pub fn is_at(&self, place: &[(&str, f64)]) -> bool {
        place.iter().all(|(axis, number)| self.number(axis) == Some(*number))
    }

    /// The values of a metric, in the order of measurement.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| value(sample, metric)).collect()
    }

    /// Median of a metric and where it lies.
    pub fn estimate(&self, metric: &str) -> Option<Estimate> {
        statistics::estimate(&self.values(metric))
    }

    /// The warnings of the samples, and what the repeats of `metric` show.
    pub fn marks(&self, metric: &str) -> Vec<Mark> {
        let mut marks: Vec<Mark> =
            self.samples.iter().flat_map(|sample| sample.marks.iter().copied()).collect();
        let values = self.values(metric);
        let of_few = [Mark::Disturbed, Mark::GeneratorLimited, Mark::MachineDrift];
        marks.retain(|mark| !of_few.contains(mark));
        let known = experiments::trial(self.trial).and_then(|of| of.metric(metric));
        let of_load = known.is_none_or(|known| known.hangs_on_load);
        let shapes = [
            (Mark::Disturbed, of_load && self.is_disturbed()),
            (Mark::GeneratorLimited, of_load && self.is_generator_limited()),
            (Mark::MachineDrift, self.has_half(Mark::MachineDrift)),
            (Mark::FewSamples, (1..statistics::INTERVAL_REPEATS_MIN).contains(&values.len())),
            (Mark::Bimodal, statistics::is_bimodal(&values)),
            (Mark::Drift, statistics::drifts(&values)),
        ];
        marks.extend(shapes.iter().filter(|(_, observed)| *observed).map(|(mark, _)| *mark));
        marks.sort();
        marks.dedup();
        marks
    }

    /// `true` where the generator may have set the median.
    pub fn is_generator_limited(&self) -> bool {
        self.hangs_on(Mark::GeneratorLimited)
    }

    /// `true` where counters of a repeat do not add up.
    pub fn is_unbalanced(&self) -> bool {
        self.samples.iter().any(|sample| sample.marks.contains(&Mark::Unbalanced))
    }

    /// `true` where the device refused some of the rules of its set-up: it is not what the point
    /// says.
    pub fn is_refused(&self) -> bool {
        self.samples.iter().any(|sample| matches!(sample.outcome, Outcome::Refused { .. }))
    }

    /// `true` where stalls of the machine may have set the median.
    pub fn is_disturbed(&self) -> bool {
        self.hangs_on(Mark::Disturbed)
    }

    /// `true` where repeats with this mark may have set the median.
    ///
    /// A throughput that generator or stalls limited is a lower bound: where the median would rise
    /// by more than [`LIMIT_SHIFT_MAX`] were such repeats as high as could be, it hangs on them.
    /// A latency at a rate that was not kept is no bound of anything: half of them are too many.
    fn hangs_on(&self, mark: Mark) -> bool {
        let is_limited = |s: &Sample| s.marks.contains(&mark);
        if !self.is_throughput() {
            return self.has_half(mark);
        }
        let metric = |s: &Sample| s.metrics.get("throughput_pps").map(|q| q.value);
        let raised = self.samples.iter().filter_map(|sample| {
            let value = metric(sample)?;
            Some(if is_limited(sample) { f64::INFINITY } else { value })
        });
        let raised = statistics::median(&raised.collect::<Vec<f64>>());
        let plain = statistics::median(&self.values("throughput_pps"));
        let is_shifted = |(raised, plain)| raised > plain * (1.0 + LIMIT_SHIFT_MAX);
        raised.zip(plain).is_some_and(is_shifted)
    }

    /// `true` where half of the repeats or more have this mark.
    fn has_half(&self, mark: Mark) -> bool {
        let marked = self.samples.iter().filter(|sample| sample.marks.contains(&mark)).count();
        marked > 0 && 2 * marked >= self.samples.len()
    }

    /// Made to measure throughput, at full load or beside operations; not latency, and no search.
    fn is_throughput(&self) -> bool {
        experiments::trial(self.trial).is_none_or(|of| of.is_throughput)
    }

    /// A point of a curve: the median of `metric` times `scale`, at `x`.
    pub fn mean(&self, metric: &str, scale: f64, x: f64) -> Option<Mean> {
        let estimate = self.estimate(metric)?.scaled(scale);
        // One repeat lies nowhere but at its value.
        let ends = Some(estimate).filter(|estimate| estimate.repeats > 1);
        Some(Mean {
            x,
            y: estimate.median,
            low: ends.map(|estimate| estimate.low),
            high: ends.map(|estimate| estimate.high),
            repeats: estimate.repeats as u32,
            marks: self.marks(metric),
            ..Mean::default()
        })
    }

    /// All latencies of the repeats in one histogram; `None` where there are none.
    pub fn latency(&self, latencies: &Latencies) -> Option<Latency> {
        let tags = self.samples.iter().filter_map(|sample| sample.latency_tag.as_ref());
        let found: Vec<Latency> =
            tags.filter_map(|tag| latencies.histogram(tag).map(Latency)).collect();
        merged(&found)
    }

    /// The call times of the repeats in one histogram, those at `pointer` in what the control side
    /// did (`/calls`); `None` where nobody timed any.
    pub fn calls(&self, pointer: &str) -> Option<Latency> {
        let of = |sample: &&Sample| Latency::deserialize(sample.control.pointer(pointer)?).ok();
        let found: Vec<Latency> = self.samples.iter().filter_map(of).collect();
        merged(&found)
    }

    /// A box: quartiles of the merged latencies, the interval of the medians of the repeats.
    pub fn latency_box(&self, latencies: &Latencies, scale: f64, x: f64) -> Option<Mean> {
        let merged = self.latency(latencies)?;
        let at = |quantile| merged.0.value_at_quantile(quantile) as f64 * scale;
        let medians = self.estimate("latency_ns_p50")?.scaled(scale);
        let interval = (medians.ends == Ends::Interval).then_some(medians);
        Some(Mean {
            x,
            y: at(0.5),
            low: interval.map(|i| i.low),
            high: interval.map(|i| i.high),
            quartiles: Some([at(0.01), at(0.25), at(0.75), at(0.99)]),
            repeats: medians.repeats as u32,
            marks: self.marks("latency_ns_p50"),
            ..Mean::default()
        })
    }

    /// `metric` here and in `base`, of the repeats that have it in both.
    pub fn paired(&self, base: &Cell<'_>, metric: &str) -> (Vec<f64>, Vec<f64>) {
        self.pairs(base, metric).into_iter().map(|(_, here, there)| (here, there)).unzip()
    }

    /// The repeats that have `metric` here and in `base`, with both values.
    pub fn pairs(&self, base: &Cell<'_>, metric: &str) -> Vec<(u32, f64, f64)> {
        let pairs = self.samples.iter().filter_map(|sample| {
            let other = base.samples.iter().find(|other| other.repeat == sample.repeat)?;
            Some((sample.repeat, value(sample, metric)?, value(other, metric)?))
        });
        pairs.collect()
    }
}

/// All of these in one; `None` where they have nothing to tell.
fn merged(found: &[Latency]) -> Option<Latency> {
    Some(statistics::merged(found)).filter(|all| !all.0.is_empty())
}

#[cfg(test)]
mod tests {
    use niclab_result::Quantity;

    use super::*;
    use crate::simulated::{Bench, Nature};

    /// Whether a point is limited whose repeats have these throughputs, `true` where limited.
    fn check(trial: &str, repeats: &[(f64, bool)], expected: bool) {
        check_mark(Mark::GeneratorLimited, trial, repeats, expected);
        check_mark(Mark::Disturbed, trial, repeats, expected);
    }

    fn check_mark(mark: Mark, trial: &str, repeats: &[(f64, bool)], expected: bool) {
        let mut bench = Bench::new(vec![Nature::default()], &["groups=0", "rules=0"], 1);
        bench.execute();
        let of = |(repeat, (value, limited)): (usize, &(f64, bool))| {
            let mut sample = bench.store.samples[0].clone();
            sample.trial = trial.into();
            sample.repeat = repeat as u32;
            let quantity = Quantity { value: *value, unit: "pps".into() };
            sample.metrics.insert("throughput_pps".into(), quantity);
            sample.marks = if *limited { vec![mark] } else { Vec::new() };
            sample
        };
        let samples: Vec<Sample> = repeats.iter().enumerate().map(of).collect();
        let cells = Cells::new("occupancy", &samples);
        let cell = &cells.all()[0];
        let is_marked = cell.marks("throughput_pps").contains(&mark);
        assert_eq!(is_marked, expected, "{mark}, {trial}: {repeats:?}");
        assert!(!cell.marks(DEVICE_TIME).contains(&mark), "{mark}: the device's own time");
    }

    #[test]
    fn the_later_of_two_samples_of_one_repeat_counts() {
        let mut bench = Bench::new(vec![Nature::default()], &["groups=0", "rules=0"], 2);
        bench.execute();
        let mut samples = bench.store.samples.clone();
        let counted = |samples: &[Sample]| -> usize {
            Cells::new("occupancy", samples).all().iter().map(|cell| cell.samples.len()).sum()
        };
        let before = counted(&samples);
        let mut again = samples[0].clone();
        again.time_unix_ns += 1;
        samples.push(again.clone());
        assert_eq!(counted(&samples), before);
        let cells = Cells::new("occupancy", &samples);
        let times =
            |cell: &Cell<'_>| cell.samples.iter().any(|s| s.time_unix_ns == again.time_unix_ns);
        assert!(cells.all().iter().any(times), "the earlier one counts");
    }

    #[test]
    fn work_that_was_taken_for_stalls_tells_no_time_of_the_device() {
        let nature = Nature { tells_idle: true, ..Nature::default() };
        let mut bench = Bench::new(vec![nature], &["groups=0", "rules=0"], 1);
        bench.execute();
        let mut check = |busy_ns: u64, stalled_ns: u64, tells: bool| {
            let sample = bench.store.samples.iter_mut().find(|s| s.trial == "saturate").unwrap();
            sample.honesty["device_busy_ns"] = busy_ns.into();
            sample.honesty["device_stalls"] = serde_json::json!({ "total_ns": stalled_ns });
            let reported = value(sample, DEVICE_TIME).is_some();
            assert_eq!(reported, tells, "{busy_ns} ns of work, {stalled_ns} ns of stalls");
            assert!(value(sample, "throughput_pps").is_some(), "it is of the device alone");
        };
        check(190_000_000, 0, true);
        check(190_000_000, 19_000_000, true);
        check(170_000_000, 50_000_000, false);
        check(0, 220_000_000, false);
    }

    #[test]
    fn a_median_that_hangs_on_the_generator_is_limited_and_no_other() {
        let calm = [(10.0, false), (10.1, false), (10.2, false), (10.3, false), (10.2, false)];
        let with = |more: &[(f64, bool)]| [&calm[..], more].concat();
        check("saturate", &calm, false);
        check("saturate", &with(&[(5.0, true)]), false);
        check("saturate", &with(&[(10.3, true)]), false);
        check("saturate", &with(&[(5.0, true); 4]), false);
        check("saturate", &with(&[(5.0, true); 5]), true);
        check("saturate", &[(10.0, true)], true);
        check("saturate", &[(10.0, false), (20.0, false), (9.0, true)], true);
        check("latency", &with(&[(5.0, true); 2]), false);
        check("latency", &with(&[(5.0, true); 5]), true);
    }
}
