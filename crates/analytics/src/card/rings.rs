//! The mode in which the card writes tuples into the workers' rings.
//!
//! The card takes tuples of sources that it knows. Frames of others come to a core of the host,
//! which has them registered: the control side gives the source a slot, and tells the card. The
//! source sends again what came before that. [`crate::inbox::RingLane`] is the workers' end.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use niclab_apps::endpoint::{Endpoint, Identity, RequestSource};
use niclab_apps::service::{Answers, Service};
use niclab_card::steering::{array, broken, receiver};
use niclab_nic::memory::{Desc, Region};
use niclab_program::{Change, Entry, Invocation, Part, Pipeline, SharedRegisters};

use super::CardSetupError;
use crate::inbox::{CardSources, Inbox, RingLane};
use crate::input::{InputSnapshot, PolledClock};
use crate::partition::PARTS;
use crate::receiver::{ReceiverCounters, ReceiverOptions};
use crate::tuple::{AcknowledgementHead, Frame, write_acknowledgement};
use crate::window::Windows;

/// Its text.
pub const PROGRAM: &str = include_str!("../../../../programs/tuple-items/tuple-items.spec");
/// Workers at most: rings of the program.
pub const WORKERS_MAX: usize = 16;
/// Sources at most: slots of the program.
pub const SOURCES_MAX: usize = 4_096;
/// The owner of a part of the keys that nobody has.
const NOBODY: u64 = 16;
/// A source's tuples are marked at least so often in a pane.
const MARKS_PER_SLIDE: u64 = 16;
/// Sources that wait for a slot at most.
const WAITING_MAX: usize = 256;

/// A source that the card does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NewSource {
    source: u64,
    ip: Ipv4Addr,
    port: u16,
}

/// The control side of the rings.
pub struct TupleRings {
    sources: Arc<CardSources>,
    options: ReceiverOptions,
    waiting: Receiver<NewSource>,
    /// There are no more slots, or nothing is taken any more.
    is_full: Arc<AtomicBool>,
    is_closed: bool,
    slots: HashMap<u64, usize>,
    addresses: Arc<SourceAddresses>,
    /// By slot: the frames that were there, and when there were more, nanoseconds.
    heard: Vec<(u64, u64)>,
    clock: PolledClock,
    inboxes: Vec<Arc<Inbox>>,
    /// Entries of a ring.
    entries: usize,
    /// Numbers of the table of sources, and of registers.
    table: usize,
    owners: usize,
    credit: SharedRegisters,
    frames: SharedRegisters,
    ended: SharedRegisters,
    /// The counters of the receiver so far.
    shown: InputSnapshot,
}

/// The card's program and services, and the inboxes of the workers: mode dma.
pub struct RingsSetup {
    /// The control side.
    pub rings: TupleRings,
    /// The program.
    pub program: Pipeline,
    /// A service for each core of the card.
    pub services: Vec<Box<dyn Service>>,
    /// The inbox of each worker.
    pub inboxes: Vec<Arc<Inbox>>,
}

