//! What tables have is shown as it was said, and can be said again.

use niclab_program::{
    Change, ChangeError, Command, Entry, Invocation, Member, Part, Pipeline, Program, TablesFile,
    TablesText, read_tables,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const PROGRAM: &str = "
    struct ip_t {
        bit<48> mac
        bit<32> src
        bit<24> odd
        bit<128> six
        bit<16> port
    }
    header ipv4 instanceof ip_t
    struct m_t {
        bit<32> port
        bit<32> entry
        bit<128> wide
    }
    metadata instanceof m_t
    struct go_t {
        bit<32> port
        bit<48> mac
    }
    struct far_t {
        bit<64> number
    }
    struct wide_t {
        bit<128> wide
        bit<32> ip_to
    }
    action go args instanceof go_t {
        mov m.port t.port
        return
    }
    action far args instanceof far_t {
        return
    }
    action wide args instanceof wide_t {
        mov m.wide t.wide
        return
    }
    action none args none {
        return
    }
    action learn_it args none {
        learn none m.port
        return
    }
    table exact {
        key {
            h.ipv4.mac exact
            h.ipv4.odd exact
            m.wide exact
            m.port exact
        }
        actions {
            go
            far
            wide
            none
        }
        default_action none args none
        size 3000
    }
    table route {
        key {
            h.ipv4.port exact
            h.ipv4.six lpm
        }
        actions {
            go
            far
            wide
            none
        }
        default_action far args number 7
        size 3000
    }
    table acl {
        key {
            h.ipv4.src wildcard
            h.ipv4.port wildcard
            h.ipv4.odd exact
        }
        actions {
            go
            far
            wide
            none
        }
        default_action none args none const
        size 3000
    }
    table all {
        actions {
            far
        }
        default_action far args number 1
    }
    learner known {
        key {
            m.port
        }
        actions {
            none
            learn_it
        }
        default_action learn_it args none
        size 8
        timeout {
            60
        }
    }
    selector paths {
        group_id m.port
        selector {
            h.ipv4.src
        }
        member_id m.port
        n_groups_max 8
        n_members_per_group_max 4
    }
    apply {
        rx m.port
        extract h.ipv4
        table exact
        table route
        table acl
        table all
        table known
        ENTRY
        table paths
        emit h.ipv4
        tx m.port
    }";

/// The program, and the same with numbers of entries, which are kept otherwise.
fn programs() -> [Program; 2] {
    ["", "entryid m.entry"].map(|entry| {
        let text = PROGRAM.replace("ENTRY", entry);
        Program::read(&text).unwrap_or_else(|error| panic!("{error}"))
    })
}

fn tables(program: &Program) -> std::ops::Range<usize> {
    0..program.tables.len()
}

fn contents(pipeline: &Pipeline) -> Vec<Vec<Change>> {
    tables(pipeline.program()).map(|table| pipeline.content(table)).collect()
}

fn file(pipeline: &Pipeline) -> String {
    let mut text = TablesText::new(pipeline.program());
    contents(pipeline).iter().enumerate().for_each(|(table, of)| text.push(table, of));
    text.written()
}

fn said(pipeline: &mut Pipeline, lines: &[&str]) {
    let read = |line: &&str| Command::read(pipeline.program(), line).unwrap();
    let commands: Vec<Command> = lines.iter().map(read).collect();
    pipeline.tell(&commands, 0).unwrap();
}

#[test]
fn what_a_table_has_is_shown_as_commands_and_files_say_it() {
    let [program, _] = programs();
    let mut pipeline = Pipeline::new(program).unwrap();
    said(
        &mut pipeline,
        &[
            "add acl 7 src:10.0.0.0/8 odd:3 none()",
            "add acl odd:0x30000 port:0x0050&&&0x00f0 none()",
            "add acl 7 src:10.1.0.0/16 port:80 odd:3 wide(wide:0x10, ip_to:192.0.2.1)",
            "add exact mac:2 odd:9 wide:0xffffffffffffffff0 port:4 go(port:5, mac:6)",
            "add exact mac:1 odd:9 wide:1 port:4 far(number:0xffffffffffffffff)",
            "add route port:80 six:2001:db8::/32 none()",
            "setdefault all far(number:4)",
            "group paths 3 5 6:2",
            "group paths 1 9",
            "group paths 1",
        ],
    );
    let shown: Vec<String> = contents(&pipeline)
        .iter()
        .flatten()
        .map(|change| change.written(pipeline.program()))
        .collect();
    let wide = |number: &str| format!("m.wide:0x{number:0>32}");
    assert_eq!(
        shown,
        [
            "setdefault exact none()",
            &format!(
                "add exact h.ipv4.mac:00:00:00:00:00:01 h.ipv4.odd:9 {} m.port:4 \
                 far(number:18446744073709551615)",
                wide("1")
            ),
            &format!(
                "add exact h.ipv4.mac:00:00:00:00:00:02 h.ipv4.odd:9 {} m.port:4 \
                 go(port:5, mac:00:00:00:00:00:06)",
                wide("ffffffffffffffff0")
            ),
            "setdefault route far(number:7)",
            "add route h.ipv4.port:80 h.ipv4.six:2001:db8::/32 none()",
            "add acl h.ipv4.src:* h.ipv4.port:0x0050&&&0x00f0 h.ipv4.odd:196608 none()",
            "add acl 7 h.ipv4.src:10.0.0.0/8 h.ipv4.port:* h.ipv4.odd:3 none()",
            &format!(
                "add acl 7 h.ipv4.src:10.1.0.0/16 h.ipv4.port:80 h.ipv4.odd:3 \
                 wide(wide:0x{:0>32}, ip_to:192.0.2.1)",
                "10"
            ),
            "setdefault all far(number:4)",
            "setdefault known learn_it()",
            "group paths 3 5 6:2",
        ]
    );
    let file = file(&pipeline);
    for part in [
        r#"{"tables":{"exact":{"default":{"action":"none"},"entries":[{"key":{"#,
        r#""m.port":4},"action":"far","arguments":{"number":"18446744073709551615"}}"#,
        r#""priority":7,"action":"none"}"#,
        r#""all":{"default":{"action":"far","arguments":{"number":4}}}"#,
        r#""groups":{"paths":{"3":[5,{"member":6,"weight":2}]}}}"#,
    ] {
        assert!(file.contains(part), "`{part}` is missing in {file}");
    }
    // A constant default action is nobody's to say.
    assert!(file.contains(r#""acl":{"entries":[{"#), "{file}");
}

/// Entries of three tables, and what was done to them.
struct Model {
    entries: [Vec<Entry>; 3],
    rng: Xoshiro256PlusPlus,
}

impl Model {
    fn part(&mut self, len: usize, bits: u32) -> Part {
        // Few values, so that keys meet; each byte counts in some of them.
        let mut value = vec![0; len];
        value[self.rng.random_range(0..len)] = self.rng.random_range(1..3);
        Part::prefix(&value, bits)
    }

    fn key(&mut self, table: usize) -> Vec<Part> {
        let masked = [0, 8, 12, 32][self.rng.random_range(0..4)];
        match table {
            0 => vec![self.part(6, 48), self.part(3, 24), self.part(16, 128), self.part(4, 32)],
            1 => vec![self.part(2, 16), self.part(16, 4 * masked)],
            _ => {
                let port = self.part(2, 16);
                let port = Part::masked(&port.value, vec![self.rng.random(), 0xf0]);
                vec![self.part(4, masked), port, self.part(3, 24)]
            }
        }
    }

    fn does(&mut self) -> Invocation {
        let action = self.rng.random_range(0..4);
        let mut bytes = |len: usize| (0..len).map(|_| self.rng.random()).collect::<Vec<u8>>();
        let arguments = match action {
            0 => vec![bytes(4), bytes(6)],
            1 => vec![bytes(8)],
            2 => vec![bytes(16), bytes(4)],
            _ => vec![],
        };
        Invocation { action, arguments }
    }

    /// A change that can be carried out.
    fn change(&mut self) -> Change {
        let table = self.rng.random_range(0..3);
        let key = self.key(table);
        let priority = if table == 2 { self.rng.random_range(0..3) } else { 0 };
        let entry = Entry { key: key.clone(), priority, does: self.does() };
        let known = self.entries[table].iter().position(|of| of.key == key);
        match known {
            None => {
                self.entries[table].push(entry.clone());
                Change::Add { table, entry }
            }
            Some(at) if self.rng.random() => {
                self.entries[table].remove(at);
                Change::Delete { table, key }
            }
            Some(at) => {
                self.entries[table][at] = entry.clone();
                Change::Modify { table, entry }
            }
        }
    }

    /// What the tables are to have.
    fn shown(&self, table: usize) -> Vec<Entry> {
        let mut entries = self.entries[table].clone();
        match table {
            2 => entries.sort_by_key(|of| of.priority),
            _ => entries.sort_by_key(|of| {
                of.key.iter().map(|of| (of.value.clone(), of.mask.clone())).collect::<Vec<_>>()
            }),
        }
        entries
    }
}

#[test]
fn whatever_was_done_tables_show_what_they_have_and_can_be_told_it() {
    for (seed, program) in programs().into_iter().enumerate() {
        let mut pipeline = Pipeline::new(program.clone()).unwrap();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
        let mut model = Model { entries: Default::default(), rng };
        // A worker that passes now and then: cells are in places of entries until it has.
        let mut worker = pipeline.worker();
        for round in 0..200 {
            let count = model.rng.random_range(1..8);
            let changes: Vec<Change> = (0..count).map(|_| model.change()).collect();
            pipeline.change(&changes).unwrap();
            let group = model.rng.random_range(0..8);
            let members = (0..model.rng.random_range(0..4)).map(|id| Member { id, weight: id + 1 });
            let members: Vec<Member> = members.collect();
            pipeline
                .change(&[Change::Group { table: 5, group, members: members.clone() }])
                .unwrap();
            let there = pipeline.groups(5).into_iter().find(|(of, _)| *of == group);
            assert_eq!(there.map_or(vec![], |(_, members)| members), members);
            if round % 7 == 0 {
                worker.offline();
                pipeline.run_housekeeping(100);
                worker.online();
            }
            for table in 0..3 {
                let content = pipeline.content(table);
                let entries = content.into_iter().filter_map(|change| match change {
                    Change::Add { entry, .. } => Some(entry),
                    _ => None,
                });
                assert_eq!(entries.collect::<Vec<_>>(), model.shown(table), "round {round}");
            }
        }
        assert!(model.entries.iter().all(|of| of.len() > 20), "{:?}", model.entries);
        // Said again, by commands and by a file.
        let contents = contents(&pipeline);
        for change in contents.iter().flatten() {
            let line = change.written(&program);
            assert_eq!(
                Command::read(&program, &line),
                Ok(Command::Change(change.clone())),
                "{line}"
            );
        }
        let mut other = Pipeline::new(program.clone()).unwrap();
        let commands = read_tables(&program, &file(&pipeline)).unwrap();
        other.tell(&commands, 0).unwrap();
        assert_eq!(self::contents(&other), contents);
        assert_eq!(file(&other), file(&pipeline));
    }
}

#[test]
fn tables_become_what_a_file_says_and_stay_where_it_is_refused() {
    for (seed, program) in programs().into_iter().enumerate() {
        let mut pipeline = Pipeline::new(program.clone()).unwrap();
        let mut worker = pipeline.worker();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
        let mut model = Model { entries: Default::default(), rng };
        let mut kept = 0;
        for round in 0..60 {
            // Some of what is there goes, changes or moves, and some comes.
            for _ in 0..20 {
                model.change();
            }
            for table in 0..3 {
                let (a, b) = (model.rng.random::<u16>(), model.rng.random::<u16>());
                let len = model.entries[table].len().max(1);
                if model.entries[table].len() > 1 && round % 3 == 0 {
                    model.entries[table].swap(usize::from(a) % len, usize::from(b) % len);
                }
            }
            let changes = (0..3).flat_map(|table| {
                let add = |entry: &Entry| Change::Add { table, entry: entry.clone() };
                model.entries[table].iter().map(add).collect::<Vec<_>>()
            });
            let group = Change::Group {
                table: 5,
                group: round % 8,
                members: vec![Member { id: round, weight: 2 }],
            };
            let does = Invocation { action: 1, arguments: vec![vec![round as u8; 8]] };
            let default = (round % 2 == 0).then_some(Change::Default { table: 1, does });
            let changes: Vec<Change> = changes.chain([group]).chain(default).collect();
            let commands: Vec<Command> = changes.into_iter().map(Command::Change).collect();
            let file = TablesFile { commands, tables: vec![0, 1, 2, 4, 5] };
            let before = contents(&pipeline);
            // A key that is there twice, in the last table.
            let mut wrong = file.clone();
            let last = model.entries[2][0].clone();
            wrong.commands.push(Command::Change(Change::Add { table: 2, entry: last }));
            let refused = pipeline.replace(&wrong, 0);
            assert!(matches!(refused, Err(ChangeError::Twice { .. })), "{refused:?}");
            assert_eq!(contents(&pipeline), before);
            let replaced = pipeline.replace(&file, 0).unwrap();
            kept += replaced.kept;
            let mut fresh = Pipeline::new(program.clone()).unwrap();
            fresh.tell(&file.commands, 0).unwrap();
            assert_eq!(contents(&pipeline), contents(&fresh), "round {round}");
            let all: usize = (0..3).map(|table| model.entries[table].len()).sum();
            assert_eq!(replaced.added + replaced.changed + replaced.kept, all);
            let again = pipeline.replace(&file, 0).unwrap();
            assert_eq!((again.kept, again.added, again.changed, again.deleted), (all, 0, 0, 0));
            worker.offline();
            pipeline.run_housekeeping(100);
            worker.online();
        }
        assert!(kept > 1_000, "{kept}");
        // A table that is not named stays, one that is named with nothing becomes empty.
        said(&mut pipeline, &["setdefault all far(number:4)"]);
        let text = r#"{ "tables": { "acl": {} }, "groups": { "paths": {} } }"#;
        let before = contents(&pipeline);
        pipeline.replace(&TablesFile::read(&program, text).unwrap(), 0).unwrap();
        let empty = vec![Vec::new(); before.len()];
        let mut wanted = before.clone();
        wanted[2] = empty[2].clone();
        wanted[5] = empty[5].clone();
        assert_eq!(contents(&pipeline), wanted);
    }
}

#[test]
fn of_a_group_that_is_said_twice_the_last_counts_also_where_it_is_what_was_there() {
    for program in programs() {
        let mut pipeline = Pipeline::new(program.clone()).unwrap();
        let nine = vec![(3, vec![Member { id: 9, weight: 1 }])];
        let files = [r#""3": [9]"#, r#""0x3": [5], "3": [9]"#];
        for groups in files {
            let text = format!(r#"{{ "groups": {{ "paths": {{ {groups} }} }} }}"#);
            pipeline.replace(&TablesFile::read(&program, &text).unwrap(), 0).unwrap();
            assert_eq!(pipeline.groups(5), nine, "{text}");
        }
    }
}
