//! From values to the hosts that are unlike the others.
//!
//! 1. In each figure a host has the median of its repeats, and the group the median of its hosts.
//!    The host's distance is its shift by the spread of equal hosts: the robust spread between
//!    hosts, and the error of its own repeats (`figure`).
//! 2. The mean over the points of a sweep is a figure too: a host that is a little slower
//!    everywhere.
//! 3. The chance of a distance is that of Student's t, with fewer degrees of freedom the fewer
//!    hosts there are, and the heavier the tails of the group are (`tails`).
//! 4. Holm's procedure over all hosts and figures of the fleet names a host: in a fleet of equal
//!    hosts any host is named with a chance of at most [`FALSE_ALARM_RATE`].
//! 5. The whole interval of the ratio must lie beyond [`DIFFERENCE_MIN`].

use std::collections::{BTreeMap, HashMap};

use niclab_result::fleet::{
    FLEET_SCHEMA, FleetDifference, FleetDocument, FleetFigure, FleetGroup, FleetHost, OddHost,
    RatioHistogram,
};

use super::figure::{Distances, HostInFigure, INTERVAL_Z, measured, of_values};
use super::values::{FigureKey, FigureValues, FleetValues, HostFacts, TextId, Texts};
use super::{DIFFERENCE_MIN, FALSE_ALARM_RATE, GROUP_HOSTS_MIN, tails};

/// Fewest points whose mean is a figure of its own.
const SWEEP_POINTS_MIN: usize = 3;
/// Distance from which on the chance of a host is computed; below nothing is ever named.
const DISTANCE_MIN: f32 = 2.5;
/// Bins of a histogram.
const BINS: usize = 48;

/// A figure and what is known of it.
struct ComparedFigure {
    figure: FleetFigure,
    distances: Distances,
    /// Degrees of freedom of the tail below and above the median.
    freedoms: [f64; 2],
}

/// A host that may be named.
struct Candidate {
    chance: f64,
    group: usize,
    figure: usize,
    host: HostInFigure,
}

impl FleetValues {
    /// Compares each host with its group.
    pub fn judge(mut self) -> FleetDocument {
        let values = std::mem::take(&mut self.values);
        let mut by_group: BTreeMap<String, (TextId, Vec<FigureValues>)> = BTreeMap::new();
        let text = |id: TextId| self.texts.texts[id as usize].clone();
        for (key, values) in values {
            let (_, all) = by_group.entry(text(key.group)).or_insert((key.group, Vec::new()));
            all.push((key, values));
        }
        let mut document = FleetDocument {
            schema: FLEET_SCHEMA,
            false_alarm_rate: FALSE_ALARM_RATE,
            difference_min: DIFFERENCE_MIN,
            marked_values: self.marked,
            ..FleetDocument::default()
        };
        let (mut groups, mut ids) = (Vec::new(), Vec::new());
        for (name, (id, values)) in by_group {
            let hosts = self.hosts.values().filter(|of| of.groups.contains(&id)).count();
            let compared = match hosts < GROUP_HOSTS_MIN {
                true => Vec::new(),
                false => self.compared(values),
            };
            let unjudged = unjudged(hosts, compared.len());
            document.groups.push(FleetGroup { name, hosts, unjudged, figures: Vec::new() });
            groups.push(compared);
            ids.push(id);
        }
        let named = named(&groups, &mut document.comparisons);
        hosts(&self.hosts, &self.texts, &ids, &groups, &mut document);
        odd(named, &self, &ids, &mut groups, &mut document);
        for (group, compared) in document.groups.iter_mut().zip(groups) {
            group.figures = compared.into_iter().map(|of| of.figure).collect();
        }
        document
    }

