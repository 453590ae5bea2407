//! Packet tests: what they say, what they find wrong, and that both executions find the same.

use niclab_program::definition::Definition;
use niclab_program::{Command, Fate, Program, Single, Stf, Verdict, carry_out};

const PROGRAM: &str = "
    struct h_t {
        bit<16> to
        bit<16> more
    }
    header h instanceof h_t
    struct m_t {
        bit<32> port
    }
    metadata instanceof m_t
    regarray count size 4 initval 0
    struct go_t {
        bit<32> port
    }
    action go args instanceof go_t {
        mov m.port t.port
        regadd count t.port 1
        return
    }
    action drop args none {
        drop
    }
    table to {
        key {
            h.h.to exact
        }
        actions {
            go
            drop
        }
        default_action drop args none
        size 8
    }
    apply {
        rx m.port
        extract h.h
        table to
        add h.h.more 1
        emit h.h
        tx m.port
    }";

/// What both executions say of a test.
fn verdict(test: &str) -> Verdict {
    let program = Program::read(PROGRAM).unwrap();
    let test = Stf::read(&program, test).unwrap_or_else(|error| panic!("{error}"));
    let defined = carry_out(&test, &mut Definition::new(program.clone()));
    let fast = carry_out(&test, &mut Single::new(program).unwrap());
    assert_eq!(defined, fast);
    fast
}

#[test]
fn a_test_that_holds_says_how_much_was_met() {
    let said = verdict(
        "# two stations
         add to h.h.to:0x1234 go(port:2)
         packet 0 1234 0000 aabb
         expect 2 12340001 aabb $
         packet 0 1234 00ff
         expect 2 1234 **00
         packet 0 1234 0000
         Expect 2 1234 0
         packet 0 9999 0000
         no_packet
         check_counter count(2) == 3
         modify to h.h.to:0x1234 go(port:3)
         packet 0 1234 0000
         expect 3
         check_counter count(3) >= 1
         delete to h.h.to:0x1234
         packet 0 1234 0000
         setdefault to go(port:1)
         packet 0 1234 0000
         expect 1 1234
         wait 3",
    );
    assert_eq!((said.packets, said.met, said.failures.len()), (7, 8, 0), "{said:?}");
}

#[test]
fn what_is_not_as_expected_is_said_with_its_line() {
    let said = verdict(
        "add to to:1 go(port:1)
         add to to:1 go(port:2)
         packet 0 0001 0000 ff
         expect 1 0001 0000
         packet 0 0001 0000 ff
         expect 1 0001 0001 $
         packet 0 0001 0000
         expect 1 0001 0001 ff
         packet 0 0001 0000
         no_packet
         expect 2
         check_counter count(1) < 4",
    );
    let said: Vec<String> = said.failures.iter().map(ToString::to_string).collect();
    let expected = [
        "line 2: to has an entry with this key; modify or delete it",
        "line 4: that of line 3 left by port 1: byte 3 is 01 in place of 00",
        "line 6: that of line 5 left by port 1: 5 B in place of 4",
        "line 8: that of line 7 left by port 1: 4 B in place of 5 or more",
        "line 9: it left by port 1, and nothing expects it: 00010001",
        "line 10: the packet of line 9 made one leave",
        "line 11: no packet left by port 2; that of line 9 left by port 1",
        "line 12: count(1) is 4",
    ];
    assert_eq!(said, expected);
}

