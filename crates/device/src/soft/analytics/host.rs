//! The host behind a core of the card: it keeps frames that come by the core's queues, and has the
//! receiving side of `niclab analytics` take them when a pass asks for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use niclab_apps::service::{Answers, Service};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};

use super::super::kept_frames::{FrameMemory, KeptFrames};

/// The work of a host in a turn of its core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It keeps what comes.
    Keeping,
    /// It takes a burst of what it has kept.
    Taking,
    /// It takes what comes at once.
    Passing,
}

/// One core's host, as the pass and the core share it.
pub(super) struct SharedHost {
    /// Frames that are still to be taken.
    left: AtomicUsize,
    host: Mutex<ReceivingHost>,
}

struct ReceivingHost {
    service: Box<dyn Service>,
    kept: KeptFrames,
    phase: Phase,
}

impl SharedHost {
    /// A host that receives by a service.
    pub(super) fn new(service: Box<dyn Service>, memory: &FrameMemory) -> Arc<SharedHost> {
        let host = ReceivingHost { service, kept: KeptFrames::new(memory), phase: Phase::Passing };
        Arc::new(SharedHost { left: AtomicUsize::new(0), host: Mutex::new(host) })
    }

    fn host(&self) -> MutexGuard<'_, ReceivingHost> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service that a core of the card runs.
    pub(super) fn service(host: &Arc<SharedHost>) -> Box<dyn Service> {
        Box::new(HostService(Arc::clone(host)))
    }

    /// Keeps what comes from now on, and forgets what came before.
    pub(super) fn keep(&self) {
        let mut host = self.host();
        host.kept.clear();
        host.phase = Phase::Keeping;
    }

    /// Takes the kept frames from now on, a burst a turn; how many there are.
    pub(super) fn take(&self) -> usize {
        let mut host = self.host();
        host.phase = Phase::Taking;
        let count = host.kept.len();
        self.left.store(count, Ordering::Relaxed);
        count
    }

    /// Takes frames from now on when they come.
    pub(super) fn pass(&self) {
        self.host().phase = Phase::Passing;
    }

    /// Frames that are still to be taken.
    #[inline]
    pub(super) fn remaining(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

/// The service of one core, which its host shares.
struct HostService(Arc<SharedHost>);

impl Service for HostService {
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        let mut host = self.0.host();
        let ReceivingHost { service, kept, phase } = &mut *host;
        match phase {
            Phase::Keeping => kept.keep(region, frames),
            Phase::Taking | Phase::Passing => service.serve(region, frames, answers),
        }
    }

    fn turn(&mut self, answers: &mut dyn Answers) -> bool {
        let mut host = self.0.host();
        let ReceivingHost { service, kept, phase } = &mut *host;
        match phase {
            Phase::Keeping => false,
            Phase::Passing => service.turn(answers),
            Phase::Taking => {
                let (region, frames) = kept.take(BURST);
                if frames.is_empty() {
                    return false;
                }
                service.serve(region, frames, answers);
                self.0.left.fetch_sub(frames.len(), Ordering::Relaxed);
                true
            }
        }
    }
}
