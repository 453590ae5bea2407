//! Sessions of the text protocol: requests and answers, byte for byte.
//!
//! Every talk is also held in pieces: however it is cut, the answers are the same. Answers that
//! memcached 1.6.18 gives otherwise are marked.

use crate::kvs::codec::context::{Context, ServerStatistics, ServerView};
use crate::kvs::codec::session::{Next, Session};
use crate::kvs::protocol::limits::{ANSWERS_LEN_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::kvs::protocol::time::UnixTime;
use crate::kvs::store::{Statistics, Store};

const NOW: UnixTime = UnixTime(1_700_000_000);

struct OneThread;

impl ServerView for OneThread {
    fn statistics(&self, _: &Statistics) -> ServerStatistics {
        ServerStatistics { threads: 1, port: 11211, ..ServerStatistics::default() }
    }
}

/// A connection to a store, at a time.
struct Talk {
    store: Store,
    session: Session,
    now: UnixTime,
    kept: Vec<u8>,
    needed: usize,
    is_over: bool,
}

impl Talk {
    fn new() -> Talk {
        let store = Store::new(32 << 20, 1, 7).unwrap();
        let (session, kept) = Default::default();
        Talk { store, session, now: NOW, kept, needed: 1, is_over: false }
    }

    /// What is answered to more bytes.
    fn say(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        self.kept.extend_from_slice(bytes);
        while !self.is_over && self.kept.len() >= self.needed {
            let mut out = Vec::new();
            let context = Context { store: &self.store, now: self.now, host: &OneThread };
            let progress = self.session.serve(&self.kept, &mut out, ANSWERS_LEN_MAX, &context);
            self.kept.drain(..progress.used);
            all.extend_from_slice(&out);
            match progress.next {
                Next::Input(needed) => {
                    assert!(needed > self.kept.len(), "it would be asked for ever");
                    self.needed = needed;
                }
                Next::Room => {
                    assert!(out.len() >= ANSWERS_LEN_MAX);
                    self.needed = 1;
                }
                Next::Close => self.is_over = true,
            }
        }
        all
    }
}

/// Says something on a fresh connection, at once and in pieces; what is answered, and `<end>` where
/// the connection ends.
pub(super) fn answers(message: &[u8]) -> String {
    let held = |piece: usize| {
        let mut talk = Talk::new();
        let mut all = Vec::new();
        for bytes in message.chunks(piece) {
            all.extend(talk.say(bytes));
        }
        if talk.is_over {
            all.extend(b"<end>");
        }
        String::from_utf8_lossy(&all).into_owned()
    };
    let whole = held(message.len());
    for piece in [1, 3, 1000] {
        let is_long = message.len() > 100_000 && piece < 1000;
        assert!(is_long || held(piece) == whole, "in pieces of {piece} it is answered otherwise");
    }
    whole
}

/// A talk of lines, each with `\r\n`, and the lines that are answered.
#[track_caller]
fn check(message: &str, answered: &str) {
    let lines = |text: &str| -> String {
        text.split('|').map(|line| format!("{line}\r\n")).collect::<String>()
    };
    let expected = if answered.is_empty() { String::new() } else { lines(answered) };
    assert_eq!(answers(lines(message).as_bytes()), expected, "{message}");
}

const BAD: &str = "CLIENT_ERROR bad command line format";

#[test]
fn items_are_stored_and_read() {
    check("set a 5 0 3|abc|get a", "STORED|VALUE a 5 3|abc|END");
    check("set a 0 0 0||gets a", "STORED|VALUE a 0 0 2||END");
    check(
        "add a 0 0 1|x|add a 0 0 1|y|get a b a",
        "STORED|NOT_STORED|VALUE a 0 1|x|VALUE a 0 1|x|END",
    );
    check("replace a 0 0 1|x|set a 0 0 1|x|replace a 0 0 1|y", "NOT_STORED|STORED|STORED");
    check(
        "append a 0 0 1|x|set a 3 0 1|b|append a 0 9 1|c|prepend a 9 9 1|a|get a",
        "NOT_STORED|STORED|STORED|STORED|VALUE a 3 3|abc|END",
    );
    check(
        "set a 0 0 1|x|cas a 1 0 1 2|y|cas a 0 0 1 2|z|gets a|cas b 0 0 1 1|z",
        "STORED|STORED|EXISTS|VALUE a 1 1 3|y|END|NOT_FOUND",
    );
    check("set a 4294967295 0 1|x|get a", "STORED|VALUE a 4294967295 1|x|END");
    check("set a 0 0 14|get b||set c|get a", "STORED|VALUE a 0 14|get b||set c|END");
}

#[test]
fn items_end() {
    let mut talk = Talk::new();
    let ask = |talk: &mut Talk, message: &str| {
        String::from_utf8(talk.say(message.replace('|', "\r\n").as_bytes())).unwrap()
    };
    ask(&mut talk, "set a 0 10 1|a|set b 0 -1 1|b|set c 0 0 1|c|");
    assert_eq!(
        ask(&mut talk, "get a b|touch a 20|gat 30 c|"),
        "VALUE a 0 1\r\na\r\nEND\r\nTOUCHED\r\nVALUE c 0 1\r\nc\r\nEND\r\n"
    );
    talk.now = UnixTime(NOW.0 + 19);
    assert_eq!(ask(&mut talk, "get a|mg a t|"), "VALUE a 0 1\r\na\r\nEND\r\nHD t1\r\n");
    talk.now = UnixTime(NOW.0 + 20);
    assert_eq!(
        ask(&mut talk, "get a|touch a 5|gats 0 c|"),
        "END\r\nNOT_FOUND\r\nVALUE c 0 1 4\r\nc\r\nEND\r\n"
    );
    assert_eq!(ask(&mut talk, "flush_all 5|get c|"), "OK\r\nVALUE c 0 1\r\nc\r\nEND\r\n");
    talk.now = UnixTime(NOW.0 + 25);
    assert_eq!(
        ask(&mut talk, "get c|set c 0 0 1|d|get c|"),
        "END\r\nSTORED\r\nVALUE c 0 1\r\nd\r\nEND\r\n"
    );
}

#[test]
fn commands_of_one_line_are_answered() {
    check("set a 0 0 1|x|delete a|delete a|delete a 0", "STORED|DELETED|NOT_FOUND|NOT_FOUND");
    check(
        "incr n 1|set n 0 0 2|10|decr n 1|get n|incr n 91|get n",
        "NOT_FOUND|STORED|9|VALUE n 0 2|9 |END|100|VALUE n 0 3|100|END",
    );
    check(
        "set n 0 0 1|5|decr n 9|incr n 18446744073709551615|incr n 1",
        "STORED|0|18446744073709551615|0",
    );
    check("set a 0 0 1|x|flush_all|get a|flush_all 0|flush_all -1", "STORED|OK|END|OK|OK");
    check("verbosity 1|verbosity 1 2|version|mn|mn x", "OK|OK|VERSION 1.6.18-niclab|MN|MN");
    check(
        "stats items|stats slabs|stats reset|stats sizes",
        "END|STAT active_slabs 0|STAT total_malloced 0|END|RESET|STAT sizes_status disabled|END",
    );
    assert_eq!(answers(b"quit\r\nget a\r\n"), "<end>");
    assert_eq!(answers(b"get a\nversion\n"), "END\r\nVERSION 1.6.18-niclab\r\n");
}

#[test]
fn noreply_suppresses_the_answer() {
    check(
        "set a 0 0 1 noreply|x|add a 0 0 1 noreply|x|replace a 0 0 1 noreply|y|\
         append a 0 0 1 noreply|z|get a",
        "VALUE a 0 2|yz|END",
    );
    check(
        "incr a 1 noreply|decr a 1 noreply|touch a 0 noreply|delete a noreply|\
         delete a 0 noreply|mn",
        "MN",
    );
    check(
        "flush_all noreply|flush_all 0 noreply|verbosity 1 noreply|cas a 0 0 1 1 noreply|x|mn",
        "MN",
    );
    check("set a x 0 1 noreply|get b", "END");
    check("bogus noreply|set a noreply|mn", "ERROR|ERROR|MN");
}

#[test]
fn malformed_lines_get_the_error_that_memcached_gives() {
    for line in [
        "",
        " ",
        "get",
        "get ",
        "gets",
        "bogus",
        "GET a",
        "set",
        "set a",
        "set a 0 0",
        "set a 0 0 1 noreply extra",
        "cas a 0 0 1",
        "incr",
        "incr a",
        "incr a 1 2 3",
        "delete",
        "touch",
        "touch a",
        "gat",
        "verbosity",
        "stats bogus",
        "m",
        "mx a",
        "cache_memlimit",
        "watch",
        "slabs reassign 1 2",
    ] {
        check(line, "ERROR");
    }
    check("shutdown|shutdown graceful", "ERROR: shutdown not enabled|ERROR: shutdown not enabled");
    for line in [
        "set a x 0 1",
        "set a 0 x 1",
        "set a 0 0 x",
        "set a 0 0 -1",
        "set a -1 0 1",
        "set a 0 0 2147483647",
        "set a 0 0 99999999999999999999",
        "cas a 0 0 1 x",
        "cas a 0 0 1 -1",
        "verbosity x",
        "ms a",
        "ms a x",
        "ms a -1",
        "me",
    ] {
        check(line, BAD);
    }
    check("mg|ms|md|ma", "ERROR|ERROR|ERROR|ERROR");
}

#[test]
fn malformed_numbers_and_usage_have_errors_of_their_own() {
    check(
        "incr a x|decr a -1",
        "CLIENT_ERROR invalid numeric delta argument|CLIENT_ERROR invalid numeric delta argument",
    );
    check(
        "touch a x|gat x a|flush_all x",
        "CLIENT_ERROR invalid exptime argument|CLIENT_ERROR invalid exptime argument|\
         CLIENT_ERROR invalid exptime argument",
    );
    let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
    check("delete a 5|delete a b c", &format!("{usage}|{usage}"));
    check(
        "set t 0 0 3|abc|incr t 1",
        "STORED|CLIENT_ERROR cannot increment or decrement non-numeric value",
    );
    assert_eq!(answers(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "<end>");
}

/// memcached's `_meta_flag_preparse` checks them from left to right, and a key in base64 when the
/// turn of its `b` comes. `md` and `ma` do not say what is wrong.
#[test]
fn wrong_flags_of_meta_commands_get_the_error_that_memcached_gives() {
    const WHICH: &str = "invalid or duplicate flag";
    for (message, error) in [
        ("mg a F-1", "bad command line format"),
        ("mg a F-1 Tx", "bad token in command line format"),
        ("mg a Tx F-1", "bad token in command line format"),
        ("mg a D-1", "invalid numeric delta value"),
        ("mg a D-1 Jx", "invalid numeric initial value"),
        ("mg a Jx D-1", "invalid numeric delta value"),
        ("mg a Jx !", "invalid flag"),
        ("mg a Jx k k", "duplicate flag"),
        ("mg !! b", "error decoding key"),
        ("mg !! b Tx", "bad token in command line format"),
        ("mg !! Tx b", "error decoding key"),
        ("mg !! F-1 b", "error decoding key"),
        ("mg !! b F-1", "error decoding key"),
        ("mg !! b !", "invalid flag"),
        ("md a F-1", WHICH),
        ("md a D-1", WHICH),
        ("md !! b", WHICH),
        ("ma a F-1", WHICH),
        ("ma a !", WHICH),
        ("ma a k k", WHICH),
    ] {
        check(&format!("{message}|mn"), &format!("CLIENT_ERROR {error}|MN"));
    }
}

/// As in memcached, which looks at the token when it repeats it.
#[test]
fn work_before_a_too_long_token_is_kept() {
    let long = format!("O{}", "2".repeat(32));
    let error = "CLIENT_ERROR opaque token too long";
    for (message, answered) in [
        ("set n 0 0 1|5|ma n LONG|get n", "STORED|ERROR|VALUE n 0 1|6|END"),
        ("ma z LONG|ma z q LONG", "ERROR|ERROR"),
        ("set a 0 0 1|x|mg a T30 LONG|mg a t", "STORED|ERROR|HD t30"),
        ("set a 0 0 1|x|mg a LONG T30|mg a t", "STORED|ERROR|HD t-1"),
        ("mg z N30 LONG|mg z v t", "ERROR|VA 0 t30|"),
        ("set a 0 0 1|x|md a LONG|get a", "STORED|ERROR|VALUE a 0 1|x|END"),
        ("ms a 1 LONG|x|get a", "ERROR|END"),
    ] {
        check(&message.replace("LONG", &long), &answered.replace("ERROR", error));
    }
}

#[test]
fn keys_have_a_length() {
    let (long, longer) = ("k".repeat(KEY_LEN_MAX), "k".repeat(KEY_LEN_MAX + 1));
    check(&format!("set {long} 0 0 1|x|get {long}"), &format!("STORED|VALUE {long} 0 1|x|END"));
    for line in [
        "get K",
        "gets a K",
        "gat 0 K",
        "delete K",
        "incr K 1",
        "touch K 0",
        "mg K v",
        "md K",
        "ma K",
        "me K",
    ] {
        check(
            &format!("set a 0 0 1|x|{}|mn", line.replace('K', &longer)),
            &format!("STORED|{BAD}|MN"),
        );
    }
    check(&format!("set {longer} 0 0 1"), BAD);
    check(&format!("ms {longer} 1|x|mn"), &format!("{BAD}|ERROR|MN"));
}

#[test]
fn values_have_a_length_and_an_end() {
    let value = "v".repeat(VALUE_LEN_MAX);
    check(&format!("set a 0 0 {}|{value}|mg a s", value.len()), "STORED|HD s1048576");
    let too_large = "SERVER_ERROR object too large for cache";
    for line in ["set a 0 0 L", "add a 0 0 L", "cas a 0 0 L 1", "ms a L"] {
        let line = line.replace('L', &(VALUE_LEN_MAX + 1).to_string());
        check(&format!("{line}|{value}v|mn"), &format!("{too_large}|MN"));
    }
    check(
        &format!("set a 0 0 1|x|set a 0 0 {}|{value}v|get a", VALUE_LEN_MAX + 1),
        &format!("STORED|{too_large}|END"),
    );
    // What is behind a value that is too long is read as a line: so does memcached.
    check("set a 0 0 1|xyz|mn", "CLIENT_ERROR bad data chunk|ERROR|MN");
    check("set a 0 0 3|x|get a|mn", "CLIENT_ERROR bad data chunk|ERROR|MN");
    check("ms a 1|xyz|mn", "CLIENT_ERROR bad data chunk|ERROR|MN");
}

#[test]
fn lines_have_a_length_unless_they_are_keys() {
    assert_eq!(answers(&[b'x'; 3000]), "<end>");
    assert_eq!(answers(&[b' '; 3000]), "<end>");
    let mut many = b"set k 0 0 1\r\nv\r\ngets".to_vec();
    for number in 0..5000 {
        many.extend_from_slice(if number % 1000 == 0 { b" k" } else { b" none" });
    }
    many.extend_from_slice(b"\r\nmn\r\n");
    let expected = "VALUE k 0 1 2\r\nv\r\n".repeat(5);
    assert_eq!(answers(&many), format!("STORED\r\n{expected}END\r\nMN\r\n"));
    let mut talk = Talk::new();
    talk.say(b"get ");
    for _ in 0..100 {
        assert_eq!(talk.say(&[b' '; 3000]), b"");
        assert!(talk.kept.len() < 3010, "spaces are kept");
    }
    let endless = [&b"get "[..], &[b'y'; 3000], b" a\r\nmn\r\n"].concat();
    assert_eq!(answers(&endless), format!("{BAD}\r\nMN\r\n"));
}

#[test]
fn answers_wait_for_room_and_none_is_lost() {
    let mut talk = Talk::new();
    let value = vec![b'v'; 40_000];
    talk.say(&[b"set k 0 0 40000\r\n", &value[..], b"\r\n"].concat());
    let line = format!("get {}\r\nmn\r\n", "k ".repeat(100));
    let mut out = Vec::new();
    let context = Context { store: &talk.store, now: NOW, host: &OneThread };
    let progress = talk.session.serve(line.as_bytes(), &mut out, ANSWERS_LEN_MAX, &context);
    assert_eq!(progress.next, Next::Room);
    assert!((ANSWERS_LEN_MAX..ANSWERS_LEN_MAX + 50_000).contains(&out.len()), "{}", out.len());
    let rest = talk.say(&line.as_bytes()[progress.used..]);
    assert_eq!(out.len() + rest.len(), 100 * ("VALUE k 0 40000\r\n\r\n".len() + 40_000) + 9);
    assert!(rest.ends_with(b"END\r\nMN\r\n"));
}

#[test]
fn mg_answers_what_its_flags_ask_for_in_their_order() {
    check(
        "ms a 3 F5 T100|abc|mg a|mg a v|mg a s v t f k Oq1 c",
        "HD|HD|VA 3|abc|VA 3 s3 t100 f5 ka Oq1 c2|abc",
    );
    check("mg none|mg none v q|mg none k Oabc|mn", "EN|EN knone Oabc|MN");
    check("set a 0 0 1|x|mg a h l t|mg a h|mg a u h", "STORED|HD h0 l0 t-1|HD h1|HD h1");
    check("set a 0 0 1|x|mg a u h|mg a h", "STORED|HD h0|HD h0");
    check("set a 0 0 1|x|mg a c v C2|mg a v C3", "STORED|HD c2|VA 1|x");
    check("set a 0 0 1|x|mg a T50 t|mg a t T60", "STORED|HD t50|HD t50");
    check(
        "ms YmluMQ== 3 b|bin|mg YmluMQ== b k v|get bin1|mg bin1 k",
        "HD|VA 3 kYmluMQ== b|bin|VALUE bin1 0 3|bin|END|HD kYmluMQ== b",
    );
    check(
        "mg a P1 Lx|mg a O23456789012345678901234567890123",
        "EN|CLIENT_ERROR opaque token too long",
    );
    check(
        "mg a v v|mg a !|mg a T|mg a Tx|mg a R|mg a Cx|mg !!! b",
        "CLIENT_ERROR duplicate flag|CLIENT_ERROR invalid flag|\
         CLIENT_ERROR bad token in command line format|\
         CLIENT_ERROR bad token in command line format|\
         CLIENT_ERROR bad token in command line format|\
         CLIENT_ERROR bad token in command line format|CLIENT_ERROR error decoding key",
    );
    check(&format!("mg a{}", " a".repeat(20)), "CLIENT_ERROR options flags are too long");
}

#[test]
fn one_client_wins_and_the_others_are_told() {
    check("mg a N30 t v|mg a N30 t v|mg a v c E9", "VA 0 t30 W||VA 0 t30 Z||VA 0 c2 Z|");
    check("mg a N30 E99 c", "HD c99 W");
    check(
        "set a 0 100 1|x|mg a R50|mg a R200 t|mg a R200|set a 0 0 1|y|mg a R200",
        "STORED|HD|HD t100 W|HD Z|STORED|HD",
    );
    check(
        "set a 0 0 3|abc|md a I|mg a v|mg a v c|ms a 1 C3|y|mg a v c",
        "STORED|HD|VA 3 X W|abc|VA 3 c3 Z X|abc|HD|VA 1 c4|y",
    );
    check("set a 0 100 1|x|md a I T30|mg a t", "STORED|HD|HD t30 X W");
    // A client that lost the race stores what is stale.
    check(
        "ms a 1 E100|x|ms a 1 C50|y|ms a 1 C50 I|y|mg a v|ms a 1 C9999 I|z",
        "HD|EX|HD|VA 1 X W|y|EX",
    );
}

#[test]
fn ms_stores_as_its_mode_says() {
    check("ms a 2 c|hi|ms a 2 c E77 k Oz b|hi", "HD c2|CLIENT_ERROR error decoding key");
    check("ms a 2 k Oabc s c E77|hi|mg a c", "HD ka Oabc s2 c77|HD c77");
    check("ms a 2 ME|hi|ms a 2 ME c|ho|ms a 2 ME q|ho", "HD|NS c0|NS");
    check(
        "ms a 2 MA|hi|ms a 2|hi|ms a 2 MA s|ho|ms a 1 MP s|_|mg a v",
        "NS|HD|HD s4|HD s5|VA 5|_hiho",
    );
    check("ms a 2 MA N30|hi|mg a t v|ms b 1 MP N0|x|mg b t", "HD|VA 2 t30|hi|HD|HD t-1");
    check("ms a 2 MR|hi|ms a 2 MS|hi|ms a 2 MR|ho|ms a 2 q|hu|mg a v", "NS|HD|HD|VA 2|hu");
    check(
        "ms a 2 C1|hi|ms a 2|hi|ms a 2 C1|ho|ms a 2 C1 MR|ho|ms a 1 MA C1|x|ms a 1 MA C2|x",
        "NF|HD|EX|EX|EX|HD",
    );
    check(
        "ms a 2 MX|hi|ms a 2 M|hi|ms a 2 Fx|hi|ms a 2 v v|hi|mn",
        "CLIENT_ERROR invalid mode for ms M token|CLIENT_ERROR incorrect length for M token|\
         CLIENT_ERROR bad command line format|CLIENT_ERROR duplicate flag|MN",
    );
}

#[test]
fn md_takes_out_and_ma_counts() {
    check("set a 0 0 1|x|md a C9|md a C2 q|md a k Oabc|md a q|mn", "STORED|EX|NF ka Oabc|NF|MN");
    check(
        "set a 5 100 3|abc|md a x|mg a v f t c|md a I x E9|mg a v c",
        "STORED|HD|VA 0 f0 t-1 c2||HD|VA 0 c9 X W|",
    );
    check(
        "ma n|ma n q|set n 0 0 2|10|ma n v|ma n D5 v|ma n MD D3 v|ma n M- v|ma n M+ v q|\
         ma n v t k Oz c",
        "NF|NF|STORED|VA 2|11|VA 2|16|VA 2|13|VA 2|12|VA 2 t-1 kn Oz c8|14",
    );
    check("ma n N90 J13 v t|ma n v T5 t|ma n C1|ma n E500 c", "VA 2 t90|13|VA 2 t5|14|EX|HD c500");
    check(
        "set a 0 0 3|abc|ma a v",
        "STORED|CLIENT_ERROR cannot increment or decrement non-numeric value",
    );
    check(
        "ma n MX|ma n Dx|ma n Jx|ma n MD D1 N0 J5 v|ma n MD D300 v",
        "CLIENT_ERROR invalid mode for ma M token|CLIENT_ERROR invalid or duplicate flag|\
         CLIENT_ERROR invalid or duplicate flag|VA 1|5|VA 1|0",
    );
    check(
        "set a 0 50 1|x|me a|mg a|me a|me none",
        "STORED|ME a exp=50 la=0 cas=2 fetch=no cls=1 size=48|HD|\
         ME a exp=50 la=0 cas=2 fetch=yes cls=1 size=48|EN",
    );
}

#[test]
fn statistics_have_memcacheds_names() {
    let message = b"set a 0 0 1\r\nx\r\nget a b\r\nget a\r\ndelete a\r\nincr n 1\r\ntouch a 1\r\n\
        cas a 0 0 1 1\r\nx\r\nstats\r\n";
    let reported = answers(message);
    for line in [
        "cmd_get 3",
        "get_hits 2",
        "get_misses 1",
        "cmd_set 2",
        "delete_hits 1",
        "incr_misses 1",
        "cmd_touch 1",
        "touch_misses 1",
        "cas_misses 1",
        "curr_items 0",
        "total_items 1",
        "bytes 0",
        "limit_maxbytes 33554432",
        "threads 1",
        "time 1700000000",
        "evictions 0",
        "lock_waits 0",
    ] {
        assert!(reported.contains(&format!("STAT {line}\r\n")), "{line} is missing in\n{reported}");
    }
    assert!(reported.ends_with("END\r\n"));
    let settings = answers(b"stats settings\r\n");
    assert!(
        settings.contains("STAT item_size_max 1048576\r\n")
            && settings.contains("STAT udpport 0\r\n")
    );
}
