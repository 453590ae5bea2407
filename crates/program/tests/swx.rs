//! What differs from DPDK's SWX pipeline, and what is taken as it has it: a test for each row of
//! `docs/swx-differences.md`.

use niclab_program::definition::Definition;
use niclab_program::{Command, Execution, Fate, Program, Single, Stf, carry_out};

const NONE: [String; 0] = [];

/// A program with these instructions behind `rx`, two headers of the same three bytes, and what a
/// row needs beside that.
fn program(more: &str, instructions: &str) -> String {
    format!(
        "struct a_t {{
            bit<16> x
            bit<8> op
        }}
        header a instanceof a_t
        header b instanceof a_t
        struct m_t {{
            bit<32> port
            bit<32> x
            bit<32> y
            bit<8> small
        }}
        metadata instanceof m_t
        action yes args none {{
            return
        }}
        action no args none {{
            return
        }}
        table t {{
            key {{
                h.a.x exact
            }}
            actions {{
                yes
                no
            }}
            default_action no args none
            size 4
        }}
        {more}
        apply {{
            rx m.port
            {instructions}
        }}"
    )
}

/// Why a program is refused.
fn refused(program: &str) -> String {
    Program::read(program).expect_err(program).problem().to_string()
}

/// What does not hold of a test of a program, by both executions; the program as it is written is
/// the same one.
fn carried(program: &str, text: &str) -> Vec<String> {
    let program = Program::read(program).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Program::read(&program.to_string()).as_ref(), Ok(&program));
    let test = Stf::read(&program, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let defined = carry_out(&test, &mut Definition::new(program.clone()));
    let fast = carry_out(&test, &mut Single::new(program).unwrap());
    assert_eq!(defined, fast);
    assert!(fast.met + fast.failures.len() > 0, "{text}");
    fast.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn what_the_last_table_said_stays_when_a_packet_comes_round() {
    let spec = include_str!("cases/hit-across-rounds.spec");
    assert_eq!(carried(spec, include_str!("cases/hit-across-rounds.stf")), NONE);
    let add = "add t x:1 yes()\n";
    assert_eq!(carried(spec, &format!("{add}packet 0 0002 00\nexpect 1 0002 00 $")), NONE);
    // Of one packet, nothing stays for the next.
    let two = "packet 0 0001 00\nexpect 2\npacket 0 0002 00\nexpect 1";
    assert_eq!(carried(spec, &format!("{add}{two}")), NONE);
    let action = spec.replace("jmph HIT", "jmpa HIT yes");
    assert_eq!(carried(&action, &format!("{add}{two}")), NONE);
    let entry = spec.replace("jmph HIT", "entryid m.id\n\tjmpeq HIT m.id 1");
    assert_eq!(carried(&entry, &format!("{add}{two}")), NONE);
}

#[test]
fn numbers_have_signs_as_those_of_c() {
    let spec = include_str!("cases/minus.spec");
    assert_eq!(carried(spec, "packet 0 0001 02\nexpect 1 0001 02 $"), NONE);
    for (instruction, after) in [
        ("mov h.a.x -1", "ffff02"),
        ("mov h.a.x -0x2", "fffe02"),
        ("mov h.a.x +010", "000802"),
        ("add h.a.x -1", "000002"),
        ("sub h.a.x -1", "000202"),
        ("and h.a.x -2", "000002"),
        ("xor h.a.op -1", "0001fd"),
        ("mov m.port -1\n\tmov h.a.x m.port", "ffff02"),
    ] {
        let text = format!("packet 0 0001 02\nexpect 1 {after} $");
        assert_eq!(carried(&spec.replace("mov m.port -1", instruction), &text), NONE, "{text}");
    }
}

#[test]
fn of_an_action_that_is_listed_twice_the_first_counts() {
    let spec = include_str!("cases/action-twice.spec");
    let (program, warnings) = Program::read_with_warnings(spec).unwrap();
    let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let twice = "line 24, column 3: `yes` is in this list already, and only the first counts";
    assert!(said.contains(&twice.to_owned()), "{said:?}");
    assert_eq!(program.tables[0].kind.actions().unwrap().of.len(), 2);
    assert_eq!(carried(spec, "add t x:1 yes()\npacket 0 0001 00\nexpect 2 0001 00 $"), NONE);
    // The first says where it may stand.
    let scoped = spec.replacen("\t\tyes\n\t\tyes\n", "\t\tyes @defaultonly\n\t\tyes\n", 1);
    let program = Program::read(&scoped).unwrap();
    let mut definition = Definition::new(program.clone());
    let Ok(Command::Change(add)) = Command::read(&program, "add t x:1 yes()") else { panic!() };
    assert!(definition.change(&[add]).is_err());
}

#[test]
fn a_looked_at_header_is_a_copy() {
    let packet = "packet 0 000102aa\n";
    let look = "lookahead h.b\nmov h.b.op 0x55";
    let then = program("", &format!("{look}\nextract h.a\nemit h.a\ntx 1"));
    assert_eq!(carried(&then, &format!("{packet}expect 1 000102aa $")), NONE);
    let alone = program("", &format!("{look}\ntx 1"));
    assert_eq!(carried(&alone, &format!("{packet}expect 1 000102aa $")), NONE);
    let emitted = program("", &format!("{look}\nemit h.b\ntx 1"));
    assert_eq!(carried(&emitted, &format!("{packet}expect 1 000155000102aa $")), NONE);
}

#[test]
fn a_packet_sees_nothing_of_the_one_before() {
    // Metadata, bytes of a header that was not taken off, a hit, an action, an entry.
    let spec = program(
        "",
        "extract h.a
        mov m.y h.a.op
        mov h.a.op m.x
        mov m.x m.y
        validate h.b
        emit h.a
        emit h.b
        mov h.b.x 0x7777
        jmph HIT
        jmpa HIT yes
        entryid m.y
        jmpneq HIT m.y 0
        mov h.b.op 0
        mov h.b.x 0
        table t
        tx 1
        HIT : tx 2",
    );
    let packet = "packet 0 000122\nexpect 1 000100 000000 $\n";
    assert_eq!(carried(&spec, &format!("add t x:1 yes()\n{packet}{packet}{packet}")), NONE);
}

#[test]
fn copies_leave_by_slot_and_not_without_a_session() {
    let spec = program(
        "",
        "extract h.a
        mov m.x 2
        mov m.y 0
        mirror m.x m.y
        mov m.x 1
        mov m.y 1
        mirror m.x m.y
        mov m.x 0
        mov m.y 9
        mirror m.x m.y
        emit h.a
        tx 3",
    );
    let program = Program::read(&spec).unwrap();
    let sessions = ["mirroring_add 0 2 2", "mirroring_add 1 1"];
    let frame = [0, 1, 2, 0xaa];
    let copies = |execution: &mut dyn FnMut(&Command)| {
        sessions.iter().for_each(|line| execution(&Command::read(&program, line).unwrap()));
    };
    let mut definition = Definition::new(program.clone());
    copies(&mut |command| definition.tell(command).unwrap());
    let mut fast = Single::new(program.clone()).unwrap();
    copies(&mut |command| fast.tell(command).unwrap());
    let ports = |copies: &[niclab_program::Copied]| -> Vec<(u32, Vec<u8>)> {
        copies.iter().map(|copy| (copy.port, copy.frame.clone())).collect()
    };
    let expected = [(1, frame.to_vec()), (2, frame[..2].to_vec())];
    for outcome in [definition.run(0, &frame), Execution::run(&mut fast, 0, &frame)] {
        assert_eq!((outcome.fate, &ports(&outcome.copies)[..]), (Fate::Port(3), &expected[..]));
    }
}

#[test]
fn a_member_is_picked_by_its_share_and_none_of_no_group() {
    let selector = "selector s {
            group_id m.x
            selector {
                h.a.op
            }
            member_id m.y
            n_groups_max 4
            n_members_per_group_max 4
        }";
    let spec = program(selector, "extract h.a\nmov m.x h.a.x\ntable s\nemit h.a\ntx m.y");
    // CRC-32C times the sum of the weights, by 2^32.
    let text = "group s 1 5 6 7
        packet 0 000100\nexpect 5
        packet 0 000101\nexpect 7
        packet 0 000102\nexpect 7
        packet 0 000200\nexpect 0
        packet 0 000500\nexpect 0";
    assert_eq!(carried(&spec, text), NONE);
}

