//! `niclab program`, and programs on the card: read, tested, run, told things and replaced.

use std::fs;
use std::path::Path;
use std::process::Command;

use niclab_result::Summary;

use crate::command::{call, capture, cores, niclab, run, samples, scratch, slow_capture};
use crate::pages::{SHOWN, Shown, blocks, carry_out_as_root, commands, missing};

/// Frames leave by the port that a table says for their type, and are counted.
const PROGRAM: &str = "
struct ethernet_h {
	bit<48> dst
	bit<48> src
	bit<16> type
}
header ethernet instanceof ethernet_h
struct meta {
	bit<32> port
}
metadata instanceof meta
regarray count size 4 initval 0
struct out_args {
	bit<32> port
}
action out args instanceof out_args {
	mov m.port t.port
	regadd count t.port 1
	return
}
action drop args none {
	drop
}
table types {
	key {
		h.ethernet.type exact
	}
	actions {
		out
		drop
	}
	default_action drop args none
	size 4
}
apply {
	rx m.port
	extract h.ethernet
	table types
	emit h.ethernet
	tx m.port
}
";

const TABLES: &str = r#"{ "tables": { "types": { "entries": [
    { "key": { "type": "0x0800" }, "action": "out", "arguments": { "port": 1 } }
] } } }"#;

