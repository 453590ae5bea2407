//! Rows of a merged run, and the tables they make.

use super::*;
use crate::simulated::cell_at;

fn trip(size: f64, side: CpuProgram, us: f64) -> RoundTrip {
    let values = vec![(0, 1e3 * us)];
    RoundTrip { application: "udp_echo", size, side, part: Some(0), values }
}

fn row(label: &str, cpu: Cpu, there: Option<Cpu>, trips: &[RoundTrip]) -> Placed {
    Placed {
        label: label.to_owned(),
        cpu: Some(cpu),
        there,
        way: Some(CpuPath::On),
        round_trips: trips.to_vec(),
        splits: vec![Split { side: CpuProgram::Client, client: 1.0, server: 2.0, hardware: 3.0 }],
        ..Placed::default()
    }
}

#[test]
fn the_published_table_is_laid_out_as_it_was_printed() {
    let published = published();
    assert_eq!(published.len(), 7);
    let table = side_by_side(&published);
    let at = |label: &str, column: &str| {
        cell_at(&table, &[("placement", label), ("source", "published")], column)
    };
    assert_eq!(at("CX-4Lx, host", "UDP echo, 64 B, us"), "18.22 (18.42)");
    assert_eq!(at("BlueField2, SNIC", "memcached, 1,024 B, us"), "73.25 (75.81)");
    assert_eq!(at("BlueField2 (off-path mode), host", "Redis, 64 B, us"), "43.71 (39.49)");
    assert_eq!(at("Stingray, SNIC", "function, 64 B, us"), "- (2519.00)");
    let reported = |at: usize| (published[at].card.as_str(), published[at].cpu, published[at].way);
    assert_eq!(reported(2), ("Stingray", Some(Cpu::Snic), None));
    assert_eq!(reported(3), ("BlueField2", Some(Cpu::Host), Some(CpuPath::On)));
    assert_eq!(reported(6), ("BlueField2", Some(Cpu::Snic), Some(CpuPath::Off)));
    assert_eq!(published.iter().map(|row| row.splits.len()).sum::<usize>(), 10);
}

#[test]
fn a_measurement_from_the_peer_is_the_other_direction_of_its_server() {
    let host = row("host", Cpu::Host, Some(Cpu::Peer), &[trip(64.0, CpuProgram::Client, 20.0)]);
    let snic = row("snic", Cpu::Snic, Some(Cpu::Peer), &[trip(64.0, CpuProgram::Client, 30.0)]);
    let peer = row("peer", Cpu::Peer, Some(Cpu::Snic), &[trip(64.0, CpuProgram::Client, 40.0)]);
    let rows = folded(vec![peer.clone(), host.clone(), snic.clone()]);
    assert_eq!(rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>(), ["host", "snic"]);
    let table = side_by_side(&rows);
    let at = |label: &str| {
        cell_at(&table, &[("placement", label), ("source", "measured")], "UDP echo, 64 B, us")
    };
    assert_eq!([at("host"), at("snic")], ["20.00 (-)", "30.00 (40.00)"]);
    assert_eq!(
        rows[1].split(CpuProgram::Server).unwrap().client,
        1.0,
        "the client's stays the client's"
    );

    // With two rows that it could be of, or one that has this direction, it stays a row of its own.
    let other = Placed { label: "other".into(), ..snic.clone() };
    assert_eq!(folded(vec![peer.clone(), snic.clone(), other]).len(), 3);
    let full = row("snic", Cpu::Snic, None, &[trip(64.0, CpuProgram::Server, 9.0)]);
    assert_eq!(folded(vec![peer.clone(), full]).len(), 2);
    let off = Placed { way: Some(CpuPath::Off), ..snic };
    assert_eq!(folded(vec![peer, off]).len(), 2, "another way is another place");
}

#[test]
fn the_matrix_has_the_cpus_that_were_said() {
    let both = [trip(64.0, CpuProgram::Client, 30.0), trip(64.0, CpuProgram::Server, 40.0)];
    let inside = row("inside", Cpu::Host, Some(Cpu::Snic), &both);
    let unsaid = row("unsaid", Cpu::Snic, None, &[trip(1024.0, CpuProgram::Client, 50.0)]);
    let nobody = Placed { cpu: None, ..row("nobody", Cpu::Host, None, &both) };
    let one = row("one", Cpu::Host, Some(Cpu::Host), &both);
    let table = matrix(&APPLICATIONS[0], &[inside, unsaid, nobody, one]);
    let servers = ["server on host", "server on SNIC", "server not said"];
    assert_eq!(table.columns, [&["measured as", "client on"][..], &servers].concat());
    let rows = [
        ["inside", "host", "-", "30.00 / -", "-"],
        ["inside", "SNIC", "40.00 / -", "-", "-"],
        ["unsaid", "SNIC", "-", "-", "- / 50.00"],
        ["one", "host", "30.00 / -", "-", "-"],
        ["one", "host, from there", "40.00 / -", "-", "-"],
    ];
    assert_eq!(table.rows, rows);
    assert!(matrix(&APPLICATIONS[1], &[]).rows.is_empty());
}
