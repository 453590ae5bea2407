//! Files of tables: what they say, and where they are wrong.

use niclab_program::{Change, Command, Program, read_tables};

const PROGRAM: &str = "
    struct h_t {
        bit<48> dst
        bit<32> ip
    }
    header h instanceof h_t
    struct m_t {
        bit<32> port
    }
    metadata instanceof m_t
    struct go_t {
        bit<32> port
    }
    action go args instanceof go_t {
        return
    }
    action drop args none {
        drop
    }
    table stations {
        key {
            h.h.dst exact
        }
        actions {
            go
            drop
        }
        default_action drop args none
    }
    table acl {
        key {
            h.h.ip wildcard
        }
        actions {
            drop
        }
        default_action drop args none const
    }
    selector paths {
        group_id m.port
        selector {
            h.h.ip
        }
        member_id m.port
        n_groups_max 4
        n_members_per_group_max 4
    }
    regarray count size 4 initval 0
    metarray rates size 4
    apply {
        rx m.port
        tx m.port
    }";

fn program() -> Program {
    Program::read(PROGRAM).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_part_becomes_the_command_that_says_the_same() {
    let text = r#"{
        "tables": {
            "stations": {
                "default": { "action": "go", "arguments": { "port": 9 } },
                "entries": [
                    { "key": { "h.h.dst": "02:00:00:00:00:01" },
                      "action": "go", "arguments": { "port": "0x3" } }
                ]
            },
            "acl": { "entries": [
                { "key": { "ip": "10.0.0.0/8" }, "priority": 4, "action": "drop" }
            ] }
        },
        "groups": { "paths": { "1": [5, { "member": 6, "weight": 2 }] } },
        "registers": { "count": { "2": 7 } },
        "meters": { "rates": { "0": { "committed": 1, "committed_burst": 2,
                                      "peak": 3, "peak_burst": 4 } } },
        "sessions": { "1": { "port": 2 }, "2": { "port": 3, "length": 64 } },
        "multicast": { "7": [1, 63], "8": [] }
    }"#;
    let program = program();
    // Members of an object come in the order of their names.
    let lines = [
        "add acl 4 ip:10.0.0.0/8 drop()",
        "setdefault stations go(port:9)",
        "add stations dst:02:00:00:00:00:01 go(port:3)",
        "group paths 1 5 6:2",
        "register_write count 2 7",
        "meter_set_rates rates 0 1 2 3 4",
        "mirroring_add 1 2",
        "mirroring_add 2 3 64",
        "multicast_group 7 1 63",
        "multicast_group 8",
    ];
    let same: Vec<Command> =
        lines.iter().map(|line| Command::read(&program, line).unwrap()).collect();
    assert_eq!(read_tables(&program, text).unwrap(), same);
    assert!(matches!(same[0], Command::Change(Change::Add { table: 1, .. })));
    assert_eq!(read_tables(&program, "{}").unwrap(), []);
}

