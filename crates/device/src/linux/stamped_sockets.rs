//! Breakdowns by the stamps of sockets (`SO_TIMESTAMPING`): where no program may be put into the
//! kernel, and beside those of programs to check them.

use std::collections::HashMap;

use niclab_load::Latency;
use niclab_load::echo::{MessageStamps, realtime_ahead_ns};
use niclab_packet::echo::{Stamp, StampPoint};
use niclab_probe::breakdown::KINDS;

use super::hosts::{Hosts, broken};
use super::stamped::{Slices, in_payload, whole};
use crate::face::{BreakdownObservation, DeviceError, RoundTrips};

/// Stamps of a message that nobody takes without a breakdown: the kernel's and the server's.
const STAMPS: u32 = 6;

/// A clock that was set by more than this while messages were stamped has spoilt their stamps,
/// nanoseconds. Two readings of it differ by less.
const CLOCK_MOVED_NS: i64 = 10_000;

/// `true` where sockets can stamp the messages of these round trips.
pub(super) fn can_stamp(trips: &RoundTrips) -> bool {
    in_payload(&trips.echo) && trips.echo.batch == 1 && !trips.deep
}

impl Hosts {
    /// Makes so many pairs of slices of round trips, one with stamps of the sockets and one without
    /// stamps; `why` not by probes.
    pub(super) fn breakdown_by_sockets(
        &self,
        trips: &RoundTrips,
        pairs: u32,
        run: &mut u32,
        why: &str,
    ) -> Result<BreakdownObservation, DeviceError> {
        if !can_stamp(trips) {
            let capability = "stamps of sockets but of messages of 128 to 1452 B over UDP, one a \
                              batch, outside the stack";
            return Err(DeviceError::lacks(capability));
        }
        let slices = Slices::make(pairs, |is_on, slices| {
            *run = run.wrapping_add(1);
            self.slice_by_sockets(trips, is_on, *run, slices)
        })?;
        let seen = slices.with_terms(&KINDS, STAMPS)?;
        Ok(BreakdownObservation { in_payload: true, by_sockets: Some(why.to_owned()), ..seen })
    }

    /// One slice, with a server of its own: whose socket is stamped stays so.
    fn slice_by_sockets(
        &self,
        trips: &RoundTrips,
        is_on: bool,
        run: u32,
        slices: &mut Slices,
    ) -> Result<Latency, DeviceError> {
        let ahead_ns = realtime_ahead_ns();
        let mut server = self.server(trips)?;
        if is_on {
            server = server.stamped_by_socket().map_err(broken)?;
        }
        let mut passages = MessageStamps::new();
        passages.by_socket = true;
        let echoed = self.beside(&server, trips, || {
            let kept = is_on.then_some(&mut passages);
            self.client(trips, server.address(), run, kept)
        })?;
        let moved_ns = (realtime_ahead_ns() - ahead_ns).abs();
        if moved_ns > CLOCK_MOVED_NS {
            let reason = format!(
                "it was set by {:.3} ms while messages were stamped: run the breakdown again, or \
                 stop what sets it",
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