/// A directory with a program, its tables, a capture of a hundred frames and a slow one.
fn files() -> tempfile::TempDir {
    let scratch = scratch();
    let write = |name: &str, bytes: &[u8]| fs::write(scratch.path().join(name), bytes).unwrap();
    write("program.spec", PROGRAM.as_bytes());
    write("tables.json", TABLES.as_bytes());
    write("wrong.spec", b"struct a {\n\tbit<7> b\n}\n");
    write("wrong.json", br#"{ "tables": { "kinds": { "entries": [] }, "types": { "size": 3 } } }"#);
    write("in.pcap", &capture(100, 60, 1));
    write("slow.pcap", &slow_capture());
    scratch
}

/// Runs a script in the directory, with the command as `$NICLAB`; what it said.
fn script(directory: &Path, text: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-c", text]).current_dir(directory).env("NICLAB", env!("CARGO_BIN_EXE_niclab"));
    let ended = run(command);
    format!("{}{}", ended.out, ended.err)
}

#[test]
fn programs_are_checked_shown_and_tested() {
    let scratch = files();
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let program = at("program.spec");
    let checked = call(&["program", "check", &program]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    for phrase in ["1 header, 1 table of 4 entries, 2 actions, 1 array", "key bits"] {
        assert!(checked.out.contains(phrase), "{checked:?}");
    }
    assert!(!checked.out.contains("warning"), "{checked:?}");
    let slips =
        PROGRAM.replace("\ttable types\n", "\tjmpgt L m.port 0x100000000\n\tL : mov m.port 1\n");
    fs::write(at("slips.spec"), slips).unwrap();
    let slips = call(&["program", "check", &at("slips.spec")]);
    assert_eq!(slips.code, Some(0), "{slips:?}");
    let warned = "\n2 warnings:\n  \
                  line 24, column 7: nothing asks the table `types`: `table types` does\n  \
                  line 38, column 17: `m.port` has 32 bits, and 0x100000000 has more: the jump is \
                  never taken\n";
    assert!(slips.out.ends_with(warned), "{slips:?}");
    // What is shown is the same program.
    let shown = call(&["program", "dump", &program]);
    fs::write(at("shown.spec"), &shown.out).unwrap();
    assert_eq!(call(&["program", "dump", &at("shown.spec")]).out, shown.out);
    let frame = "000000000000 000000000000 0800 00";
    let holds = format!("add types type:0x800 out(port:2)\npacket 0 {frame}\nexpect 2 {frame} $\n");
    fs::write(at("holds.stf"), &holds).unwrap();
    let held = call(&["program", "test", &at("holds.stf"), &program]);
    assert_eq!(held.code, Some(0), "{held:?}");
    assert_eq!(held.out.matches("1 packet, 1 expectation met, 0 not").count(), 2, "{held:?}");
    fs::write(at("fails.stf"), holds.replace("expect 2", "expect 3")).unwrap();
    let failed = call(&["program", "test", &at("fails.stf"), &program]);
    failed.with(10, &["2 expectations failed"]);
    assert!(failed.out.contains("line 3: no packet left by port 3"), "{failed:?}");
    let swapped = call(&["program", "test", &program, &at("holds.stf")]);
    swapped.with(3, &["is a program, and the test comes first: niclab program test "]);
    let wrong = call(&["program", "check", &at("wrong.spec")]);
    wrong.with(3, &["wrong.spec: line 2, column 2: expected a number of bits", "^^^^^^"]);
    fs::write(at("wrong.stf"), "packet\n").unwrap();
    call(&["program", "test", &at("wrong.stf"), &program]).with(3, &["line 1, column 7"]);
    let several = call(&["program", "check", &at("wrong.spec"), "/nowhere/x.spec", &program]);
    several.with(3, &["wrong.spec: line 2, column 2", "/nowhere/x.spec"]);
    assert!(several.out.contains("2 actions"), "{several:?}");
    fs::write(at("empty.stf"), "# nothing\n").unwrap();
    let empty = call(&["program", "test", &at("empty.stf"), &program]);
    empty.with(3, &["empty.stf: no packet and no expectation"]);
    fs::write(at("binary.spec"), b"\xff").unwrap();
    call(&["program", "check", &at("binary.spec")])
        .with(3, &["binary.spec: line 1 is not UTF-8; give a text file"]);
    call(&["program", "dump", "/nowhere/x.spec"]).with(3, &["/nowhere/x.spec"]);
}

#[test]
fn files_of_programs_are_read_up_to_a_limit_and_not_waited_for() {
    let scratch = files();
    let message = script(
        scratch.path(),
        r#"
        mkfifo nobody.fifo
        truncate -s 5M long.spec
        cat program.spec | "$NICLAB" program check /dev/stdin | head -1
        "$NICLAB" program check <(sleep 0.5; cat program.spec) |
            sed -n 's/.*: 1 header/1 header/p'
        nic="nic --port pcap:in=in.pcap,out=out.pcap --program program.spec"
        for command in "program check nobody.fifo" "program dump /dev/zero" \
            "program test nobody.fifo program.spec" "$nic --tables nobody.fifo" \
            "program check long.spec"; do
            "$NICLAB" $command 2>&1; echo "code $?"
        done
        "#,
    );
    let expected = "/dev/stdin: 1 header, 1 table of 4 entries, 2 actions, 1 array\n\
        1 header, 1 table of 4 entries, 2 actions, 1 array\n\
        niclab: nobody.fifo: a named pipe, not a file; give a regular file\ncode 3\n\
        niclab: /dev/zero: a device, not a file; give a regular file\ncode 3\n\
        niclab: nobody.fifo: a named pipe, not a file; give a regular file\ncode 3\n\
        niclab: nobody.fifo: a named pipe, not a file; give a regular file\ncode 3\n\
        niclab: long.spec: longer than 4 MiB, the limit for such a file; shorten it\ncode 3\n";
    assert_eq!(message, expected);
}

#[test]
fn programs_that_are_measured_are_printed_and_read_again() {
    let scratch = scratch();
    let path = scratch.path().join("made.spec").display().to_string();
    for (made, has) in [
        (&["headers", "--count", "5"][..], "5 headers, 0 tables"),
        (&["wildcard", "--count", "2", "--entries", "10"], "2 tables of 20 entries"),
        (&["registers", "--count", "3"], "8 arrays"),
        (&["l3-router"], "5 headers, 4 tables"),
    ] {
        let printed = call(&[&["program", "make"], made].concat());
        assert_eq!(printed.code, Some(0), "{printed:?}");
        fs::write(&path, &printed.out).unwrap();
        let checked = call(&["program", "check", &path]);
        assert!(checked.out.contains(has), "{checked:?}");
    }
    call(&["program", "make", "heads"]).with(3, &["no program `heads`: there are l2-switch, "]);
    let more = call(&["program", "make", "headers", "--count", "9"]);
    more.with(3, &["headers: count = 9: use 1 to 8"]);
    let entries = call(&["program", "make", "acl", "--entries", "5000"]);
    entries.with(3, &["acl: entries = 5000: use 1 to 4096"]);
}

#[test]
fn program_cost_is_measured_from_end_to_end() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let mut command = niclab(&["run", "program-cost", "--device", "soft", "--repeats", "3"]);
    // Slices of a pass or two: the test is of what is stored, and not of how long it takes.
    for set in ["program=acl,headers,exact", "entries=100", "duration_ms=1", "warmup_ms=0"] {
        command.args(["--set", set]);
    }
    command.arg("-o").arg(&path);
    run(command).with(0, &["program-cost on soft", "100 %"]);
    let samples = samples(&path);
    assert!(samples.iter().all(|sample| sample["outcome"] == "measured"), "{samples:?}");
    let at = |sample: &serde_json::Value| {
        let point = &sample["point"];
        format!("{} {} {}", point["program"], point["count"], point["entries"]).replace('"', "")
    };
    let mut places: Vec<String> = samples.iter().map(at).collect();
    places.sort();
    for place in ["acl 1.0 100.0", "headers 1.0 0.0", "headers 8.0 0.0", "exact 4.0 100.0"] {
        assert_eq!(places.iter().filter(|of| *of == place).count(), 3, "{places:?}");
    }
    for sample in &samples {
        let metric = |name: &str| sample["metrics"][name]["value"].as_f64().unwrap();
        let product = metric("packet_ns") * metric("throughput_pps");
        assert!((product / 1e9 - 1.0).abs() < 1e-6 && metric("stretches") >= 32.0, "{sample}");
        assert!(metric("worst_instructions") > 0.0 && sample["counters"]["lost"] == 0, "{sample}");
    }
    let text = fs::read_to_string(path.join("summary.json")).unwrap();
    let summary: Summary = serde_json::from_str(&text).unwrap();
    assert_eq!(summary.experiments[0].testbeds[0].boxes.len(), 2);
    let ids: Vec<&str> = summary.findings.iter().map(|found| found.id.as_str()).collect();
    // Whether a program reaches line rate may stay open: then nothing is said of it.
    for id in ["soft-header", "soft-lookup-exact-100"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    let html = fs::read_to_string(path.join("report.html")).unwrap();
    assert!(html.contains("Core time per packet, by program"));
    // Nothing else of a device is asked for programs, and what has none says so.
    let elsewhere = niclab_run_on("model:connectx-5", scratch.path());
    elsewhere.with(6, &["nothing was measured", "model:connectx-5: not supported: programs"]);
}

/// A run of this experiment on another device.
fn niclab_run_on(device: &str, directory: &Path) -> crate::command::Ended {
    let mut command = niclab(&["run", "program-cost", "--device", device, "-o"]);
    command.arg(directory.join("other"));
    run(command)
}

#[test]
fn a_program_decides_on_the_card_and_what_is_wrong_is_refused_before_a_port_is_opened() {
    let scratch = files();
    let message = script(
        scratch.path(),
        r#"
        ports="--port pcap:in=in.pcap,out=back.pcap,speed=max --port pcap:out=out.pcap"
        "$NICLAB" nic $ports --program program.spec --tables tables.json | grep '^port'
        "$NICLAB" nic $ports --program program.spec | grep '^port 0'
        "$NICLAB" nic --port tap:none --program wrong.spec; echo "program: $?"
        "$NICLAB" nic --port tap:none --program program.spec --tables wrong.json; echo "tables: $?"
        "$NICLAB" nic --port tap:none --tables tables.json; echo "no program: $?"
        "#,
    );
    for phrase in [
        "in 100 frames",
        "out 100 frames",
        "100 by the program, 0 unfit",
        "wrong.spec: line 2, column 2",
        "program: 3",
        "wrong.json: tables.kinds: expected a table: types",
        "tables: 3",
        "no program: 2",
    ] {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}");
    }
}

#[test]
fn tables_change_and_programs_are_replaced_on_a_card_that_runs() {
    let scratch = files();
    let message = script(
        scratch.path(),
        r#"
        "$NICLAB" nic --port pcap:in=slow.pcap,out=back.pcap --port pcap:out=out.pcap \
            --control card --program program.spec >live 2>&1 & card=$!
        ctl() { "$NICLAB" nic ctl --control card "$@" 2>&1; }
        for _ in $(seq 400); do ctl counters >/dev/null && break; sleep 0.05; done
        ctl table add types type:0x800 'out(port:1)'
        ctl table add types type:0x800 'out(port:1)'; echo "twice: $?"
        ctl table add types typ:0x800 'out(port:1)'; echo "no field: $?"
        ctl table transaction 'add types type:5 drop(); delete types type:6'; echo "half: $?"
        ctl program show
        ctl table transaction 'add types type:5 drop(); modify types type:0x800 out(port:0)'
        ctl program show
        ctl table register_write count 2 42
        ctl program register count 2
        ctl program register counts 2; echo "no array: $?"
        ctl table load wrong.json; echo "wrong file: $?"
        blanks() { head -c "$1" /dev/zero | tr '\0' ' '; }
        { cat tables.json; blanks 3000000; } >long.json
        ctl table delete types type:0x800
        ctl table load long.json; echo "long file: $?"
        { cat tables.json; blanks 67108864; } >longer.json
        ctl table load longer.json; echo "too long: $?"
        ctl program load wrong.spec; echo "wrong program: $?"
        ctl program load program.spec
        ctl table load tables.json
        ctl program show
        ctl program none
        ctl table add types type:5 'drop()'; echo "no program: $?"
        ctl program fly; echo "no command: $?"
        ctl application
        ctl stop
        wait $card; echo "ends: $?"
        "#,
    );
    for phrase in [
        "twice: 3",
        "types has an entry with this key",
        "expected a field of the key: h.ethernet.type, found `typ`",
        "no field: 3",
        "command 2 of the transaction: types has no entry with this key\n",
        "half: 3",
        "types: 1 of 4 entries",
        "2 commands carried out together",
        "types: 2 of 4 entries",
        "\n42\n",
        "no regarray counts; there are: count",
        "no array: 3",
        "tables.kinds: expected a table: types",
        "wrong file: 3",
        "\nlong file: 0",
        "command too long: a command, and all pending ones together, have at most 64 MiB",
        "split it, or retry when others are done",
        "too long: 3",
        "wrong.spec: line 2, column 2",
        "wrong program: 3",
        "rules and RSS decide about frames",
        "the card has no program of its own: program load FILE\n",
        "no program: 3",
        "unrecognized subcommand 'fly'",
        "no command: 2",
        "no application: niclab nic --application FILE runs one",
        "ends: 0",
    ] {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}");
    }
}

