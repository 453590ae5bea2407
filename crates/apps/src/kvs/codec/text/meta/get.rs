//! `mg` and `me`: read an item and report its fields.

use super::flags::OPAQUE_LONG;
use super::{MetaCommand, MetaResult, base64, figure, time_left};
use crate::kvs::codec::context::Context;
use crate::kvs::codec::text::answer;
use crate::kvs::protocol::time::Expiry;
use crate::kvs::store::{Header, LogAddress, NewItem, Partition, Value, mark};

/// The item that is answered.
struct AnsweredItem {
    place: LogAddress,
    is_made: bool,
}

/// `mg`.
pub fn get(command: &MetaCommand<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> MetaResult {
    let mut partition = context.store.partition(&command.key);
    partition.counters_mut().cmd_meta += 1;
    let Some(answered) = find(command, &mut partition, context) else {
        if command.flags.is_opaque_long {
            return Err(OPAQUE_LONG);
        }
        if !command.flags.is_quiet {
            out.extend_from_slice(b"EN");
            command.echo(2, out);
            out.extend_from_slice(b"\r\n");
        }
        return Ok(());
    };
    let item = partition.item(answered.place);
    let (before, value_len) = (item.header, item.value.len());
    let with_value = command.flags.with_value && command.flags.compare != Some(before.cas);
    match with_value {
        true => {
            out.extend_from_slice(b"VA ");
            answer::number(out, value_len as u64);
        }
        false => out.extend_from_slice(b"HD"),
    }
    let (after, reported) = tell(command, &answered, before, out, context);
    partition.change(answered.place, |header| {
        header.expiry = after.expiry;
        header.marks = after.marks;
    });
    reported?;
    if !command.flags.is_idle {
        partition.bump(answered.place, context.now);
    }
    out.extend_from_slice(b"\r\n");
    if with_value {
        out.extend_from_slice(partition.item(answered.place).value);
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}

/// The item that is there, or the one that is made instead.
fn find(
    command: &MetaCommand<'_>,
    partition: &mut Partition,
    context: &Context<'_>,
) -> Option<AnsweredItem> {
    let found = partition.find_counted(&command.key, context.now);
    let counters = partition.counters_mut();
    let is_hit = u64::from(found.is_some());
    match command.flags.time {
        Some(_) => {
            counters.cmd_touch += 1;
            counters.touch_hits += is_hit;
            counters.touch_misses += 1 - is_hit;
        }
        None => {
            counters.cmd_get += 1;
            counters.get_hits += is_hit;
            counters.get_misses += 1 - is_hit;
        }
    }
    if let Some(place) = found {
        return Some(AnsweredItem { place, is_made: false });
    }
    command.flags.vivify?;
    let cas = command.flags.cas.unwrap_or_else(|| partition.next_cas());
    let marks = if command.flags.is_binary { mark::BINARY_KEY } else { 0 };
    // Its end it gets when its flag has its turn.
    let new = NewItem { flags: 0, expiry: Expiry::NEVER, cas, marks };
    let made = partition.put(&command.key, new, Value::Whole(b""), context.now);
    Some(AnsweredItem { place: made.ok()?, is_made: true })
}

/// Adds what the flags ask for and returns the item's new header. As in memcached, a token that is
/// too long is found when its turn comes: what the flags before it have changed stays.
fn tell(
    command: &MetaCommand<'_>,
    answered: &AnsweredItem,
    before: Header,
    out: &mut Vec<u8>,
    context: &Context<'_>,
) -> (Header, MetaResult) {
    let (now, mut after, mut has_won) = (context.now, before, false);
    for word in command.flag_words(2) {
        match word[0] {
            b'T' => {
                let time = command.flags.time.unwrap_or(0);
                after.expiry = Expiry::of(time, now);
            }
            b'N' if answered.is_made => {
                after.expiry = Expiry::of(command.flags.vivify.unwrap_or(0), now);
                has_won = true;
            }
            b'R' => {
                let limit = Expiry::of(command.flags.recache.unwrap_or(0), now);
                let is_due = after.expiry.is_before(limit);
                has_won |= is_due && !answered.is_made && !before.has(mark::WON);
            }
            b's' => figure(out, b's', before.value_len.into()),
            b't' => time_left(out, after.expiry.left_s(now)),
            b'c' => figure(out, b'c', before.cas),
            b'f' => figure(out, b'f', before.flags.into()),
            b'l' => figure(out, b'l', now.0.saturating_sub(before.accessed.0).into()),
            b'h' => figure(out, b'h', before.has(mark::FETCHED).into()),
            b'O' if command.flags.is_opaque_long => return (after, Err(OPAQUE_LONG)),
            _ => command.echo_one(word, before.has(mark::BINARY_KEY), out),
        }
    }
    if before.has(mark::WON) {
        out.extend_from_slice(b" Z");
    }
    if before.has(mark::STALE) {
        out.extend_from_slice(b" X");
        has_won |= !before.has(mark::WON);
    }
    if has_won {
        out.extend_from_slice(b" W");
        after.marks |= mark::WON;
    }
    (after, Ok(()))
}

/// `me`.
pub fn debug(command: &MetaCommand<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> MetaResult {
    let mut partition = context.store.partition(&command.key);
    partition.counters_mut().cmd_meta += 1;
    let Some(place) = partition.find(&command.key, context.now) else {
        out.extend_from_slice(b"EN\r\n");
        return Ok(());
    };
    let item = partition.item(place);
    out.extend_from_slice(b"ME ");
    match item.header.has(mark::BINARY_KEY) {
        true => base64::encode(item.key, out),
        false => out.extend_from_slice(item.key),
    }
    let header = &item.header;
    match header.expiry.left_s(context.now) {
        Some(left_s) => named(out, " exp=", left_s.into()),
        None => out.extend_from_slice(b" exp=-1"),
    }
    named(out, " la=", context.now.0.saturating_sub(header.accessed.0).into());
    named(out, " cas=", header.cas);
    let is_fetched = header.has(mark::FETCHED);
    out.extend_from_slice(if is_fetched { b" fetch=yes" } else { b" fetch=no" });
    // There are no slabs, and so but one class of them.
    named(out, " cls=", 1);
    named(out, " size=", header.item_len() as u64);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn named(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    answer::number(out, value);
}