#[test]
fn a_timeout_past_the_last_is_the_first() {
    let learner = "action keep args none {
            learn seen m.small
            return
        }
        action seen args none {
            return
        }
        learner l {
            key {
                h.a.x
            }
            actions {
                keep
                seen
            }
            default_action keep args none
            size 4
            timeout {
                5
                60
                70
            }
        }";
    let spec = program(
        learner,
        "extract h.a\nmov m.small h.a.op\ntable l\nemit h.a\njmph HIT\ntx 1\nHIT : tx 2",
    );
    // The fourth of three, and 7 modulo 4; 4 is 0.
    for (number, stays) in [("03", 5), ("07", 5), ("04", 5), ("02", 70), ("05", 60)] {
        let packet = |port: u32| format!("packet 0 0001{number}\nexpect {port}\n");
        let text = format!(
            "{}wait {}\n{}wait {stays}\n{}",
            packet(1),
            stays - 1,
            packet(2),
            // Nothing rearmed it.
            packet(1)
        );
        assert_eq!(carried(&spec, &text), NONE, "{number}");
    }
}

#[test]
fn a_meter_without_rates_leaves_the_colour() {
    let spec = program(
        "metarray meters size 2",
        "extract h.a
        mov m.x h.a.op
        meter meters 0 m.port m.x m.y
        mov h.a.op m.y
        emit h.a
        tx 1",
    );
    for (colour, after) in [("00", "00"), ("01", "01"), ("02", "02"), ("03", "02")] {
        let text = format!("packet 0 0001{colour}\nexpect 1 0001{after} $");
        assert_eq!(carried(&spec, &text), NONE, "{colour}");
    }
}

