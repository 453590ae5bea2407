//! Round trips by where their programs ran: the tables of a merged run, in the form of table 2 of
//! the study.
//!
//! A row is a CPU that is asked about, with the round trips of a client on it and of a server on
//! it. What was measured from the peer is of the CPU that its server ran on, where one alone has
//! these labels.

use niclab_result::{ExperimentSummary, ReportTable, Sample};

use super::tables::table;
use crate::cells::{Cell, Cells};
use crate::experiments::{Experiment, ExperimentKind};
use crate::placement::{Cpu, CpuPath};
use crate::published::apsys22;
use crate::run::Run;
use crate::{statistics, words};

/// The applications of the study: by their names in its table, and in ours.
pub(crate) const APPLICATIONS: [(&str, &str); 4] = [
    ("udp_echo", "UDP echo"),
    ("memcached", "memcached"),
    ("redis", "Redis"),
    ("openlambda", "function"),
];

/// Lengths of the messages, or of the objects, bytes.
pub(crate) const SIZES: [f64; 2] = [64.0, 1024.0];

/// The program that runs on the CPU that a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuProgram {
    /// The client; the server is elsewhere.
    Client,
    /// The server; the client is elsewhere.
    Server,
}

impl CpuProgram {
    pub const BOTH: [CpuProgram; 2] = [CpuProgram::Client, CpuProgram::Server];

    pub fn word(self) -> &'static str {
        match self {
            CpuProgram::Client => "client",
            CpuProgram::Server => "server",
        }
    }

    fn other(self) -> CpuProgram {
        match self {
            CpuProgram::Client => CpuProgram::Server,
            CpuProgram::Server => CpuProgram::Client,
        }
    }
}

/// Round trips of an application and a length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoundTrip {
    /// Its name in [`APPLICATIONS`].
    pub application: &'static str,
    /// Bytes.
    pub size: f64,
    pub side: CpuProgram,
    /// The part of the run that it was measured in; none where it was published.
    pub part: Option<usize>,
    /// Repeat, and the median of its round trips, nanoseconds.
    pub values: Vec<(u32, f64)>,
}

impl RoundTrip {
    /// Nanoseconds.
    pub fn median(&self) -> f64 {
        let values: Vec<f64> = self.values.iter().map(|(_, ns)| *ns).collect();
        statistics::median(&values).unwrap_or(f64::NAN)
    }
}

/// The breakdown of a round trip of 1,024 B, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Split {
    pub side: CpuProgram,
    pub client: f64,
    pub server: f64,
    pub hardware: f64,
}

/// A CPU that is asked about, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Placed {
    /// Its name.
    pub label: String,
    /// The card, where the device tells; empty elsewhere.
    pub card: String,
    /// The CPU, and that of the other side.
    pub cpu: Option<Cpu>,
    pub there: Option<Cpu>,
    pub way: Option<CpuPath>,
    /// It is a model, whose profile may have the numbers of another.
    pub is_computed: bool,
    /// Neither a card nor a cable is between its hosts.
    pub is_one_machine: bool,
    pub round_trips: Vec<RoundTrip>,
    pub splits: Vec<Split>,
}

impl Placed {
    pub fn round_trip(&self, application: &str, size: f64, side: CpuProgram) -> Option<&RoundTrip> {
        let is_it =
            |one: &&RoundTrip| (one.application, one.size, one.side) == (application, size, side);
        self.round_trips.iter().find(is_it)
    }

    pub fn split(&self, side: CpuProgram) -> Option<&Split> {
        self.splits.iter().find(|split| split.side == side)
    }
}