impl TupleRings {
    /// Sets the rings up for a number of workers and a number of card cores.
    ///
    /// # Errors
    /// [`CardSetupError`].
    pub fn setup(
        identity: Identity,
        (workers, cores): (usize, usize),
        windows: Windows,
        options: ReceiverOptions,
    ) -> Result<RingsSetup, CardSetupError> {
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(CardSetupError::Workers(workers));
        }
        let mut program = receiver(PROGRAM, "receivers", &identity)?;
        let number = |name| array(program.program(), name);
        let [owners, others, shift] = [number("owners")?, number("others")?, number("shift")?];
        let [count, credit, heard] = [number("workers")?, number("credit")?, number("heard")?];
        let ended = number("ended")?;
        let table = program.program().table_number("sources").map_err(|error| broken(&error))?;
        let entries = program.program().rings.first().map_or(0, |of| of.shape.entries as usize);
        for part in 0..PARTS {
            program.set_register(others, part as u64, (part % cores) as u64);
            program.set_register(owners, part as u64, (part % workers) as u64);
        }
        program.set_register(count, 0, workers as u64);
        program.set_register(shift, 0, mark_shift(windows).into());
        let shared =
            |array| program.registers(array).ok_or_else(|| broken(&"registers of another kind"));
        let (credit, frames, ended) = (shared(credit)?, shared(heard)?, shared(ended)?);
        let sources_max = options.sources_max.min(SOURCES_MAX);
        let sources = Arc::new(CardSources::new(sources_max, options.sources_awaited));
        let mut inboxes = Vec::new();
        for ring in 0..workers {
            let reader = program.reader(0, ring).ok_or_else(|| broken(&"too few rings"))?;
            let lane = RingLane::new(reader, Arc::clone(&sources), windows);
            inboxes.push(Arc::new(Inbox::of_ring(lane)));
        }
        let (sender, waiting) = mpsc::sync_channel(WAITING_MAX);
        let is_full = Arc::new(AtomicBool::new(false));
        let addresses = Arc::<SourceAddresses>::default();
        let service = |_| {
            let service = SourceService {
                endpoint: Endpoint::new(identity),
                waiting: sender.clone(),
                is_full: Arc::clone(&is_full),
                addresses: Arc::clone(&addresses),
                answer: Vec::new(),
            };
            Box::new(service) as _
        };
        let services = (0..cores).map(service).collect();
        let rings = TupleRings {
            sources,
            options,
            waiting,
            is_full,
            is_closed: false,
            slots: HashMap::new(),
            addresses,
            heard: Vec::new(),
            clock: PolledClock::default(),
            inboxes: inboxes.clone(),
            entries,
            table,
            owners,
            credit,
            frames,
            ended,
            shown: InputSnapshot::default(),
        };
        rings.set_credit();
        Ok(RingsSetup { rings, program, services, inboxes })
    }

    /// Registers sources that wait, and looks which ones are silent. It is to be done some times a
    /// second; each time delays a source's first tuples.
    pub fn tend(&mut self, program: &mut Pipeline) {
        let now_ns = self.clock.now_ns();
        while let Ok(source) = self.waiting.try_recv() {
            self.register(&source, now_ns, program);
        }
        let (mut live, mut silent) = (0, 0);
        for (slot, (frames, heard_at_ns)) in self.heard.iter_mut().enumerate() {
            let now = self.frames.read(slot as u64);
            if now != *frames {
                (*frames, *heard_at_ns) = (now, now_ns);
            }
            let is_ended = self.ended.read(slot as u64) != 0;
            let is_heard = now_ns - *heard_at_ns < self.options.silence_ns;
            live += usize::from(is_heard && !is_ended);
            silent += usize::from(!is_heard && !is_ended);
            // The worker knows by a mark that a source has ended.
            self.sources.set_live(slot, is_heard || is_ended);
        }
        (self.shown.live_sources, self.shown.silent_sources) = (live, silent);
        self.shown.seen_sources = self.sources.seen();
        self.shown.counters = self.count(program);
        self.set_credit();
    }

    /// Gives a source a slot.
    fn register(&mut self, new: &NewSource, now_ns: u64, program: &mut Pipeline) {
        if self.is_closed || self.slots.contains_key(&new.source) {
            return;
        }
        let Some(slot) = self.sources.add() else {
            self.is_full.store(true, Ordering::Relaxed);
            return;
        };
        self.heard.push((0, now_ns));
        self.slots.insert(new.source, slot);
        addresses(&self.addresses).insert(new.source, (new.ip, new.port));
        let key = vec![
            Part::exact(new.source.to_be_bytes().to_vec()),
            Part::exact(new.ip.octets().to_vec()),
            Part::exact(new.port.to_be_bytes().to_vec()),
        ];
        // There are no more slots than 16 bits can number.
        let arguments = vec![(slot as u16).to_be_bytes().to_vec()];
        let does = Invocation { action: KNOWN, arguments };
        let entry = Entry { key, priority: 0, does };
        let added = program.change(&[Change::Add { table: self.table, entry }]);
        debug_assert!(added.is_ok(), "{added:?}");
    }

    /// Each source may have as much under way as its share of a ring.
    fn set_credit(&self) {
        let credit = self.entries / 2 / self.shown.live_sources.max(1);
        self.credit.write(0, credit.min(self.options.window as usize).max(1) as u64);
    }

    /// Whether all awaited sources were there, and all sources have ended or are silent.
    pub fn is_finished(&self) -> bool {
        self.sources.seen() >= self.options.sources_awaited.max(1) && self.shown.live_sources == 0
    }

    /// Ends the taking of tuples. The first call has the card take no more tuples. The second one,
    /// some milliseconds later, has the workers end once they have counted what is there: by then
    /// the card's cores have done with the bursts that they had. Whether it was the second one.
    pub fn close(&mut self, program: &mut Pipeline) -> bool {
        if !self.is_closed {
            self.is_closed = true;
            self.is_full.store(true, Ordering::Relaxed);
            (0..PARTS).for_each(|part| program.set_register(self.owners, part as u64, NOBODY));
            return false;
        }
        self.inboxes.iter().for_each(|inbox| inbox.close());
        true
    }

    /// The counters of the card, as of the last [`TupleRings::tend`].
    pub fn received(&self) -> InputSnapshot {
        self.shown
    }

    fn count(&self, program: &Pipeline) -> ReceiverCounters {
        let arrays = &program.program().counters;
        let packets = |name: &str, index: usize| {
            let array = arrays.iter().position(|array| array.name == name);
            let counted = array.and_then(|array| program.counter(array, index as u64));
            counted.map_or(0, |(packets, _)| packets)
        };
        let late: u64 = self.inboxes.iter().map(|inbox| inbox.late()).sum();
        let taken: u64 = (0..self.inboxes.len()).map(|ring| packets("taken", ring)).sum();
        ReceiverCounters {
            frames: packets("acknowledged", 0),
            malformed: packets("malformed", 0),
            taken: taken.saturating_sub(late),
            duplicates: packets("repeated", 0),
            no_room: 0,
            beyond: packets("gaps", 0),
            late,
            refused: 0,
            foreign: 0,
        }
    }
}

