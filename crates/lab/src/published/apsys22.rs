//! Published round trips of SmartNICs, to draw beside ours.
//!
//! Source: Xing et al., APSys 2022, tables 1 to 3 (`reference/apsys22/README.md` says how they were
//! read, and why the two directions of some rows are best taken as a set).

use niclab_device::model::pcie::PciExpress;
use niclab_result::{Mean, Origin, Series, SeriesShape};

/// Table 2: `nic,cpu,workload,message_size,direction,rtt,unit`.
const TABLE_2: &str = include_str!("../../../../reference/apsys22/table2_rtt.csv");

/// Round trips of one workload on one card.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrips {
    /// Card and CPU, such as `BlueField2, SNIC`.
    pub name: String,
    /// Length of the message in bytes, round trip in microseconds of a client and of a server on
    /// the listed CPU.
    pub points: Vec<(f64, Option<f64>, Option<f64>)>,
}

/// The rows of a workload, such as `udp_echo`, in the order of the table.
pub fn round_trips(workload: &str) -> Vec<RoundTrips> {
    let mut all: Vec<RoundTrips> = Vec::new();
    for row in TABLE_2.lines().skip(1).filter_map(|line| row(line, workload)) {
        let at = all.iter().position(|known| known.name == row.name).unwrap_or_else(|| {
            all.push(RoundTrips { name: row.name.clone(), points: Vec::new() });
            all.len() - 1
        });
        let points = &mut all[at].points;
        let at = points.iter().position(|(size, ..)| *size == row.size).unwrap_or_else(|| {
            points.push((row.size, None, None));
            points.len() - 1
        });
        match row.of_client {
            true => points[at].1 = Some(row.rtt_us),
            false => points[at].2 = Some(row.rtt_us),
        }
    }
    all
}

/// Table 1: `nic,attribute,value`.
const TABLE_1: &str = include_str!("../../../../reference/apsys22/table1_specifications.csv");

/// The bus of a card, by its name in table 2; `None` where table 1 says nothing of it.
pub fn bus(card: &str) -> Option<PciExpress> {
    let of = |line: &'static str| {
        let mut cells = line.split(',');
        let (nic, attribute, value) = (cells.next()?, cells.next()?, cells.next()?);
        // `Stingray PS225`, `8x PCIe Gen 3`.
        let is_it = nic.split(' ').next() == Some(card) && attribute == "Host IF";
        let (lanes, generation) = value.split_once("x PCIe Gen ").filter(|_| is_it)?;
        PciExpress::new(generation.parse().ok()?, lanes.parse().ok()?)
    };
    TABLE_1.lines().find_map(of)
}

/// Table 3: `nic,cpu,component,direction,value,unit`.
const TABLE_3: &str = include_str!("../../../../reference/apsys22/table3_breakdown.csv");

/// The breakdown of a published round trip of 1024 B.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// Card and CPU.
    pub name: String,
    /// The client ran on the listed CPU, not the server.
    pub of_client: bool,
    /// Client software, server software, hardware and round trip, microseconds.
    pub us: [Option<f64>; 4],
}

/// The rows of table 3, in its order.
pub fn breakdowns() -> Vec<Breakdown> {
    let mut all: Vec<Breakdown> = Vec::new();
    for line in TABLE_3.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [nic, cpu, component, direction, value, "us"] = cells[..] else { continue };
        let (name, of_client) = (format!("{nic}, {cpu}"), direction == "client_on_listed_cpu");
        let components = ["client_software", "server_software", "hardware", "rtt"];
        let Some(at) = components.iter().position(|known| *known == component) else { continue };
        let same = |known: &Breakdown| known.name == name && known.of_client == of_client;
        let row = all.iter().position(same).unwrap_or_else(|| {
            all.push(Breakdown { name: name.clone(), of_client, us: [None; 4] });
            all.len() - 1
        });
        all[row].us[at] = value.parse().ok();
    }
    all
}

struct CsvRow {
    name: String,
    size: f64,
    of_client: bool,
    rtt_us: f64,
}

fn row(line: &str, wanted: &str) -> Option<CsvRow> {
    let cells: Vec<&str> = line.split(',').collect();
    let [nic, cpu, workload, size, direction, rtt, "us"] = cells[..] else { return None };
    let size = match size {
        "64B" => 64.0,
        // 1KB = 1024 B in the text.
        "1KB" => 1024.0,
        _ => return None,
    };
    (workload == wanted).then_some(CsvRow {
        name: format!("{nic}, {cpu}"),
        size,
        of_client: direction == "client_on_listed_cpu",
        rtt_us: rtt.parse().ok()?,
    })
}

/// Curves of a workload over the length of its messages: microseconds of a client on the listed
/// CPU.
pub fn series(workload: &str) -> Vec<Series> {
    let of = |card: RoundTrips| {
        let point = |(x, y, _): (f64, Option<f64>, Option<f64>)| {
            Some(Mean { x, y: y?, repeats: 1, ..Mean::default() })
        };
        let name = format!("{} (published)", card.name);
        let points: Vec<Mean> = card.points.into_iter().filter_map(point).collect();
        let (device, shape) = (name.clone(), SeriesShape::Line);
        Series { name, device, origin: Origin::Published, shape, hue: None, points }
    };
    round_trips(workload).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_every_published_round_trip_add_up() {
        let all = breakdowns();
        assert_eq!(all.len(), 10);
        for Breakdown { name, us, .. } in &all {
            let [Some(client), Some(server), Some(hardware), Some(rtt)] = us else {
                panic!("{name}: {us:?}");
            };
            assert!((client + server + hardware - rtt).abs() < 0.051, "{name}: {us:?}");
        }
    }

    #[test]
    fn buses_are_those_of_table_1() {
        let known = ["Stingray", "BlueField2", "CX-4Lx"].map(bus);
        assert_eq!(known, [PciExpress::new(3, 8), PciExpress::new(4, 16), None]);
    }

    #[test]
    fn the_table_is_read_as_it_was_printed() {
        let echo = round_trips("udp_echo");
        let names: Vec<&str> = echo.iter().map(|card| card.name.as_str()).collect();
        assert_eq!(names.len(), 7, "{names:?}");
        assert_eq!(echo[0].name, "CX-4Lx, host");
        assert_eq!(
            echo[0].points,
            [(64.0, Some(18.22), Some(18.42)), (1024.0, Some(23.28), Some(22.42))]
        );
        assert!(echo.iter().all(|card| card.points.len() == 2));
        // A function is given with the server on the listed CPU alone.
        let functions = round_trips("openlambda");
        assert!(functions.iter().all(|card| card.points.iter().all(|point| point.1.is_none())));
        assert!(series("openlambda").iter().all(|series| series.points.is_empty()));
    }
}
