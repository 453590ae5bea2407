//! What the data of `echo-ledger` show, before it is worded or drawn.

use crate::cells::Cell;
use crate::summary::Results;

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "ledger").collect();
    let place = |cell: &Cell<'_>| {
        let axes = ["transport", "family", "client", "receive", "deep", "stamps"];
        let words = axes.map(|axis| cell.word(axis));
        (words, ["size", "batch"].map(|axis| cell.number(axis).unwrap_or(f64::MAX)))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// Those without stamps inside the stacks, which take time of their own; where there are no others,
/// those with them.
pub(crate) fn plain<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    if all.iter().any(|cell| !is_deep(cell)) {
        all.retain(|cell| !is_deep(cell));
    }
    all
}

/// The stamps of sockets stand beside those of probes here.
pub(crate) fn asks_for_sockets(cell: &Cell<'_>) -> bool {
    cell.word("stamps") == "sockets"
}

/// A message of 1,024 B at a time over UDP and IPv4, between programs that sleep.
pub(crate) fn is_published_place(cell: &Cell<'_>) -> bool {
    cell.is_at(&[("size", 1024.0), ("batch", 1.0)])
        && cell.word("transport") == "udp"
        && cell.word("family") == "ipv4"
        && cell.word("receive") == "blocking"
        && ["", "none"].contains(&cell.word("feature").as_str())
        && !asks_for_sockets(cell)
}

/// Software of the client and of the server, and hardware, nanoseconds. A side of which nothing but
/// the sum is known has that.
pub(crate) fn software_and_hardware(cell: &Cell<'_>) -> [Option<f64>; 3] {
    let ns = |name: &str| Some(cell.estimate(&format!("{name}_ns"))?.median);
    let sum = |names: &[&str]| names.iter().map(|name| ns(name)).sum::<Option<f64>>();
    let client = sum(&["client_transmit", "client_receive"]).or_else(|| ns("client_software"));
    let server = sum(&["server_receive", "application", "server_transmit"]);
    [client, server.or_else(|| ns("server_software")), ns("hardware")]
}

/// The figure of a protocol on a device.
pub(crate) fn figure_id(device: &str, transport: &str) -> String {
    format!("echo-ledger-{}-{transport}", device.replace([':', ',', '[', ']', '.'], "-"))
}

/// `true` where it was stamped inside the stacks.
pub(crate) fn is_deep(cell: &&Cell<'_>) -> bool {
    cell.word("deep") == "yes"
}
