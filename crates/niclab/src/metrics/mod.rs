//! `--metrics`: the counters of a card, of a store and of analytics, for Prometheus.
//!
//! - `families`: metric families and their two text formats.
//! - `analytics`, `card`, `store`: the families of counted tuples, of a card, and of a key-value
//!   store under the names of memcached's exporter.
//! - `http`: requests and answers as bytes.
//! - `server`: a thread that serves connections.
//! - `questions`: brings questions of that thread to the one that has the card.
//!
//! A scrape never waits on the packet path, and a slow or hostile client delays nobody.

mod analytics;
mod card;
mod families;
mod http;
mod sample_requests;
mod server;
mod store;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use niclab_analytics::job::EngineView;
use niclab_apps::kvs::transport::StatisticsView;
use niclab_card::Card;

use crate::analytics::InputCounters;
use crate::failure::Failure;
use crate::nic::sample::sample;
use crate::output;
use families::Families;
use sample_requests::{SampleRequests, channel};
use server::MetricsServer;

/// An address as `--metrics` has it: `ADDRESS:PORT`, or `PORT` at the loopback address.
pub fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let at_loopback = |port: u16| SocketAddr::from((IpAddr::from(Ipv4Addr::LOCALHOST), port));
    let port = text.parse::<u16>().ok().map(at_loopback);
    port.or_else(|| text.parse().ok())
        .ok_or("write PORT or ADDRESS:PORT, such as 9400, 192.0.2.7:9400 or [::1]:9400")
}

/// The metrics of a card, and of its store where it has one. They end with this.
pub struct CardMetrics {
    // Gone first: then a question that waits ends at once.
    questions: SampleRequests,
    _server: MetricsServer,
}

impl CardMetrics {
    /// Listens there, and says where.
    ///
    /// # Errors
    /// [`Failure::Metrics`] where the address cannot be had.
    pub fn start(
        listen: SocketAddr,
        store: Option<StatisticsView>,
    ) -> Result<CardMetrics, Failure> {
        let (asker, questions) = channel();
        let source = move || {
            let mut families = Families::of_program();
            card::push(&asker.request()?, &mut families);
            store.iter().for_each(|store| store::push(store, &mut families));
            Some(families)
        };
        let server = started(listen, source)?;
        Ok(CardMetrics { questions, _server: server })
    }

    /// Answers what was asked since the last time, with the counters of this card.
    pub fn serve(&self, card: &mut Card) {
        self.questions.answer(|| sample(card));
    }
}

/// The metrics of a store without a card. They end with this.
pub struct StoreMetrics {
    _server: MetricsServer,
}

impl StoreMetrics {
    /// Listens there, and says where.
    ///
    /// # Errors
    /// [`Failure::Metrics`] where the address cannot be had.
    pub fn start(listen: SocketAddr, store: StatisticsView) -> Result<StoreMetrics, Failure> {
        let source = move || {
            let mut families = Families::of_program();
            store::push(&store, &mut families);
            Some(families)
        };
        Ok(StoreMetrics { _server: started(listen, source)? })
    }
}

/// The metrics of analytics. They end with this.
pub struct AnalyticsMetrics {
    _server: MetricsServer,
}

impl AnalyticsMetrics {
    /// Listens there, and says where.
    ///
    /// # Errors
    /// [`Failure::Metrics`] where the address cannot be had.
    pub fn start(
        listen: SocketAddr,
        engine: EngineView,
        counters: Arc<InputCounters>,
    ) -> Result<AnalyticsMetrics, Failure> {
        let source = move || {
            let mut families = Families::of_program();
            analytics::push(&engine.status()?, &counters, &mut families);
            Some(families)
        };
        Ok(AnalyticsMetrics { _server: started(listen, source)? })
    }
}

fn started(
    listen: SocketAddr,
    source: impl FnMut() -> Option<Families> + Send + 'static,
) -> Result<MetricsServer, Failure> {
    let failed = |error| Failure::Metrics { address: listen, error };
    let server = MetricsServer::start(listen, source).map_err(failed)?;
    output::say(&format!("niclab: metrics at http://{}/metrics", server.address()));
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_at_the_loopback_address() {
        let read = |text: &str| address(text).ok().map(|address| address.to_string());
        assert_eq!(read("9400").as_deref(), Some("127.0.0.1:9400"));
        assert_eq!(read("0.0.0.0:9400").as_deref(), Some("0.0.0.0:9400"));
        assert_eq!(read("[::1]:0").as_deref(), Some("[::1]:0"));
        for wrong in ["", ":9400", "127.0.0.1", "70000", "localhost:9400", "::1:9400:1:x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
