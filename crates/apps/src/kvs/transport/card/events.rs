//! Serves events of a card as a batch: it answers gets, and links items that the card has stored.
//!
//! The core takes a batch out of the ring, hashes all keys and prefetches all buckets. Then it
//! carries the events out in their order, while the items of the next ones are prefetched. It holds
//! the partition's lock meanwhile.

use super::Station;
use super::reply::{self, SHORT_LEN_MAX};
use crate::endpoint::{FrameCounters, RequestSource, Template};
use crate::kvs::codec::binary::{found, got};
use crate::kvs::codec::context::Context;
use crate::kvs::codec::datagram::batch::{AHEAD, AnswerBuffers, BatchStep, StepObserver};
use crate::kvs::protocol::event::{EventKind, GET_LEN, Requester, WrittenItem};
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::store::{Item, LogAddress, Partition};
use crate::service::Answers;
use niclab_nic::limits::BURST;

/// The work for an event.
#[derive(Clone, Copy)]
enum EventTask {
    Nothing,
    /// An item is asked for whose key has this hash.
    Answer(u64),
    Publish(WrittenItem),
    /// An item that was published, and the hash of its key.
    Link(LogAddress, u64),
}

impl Station {
    /// Serves events of a card about keys of a partition, so many at most, and at most a burst;
    /// how many there were.
    pub fn turn<W: StepObserver>(
        &mut self,
        place: usize,
        most: usize,
        context: &Context<'_>,
        watch: &mut W,
        answers: &mut dyn Answers,
    ) -> usize {
        let mut partition = context.store.own(place);
        watch.done(BatchStep::Lock);
        let most = most.min(BURST);
        let (count, known) = partition.take_events(&mut self.events[..most], context.now);
        if count > 0 {
            watch.done(BatchStep::Receive);
            self.serve_events((count, known), &mut partition, context, watch, answers);
        }
        partition.rotate_segments();
        count
    }

    /// Serves so many events, of which some, by bits, were looked at already.
    fn serve_events<W: StepObserver>(
        &mut self,
        (count, known): (usize, u64),
        partition: &mut Partition,
        context: &Context<'_>,
        watch: &mut W,
        answers: &mut dyn Answers,
    ) {
        let Station { endpoint, batch, events } = self;
        let identity = *endpoint.identity();
        let (template, counted) = endpoint.answering();
        let events = &events[..count];
        let mut tasks = [EventTask::Nothing; BURST];
        for (at, (event, task)) in events.iter().zip(&mut tasks).enumerate() {
            match event.kind() {
                EventKind::Asked(_, client) if identity.refuses(&source(&client)) => {
                    counted.refused += 1;
                }
                EventKind::Asked(key, _) => {
                    let hash = context.store.key(key).hash;
                    partition.prefetch_bucket(hash);
                    *task = EventTask::Answer(hash);
                }
                EventKind::Stored(written) if known >> at & 1 == 0 => {
                    partition.prefetch_written(&written);
                    *task = EventTask::Publish(written);
                }
                EventKind::Stored(_) | EventKind::Nothing => {}
            }
        }
        watch.done(BatchStep::Hash);
        publish(&mut tasks[..count], partition);
        ask_items(&tasks[..count.min(AHEAD)], partition);
        for (at, (task, event)) in tasks[..count].iter().zip(events).enumerate() {
            if at % AHEAD == 0 {
                let next = (at + AHEAD).min(count);
                ask_items(&tasks[next..(next + AHEAD).min(count)], partition);
                watch.done(BatchStep::LookUp);
            }
            match task {
                EventTask::Link(place, _) => {
                    partition.link_written(*place);
                }
                EventTask::Answer(hash) => {
                    counted.asked += 1;
                    if let EventKind::Asked(bytes, client) = event.kind() {
                        counted.datagram_bytes += (GET_LEN + bytes.len()) as u64;
                        let place = partition.get(&HashedKey { bytes, hash: *hash }, context.now);
                        let item = place.map(|place| partition.item(place));
                        answer(item, &client, (template, &mut *batch, &mut *counted), answers);
                    }
                }
                EventTask::Nothing | EventTask::Publish(_) => {}
            }
            if at % AHEAD == AHEAD - 1 || at + 1 == count {
                watch.done(BatchStep::CarryOut);
            }
        }
    }
}

/// Takes notice of items that were written, and asks for where their keys stand.
#[inline]
fn publish(tasks: &mut [EventTask], partition: &mut Partition) {
    for task in tasks {
        if let EventTask::Publish(written) = task {
            *task = match partition.publish(written) {
                Some((place, hash)) => {
                    partition.prefetch_bucket(hash);
                    EventTask::Link(place, hash)
                }
                None => EventTask::Nothing,
            };
        }
    }
}

/// Asks for items that are meant: those that are asked for, and those whose place others take.
#[inline]
fn ask_items(tasks: &[EventTask], partition: &Partition) {
    for task in tasks {
        if let EventTask::Answer(hash) | EventTask::Link(_, hash) = task {
            partition.prefetch_item(*hash);
        }
    }
}

/// Answers a get that has found this item, or none.
#[inline(always)]
fn answer(
    item: Option<Item<'_>>,
    client: &Requester,
    (template, batch, counted): (&Template, &mut AnswerBuffers, &mut FrameCounters),
    answers: &mut dyn Answers,
) {
    let (peer, id) = (source(client), client.id);
    match &item {
        Some(item) if item.value.len() <= SHORT_LEN_MAX => {
            let head = found(client.opaque, &item.header);
            reply::found(template, &peer, id, &head, item.value, counted, answers);
        }
        _ => {
            let out = batch.room();
            out.clear();
            got(client.opaque, item.as_ref(), out);
            reply::send(template, &peer, id, out, counted, answers);
        }
    }
}

/// The client of an event.
fn source(client: &Requester) -> RequestSource {
    RequestSource { mac: client.mac, ip: client.ip, port: client.port }
}
