//! What each request of the binary protocol does, and its answer.

use super::super::VERSION;
use super::super::session::Context;
use super::super::standing;
use super::super::store::{Count, CountWay, Counted, Deleted, Mode, Write, Written};
use super::super::text::flush_time;
use super::super::time::Expiry;
use super::frame::{Answer, DONE, Request, Status, answer, number, opcode, refuse};

/// As the time of a count: where there is no item, none is made.
const NEVER_MADE: u64 = 0xffff_ffff;

/// Carries out a request and answers it; `false` where the connection is to end.
pub fn carry_out(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) -> bool {
    match request.loud {
        opcode::GET | opcode::GETK | opcode::GAT | opcode::GATK | opcode::TOUCH => {
            get(request, out, context);
        }
        opcode::SET => store(request, Mode::Set, out, context),
        opcode::ADD => store(request, Mode::Add, out, context),
        opcode::REPLACE => store(request, Mode::Replace, out, context),
        opcode::APPEND => store(request, Mode::Append, out, context),
        opcode::PREPEND => store(request, Mode::Prepend, out, context),
        opcode::DELETE => delete(request, out, context),
        opcode::INCREMENT => count(request, CountWay::Up, out, context),
        opcode::DECREMENT => count(request, CountWay::Down, out, context),
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
        // NOOP, and VERBOSITY: nothing is written whatever it is.
        _ => done(request, 0, out),
    }
    true
}

/// Says that it was done, unless that goes without saying.
fn done(request: &Request<'_>, cas: u64, out: &mut Vec<u8>) {
    if !request.is_quiet {
        answer(&request.head, &Answer { cas, ..DONE }, out);
    }
}

fn get(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let key = context.store.key(request.key);
    let mut partition = context.store.partition(&key);
    let is_touch = !request.extras.is_empty();
    let found = match is_touch {
        true => {
            let expiry = Expiry::of(number(request.extras) as i64, context.now);
            partition.touch(&key, expiry, context.now)
        }
        false => partition.get(&key, context.now),
    };
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

fn store(request: &Request<'_>, mode: Mode, out: &mut Vec<u8>, context: &Context<'_>) {
    let key = context.store.key(request.key);
    let is_joined = matches!(mode, Mode::Append | Mode::Prepend);
    let compare = (request.head.cas != 0).then_some(request.head.cas);
    let (flags, time) = match request.extras {
        [flags @ .., _, _, _, _] => (number(flags), number(&request.extras[4..])),
        _ => (0, 0),
    };
    let write = Write {
        key,
        // A comparison says all that `add` and `replace` would.
        mode: if compare.is_some() && !is_joined { Mode::Set } else { mode },
        flags: flags as u32,
        expiry: Expiry::of(time as i64, context.now),
        value: request.value,
        compare,
        cas: None,
        stale_allowed: false,
        vivify: None,
        is_binary_key: false,
    };
    let status = match context.store.partition(&key).write(&write, context.now) {
        Written::Stored { cas, .. } => return done(request, cas, out),
        Written::Exists => Status::Exists,
        Written::NotFound => Status::NotFound,
        Written::TooLarge => Status::TooLarge,
        Written::NoMemory => Status::NoMemory,
        Written::NotStored => match mode {
            Mode::Add => Status::Exists,
            Mode::Replace => Status::NotFound,
            _ => Status::NotStored,
        },
    };
    refuse(&request.head, status, out);
}

/// The value is too long to be read at all.
pub fn refuse_large(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let key = context.store.key(request.key);
    let mode = if request.loud == opcode::SET { Mode::Set } else { Mode::Add };
    context.store.partition(&key).refuse_large(&key, mode, context.now);
    refuse(&request.head, Status::TooLarge, out);
}

fn delete(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let key = context.store.key(request.key);
    let compare = (request.head.cas != 0).then_some(request.head.cas);
    match context.store.partition(&key).delete(&key, compare, context.now) {
        Deleted::Done => done(request, 0, out),
        Deleted::NotFound => refuse(&request.head, Status::NotFound, out),
        Deleted::Exists => refuse(&request.head, Status::Exists, out),
    }
}

fn count(request: &Request<'_>, way: CountWay, out: &mut Vec<u8>, context: &Context<'_>) {
    let (numbers, time) = request.extras.split_at(16);
    let time = number(time);
    let initial = (number(&numbers[8..]), Expiry::of(time as i64, context.now));
    let key = context.store.key(request.key);
    let count = Count {
        key,
        way,
        delta: number(&numbers[..8]),
        compare: (request.head.cas != 0).then_some(request.head.cas),
        cas: None,
        initial: (time != NEVER_MADE).then_some(initial),
    };
    let mut partition = context.store.partition(&key);
    let status = match partition.count(&count, context.now) {
        Counted::Now { value, place } => {
            let cas = partition.item(place).header.cas;
            if !request.is_quiet {
                let value = &value.to_be_bytes();
                answer(&request.head, &Answer { cas, value, ..DONE }, out);
            }
            return;
        }
        Counted::NotNumeric => Status::NotNumeric,
        Counted::NotFound => Status::NotFound,
        Counted::Exists => Status::Exists,
        Counted::NoMemory => Status::NoMemory,
    };
    refuse(&request.head, status, out);
}

fn statistics(request: &Request<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let mut each = |name: &str, value: &str| {
        let (key, value) = (name.as_bytes(), value.as_bytes());
        answer(&request.head, &Answer { key, value, ..DONE }, out);
    };
    match request.key {
        b"" => standing::general(context, &mut each),
        b"settings" => standing::settings(context, &mut each),
        b"items" | b"slabs" => {}
        b"sizes" => each("sizes_status", "disabled"),
        b"reset" => context.store.reset_counters(),
        _ => return refuse(&request.head, Status::NotFound, out),
    }
    // An answer without a name is the last.
    answer(&request.head, &DONE, out);
}
