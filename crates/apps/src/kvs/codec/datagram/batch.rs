//! A batch: datagrams that came together are served together.
//!
//! Most datagrams have one request of the binary protocol with a key. These go step by step:
//! 1. All are parsed, and all keys hashed.
//! 2. Partition by partition, its lock is taken once and all buckets are prefetched. Requests are
//!    carried out while the items of the next eight are prefetched.
//! 3. All are answered.
//!
//! So a core hardly waits for memory, and takes a lock for a group of requests instead of for each.
//! Where another thread has a partition, its turn comes later. All other datagrams are served
//! behind, one by one.
//!
//! Requests of the first kind for one key are carried out in the order in which they came. They may
//! overtake others, as datagrams may anywhere.

use std::sync::MutexGuard;

use niclab_nic::limits::BURST;

use crate::kvs::codec::binary::keyed;
use crate::kvs::codec::context::Context;
use crate::kvs::codec::datagram;
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::limits::{ANSWERS_LEN_MAX, DATAGRAM_ANSWER_LEN_MAX};
use crate::kvs::store::{Partition, Store};

/// The steps of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStep {
    /// Headers read and checked.
    Receive,
    /// Requests taken apart and checked.
    Parse,
    /// Keys hashed, partitions chosen.
    Hash,
    /// A partition's lock taken.
    Lock,
    /// Buckets and items prefetched.
    LookUp,
    /// Carried out: found, copied or stored.
    CarryOut,
    /// Answers sent.
    Reply,
}

/// How many steps there are.
pub const BATCH_STEPS: usize = BatchStep::Reply as usize + 1;

/// Requests whose items are prefetched while as many before them are carried out. Memory has time
/// enough to bring them, and a core can have so many lines on their way. One, two and four were
/// slower by 3 to 12 ns a request (`cargo bench -p niclab-bench --bench kvs`).
pub(in crate::kvs) const AHEAD: usize = 8;

/// Hears of each step when it is done: whoever wants to know how long it took.
pub trait StepObserver {
    /// This step was done, for as much of the burst as there was.
    fn done(&mut self, step: BatchStep);
}

/// Nobody.
impl StepObserver for () {
    #[inline(always)]
    fn done(&mut self, _: BatchStep) {}
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct BatchDatagram<'a> {
    /// Its content, from the frame header on.
    pub datagram: &'a [u8],
    /// The partition of its key, where a card has reported it.
    pub owner: Option<usize>,
}

/// A request that goes step by step.
#[derive(Clone, Copy, Default)]
struct SingleRequest<'a> {
    id: u16,
    bytes: &'a [u8],
    key: HashedKey<'a>,
    /// The range of its answer among all answers.
    answer: (usize, usize),
}

/// Requests of a burst by the partition that they are of.
struct Groups {
    owners: [u16; BURST],
    members: [u64; BURST],
    count: usize,
}

impl Groups {
    /// Those of `all`, whose owners are these.
    #[inline]
    fn new(all: u64, owner: &[u16; BURST]) -> Groups {
        let mut groups = Groups { owners: [0; BURST], members: [0; BURST], count: 0 };
        let mut left = all;
        while left != 0 {
            let first = owner[left.trailing_zeros() as usize];
            let same = (0..BURST).fold(0, |bits, i| bits | u64::from(owner[i] == first) << i);
            groups.put(first, same & left);
            left &= !same;
        }
        groups
    }

    fn put(&mut self, owner: u16, members: u64) {
        (self.owners[self.count], self.members[self.count]) = (owner, members);
        self.count += 1;
    }

    /// Takes a group out whose partition is free; `None` behind the last.
    #[inline]
    fn take<'a>(&mut self, store: &'a Store) -> Option<(u16, u64, MutexGuard<'a, Partition>)> {
        let (at, partition) = store.any(&self.owners[..self.count])?;
        let (owner, members) = (self.owners[at], self.members[at]);
        self.count -= 1;
        self.owners[at] = self.owners[self.count];
        self.members[at] = self.members[self.count];
        Some((owner, members, partition))
    }
}

/// Buffers for answers, used again for each batch.
#[derive(Debug)]
pub struct AnswerBuffers {
    /// Answers, one behind the other.
    out: Vec<u8>,
    /// An answer of those that are served one by one.
    other: Vec<u8>,
}

impl Default for AnswerBuffers {
    fn default() -> AnswerBuffers {
        let room = || Vec::with_capacity(ANSWERS_LEN_MAX + DATAGRAM_ANSWER_LEN_MAX);
        AnswerBuffers { out: room(), other: room() }
    }
}

impl AnswerBuffers {
    /// Room for one answer.
    pub fn room(&mut self) -> &mut Vec<u8> {
        &mut self.other
    }

