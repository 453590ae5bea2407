//! What the data of `frame-size` show, before it is worded or drawn.

use super::metrics::{EARLY_MISSED, IDLE, RING_MISSED};
use crate::cells::Cell;
use crate::mlr::Regularity;
use crate::summary::Results;
use crate::summary::queues::number;
use crate::summary::throughput::{FoundGoal, FoundThroughput, found};
use crate::wire::{mean_len, wire_ns};
use crate::words;

/// From this share of a port's line rate on the port is full.
const PORT_FULL_MIN: f64 = 0.99;

/// More lost than this share is no burst that a ring had no room for.
const MISSED_MIN: f64 = 0.02;

/// A core that is idle for no more than this share of its time is busy.
const BUSY_MAX: f64 = 0.05;

/// One that is idle for more than this share could do more.
const FREE_MIN: f64 = 0.2;

/// A frame that takes no more than so many times what another takes, takes as long.
const SAME_TIME_MAX: f64 = 1.05;

/// What saturating frames of one length show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SaturatedLength {
    /// Mean length, bytes with FCS.
    pub frame_len: f64,
    /// Frames a second.
    pub pps: f64,
    /// The generator set it.
    pub is_generator_limited: bool,
    /// Lower end of `RING_MISSED`, 0 where nobody counts.
    pub ring_missed: f64,
    /// Lower end of `EARLY_MISSED`, 0 where nobody counts.
    pub early_missed: f64,
    /// Both ends of `IDLE`, where it is known.
    pub idle: Option<(f64, f64)>,
}

impl SaturatedLength {
    /// Frames found the ring of their queue full.
    pub fn is_ring_full(&self) -> bool {
        self.ring_missed > MISSED_MIN
    }

    /// The device's core had hardly a moment to spare.
    pub fn is_busy(&self) -> bool {
        self.idle.is_some_and(|(_, high)| high <= BUSY_MAX)
    }
}

/// The part of a device that keeps it from more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bottleneck {
    /// The wire is full.
    Port,
    /// What the card deals with a second, however long frames are.
    FrameRate,
    /// What takes longer the longer a frame is: a bus, or whoever touches every byte.
    Bytes,
    /// The cores that poll the queues.
    Cores,
    /// None of it: the generator has no more.
    Generator,
}

/// Which part binds at each of these, in their order: by rising length. `None` where nothing tells.
///
/// Frames go through one part behind the other, so the last one that they are lost in front of
/// binds.
pub(crate) fn binding(
    shown: &[SaturatedLength],
    port_gbps: Option<f64>,
) -> Vec<Option<Bottleneck>> {
    let mut least_ns = f64::INFINITY;
    let mut parts = Vec::new();
    for of in shown {
        let takes_ns = 1e9 / of.pps;
        least_ns = least_ns.min(takes_ns);
        let is_full = |gbps: f64| of.pps * wire_ns(of.frame_len, gbps) >= PORT_FULL_MIN * 1e9;
        let may_idle = of.idle.is_none_or(|(low, _)| low > FREE_MIN);
        parts.push(match () {
            _ if port_gbps.is_some_and(is_full) => Some(Bottleneck::Port),
            _ if of.is_generator_limited => Some(Bottleneck::Generator),
            _ if of.is_ring_full() || of.is_busy() => Some(Bottleneck::Cores),
            _ if of.early_missed > MISSED_MIN && may_idle => {
                let is_same = takes_ns <= SAME_TIME_MAX * least_ns;
                Some(if is_same { Bottleneck::FrameRate } else { Bottleneck::Bytes })
            }
            _ => None,
        });
    }
    parts
}