/// Tables of each kind.
const KINDS: &str = "
struct ipv4_h {
	bit<32> src
	bit<32> dst
	bit<16> port
}
header ipv4 instanceof ipv4_h
struct meta {
	bit<32> port
}
metadata instanceof meta
struct out_args {
	bit<32> port
}
action out args instanceof out_args {
	mov m.port t.port
	return
}
action stay args none {
	learn stay m.port
	return
}
action drop args none {
	drop
}
table routes {
	key {
		h.ipv4.dst lpm
	}
	actions {
		out
		drop
	}
	default_action drop args none const
	size 4
}
table acl {
	key {
		h.ipv4.src wildcard
		h.ipv4.port wildcard
	}
	actions {
		out
		drop
	}
	default_action out args port 9
	size 4
}
table last {
	actions {
		out
	}
	default_action out args port 0
}
learner flows {
	key {
		h.ipv4.src
	}
	actions {
		stay
	}
	default_action stay args none
	size 16
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
	n_groups_max 4
	n_members_per_group_max 8
}
apply {
	rx m.port
	extract h.ipv4
	table flows
	table routes
	table acl
	table last
	table paths
	emit h.ipv4
	tx m.port
}
";

/// What is said of them.
const TABLES_SAY: &[&str] = &[
    "6 commands carried out together\n\
         routes: 2 of 4 entries, constant default drop()\n\
         acl: 2 of 4 entries, default out(port:9)\n\
         last: no key, default out(port:7)\n\
         flows: ",
    " on all cores, each with room for 16, default stay()\n\
         paths: 1 of 4 groups, each of 8 members at most\n\
         all: 0\n",
    "routes: 2 of 4 entries, constant default drop()\n\
         add routes h.ipv4.dst:10.0.0.0/8 out(port:2)\n\
         add routes h.ipv4.dst:10.1.0.0/16 drop()\n\
         acl: 2 of 4 entries, default out(port:9)\n\
         add acl 1 h.ipv4.src:10.9.0.1 h.ipv4.port:0x0050&&&0x00f0 out(port:3)\n\
         add acl 5 h.ipv4.src:* h.ipv4.port:80 drop()\n\
         last: no key, default out(port:7)\n\
         flows: ",
    "default stay()\n\
         what it has learnt is not shown: each core has its own, where it alone can read",
    "paths: 1 of 4 groups, each of 8 members at most\ngroup paths 2 5 6:3\n",
    "no table route; there are: routes, acl, last, flows, paths\nno table: 3",
    "unexpected argument 'acl' found",
    "two: 2",
    "no application other; there are: none\nno application: 3",
    r#"{"tables":{"acl":{"default":{"action":"out","arguments":{"port":9}},"entries":["#,
    "8 commands carried out together\nthe same\n",
    "routes is full: 4 entries; delete some, or give it a larger size\nfull: 3\n\
         nothing changed\n\
         5 tables have what the file says: 1 added, 1 changed, 1 deleted, 2 as before\n\
         the same again\n\
         1 table has what the file says: 0 added, 0 changed, 2 deleted, 0 as before\n\
         routes: 2 of 4 entries, constant default drop()\n\
         acl: 0 of 4 entries, default drop()\n",
    "  <FILE>\n",
    "no file: 2",
    "the card has no program of its own: program load FILE\nno program: 3",
];