    /// Serves datagrams, at most [`BURST`], and calls `answer` with the number of a datagram, its
    /// request id and what is to be sent for it, where that is anything.
    pub fn serve<W: StepObserver>(
        &mut self,
        asked: &[BatchDatagram<'_>],
        context: &Context<'_>,
        watch: &mut W,
        mut answer: impl FnMut(usize, u16, &[u8]),
    ) {
        let AnswerBuffers { out, other } = self;
        let mut requests = [SingleRequest::default(); BURST];
        let (mut all, mut others) = (0_u64, 0_u64);
        for (i, asked) in asked.iter().enumerate().take(BURST) {
            match datagram::single(asked.datagram) {
                Some((id, bytes, key)) => {
                    let key = HashedKey { bytes: key, hash: 0 };
                    requests[i] = SingleRequest { id, bytes, key, answer: (0, 0) };
                    all |= 1 << i;
                }
                None => others |= 1 << i,
            }
        }
        watch.done(BatchStep::Parse);
        let mut owners = [0; BURST];
        for i in each(all) {
            let key = context.store.key(requests[i].key.bytes);
            let owner = asked[i].owner.unwrap_or_else(|| context.store.partition_of(&key));
            (requests[i].key, owners[i]) = (key, owner as u16);
        }
        let mut groups = Groups::new(all, &owners);
        watch.done(BatchStep::Hash);
        out.clear();
        let mut waiting = 0;
        while let Some((owner, group, mut partition)) = groups.take(context.store) {
            watch.done(BatchStep::Lock);
            let done = carry_out(&mut partition, &mut requests, group, out, context, watch);
            drop(partition);
            waiting |= done;
            // Where long values are asked for, those that are there leave first.
            if out.len() >= ANSWERS_LEN_MAX {
                send(&requests, std::mem::take(&mut waiting), out, &mut answer);
                out.clear();
            }
            if done != group {
                groups.put(owner, group & !done);
            }
        }
        send(&requests, waiting, out, &mut answer);
        for i in each(others) {
            if let Some(id) = datagram::serve(asked[i].datagram, other, context)
                && !other.is_empty()
            {
                answer(i, id, other);
            }
        }
        watch.done(BatchStep::Reply);
    }
}

/// The numbers of the bits that are set.
#[inline]
fn each(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (lowest < BURST).then_some(lowest)
    })
}

