//! Tuples by the queues of a card.
//!
//! In all modes the workers and their operators are the same. They differ in what the card does:
//!
//! - rss ([`HostReception`]): it gives a source's frames to the core that the hash of its addresses
//!   has. That core of the host checks, demultiplexes, hands over and acknowledges.
//! - steer (the same): it gives frames to the core that the first tuple's key has, which does the
//!   same for workers of its own.
//! - dma ([`TupleRings`]): it checks, demultiplexes, writes tuples into the workers' rings and
//!   acknowledges. A core of the host registers sources.

mod rings;
mod service;
mod steering;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use niclab_apps::endpoint::Identity;
use niclab_apps::service::Service;
use niclab_card::CardError;
use niclab_program::Pipeline;

pub use rings::{RingsSetup, SOURCES_MAX, TupleRings, WORKERS_MAX};
pub use service::TupleService;

use crate::cost::StepObserver;
use crate::input::{InputSnapshot, InputStatus, Reception};
use crate::job::JobEngine;
use crate::receiver::{ReceiverOptions, Watermark};

/// Why a card cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum CardSetupError {
    /// More workers than the program has rings.
    #[error("{0} workers: the card has rings for {WORKERS_MAX} at most")]
    Workers(usize),
    /// The card refuses the program.
    #[error("{0}")]
    Card(#[from] CardError),
}

/// The receiving sides of a card's cores, and its program: modes rss and steer.
pub struct HostReception {
    /// The program; none: RSS.
    pub program: Option<Pipeline>,
    /// A service for each core of the card.
    pub services: Vec<Box<dyn Service>>,
    status: Vec<Arc<InputStatus>>,
    watermark: Arc<Watermark>,
    closing: Arc<AtomicBool>,
}

impl HostReception {
    /// For an engine that has a lane for each core of the card. `steer`: by key.
    ///
    /// # Errors
    /// [`CardSetupError`].
    pub fn new(
        engine: &JobEngine,
        identity: Identity,
        (cores, is_steered): (usize, bool),
        options: ReceiverOptions,
        observers: &dyn Fn(usize) -> Box<dyn StepObserver>,
    ) -> Result<HostReception, CardSetupError> {
        let windows = engine.query().windows;
        let watermark = Arc::new(Watermark::new(windows, options.sources_awaited, cores));
        let owners = is_steered.then(|| steering::owners(&engine.places(), cores));
        let program = owners.map(|owners| steering::pipeline(&identity, &owners)).transpose()?;
        let closing = Arc::new(AtomicBool::new(false));
        let (mut services, mut status): (Vec<Box<dyn Service>>, Vec<_>) = Default::default();
        for place in 0..cores {
            let mut reception = Reception::one_of(engine, options, Arc::clone(&watermark), place);
            if let Some(owners) = owners {
                reception.own(owners.map(|owner| owner == place));
            }
            let shown = Arc::new(InputStatus::default());
            status.push(Arc::clone(&shown));
            let shared = (shown, Arc::clone(&closing));
            let service = TupleService::new(identity, reception, shared, observers(place));
            services.push(Box::new(service));
        }
        Ok(HostReception { program, services, status, watermark, closing })
    }

    /// The counters of all cores together.
    pub fn received(&self) -> InputSnapshot {
        self.status.iter().fold(InputSnapshot::default(), |sum, of| sum.with(&of.read()))
    }

    /// Whether all awaited sources were there, and all sources have ended or are silent.
    pub fn is_finished(&self) -> bool {
        self.watermark.is_finished()
    }

    /// Has the cores take nothing more; whether all have heard of it, after which nothing comes to
    /// the workers any more.
    pub fn close(&self) -> bool {
        self.closing.store(true, Ordering::Relaxed);
        self.status.iter().all(|of| of.read().is_closed)
    }
}
