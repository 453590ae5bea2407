//! What the data of `kvs-steering` show, before it is worded or drawn.

use niclab_device::StoreObservation;
use niclab_result::ReportTable;
use serde::Deserialize;

use super::metrics::{BUS, REQUEST, step_metric};
use super::trials::{KEYS, MODES, PLAIN, UNIFORM};
use crate::bus::{Bus, BusTransfer, buses, ways};
use crate::cells::{Cell, paired};
use crate::published::flexnic;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::tables::{median, table};
use crate::wire::wire_ns;
use crate::words;

/// Axes of a place, all but the mode.
const PLACE: [&str; 5] = ["keys", "count", "gets", "cores", "burst"];

/// The study's workload: keys, and percent of gets.
pub(crate) const STUDY: [(&str, f64); 2] = [("count", 100_000.0), ("gets", 90.0)];

/// Bytes of a frame on the wire that are not in memory: FCS.
const FCS_BYTES: f64 = 4.0;

/// All cells of a device, in reading order: the study's workload first, place by place, all modes
/// at each.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "serve").collect();
    let place = |cell: &Cell<'_>| {
        let keys = KEYS.iter().position(|(name, _)| *name == cell.word("keys"));
        let mode = MODES.iter().position(|(name, _)| *name == cell.word("mode"));
        let number = |axis: &&str| cell.number(axis).unwrap_or(0.0) as u64;
        let numbers: Vec<u64> = PLACE[1..].iter().map(number).collect();
        (!is_study(cell), keys, numbers, mode)
    };
    cells.sort_by_key(|cell| place(cell));
    cells
}

/// The cell of another mode at the same place.
pub(crate) fn with_mode<'a>(
    results: &'a Results<'_>,
    cell: &Cell<'_>,
    mode: &str,
) -> Option<&'a Cell<'a>> {
    results.cells.in_mode(cell, &PLACE, mode)
}

pub(crate) fn most(all: &[&Cell<'_>], axis: &str) -> f64 {
    all.iter().filter_map(|cell| cell.number(axis)).fold(0.0, f64::max)
}

/// Cells on as many cores as were measured, in the longest bursts.
pub(crate) fn largest<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    let at = ["cores", "burst"].map(|axis| (axis, most(&all, axis)));
    all.retain(|cell| cell.is_at(&at));
    all
}

/// Whether a cell has the study's workload.
pub(crate) fn is_study(cell: &Cell<'_>) -> bool {
    cell.is_at(&STUDY) && cell.word("keys") == UNIFORM
}

/// Of each mode the cell with the study's workload on most cores.
pub(crate) fn study<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = largest(results, device);
    all.retain(|cell| is_study(cell));
    all
}

/// The study's workload, in words.
pub(crate) const STUDY_WORDS: &str = "the study's";

/// What is asked, by what tells it from the study's workload.
pub(crate) fn workload(cell: &Cell<'_>) -> String {
    let number = |axis: &str| words::whole(cell.number(axis).unwrap_or(0.0));
    let mut words = Vec::new();
    if cell.word("keys") != UNIFORM {
        words.push("Zipf".to_owned());
    }
    for ((axis, usual), unit) in STUDY.iter().zip(["keys", "% gets"]) {
        if cell.number(axis) != Some(*usual) {
            words.push(format!("{} {unit}", number(axis)));
        }
    }
    match words.is_empty() {
        true => STUDY_WORDS.to_owned(),
        false => words.join(", "),
    }
}

/// How a metric stands to that of the mode without help at the same place.
pub(crate) fn of_plain(results: &Results<'_>, cell: &Cell<'_>, metric: &str) -> Option<Estimate> {
    let plain = with_mode(results, cell, PLAIN)?;
    (cell.word("mode") != PLAIN).then(|| paired(cell, plain, metric))?
}

/// What a request of a cell takes of the bus.
pub(crate) fn bus_ways(cell: &Cell<'_>) -> Option<[BusTransfer; 2]> {
    let of = |sample: &&niclab_result::Sample| StoreObservation::deserialize(&sample.counters).ok();
    cell.samples.iter().find_map(of).map(|seen| ways(&seen.crossed))
}