/// The shortest frames, bytes with FCS, that fill a port of so many Gbps, by the rates at which a
/// device forwards frames of rising lengths. Between two lengths the time of a frame is a straight
/// line. `None` where no length fills it.
///
/// Where a port of the device itself is full a frame may take less than it seems to: `own_gbps`
/// says so, and the time of the longest frames in front of these stands for theirs.
pub(crate) fn filled_from(rates: &[(f64, f64)], gbps: f64, own_gbps: Option<f64>) -> Option<f64> {
    let mut last: Option<(f64, f64)> = None;
    for (bytes, pps) in rates.iter().filter(|(_, pps)| *pps > 0.0) {
        let wire = wire_ns(*bytes, gbps);
        let is_full = |own: f64| pps * wire_ns(*bytes, own) >= PORT_FULL_MIN * 1e9;
        let own_ns = 1e9 / pps;
        let takes_ns = match last {
            Some((_, before_ns)) if own_gbps.is_some_and(is_full) => own_ns.min(before_ns),
            _ if own_gbps.is_some_and(is_full) => own_ns * PORT_FULL_MIN,
            _ => own_ns,
        };
        if takes_ns <= wire {
            // The wire's time rises faster than the device's: they meet in between.
            return Some(match last {
                None => *bytes,
                Some((from, before_ns)) => {
                    let gap_ns = before_ns - wire_ns(from, gbps);
                    let ahead_ns = wire - takes_ns;
                    from + (bytes - from) * gap_ns / (gap_ns + ahead_ns)
                }
            });
        }
        last = Some((*bytes, takes_ns));
    }
    None
}

/// Speeds of ports that are spoken of where a device has none, Gbps.
pub(crate) const PORTS_GBPS: [f64; 4] = [10.0, 25.0, 40.0, 100.0];

/// The frame sizes of one device, by the same queues on the same cores and of as many flows.
pub(crate) struct Sized<'a> {
    pub device: &'a str,
    /// By rising mean length.
    pub sizes: Vec<Size<'a>>,
    /// Which part binds at each.
    pub parts: Vec<Option<Bottleneck>>,
    /// Line rate of a port.
    pub port_gbps: Option<f64>,
}

/// What was measured of a frame size.
pub(crate) struct Size<'a> {
    /// Saturating trials.
    pub cell: &'a Cell<'a>,
    pub shown: SaturatedLength,
    pub search: Option<FoundThroughput<'a>>,
}

impl Size<'_> {
    /// The goal that allows most loss, where it was found and does not contradict the saturating
    /// load: the headline.
    pub fn headline(&self) -> Option<FoundGoal<'_>> {
        let search = self.search.as_ref()?;
        let goals = search.goals();
        let goals = goals.filter(|goal| goal.found.regularity != Regularity::Stopped);
        let goals = goals.filter(|goal| !search.contradicts_saturating(goal));
        goals.max_by(|a, b| a.goal.loss_ratio.total_cmp(&b.goal.loss_ratio))
    }

    /// Frames a second by the headline.
    fn searched_pps(&self) -> Option<f64> {
        self.headline().and_then(|goal| goal.found.conditional_pps)
    }

    /// The rate is not the device's limit.
    pub fn is_at_least(&self) -> bool {
        let is_bound = |goal: FoundGoal<'_>| {
            goal.is_generator_limited || goal.found.regularity == Regularity::MaxLoad
        };
        self.shown.is_generator_limited || self.headline().is_some_and(is_bound)
    }
}

