//! The commands of one line: `delete`, `incr`, `decr`, `touch`, `flush_all`, `stats`, …

use super::{BAD_FORMAT, UNKNOWN, WholeLine, answer};
use crate::kvs::codec::context::{CodecProgress, Context};
use crate::kvs::codec::statistics;
use crate::kvs::protocol::VERSION;
use crate::kvs::protocol::answer::DeleteOutcome;
use crate::kvs::protocol::limits::KEY_LEN_MAX;
use crate::kvs::protocol::number::{signed_32, unsigned, unsigned_32};
use crate::kvs::protocol::request::{CountDirection, CountRequest};
use crate::kvs::protocol::time::{Expiry, flush_time};
use crate::kvs::store::{CountOutcome, PrefixRequest};

const BAD_TIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// Carries out a command and answers it.
pub fn command(line: &WholeLine<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> CodecProgress {
    let words = &line.words;
    let is_quiet = words.is_noreply();
    match (words.at(0), words.count) {
        (b"delete", 2..=4) => delete(line, out, context),
        (b"incr", 3..=4) => count(line, CountDirection::Up, out, context),
        (b"decr", 3..=4) => count(line, CountDirection::Down, out, context),
        (b"touch", 3..=4) => touch(line, out, context),
        (b"flush_all", 1..=3) => answer::add_answer(out, is_quiet, flush(line, context)),
        (b"verbosity", 2..=3) => {
            let level = unsigned_32(words.at(1));
            level
                .into_iter()
                .for_each(|level| context.store.set_verbosity(level.min(VERBOSITY_MAX)));
            answer::add_answer(out, is_quiet, if level.is_some() { b"OK\r\n" } else { BAD_FORMAT });
        }
        (b"version", _) => {
            for part in ["VERSION ", VERSION, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        (b"stats", _) => statistics(line, out, context),
        (b"shutdown", _) => out.extend_from_slice(b"ERROR: shutdown not enabled\r\n"),
        // A browser, or a script in one, that was led here: nothing that it sends is meant for us.
        (name, _) if words.last.starts_with(b"HTTP/") && is_foreign(name) => {
            return CodecProgress::Close;
        }
        _ => out.extend_from_slice(UNKNOWN),
    }
    CodecProgress::Done(line.next)
}

/// Whether no command of memcached begins as this one does: only then it looks for HTTP.
fn is_foreign(name: &[u8]) -> bool {
    const KNOWN: [&[u8]; 5] = [b"flush_all", b"lru", b"lru_crawler", b"verbosity", b"watch"];
    let is_begun = matches!(name, [b'g' | b's' | b'a' | b'c' | b'i' | b'd' | b't', _, ..]);
    let is_meta = matches!(name, [b'm', _]);
    name.len() > 1 && !is_begun && !is_meta && !KNOWN.contains(&name)
}

/// Highest verbosity that memcached knows.
const VERBOSITY_MAX: u32 = 2;

fn delete(line: &WholeLine<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let words = &line.words;
    // A key may be called that.
    let is_quiet = words.count > 2 && words.is_noreply();
    // Once there was a time behind the key; a 0 is still what some clients send.
    let is_plain = words.count == 2
        || words.count == 3 && (is_quiet || words.at(2) == b"0")
        || words.count == 4 && is_quiet && words.at(2) == b"0";
    if !is_plain {
        let usage = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
        return answer::add_answer(out, is_quiet, usage);
    }
    if words.at(1).len() > KEY_LEN_MAX {
        return answer::add_answer(out, is_quiet, BAD_FORMAT);
    }
    let key = context.store.key(words.at(1));
    let mut partition = context.store.partition(&key);
    partition.record(&key, PrefixRequest::Delete);
    let text: &[u8] = match partition.delete(&key, None, context.now) {
        DeleteOutcome::Done => b"DELETED\r\n",
        DeleteOutcome::NotFound | DeleteOutcome::Exists => b"NOT_FOUND\r\n",
    };
    answer::add_answer(out, is_quiet, text);
}

fn count(line: &WholeLine<'_>, way: CountDirection, out: &mut Vec<u8>, context: &Context<'_>) {
    let (words, is_quiet) = (&line.words, line.words.is_noreply());
    if words.at(1).len() > KEY_LEN_MAX {
        return answer::add_answer(out, is_quiet, BAD_FORMAT);
    }
    let Some(delta) = unsigned(words.at(2)) else {
        return answer::add_answer(
            out,
            is_quiet,
            b"CLIENT_ERROR invalid numeric delta argument\r\n",
        );
    };
    let key = context.store.key(words.at(1));
    let count = CountRequest { key, way, delta, compare: None, cas: None, initial: None };
    let counted = context.store.partition(&key).count(&count, context.now);
    match counted {
        CountOutcome::Now { value, .. } if !is_quiet => {
            answer::number(out, value);
            out.extend_from_slice(b"\r\n");
        }
        CountOutcome::Now { .. } => {}
        CountOutcome::NotNumeric => answer::add_answer(
            out,
            is_quiet,
            b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        CountOutcome::NotFound | CountOutcome::Exists => {
            answer::add_answer(out, is_quiet, b"NOT_FOUND\r\n")
        }
        CountOutcome::NoMemory => {
            answer::add_answer(out, is_quiet, b"SERVER_ERROR out of memory\r\n")
        }
    }
}

fn touch(line: &WholeLine<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let (words, is_quiet) = (&line.words, line.words.is_noreply());
    if words.at(1).len() > KEY_LEN_MAX {
        return answer::add_answer(out, is_quiet, BAD_FORMAT);
    }
    let Some(time) = signed_32(words.at(2)) else {
        return answer::add_answer(out, is_quiet, BAD_TIME);
    };
    let (key, expiry) = (context.store.key(words.at(1)), Expiry::of(time.into(), context.now));
    let found = context.store.partition(&key).touch(&key, expiry, context.now).is_some();
    answer::add_answer(out, is_quiet, if found { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" });
}

fn flush(line: &WholeLine<'_>, context: &Context<'_>) -> &'static [u8] {
    let words = &line.words;
    let has_time = words.count > 1 + usize::from(words.is_noreply());
    let Some(time) = (if has_time { signed_32(words.at(1)) } else { Some(0) }) else {
        return BAD_TIME;
    };
    context.store.flush(flush_time(time.into(), context.now), context.now);
    b"OK\r\n"
}

fn statistics(line: &WholeLine<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let mut each = |name: &str, value: &str| answer::statistic(out, name, value);
    match line.words.at(1) {
        b"" => statistics::general(context, &mut each),
        b"settings" => statistics::settings(context, &mut each),
        b"items" => statistics::items(context, &mut each),
        b"slabs" => statistics::slabs(context, &mut each),
        b"sizes" => each("sizes_status", "disabled"),
        b"detail" => return detail(line.words.at(2), out, context),
        b"reset" => {
            context.store.reset_counters();
            return out.extend_from_slice(b"RESET\r\n");
        }
        _ => return out.extend_from_slice(UNKNOWN),
    }
    out.extend_from_slice(b"END\r\n");
}

fn detail(what: &[u8], out: &mut Vec<u8>, context: &Context<'_>) {
    match what {
        b"on" | b"off" => context.store.set_detailed(what == b"on"),
        b"dump" => return statistics::prefixes(context, out),
        _ => return out.extend_from_slice(b"CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
    }
    out.extend_from_slice(b"OK\r\n");
}
