//! Prepared programs load, have tables of the right size, and forward their packets.

use std::collections::HashSet;

use niclab_program::{Change, Execution, Fate, Kind, Single, Table};

use super::*;

/// A case of this name with so many of what grows, and entries where it has any.
fn loaded(case: Case, count: u32, entries: u32) -> Loaded {
    Loaded { case, count, entries: entries.min(case.entries_max()) }
}

/// Every case, small and as large as it may be, but for entries.
fn all() -> impl Iterator<Item = Loaded> {
    Case::ALL.into_iter().flat_map(|(_, case)| {
        let (min, max) = case.counts();
        [(min, 1), (max, 1_000)].map(|(count, entries)| loaded(case, count, entries))
    })
}

#[test]
fn names_are_their_own() {
    for (name, case) in Case::ALL {
        assert_eq!(case.name(), name);
        assert_eq!(serde_json::to_string(&case).unwrap(), format!("{name:?}"));
    }
}

#[test]
fn every_text_is_read_and_what_is_written_of_it_reads_the_same() {
    for of in all() {
        let program = Program::read(&of.text().unwrap()).unwrap();
        let again = Program::read(&program.to_string()).unwrap();
        assert_eq!(program, again, "{of:?}");
    }
}

#[test]
fn every_packet_of_every_case_is_forwarded() {
    for of in all() {
        let Prepared { program, commands, frames, .. } = of.prepare().unwrap();
        let mut execution = Single::new(program).unwrap();
        for command in &commands {
            execution.tell(command).unwrap_or_else(|error| panic!("{of:?}: {error}"));
        }
        for frame in &frames[..500] {
            let outcome = execution.run(0, frame);
            let is_right = match of.case {
                Case::KvsSteering => matches!(outcome.fate, Fate::Queue(0..16)),
                Case::KvsItems => outcome.fate == Fate::Back,
                _ => matches!(outcome.fate, Fate::Port(_)),
            };
            assert!(is_right, "{of:?}: {:?}", outcome.fate);
        }
    }
}

#[test]
fn all_entries_are_there_and_different() {
    for (_, case) in Case::ALL {
        let most = case.entries_max().min(100_000);
        if case == Case::LoadBalancer || most == 0 {
            continue;
        }
        let Prepared { program, commands, .. } = loaded(case, 1, most).prepare().unwrap();
        let mut keys: Vec<HashSet<_>> = program.tables.iter().map(|_| HashSet::new()).collect();
        for command in commands {
            let Command::Change(Change::Add { table, entry }) = command else {
                continue;
            };
            assert!(keys[table].insert(entry.key), "{case:?}: a key twice");
        }
        assert!(keys.iter().any(|keys| keys.len() == most as usize), "{case:?}");
    }
}

#[test]
fn a_table_of_a_million_entries_has_as_many() {
    for case in [Case::Exact, Case::Lpm, Case::Wildcard] {
        let keys: HashSet<_> = (0..ENTRIES_MAX)
            .map(|entry| {
                let (value, mask) = grown::key(case, entry);
                ([value[0] & mask[0], value[1] & mask[1]], mask)
            })
            .collect();
        assert_eq!(keys.len(), ENTRIES_MAX as usize, "{case:?}");
    }
}

#[test]
fn the_requested_part_of_a_program_grows() {
    for count in 1..=COUNT_MAX {
        let program = |case| loaded(case, count, 16).prepare().unwrap().program;
        let headers = program(Case::Headers).cost();
        assert_eq!(headers.emitted_headers, u64::from(count));
        assert_eq!(headers.extracted_bytes, 14 + 4 * (u64::from(count) - 1));
        for case in [Case::Exact, Case::Lpm, Case::Wildcard] {
            let program = program(case);
            assert_eq!(program.cost().lookups, u64::from(count));
            let is_matched = |table: &Table| match &table.kind {
                Kind::Match { key, .. } => !key.is_empty(),
                _ => false,
            };
            assert!(program.tables.iter().all(|table| is_matched(table) && table.size == 16));
        }
    }
    for (_, case) in Case::ALL {
        if case.counts().1 != INSTRUCTIONS_MAX {
            continue;
        }
        let of = |count| loaded(case, count, 0).prepare().unwrap().program.cost().instructions;
        assert_eq!(of(64) - of(1), 63, "{case:?}");
    }
}

#[test]
fn packets_are_short_and_many() {
    for of in all() {
        let frames = packets::frames(of).unwrap();
        assert_eq!(frames.len(), PACKETS);
        let len = match of.case {
            Case::KvsSteering => 106,
            Case::KvsItems => 178,
            _ => 60,
        };
        assert!(frames.iter().all(|frame| frame.len() == len), "{of:?}");
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let message =
        |case, count, entries| Loaded { case, count, entries }.text().unwrap_err().to_string();
    assert_eq!(message(Case::Headers, 9, 0), "headers: count = 9: use 1 to 8");
    assert_eq!(message(Case::Headers, 1, 1), "headers: entries = 1: use 0 to 0");
    assert_eq!(message(Case::Moves, 0, 0), "moves: count = 0: use 1 to 64");
    assert_eq!(message(Case::Acl, 2, 1), "acl: count = 2: use 1 to 1");
    assert_eq!(message(Case::Acl, 1, 4_097), "acl: entries = 4097: use 1 to 4096");
    assert_eq!(message(Case::Exact, 1, 0), "exact: entries = 0: use 1 to 1048576");
}