    /// The figures of a group, those over all points behind the points of their sweep.
    fn compared(&self, mut values: Vec<FigureValues>) -> Vec<ComparedFigure> {
        let text = |id: TextId| self.texts.texts[id as usize].as_str();
        let sweep = |key: &FigureKey| {
            [text(key.experiment), text(key.trial), text(key.metric), text(key.unit)]
        };
        values.sort_by(|(a, _), (b, _)| {
            sweep(a).cmp(&sweep(b)).then_with(|| text(a.point).cmp(text(b.point)))
        });
        let mut all: Vec<ComparedFigure> = Vec::new();
        let mut sweep_start = 0;
        let mut values = values.into_iter().peekable();
        while let Some((key, values_of)) = values.next() {
            if let Some(distances) = of_values(values_of, GROUP_HOSTS_MIN) {
                all.push(ComparedFigure::new(self.figure(&key, &distances), distances));
            }
            let is_last = values.peek().is_none_or(|(next, _)| sweep(next) != sweep(&key));
            if is_last {
                all.extend(over_points(&all[sweep_start..]));
                sweep_start = all.len();
            }
        }
        set_freedoms(&mut all);
        all
    }

    fn figure(&self, key: &FigureKey, distances: &Distances) -> FleetFigure {
        let text = |id: TextId| self.texts.texts[id as usize].clone();
        FleetFigure {
            experiment: text(key.experiment),
            trial: text(key.trial),
            point: point_words(&text(key.point)),
            metric: text(key.metric),
            unit: text(key.unit),
            is_higher_better: self.is_higher_better(key),
            hosts: distances.hosts.len(),
            median: distances.median,
            spread: distances.spread,
            odd: 0,
            histogram: None,
        }
    }
}

impl ComparedFigure {
    fn new(figure: FleetFigure, distances: Distances) -> ComparedFigure {
        ComparedFigure { figure, distances, freedoms: [f64::INFINITY; 2] }
    }

    /// How far a host is from the median of its group.
    fn difference(&self, figure: usize, host: &HostInFigure) -> FleetDifference {
        let shift = f64::from(host.shift);
        let of_centre = INTERVAL_Z * self.distances.centre_variance().sqrt();
        let ends = [(-1.0, host.below), (1.0, host.above)];
        let ends = ends.map(|(sign, own)| shift + sign * f64::from(own).hypot(of_centre));
        let spread = self.distances.spread;
        FleetDifference {
            figure,
            ratio: shift.exp(),
            interval: (ends[0].exp(), ends[1].exp()),
            distance: shift / spread,
            distance_interval: (ends[0] / spread, ends[1] / spread),
        }
    }
}

/// Why nothing can be said of a group; none if something can.
fn unjudged(hosts: usize, figures: usize) -> Option<String> {
    match (hosts, figures) {
        (1, _) => Some("1 host has nothing to be compared with".to_owned()),
        (..GROUP_HOSTS_MIN, _) => Some(format!(
            "{hosts} hosts cannot tell which of them is odd: measure at least {GROUP_HOSTS_MIN}"
        )),
        (_, 0) => Some(format!(
            "no figure has {GROUP_HOSTS_MIN} hosts with three repeats each that no mark puts in \
             doubt: measure with --repeats 6"
        )),
        _ => None,
    }
}