#[test]
fn table_contents_are_shown_and_another_card_loads_them() {
    let scratch = files();
    fs::write(scratch.path().join("kinds.spec"), KINDS).unwrap();
    let message = script(
        scratch.path(),
        r#"
        "$NICLAB" nic --port pcap:in=slow.pcap,out=back.pcap --control one \
            --program kinds.spec >/dev/null 2>&1 & one=$!
        "$NICLAB" nic --port pcap:in=slow.pcap,out=back2.pcap --control two \
            --program kinds.spec >/dev/null 2>&1 & two=$!
        ctl() { "$NICLAB" nic ctl --control "$@" 2>&1; }
        for card in one two; do
            for _ in $(seq 400); do ctl $card counters >/dev/null && break; sleep 0.05; done
        done
        ctl one table transaction 'add routes dst:10.0.0.0/8 out(port:2); add acl 5 port:80 drop();
            add acl 1 src:10.9.0.1 port:0x50&&&0xf0 out(port:3); setdefault last out(port:7);
            group paths 2 5 6:3; add routes dst:10.1.0.0/16 drop()'
        ctl one table show; echo "all: $?"
        for table in routes acl last flows paths; do ctl one table show $table; done
        ctl one table show route; echo "no table: $?"
        ctl one table show routes acl; echo "two: $?"
        ctl one application other table show; echo "no application: $?"
        ctl one --json table show acl
        ctl one --json table show >one.json
        ctl two table load one.json
        ctl two table show --json >two.json
        cmp one.json two.json && echo "the same"
        ctl two table transaction 'add acl 7 src:1.2.3.4 drop(); delete routes dst:10.0.0.0/8;
            modify routes dst:10.1.0.0/16 out(port:5); setdefault acl drop()'
        echo '{ "tables": { "acl": { "entries": [] }, "routes": { "entries": [' >full.json
        for host in 1 2 3 4 5; do
            echo '{ "key": { "dst": "10.2.0.'$host'" }, "action": "drop" }'
        done | paste -sd , >>full.json
        echo '] } } }' >>full.json
        ctl two --json table show >before.json
        ctl two table load --replace full.json; echo "full: $?"
        ctl two --json table show >after.json
        cmp before.json after.json && echo "nothing changed"
        ctl two table load --replace one.json
        ctl two --json table show >two.json
        cmp one.json two.json && echo "the same again"
        echo '{ "tables": { "acl": { "default": { "action": "drop" } } } }' >acl.json
        ctl two table load acl.json --replace
        ctl two table show
        ctl two table load --replace; echo "no file: $?"
        ctl one program none
        ctl one table show; echo "no program: $?"
        ctl one stop
        ctl two stop
        wait $one $two
        "#,
    );
    for phrase in TABLES_SAY {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}");
    }
}