/// What stands between a store's cores and its clients, and what it carries.
pub(crate) struct Limit {
    /// Its name: `PCIe 2.0 x8`, `2 ports of 10 Gbps`.
    pub name: String,
    /// Requests a second, their answers included.
    pub requests_per_s: f64,
}

impl Limit {
    /// Cores from which on it binds; `None` where the time of a request is not known.
    pub fn cores(&self, cell: &Cell<'_>) -> Option<f64> {
        Some(self.requests_per_s * cell.estimate(REQUEST)?.median / 1e9)
    }
}

/// A bus, for the requests of a cell.
fn bus_limit(cell: &Cell<'_>, bus: &Bus) -> Option<Limit> {
    let requests_per_s = bus.requests_per_s(bus_ways(cell)?);
    Some(Limit { name: bus.name.clone(), requests_per_s })
}

/// The slowest bus of all profiles.
pub(crate) fn slowest_limit(cell: &Cell<'_>) -> Option<Limit> {
    bus_limit(cell, buses().first()?)
}

/// The study's two ports. Whatever a card keeps from the bus, requests and answers cross the wire
/// as they do without help.
pub(crate) fn ports_limit(results: &Results<'_>, cell: &Cell<'_>) -> Option<Limit> {
    let plain = with_mode(results, cell, PLAIN)?;
    let of = |sample: &&niclab_result::Sample| StoreObservation::deserialize(&sample.counters).ok();
    let crossed = plain.samples.iter().find_map(of)?.crossed;
    let longest = crossed.frame_bytes.max(crossed.answer_bytes) + FCS_BYTES;
    let (ports, gbps) = flexnic::ports()?;
    let name = format!("{} ports of {} Gbps", words::whole(ports), words::whole(gbps));
    Some(Limit { name, requests_per_s: ports * 1e9 / wire_ns(longest, gbps) })
}

pub(crate) fn id(results: &Results<'_>, what: &str) -> String {
    format!("{}-{what}", results.experiment.name)
}

/// `7.84 M/s`.
pub(crate) fn millions(per_s: f64) -> String {
    format!("{} M/s", words::significant(per_s / 1e6))
}

/// Whether a cell's requests are answered in another step than that which says so: what writes an
/// answer is timed as a request is carried out.
pub(crate) fn has_no_reply(cell: &Cell<'_>) -> bool {
    let times = cell.values(&step_metric("reply"));
    !times.is_empty() && times.iter().all(|ns| *ns == 0.0)
}

/// What crosses the bus, and when it binds.
pub(crate) fn bus(results: &Results<'_>) -> ReportTable {
    let (buses, mut rows) = (buses(), Vec::new());
    let (ports, gbps) = flexnic::ports().unwrap_or_default();
    for cell in results.devices().flat_map(|device| study(results, device)) {
        let mut row = vec![cell.device.to_owned(), cell.word("mode")];
        row.extend(BUS.as_flattened().iter().map(|of| median(cell, of, words::significant)));
        row.push(cores_at(ports_limit(results, cell), cell));
        row.extend(buses.iter().map(|bus| cores_at(bus_limit(cell, bus), cell)));
        rows.push(row);
    }
    let ports = format!("cores: ports, {} x {} Gbps", words::whole(ports), words::whole(gbps));
    let heads = ["device", "mode", "to host", "B", "from host", "B", &ports];
    let of_bus = |bus: &Bus| format!("cores: {} ({})", bus.name, bus.card);
    let buses: Vec<String> = buses.iter().map(of_bus).collect();
    let title = "Bus load of a request between card and host (transactions and bytes each way), \
                 and the cores at which ports and buses become the limit: computed from frames, \
                 descriptors and the worst-case writes of a program; each bus with the first card \
                 whose profile names it";
    let buses: Vec<&str> = buses.iter().map(String::as_str).collect();
    let columns = [&heads[..], &buses].concat();
    table(&id(results, "bus"), title, &columns, rows)
}

/// Cores at which something binds, in words.
pub(crate) fn cores_at(limit: Option<Limit>, cell: &Cell<'_>) -> String {
    limit.and_then(|of| of.cores(cell)).map_or("-".to_owned(), words::significant)
}

/// The figure of this name.
pub(crate) fn figure_id(results: &Results<'_>, what: &str) -> String {
    id(results, what)
}
