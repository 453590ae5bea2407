//! Exact match in bulk: one thread adds and removes flows, another one looks bursts of packets up.
//!
//! `cargo run -p niclab-table --example exact`

use std::error::Error;

use niclab_table::{BURST_MAX, Config, Exact, QsbrDomain, pack_key};

/// A flow: two addresses, two ports, a protocol. 13 bytes fit two words.
fn flow(number: u32) -> Option<[u64; 2]> {
    let [a, b, c, d] = number.to_be_bytes();
    pack_key(&[10, b, c, d, 10, 0, 0, 1, 0x40 | a, 0, 0, 80, 6])
}

fn main() -> Result<(), Box<dyn Error>> {
    const FLOWS: u32 = 100_000;
    let domain = QsbrDomain::new();
    let mut table = Exact::<2>::new(Config::growing(1_000_000, 42), &domain)?;
    for number in 0..FLOWS {
        let key = flow(number).ok_or("at most 16 bytes")?;
        table.insert(&key, u64::from(number))?;
    }

    let (reader, mut participant) = (table.reader(), domain.register_reader());
    let thread = std::thread::spawn(move || {
        let (mut found, mut first) = (0, None);
        for burst in 0..FLOWS / 32 {
            // Half of the packets are of flows that the table does not have.
            let numbers = (0..BURST_MAX as u32).map(|at| burst * 64 + at);
            let keys: Vec<[u64; 2]> = numbers.filter_map(flow).collect();
            let mut values = [0; BURST_MAX];
            let hits = reader.lookup_bulk(&participant, &keys, &mut values);
            found += hits.count_ones();
            first = first.or((hits & 1 == 1).then_some(values[0]));
            // Between two bursts: nothing that was looked up is in use any more.
            participant.quiescent();
        }
        (found, first)
    });
    let (found, first) = thread.join().map_err(|_| "the reader failed")?;
    assert_eq!((found, first), (FLOWS, Some(0)));

    // One store each, which a reader sees or does not see yet.
    let key = flow(7).ok_or("at most 16 bytes")?;
    assert_eq!(table.update(&key, 70), Some(7));
    assert_eq!(table.remove(&key), Some(70));

    // Keys of any length, as bytes.
    let mut names = Exact::<3>::new(Config::growing(1_000, 42), &domain)?;
    names.insert_bytes(b"www.example.org", 1)?;
    names.insert_bytes(b"example.org", 2)?;
    assert_eq!(names.reader().lookup_bytes(&domain.register_reader(), b"example.org"), Some(2));
    println!("{found} packets of {FLOWS} flows; {} flows are left", table.len());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
