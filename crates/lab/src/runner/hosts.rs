//! Trials between two hosts: messages and their ledger, applications, bulk data.

use niclab_device::{Application, Exchange, Streaming, Testbed};
use niclab_result::ResultError;

use super::ask::ended;
use super::record::json;
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
        let ask = |bed: &mut dyn Testbed| bed.exchange(exchange);
        self.ask(beds, place, exchange, ask, |sample, seen| {
            put_exchange(&mut sample.metrics, &seen, &exchange.echo);
            sample.marks = exchange::marks(&seen.echoed);
            sample.counters = serde_json::json!({ "server": json(&seen.served) });
            sample.outcome = ended(exchange::ended(&seen.echoed));
            Some(seen.echoed.rtt)
        })
    }

    /// Lets clients ask a server and stores what became of what they asked.
    pub(super) fn apply(
        &mut self,
        beds: &mut [Bed<'_>],
        application: &Application,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let ask = |bed: &mut dyn Testbed| bed.apply(application);
        self.ask(beds, place, application, ask, |sample, seen| {
            put_application(&mut sample.metrics, &seen);
            sample.marks = application::marks(&seen);
            sample.counters = application::counters(&seen);
            sample.outcome = ended(seen.requested.ended);
            Some(seen.requested.latency)
        })
    }

    /// Lets one host send to the other and stores what arrived.
    pub(super) fn stream(
        &mut self,
        beds: &mut [Bed<'_>],
        streaming: &Streaming,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let ask = |bed: &mut dyn Testbed| bed.stream(streaming);
        self.ask(beds, place, streaming, ask, |sample, seen| {
            put_stream(&mut sample.metrics, &seen, &streaming.stream);
            sample.marks = stream::marks(&seen);
            sample.counters = json(&seen);
            sample.outcome = ended(stream::ended(&seen));
            None
        })
    }

    /// Has the stamps of an exchange read and stores what they come to.
    pub(super) fn ledger(
        &mut self,
        beds: &mut [Bed<'_>],
        exchange: &Exchange,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let ask = |bed: &mut dyn Testbed| bed.ledger(exchange, PAIRS);
        self.ask(beds, place, exchange, ask, |sample, seen| {
            put_ledger(&mut sample.metrics, &seen);
            sample.counters = serde_json::json!({
                "terms": json(&seen.terms),
                "pairs": json(&seen.pairs),
                "stamps": seen.stamps,
                "in_payload": seen.in_payload,
                "by_sockets": seen.by_sockets,
            });
            Some(seen.with)
        })
    }
}