#[test]
fn a_program_takes_over_with_its_tables_and_is_answered_once_it_has() {
    let scratch = files();
    let message = script(
        scratch.path(),
        r#"
        "$NICLAB" nic --port pcap:in=slow.pcap,out=back.pcap --port pcap:out=out.pcap \
            --control card --program program.spec >live 2>&1 & card=$!
        ctl() { "$NICLAB" nic ctl --control card "$@" 2>&1; }
        for _ in $(seq 400); do ctl counters >/dev/null && break; sleep 0.05; done
        ctl table load tables.json
        ctl program load program.spec wrong.json; echo "wrong tables: $?"
        ctl program show
        for _ in $(seq 20); do ctl program load program.spec; done >said; sort said | uniq -c
        ctl program show
        ctl program load program.spec tables.json && ctl program show
        ctl program load program.spec tables.json tables.json; echo "three files: $?"
        ctl stop
        wait $card
        "#,
    );
    for phrase in [
        "wrong.json: tables.kinds: expected a table: types",
        "wrong tables: 3\ntypes: 1 of 4 entries\n",
        "  20 the program decides about frames; its tables are empty\ntypes: 0 of 4 entries\n",
        "decides about frames; its tables are those of the file\ntypes: 1 of 4 entries\n",
        "unexpected argument 'tables.json' found",
        "three files: 2\n",
    ] {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}");
    }
}