/// The published rows of table 2.
pub(crate) fn published() -> Vec<Placed> {
    let mut all: Vec<Placed> = Vec::new();
    for (application, _) in APPLICATIONS {
        for card in apsys22::round_trips(application) {
            let at = all.iter().position(|known| known.label == card.name);
            let at = at.unwrap_or_else(|| {
                all.push(published_row(&card.name));
                all.len() - 1
            });
            let sides = |(size, client, server): (f64, Option<f64>, Option<f64>)| {
                [(size, CpuProgram::Client, client), (size, CpuProgram::Server, server)]
            };
            let known = |(size, side, us): (f64, CpuProgram, Option<f64>)| {
                let values = vec![(0, 1e3 * us?)];
                Some(RoundTrip { application, size, side, part: None, values })
            };
            all[at].round_trips.extend(card.points.into_iter().flat_map(sides).filter_map(known));
        }
    }
    for row in apsys22::breakdowns() {
        let [Some(client), Some(server), Some(hardware), _] = row.us.map(|us| Some(1e3 * us?))
        else {
            continue;
        };
        let side = if row.of_client { CpuProgram::Client } else { CpuProgram::Server };
        let split = Split { side, client, server, hardware };
        let of = all.iter_mut().filter(|known| known.label == row.name);
        of.for_each(|known| known.splits.push(split));
    }
    all
}

/// Reads the name of a row, such as `BlueField2 (off-path mode), SNIC`.
fn published_row(name: &str) -> Placed {
    const OFF: &str = " (off-path mode)";
    let (card, cpu) = name.rsplit_once(", ").unwrap_or((name, ""));
    let way = match card {
        _ if card.ends_with(OFF) => Some(CpuPath::Off),
        // BlueField2 is in on-path mode unless named off-path.
        "BlueField2" => Some(CpuPath::On),
        _ => None,
    };
    Placed {
        label: name.to_owned(),
        card: card.trim_end_matches(OFF).to_owned(),
        cpu: cpu.to_lowercase().parse().ok(),
        way,
        ..Placed::default()
    }
}

/// The measured rows, by device.
fn measured(run: &Run, samples: &[Sample]) -> Vec<Placed> {
    let cells: Vec<(ExperimentKind, Cells<'_>)> = run
        .experiments
        .iter()
        .filter(|experiment| experiment.kind.of().has_messages())
        .map(|experiment| (experiment.kind, Cells::new(&experiment.name, samples).balanced()))
        .collect();
    let of = |device: &crate::run::RunDevice| {
        let placement = run.placement_of(&device.name);
        let card = device.about.facts.iter().find(|fact| fact.name == "card");
        let card = card.and_then(|fact| fact.value.split(',').next()).unwrap_or_default();
        Placed {
            label: device.name.clone(),
            card: card.to_owned(),
            cpu: placement.here,
            there: placement.there,
            way: placement.path,
            is_computed: device.about.in_virtual_time,
            is_one_machine: device.about.is_one_machine,
            round_trips: round_trips(&cells, &device.name, run.part_of(&device.name)),
            splits: splits(&cells, &device.name),
        }
    };
    run.devices.iter().map(of).collect()
}

/// The client's host in a point, and the side of the device that it is.
const CLIENTS: [(&str, CpuProgram); 2] =
    [("here", CpuProgram::Client), ("there", CpuProgram::Server)];

/// The cells of a device, each with its experiment.
fn of_device<'a>(
    cells: &'a [(ExperimentKind, Cells<'_>)],
    device: &'a str,
) -> impl Iterator<Item = (&'static dyn Experiment, &'a Cell<'a>)> {
    cells.iter().flat_map(move |(kind, cells)| {
        let of_device = cells.all().iter().filter(move |cell| cell.device == device);
        of_device.map(|cell| (kind.of(), cell))
    })
}