#[test]
fn what_is_wrong_is_said_at_its_place() {
    let program = program();
    let stations =
        |entry: &str| format!(r#"{{"tables": {{"stations": {{"entries": [{{{entry}}}]}}}}}}"#);
    for (entry, place, said) in [
        (r#""action": "drop""#, "", "the field `key` is missing"),
        (r#""key": {"h.h.src": 1}, "action": "drop""#, "", "expected a field of the key: h.h.dst"),
        (r#""key": {"dst": [1]}, "action": "drop""#, ".key.dst", "expected a number or a string"),
        (r#""key": {"dst": "1 go()"}, "action": "drop""#, ".key.dst", "expected a value, found"),
        (
            r#""key": {"dst": "0x1000000000000"}, "action": "drop""#,
            "",
            "expected a value of 48 bits",
        ),
        (r#""key": {"dst": 1}, "action": "fly""#, "", "expected an action of this table: go, drop"),
        (r#""key": {"dst": 1}, "action": "go""#, "", "the argument `port` is missing"),
    ] {
        let error = read_tables(&program, &stations(entry)).expect_err(entry);
        assert_eq!(error.place, format!("tables.stations.entries[0]{place}"), "{entry}: {error}");
        assert!(error.reason.starts_with(said), "{entry}: {error}");
    }
    for (text, place, said) in [
        ("{", "the file", "it is no JSON"),
        ("[]", "the file", "expected an object"),
        (r#"{"table": {}}"#, "the file", "unknown field `table`"),
        (r#"{"tables": []}"#, "tables", "expected an object"),
        (
            r#"{"tables": {"stats": {"default": {"action": "go"}}}}"#,
            "tables.stats.default",
            "expected a table: stations",
        ),
        (
            r#"{"tables": {"stations": {"entires": []}}}"#,
            "tables.stations",
            "unknown field `entires`",
        ),
        (
            r#"{"tables": {"stations": {"entries": {}}}}"#,
            "tables.stations.entries",
            "expected a list",
        ),
        (
            r#"{"tables": {"stations": {"default": {"arguments": {}}}}}"#,
            "tables.stations.default",
            "the field `action` is missing",
        ),
        (r#"{"groups": {"paths": {"0": 1}}}"#, "groups.paths.0", "expected a list"),
        (
            r#"{"groups": {"paths": {"0": [{"weight": 1}]}}}"#,
            "groups.paths.0[0]",
            "the field `member` is missing",
        ),
        (
            r#"{"registers": {"counts": {"0": 1}}}"#,
            "registers.counts.0",
            "expected a regarray: count",
        ),
        (r#"{"registers": {"count": {"0": -1}}}"#, "registers.count.0", "expected a number"),
        (
            r#"{"meters": {"rates": {"0": {"committed": 1}}}}"#,
            "meters.rates.0",
            "the field `committed_burst` is missing",
        ),
        (r#"{"sessions": {"64": {"port": 1}}}"#, "sessions.64", "expected a session from 0 to 63"),
    ] {
        let error = read_tables(&program, text).expect_err(text);
        assert_eq!(error.place, place, "{text}: {error}");
        assert!(error.reason.starts_with(said), "{text}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_group_of_ports_is_said_at_its_place() {
    for (text, place, said) in [
        (r#"{"multicast": {"7": [64]}}"#, "multicast.7", "expected a port from 0 to 63"),
        (r#"{"multicast": {"7": [[]]}}"#, "multicast.7[0]", "expected a number or a string"),
        (r#"{"multicast": {"7": 1}}"#, "multicast.7", "expected a list"),
    ] {
        let error = read_tables(&program(), text).expect_err(text);
        assert_eq!(error.place, place, "{text}: {error}");
        assert!(error.reason.starts_with(said), "{text}: {error}");
    }
}

/// Of what is not there nothing can be said, nor that there is nothing to say.
#[test]
fn an_empty_part_has_the_name_of_something() {
    let program = program();
    for (text, place, said) in [
        (r#"{"tables": {"stats": {}}}"#, "tables.stats", "expected a table: stations"),
        (r#"{"tables": {"stats": {"entries": []}}}"#, "tables.stats", "expected a table: stations"),
        (r#"{"groups": {"path": {}}}"#, "groups.path", "expected a table: stations"),
        (r#"{"registers": {"counts": {}}}"#, "registers.counts", "expected a regarray: count"),
        (r#"{"meters": {"rate": {}}}"#, "meters.rate", "expected a metarray: rates"),
    ] {
        let error = read_tables(&program, text).expect_err(text);
        assert_eq!(error.place, place, "{text}: {error}");
        assert!(error.reason.starts_with(said), "{text}: {error}");
    }
    let empty = r#"{"tables": {"stations": {"entries": []}}, "registers": {"count": {}}}"#;
    assert_eq!(read_tables(&program, empty).unwrap(), []);
}

#[test]
fn a_file_that_begins_with_a_byte_order_mark_is_refused_by_its_name() {
    let error = read_tables(&program(), "\u{feff}{}").unwrap_err();
    assert_eq!(error.reason, "it begins with a byte order mark (U+FEFF): remove it");
}