/// Number of the action that an entry of the table `sources` runs.
const KNOWN: usize = 2;

/// The number of low bits of an event time that marks ignore.
fn mark_shift(windows: Windows) -> u32 {
    (windows.pane_ns(0).end / MARKS_PER_SLIDE).max(1).ilog2()
}

/// Takes the frames of sources that the card does not know.
struct SourceService {
    endpoint: Endpoint,
    waiting: SyncSender<NewSource>,
    is_full: Arc<AtomicBool>,
    addresses: Arc<SourceAddresses>,
    answer: Vec<u8>,
}

/// The address and port of each source that the card knows.
type SourceAddresses = Mutex<HashMap<u64, (Ipv4Addr, u16)>>;

fn addresses(of: &SourceAddresses) -> MutexGuard<'_, HashMap<u64, (Ipv4Addr, u16)>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SourceService {
    fn take(&mut self, peer: &RequestSource, datagram: &[u8], answers: &mut dyn Answers) {
        let Ok((source, Frame::Tuples(_) | Frame::Progress(_))) = Frame::parse(datagram) else {
            return;
        };
        let known = addresses(&self.addresses).get(&source).copied();
        let head = match known {
            // The card has not read the new entry yet.
            Some(known) if known == (peer.ip, peer.port) => return,
            // Another source had this id: an end in answer to a beginning says so.
            Some(_) => AcknowledgementHead { is_ended: true, ..AcknowledgementHead::default() },
            None => {
                // Of what has no room now, the source sends more.
                let _ = self.waiting.try_send(NewSource { source, ip: peer.ip, port: peer.port });
                if !self.is_full.load(Ordering::Relaxed) {
                    return;
                }
                AcknowledgementHead { is_refused: true, ..AcknowledgementHead::default() }
            }
        };
        write_acknowledgement(&mut self.answer, source, &head, std::iter::empty());
        self.endpoint.send(peer, &self.answer, answers);
    }
}

impl Service for SourceService {
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        for desc in frames {
            let received = self.endpoint.read(region.frame(desc));
            if let Some((peer, datagram)) = self.endpoint.answer(received, 0, answers) {
                self.take(&peer, datagram, answers);
            }
        }
    }
}
