//! Numbers of a payload are compared and followed as Suricata does.

use super::*;

const PAYLOAD: &[u8] = &[0x00, 0x10, 0xff, 0x02, b'1', b'2', b' ', b'0', b'x', b'1', b'f', b'z'];

#[track_caller]
fn tests(value: &str) -> bool {
    ByteTest::read(value).unwrap_or_else(|_| panic!("{value}")).matches(PAYLOAD, 2)
}

#[track_caller]
fn jump(value: &str) -> Option<usize> {
    ByteJump::read(value).unwrap_or_else(|_| panic!("{value}")).target(PAYLOAD, 2)
}

fn has(value: &str, payload_len: usize, previous: usize) -> bool {
    DataAt::read(value).ok().unwrap().matches(&PAYLOAD[..payload_len], previous)
}

#[test]
fn byte_test_compares() {
    assert!(tests("2,=,16,0") && tests("2,>,15,0") && tests("2, <, 17, 0") && tests("2,>=,16,0"));
    assert!(tests("2,<=,16,0") && !tests("2,!=,16,0") && tests("2,!>,16,0") && tests("2,!,17,0"));
    assert!(tests("1,&,0x80,2") && !tests("1,&,0x80,1") && tests("1,^,1,3") && !tests("1,^,2,3"));
    assert!(tests("2,=,0x1000,0,little") && tests("2,=,0xff02,0,relative"));
    assert!(tests("8,>,0,0"), "eight bytes are the most without `string`");
}

#[test]
fn byte_test_reads_digits() {
    assert!(tests("2,=,12,4,string,dec") && tests("2,=,0x12,4,string,hex"));
    assert!(tests("2,=,10,4,string,oct") && tests("5,=,0x1f,6,string"));
    assert!(tests("1,=,1,2,string,dec,relative"));
    assert!(!tests("1,!=,1,11,string,dec"), "no digit is no match, negated or not");
}

#[test]
fn byte_test_masks_and_shifts() {
    assert!(tests("1,=,15,2,bitmask 0xf0") && tests("1,=,1,1,bitmask 0x10"));
    assert!(tests("1,=,0,3,bitmask 0xf0"));
}

#[test]
fn byte_test_stays_within_the_payload() {
    assert!(!tests("2,!=,0,11") && !tests("1,!=,1,-1") && !tests("1,!=,1,12"));
    assert!(tests("1,=,0x10,-1,relative") && !tests("1,!=,1,-3,relative"));
}

#[test]
fn byte_jump_goes_to_a_place() {
    assert_eq!(jump("1,3"), Some(6), "behind the number");
    assert_eq!(jump("1,1,relative"), Some(6));
    assert_eq!(jump("1,3,from_beginning"), Some(2));
    assert_eq!(jump("1,3,from_beginning,multiplier 3"), Some(6));
    assert_eq!(jump("1,3,align,from_beginning"), Some(4));
    assert_eq!(jump("1,3,post_offset -3"), Some(3));
    assert_eq!(jump("0,0,from_end,post_offset -4"), Some(8));
    assert_eq!(jump("1,0,post_offset -9"), Some(0), "before the payload is its start");
    assert_eq!(jump("1,2"), None, "behind the payload");
    assert_eq!(jump("1,12"), None);
    assert_eq!(jump("2,4,string,dec,post_offset -12"), Some(6));
    assert_eq!(jump("8,0,multiplier 65535"), None, "far outside is behind the payload");
}

#[test]
fn isdataat_asks_for_a_byte() {
    assert!(has("4", 5, 0) && !has("5", 5, 0) && has("!5", 5, 0));
    assert!(has("3,relative", 5, 2) && !has("4,relative", 5, 2) && has("!4,relative", 5, 2));
    assert!(has("3, relative ,rawbytes", 5, 2) && has("+4", 5, 0) && !has("05 ", 5, 0));
    assert!(DataAt::read("!1,relative").ok().unwrap().is_end());
}

#[test]
fn wrong_values_are_refused() {
    for wrong in ["1,=,1", "9,=,1,0", "24,=,1,0,string", "1,~,1,0", "1,=,1,0,hex", "1,=,1,0,left"] {
        assert!(matches!(ByteTest::read(wrong), Err(Unfit::Expected(_))), "{wrong}");
    }
    for wrong in ["1", "1,70000", "1,0,multiplier 0", "1,0,from_end,from_beginning", "1,0,dec"] {
        assert!(matches!(ByteJump::read(wrong), Err(Unfit::Expected(_))), "{wrong}");
    }
    for wrong in ["", "70000", "1,far", "5,rawbytes", "5,rawbytes,relative", "! 5", "5,"] {
        assert!(matches!(DataAt::read(wrong), Err(Unfit::Expected(_))), "{wrong}");
    }
    for lack in ["1,=,size,0", "0,=,1,0", "2,=,1,0,dce", "2,=,1,0,string,dec,hex"] {
        assert!(matches!(ByteTest::read(lack), Err(Unfit::Lack(_))), "{lack}");
    }
    assert!(matches!(ByteJump::read("at,0"), Err(Unfit::Lack(_))));
    assert!(matches!(DataAt::read("len"), Err(Unfit::Lack(_))));
}