impl Sized<'_> {
    /// Where it was measured but for the length.
    pub fn cell(&self) -> &Cell<'_> {
        self.sizes[0].cell
    }

    /// `one queue on one core`, `4 queues on 4 cores`.
    pub fn place(&self) -> String {
        let count = |axis: &str, noun: &str| match number(self.cell(), axis) {
            1.0 => format!("one {noun}"),
            many => format!("{} {noun}s", words::whole(many)),
        };
        format!("{} on {}", count("queues", "queue"), count("cores", "core"))
    }

    /// What its curves are called, and with what its identifiers end.
    pub fn name(&self) -> String {
        match number(self.cell(), "queues") {
            1.0 => self.device.to_owned(),
            _ => format!("{}, {}", self.device, self.place()),
        }
    }

    /// Frames of one length each, and a rate of each.
    pub fn rates(&self, pps: impl Fn(&Size<'_>) -> f64) -> Vec<(f64, f64)> {
        let plain = self.sizes.iter().filter(|size| size.cell.number("frame").is_some());
        plain.map(|size| (size.shown.frame_len, pps(size))).collect()
    }

    /// Frames of one length each, and the rate of each by search; `None` where one has none, for
    /// rates at full load are others.
    pub fn searched(&self) -> Option<Vec<(f64, f64)>> {
        let plain = self.sizes.iter().filter(|size| size.cell.number("frame").is_some());
        plain.map(|size| Some((size.shown.frame_len, size.searched_pps()?))).collect()
    }
}

/// All that was measured of all devices.
pub(crate) fn sized<'a>(results: &'a Results<'_>) -> Vec<Sized<'a>> {
    let mut all: Vec<Sized<'a>> = Vec::new();
    for device in &results.run.devices {
        let mut cells: Vec<&Cell<'_>> = results.cells.of(&device.name, "saturate").collect();
        let place = |cell: &Cell<'_>| ["queues", "cores", "flows"].map(|axis| number(cell, axis));
        cells.sort_by(|a, b| {
            let by_place = place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal);
            by_place.then(frame_len(a).total_cmp(&frame_len(b)))
        });
        for of in cells.chunk_by(|a, b| place(a) == place(b)) {
            let sizes: Vec<Size<'a>> = of.iter().filter_map(|cell| size(results, cell)).collect();
            let port_gbps = device.about.port_gbps;
            let shown: Vec<SaturatedLength> = sizes.iter().map(|size| size.shown).collect();
            let parts = binding(&shown, port_gbps);
            if !sizes.is_empty() {
                all.push(Sized { device: &device.name, sizes, parts, port_gbps });
            }
        }
    }
    all
}

/// Mean length of a cell's frames; of a trace that of what came back.
fn frame_len(cell: &Cell<'_>) -> f64 {
    let of_rates = || {
        let [gbps, pps] = ["throughput_gbps_l2", "throughput_pps"]
            .map(|metric| cell.estimate(metric).map_or(0.0, |estimate| estimate.median));
        if pps > 0.0 { gbps * 1e9 / 8.0 / pps } else { 0.0 }
    };
    cell.point.get("frame").and_then(mean_len).unwrap_or_else(of_rates)
}

pub(crate) fn size<'a>(results: &'a Results<'_>, cell: &'a Cell<'a>) -> Option<Size<'a>> {
    let of = |metric: &str| cell.estimate(metric).map(|estimate| estimate.median);
    // A part binds where the whole interval shows it.
    let low = |metric: &str| cell.estimate(metric).map_or(0.0, |estimate| estimate.low);
    let shown = SaturatedLength {
        frame_len: frame_len(cell),
        pps: of("throughput_pps").filter(|pps| *pps > 0.0)?,
        is_generator_limited: cell.is_generator_limited(),
        ring_missed: low(RING_MISSED),
        early_missed: low(EARLY_MISSED),
        idle: cell.estimate(IDLE).map(|idle| (idle.low, idle.high)),
    };
    let is_here =
        |of: &FoundThroughput<'_>| of.cell.device == cell.device && of.cell.point == cell.point;
    let search = found(results).into_iter().find(is_here);
    Some(Size { cell, shown, search })
}

/// A part in words.
pub(crate) fn part_words(part: Bottleneck) -> &'static str {
    match part {
        Bottleneck::Port => "the port",
        Bottleneck::FrameRate => "the card's frame rate",
        Bottleneck::Bytes => "the cost per byte",
        Bottleneck::Cores => "the cores",
        Bottleneck::Generator => "the generator",
    }
}

/// Frames a second over their length.
pub(crate) const FRAMES: &str = "frame-size-pps";