#[test]
fn where_a_packet_went_that_was_expected_elsewhere_is_said() {
    let said = |test: &str| {
        let test = format!("add to to:1 go(port:1)\n{test}");
        verdict(&test).failures.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let other = "packet 0 0001 0000\nexpect 2\npacket 0 0001 0001\nexpect 1";
    let expected = [
        "line 3: no packet left by port 2; that of line 2 left by port 1",
        "line 4: it left by port 1, and nothing expects it: 00010002; line 5, which expects one \
         there, was given that of line 2",
    ];
    assert_eq!(said(other), expected);
    let twice = "expect 3\npacket 0 0001 0000\nexpect 1\nexpect 1\npacket 0 0009 0000\nexpect 1";
    let expected = [
        "line 2: no packet left by port 3",
        "line 5: no packet left by port 1; that of line 3 was given to line 4",
        "line 7: no packet left by port 1; none left for that of line 6",
    ];
    assert_eq!(said(twice), expected);
    // All packets first: the lines behind them mean none of them more than another.
    let first = "packet 0 0001 0000\npacket 0 0001 0001\nexpect 1 0001 0001\nexpect 1 0001 0002";
    assert_eq!(said(first), <[String; 0]>::default());
}

/// A key and a value, which are kept, told, counted and answered.
const KEEPER: &str = "
    struct h_t {
        bit<48> dst
        bit<48> src
        bit<16> key
        bit<32> value
    }
    header h instanceof h_t
    struct m_t {
        bit<32> port
        bit<16> key
        bit<32> value
        bit<16> len
        bit<64> place
    }
    struct told_t {
        bit<16> key
        bit<32> value
    }
    metadata instanceof m_t
    regarray next size 1 initval 0
    countarray seen size 4
    window kept size 16
    ring log count 2 size 2 entry 12
    digest told size 2 instanceof told_t
    apply {
        rx m.port
        length m.len
        extract h.h
        mov m.key h.h.key
        mov m.value h.h.value
        jmpgt READ m.key 1
        count seen m.key
        regadd m.place next 0 4
        dma_write_at kept m.place h.h.value
        dma_write log m.key m.key h.h.value m.len payload 2
        digest told m.key
        mov h.h.value m.place
        emit h.h
        reply
        READ : shl m.key 2
        dma_read_at kept m.key h.h.value
        emit h.h
        reply
    }";

#[test]
fn what_a_program_leaves_behind_beside_packets_is_looked_at() {
    let program = Program::read(KEEPER).unwrap();
    assert_eq!(Program::read(&program.to_string()).as_ref(), Ok(&program));
    let carried = |text: &str| {
        let test = Stf::read(&program, text).unwrap_or_else(|error| panic!("{error}"));
        let defined = carry_out(&test, &mut Definition::new(program.clone()));
        let fast = carry_out(&test, &mut Single::new(program.clone()).unwrap());
        assert_eq!(defined, fast);
        fast.failures.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let first = "packet 3 020202020202 040404040404 0001 aabbccdd 1122
         expect 3 040404040404 020202020202 0001 00000000 1122 $\n";
    let holds = "no_entry log(0)
         expect_entry log(1) 0100 aabbccdd 1400 1122 0000 $
         no_entry log(1)
         expect_digest told 0100 ddccbbaa
         no_digest told
         check_counter seen(1) == 1
         check_counter seen(1) bytes == 20
         check_counter seen(1) packets != 0
         expect_window kept(0) aabbccdd 00000000
         window kept(8) 0102 0304
         packet 2 020202020202 040404040404 0002 00000000
         expect 2 040404040404 020202020202 0002 01020304 $
         # Behind the window.
         packet 2 020202020202 040404040404 0004 00000000
         no_packet
         packet 2 020202020202 040404040404 0001 00000000 33
         no_packet
         no_entry log(1)
         packet 2 020202020202 040404040404 0001 00000001 3344
         expect 2
         packet 2 020202020202 040404040404 0000 00000002 3344
         expect 2
         # Full: three were to be kept there, and two were taken.
         packet 2 020202020202 040404040404 0000 00000002 3344
         no_packet
         expect_entry log(1) 0100 00000001";
    assert_eq!(carried(&format!("{first}{holds}")), <[String; 0]>::default());
    let wrong = "no_entry log(1)
         expect_entry log(1) 00
         expect_digest told 0200
         expect_digest told
         check_counter seen(1) bytes == 21
         expect_window kept(1) 00";
    let said = carried(&format!("{first}{wrong}"));
    let expected = [
        "line 3: there is entry",
        "line 4: there is no entry",
        "line 5: byte 0 is 01 in place of 02",
        "line 6: there is no record",
        "line 7: seen(1) is 20",
        "line 8: byte 0 is bb in place of 00",
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_a_program_has_not_is_not_looked_at() {
    let program = Program::read(KEEPER).unwrap();
    for (text, said) in [
        ("expect_entry log(2) 00", "there are 2 rings, from 0 on"),
        ("expect_entry log 00", "expected `RING(INDEX)`"),
        ("no_entry log(0) 00", "expected the end of the line"),
        ("expect_window kept(15) 0000", "the window has 16 bytes"),
        ("window kept(0) 0*", "only `expect_window` takes `*`"),
        ("expect_digest tell 00", "expected a digest: told"),
        ("check_counter seen(0) frames == 1", "expected `packets`, `bytes`, `==`"),
        ("check_counter sene(0) == 1", "expected a regarray or countarray: next, seen"),
        ("check_counter seen(4) == 1", "expected an index of `seen` from 0 to 3, found `4`"),
        ("check_counter next(1) == 1", "expected an index of `next` from 0 to 0, found `1`"),
        ("check_counter next(0) bytes = 1", "expected `==`"),
        ("check_counter next($A) == 1", "expected the name that `add … = NAME` gave an entry"),
    ] {
        let error = Stf::read(&program, text).expect_err(text);
        assert!(error.problem().to_string().starts_with(said), "{text}: {error}");
    }
}

#[test]
fn what_is_summed_up_is_never_zero_and_odd_bytes_are_upper_halves() {
    let program = |instruction: &str| {
        format!(
            "struct h_t {{
                bit<8> one
                bit<16> sum
                bit<24> three
                bit<40> five
                bit<8> last
                bit<64> eight
            }}
            header h instanceof h_t
            struct m_t {{
                bit<32> port
            }}
            metadata instanceof m_t
            apply {{
                rx m.port
                extract h.h
                {instruction}
                emit h.h
                tx 1
            }}"
        )
    };
    let packet = |sum: &str| format!("12 {sum} 345678 0102030405 9a ffff0000ffff0001");
    for (instruction, before, after) in [
        ("ckadd h.h.sum h.h.one", "0000", "edff"),
        ("ckadd h.h.sum h.h.last", "ffff", "65ff"),
        ("cksub h.h.sum h.h.last", "65ff", "ffff"),
        ("ckadd h.h.sum h.h.three", "ffff", "53a9"),
        ("ckadd h.h.sum h.h.five", "ffff", "f6f9"),
        ("cksub h.h.sum h.h.five", "f6f9", "ffff"),
        ("ckadd h.h.sum h.h.eight", "ffff", "fffe"),
        // What would be 0 is 0xffff.
        ("ckadd h.h.sum h.h.sum", "0000", "ffff"),
        ("ckadd h.h.sum h.h.eight", "0001", "ffff"),
        ("cksub h.h.sum h.h.one", "edff", "ffff"),
        ("cksub h.h.sum h.h.sum", "ffff", "ffff"),
        // All 19 bytes, among them the checksum's, which is at an odd offset.
        ("ckadd h.h.sum h.h", "0000", "8db2"),
    ] {
        let program = Program::read(&program(instruction)).unwrap();
        let test = format!("packet 0 {}\nexpect 1 {} $", packet(before), packet(after));
        let test = Stf::read(&program, &test).unwrap();
        let defined = carry_out(&test, &mut Definition::new(program.clone()));
        let fast = carry_out(&test, &mut Single::new(program).unwrap());
        assert_eq!(fast, defined);
        assert_eq!(fast.failures.as_slice(), [], "{instruction} {before}");
    }
}

#[test]
fn copies_for_a_group_are_the_packet_as_it_is_then() {
    let program = Program::read(
        "struct h_t {
            bit<16> kind
            bit<16> group
        }
        header h instanceof h_t
        header tail instanceof h_t
        struct m_t {
            bit<32> port
            bit<16> group
        }
        metadata instanceof m_t
        apply {
            rx m.port
            extract h.h
            mov m.group h.h.group
            multicast m.group
            emit h.h
            multicast m.group
            mov h.h.kind 0xffff
            jmpeq GONE m.group 8
            validate h.tail
            emit h.tail
            multicast 0x2003
            tx 9
            GONE : drop
        }",
    )
    .unwrap();
    let text = "multicast_group 3 1 2
        multicast_group 8 0 2 63
        # Nobody said which ports 4 has; 0x2003 is 3, modulo 8,192.
        packet 0 0001 0004 aa
        expect 9 ffff 0004 0000 0000 aa $
        expect 1 ffff 0004 0000 0000 aa $
        expect 2 ffff 0004 0000 0000 aa $
        # Headers that were taken off are not on the first copy; the packet has its own way.
        packet 2 0001 0003 aa
        expect 1 aa $
        expect 1 0001 0003 aa $
        expect 1 ffff 0003 0000 0000 aa $
        expect 9 ffff 0003 0000 0000 aa $
        # Of a packet without a byte there is no copy. It is dropped, what was copied before is not.
        packet 7 0001 0008
        expect 0 0001 0008 $
        expect 2 0001 0008 $
        expect 63 0001 0008 $
        # All ports of a group are said anew.
        multicast_group 8 1
        packet 1 0001 0008 bb
        no_packet";
    let test = Stf::read(&program, text).unwrap_or_else(|error| panic!("{error}"));
    let defined = carry_out(&test, &mut Definition::new(program.clone()));
    let fast = carry_out(&test, &mut Single::new(program).unwrap());
    assert_eq!((&defined, defined.failures.as_slice()), (&fast, &[][..]));
    assert_eq!(fast.met, 11);
}

#[test]
fn what_one_instruction_writes_has_a_length_in_whatever_order() {
    // Thirty times 2,000 bytes of payload and one header of 4,096: 64,096 bytes, and 66,096.
    let program = |order: &str| {
        format!(
            "struct h_t {{
                bit<32768> bytes
            }}
            header h instanceof h_t
            struct m_t {{
                bit<32> port
            }}
            metadata instanceof m_t
            window w size 70000
            apply {{
                rx m.port
                dma_write_at w 0 {order}
                reply
            }}"
        )
    };
    let payload = |times: usize| " payload 2000".repeat(times);
    let orders = |times| [format!("h.h{}", payload(times)), format!("{} h.h", payload(times))];
    let packet = "ab".repeat(2_000);
    for (times, said) in [(30, "expect 1"), (31, "no_packet")] {
        for order in orders(times) {
            let program = Program::read(&program(&order)).unwrap_or_else(|error| panic!("{error}"));
            let test = Stf::read(&program, &format!("packet 1 {packet}\n{said}")).unwrap();
            let defined = carry_out(&test, &mut Definition::new(program.clone()));
            let fast = carry_out(&test, &mut Single::new(program).unwrap());
            assert_eq!((&defined, defined.failures.len()), (&fast, 0), "{times} {order}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_at_its_place() {
    let program = Program::read(PROGRAM).unwrap();
    for (text, line, said) in [
        ("\npakcet 0 00", 2, "expected `packet`"),
        ("packet x 00", 1, "expected a number"),
        ("packet 0", 1, "expected the bytes of a packet"),
        ("packet 0 0", 1, "half a byte is missing"),
        ("packet 0 0*", 1, "only `expect` takes `*`"),
        ("packet 0 00 $", 1, "only `expect` takes `$`"),
        ("packet 0 00$", 1, "only `expect` takes `$`"),
        ("packet 0 0g", 1, "expected hexadecimal digits, found `0g`"),
        ("\u{feff}packet 0 00", 1, "the file begins with a byte order mark (U+FEFF): remove it"),
        ("p\u{430}cket 0 00", 1, "expected `packet`"),
        ("expect 0 0 $", 1, "half a byte is missing"),
        ("expect 0 0g", 1, "expected hexadecimal digits"),
        ("expect 0 00 $ 00", 1, "expected hexadecimal digits"),
        ("no_packet 1", 1, "expected the end of the line"),
        ("check_counter count == 1", 1, "expected `ARRAY(INDEX)`"),
        ("check_counter count(1) ~ 1", 1, "expected `packets`, `bytes`, `==`"),
        // Without a comparison it would test nothing.
        ("check_counter count(1)", 1, "expected `packets`, `bytes`, `==`"),
        ("check_counter none(1) == 1", 1, "expected a regarray or countarray: count"),
        ("add to to:1 go()", 1, "the argument `port` is missing"),
    ] {
        let error = Stf::read(&program, text).expect_err(text);
        assert_eq!(error.line(), line, "{text}");
        assert!(error.problem().to_string().starts_with(said), "{text}: {error}");
    }
}

#[test]
fn the_caret_stands_under_what_a_packet_does_not_take() {
    let program = Program::read(PROGRAM).unwrap();
    for (text, column, said) in [
        ("packet 0 020000000001 abcd $", 28, "only `expect` takes `$`"),
        ("packet 0 020000000001 ab**", 25, "only `expect` takes `*`"),
        ("packet 0 020000000001 abcx", 23, "expected hexadecimal digits, found `abcx`"),
        (
            "expect 0 020000000001 abcx",
            23,
            "expected hexadecimal digits, `*` for any, or `$` for the end, found `abcx`",
        ),
    ] {
        let error = Stf::read(&program, text).expect_err(text);
        assert_eq!((error.column(), error.problem().to_string().as_str()), (column, said));
    }
}

/// A table of each kind of match, with names as p4c's backend for DPDK gives them.
const KINDS: &str = "
    struct a_t {
        bit<8> p
        bit<32> q
        bit<48> mac
    }
    header a instanceof a_t
    header vlan_1 instanceof a_t
    struct m_t {
        bit<32> port
        bit<32> id
        bit<32> colour
        bit<32> length
    }
    metadata instanceof m_t
    regarray hits size 8 initval 7
    regarray both_packets size 4 initval 3
    regarray both_bytes size 4 initval 9
    regarray seen_0 size 4 initval 2
    regarray pair_1_packets size 4 initval 5
    regarray pair_1_bytes size 4 initval 6
    metarray rates size 2
    struct g_t {
        bit<32> port
        bit<48> mac
    }
    action go args instanceof g_t {
        mov m.port t.port
        mov h.a.mac t.mac
        return
    }
    action no args none {
        drop
    }
    table acl {
        key {
            h.a.p wildcard
            h.vlan_1.q wildcard
        }
        actions {
            go
            no
        }
        default_action no args none
        size 8
    }
    table routes {
        key {
            h.a.q lpm
        }
        actions {
            go
            no
        }
        default_action no args none
        size 8
    }
    table stations {
        key {
            h.a.mac exact
        }
        actions {
            go
            no
        }
        default_action no args none
        size 8
    }
    apply {
        rx m.port
        extract h.a
        table KIND
        entryid m.id
        regadd hits m.id 1
        meter rates 0 m.length 0 m.colour
        emit h.a
        multicast 3
        tx m.port
    }";

/// What does not hold of a test of a program that asks the table of this name, by both executions.
fn failures(table: &str, text: &str) -> Vec<String> {
    let program = Program::read(&KINDS.replace("KIND", table)).unwrap();
    let test = Stf::read(&program, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let defined = carry_out(&test, &mut Definition::new(program.clone()));
    let fast = carry_out(&test, &mut Single::new(program).unwrap());
    assert_eq!(defined, fast);
    assert!(fast.met + fast.failures.len() > 0, "{text}");
    fast.failures.iter().map(ToString::to_string).collect()
}

const NONE: [String; 0] = [];

#[test]
fn of_priorities_the_largest_number_counts_first() {
    let program = Program::read(include_str!("cases/stf-priority.spec")).unwrap();
    let test = Stf::read(&program, include_str!("cases/stf-priority.stf")).unwrap();
    let defined = carry_out(&test, &mut Definition::new(program.clone()));
    let fast = carry_out(&test, &mut Single::new(program.clone()).unwrap());
    assert_eq!((&defined, defined.failures.as_slice()), (&fast, &[][..]));
    assert_eq!(fast.met, 1);
    // A command means the other order.
    let mut definition = Definition::new(program.clone());
    for line in ["add acl 10 p:6 go(port:1)", "add acl 5 p:* go(port:2)"] {
        match Command::read(&program, line).unwrap() {
            Command::Change(change) => definition.change(&[change]).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(definition.run(0, &[6]).fate, Fate::Port(2));
    let packet = "packet 0 01 00000002 000000000003\n";
    for (text, port) in [
        // 0 where none is written: the last.
        ("add acl p:* go(1, 0)\nadd acl 1 p:1 go(2, 0)", 2),
        ("add acl 4294967295 p:* go(1, 0)\nadd acl 4294967294 p:1 go(2, 0)", 1),
        // Of equal ones, the first.
        ("add acl 3 p:* go(1, 0)\nadd acl 3 p:1 go(2, 0)", 1),
        ("add acl 3 p:* go(1, 0)\nadd acl 2 p:1 go(2, 0)\nmodify acl 4 p:1 go(2, 0)", 2),
        // Not octal.
        ("add acl 010 p:* go(1, 0)\nadd acl 9 p:1 go(2, 0)", 1),
    ] {
        let text = format!("{text}\n{packet}expect {port}");
        assert_eq!(failures("acl", &text), NONE, "{text}");
    }
}

#[test]
fn lines_of_the_compilers_of_p4_are_read_as_they_write_them() {
    let packet = "packet 0 16 0a010203 0000000000aa\n";
    for (table, add) in [
        ("acl", "add acl 1 hdr.a.p:0x1* go(port:2, mac:0xbb)"),
        ("acl", "ADD Main.acl 1 a.p : 0b***10110 Main.go ( port : 2 , mac : 0xbb ) = A # x"),
        ("acl", r#"add "ingress.acl" 1 "hdr.a.p":0X*6 "ingress.go"("port":0x2,"mac":187)"#),
        ("acl", "add acl 1 p:0x16 &&& 0xff hdr.vlan[1].q:0x0 go(2, 00:00:00:00:00:bb)=A"),
        ("acl", "add acl 1 hdr.vlan$1.q:0B* go(0b10,187)"),
        ("routes", "add routes q:0x0a01**** go(2,0xbb)"),
        ("routes", "add routes headers.a.q:0xa****** go(2,0xbb)"),
        ("routes", "add routes q:0b1010************************ go(2,0xbb)"),
        ("routes", "add routes q:0x0a010000 / 16 go(2,0xbb)"),
        ("routes", "add routes q:0x0a010000&&&0xffff0000 go(2,0xbb)"),
        ("routes", "add routes q:* go(2,0xbb)"),
        ("routes", "add routes 1600 q:0x0a01**** go(2,0xbb)"),
        ("stations", "add stations 600 hdr.a.mac:0xaa go(2,0xbb) = A"),
        ("stations", "add stations hdr.a.mac:0xaa go(2,0xbb)"),
        ("stations", "setdefault ingress.stations go(2,0xbb)"),
    ] {
        let text = format!("{add}\n{packet}expect 2 16 0a010203 0000000000bb$");
        assert_eq!(failures(table, &text), NONE, "{add}");
        let other = format!("{add}\npacket 0 27 0b010203 0000000000ab\nno_packet");
        // Those that are met by any packet.
        let meets_all = ["vlan$1", "q:*", "setdefault"].iter().any(|of| add.contains(of));
        assert_eq!(failures(table, &other) == NONE, !meets_all, "{add}");
    }
}

#[test]
fn entries_have_names_and_are_removed_all_at_once() {
    let text = "add stations mac:1 no() = first
        add stations mac:2 go(2, 2) = second
        delete stations mac:1
        add stations mac:3 go(2, 3) = third
        packet 0 01 00000000 000000000003
        expect 2
        packet 0 01 00000000 000000000003
        expect 2
        packet 0 01 00000000 000000000002
        expect 2
        check_counter hits($third) packets == 9
        check_counter hits ( $second ) == 8
        check_counter hits(2) bytes == 8
        check_counter both(1) packets == 3
        check_counter both(1) bytes == 9
        check_counter ingress.hits(1) != 7
        check_counter ingress.seen(1) == 2
        check_counter pair(1) packets == 5
        check_counter MyIngress.pair(1) bytes == 6
        remove all
        packet 0 01 00000000 000000000003
        no_packet
        add stations mac:3 go(2, 3)
        register_reset hits
        check_counter hits(7) == 0";
    assert_eq!(failures("stations", text), NONE);
    let gone = "add stations mac:1 go(2, 2) = A\nremove all\ncheck_counter hits($A) == 7";
    assert_eq!(failures("stations", gone), ["line 3: there is no entry A"]);
}

#[test]
fn groups_of_ports_are_made_of_nodes() {
    let packet = "packet 0 01 00000000 000000000001\n";
    let text = format!(
        "setdefault stations go(9, 0)
        mc_mgrp_create 3
        mc_node_create 400 6 7
        mc_node_create 0 8
        mc_node_associate 3 0
        {packet}expect 6\nexpect 7\nexpect 9
        mc_node_associate 3 1
        {packet}expect 6\nexpect 7\nexpect 8\nexpect 9
        mc_node_update 0 5
        {packet}expect 5\nexpect 8\nexpect 9
        mirroring_get 5
        register_read hits 3
        meter_get_rates rates 1"
    );
    assert_eq!(failures("stations", &text), NONE);
    let program = Program::read(&KINDS.replace("KIND", "stations")).unwrap();
    let nodes = "mc_mgrp_create 1\nmc_node_create 0 5\nmc_node_create 0 5 6\n";
    for (text, said) in [
        (format!("{nodes}mc_mgrp_create 1"), "there is a group 1 already"),
        (format!("{nodes}mc_node_associate 2 0"), "expected a group that `mc_mgrp_create` made"),
        (format!("{nodes}mc_node_associate 1 2"), "expected a node that `mc_node_create` made"),
        (
            format!("{nodes}mc_node_associate 1 0\nmc_node_associate 1 1"),
            "not supported: two copies by port 5",
        ),
        ("mc_node_create 0 64".to_owned(), "expected a port from 0 to 63"),
        ("mc_node_create 0 5 | 6".to_owned(), "not supported: groups of links"),
        ("mirroring_add_mc 1 2".to_owned(), "not supported: `mirroring_add_mc`"),
        ("mirroring_delete 1".to_owned(), "not supported: `mirroring_delete`"),
        ("counter_write hits 1 2 3".to_owned(), "not supported: `counter_write`"),
        ("counter_read hits 8".to_owned(), "expected an index from 0 to 7"),
        ("check_counter both(1) == 3".to_owned(), "expected a regarray or countarray: hits"),
        ("register_read see 1".to_owned(), "expected a regarray: hits"),
        ("remove".to_owned(), "expected `all`"),
    ] {
        let error = Stf::read(&program, &text).expect_err(&text);
        assert!(error.problem().to_string().starts_with(said), "{text}: {error}");
    }
}

#[test]
fn rates_of_the_reference_switch_are_bytes_a_microsecond() {
    let program = Program::read(&KINDS.replace("KIND", "stations")).unwrap();
    let read = |text: &str| Stf::read(&program, text).unwrap();
    assert_eq!(
        format!("{:?}", read("meter_set_rates rates 1 0.5:1500 1.000001:3000")),
        format!("{:?}", read("meter_set_rates rates 1 500000 1500 1000001 3000")),
    );
    for (text, said) in [
        ("meter_set_rates rates 1 2:1 1:4", "expected a peak rate that is no less than"),
        ("meter_set_rates rates 1 0.0000001:1 1:4", "expected `RATE:BURST`"),
        ("meter_array_set_rates rates 2:0 3:4", "expected bytes of a burst from 1"),
        ("meter_array_set_rates rates 2 1 3 4", "expected the end of the line"),
    ] {
        let error = Stf::read(&program, text).expect_err(text);
        assert!(error.problem().to_string().starts_with(said), "{text}: {error}");
    }
}

const METERS: &str = "
    struct h_t {
        bit<16> which
        bit<16> length
    }
    header h instanceof h_t
    struct m_t {
        bit<32> port
        bit<32> colour
        bit<32> length
    }
    metadata instanceof m_t
    metarray rates size SIZE
    apply {
        rx m.port
        extract h.h
        mov m.length h.h.length
        meter rates h.h.which m.length 0 m.colour
        emit h.h
        tx m.colour
    }";

#[test]
fn all_meters_of_an_array_get_rates_by_one_line() {
    let program = Program::read(&METERS.replace("SIZE", "4")).unwrap();
    let mut text = "meter_array_set_rates rates 1:10 1:20\n".to_owned();
    for which in 0..4 {
        // Green, yellow and red.
        for (length, port) in [(5, 0), (10, 1), (100, 2)] {
            text += &format!("packet 9 {which:04x} {length:04x}\nexpect {port}\n");
        }
    }
    let test = Stf::read(&program, &text).unwrap();
    let defined = carry_out(&test, &mut Definition::new(program.clone()));
    let fast = carry_out(&test, &mut Single::new(program).unwrap());
    assert_eq!((defined.failures.as_slice(), fast.failures.as_slice()), (&[][..], &[][..]));
    assert_eq!((defined.met, fast.met), (12, 12));
    // The line takes no more memory where there are more meters.
    let steps = |size: &str| {
        let program = Program::read(&METERS.replace("SIZE", size)).unwrap();
        let test = Stf::read(&program, "meter_array_set_rates rates 1:10 1:20").unwrap();
        format!("{test:?}").matches("committed:").count()
    };
    assert_eq!((steps("4"), steps("0x10000")), (1, 1));
}

#[test]
fn keys_that_do_not_fit_their_kind_of_match_are_refused() {
    let program = Program::read(&KINDS.replace("KIND", "stations")).unwrap();
    for (text, said) in [
        ("add routes q:0x**01 no()", "expected a prefix: the field is `lpm`"),
        ("add routes q:0x1*1* no()", "expected a prefix: the field is `lpm`"),
        ("add routes q:0xff&&&0xff no()", "expected a prefix: the field is `lpm`"),
        ("add routes q:12* no()", "expected digits behind `0x` or `0b`"),
        ("add acl p:12* no()", "expected digits behind `0x` or `0b`"),
        ("add stations mac:0x1* no()", "expected a whole value of 48 bits: the field is `exact`"),
        ("add stations mac:* no()", "expected a whole value of 48 bits: the field is `exact`"),
        ("add acl p:0x100* no()", "expected a value of 8 bits"),
        ("add acl m.p:1 no()", "expected a field of the key: h.a.p, h.vlan_1.q"),
        ("add acl hdr.b.p:1 no()", "expected a field of the key: h.a.p, h.vlan_1.q"),
        ("add acl p:1 go(1)", "the argument `mac` is missing"),
        ("add acl p:1 go(1,2,3)", "the action has 2 arguments, and this is one more"),
        ("add acl p:1 go(1,mac:2)", "name all arguments, or none"),
        ("add acl p:1 go(port:1,2)", "expected `argument:value`"),
        ("add acl p:1 no() =", "expected a name of the entry"),
        ("add acl p:1 no() = A B", "expected the end of the line"),
        ("modify acl p:1 no() = A", "expected the end of the line"),
    ] {
        let error = Stf::read(&program, text).expect_err(text);
        assert!(error.problem().to_string().starts_with(said), "{text}: {error}");
    }
}