#[test]
fn a_number_may_come_first_in_a_comparison() {
    for (jump, port) in [("jmpeq L 0 m.x", 2), ("jmplt L 1 h.a.op", 2), ("jmpgt L 1 h.a.op", 1)] {
        let spec = program("", &format!("extract h.a\nemit h.a\n{jump}\ntx 1\nL : tx 2"));
        assert_eq!(carried(&spec, &format!("packet 0 000105\nexpect {port}")), NONE, "{jump}");
    }
}

#[test]
fn a_number_is_compared_whole() {
    for (jump, is_taken) in [
        ("jmpeq L h.a.op 0x1ff", false),
        ("jmpneq L h.a.op 0x1ff", true),
        ("jmpeq L h.a.op -1", false),
        ("jmpeq L m.x -1", false),
        ("jmpeq L h.a.op 0xff", true),
    ] {
        let spec =
            program("", &format!("extract h.a\nemit h.a\nmov m.x -1\n{jump}\ntx 1\nL : tx 2"));
        let port = 1 + u32::from(is_taken);
        assert_eq!(carried(&spec, &format!("packet 0 0001ff\nexpect {port}")), NONE, "{jump}");
    }
}

#[test]
fn nothing_is_left_of_a_number_that_is_shifted_by_64_or_more() {
    for (shift, after) in
        [("shl h.a.x 65", "0000"), ("shr h.a.x 64", "0000"), ("shl h.a.x 4", "2340")]
    {
        let spec = program("", &format!("extract h.a\n{shift}\nemit h.a\ntx 1"));
        assert_eq!(carried(&spec, &format!("packet 0 123400\nexpect 1 {after}00 $")), NONE);
    }
}

#[test]
fn a_packet_that_is_dropped_does_not_come_round() {
    let spec = program(
        "",
        "extract h.a\nemit h.a\nrecircid m.x\njmpneq AGAIN m.x 0\nrecirculate\n\
        drop\nAGAIN : tx 1",
    );
    assert_eq!(carried(&spec, "packet 0 000100\nno_packet"), NONE);
}

#[test]
fn a_packet_that_is_too_short_is_dropped() {
    let spec = program("", "extract h.a\nextract h.b\nemit h.b\nemit h.a\ntx 1");
    assert_eq!(carried(&spec, "packet 0 0001020304\nno_packet"), NONE);
    assert_eq!(carried(&spec, "packet 0 000102030405\nexpect 1 030405000102 $"), NONE);
}

#[test]
fn an_entry_that_is_there_is_not_added_again() {
    let spec = program("", "extract h.a\ntable t\nemit h.a\ntx 1");
    let text = "add t x:1 yes()\nadd t x:1 no()\npacket 0 000100\nexpect 1";
    assert_eq!(carried(&spec, text), ["line 2: t has an entry with this key; modify or delete it"]);
}

#[test]
fn jumps_and_tables_stand_where_they_may() {
    let jump = program("", "extract h.a\nL : add m.x 1\njmplt L m.x 5\ntx 1");
    assert!(refused(&jump).starts_with("not supported: a jump back"));
    let rx = program("", "extract h.a\nrx m.port\ntx 1");
    assert!(refused(&rx).starts_with("a packet is received by the first instruction"));
    let size = program("", "table t\ntx 1").replace("size 4", "size 4\nsize 5");
    assert!(refused(&size).starts_with("`size` stands here for the second time"));
    // What SWX has in `apply` alone.
    let action = "action takes args none {
            extract h.a
            jmph HIT
            jmpa HIT no
            HIT : return
        }";
    Program::read(&program(action, "table t\ntx 1")).unwrap();
}

