//! Packet tests: what they say, what they find wrong, and that both executions find the same.

use niclab_program::definition::Definition;
use niclab_program::{Program, Single, Stf, Verdict, carry_out};

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
         packet 0 9999 0000
         no_packet
         check_counter count(2) == 2
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
    assert_eq!((said.packets, said.met, said.failures.len()), (6, 7, 0), "{said:?}");
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
        "line 11: no packet left by port 2",
        "line 12: count(1) is 4",
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_cannot_be_read_is_refused_at_its_place() {
    let program = Program::read(PROGRAM).unwrap();
    for (text, line, said) in [
        ("\npakcet 0 00", 2, "expected `packet`"),
        ("packet x 00", 1, "expected a number"),
        ("packet 0", 1, "expected the bytes of a packet"),
        ("packet 0 0", 1, "half a byte is missing"),
        ("packet 0 0*", 1, "expected the bytes of a packet"),
        ("packet 0 00 $", 1, "expected the bytes of a packet"),
        ("expect 0 0g", 1, "expected hexadecimal digits"),
        ("expect 0 00 $ 00", 1, "expected hexadecimal digits"),
        ("no_packet 1", 1, "expected the end of the line"),
        ("check_counter count == 1", 1, "expected `ARRAY(INDEX)`"),
        ("check_counter count(1) ~ 1", 1, "expected `==`"),
        ("check_counter none(1) == 1", 1, "expected a regarray: count"),
        ("add to to:1 go()", 1, "the argument `port` is missing"),
    ] {
        let error = Stf::read(&program, text).expect_err(text);
        assert_eq!(error.line(), line, "{text}");
        assert!(error.problem().to_string().starts_with(said), "{text}: {error}");
    }
}
