//! What the data of `queue-scaling` and `queue-overhead` show, before it is worded or drawn.

use super::metrics::PER_CORE;
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::queues::number;
use crate::wire::{mean_len, wire_ns};

/// What an ideal card forwards: so many cores as much as each alone, as far as its ports carry it.
pub(crate) fn ideal_pps(one_pps: f64, cores: f64, ports: f64, frame: (f64, Option<f64>)) -> f64 {
    let (frame_len, port_gbps) = frame;
    let carried = port_gbps.map(|gbps| ports * 1e9 / wire_ns(frame_len, gbps));
    (one_pps * cores).min(carried.unwrap_or(f64::INFINITY))
}

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "scaling").collect();
    let place = |cell: &Cell<'_>| {
        ["flows", "frame", "ports", "queues", "cores"].map(|axis| number(cell, axis))
    };
    cells.sort_by(|a, b| {
        let by_place = place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal);
        a.word("receive").cmp(&b.word("receive")).then(by_place)
    });
    cells
}

/// Cells of one way to receive, by as many ports, a queue for each core and one load, by cores.
pub(crate) fn curve<'a>(
    results: &'a Results<'_>,
    device: &str,
    (receive, ports): (&str, f64),
    like: &Cell<'_>,
) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    let is_like =
        |cell: &Cell<'_>| ["flows", "frame"].iter().all(|axis| cell.word(axis) == like.word(axis));
    all.retain(|cell| {
        cell.word("receive") == receive
            && number(cell, "ports") == ports
            && number(cell, "cores") == number(cell, "queues")
            && is_like(cell)
    });
    all
}

/// The cells that the curves of a device are of one load with: the first one measured.
pub(crate) fn first<'a>(results: &'a Results<'_>, device: &str) -> Option<&'a Cell<'a>> {
    cells(results, device).into_iter().find(|cell| cell.word("receive") == "multi-queue")
}

/// Numbers of ports of a device's cells.
pub(crate) fn ports(results: &Results<'_>, device: &str) -> Vec<f64> {
    let mut ports: Vec<f64> =
        cells(results, device).iter().map(|cell| number(cell, "ports")).collect();
    ports.sort_by(f64::total_cmp);
    ports.dedup();
    ports
}

/// What one core forwards of a cell's load: where nobody measured one, what each of the fewest
/// does.
fn one<'a>(results: &'a Results<'_>, like: &Cell<'_>) -> Option<&'a Cell<'a>> {
    let of = |ports: f64| curve(results, like.device, ("multi-queue", ports), like);
    let all = ports(results, like.device).into_iter().flat_map(of);
    all.min_by(|a, b| number(a, "cores").total_cmp(&number(b, "cores")))
}

/// Line rate of a device's ports.
fn port_gbps(results: &Results<'_>, device: &str) -> Option<f64> {
    results.run.devices.iter().find(|of| of.name == device)?.about.port_gbps
}

/// What an ideal card would forward where a cell stands, frames a second.
pub(crate) fn ideal(results: &Results<'_>, cell: &Cell<'_>) -> Option<f64> {
    let one_pps = one(results, cell)?.estimate(PER_CORE)?.median;
    let frame_len = cell.point.get("frame").and_then(mean_len)?;
    let frame = (frame_len, port_gbps(results, cell.device));
    Some(ideal_pps(one_pps, number(cell, "cores"), number(cell, "ports"), frame))
}

/// What cores forward together, over their number.
pub(crate) const AGGREGATE: &str = "all";

/// What each forwards.
pub(crate) const EACH: &str = "each";

/// What queues cost the same cores.
pub(crate) const QUEUES: &str = "queues";

/// `device`, or `device, 2 ports`.
pub(crate) fn name(device: &str, ports: f64) -> String {
    match ports {
        1.0 => device.to_owned(),
        ports => format!("{device}, {ports} ports"),
    }
}

/// The figure of a device that is called so: two experiments of a run have it.
pub(crate) fn figure_id(results: &Results<'_>, name: &str, device: &str) -> String {
    format!("{}-{name}-{device}", results.experiment.name)
}

/// Cells that differ in their queues alone, cores and ports the same, more than one of each kind.
pub(crate) fn at_cores<'a>(results: &'a Results<'_>, device: &str) -> Vec<Vec<&'a Cell<'a>>> {
    let mut all = cells(results, device);
    all.retain(|cell| cell.word("receive") == "multi-queue");
    let place = |cell: &Cell<'_>| ["flows", "frame", "ports", "cores"].map(|axis| cell.word(axis));
    all.sort_by(|a, b| {
        place(a).cmp(&place(b)).then(number(a, "queues").total_cmp(&number(b, "queues")))
    });
    let of = all.chunk_by(|a, b| place(a) == place(b));
    of.filter(|cells| cells.len() > 1).map(<[_]>::to_vec).collect()
}
