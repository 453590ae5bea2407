//! Loading a program takes memory and time by the length of its text, whatever that says.
//!
//! The process has a bound of memory here, and what a text takes of the processor is compared with
//! what a plain one of the same length does.

use std::fmt::Write as _;

use niclab_nic::text::TextError;
use niclab_program::limits::{CODE_LEN_MAX, IMPLIED_FIELDS_MAX, TEXT_LEN_MAX};
use niclab_program::{Pipeline, Program};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of address space that this process may have: some four hundred for each of a text, with
/// what threads reserve.
const ROOM: u64 = 2 << 30;

fn bound() {
    setrlimit(Resource::As, Rlimit { current: Some(ROOM), maximum: Some(ROOM) }).unwrap();
}

/// Fields of the type that has most.
const FIELDS: usize = 4_000;

/// A program with a type of many fields, which metadata, a header, a digest and an action's
/// arguments have; `more` stands before its main part, `body` in it.
fn program(more: &str, body: &str) -> String {
    let mut text = "struct wide_t {\n".to_owned();
    (0..FIELDS).for_each(|field| writeln!(text, "bit<8> f{field}").unwrap());
    text + "}\nmetadata instanceof wide_t\nheader h instanceof wide_t\n\
         digest d size 2 instanceof wide_t\nrss r\n"
        + more
        + "apply {\nrx m.f0\n"
        + body
        + "drop\n}\n"
}

fn load(text: &str) -> Result<Program, TextError> {
    assert!(text.len() <= TEXT_LEN_MAX);
    Program::read(text)
}

/// A text of so many bytes with the shortest instructions.
fn plain(len: usize) -> String {
    let (mut more, mut number) = (String::new(), 0);
    let room = len - program("", "").len() - 64;
    while more.len() < room {
        let count = ((room - more.len()) / "drop\n".len()).min(CODE_LEN_MAX - 1);
        more += &action(&format!("a{number}"), "none", "drop\n", count);
        number += 1;
    }
    let text = program(&more, "");
    let rest = len - text.len();
    text + &"\n".repeat(rest)
}

/// Times that a text may take as long as a plain one: less than one was seen.
const TIMES_MAX: u64 = 5;

/// Loads a text of which much is said of little; a program of it.
fn loaded(text: &str) -> Program {
    let load = |text: &str| {
        let now = || {
            let had = clock_gettime(ClockId::ThreadCPUTime);
            had.tv_sec as u64 * 1_000_000_000 + had.tv_nsec as u64
        };
        let begun_ns = now();
        let read = load(text).unwrap();
        Pipeline::new(read.clone()).unwrap();
        (now() - begun_ns, read)
    };
    let ((plain_ns, _), (took_ns, read)) = (load(&plain(text.len())), load(text));
    println!("{} times as long", took_ns as f64 / plain_ns as f64);
    assert!(took_ns < TIMES_MAX * plain_ns, "{took_ns} ns, and a plain one {plain_ns} ns");
    read
}

/// What of `text` is refused: the line as it stands, and why.
fn refused(text: &str) -> (String, String) {
    let error = load(text).unwrap_err();
    let line = text.lines().nth(error.line() as usize - 1).unwrap().to_owned();
    (line, error.problem().to_string())
}

/// An action of so many lines.
fn action(name: &str, arguments: &str, line: &str, count: usize) -> String {
    format!("action {name} args {arguments} {{\n{}return\n}}\n", line.repeat(count))
}