#[test]
fn numbers_are_below_2_to_the_64th() {
    let spec = |number: &str| program("", &format!("extract h.a\nmov h.a.x {number}\ntx 1"));
    for number in ["18446744073709551616", "-18446744073709551616", "08", "0b11", "1e3", "--1"] {
        let said = refused(&spec(number));
        assert!(said.starts_with("expected"), "{said}");
    }
    // As many as a field has bits, where it is a default.
    let of_default = |number: &str| {
        let argument = format!(
            "struct p_t {{
                bit<16> p
            }}
            action arg args instanceof p_t {{
                mov h.a.x t.p
                return
            }}
            table u {{
                key {{
                }}
                actions {{
                    arg
                }}
                default_action arg args p {number}
            }}"
        );
        program(&argument, "extract h.a\ntable u\nemit h.a\ntx 1")
    };
    let packet = "packet 0 123400\nexpect 1";
    assert_eq!(carried(&of_default("-1"), &format!("{packet} ffff00 $")), NONE);
    assert_eq!(carried(&of_default("-2"), &format!("{packet} fffe00 $")), NONE);
    assert!(refused(&of_default("0x12345")).starts_with("expected a number of 16 bits"));
}

#[test]
fn words_are_parted_by_the_blanks_of_c() {
    let spec = program("", "\textract\u{b}h.a\u{c}\r\n\u{c}emit h.a ; all\ntx 1 // so\n# it is");
    assert_eq!(carried(&spec, "packet 0 123400\nexpect 1 123400 $"), NONE);
    let other = refused(&program("", "extract\u{a0}h.a\ntx 1"));
    assert!(other.contains("found `extract<U+00A0>h.a`"), "{other}");
    let long = "n".repeat(128);
    let named = |name: &str| program(&format!("header {name} instanceof a_t"), "tx 1");
    Program::read(&named(&long)).unwrap();
    assert!(refused(&named(&format!("{long}n"))).starts_with("expected a name of at most 128"));
    Program::read(&named("_o")).unwrap();
}

#[test]
fn of_priorities_of_commands_the_lowest_number_counts_first() {
    let spec = program("", "extract h.a\ntable t\nemit h.a\njmpa Y yes\ntx 1\nY : tx 2");
    let program = Program::read(&spec.replace("h.a.x exact", "h.a.x wildcard")).unwrap();
    let lines = ["add t 10 x:1 no()", "add t 5 x:* yes()"];
    let commands = lines.map(|line| Command::read(&program, line).unwrap());
    let file = r#"{ "tables": { "t": { "entries": [
        { "key": { "x": 1 }, "priority": 10, "action": "no" },
        { "key": { "x": "*" }, "priority": 5, "action": "yes" }
    ] } } }"#;
    let of_file = niclab_program::read_tables(&program, file).unwrap();
    assert_eq!(of_file, commands);
    let mut definition = Definition::new(program.clone());
    let mut fast = Single::new(program.clone()).unwrap();
    for command in &commands {
        definition.tell(command).unwrap();
        fast.tell(command).unwrap();
    }
    assert_eq!(definition.run(0, &[0, 1, 0]).fate, Fate::Port(2));
    assert_eq!(Execution::run(&mut fast, 0, &[0, 1, 0]).fate, Fate::Port(2));
    // The same numbers mean the other order in a packet test.
    let text = format!("{}\n{}\npacket 0 000100\nexpect 1", lines[0], lines[1]);
    assert_eq!(carried(&spec.replace("h.a.x exact", "h.a.x wildcard"), &text), NONE);
}

#[test]
fn every_row_of_the_page_names_a_test() {
    let page = include_str!("../../../docs/swx-differences.md");
    let tests = [include_str!("swx.rs"), include_str!("stf.rs"), include_str!("text.rs")].concat();
    let (rows, _) = page.split_once("## Priorities").unwrap();
    let rows = rows.lines().filter(|line| line.starts_with("| ") && line.contains(" | `"));
    let mut count = 0;
    for row in rows {
        let last = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let name = last.trim().trim_matches('`');
        assert!(tests.contains(&format!("fn {name}()")), "{row}: no test `{name}`");
        count += 1;
    }
    assert!(count > 20, "{count} rows");
}
