//! The input of the pipeline; and, where it was built, that both send the same packets.

use super::*;
use crate::cases::Case;
use crate::face::measured;

/// The device, or why it is left out.
fn pipeline() -> Result<Box<dyn Testbed>, String> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    open(&format!("swx:{}", built.display())).map_err(|error| error.to_string())
}

fn asked(case: Case, count: u32, entries: u32) -> Processing {
    let program = Loaded { case, count, entries };
    Processing { program, duration_ns: 1, warmup_ns: 0 }
}

#[test]
fn entries_are_written_as_the_pipeline_reads_them() {
    let first = |case, table| {
        let prepared = Loaded { case, count: 1, entries: 1 }.prepare().unwrap();
        let lines = lines(&prepared, table).unwrap();
        lines.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(Case::Router, 0), "match 0x1000000/0xffffff00 action route next_hop 0x0");
    let hop = "match 0x0 action hop dst 0x20100000000 src 0x20000000001 port 0x1";
    assert_eq!(first(Case::Router, 1), hop);
    let wildcard = first(Case::Wildcard, 0);
    assert!(wildcard.starts_with("match 0xa000000/0xffffffff 0x"), "{wildcard}");
    assert!(wildcard.contains("/0xfffffff0 priority 0 action found value 0x"), "{wildcard}");
    assert_eq!(first(Case::LoadBalancer, 2), "group 0 member 1 weight 1");
}

#[test]
fn meters_that_it_has_no_words_for_are_refused() {
    let prepared = Loaded { case: Case::RateLimiter, count: 1, entries: 1 }.prepare().unwrap();
    assert_eq!(lines(&prepared, 0).unwrap_err().to_string(), "not supported: rates of meters");
}

#[test]
fn a_directory_without_its_program_is_none() {
    let absent = open("swx:/no/such/directory").err().map(|error| error.to_string());
    let message = "/no/such/directory/spec not found: benches/peers/build builds DPDK's SWX \
                pipeline, which runs the same programs";
    assert_eq!(absent.as_deref(), Some(message));
}

#[test]
fn both_send_the_same_packets() {
    let mut swx = match pipeline() {
        Ok(swx) => swx,
        Err(reason) => {
            println!("SKIP both_send_the_same_packets: {reason}");
            return;
        }
    };
    let mut soft = crate::open("soft").unwrap();
    for (case, count, entries) in [
        (Case::Router, 1, 1_000),
        (Case::LoadBalancer, 1, 1_000),
        (Case::Headers, 4, 0),
        (Case::Exact, 2, 1_000),
        (Case::Lpm, 2, 1_000),
        (Case::Wildcard, 2, 64),
        (Case::Moves, 5, 0),
        (Case::Adds, 5, 0),
        (Case::Checksums, 5, 0),
        (Case::Registers, 5, 0),
    ] {
        let asked = asked(case, count, entries);
        let [ours, theirs] =
            [&mut soft, &mut swx].map(|bed| measured::program(&mut **bed, &asked).unwrap());
        assert_eq!(ours.digest, theirs.digest, "{case:?}");
        assert_eq!((ours.lost, theirs.lost), (0, 0), "{case:?}");
        assert_eq!(theirs.stretches_ns.len(), ours.stretches_ns.len(), "{case:?}");
    }
    let many = measured::program(&mut *swx, &asked(Case::Exact, 8, 8_193)).unwrap_err().to_string();
    assert_eq!(many, "not supported: more than 65536 entries of a program");
    let refused = measured::program(&mut *swx, &asked(Case::Acl, 1, 16)).unwrap_err().to_string();
    let message = "not supported: program acl (SWX says: Table configuration error)";
    assert_eq!(refused, message);
}
