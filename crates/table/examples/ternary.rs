//! Ternary match with priorities: a small firewall, whose rules change in place.
//!
//! `cargo run -p niclab-table --example ternary`

use std::error::Error;

use niclab_table::{Field, QsbrDomain, Ternary, TernaryConfig, TernaryRule, pack_key};

/// What rules say; a rule's value is the place of one of them.
const ACTIONS: [&str; 3] = ["drop", "queue 1", "queue 2"];
const DROP: u32 = 0;
const QUEUE_1: u32 = 1;
const QUEUE_2: u32 = 2;

/// A key of two addresses and a port, in network order; 10 bytes fit two words.
fn key(source: [u8; 4], target: [u8; 4], port: u16) -> [u64; 2] {
    let [high, low] = port.to_be_bytes();
    let ([a, b, c, d], [e, f, g, h]) = (source, target);
    pack_key(&[a, b, c, d, e, f, g, h, high, low]).unwrap_or_default()
}

/// The mask of two prefixes, and of the port or nothing of it.
fn mask(source: u32, target: u32, has_port: bool) -> [u64; 2] {
    let ones = |length: u32| (!u32::MAX.checked_shr(length).unwrap_or(0)).to_be_bytes();
    key(ones(source), ones(target), if has_port { u16::MAX } else { 0 })
}

fn main() -> Result<(), Box<dyn Error>> {
    // What tells rules under different masks apart: the addresses and the port.
    let fields = &[Field::bytes(0, 4), Field::bytes(4, 4), Field::bytes(8, 2)];
    let domain = QsbrDomain::new();
    let config = TernaryConfig { capacity_max: 10_000, fields, seed: 42 };
    let mut table = Ternary::<2>::new(config, &domain)?;

    let all = TernaryRule { key: [0; 2], mask: [0; 2], priority: 100, value: DROP };
    let (web, web_mask) = (key([0; 4], [10, 0, 0, 1], 80), mask(0, 32, true));
    let web = TernaryRule { key: web, mask: web_mask, priority: 10, value: QUEUE_1 };
    let (net, net_mask) = (key([192, 168, 0, 0], [10, 0, 0, 0], 0), mask(16, 8, false));
    let net = TernaryRule { key: net, mask: net_mask, priority: 5, value: QUEUE_2 };
    for rule in [&all, &web, &net] {
        table.insert(rule)?;
    }

    // For another thread; here one after the other.
    let (mut reader, mut participant) = (table.reader(), domain.register_reader());
    let packets = [
        key([1, 2, 3, 4], [10, 0, 0, 1], 80),
        key([192, 168, 7, 7], [10, 0, 0, 1], 80),
        key([1, 2, 3, 4], [10, 0, 0, 2], 80),
    ];
    let mut hits = [None; 3];
    reader.lookup_bulk(&participant, &packets, &mut hits);
    let said = hits.map(|hit| hit.map_or("no rule", |hit| ACTIONS[hit.value as usize]));
    assert_eq!(said, ["queue 1", "queue 2", "drop"]);
    participant.quiescent();

    // Another mask, priority and action at one instant: no packet meets both rules, or neither.
    let wider = TernaryRule { mask: mask(0, 24, false), priority: 1, value: QUEUE_2, ..web };
    assert!(table.replace(&web, &wider)?);
    reader.lookup_bulk(&participant, &packets, &mut hits);
    assert!(hits.iter().flatten().all(|hit| hit.value == QUEUE_2));
    println!("{said:?}, and then all {}", ACTIONS[QUEUE_2 as usize]);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