/// A point in words: `frame=64 rules=1000`.
pub fn point_words(point: &str) -> String {
    let axes: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(point).ok();
    let Some(axes) = axes else { return point.to_owned() };
    let one = |(name, at): (&String, &serde_json::Value)| match at.as_str() {
        Some(word) => format!("{name}={word}"),
        None => format!("{name}={at}"),
    };
    axes.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The mean over the points of a sweep, of the hosts that have all of them.
fn over_points(points: &[ComparedFigure]) -> Option<ComparedFigure> {
    if points.len() < SWEEP_POINTS_MIN {
        return None;
    }
    let mut sums: HashMap<TextId, (usize, [f64; 4])> = HashMap::new();
    for host in points.iter().flat_map(|point| &point.distances.hosts) {
        let (count, sums) = sums.entry(host.host).or_default();
        *count += 1;
        let square = |of: f32| f64::from(of).powi(2);
        let own = [host.shift.into(), square(host.below), square(host.above), square(host.noise)];
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    let all = points.len() as f64;
    let whole = sums.into_iter().filter(|(_, (count, _))| *count == points.len());
    let mut hosts: Vec<HostInFigure> = whole
        .map(|(host, (_, [shift, below, above, noise]))| HostInFigure {
            host,
            shift: (shift / all) as f32,
            below: (below.sqrt() / all) as f32,
            above: (above.sqrt() / all) as f32,
            noise: (noise.sqrt() / all) as f32,
            distance: 0.0,
        })
        .collect();
    if hosts.len() < GROUP_HOSTS_MIN {
        return None;
    }
    hosts.sort_by_key(|host| host.host);
    let distances = measured(1.0, hosts);
    let figure = FleetFigure {
        point: "all points".to_owned(),
        unit: "1".to_owned(),
        hosts: distances.hosts.len(),
        median: distances.median,
        spread: distances.spread,
        ..points[0].figure.clone()
    };
    Some(ComparedFigure::new(figure, distances))
}

/// Sets the degrees of freedom of the tails of all figures of a group.
fn set_freedoms(all: &mut [ComparedFigure]) {
    for (side, sign) in [(0, -1.0f32), (1, 1.0)] {
        let ratio = |of: &ComparedFigure| {
            let distances = of.distances.hosts.iter().map(|host| host.distance * sign);
            tails::ratio(distances.filter(|far| *far > 0.0).map(f64::from).collect())
        };
        let ratios: Vec<_> = all.iter().map(ratio).collect();
        for (of, tail) in all.iter_mut().zip(tails::freedoms(&ratios)) {
            of.freedoms[side] = tails::together(of.distances.freedom(), tail);
        }
    }
}

/// The hosts that Holm's procedure names and whose interval lies beyond the smallest difference.
fn named(groups: &[Vec<ComparedFigure>], comparisons: &mut u64) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (group, figures) in groups.iter().enumerate() {
        for (figure, of) in figures.iter().enumerate() {
            *comparisons += of.distances.hosts.len() as u64;
            let far = of.distances.hosts.iter().filter(|host| host.distance.abs() > DISTANCE_MIN);
            candidates.extend(far.map(|host| {
                let freedom = of.freedoms[usize::from(host.distance > 0.0)];
                let chance = tails::two_sided(f64::from(host.distance), freedom);
                Candidate { chance, group, figure, host: *host }
            }));
        }
    }
    candidates.sort_by(|a, b| a.chance.total_cmp(&b.chance));
    let all = *comparisons as f64;
    let is_unlikely =
        |(at, of): (usize, &Candidate)| of.chance > FALSE_ALARM_RATE / (all - at as f64);
    let count = candidates.iter().enumerate().position(is_unlikely).unwrap_or(candidates.len());
    candidates.truncate(count);
    candidates.retain(|of| {
        let (low, high) = groups[of.group][of.figure].difference(of.figure, &of.host).interval;
        low > 1.0 + DIFFERENCE_MIN || high < 1.0 - DIFFERENCE_MIN
    });
    candidates
}

/// Adds all hosts to the document, in the order of their names.
fn hosts(
    facts: &HashMap<TextId, HostFacts>,
    texts: &Texts,
    ids: &[TextId],
    groups: &[Vec<ComparedFigure>],
    document: &mut FleetDocument,
) {
    let mut farthest: HashMap<TextId, (u32, usize, usize, HostInFigure)> = HashMap::new();
    for (group, figures) in groups.iter().enumerate() {
        for (figure, of) in figures.iter().enumerate() {
            for host in &of.distances.hosts {
                let far = farthest.entry(host.host).or_insert((0, group, figure, *host));
                far.0 += 1;
                if host.distance.abs() > far.3.distance.abs() {
                    (far.1, far.2, far.3) = (group, figure, *host);
                }
            }
        }
    }
    let text = |id: TextId| texts.texts[id as usize].as_str();
    let mut all: Vec<(TextId, &HostFacts)> = facts.iter().map(|(id, of)| (*id, of)).collect();
    all.sort_by_key(|(id, _)| text(*id));
    for (id, of) in all {
        let mut firmware: Vec<&str> = of.firmware.iter().map(|(_, of)| text(*of)).collect();
        firmware.sort_unstable();
        firmware.dedup();
        let far = farthest.get(&id);
        document.hosts.push(FleetHost {
            host: text(id).to_owned(),
            groups: (0..ids.len()).filter(|at| of.groups.contains(&ids[*at])).collect(),
            firmware: firmware.join(", "),
            figures: far.map_or(0, |far| far.0),
            farthest: far.map(|(_, group, figure, host)| {
                (*group, groups[*group][*figure].difference(*figure, host))
            }),
            is_odd: false,
        });
    }
}

/// Adds the named hosts to the document, the farthest first.
fn odd(
    named: Vec<Candidate>,
    fleet: &FleetValues,
    ids: &[TextId],
    groups: &mut [Vec<ComparedFigure>],
    document: &mut FleetDocument,
) {
    let places: HashMap<String, usize> =
        document.hosts.iter().enumerate().map(|(at, of)| (of.host.clone(), at)).collect();
    let mut at: HashMap<(TextId, usize), usize> = HashMap::new();
    for Candidate { group, figure, host, .. } in named {
        let name = &fleet.texts.texts[host.host as usize];
        let place = places.get(name).copied().unwrap_or_default();
        document.hosts[place].is_odd = true;
        groups[group][figure].figure.odd += 1;
        let next = document.odd.len();
        let entry = *at.entry((host.host, group)).or_insert(next);
        if entry == next {
            let firmware = firmware(fleet, host.host, ids[group]);
            let differences = Vec::new();
            document.odd.push(OddHost { host: place, group, firmware, differences });
        }
        let difference = groups[group][figure].difference(figure, &host);
        document.odd[entry].differences.push(difference);
    }
    let farthest = |of: &FleetDifference| of.distance.abs();
    for of in &mut document.odd {
        of.differences.sort_by(|a, b| farthest(b).total_cmp(&farthest(a)));
    }
    let first = |of: &OddHost| of.differences.first().map_or(0.0, farthest);
    document.odd.sort_by(|a, b| first(b).total_cmp(&first(a)));
    for of in groups.iter_mut().flatten().filter(|of| of.figure.odd > 0) {
        of.figure.histogram = Some(histogram(&of.distances.hosts));
    }
}

/// The firmware of a host in a group, with that of most others if theirs is another.
fn firmware(fleet: &FleetValues, host: TextId, group: TextId) -> String {
    let of = |facts: &HostFacts| {
        let mut of_group = facts.firmware.iter().filter(|(of, _)| *of == group);
        of_group.next().map(|(_, firmware)| *firmware)
    };
    let text = |id: TextId| fleet.texts.texts[id as usize].as_str();
    let Some(own) = fleet.hosts.get(&host).and_then(of) else { return String::new() };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for firmware in fleet.hosts.values().filter_map(of) {
        *counts.entry(text(firmware)).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(most, _)| most);
    match most {
        Some(most) if most != text(own) => format!("{} (most others: {most})", text(own)),
        _ => text(own).to_owned(),
    }
}

fn histogram(hosts: &[HostInFigure]) -> RatioHistogram {
    let ratios = || hosts.iter().map(|host| f64::from(host.shift).exp());
    let low = ratios().fold(f64::INFINITY, f64::min);
    let high = ratios().fold(0.0, f64::max).max(low + 1e-6);
    let mut counts = vec![0; BINS];
    for ratio in ratios() {
        let bin = (ratio - low) / (high - low) * BINS as f64;
        counts[(bin as usize).min(BINS - 1)] += 1;
    }
    RatioHistogram { low, high, counts }
}
