//! The requests of the binary protocol and their answers.

use crate::kvs::codec::context::Context;
use crate::kvs::codec::statistics;
use crate::kvs::protocol::VERSION;
use crate::kvs::protocol::answer::{DeleteOutcome, StoreOutcome};
use crate::kvs::protocol::binary::{Answer, DONE, Request, Status, answer, number, opcode, refuse};
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::request::{CountDirection, CountRequest, StoreMode, StoreRequest};
use crate::kvs::protocol::time::{Expiry, UnixTime, flush_time};
use crate::kvs::store::{CountOutcome, Partition, PrefixRequest};

/// As the time of a count: where there is no item, none is made.
const NEVER_MADE: u64 = 0xffff_ffff;

/// Carries out a request and answers it; `false` where the connection is to end.
pub fn carry_out(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> bool {
    match request.loud {
        opcode::STAT => statistics(request, out, context),
        opcode::VERSION => {
            answer(&request.head, &Answer { value: VERSION.as_bytes(), ..DONE }, out);
        }
        opcode::FLUSH => {
            let at = flush_time(number(request.extras) as i64, context.now);
            context.store.flush(at, context.now);
            done(request, 0, out);
        }
        opcode::QUIT => {
            done(request, 0, out);
            return false;
        }
        opcode::NOOP => done(request, 0, out),
        opcode::SASL_LIST => refuse(&request.head, Status::Unknown, out),
        _ => {
            let key = context.store.key(request.key);
            keyed(request, key, &mut context.store.partition(&key), out, context.now);
        }
    }
    true
}

/// Carries out a request that has a key, in the key's partition, and answers it.
#[inline]
pub fn keyed(
    request: &Request<'_>,
    key: HashedKey<'_>,
    partition: &mut Partition,
    out: &mut Vec<u8>,
    now: UnixTime,
) {
    match request.loud {
        opcode::SET => store(request, key, StoreMode::Set, partition, out, now),
        opcode::ADD => store(request, key, StoreMode::Add, partition, out, now),
        opcode::REPLACE => store(request, key, StoreMode::Replace, partition, out, now),
        opcode::APPEND => store(request, key, StoreMode::Append, partition, out, now),
        opcode::PREPEND => store(request, key, StoreMode::Prepend, partition, out, now),
        opcode::DELETE => delete(request, key, partition, out, now),
        opcode::INCREMENT => count(request, key, CountDirection::Up, partition, out, now),
        opcode::DECREMENT => count(request, key, CountDirection::Down, partition, out, now),
        opcode::SASL_AUTH | opcode::SASL_STEP => refuse(&request.head, Status::Unknown, out),
        _ => get(request, key, partition, out, now),
    }
}

/// Says that it was done, unless that goes without saying.
fn done(request: &Request<'_>, cas: u64, out: &mut Vec<u8>) {
    if !request.is_quiet {
        answer(&request.head, &Answer { cas, ..DONE }, out);
    }
}

fn get(
    request: &Request<'_>,
    key: HashedKey<'_>,
    partition: &mut Partition,
    out: &mut Vec<u8>,
    now: UnixTime,
) {
    let is_touch = !request.extras.is_empty();
    let found = match is_touch {
        true => {
            let expiry = Expiry::of(number(request.extras) as i64, now);
            partition.touch(&key, expiry, now)
        }
        false => partition.get(&key, now),
    };
    partition.record(&key, PrefixRequest::Get { is_hit: found.is_some() });
    let with_key = matches!(request.loud, opcode::GETK | opcode::GATK);
    let name = if with_key { request.key } else { b"" };
    let Some(place) = found else {
        return match (request.is_quiet, with_key) {
            (true, _) => {}
            (false, false) => refuse(&request.head, Status::NotFound, out),
            (false, true) => {
                answer(&request.head, &Answer { status: Status::NotFound, key: name, ..DONE }, out);
            }
        };
    };
    let item = partition.item(place);
    let value = if request.loud == opcode::TOUCH { b"" } else { item.value };
    let (cas, extras) = (item.header.cas, item.header.flags.to_be_bytes());
    let found = Answer { status: Status::Done, cas, extras: &extras, key: name, value };
    answer(&request.head, &found, out);
}

fn store(
    request: &Request<'_>,
    key: HashedKey<'_>,
    mode: StoreMode,
    partition: &mut Partition,
    out: &mut Vec<u8>,
    now: UnixTime,
) {
    let is_joined = matches!(mode, StoreMode::Append | StoreMode::Prepend);
    let compare = (request.head.cas != 0).then_some(request.head.cas);
    let (flags, time) = match request.extras {
        [flags @ .., _, _, _, _] => (number(flags), number(&request.extras[4..])),
        _ => (0, 0),
    };
    let write = StoreRequest {
        key,
        // A comparison says all that `add` and `replace` would.
        mode: if compare.is_some() && !is_joined { StoreMode::Set } else { mode },
        flags: flags as u32,
        expiry: Expiry::of(time as i64, now),
        value: request.value,
        compare,
        cas: None,
        stale_allowed: false,
        vivify: None,
        is_binary_key: false,
    };
    partition.record(&key, PrefixRequest::Set);
    let status = match partition.write(&write, now) {
        StoreOutcome::Stored { cas, .. } => return done(request, cas, out),
        StoreOutcome::Exists => Status::Exists,
        StoreOutcome::NotFound => Status::NotFound,
        StoreOutcome::TooLarge => Status::TooLarge,
        StoreOutcome::NoMemory => Status::NoMemory,
        StoreOutcome::NotStored => match mode {
            StoreMode::Add => Status::Exists,
            StoreMode::Replace => Status::NotFound,
            _ => Status::NotStored,
        },
    };
    refuse(&request.head, status, out);
}

/// The value is too long to be read at all.
pub fn refuse_large(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let key = context.store.key(request.key);
    let mode = if request.loud == opcode::SET { StoreMode::Set } else { StoreMode::Add };
    let mut partition = context.store.partition(&key);
    partition.record(&key, PrefixRequest::Set);
    partition.refuse_large(&key, mode, context.now);
    refuse(&request.head, Status::TooLarge, out);
}

fn delete(
    request: &Request<'_>,
    key: HashedKey<'_>,
    partition: &mut Partition,
    out: &mut Vec<u8>,
    now: UnixTime,
) {
    let compare = (request.head.cas != 0).then_some(request.head.cas);
    partition.record(&key, PrefixRequest::Delete);
    match partition.delete(&key, compare, now) {
        DeleteOutcome::Done => done(request, 0, out),
        DeleteOutcome::NotFound => refuse(&request.head, Status::NotFound, out),
        DeleteOutcome::Exists => refuse(&request.head, Status::Exists, out),
    }
}

fn count(
    request: &Request<'_>,
    key: HashedKey<'_>,
    way: CountDirection,
    partition: &mut Partition,
    out: &mut Vec<u8>,
    now: UnixTime,
) {
    let (numbers, time) = request.extras.split_at(16);
    let time = number(time);
    let initial = (number(&numbers[8..]), Expiry::of(time as i64, now));
    let count = CountRequest {
        key,
        way,
        delta: number(&numbers[..8]),
        compare: (request.head.cas != 0).then_some(request.head.cas),
        cas: None,
        initial: (time != NEVER_MADE).then_some(initial),
    };
    let status = match partition.count(&count, now) {
        CountOutcome::Now { value, place, .. } => {
            let cas = partition.item(place).header.cas;
            if !request.is_quiet {
                let value = &value.to_be_bytes();
                answer(&request.head, &Answer { cas, value, ..DONE }, out);
            }
            return;
        }
        CountOutcome::NotNumeric => Status::NotNumeric,
        CountOutcome::NotFound => Status::NotFound,
        CountOutcome::Exists => Status::Exists,
        CountOutcome::NoMemory => Status::NoMemory,
    };
    refuse(&request.head, status, out);
}

fn statistics(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let mut each = |name: &str, value: &str| {
        let (key, value) = (name.as_bytes(), value.as_bytes());
        answer(&request.head, &Answer { key, value, ..DONE }, out);
    };
    // As memcached does, which compares beginnings of some.
    match request.key {
        b"" => statistics::general(context, &mut each),
        b"items" => statistics::items(context, &mut each),
        b"slabs" => statistics::slabs(context, &mut each),
        b"sizes" => each("sizes_status", "disabled"),
        key if key.starts_with(b"settings") => statistics::settings(context, &mut each),
        key if key.starts_with(b"reset") => context.store.reset_counters(),
        key => match key.strip_prefix(b"detail ") {
            Some(what) if what.starts_with(b"on") => context.store.set_detailed(true),
            Some(what) if what.starts_with(b"off") => context.store.set_detailed(false),
            Some(what) if what.starts_with(b"dump") => {
                let mut value = Vec::new();
                statistics::prefixes(context, &mut value);
                answer(&request.head, &Answer { key: b"detailed", value: &value, ..DONE }, out);
            }
            _ => return refuse(&request.head, Status::NotFound, out),
        },
    }
    // An answer without a name is the last.
    answer(&request.head, &DONE, out);
}
