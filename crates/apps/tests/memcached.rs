//! Talks with the store and with memcached 1.6.18, where that is installed: odd forms of every
//! command, from a table and drawn from a seed, and letter for letter the same answers.
//!
//! Left out is what hangs on numbers that each gives by itself (`gets`, the flag `c`), on slabs
//! (`me`), and what docs/kvs-protocol.md lists as different.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use niclab_apps::kvs::codec::context::Context;
use niclab_apps::kvs::codec::session::{Next, Session};
use niclab_apps::kvs::protocol::time::UnixTime;
use niclab_apps::kvs::store::Store;

/// A memcached with a socket in a directory of its own; both go with its value.
struct Memcached {
    child: Child,
    directory: PathBuf,
}

impl Memcached {
    fn start(test: &str) -> Option<Memcached> {
        let version = Command::new("memcached").arg("-V").output();
        let version = version.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
        if !version.as_ref().is_ok_and(|told| told.contains("memcached 1.6.18")) {
            println!("SKIP {test}: needs memcached 1.6.18, found {version:?}");
            return None;
        }
        let name = format!("niclab-{test}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new("memcached");
        command.args(["-u", "root", "-t", "1", "-s"]).arg(directory.join("socket"));
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let memcached = Memcached { child, directory };
        let start = Instant::now();
        while memcached.connect().is_none() {
            assert!(start.elapsed() < Duration::from_secs(20), "memcached does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(memcached)
    }

    fn connect(&self) -> Option<UnixStream> {
        UnixStream::connect(self.directory.join("socket")).ok()
    }

    /// What it answers to these bytes on a connection of their own, emptied before.
    fn answer(&self, message: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(b"flush_all noreply\r\n");
        let _ = stream.write_all(message);
        let _ = stream.shutdown(Shutdown::Write);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        all
    }

    /// What it answers while more could come, and whether it ends the connection then.
    fn answer_open(&self, message: &[u8]) -> (Vec<u8>, bool) {
        let mut stream = self.connect().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let _ = stream.write_all(b"flush_all noreply\r\n");
        let _ = stream.write_all(message);
        let mut all = Vec::new();
        let is_closed = match stream.read_to_end(&mut all) {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        (all, is_closed)
    }

    /// The same of the binary protocol, which has no line before it.
    fn framed(&self, message: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(message);
        let _ = stream.shutdown(Shutdown::Write);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        all
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What an empty store answers to these bytes, and whether it ends the connection then.
fn ours(message: &[u8]) -> (Vec<u8>, bool) {
    let store = Store::new(32 << 20, 1, 7).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let context = Context { store: &store, now: UnixTime(now as u32), host: &() };
    let (mut session, mut used, mut out) = (Session::default(), 0, Vec::new());
    loop {
        let room = out.len() + (1 << 20);
        let progress = session.serve(&message[used..], &mut out, room, &context);
        used += progress.used;
        if progress.next != Next::Room {
            return (out, progress.next == Next::Close);
        }
    }
}

/// `|` is the end of a line, `K` a key that is too long, `V` a value of a byte more than 1 MiB, `Z`
/// a NUL, `\u{2409}` a tab.
fn spoken(talk: &str) -> Vec<u8> {
    let message = talk.replace('K', &"k".repeat(251)).replace('Z', "\0").replace('\u{2409}', "\t");
    (message.replace('V', &"v".repeat(1_048_577)) + "|mn|").replace('|', "\r\n").into_bytes()
}

/// What an answer ends with where the last line of a talk, `mn`, was read as a command.
const END: &[u8] = b"MN\r\n";

/// Whether two stores, ours and memcached, answer the same and both end the connection or both do
/// not. While memcached waits for the rest of a value it may hold back answers to what came before.
fn is_same(ours: &(Vec<u8>, bool), theirs: &(Vec<u8>, bool)) -> bool {
    let is_waiting = !ours.1 && !ours.0.ends_with(END);
    ours == theirs || is_waiting && !theirs.1 && ours.0.starts_with(&theirs.0)
}

#[test]
fn answers_are_held_with_each_other_to_their_ends() {
    let is_same = |ours: (&str, bool), theirs: (&str, bool)| {
        let owned = |(text, is_closed): (&str, bool)| (text.as_bytes().to_vec(), is_closed);
        is_same(&owned(ours), &owned(theirs))
    };
    assert!(is_same(("HD\r\nMN\r\n", false), ("HD\r\nMN\r\n", false)));
    assert!(is_same(("HD\r\n", false), ("HD\r\n", false)));
    assert!(is_same(("HD\r\n", true), ("HD\r\n", true)));
    assert!(is_same(("HD\r\nHD\r\n", false), ("HD\r\n", false)));
    for (ours, theirs) in [
        (("STORED\r\n", false), ("ERROR\r\n", false)),
        (("STORED\r\nMN\r\n", false), ("STORED\r\n", false)),
        (("STORED\r\n", false), ("STORED\r\nMN\r\n", false)),
        (("HD\r\n", true), ("", true)),
        (("HD\r\n", true), ("HD\r\n", false)),
        (("HD\r\n", false), ("HD\r\n", true)),
        (("HD\r\n", false), ("", true)),
    ] {
        assert!(!is_same(ours, theirs), "{ours:?}, {theirs:?}");
    }
}

/// Talks that are answered otherwise, and how. A second may end within a talk: so each has three
/// tries.
fn differences(memcached: &Memcached, talks: impl Iterator<Item = String>) -> String {
    let mut all = String::new();
    for talk in talks {
        let message = spoken(&talk);
        // Where ours has not come to the last line, it waits for more or has ended the connection:
        // then memcached has to do the same.
        let both = || {
            let ours = ours(&message);
            let theirs = match ours.0.ends_with(END) {
                true => (memcached.answer(&message), false),
                false => memcached.answer_open(&message),
            };
            (ours, theirs)
        };
        let is_same = (0..3).any(|_| {
            let (ours, theirs) = both();
            is_same(&ours, &theirs)
        });
        if !is_same {
            let text = |(bytes, is_closed): (Vec<u8>, bool)| {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
                format!("{text:?}{}", if is_closed { ", closed" } else { "" })
            };
            let (ours, theirs) = both();
            all += &format!("{talk:?}\n  kvs       {}\n  memcached {}\n", text(ours), text(theirs));
        }
    }
    all
}

/// Texts that are numbers, and some that are not.
const NUMBERS: [&str; 34] = [
    "0",
    "5",
    "007",
    "5\n",
    "5 ",
    "5\u{2409}",
    "5\u{2409}x",
    "5 x",
    "5Z",
    "5Zx",
    " 5",
    "\u{2409}5",
    "\n5",
    "\r5",
    "\u{b}5",
    "\u{c}5\u{c}",
    "+5",
    "-5",
    "-0",
    "+",
    "-",
    "",
    " ",
    "5x",
    "0x5",
    "5.0",
    "--5",
    "2147483647",
    "2147483648",
    "4294967297",
    "18446744073709551615",
    "18446744073709551616",
    "-18446744073709551615",
    "00000000000000000000000000000000000005",
];

#[test]
fn values_are_counted_as_memcached_counts_them() {
    let test = "values_are_counted_as_memcached_counts_them";
    let Some(memcached) = Memcached::start(test) else { return };
    // Of blanks alone it reads on in its memory.
    let numbers = NUMBERS.iter().filter(|number| **number != " ");
    let talks = numbers.clone().flat_map(|number| {
        let len = number.replace('\u{2409}', "T").len();
        let stored = format!("set n 3 0 {len}|{number}|");
        [
            // What was read and has not left yet is replaced there, and else written over.
            format!(
                "{stored}incr n 3|get n|mn|incr n 18446744073709551615|get n|mn|decr n 1|get n"
            ),
            format!("{stored}ma n v|ma n MD D2 v q|mg n v f|mn|ma n D9999999999 v|mg n v"),
        ]
    });
    let told = differences(&memcached, talks);
    assert!(told.is_empty(), "{told}");
    // The binary protocol: a set, an increment by 3 and a get; of the answers all but the numbers
    // of the items.
    for number in numbers {
        let value = number.replace('\u{2409}', "\t").replace('Z', "\0");
        let count = [&3_u64.to_be_bytes()[..], &[0; 12]].concat();
        let message = [
            frame(0x08, b"", b"", b""),
            frame(0x01, &[0; 8], b"n", value.as_bytes()),
            frame(0x05, &count, b"n", b""),
            frame(0x06, &count, b"n", b""),
            frame(0x00, b"", b"n", b""),
        ];
        let message = message.concat();
        let (ours, theirs) = (frames(&ours(&message).0), frames(&memcached.framed(&message)));
        assert_eq!(ours, theirs, "{number:?}");
    }
}

/// A request of the binary protocol.
fn frame(code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, code, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
    let body_len = extras.len() + key.len() + value.len();
    bytes.extend_from_slice(&(body_len as u32).to_be_bytes());
    bytes.extend_from_slice(&[1, 2, 3, code, 0, 0, 0, 0, 0, 0, 0, 0]);
    [&bytes, extras, key, value].concat()
}

/// Answers without the numbers of items.
fn frames(all: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut answers) = (all, Vec::new());
    while rest.len() >= 24 {
        let body_len = u32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize;
        let (answer, behind) = rest.split_at((24 + body_len).min(rest.len()));
        answers.push([&answer[..16], &answer[24..]].concat());
        rest = behind;
    }
    answers
}

#[test]
fn frames_of_every_code_are_answered_as_memcached_does() {
    let test = "frames_of_every_code_are_answered_as_memcached_does";
    let Some(memcached) = Memcached::start(test) else { return };
    let mut seed = 11;
    for code in (0..=0x30).chain([0x77, 0xff]).filter(|code| !UNFRAMED.contains(code)) {
        for extras in [0, 4, 8, 20] {
            for key in [&b""[..], b"n"] {
                for value in [&b""[..], b"7"] {
                    let word = draw(&mut seed).to_be_bytes();
                    let extras: Vec<u8> = (0..extras).map(|at| word[at % 8] & 1).collect();
                    let odd = frame(code, &extras, key, value);
                    // Where bytes are left that no length counts, memcached takes them for a frame.
                    let is_known = code <= 0x1a
                        || [0x1c, 0x1d, 0x1e].contains(&code)
                        || (0x20..=0x24).contains(&code);
                    // Of what it does not know it passes over extras and key a second time.
                    if !(is_known || extras.is_empty() && key.is_empty()) {
                        continue;
                    }
                    let is_left =
                        extras.len() == 4 && !value.is_empty() && (0x1c..0x30).contains(&code)
                            || code == 0x10 && !value.is_empty();
                    if is_left {
                        continue;
                    }
                    let set = frame(0x01, &[0; 8], b"n", b"5");
                    let message =
                        [frame(0x08, b"", b"", b""), set, odd, frame(0x0a, b"", b"", b"")];
                    let message = message.concat();
                    let (ours, theirs) =
                        (frames(&ours(&message).0), frames(&memcached.framed(&message)));
                    let told = format!("{code:#x}, {} of extras, {key:?}, {value:?}", extras.len());
                    assert_eq!(ours, theirs, "{told}");
                }
            }
        }
    }
}

/// The release's own text, and statistics of each.
const UNFRAMED: [u8; 2] = [0x0b, 0x10];

#[test]
fn numbers_of_a_line_are_read_as_memcached_reads_them() {
    let test = "numbers_of_a_line_are_read_as_memcached_reads_them";
    let Some(memcached) = Memcached::start(test) else { return };
    const FORMS: [&str; 22] = [
        "set a N 0 1|x|get a",
        "set a 0 N 1|x|get a",
        "set a 0 0 N|hello|get a",
        "set a 0 0 1|x|cas a 0 0 1 N|y|get a",
        "incr n N|get n",
        "decr n N|get n",
        "touch n N|get n",
        "gat N n|get n",
        "flush_all N|mn",
        "verbosity N",
        "delete n N",
        "ms a N|hello|mg a v",
        "ms a 1 FN|x|mg a f v",
        "ms a 1 TN|x|mg a v",
        "mg n TN v|mg n v",
        "mg z NN v|mg z v",
        "mg n RN v",
        "ma n DN v",
        "ma z N0 JN v",
        "ma z NN v|mg z v",
        "ms n 1 CN|x|mg n v",
        "md n CN|mg n v",
    ];
    let numbers =
        NUMBERS.iter().filter(|number| !number.contains([' ', '\n']) && !number.is_empty());
    let talks = numbers.flat_map(|number| {
        FORMS.iter().map(move |form| format!("set n 0 0 2|10|{}", replaced(form, number)))
    });
    // A flush that is put off, and a verbosity, stay with memcached.
    let told = differences(&memcached, talks.filter(|talk| !is_kept(talk)));
    assert!(told.is_empty(), "{told}");
}

/// The last `N` of a form replaced.
fn replaced(form: &str, number: &str) -> String {
    let (line, rest) = form.split_once('|').unwrap_or((form, ""));
    let (line, rest) = match line.starts_with("set a 0 0 1") {
        true => {
            let (value, rest) = rest.split_once('|').unwrap();
            let (line2, rest) = rest.split_once('|').unwrap();
            return format!("{line}|{value}|{}|{rest}", line2.replace('N', number));
        }
        false => (line, rest),
    };
    let at = line.rfind('N').unwrap();
    format!("{}{number}{}|{rest}", &line[..at], &line[at + 1..])
}

fn is_kept(talk: &str) -> bool {
    talk.split('|').any(|line| {
        let time = line.strip_prefix("flush_all ").unwrap_or("0");
        let digits = time.trim_matches(|c: char| !c.is_ascii_digit());
        !digits.trim_start_matches('0').is_empty()
    })
}

/// Odd forms of each command.
const TALKS: [&str; 62] = [
    "bogus noreply|set|set noreply|set a 0 0|set a 0 0 1 2 3|incr|incr a noreply|touch|touch a",
    "delete|delete noreply|delete a noreply|delete a 0 noreply|delete a 1 noreply|delete a b c d",
    "set a 0 0 1|x|delete a 0|delete a 5|delete a 00|get a",
    "verbosity|verbosity 1|verbosity 1 2|verbosity 1 2 3|verbosity noreply|verbosity x noreply",
    "verbosity 1 noreply|verbosity x|verbosity 1 2 noreply",
    "gat|gats|gat 0|gats 5|gat x|gat 0 none|gat noreply|get|gets|bget|bget none|get noreply",
    "set a 0 0 1|x|bget a|get a a a|get a  none a |gat 0 a|gat -1 a|get a",
    "set a 0 0 1|x|get aZ b|get Za|Zget a|get a Z a|set bZ 0 0 1|getZ a|mg aZ v|mg a vZ t",
    "m|mx|mg|ms|md|ma|me|mn|mn x|mg |ms a|ms  |mgx a|M|G|x",
    "ms a 1 MX|x|ms a 1 M|x|ms a 1 Me|x|ms a 1 Ms|x|ms a 1 MSS|x|mg a v|ms a 1 ME|x|mg a v",
    "set n 0 0 1|5|ma n Mi|ma n Md|ma n MX|ma n M|ma n MII|ma n MI|ma n M+ v|ma n M- v|ma n MD v",
    "ms K 1|x|ms a x|ms a|ms a 1 ! |x|ms a 1 v v|x|ms !! 1 b|x|ms a -1|x",
    "ms a 1 F|x|ms a 1 Fx|x|ms a 1 T|x|ms a 1 Tx|x|ms a 1 C|x|ms a 1 Jx|x|ms a 1 Dx Fx|x",
    "ms a 1 Tx Jx|x|ms a 1 Jx Tx|x|ms a 1 Fx Tx|x|ms a 1 Tx Fx|x|ms a 1 MZZ Tx|x",
    "mg a T|mg a Tx|mg a R|mg a F|mg a Fx|mg a C|mg a Jx|mg a Dx|mg a v v|mg a \u{7f}|mg a é",
    "md a T|md a Tx|md a q q|md a !|md a MZZ|md K|md K b|md !! b|md a Dx|md a é",
    "ma a T|ma a Tx|ma a q q|ma a !|ma a MZZ|ma K|ma K b|ma !! b|ma a Dx|ma a Jx",
    "mg a O1234567890123456789012345678901|mg a O12345678901234567890123456789012",
    "md a O1234567890123456789012345678901|md a O12345678901234567890123456789012",
    "ms a 1 O12345678901234567890123456789012|x|ms a 1 O12345678901234567890123456789012 MX|x",
    "set n 0 0 1|5|ma n O12345678901234567890123456789012|ma zz O12345678901234567890123456789012",
    "mg a s t k f h l u q v O1 T1 N1 R1 L P M1 1|mg a s t k f h u q v O1 N1 L P I D1 J1",
    "ms a 1 t k f h l u q v O1 T1 R1 L P C1 I|x|md a s t k f h l u q v O1 T1 N1 R1 L P C1 I D1",
    "set n 0 0 1|5|ma n t T30 t|ma n T60 t|ma n t|ma z t N90 t|ma z t|ma y N90 q|ma y q|ma y v",
    "ma z N0 J5 v|ma z C0 v|ma z C1 v|ma z N0 C1 v|ma y N0 J18446744073709551615 v|ma y v",
    "set a 0 0 1|x|md a C0|md none C0|ms a 1 C0|y|ms b 1 C0|y|ms b 1 C0 ME|y|mg a v|mg b v",
    "ms a 1|x|ms a 1 MA C0|y|ms a 1 MP C0|z|ms a 1 MR C0|z|ms a 1 I C0|z|mg a v|mg a v",
    "cas a 0 0 1 0|x|set a 0 0 1|x|cas a 0 0 1 0|y|cas a 0 0 1 -1|y|cas a 0 0 1|y|get a",
    "set a 0 0 1|x|cas a 0 0 1 0 noreply|y|cas a 0 0 1 x noreply|y|cas a 0 0 1 noreply|y|get a",
    "set a 0 0 600000|W|append a 0 0 600000|W|prepend a 0 0 600000|W|ms a 600000 MA|W|get b",
    "set a 0 0 1|x|add a 0 0 1048577|V|get a|ms a 1048577 ME|V|get a",
    "set a 0 0 1|x|set a 0 0 1048577 noreply|V|get a|append a 0 0 1048577|V",
    "flush_all 0 noreply|flush_all noreply 0|flush_all x noreply|flush_all 0 0|flush_all 0 0 0",
    "set a 0 0 1|x|flush_all -1|get a|set a 0 0 1|x|flush_all|get a|flush_all 0 0 noreply",
    "shutdown|shutdown x|shutdown graceful",
    "stats bogus|stats noreply|stats bogus noreply|stats settingsx|stats reset|stats reset x",
    "stats detail|stats detail x|stats detail off|stats detail dump|stats detail on x",
    "stats detail off|stats sizes|stats sizes x|stats detail off x|stats detail dump x",
    "stats reset|stats detail on|set a:1 0 0 1|x|get a:1 a:2 c|delete a:1|gat 0 a:2|\
     stats detail off|get a:1|mg a:1|stats detail dump|stats reset|stats detail dump",
    "stats detail on|set a:1 0 0 1|x|add a:1 0 0 1|x|touch a:1 1|incr a:1 1|set a:1 0 0 1048577|V|\
     stats detail off|stats detail dump|stats reset",
    "touch a 0 noreply|touch a noreply|touch a x|touch a 0 x|touch a 0 x y|touch noreply 0",
    "set a 0 0 1|x|touch a -1|get a|set a 0 0 1|x|touch a 2592001|get a|set a 0 0 1|x|touch a 9",
    "incr a 1 2|incr a 1 2 3|incr a 1 noreply|incr noreply 1|incr a noreply noreply|decr a",
    "set a 0 0 1|x|incr a x|incr a 1|decr a 1 noreply|incr a x noreply|get a",
    "replace a 0 0 1|x|append a 0 0 1|x|prepend a 0 0 1|x|replace a 0 0|replace a 0 0 1 2 3",
    "set a 0 0 0||get a|append a 0 0 0||get a|incr a 1|mg a s v|ma a",
    "set a 0 0 3|x|y|get a|set a 0 0 1|xyz|get a|set a 0 0 1 noreply|xyz|get a",
    "set   a   0   0   1   |x|  get   a  |get a\u{2409}|get a\u{2409}b",
    "set a\u{2409} 0 0 1|y|get a\u{2409}|get a",
    "\u{2409}get a|get\u{2409}a|GET a|Get a|set a 0 0 1\u{2409}|x|get a",
    "mg YmluMQ== b|ms YmluMQ== 1 b|x|mg YmluMQ== b k v|mg bin1 k v|mg YmluMQ b|mg ==== b|mg Y b k",
    "md YmluMQ== b k|ma YmluMQ== b k N0 v|ma YmluMQ== b k v|md YmluMQ== b k q|mg YmluMQ== b k",
    "ms a 1|x|md a I|mg a v|mg a v|md a I T30|mg a t v|ms a 1 I C1|y|mg a v|mg a v",
    "ms a 1 T30|x|mg a R60 t|mg a R60 t|mg a R10 t|mg b N30 R60 t|mg b N30 R60 t|mg b t",
    "ms a 1 q|x|ms a 1 q ME|x|ms b 1 q MR|x|mg a q v|mg c q v|md c q|md a q|ma c q|mn",
    "ms a 2 S2|xy|ms a 2 k O9 t|xy|ms a 2 b|xy|ms YQ== 2 b k O1|xy|mg a k v",
    "me|me none|me K|me !! b|me none b|me none x y z",
    "slabs|slabs x|lru|lru_crawler|cache_memlimit|watchx|extstore|misbehave",
    "get a HTTP/1.1|set a HTTP/1.1|delete x HTTP/1.1|mg HTTP/1.1|verbosity HTTP/1.1|stats HTTP/1.1",
    "POST / HTTP/1.1|get a",
    "set a 0 0 1|x|set a 0 0 100|short",
    "quit|get a",
];

#[test]
fn odd_forms_are_answered_as_memcached_does() {
    let Some(memcached) = Memcached::start("odd_forms") else { return };
    let value = "w".repeat(600_000);
    let told = differences(&memcached, TALKS.iter().map(|talk| talk.replace('W', &value)));
    assert!(told.is_empty(), "{}", told.replace(&value, "W"));
}

/// Flags of meta commands: right ones, tokens that are wrong, and letters that are no flag.
const FLAGS: [&str; 42] = [
    "b",
    "f",
    "h",
    "k",
    "l",
    "q",
    "t",
    "u",
    "v",
    "I",
    "O1",
    "O12345678901234567890123456789012",
    "T30",
    "T",
    "Tx",
    "N30",
    "N",
    "Nx",
    "R60",
    "R-",
    "Rx",
    "F1",
    "F",
    "F-1",
    "C999999999999",
    "C",
    "C-1",
    "D3",
    "D-1",
    "Dx",
    "J7",
    "J-1",
    "Jx",
    "MS",
    "M+",
    "MZ",
    "M",
    "MSS",
    "P",
    "L",
    "!",
    "é",
];

#[test]
fn flags_are_checked_in_the_order_in_which_memcached_checks_them() {
    let test = "flags_are_checked_in_the_order_in_which_memcached_checks_them";
    let Some(memcached) = Memcached::start(test) else { return };
    let mut talks = Vec::new();
    for command in ["mg", "md", "ma", "ms"] {
        let (len, value) = if command == "ms" { (" 1", "|6") } else { ("", "") };
        // A key, one in base64, and one that is not.
        for key in ["a", "YQ==", "!!"] {
            for (first, second) in
                FLAGS.iter().flat_map(|first| FLAGS.map(|second| (first, second)))
            {
                talks.push(format!(
                    "set a 0 0 1|5|{command} {key}{len} {first} {second}{value}|mg a t v"
                ));
            }
        }
    }
    let told = differences(&memcached, talks.into_iter());
    assert!(
        told.is_empty(),
        "{} of them: {}",
        told.lines().count() / 3,
        &told[..told.len().min(6_000)]
    );
}

/// Names of settings that an answer to `stats settings` has.
fn settings(answer: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(answer).into_owned();
    let names = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split(' ').next());
    names.map(str::to_owned).collect()
}

/// Names in the first column of the table in docs/kvs-protocol.md whose head begins so.
fn documented(head: &str) -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kvs-protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

#[test]
fn settings_of_memcached_are_answered_or_listed_as_without_a_meaning() {
    let test = "settings_of_memcached_are_answered_or_listed_as_without_a_meaning";
    let listed = documented("| setting of memcached |");
    let ours = settings(&ours(b"stats settings\r\n").0);
    assert!(ours.len() > 20 && listed.len() > 20, "{ours:?}, {listed:?}");
    assert!(ours.is_disjoint(&listed), "answered and listed: {:?}", &ours & &listed);
    let Some(memcached) = Memcached::start(test) else { return };
    let theirs = settings(&memcached.answer(b"stats settings\r\n"));
    // How memcached was built decides which of these it has.
    let is_built_in = |name: &&String| {
        ["ext_", "ssl_", "proxy_"].iter().any(|start| name.starts_with(start))
            || ["slab_automove_freeratio", "drop_privileges"].contains(&name.as_str())
    };
    let missing = &(&theirs - &ours) - &listed;
    assert!(missing.is_empty(), "neither answered nor listed: {missing:?}");
    let gone: Vec<_> = listed.difference(&theirs).filter(|name| !is_built_in(name)).collect();
    assert!(gone.is_empty(), "listed, and no setting of memcached: {gone:?}");
}

/// The next of a row of numbers (SplitMix64).
fn draw(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (*seed ^ *seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

const COMMANDS: [&str; 17] = [
    "set", "add", "replace", "append", "prepend", "cas", "get", "gat", "delete", "incr", "decr",
    "touch", "mg", "ms", "md", "ma", "bogus",
];

const WORDS: [&str; 30] = [
    "a", "b", "n", "0", "1", "5", "-1", "x", "+1", "noreply", "30", "1x", "v", "t", "k", "q",
    "T30", "N30", "R60", "I", "MA", "ME", "MR", "MD", "D5", "J7", "C0", "O9", "h", "f",
];

/// A talk of a few lines, most of them nearly right.
fn drawn(seed: &mut u64) -> String {
    let mut talk = "set n 0 0 2|10".to_owned();
    for _ in 0..2 + draw(seed) % 5 {
        let mut of = |words: &[&str]| words[draw(seed) as usize % words.len()].to_owned();
        let command = of(&COMMANDS);
        let shape: &[&[&str]] = match &command[..] {
            "set" | "add" | "replace" | "append" | "prepend" => &[KEYS, &["0", "7"], TIMES, &["2"]],
            "cas" => &[KEYS, &["0"], TIMES, &["2"], &["0", "1", "99999999"]],
            "gat" => &[TIMES, KEYS],
            "incr" | "decr" => &[KEYS, &["1", "300", "18446744073709551615"]],
            "touch" => &[KEYS, TIMES],
            "ms" => &[KEYS, &["2"]],
            _ => &[KEYS],
        };
        let mut words: Vec<String> = shape.iter().map(|words| of(words)).collect();
        let is_meta = command.len() == 2;
        for _ in 0..draw(seed) % 4 {
            let at = draw(seed) as usize;
            let word = WORDS[draw(seed) as usize % WORDS.len()].to_owned();
            match at % 5 {
                0 if !words.is_empty() => drop(words.remove(at / 5 % words.len())),
                1 if !words.is_empty() => {
                    let place = at / 5 % words.len();
                    words[place] = word;
                }
                _ if is_meta => words.push(word),
                _ => {}
            }
        }
        talk += &format!("|mn|{command} {}", words.join(" "));
        if matches!(&command[..], "set" | "add" | "replace" | "append" | "prepend" | "cas" | "ms") {
            talk += ["|11", "|hi", "|abc"][draw(seed) as usize % 3];
        }
    }
    talk + "|get a b n"
}

const KEYS: &[&str] = &["a", "b", "n"];
const TIMES: &[&str] = &["0", "100", "-1", "2592001"];

/// Whether docs/kvs-protocol.md lists a flag of the command: later releases of memcached have it.
fn is_listed(talk: &str) -> bool {
    talk.split('|').any(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let has = |flag: char| words.iter().skip(2).any(|word| word.starts_with(flag));
        match words[0] {
            "ms" => has('s') || has('N') || has('x'),
            "mg" => has('C') || has('x'),
            "md" | "ma" => has('x'),
            _ => false,
        }
    })
}

#[test]
fn drawn_talks_are_answered_as_memcached_does() {
    let Some(memcached) = Memcached::start("drawn_talks") else { return };
    let mut seed = 20_261_126;
    let talks: Vec<String> = (0..3_000).map(|_| drawn(&mut seed)).collect();
    let told = differences(&memcached, talks.into_iter().filter(|talk| !is_listed(talk)));
    assert!(
        told.is_empty(),
        "{} of them: {}",
        told.lines().count() / 3,
        &told[..told.len().min(6_000)]
    );
}
