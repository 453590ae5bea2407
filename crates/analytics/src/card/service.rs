//! The receiving side on a core of the card: frames come in, tuples go to the workers, and
//! acknowledgements out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use niclab_apps::endpoint::{Endpoint, Identity, RequestSource, prefetch_frames};
use niclab_apps::service::{Answers, Service};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};

use crate::cost::{StepObserver, WorkStep};
use crate::input::{InputStatus, PolledClock, Reception};

/// How often it is applied that time has passed, where no frame comes.
const TURN: Duration = Duration::from_millis(1);

/// Receives tuples on one core.
pub struct TupleService {
    endpoint: Endpoint,
    reception: Reception,
    status: Arc<InputStatus>,
    /// Nothing more is to be taken.
    closing: Arc<AtomicBool>,
    observer: Box<dyn StepObserver>,
    clock: PolledClock,
    started: Instant,
    looked_at: Instant,
}

impl TupleService {
    /// A receiving side with these addresses.
    pub fn new(
        identity: Identity,
        reception: Reception,
        (status, closing): (Arc<InputStatus>, Arc<AtomicBool>),
        observer: Box<dyn StepObserver>,
    ) -> TupleService {
        let now = Instant::now();
        TupleService {
            endpoint: Endpoint::new(identity),
            reception,
            status,
            closing,
            observer,
            clock: PolledClock::default(),
            started: now,
            looked_at: now,
        }
    }

    fn burst(&mut self, datagrams: &[(RequestSource, &[u8])], answers: &mut dyn Answers) {
        let TupleService { endpoint, reception, status, closing, observer, clock, .. } = self;
        if closing.load(Ordering::Relaxed) {
            reception.close();
        }
        let datagrams = datagrams.iter().map(|(peer, bytes)| (*bytes, *peer));
        reception.burst(clock.now_ns(), datagrams, observer.as_mut(), |peer, frame| {
            // A frame for which there is no room is lost: the next one says the same.
            endpoint.send(&peer, frame, answers);
        });
        status.publish(reception);
    }
}

impl Service for TupleService {
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        self.observer.begin();
        let now_s = self.started.elapsed().as_secs() as u32;
        prefetch_frames(region, frames);
        let mut datagrams = [(RequestSource::default(), &[][..]); BURST];
        let mut count = 0;
        for desc in frames.iter().take(BURST) {
            let received = self.endpoint.read(region.frame(desc));
            if let Some(datagram) = self.endpoint.answer(received, now_s, answers) {
                datagrams[count] = datagram;
                count += 1;
            }
        }
        self.observer.done(WorkStep::Receive);
        self.burst(&datagrams[..count], answers);
        self.looked_at = Instant::now();
    }

    fn turn(&mut self, answers: &mut dyn Answers) -> bool {
        let now = Instant::now();
        if now - self.looked_at < TURN {
            return false;
        }
        self.looked_at = now;
        self.observer.begin();
        self.burst(&[], answers);
        false
    }
}
