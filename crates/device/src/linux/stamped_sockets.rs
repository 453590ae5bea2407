//! Ledgers by the stamps of sockets (`SO_TIMESTAMPING`): where no program may be put into the
//! kernel, and beside those of programs to check them.

use std::collections::HashMap;

use niclab_load::Latency;
use niclab_load::echo::{Passages, realtime_ahead_ns};
use niclab_packet::echo::{Stamp, StampPoint};
use niclab_probe::ledger::KINDS;

use super::hosts::{Hosts, broken};
use super::stamped::{Slices, in_payload, whole};
use crate::face::{DeviceError, Exchange, Ledgered};

/// Stamps of a message that nobody takes without a ledger: the kernel's and the server's.
const STAMPS: u32 = 6;

/// A clock that was set by more than this while messages were stamped has spoilt their stamps,
/// nanoseconds. Two readings of it differ by less.
const CLOCK_MOVED_NS: i64 = 10_000;

/// `true` where sockets can stamp the messages of an exchange.
pub(super) fn can_stamp(exchange: &Exchange) -> bool {
    in_payload(&exchange.echo) && exchange.echo.batch == 1 && !exchange.deep
}

impl Hosts {
    /// Makes so many pairs of slices of an exchange, one with stamps of the sockets and one without
    /// stamps; `why` not by probes.
    pub(super) fn ledger_by_sockets(
        &self,
        exchange: &Exchange,
        pairs: u32,
        run: &mut u32,
        why: &str,
    ) -> Result<Ledgered, DeviceError> {
        if !can_stamp(exchange) {
            let capability = "stamps of sockets but of messages of 128 to 1452 B over UDP, one a \
                              batch, outside the stack";
            return Err(DeviceError::lacks(capability));
        }
        let slices = Slices::make(pairs, |is_on, slices| {
            *run = run.wrapping_add(1);
            self.slice_by_sockets(exchange, is_on, *run, slices)
        })?;
        let ledgered = slices.with_terms(&KINDS, STAMPS)?;
        Ok(Ledgered { in_payload: true, by_sockets: Some(why.to_owned()), ..ledgered })
    }

    /// One slice, with a server of its own: whose socket is stamped stays so.
    fn slice_by_sockets(
        &self,
        exchange: &Exchange,
        is_on: bool,
        run: u32,
        slices: &mut Slices,
    ) -> Result<Latency, DeviceError> {
        let ahead_ns = realtime_ahead_ns();
        let mut server = self.server(exchange)?;
        if is_on {
            server = server.stamped_by_socket().map_err(broken)?;
        }
        let mut passages = Passages::new();
        passages.by_socket = true;
        let echoed = self.beside(&server, exchange, || {
            let kept = is_on.then_some(&mut passages);
            self.client(exchange, server.address(), run, kept)
        })?;
        let moved_ns = (realtime_ahead_ns() - ahead_ns).abs();
        if moved_ns > CLOCK_MOVED_NS {
            let reason = format!(
                "it was set by {:.3} ms while messages were stamped: run the ledger again, or stop \
                 what sets it",
                moved_ns as f64 / 1e6
            );
            return Err(DeviceError::Broken { device: "the machine's clock".into(), reason });
        }
        let log = server.take_log().into_iter().filter(|logged| logged.run == run);
        let left: HashMap<u32, Stamp> =
            log.filter_map(|logged| Some((logged.number, logged.egress?))).collect();
        for (number, mut passage) in passages.kept {
            if let Some(egress) = left.get(&number) {
                passage.put(StampPoint::ServerEgress, *egress);
            }
            slices.passages.push(passage);
        }
        whole(echoed)
    }
}

#[cfg(test)]
#[path = "stamped_sockets_tests.rs"]
mod tests;
