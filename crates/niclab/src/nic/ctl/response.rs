//! Prints the responses of a card as text.

use std::collections::BTreeMap;

use niclab_control::{
    ApplicationStatus, CaptureState, DigestField, FlowDone, Request, Response, TableEntries,
    TableState, Width,
};
use niclab_lab::words::{time, whole};

use crate::nic::table;
use crate::rules::{self, counted, plural};

/// Bytes of memory that are shown on a line.
const LINE_BYTES: usize = 16;

/// The note that rules exist and are idle.
const IDLE: &str = "a program decides about frames: rules are idle until `program none`";

/// The note that a core has not applied the change in time.
const LATER: &str = "a core has not come to look yet: the last program decides there until it does";

/// The note that learnt entries are not shown.
const LEARNT: &str = "what it has learnt is not shown: each core has its own, where it alone can \
    read, and would have to leave its packets waiting to copy it";

/// The text of a response.
pub(super) fn words(request: &Request, response: &Response) -> String {
    match response {
        Response::Counters(counters) => table(counters),
        response => lines(request, response).iter().map(|line| format!("{line}\n")).collect(),
    }
}

fn lines(request: &Request, response: &Response) -> Vec<String> {
    match response {
        Response::Applications { applications } if applications.is_empty() => {
            vec!["no application: niclab nic --application FILE runs one".to_owned()]
        }
        Response::Applications { applications } => {
            applications.iter().flat_map(application).collect()
        }
        Response::Capture { port, capture } => vec![captured(*port, *capture)],
        Response::CaptureBegun { port, waits_for } => {
            vec![capture_started(request, *port, *waits_for)]
        }
        Response::Counter { packets, bytes } => {
            vec![format!("{}, {bytes} B", plural(*packets as usize, "packet", "packets"))]
        }
        Response::Digests { records, untold } => digests(records, *untold),
        Response::Done { commands: 1 } => vec!["done".to_owned()],
        Response::Done { commands } => vec![format!("{commands} commands carried out together")],
        Response::Flow { done, is_idle } => {
            let idle = is_idle.then(|| IDLE.to_owned());
            done.iter().map(flow).chain(idle).collect()
        }
        Response::Numbers { offset, width, numbers } => numbered(*offset, *width, numbers),
        Response::Program { tables: None } => {
            vec!["no program: rules and RSS decide about frames".to_owned()]
        }
        Response::Program { tables: Some(tables) } => tables.iter().map(room).collect(),
        Response::ProgramChanged { is_in_effect } => vec![changed(request, *is_in_effect)],
        Response::Register { value } => vec![value.to_string()],
        Response::Replaced { tables, added, changed, deleted, kept } => {
            let tables = plural(*tables as usize, "table has", "tables have");
            vec![format!(
                "{tables} what the file says: {added} added, {changed} changed, {deleted} \
                 deleted, {kept} as before"
            )]
        }
        Response::Ring { entries, has_more } => ring(entries, *has_more),
        Response::Rss { port, parameters, indirection } => rss(*port, parameters, indirection),
        Response::RssChanged { port, moved_entries, settled_ns, waits_for } => {
            let held = match (settled_ns, waits_for) {
                (_, Some(core)) => format!("does not hold yet: frames wait for core {core}"),
                (ns, None) => format!("holds after {}", time(ns.unwrap_or_default() as f64)),
            };
            let moved = plural(*moved_entries as usize, "entry", "entries");
            vec![format!("port {port}: {moved} of the table changed; the new RSS state {held}")]
        }
        Response::Stopping {} => vec!["the card ends".to_owned()],
        Response::Table { table, entries } => {
            let learnt = matches!(table.entries, TableEntries::Learner { .. });
            let learnt = learnt.then(|| LEARNT.to_owned());
            [header(table)].into_iter().chain(learnt).chain(entries.iter().cloned()).collect()
        }
        Response::Tables { tables } => tables.iter().map(header).collect(),
        Response::Window { offset, bytes } => dump(*offset as usize, &unhex(bytes)),
        // These are printed as they are.
        Response::Counters(_) | Response::Error { .. } | Response::TablesFile { .. } => vec![],
    }
}

/// The resources of an application, and the memory of its program.
fn application(of: &ApplicationStatus) -> Vec<String> {
    let listed = |numbers: &[u16]| match numbers {
        [] => "none".to_owned(),
        _ => numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    };
    let ApplicationStatus { name, ports, queues, share, rings, windows } = of;
    let (ports, queues) = (listed(ports), listed(queues));
    let head = format!("application {name}: ports {ports}; queues {queues}; share {share}");
    let rings = rings.iter().map(|of| {
        let (count, entries, bytes) = (of.count, of.entries, of.entry_bytes);
        format!("  ring {}: {count} of {entries} entries of {bytes} B each", of.name)
    });
    let windows = windows.iter().map(|of| format!("  window {}: {} B", of.name, of.bytes));
    [head].into_iter().chain(rings).chain(windows).collect()
}

fn captured(port: u16, capture: Option<CaptureState>) -> String {
    let Some(CaptureState { frames, missed, goes_on }) = capture else {
        return format!("port {port}: nothing is captured");
    };
    let (count, behind) = (counted(frames, "frame", "frames"), whole(missed as f64));
    let so_far = if goes_on { "so far" } else { "in all" };
    format!("port {port}: {count} captured {so_far}, {behind} missed")
}