#[test]
fn a_card_with_a_program_says_what_would_be_right() {
    let scratch = files();
    let message = script(
        scratch.path(),
        r#"
        "$NICLAB" nic --port pcap:in=slow.pcap,out=back.pcap --port pcap:out=out.pcap \
            --control card --program program.spec >live 2>&1 & card=$!
        ctl() { "$NICLAB" nic ctl --control card "$@" 2>&1; }
        for _ in $(seq 400); do ctl counters >/dev/null && break; sleep 0.05; done
        ctl program counter count 2; echo "no counter: $?"
        ctl program register count 4; echo "no register: $?"
        ctl table register_write count 4 1; echo "no index: $?"
        ctl table load program.spec; echo "no JSON: $?"
        ctl table load; echo "no file: $?"
        ctl table transaction ' ; '; echo "empty: $?"
        ctl table transaction 'register_write count 1 1; fly'; echo "unread: $?"
        ctl counters now; echo "behind: $?"
        ctl counters --json | head -c 30; echo
        ctl flow create 0 ingress pattern eth / end actions drop / end
        ctl stop
        wait $card
        "#,
    );
    for phrase in [
        "count is a regarray: program register count 2",
        "no counter: 3",
        "count has no 4: it has 0 to 3\n",
        "no register: 3",
        "expected an index from 0 to 3, found `4`",
        "no index: 3",
        "program.spec: no JSON, as `table load` and --tables take it: expected value",
        "no JSON: 3",
        "  <FILE>\n",
        "no file: 2",
        "no command in it: table transaction 'COMMAND; COMMAND …'",
        "empty: 3",
        "command 2 of the transaction: line 1, column 1: expected `add`",
        "unread: 3",
        "unexpected argument 'now' found",
        "behind: 2",
        r#"{"response":"counters","ports""#,
        "port 0: rule 0 created\n\
         a program decides about frames: rules are idle until `program none`",
    ] {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}");
    }
}

/// Each frame is counted, told, and written where the application reads it; then it goes back.
const KEEPER: &str = "
struct ethernet_h {
	bit<48> dst
	bit<48> src
	bit<16> type
}
header ethernet instanceof ethernet_h
struct meta {
	bit<32> port
	bit<16> type
}
metadata instanceof meta
struct told_t {
	bit<16> type
}
countarray seen size 4
window kept size 64
ring held count 1 size 128 entry 16
digest told size 8 instanceof told_t
apply {
	rx m.port
	extract h.ethernet
	mov m.type h.ethernet.type
	count seen 1
	digest told m.type
	dma_write_at kept 0 h.ethernet
	dma_write held 0 h.ethernet
	emit h.ethernet
	reply
}
";

