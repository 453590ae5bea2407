//! The commands of one line: `delete`, `incr`, `decr`, `touch`, `flush_all`, `stats`, …

use super::super::VERSION;
use super::super::limits::KEY_LEN_MAX;
use super::super::session::{Context, Step};
use super::super::standing;
use super::super::store::{Count, CountWay, Counted, Deleted};
use super::super::time::{Expiry, Moment};
use super::words::{signed, unsigned, unsigned_32};
use super::{BAD_FORMAT, Line, UNKNOWN, answer};

const BAD_TIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// Carries out a command and answers it.
pub fn command(line: &Line<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> Step {
    let words = &line.words;
    // A browser, or a script in one, that was led here: nothing that it sends is meant for us.
    if words.last.starts_with(b"HTTP/") {
        return Step::Close;
    }
    let is_quiet = words.is_noreply();
    match (words.at(0), words.count) {
        (b"delete", 2..=4) => delete(line, out, context),
        (b"incr", 3..=4) => count(line, CountWay::Up, out, context),
        (b"decr", 3..=4) => count(line, CountWay::Down, out, context),
        (b"touch", 3..=4) => touch(line, out, context),
        (b"flush_all", 1..=3) => answer::say(out, is_quiet, flush(line, context)),
        (b"verbosity", 2..) => {
            let is_number = is_quiet || unsigned_32(words.at(1)).is_some();
            answer::say(out, is_quiet, if is_number { b"OK\r\n" } else { BAD_FORMAT });
        }
        (b"version", _) => {
            for part in ["VERSION ", VERSION, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        (b"stats", _) => statistics(line, out, context),
        _ => answer::say(out, is_quiet, UNKNOWN),
    }
    Step::Done(line.next)
}

fn delete(line: &Line<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let (words, is_quiet) = (&line.words, line.words.is_noreply());
    // Once there was a time behind the key; a 0 is still what some clients send.
    let is_plain = words.count == 2
        || words.count == 3 && (is_quiet || words.at(2) == b"0")
        || words.count == 4 && is_quiet && words.at(2) == b"0";
    if !is_plain {
        let usage = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
        return answer::say(out, is_quiet, usage);
    }
    if words.at(1).len() > KEY_LEN_MAX {
        return answer::say(out, is_quiet, BAD_FORMAT);
    }
    let key = context.store.key(words.at(1));
    let text: &[u8] = match context.store.partition(&key).delete(&key, None, context.now) {
        Deleted::Done => b"DELETED\r\n",
        Deleted::NotFound | Deleted::Exists => b"NOT_FOUND\r\n",
    };
    answer::say(out, is_quiet, text);
}

fn count(line: &Line<'_>, way: CountWay, out: &mut Vec<u8>, context: &Context<'_>) {
    let (words, is_quiet) = (&line.words, line.words.is_noreply());
    if words.at(1).len() > KEY_LEN_MAX {
        return answer::say(out, is_quiet, BAD_FORMAT);
    }
    let Some(delta) = unsigned(words.at(2)) else {
        return answer::say(out, is_quiet, b"CLIENT_ERROR invalid numeric delta argument\r\n");
    };
    let key = context.store.key(words.at(1));
    let count = Count { key, way, delta, compare: None, cas: None, initial: None };
    let counted = context.store.partition(&key).count(&count, context.now);
    match counted {
        Counted::Now { value, .. } if !is_quiet => {
            answer::number(out, value);
            out.extend_from_slice(b"\r\n");
        }
        Counted::Now { .. } => {}
        Counted::NotNumeric => answer::say(
            out,
            is_quiet,
            b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        Counted::NotFound | Counted::Exists => answer::say(out, is_quiet, b"NOT_FOUND\r\n"),
        Counted::NoMemory => answer::say(out, is_quiet, b"SERVER_ERROR out of memory\r\n"),
    }
}

fn touch(line: &Line<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let (words, is_quiet) = (&line.words, line.words.is_noreply());
    if words.at(1).len() > KEY_LEN_MAX {
        return answer::say(out, is_quiet, BAD_FORMAT);
    }
    let Some(time) = signed(words.at(2)) else { return answer::say(out, is_quiet, BAD_TIME) };
    let (key, expiry) = (context.store.key(words.at(1)), Expiry::of(time, context.now));
    let found = context.store.partition(&key).touch(&key, expiry, context.now).is_some();
    answer::say(out, is_quiet, if found { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" });
}

fn flush(line: &Line<'_>, context: &Context<'_>) -> &'static [u8] {
    let words = &line.words;
    let has_time = words.count > 1 + usize::from(words.is_noreply());
    let Some(time) = (if has_time { signed(words.at(1)) } else { Some(0) }) else {
        return BAD_TIME;
    };
    context.store.flush(flush_time(time, context.now), context.now);
    b"OK\r\n"
}

/// When everything goes that is stored before: times that have passed mean now.
pub fn flush_time(time: i64, now: Moment) -> Moment {
    if time <= 0 { now } else { Moment(Expiry::of(time, now).bits().max(now.0)) }
}

fn statistics(line: &Line<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let mut each = |name: &str, value: &str| answer::statistic(out, name, value);
    match line.words.at(1) {
        b"" => standing::general(context, &mut each),
        b"settings" => standing::settings(context, &mut each),
        // There are no slabs here, and so none of which anything could be told.
        b"items" | b"slabs" => {}
        b"sizes" => each("sizes_status", "disabled"),
        b"reset" => {
            context.store.reset_counters();
            return out.extend_from_slice(b"RESET\r\n");
        }
        _ => return out.extend_from_slice(UNKNOWN),
    }
    out.extend_from_slice(b"END\r\n");
}