fn capture_started(request: &Request, port: u16, waits_for: Option<u32>) -> String {
    let file = match request {
        Request::CaptureBegin { file, .. } => file,
        _ => "the file",
    };
    let later = waits_for.map_or(String::new(), |core| {
        format!("; those of core {core} do later: it has not come to look yet")
    });
    format!("port {port}: frames go into {file}{later}")
}

fn digests(records: &[Vec<DigestField>], untold: u64) -> Vec<String> {
    let field = |DigestField { name, value }: &DigestField| format!("{name} {value}");
    let record =
        |fields: &Vec<DigestField>| fields.iter().map(field).collect::<Vec<_>>().join(", ");
    let more = (untold > 0).then(|| format!("{untold} were lost: too many waited"));
    records.iter().map(record).chain(more).collect()
}

/// The result of a command on rules.
fn flow(done: &FlowDone) -> String {
    let message = rules::output(done).unwrap_or_else(|| match done {
        FlowDone::Created { rule, .. } => format!("rule {rule} created"),
        FlowDone::Destroyed { rule, .. } => format!("rule {rule} destroyed"),
        FlowDone::Updated { rule, .. } => format!("rule {rule} updated"),
        FlowDone::Validated { .. } => "the rule can be created".to_owned(),
        _ => "done".to_owned(),
    });
    format!("port {}: {message}", done.port())
}

/// The result of a program change.
fn changed(request: &Request, is_in_effect: bool) -> String {
    let its = match request {
        Request::ProgramLoad { tables: None, .. } => "; its tables are empty",
        Request::ProgramLoad { tables: Some(_), .. } => "; its tables are those of the file",
        _ if is_in_effect => return "rules and RSS decide about frames".to_owned(),
        _ => "",
    };
    match is_in_effect {
        true => format!("the program decides about frames{its}"),
        false => format!("{LATER}{its}"),
    }
}

fn rss(port: u16, parameters: &str, indirection: &[u16]) -> Vec<String> {
    let mut entries = BTreeMap::<u16, usize>::new();
    indirection.iter().for_each(|queue| *entries.entry(*queue).or_default() += 1);
    let entries: Vec<String> =
        entries.iter().map(|(queue, count)| format!("queue {queue} {count}")).collect();
    let table = format!("port {port}: entries of the table: {}", entries.join(", "));
    vec![format!("port {port}: {parameters}"), table]
}

/// How much a table has, and what it does without an entry.
fn header(table: &TableState) -> String {
    match &table.default {
        Some(default) => {
            let constant = if default.is_constant { "constant " } else { "" };
            format!("{}, {constant}default {}", room(table), default.action)
        }
        None => room(table),
    }
}

/// How much a table has.
fn room(table: &TableState) -> String {
    let name = &table.name;
    match table.entries {
        TableEntries::Learner { entries, size } => {
            let entries = plural(entries as usize, "entry", "entries");
            format!("{name}: {entries} on all cores, each with room for {size}")
        }
        TableEntries::Match { entries, size } => format!("{name}: {entries} of {size} entries"),
        TableEntries::NoKey {} => format!("{name}: no key"),
        TableEntries::Selector { groups, groups_max, members_max } => {
            let members = plural(members_max as usize, "member", "members");
            format!("{name}: {groups} of {groups_max} groups, each of {members} at most")
        }
    }
}

fn ring(entries: &[String], has_more: bool) -> Vec<String> {
    let entry = |(number, entry): (usize, &String)| {
        [format!("entry {number}:")].into_iter().chain(dump(0, &unhex(entry)))
    };
    let none = entries.is_empty().then(|| "no entry waits".to_owned());
    let more = has_more.then(|| "and more behind them".to_owned());
    entries.iter().enumerate().flat_map(entry).chain(none).chain(more).collect()
}

fn numbered(offset: u64, width: Width, numbers: &[u64]) -> Vec<String> {
    let line = |(at, numbers): (usize, &[u64])| {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        format!("{:08x}  {}", offset as usize + at * LINE_BYTES, numbers.join(" "))
    };
    numbers.chunks(LINE_BYTES / width.bytes() as usize).enumerate().map(line).collect()
}

/// The bytes that these digits stand for, up to what is none.
fn unhex(digits: &str) -> Vec<u8> {
    let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map_while(byte).collect()
}

/// Lines as of `hexdump -C`: the place in hexadecimal, bytes, and what of them is ASCII.
fn dump(offset: usize, bytes: &[u8]) -> Vec<String> {
    let line = |(at, bytes): (usize, &[u8])| {
        let mut line = format!("{:08x} ", offset + at * LINE_BYTES);
        for place in 0..LINE_BYTES {
            line += if place % 8 == 0 { " " } else { "" };
            line += &bytes.get(place).map_or("   ".to_owned(), |byte| format!("{byte:02x} "));
        }
        let shown = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        let text: String = bytes.iter().map(shown).collect();
        format!("{line} |{text}|")
    };
    bytes.chunks(LINE_BYTES).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_hexdump_does() {
        let bytes: Vec<u8> = (0x41..0x55).collect();
        let lines = dump(0x100, &bytes);
        let first =
            "00000100  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  |ABCDEFGHIJKLMNOP|";
        assert_eq!(lines[0], first);
        assert_eq!(lines[1], format!("{:<60}|QRST|", "00000110  51 52 53 54"));
        assert_eq!(dump(0, b"\0\x7f\xff~")[0].split('|').nth(1), Some("...~"));
        assert_eq!(unhex("00ff7e"), [0, 0xff, 0x7e]);
        assert!(unhex("0xff").is_empty());
    }
}
