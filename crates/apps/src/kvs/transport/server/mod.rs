//! A server from start to end: a thread for each core, any of which serves any key.
//!
//! The calling thread accepts connections and hands them to the workers in turn. Each worker waits
//! with epoll on its connections and on a UDP socket of its own, among which the kernel spreads
//! clients.

#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::endpoint::{FrameCounters, Identity};
use crate::kvs::codec::context::{Context, ServerStatistics, ServerView};
use crate::kvs::codec::statistics;
use crate::kvs::store::{DmaSegments, Spread, Statistics, Store};
use crate::kvs::transport::card::Queues;
use crate::kvs::transport::shared::error::ServerError;
use crate::kvs::transport::shared::{ServerOptions, ServerShared, Udp, moment};
use crate::kvs::transport::socket::accept::accept;
use crate::kvs::transport::socket::sockets;
use crate::kvs::transport::socket::worker::{Inbox, Worker};
use crate::service::Service;

/// Sockets and items, ready to be served.
#[derive(Debug)]
pub struct Server {
    tcp: TcpListener,
    udp: Vec<UdpSocket>,
    address: SocketAddr,
    shared: Arc<ServerShared>,
}

/// The totals of a server at its end.
#[derive(Clone, Debug)]
pub struct ServerTotals {
    /// Its connections.
    pub server: ServerStatistics,
    /// Its frames, if it has a card.
    pub frames: FrameCounters,
    /// Its items.
    pub statistics: Statistics,
}

/// A server that has finished. Where a card brings frames this goes on until the card has ended.
#[derive(Debug)]
pub struct Finished(Arc<ServerShared>);

impl Finished {
    /// Its totals.
    pub fn ended(&self) -> ServerTotals {
        let statistics = self.0.store.statistics();
        let server = self.0.statistics(&statistics);
        ServerTotals { server, frames: self.0.tally.frames.all(), statistics }
    }
}

/// The statistics of a server, for somebody in its own process: what clients get by `stats`.
#[derive(Clone, Debug)]
pub struct StatisticsView(Arc<ServerShared>);

/// Which statistics, as `stats` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticsKind {
    /// `stats`.
    General,
    /// `stats items`.
    Items,
    /// `stats slabs`.
    Slabs,
}

impl StatisticsView {
    /// Names and values. It takes the lock of each partition for a moment, as `stats` does.
    pub fn statistics(&self, kind: StatisticsKind) -> Vec<(String, String)> {
        let (store, host) = (&self.0.store, &*self.0);
        let context = Context { store, now: moment(), host };
        let mut all = Vec::new();
        let mut each = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
        match kind {
            StatisticsKind::General => statistics::general(&context, &mut each),
            StatisticsKind::Items => statistics::items(&context, &mut each),
            StatisticsKind::Slabs => statistics::slabs(&context, &mut each),
        }
        all
    }
}

impl Server {
    /// Takes address and descriptors; items take memory when they come.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(options: ServerOptions) -> Result<Server, ServerError> {
        sockets::allow_descriptors(options.connections_max, options.cores.len())?;
        let partitions = match options.spread {
            Spread::Secret => options.partitions,
            // Each core has one.
            Spread::Steered => options.cores.len(),
        };
        let store = Store::new(options.memory_bytes, partitions, random())?;
        let store = store.spread_by(options.spread);
        let is_udp = options.udp.is_on(options.listen.ip());
        let udp_count = if is_udp { options.cores.len() } else { 0 };
        let (tcp, udp) = sockets::listen(options.listen, options.udp, udp_count)?;
        let address = tcp
            .local_addr()
            .map_err(|source| ServerError::System { call: "getsockname", source })?;
        let udp_port = is_udp.then_some(udp_port(options.udp, address));
        let shared = Arc::new(ServerShared::new(store, options, address.port(), udp_port));
        Ok(Server { tcp, udp, address, shared })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which it serves UDP by sockets.
    pub fn udp_address(&self) -> Option<SocketAddr> {
        self.shared.udp_port.map(|port| SocketAddr::new(self.address.ip(), port))
    }

    /// The port of UDP, whether sockets of the system serve it or a card does.
    pub fn udp_port(&self) -> u16 {
        udp_port(self.shared.options.udp, self.address)
    }

    /// Its statistics, for as long as somebody wants them.
    pub fn statistics(&self) -> StatisticsView {
        StatisticsView(Arc::clone(&self.shared))
    }

    /// What serves the same items to frames, for each core's queues of a card. Where keys are
    /// spread as cards tell them apart ([`Spread::Steered`]), the queue of a core's number has
    /// requests of its own partition alone, of which the card has looked at all headers (see
    /// [`Station`](crate::kvs::transport::card::Station::serve)); other queues have anything.
    ///
    /// `segments` has DMA segments for each core, in their order, where the card writes items and
    /// reports events. Then requests of that kind do not come by queues.
    ///
    /// # Panics
    /// If some cores have DMA segments and others have none ([`Store::attach_dma`]).
    pub fn services(
        &self,
        identity: Identity,
        segments: Vec<DmaSegments>,
    ) -> Vec<Box<dyn Service>> {
        let has_dma = !segments.is_empty();
        if has_dma {
            self.shared.store.attach_dma(segments.into_iter());
        }
        let of = |place| -> Box<dyn Service> {
            Box::new(Queues::new(Arc::clone(&self.shared), identity, place, has_dma))
        };
        (0..self.shared.options.cores.len()).map(of).collect()
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// [`ServerError`]: what breaks one thread ends all.
    pub fn run(self, stop: &AtomicBool) -> Result<Finished, ServerError> {
        let Server { tcp, udp, shared, .. } = self;
        let mut udp: Vec<Option<UdpSocket>> = udp.into_iter().map(Some).collect();
        udp.resize_with(shared.options.cores.len(), || None);
        let inboxes: Vec<Inbox> =
            udp.iter().map(|_| Inbox::new()).collect::<Result<_, ServerError>>()?;
        thread::scope(|scope| {
            let workers: Vec<_> = (shared.options.cores.iter().zip(&inboxes).zip(udp))
                .map(|((&core, inbox), udp)| {
                    let shared = &*shared;
                    scope.spawn(move || {
                        let served = Worker::new(shared, inbox, udp)
                            .and_then(|mut worker| worker.run(core, stop));
                        // One that breaks must not leave the others waiting.
                        stop.store(true, Ordering::Relaxed);
                        served
                    })
                })
                .collect();
            let accepted = accept(&tcp, &inboxes, &shared, stop);
            stop.store(true, Ordering::Relaxed);
            let joined = workers.into_iter().map(|worker| worker.join().unwrap_or(Ok(())));
            joined.fold(accepted, |all, served| all.and(served))
        })?;
        Ok(Finished(shared))
    }
}

/// The port of UDP beside TCP at an address.
fn udp_port(udp: Udp, tcp: SocketAddr) -> u16 {
    match udp {
        Udp::At(port) => port,
        Udp::OnLoopback | Udp::On | Udp::Off => tcp.port(),
    }
}

/// A number that nobody outside can guess.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