#[test]
fn fields_that_are_not_named_one_by_one_are_counted() {
    bound();
    let last = FIELDS - 1;
    let lines = [
        ("digest d m.f0\n".to_owned(), "none"),
        (format!("hash crc32 m.f0 m.f0 m.f{last}\n"), "none"),
        (format!("rss r m.f0 m.f0 m.f{last}\n"), "none"),
        (format!("hash crc32 m.f0 t.f0 t.f{last}\n"), "instanceof wide_t"),
        ("dma h.h t.f0\n".to_owned(), "instanceof wide_t"),
        ("learn a0 m.f0 m.f0\n".to_owned(), "instanceof wide_t"),
    ];
    for (line, arguments) in &lines {
        // As many actions as there is room for, with as many lines as one may have.
        let room = TEXT_LEN_MAX - program("", "").len();
        let (mut more, mut number) = (String::new(), 0);
        while number < 255 {
            let count = CODE_LEN_MAX - 1;
            let next = action(&format!("a{number}"), arguments, line, count);
            if more.len() + next.len() > room {
                break;
            }
            (more, number) = (more + &next, number + 1);
        }
        let (at, reason) = refused(&program(&more, ""));
        assert_eq!(at, line.trim_end());
        let named = format!("take {IMPLIED_FIELDS_MAX} fields at most that they do not name");
        assert!(reason.contains(&named), "{reason}");
    }
    // Half of the limit in actions, half in the main part; then one more.
    let half = IMPLIED_FIELDS_MAX / FIELDS / 2;
    let own = action("a", "none", "digest d m.f0\n", half);
    let rest = IMPLIED_FIELDS_MAX - 2 * half * FIELDS;
    // A packet goes past them: they would be too much work.
    let body = |all: &str| format!("jmp E\n{all}E : mov m.f0 1\n");
    let full = "digest d m.f0\n".repeat(half) + &format!("hash crc32 m.f0 m.f1 m.f{rest}\n");
    let accepted = load(&program(&own, &body(&full))).unwrap();
    assert_eq!(accepted.apply.steps.len(), half + 5);
    Pipeline::new(accepted).unwrap();
    let (at, _) = refused(&program(&own, &body(&(full + "hash crc32 m.f0 m.f1 m.f1\n"))));
    assert_eq!(at, "hash crc32 m.f0 m.f1 m.f1");
    // Fields of a header are bytes side by side: as many hashes as there is room for.
    let hashes = format!("hash crc32 m.f0 h.h.f0 h.h.f{last}\n").repeat(60_000);
    loaded(&program("", &body(&hashes)));
}

#[test]
fn what_tables_run_is_looked_at_once_however_often_they_stand_there() {
    bound();
    // Every table runs every action, and the main part every table again and again.
    let mut more = "struct byte_t {\nbit<8> f0\n}\n".to_owned();
    for array in 0..250 {
        writeln!(more, "regarray r{array} size 1 initval 0").unwrap();
    }
    let all: String = (0..250).map(|array| format!("regadd r{array} 0 1\n")).collect();
    for number in 0..250 {
        // A packet takes two instructions of it, so that it may meet many.
        let body = format!("jmp E\n{all}E : return\n");
        write!(more, "action a{number} args instanceof byte_t {{\n{body}}}\n").unwrap();
    }
    let lines: String = (0..250).map(|number| format!("a{number}\n")).collect();
    for table in 0..20 {
        write!(
            more,
            "table t{table} {{\nkey {{\nm.f1 exact\n}}\nactions {{\n{lines}none @defaultonly\n}}\n\
             default_action none args none\nsize 1\n}}\n"
        )
        .unwrap();
    }
    more += "action none args none {\nreturn\n}\n";
    let body: String = (0..20_000).map(|at| format!("table t{}\n", at % 20)).collect();
    let read = loaded(&program(&more, &body));
    let cost = read.cost();
    assert_eq!([cost.lookups, cost.instructions], [20_000, 60_002]);
    assert_eq!(cost.entry_bits, 20_000 * 8);
}

#[test]
fn what_actions_learn_is_looked_at_once_for_each_of_them() {
    bound();
    let (actions, learners, lines) = (200, 250, 900);
    let mut more = String::new();
    for number in 0..actions {
        let learn = format!("learn a{} m.f0\n", actions - 1);
        more += &action(&format!("a{number}"), "none", &learn, lines);
    }
    let names: String = (0..actions).map(|number| format!("a{number}\n")).collect();
    for table in 0..learners {
        write!(
            more,
            "learner l{table} {{\nkey {{\nm.f1\n}}\nactions {{\n{names}}}\n\
             default_action a0 args none\nsize 1\ntimeout {{\n1\n}}\n}}\n"
        )
        .unwrap();
    }
    let read = loaded(&program(&more, "table l0\n"));
    assert_eq!(read.tables.len(), learners);
}

#[test]
fn a_text_as_large_as_allowed_is_loaded() {
    bound();
    let text = plain(TEXT_LEN_MAX);
    assert_eq!(text.len(), TEXT_LEN_MAX);
    let read = load(&text).unwrap();
    assert!(read.actions.iter().map(|action| action.code.steps.len()).sum::<usize>() > 800_000);
    Pipeline::new(read).unwrap();
    let more = Program::read(&format!("{text}\n")).unwrap_err();
    assert_eq!(more.problem().to_string(), "the text of a program has at most 4 MiB");
}
