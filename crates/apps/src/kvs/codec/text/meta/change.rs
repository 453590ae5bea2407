//! `md` and `ma`: taking an item out or making it stale, and counting.

use super::flags::OPAQUE_LONG;
use super::{MetaCommand, MetaResult, figure, time_left};
use crate::kvs::codec::context::Context;
use crate::kvs::codec::text::answer;
use crate::kvs::protocol::answer::DeleteOutcome;
use crate::kvs::protocol::number::{DIGITS_MAX, decimal};
use crate::kvs::protocol::request::{CountDirection, CountRequest};
use crate::kvs::protocol::time::Expiry;
use crate::kvs::store::{CountOutcome, LogAddress, NewItem, Partition, Value, mark};

/// `md`.
pub fn delete(command: &MetaCommand<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> MetaResult {
    let flags = &command.flags;
    if flags.is_opaque_long {
        return Err(OPAQUE_LONG);
    }
    let mut partition = context.store.partition(&command.key);
    partition.counters_mut().cmd_meta += 1;
    let code: &[u8] = match flags.is_stale || flags.without_value {
        true => spoil(command, &mut partition, context)?,
        false => match partition.delete(&command.key, flags.compare, context.now) {
            DeleteOutcome::Done => b"HD",
            DeleteOutcome::NotFound => b"NF",
            DeleteOutcome::Exists => b"EX",
        },
    };
    if !(flags.is_quiet && code == b"HD") {
        out.extend_from_slice(code);
        command.echo(2, out);
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}

/// Makes an item stale or takes its value away; it stays.
fn spoil(
    command: &MetaCommand<'_>,
    partition: &mut Partition,
    context: &Context<'_>,
) -> Result<&'static [u8], &'static [u8]> {
    let (flags, now) = (&command.flags, context.now);
    let Some(mut place) = partition.find(&command.key, now) else {
        partition.counters_mut().delete_misses += 1;
        return Ok(b"NF");
    };
    let before = partition.item(place).header;
    if flags.compare.is_some_and(|cas| cas != before.cas) {
        return Ok(b"EX");
    }
    let expiry = flags.time.map(|time| Expiry::of(time, now));
    if flags.without_value {
        let cas = flags.cas.unwrap_or(before.cas);
        let marks = before.marks & mark::BINARY_KEY;
        let new =
            NewItem { flags: flags.flags, expiry: expiry.unwrap_or(Expiry::NEVER), cas, marks };
        let made = partition.put(&command.key, new, Value::Whole(b""), now);
        place = made.map_err(|_| &b"SERVER_ERROR out of memory\r\n"[..])?;
    }
    if flags.is_stale {
        let cas = flags.cas.unwrap_or_else(|| partition.next_cas());
        partition.change(place, |header| {
            header.expiry = expiry.unwrap_or(header.expiry);
            header.marks = (header.marks | mark::STALE) & !mark::WON;
            header.cas = cas;
        });
    } else {
        partition.counters_mut().delete_hits += 1;
    }
    Ok(b"HD")
}

/// `ma`.
pub fn count(command: &MetaCommand<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> MetaResult {
    let (flags, now) = (&command.flags, context.now);
    let way = match flags.mode {
        None | Some(b'I' | b'+') => CountDirection::Up,
        Some(b'D' | b'-') => CountDirection::Down,
        Some(_) => return Err(b"CLIENT_ERROR invalid mode for ma M token\r\n"),
    };
    let count = CountRequest {
        key: command.key,
        way,
        delta: flags.delta,
        // A 0 compares with nothing.
        compare: flags.compare.filter(|cas| *cas != 0),
        cas: flags.cas,
        initial: flags.vivify.map(|_| (flags.initial, Expiry::NEVER)),
    };
    let mut partition = context.store.partition(&command.key);
    partition.counters_mut().cmd_meta += 1;
    let code: &[u8] = match partition.count(&count, now) {
        CountOutcome::Now { value, place, is_made } => {
            let start = out.len();
            let (expiry, reported) =
                counted(command, value, (place, is_made), &partition, out, context);
            if partition.item(place).header.expiry != expiry {
                partition.change(place, |header| header.expiry = expiry);
            }
            reported?;
            if flags.is_quiet && !is_made {
                out.truncate(start);
            }
            return Ok(());
        }
        CountOutcome::NotNumeric => {
            return Err(b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
        }
        CountOutcome::NoMemory => return Err(b"SERVER_ERROR out of memory\r\n"),
        CountOutcome::NotFound | CountOutcome::Exists if flags.is_opaque_long => {
            return Err(OPAQUE_LONG);
        }
        CountOutcome::NotFound => b"NF",
        CountOutcome::Exists => b"EX",
    };
    out.extend_from_slice(code);
    command.echo(2, out);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Writes the answer of a count and returns the item's new expiry. As in memcached, a token that is
/// too long is found when its turn comes to be repeated: what was counted stays.
fn counted(
    command: &MetaCommand<'_>,
    value: u64,
    (place, is_made): (LogAddress, bool),
    partition: &Partition,
    out: &mut Vec<u8>,
    context: &Context<'_>,
) -> (Expiry, MetaResult) {
    let header = partition.item(place).header;
    let (flags, mut expiry) = (&command.flags, header.expiry);
    let of = |time: Option<i64>| Expiry::of(time.unwrap_or(0), context.now);
    let mut room = [0; DIGITS_MAX];
    let digits = decimal(value, &mut room);
    match flags.with_value {
        true => {
            out.extend_from_slice(b"VA ");
            answer::number(out, digits.len() as u64);
        }
        false => out.extend_from_slice(b"HD"),
    }
    for word in command.flag_words(2) {
        match word[0] {
            b'c' => figure(out, b'c', header.cas),
            b't' => time_left(out, expiry.left_s(context.now)),
            b'T' => expiry = of(flags.time),
            b'N' if is_made => expiry = of(flags.vivify),
            b'O' if flags.is_opaque_long => return (expiry, Err(OPAQUE_LONG)),
            _ => command.echo_one(word, flags.is_binary, out),
        }
    }
    out.extend_from_slice(b"\r\n");
    if flags.with_value {
        out.extend_from_slice(digits);
        out.extend_from_slice(b"\r\n");
    }
    (expiry, Ok(()))
}
