//! What the data of the experiments on applications show, before it is worded or drawn.

use super::metrics::{CLIENT_BUSY, SERVER_BUSY};
use crate::breakdown::BETWEEN;
use crate::cells::Cell;
use crate::hosts::CLOSED;
use crate::metrics::is_busy;
use crate::summary::Results;
use crate::words;

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "application").collect();
    let place = |cell: &Cell<'_>| {
        let words = ["protocol", "family", "client", "path"].map(|axis| cell.word(axis));
        let numbers = ["gets", "cores", "connections", "depth", "size", "rate", "keys"];
        (words, numbers.map(|axis| cell.number(axis).unwrap_or(f64::MAX)))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// Requests in flight at most.
pub(crate) fn parallel(cell: &Cell<'_>) -> Option<f64> {
    Some(cell.number("connections")? * cell.number("depth")?)
}

/// A protocol as it is written in a sentence.
pub(crate) fn protocol(cell: &Cell<'_>) -> &'static str {
    match cell.word("protocol").as_str() {
        "memcached-tcp" => "memcached over TCP",
        "memcached-udp" => "memcached over UDP",
        "redis" => "Redis",
        _ => "the function",
    }
}

/// What is said of a cell's place on an axis; nothing where its protocol has no such axis.
pub(crate) fn words_at(cell: &Cell<'_>, axis: &str) -> String {
    let (word, number) = (cell.word(axis), cell.number(axis));
    let many = |one: &str, number: f64| match number {
        1.0 => format!("1 {one}"),
        _ => format!("{} {one}s", words::whole(number)),
    };
    let is_http = cell.word("protocol") == "http";
    match (axis, number) {
        ("gets" | "keys", _) if is_http => String::new(),
        ("path", _) if !is_http => String::new(),
        ("protocol", _) => protocol(cell).to_owned(),
        ("family", _) => word.replace("ipv", "IPv"),
        ("client", _) => format!("clients {word}"),
        ("gets", Some(0.0)) => "sets".to_owned(),
        ("gets", Some(100.0)) => "gets".to_owned(),
        ("gets", Some(gets)) => format!("{} % gets", words::whole(gets)),
        ("size", None) => "sizes as measured (ETC)".to_owned(),
        ("size", Some(bytes)) => format!("{} B", words::whole(bytes)),
        ("keys", Some(keys)) => words::counted(keys, "key"),
        ("rate", None) => "closed loop".to_owned(),
        ("rate", Some(per_s)) => format!("{}/s due", words::whole(per_s)),
        ("connections", Some(count)) => many("connection", count),
        ("depth", Some(count)) => format!("{} waiting on each", words::whole(count)),
        ("cores", Some(count)) => many("server core", count),
        _ => word,
    }
}

/// What keeps a cell from more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBound {
    /// The server's cores work all the time, the clients' do not.
    Server,
    /// The clients' cores do, the server's do not.
    Clients,
    /// The cores of both do: each may be what keeps the other from more.
    Both,
    /// Both have a core in common, and all of them work all the time.
    Shared,
    /// The link is full.
    Link,
    /// No more is due.
    Due,
    /// Nothing is busy all the time.
    Waiting,
    /// The repeats allow more than one of these.
    Unknown,
}

impl RequestBound {
    pub(crate) fn words(self) -> &'static str {
        match self {
            RequestBound::Server => "the server's cores",
            RequestBound::Clients => "the clients' cores",
            RequestBound::Both => "the cores of both sides",
            RequestBound::Shared => "cores shared by both sides",
            RequestBound::Link => "the link",
            RequestBound::Due => "the offered load",
            RequestBound::Waiting => "waiting",
            RequestBound::Unknown => "-",
        }
    }
}

/// `true` where clients and server have a core in common in some repeat.
pub(crate) fn is_shared(cell: &Cell<'_>) -> bool {
    cell.values("shared_cores").iter().any(|cores| *cores > 0.0)
}

/// What keeps a cell from more requests, by the use of the cores and of the link.
pub(crate) fn bound(cell: &Cell<'_>) -> RequestBound {
    let busy = [SERVER_BUSY, CLIENT_BUSY, "link_ratio"].map(|metric| is_busy(cell, metric));
    let share = |metric: &str| cell.estimate(metric).map_or(0.0, |share| share.median);
    match busy {
        [Some(true), Some(true), _] if is_shared(cell) => RequestBound::Shared,
        [Some(true), Some(true), _] => RequestBound::Both,
        [Some(true), Some(false), _] => RequestBound::Server,
        [Some(false), Some(true), _] => RequestBound::Clients,
        [Some(false), Some(false), Some(true)] => RequestBound::Link,
        [Some(false), Some(false), Some(false)] => {
            let is_open = cell.number("rate").is_some();
            let is_all_sent = share("unsent_requests") == 0.0;
            if is_open && is_all_sent { RequestBound::Due } else { RequestBound::Waiting }
        }
        _ => RequestBound::Unknown,
    }
}

/// The terms of a request, by name and by the head of their column.
pub(crate) const TERMS: [(&str, &str); 4] = [
    ("client_transmit", "client transmit"),
    ("server", "server"),
    ("client_receive", "client receive"),
    ("hardware", BETWEEN),
];

/// One request at a time, in a closed loop: what the published table has.
pub(crate) fn is_back_to_back(cell: &Cell<'_>) -> bool {
    parallel(cell) == Some(1.0) && cell.word("rate") == CLOSED && cell.is_at(&[("cores", 1.0)])
}

/// The name that the published table has for what a cell asks.
pub(crate) fn published_name(cell: &Cell<'_>) -> Option<&'static str> {
    let is_set = cell.is_at(&[("gets", 0.0)]);
    match cell.word("protocol").as_str() {
        "memcached-udp" if is_set => Some("memcached"),
        "redis" if is_set => Some("redis"),
        "http" => Some("openlambda"),
        _ => None,
    }
}

pub(crate) fn id(results: &Results<'_>, part: &str) -> String {
    format!("{}{part}", results.experiment.name)
}

/// The figure of a metric over an axis.
pub(crate) fn figure_of(results: &Results<'_>, what: &str, x: &str) -> String {
    id(results, &format!("-{what}-{x}"))
}

/// Where a cell stands on the axis of a figure.
pub(crate) fn place(cell: &Cell<'_>, x: &str) -> Option<f64> {
    if x == "parallel" { parallel(cell) } else { cell.number(x) }
}