/// Carries requests of a group out, as long as there is room for answers; which. What they need is
/// asked for first: the places of all, then, while some are carried out, the items of the next.
#[inline]
fn carry_out<W: StepObserver>(
    partition: &mut Partition,
    requests: &mut [SingleRequest<'_>; BURST],
    group: u64,
    out: &mut Vec<u8>,
    context: &Context<'_>,
    watch: &mut W,
) -> u64 {
    let mut done = 0;
    each(group).for_each(|i| partition.prefetch_bucket(requests[i].key.hash));
    let (mut some, mut rest) = first(group);
    each(some).for_each(|i| partition.prefetch_item(requests[i].key.hash));
    while some != 0 {
        let (next, behind) = first(rest);
        each(next).for_each(|i| partition.prefetch_item(requests[i].key.hash));
        watch.done(BatchStep::LookUp);
        for i in each(some) {
            let start = out.len();
            keyed(requests[i].bytes, requests[i].key, partition, out, context.now);
            requests[i].answer = (start, out.len());
            done |= 1 << i;
            if out.len() >= ANSWERS_LEN_MAX {
                watch.done(BatchStep::CarryOut);
                return done;
            }
        }
        watch.done(BatchStep::CarryOut);
        (some, rest) = (next, behind);
    }
    done
}

/// The first bits that are set, [`AHEAD`] or all, and the others.
#[inline]
fn first(bits: u64) -> (u64, u64) {
    let rest = (0..AHEAD).fold(bits, |rest, _| rest & rest.wrapping_sub(1));
    (bits ^ rest, rest)
}

/// Has answers sent that are there.
#[inline]
fn send(
    requests: &[SingleRequest<'_>; BURST],
    waiting: u64,
    out: &[u8],
    answer: &mut impl FnMut(usize, u16, &[u8]),
) {
    for i in each(waiting) {
        let SingleRequest { id, answer: (start, end), .. } = requests[i];
        if start < end {
            answer(i, id, &out[start..end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvs::protocol::hash::{owner, steered};
    use crate::kvs::protocol::time::UnixTime;
    use crate::kvs::store::Spread;

    /// A datagram with a request of the binary protocol.
    fn request(id: u16, code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = [id, 0, 1, 0].map(u16::to_be_bytes).as_flattened().to_vec();
        bytes.extend_from_slice(&[0x80, code, 0, key.len() as u8, extras.len() as u8, 0, 0, 0]);
        let body_len = extras.len() + key.len() + value.len();
        bytes.extend_from_slice(&(body_len as u32).to_be_bytes());
        bytes.extend_from_slice(&[0; 12]);
        [&bytes[..], extras, key, value].concat()
    }

    fn text(id: u16, message: &[u8]) -> Vec<u8> {
        [[id, 0, 1, 0].map(u16::to_be_bytes).as_flattened(), message].concat()
    }

    /// Answers by request id, in the order in which they were given.
    fn serve(store: &Store, datagrams: &[Vec<u8>], knows_owner: bool) -> Vec<(u16, Vec<u8>)> {
        let context = Context { store, now: UnixTime(1000), host: &() };
        let reported = |datagram: &[u8]| {
            let (_, _, key) = datagram::single(datagram)?;
            knows_owner.then(|| owner(steered(key), store.partitions()))
        };
        let asked: Vec<BatchDatagram<'_>> = datagrams
            .iter()
            .map(|datagram| BatchDatagram { datagram, owner: reported(datagram) })
            .collect();
        let mut given = Vec::new();
        AnswerBuffers::default().serve(&asked, &context, &mut (), |i, id, answer| {
            assert_eq!(datagrams[i][..2], id.to_be_bytes());
            given.push((id, answer.to_vec()));
        });
        given
    }

    /// One by one, as a socket's thread serves them.
    fn one_by_one(store: &Store, datagrams: &[Vec<u8>]) -> Vec<(u16, Vec<u8>)> {
        let context = Context { store, now: UnixTime(1000), host: &() };
        let serve = |datagram: &Vec<u8>| {
            let mut out = Vec::new();
            let id = datagram::serve(datagram, &mut out, &context)?;
            (!out.is_empty()).then_some((id, out))
        };
        datagrams.iter().filter_map(serve).collect()
    }

    /// Requests of all kinds for few keys, so that many meet the same one.
    fn mixture() -> Vec<Vec<u8>> {
        let set = [0, 0, 0, 7, 0, 0, 0, 0];
        let count = [&5_u64.to_be_bytes()[..], &1_u64.to_be_bytes(), &[0; 4]].concat();
        (0..BURST as u16)
            .map(|id| {
                let key = format!("key{}", id % 5);
                let (key, value) = (key.as_bytes(), format!("value {id}"));
                match id % 13 {
                    0 | 7 => request(id, 0x01, &set, key, value.as_bytes()),
                    1 => request(id, 0x04, b"", key, b""),
                    2 => request(id, 0x05, &count, b"number", b""),
                    3 => request(id, 0x09, b"", key, b""),
                    4 => request(id, 0x0e, b"", key, b"+"),
                    5 => request(id, 0x1d, &[0; 4], key, b""),
                    _ => request(id, 0x0c, b"", key, b""),
                }
            })
            .collect()
    }

    #[test]
    fn batched_and_single_requests_have_the_same_result() {
        for (spread, knows_owner) in
            [(Spread::Secret, false), (Spread::Steered, false), (Spread::Steered, true)]
        {
            let store = || Store::new(32 << 20, 3, 7).unwrap().spread_by(spread);
            let (together, alone) = (store(), store());
            for round in 0..3 {
                let given = serve(&together, &mixture(), knows_owner);
                // Numbers of items hang on the partition's order, which is that of its requests.
                assert_eq!(given, one_by_one(&alone, &mixture()), "{spread:?}, round {round}");
            }
            let (one, other) = (together.statistics(), alone.statistics());
            assert_eq!(one.counters, other.counters);
        }
    }

    #[test]
    fn datagrams_with_several_requests_are_served() {
        let store = Store::new(32 << 20, 2, 7).unwrap();
        let two = [request(3, 0x0a, b"", b"", b""), request(0, 0x0a, b"", b"", b"")[8..].to_vec()];
        let datagrams = [
            text(1, b"set a 0 0 1\r\nx\r\n"),
            text(2, b"get a"),
            two.concat(),
            b"short".to_vec(),
            request(4, 0x00, b"", b"a", b""),
            request(5, 0x77, b"", b"a", b""),
            text(6, b"set b 0 0 1 noreply\r\nx\r\n"),
        ];
        let given = serve(&store, &datagrams, false);
        let ids: Vec<u16> = given.iter().map(|(id, _)| *id).collect();
        // What is one request goes first, and then nothing was stored yet.
        assert_eq!(ids, [4, 1, 2, 3, 5]);
        assert_eq!(given[0].1[7], 1, "not found");
        assert_eq!(given[1].1, b"STORED\r\n");
        assert_eq!(given[3].1.len(), 48);
        assert_eq!(serve(&store, &[request(9, 0x00, b"", b"b", b"")], false)[0].1[24 + 4], b'x');
    }

    #[test]
    fn long_values_do_not_pile_up() {
        let store = Store::new(64 << 20, 2, 7).unwrap();
        let value = vec![b'v'; 60_000];
        let long = request(0, 0x01, &[0; 8], b"long", &value);
        assert_eq!(serve(&store, &[long], false).len(), 1);
        let gets: Vec<_> = (0..64).map(|id| request(id, 0x00, b"", b"long", b"")).collect();
        let asked: Vec<_> =
            gets.iter().map(|of| BatchDatagram { datagram: of, owner: None }).collect();
        let context = Context { store: &store, now: UnixTime(1000), host: &() };
        let (mut batch, mut given) = (AnswerBuffers::default(), 0);
        batch.serve(&asked, &context, &mut (), |i, _, answer| {
            assert_eq!((i, answer.len()), (given, 24 + 4 + value.len()));
            given += 1;
        });
        assert_eq!(given, 64);
        assert!(batch.out.capacity() < 2 << 20);
    }
}
