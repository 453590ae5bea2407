//! Events of a card, served together: what is asked for is answered, what was stored is linked.
//!
//! Step by step, as in `bulk`: all taken out of the ring, all keys hashed, all places asked for,
//! all items asked for; then all carried out in their order. The partition's lock is held
//! meanwhile.

use super::super::binary::{found, got};
use super::super::bulk::{Bulk, Step, Watch};
use super::super::event::{Client, GET_LEN, Told, Written};
use super::super::hash::Key;
use super::super::session::Context;
use super::super::store::{Item, Partition, Place};
use super::reply::{self, Peer, SHORT_LEN_MAX, Template};
use super::{BURST, Counted, Station};
use crate::service::Answers;

/// What is to be done about an event.
#[derive(Clone, Copy)]
enum Task<'a> {
    Nothing,
    Answer(Key<'a>, Client),
    Publish(Written),
    /// An item that was published, and the hash of its key.
    Link(Place, u64),
}

impl Station {
    /// Serves events of a card about keys of a partition, so many at most, and at most a burst;
    /// how many there were.
    pub fn turn<W: Watch>(
        &mut self,
        place: usize,
        most: usize,
        context: &Context<'_>,
        watch: &mut W,
        answers: &mut dyn Answers,
    ) -> usize {
        let mut partition = context.store.own(place);
        watch.done(Step::Lock);
        let most = most.min(BURST);
        let (count, known) = partition.take_events(&mut self.events[..most], context.now);
        if count > 0 {
            watch.done(Step::Receive);
            self.serve_events((count, known), &mut partition, context, watch, answers);
        }
        partition.settle();
        count
    }

    /// Serves so many events, of which some, by bits, were looked at already.
    fn serve_events<W: Watch>(
        &mut self,
        (count, known): (usize, u64),
        partition: &mut Partition,
        context: &Context<'_>,
        watch: &mut W,
        answers: &mut dyn Answers,
    ) {
        let Station { identity, template, bulk, events, counted } = self;
        let events = &events[..count];
        let mut tasks = [Task::Nothing; BURST];
        for (at, (event, task)) in events.iter().zip(&mut tasks).enumerate() {
            match event.told() {
                Told::Asked(_, client) if identity.refuses(&Peer::of(&client)) => {
                    counted.refused += 1;
                }
                Told::Asked(key, client) => {
                    let key = context.store.key(key);
                    partition.ask(key.hash);
                    *task = Task::Answer(key, client);
                }
                Told::Stored(written) if known >> at & 1 == 0 => {
                    partition.ask_written(&written);
                    *task = Task::Publish(written);
                }
                Told::Stored(_) | Told::Nothing => {}
            }
        }
        watch.done(Step::Hash);
        look_up(&mut tasks[..count], partition);
        watch.done(Step::LookUp);
        for task in &tasks[..count] {
            match task {
                Task::Link(place, _) => {
                    partition.link_written(*place);
                }
                Task::Answer(key, client) => {
                    counted.asked += 1;
                    counted.datagram_bytes += (GET_LEN + key.bytes.len()) as u64;
                    let place = partition.get(key, context.now);
                    let item = place.map(|place| partition.item(place));
                    answer(item, client, (&*template, &mut *bulk, &mut *counted), answers);
                }
                Task::Nothing | Task::Publish(_) => {}
            }
        }
        watch.done(Step::CarryOut);
    }
}

/// Asks for all items that are meant; takes notice of those that were written.
#[inline]
fn look_up(tasks: &mut [Task<'_>], partition: &mut Partition) {
    for task in &mut *tasks {
        match task {
            Task::Answer(key, _) => partition.ask_item(key.hash),
            Task::Publish(written) => {
                let published = partition.publish(written);
                if let Some((_, hash)) = published {
                    partition.ask(hash);
                }
                *task = published.map_or(Task::Nothing, |(place, hash)| Task::Link(place, hash));
            }
            Task::Nothing | Task::Link(..) => {}
        }
    }
    for task in tasks {
        if let Task::Link(_, hash) = task {
            partition.ask_item(*hash);
        }
    }
}

/// Answers a get that has found this item, or none.
#[inline]
fn answer(
    item: Option<Item<'_>>,
    client: &Client,
    (template, bulk, counted): (&Template, &mut Bulk, &mut Counted),
    answers: &mut dyn Answers,
) {
    let (peer, id) = (Peer::of(client), client.id);
    match &item {
        Some(item) if item.value.len() <= SHORT_LEN_MAX => {
            let head = found(client.opaque, &item.header);
            reply::found(template, &peer, id, &head, item.value, counted, answers);
        }
        _ => {
            let out = bulk.room();
            out.clear();
            got(client.opaque, item.as_ref(), out);
            reply::send(template, &peer, id, out, counted, answers);
        }
    }
}

impl Peer {
    /// Who asked by an event.
    fn of(client: &Client) -> Peer {
        Peer { mac: client.mac, ip: client.ip, port: client.port }
    }
}