fn round_trips(
    cells: &[(ExperimentKind, Cells<'_>)],
    device: &str,
    part: Option<usize>,
) -> Vec<RoundTrip> {
    let of_cell = |(of, cell): (&dyn Experiment, _)| Some((of.published_round_trip(cell)?, cell));
    let of_all: Vec<_> = of_device(cells, device).filter_map(of_cell).collect();
    let mut all = Vec::new();
    for (application, _) in APPLICATIONS {
        for size in SIZES {
            for (client, side) in CLIENTS {
                let is_it = |((of, _), cell): &&((&str, &str), &Cell<'_>)| {
                    *of == application
                        && cell.is_at(&[("size", size)])
                        && cell.word("client") == client
                };
                // Of two experiments that measured it the first counts.
                let Some(((_, metric), cell)) = of_all.iter().find(is_it) else { continue };
                let value =
                    |sample: &&Sample| Some((sample.repeat, sample.metrics.get(*metric)?.value));
                let values: Vec<(u32, f64)> = cell.samples.iter().filter_map(value).collect();
                if !values.is_empty() {
                    all.push(RoundTrip { application, size, side, part, values });
                }
            }
        }
    }
    all
}

fn splits(cells: &[(ExperimentKind, Cells<'_>)], device: &str) -> Vec<Split> {
    let of_cell = |(of, cell): (&dyn Experiment, _)| Some((of.published_split(cell)?, cell));
    let of_all: Vec<_> = of_device(cells, device).filter_map(of_cell).collect();
    let of = |(client, side): (&str, CpuProgram)| {
        let found = of_all.iter().find(|(_, cell)| cell.word("client") == client)?;
        let [client, server, hardware] = found.0;
        Some(Split { side, client, server, hardware })
    };
    CLIENTS.into_iter().filter_map(of).collect()
}

/// Rows that were measured from the peer become the other direction of the only row that has the
/// labels of their server; where there is none, or several, they stay.
fn folded(mut all: Vec<Placed>) -> Vec<Placed> {
    let mut at = 0;
    while at < all.len() {
        let from = &all[at];
        let has_server = |row: &Placed| {
            row.round_trips.iter().any(|one| one.side == CpuProgram::Server)
                || row.splits.iter().any(|one| one.side == CpuProgram::Server)
        };
        let is_into = |row: &Placed| {
            from.cpu == Some(Cpu::Peer)
                && from.there.is_some_and(|cpu| cpu != Cpu::Peer)
                && (row.cpu, row.way) == (from.there, from.way)
                && !has_server(row)
        };
        let mut into = (0..all.len()).filter(|row| *row != at && is_into(&all[*row]));
        let (Some(into), None) = (into.next(), into.next()) else {
            at += 1;
            continue;
        };
        let from = all[at].clone();
        let round_trips = from.round_trips.into_iter().filter(|one| one.side == CpuProgram::Client);
        let flipped = round_trips.map(|one| RoundTrip { side: one.side.other(), ..one });
        all[into].round_trips.extend(flipped);
        let splits = from.splits.into_iter().filter(|one| one.side == CpuProgram::Client);
        all[into].splits.extend(splits.map(|one| Split { side: one.side.other(), ..one }));
        all.remove(at);
    }
    all
}

/// The rows of a merged run.
pub(crate) fn rows(run: &Run, samples: &[Sample]) -> Vec<Placed> {
    folded(measured(run, samples))
}

/// The tables of a merged run; `None` where it has no round trip that the study has.
pub(super) fn summary(run: &Run, samples: &[Sample]) -> Option<ExperimentSummary> {
    let measured = measured(run, samples);
    let mut tables = vec![side_by_side(&folded(measured.clone()))];
    tables.extend(APPLICATIONS.iter().map(|application| matrix(application, &measured)));
    tables.retain(|table| !table.rows.is_empty());
    (!tables.is_empty()).then(|| ExperimentSummary {
        name: "placement".into(),
        question: "On which CPU do client and server answer each other soonest?".into(),
        tables,
        ..ExperimentSummary::default()
    })
}

fn us(of: Option<&RoundTrip>) -> String {
    of.map_or("-".to_owned(), |one| format!("{:.2}", one.median() / 1e3))
}

/// The form of table 2, ours and the published rows.
fn side_by_side(rows: &[Placed]) -> ReportTable {
    let has = |application: &str| {
        let mut all = rows.iter().flat_map(|row| &row.round_trips);
        all.any(|one| one.application == application)
    };
    let shown: Vec<(&str, &str)> =
        APPLICATIONS.into_iter().filter(|(application, _)| has(application)).collect();
    let of = |row: &Placed, source: &str| {
        let cells = shown.iter().flat_map(|(application, _)| {
            SIZES.map(|size| {
                let [client, server] =
                    CpuProgram::BOTH.map(|side| us(row.round_trip(application, size, side)));
                format!("{client} ({server})")
            })
        });
        [row.label.clone()].into_iter().chain(cells).chain([source.to_owned()]).collect()
    };
    let mut all: Vec<Vec<String>> = Vec::new();
    if !shown.is_empty() {
        let ours = rows.iter().filter(|row| !row.round_trips.is_empty());
        let source = |row: &Placed| if row.is_computed { "computed" } else { "measured" };
        all.extend(ours.map(|row| of(row, source(row))));
        all.extend(published().iter().map(|row| of(row, "published")));
    }
    let heads = shown
        .iter()
        .flat_map(|(_, head)| SIZES.map(|size| format!("{head}, {} B, us", words::whole(size))));
    let columns: Vec<String> =
        ["placement".to_owned()].into_iter().chain(heads).chain(["source".to_owned()]).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = "Round trips of a client on the named CPU and, in parentheses, of a server on it, \
                 one request at a time (published: table 2 of the study)";
    table("placement", title, &columns, all)
}

/// Whose CPU the client had against whose the server had, as far as it was said.
fn matrix(application: &(&str, &str), measured: &[Placed]) -> ReportTable {
    const UNSAID: &str = "not said";
    let word = |cpu: Option<Cpu>| cpu.map_or(UNSAID.to_owned(), |cpu| cpu.to_string());
    let mut servers: Vec<String> = Cpu::NAMES.map(|(_, cpu)| cpu.to_string()).to_vec();
    servers.push(UNSAID.to_owned());
    let mut rows = Vec::new();
    for row in measured.iter().filter(|row| row.cpu.is_some()) {
        for side in CpuProgram::BOTH {
            let (client, server) = match side {
                CpuProgram::Client => (word(row.cpu), word(row.there)),
                // Where both are of one kind, the row that has them the other way round says so.
                CpuProgram::Server if row.cpu == row.there => {
                    (format!("{}, from there", word(row.there)), word(row.cpu))
                }
                CpuProgram::Server => (word(row.there), word(row.cpu)),
            };
            let both = SIZES.map(|size| row.round_trip(application.0, size, side));
            if both.iter().all(Option::is_none) {
                continue;
            }
            let both = both.map(us).join(" / ");
            let cell = |to: &String| if *to == server { both.clone() } else { "-".to_owned() };
            let head = [row.label.clone(), client];
            rows.push(head.into_iter().chain(servers.iter().map(cell)).collect::<Vec<_>>());
        }
    }
    // A column that nobody has is none.
    for at in (2..2 + servers.len()).rev() {
        if rows.iter().all(|row| row[at] == "-") {
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
            servers.remove(at - 2);
        }
    }
    let heads = servers.iter().map(|server| match server.as_str() {
        UNSAID => "server not said".to_owned(),
        server => format!("server on {server}"),
    });
    let columns: Vec<String> =
        ["measured as", "client on"].map(str::to_owned).into_iter().chain(heads).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let sizes = SIZES.map(|size| format!("{} B", words::whole(size))).join(" / ");
    let title =
        format!("Round trips of {} by the CPUs of client and server, us: {sizes}", application.1);
    table(&format!("placement-matrix-{}", application.0), &title, &columns, rows)
}

#[cfg(test)]
#[path = "placements_tests.rs"]
mod tests;
