//! Trials between two hosts: messages and their ledger, applications, bulk data.

use niclab_device::{Application, Exchange, Streaming};
use niclab_result::{Outcome, ResultError};

use super::record::{failed, json};
use super::{Bed, Place, Runner};
use crate::application::{self, put_application};
use crate::exchange::{self, put_exchange};
use crate::ledger::{PAIRS, put_ledger};
use crate::stream::{self, put_stream};

impl Runner<'_> {
    /// Lets messages be exchanged and stores what became of them.
    pub(super) fn exchange(
        &mut self,
        beds: &mut [Bed<'_>],
        exchange: &Exchange,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.exchange(exchange) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_exchange(&mut sample.metrics, &seen, &exchange.echo);
                sample.marks = exchange::marks(&seen.echoed);
                sample.load = json(exchange);
                sample.counters = serde_json::json!({ "server": json(&seen.served) });
                // What was measured until then is kept, and speaks for nothing.
                if let Some(reason) = seen.echoed.ended {
                    sample.outcome = failed(reason);
                }
                let latency = Some(&seen.echoed.rtt).filter(|rtt| !rtt.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency)
            }
        }
    }

    /// Lets clients ask a server and stores what became of what they asked.
    pub(super) fn apply(
        &mut self,
        beds: &mut [Bed<'_>],
        application: &Application,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.apply(application) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_application(&mut sample.metrics, &seen);
                sample.marks = application::marks(&seen);
                sample.load = json(application);
                sample.counters = application::counters(&seen);
                // What was measured until then is kept, and speaks for nothing.
                if let Some(reason) = seen.requested.ended {
                    sample.outcome = failed(reason);
                }
                let latency = Some(&seen.requested.latency).filter(|seen| !seen.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency)
            }
        }
    }

    /// Lets one host send to the other and stores what arrived.
    pub(super) fn stream(
        &mut self,
        beds: &mut [Bed<'_>],
        streaming: &Streaming,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.stream(streaming) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_stream(&mut sample.metrics, &seen, &streaming.stream);
                sample.marks = stream::marks(&seen);
                sample.load = json(streaming);
                sample.counters = json(&seen);
                // What was measured until then is kept, and speaks for nothing.
                if let Some(reason) = stream::ended(&seen) {
                    sample.outcome = failed(reason);
                }
                self.keep(place.device, sample, None)
            }
        }
    }

    /// Has the stamps of an exchange read and stores what they come to.
    pub(super) fn ledger(
        &mut self,
        beds: &mut [Bed<'_>],
        exchange: &Exchange,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.ledger(exchange, PAIRS) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_ledger(&mut sample.metrics, &seen);
                sample.load = json(exchange);
                sample.counters = serde_json::json!({
                    "terms": json(&seen.terms),
                    "pairs": json(&seen.pairs),
                    "stamps": seen.stamps,
                    "in_payload": seen.in_payload,
                    "by_sockets": seen.by_sockets,
                });
                let latency = Some(&seen.with).filter(|rtt| !rtt.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency)
            }
        }
    }
}