/// A directory with files of applications, whole and wrong ones.
fn keepers() -> tempfile::TempDir {
    let scratch = files();
    let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
    write("keeper.spec", KEEPER);
    write("larger.spec", &KEEPER.replace("size 64", "size 65"));
    let flows = r#""flows": ["eth / ipv4 / end"], "rings": { "held": 3072 }"#;
    let file = |more: &str| format!(r#"{{ "program": "keeper.spec", {flows}{more} }}"#);
    write("keeper.json", &file(r#", "windows": { "kept": 64 }"#));
    write("poor.json", &file(r#", "windows": { "kept": 63 }"#));
    write("none.json", &file(""));
    write("odd.json", &file(r#", "shares": 2"#));
    write("far.json", &file(r#", "windows": { "kept": 64 }, "ports": [7]"#));
    write("flow.json", &file(r#", "windows": { "kept": 64 }"#).replace("eth / ipv4", "eth / ipx"));
    scratch
}

/// What is said to them, in any order.
const KEEPERS_SAY: &[&str] = &[
    "out 100 frames",
    "application keeper: 100 frames, 0 missed beyond its share; 0 dropped by its program, 0 \
     reported",
    "1 packet, 60 B",
    r#"{"response":"counter","packets":1,"bytes":60}"#,
    "entry 0:",
    "00000000  02 00 00 00 00 01 02 00  00 00 00 02 08 00 00 00  |................|",
    // What was looked at is still there.
    r#""entries":["02000000000102000000000208000000"]"#,
    "ring held has 1, from 0 on: there is no 1",
    "no ring: 3",
    "00000006  02 00 00 00 00 02 08 00 ",
    "00000006  2 0 512\n",
    r#""numbers":[144115188075987200]"#,
    "invalid value 'u128' for '[WIDTH]'",
    "no width: 2",
    "5 bytes from 60 on reach beyond window kept, which ends at 64: its bytes are 0 to 63",
    "behind it: 3",
    "0 bytes: ask for 1 to 4096 at a time",
    "nothing: 3",
    "type 0x0800",
    "no digest tell; there are: told",
    "no digest: 3",
    "window kept: its program takes 65 bytes, and it has 64",
    "larger: 3",
    "its tables are empty",
    "give keeper another one (application keeper program load FILE), or end the card",
    "always one: 3",
    "the card has no program of its own: program load FILE; for an application's say application \
     NAME first: keeper",
    "not the card's: 3",
    "no application other; there are: keeper",
    "no application: 3",
    "application keeper: ports 0; queues none; share 1\n  ring held: 1 of 128 entries of 16 B \
     each\n  window kept: 64 B\nall: 0",
    r#""windows":[{"name":"kept","bytes":64}]"#,
    "no application elsewhere; there are: keeper",
    "ends: 0",
    "window kept: its program takes 64 bytes, and it has 63",
    "poor: 3",
    "windows and rings of the program take 68000003072 bytes, and the machine has",
    "vast: 3",
    "window kept: its program takes 64 bytes, and it has 0",
    "none: 3",
    "unknown field `shares`",
    "odd: 3",
    "application far: the card has no port 7",
    "far: 3",
    "flow `eth / ipx / end`: expected ",
    "flow: 3",
];

#[test]
fn an_application_has_what_its_file_says_and_is_asked_by_its_name() {
    let scratch = keepers();
    let message = script(
        scratch.path(),
        r#"
        "$NICLAB" nic --port pcap:in=in.pcap,out=back.pcap,speed=max \
            --application keeper.json | grep -E '^(port|application)'
        "$NICLAB" nic --port pcap:in=slow.pcap,out=back.pcap \
            --control card --application keeper.json >live 2>&1 & card=$!
        ctl() { "$NICLAB" nic ctl --control card "$@" 2>&1; }
        for _ in $(seq 400); do ctl counters | grep -q 'keeper: 1 frame' && break; sleep 0.05; done
        ctl application keeper program counter seen 1
        ctl --json application keeper program counter seen 1
        ctl application keeper program digests told
        ctl application keeper program ring held 0
        ctl --json application keeper program ring held 0
        ctl application keeper program ring held 1; echo "no ring: $?"
        ctl application keeper program window kept 6 8
        ctl application keeper program window kept 0x6 3 u16
        ctl --json application keeper program window kept 4 1 u64
        ctl application keeper program window kept 0 1 u128; echo "no width: $?"
        ctl application keeper program window kept 60 5; echo "behind it: $?"
        ctl application keeper program window kept 0 0; echo "nothing: $?"
        ctl application keeper program digests tell; echo "no digest: $?"
        ctl application keeper program load larger.spec; echo "larger: $?"
        ctl application keeper program load keeper.spec
        ctl application keeper program none; echo "always one: $?"
        ctl program counter seen 1; echo "not the card's: $?"
        ctl application other program show; echo "no application: $?"
        ctl application; echo "all: $?"
        ctl --json application keeper
        ctl application elsewhere
        ctl stop
        wait $card; echo "ends: $?"
        sed 's/size 64/size 68000000000/' keeper.spec >vast.spec
        sed 's/keeper.spec/vast.spec/; s/64 }/68000000000 }/' keeper.json >vast.json
        for file in vast poor none odd far flow; do
            "$NICLAB" nic --port pcap:in=in.pcap --application $file.json; echo "$file: $?"
        done
        "#,
    );
    for phrase in KEEPERS_SAY {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}");
    }
}

/// The program of the page about the language, with its test and its tables.
#[test]
fn the_whole_program_of_the_page_is_one_and_its_tables_are_loaded() {
    let scratch = files();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/programs.md");
    let mut names = Vec::new();
    for (info, text) in blocks(&fs::read_to_string(page).unwrap()) {
        if let Some((_, name)) = info.split_once(',') {
            fs::write(scratch.path().join(name), text).unwrap();
            names.push(name.to_owned());
        }
    }
    assert_eq!(names, ["stations.spec", "stations.stf", "stations.json"]);
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let (program, tables) = (at("stations.spec"), at("stations.json"));
    let tested = call(&["program", "test", &at("stations.stf"), &program]);
    assert_eq!(tested.code, Some(0), "{tested:?}");
    let trace = format!("pcap:in={},speed=max", at("in.pcap"));
    let ran = call(&["nic", "--port", &trace, "--program", &program, "--tables", &tables]);
    ran.with(0, &[]);
    assert!(ran.out.contains("100 frames"), "{ran:?}");
}

/// The page of the items, as it is written, in a directory that has the programs.
#[test]
fn the_page_of_kvs_items_runs_as_written() {
    let test = "the_page_of_kvs_items_runs_as_written";
    if let Some(reason) = missing(&["unshare", "ip", "od"]) {
        println!("SKIP {test}: {reason}");
        return;
    }
    let (_cores, scratch) = (cores(), scratch());
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let page = fs::read_to_string(programs.join("kvs-items/README.md")).unwrap();
    std::os::unix::fs::symlink(programs, scratch.path().join("programs")).unwrap();
    let blocks = blocks(&page).into_iter().filter(|(info, _)| info == SHOWN);
    let all: Vec<Shown> = blocks.flat_map(|(_, text)| commands(&text)).collect();
    assert!(all.len() > 15, "{all:?}");
    carry_out_as_root(&all, scratch.path());
}

/// The files that are there to be copied: memory to the byte, flows, tables.
#[test]
fn an_application_to_copy_is_taken_as_it_is() {
    let scratch = files();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let trace = format!("pcap:in={}", scratch.path().join("in.pcap").display());
    for name in ["kvs-items", "tuple-items"] {
        let file = programs.join(name).join("application.json");
        let file = file.to_str().unwrap();
        let ended = call(&["nic", "--queues", "2", "--port", &trace, "--application", file]);
        ended.with(0, &[]);
        assert!(ended.out.contains(&format!("application {name}: 0 frames")), "{ended:?}");
    }
}
