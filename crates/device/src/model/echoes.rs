//! Round trips of messages over the stacks of a modelled card's two sides.
//!
//! What is published are sums: the software of a client, of a server, and the hardware between, of
//! one message of 1,024 B at a time over UDP. A round trip here is their sum, and what more or
//! fewer bytes take on wires. How it scatters is not published: every message of a task takes
//! the same.

use niclab_load::Latency;
use niclab_load::echo::{Echoed, Pace, Receive, Transport};

use super::card::unknown;
use super::profile::Profile;
use crate::face::{
    BreakdownObservation, BreakdownTerm, DeviceError, Family, Host, PathNode, RoundTrips,
    RoundTripsObservation,
};

/// The section of a profile.
const ECHO: &str = "echo";
/// Length of the published messages, bytes.
const PUBLISHED_BYTES: f64 = 1024.0;
/// Longest message that goes in one frame of 1,500 B.
const SIZE_MAX: u16 = 1472;

/// The parts of a round trip, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    client: f64,
    server: f64,
    hardware: f64,
}

impl Parts {
    fn of(profile: &Profile, trips: &RoundTrips) -> Result<Parts, DeviceError> {
        check(trips)?;
        let number = |key| profile.number(ECHO, key).ok_or_else(|| unknown(ECHO, key));
        let (client, server) = match trips.client {
            Host::Here => ("client_ns", "peer_server_ns"),
            Host::There => ("peer_client_ns", "server_ns"),
        };
        let more = f64::from(trips.echo.size) - PUBLISHED_BYTES;
        let hardware = number("hardware_ns")? + more * number("byte_ps")? / 1e3;
        Ok(Parts { client: number(client)?, server: number(server)?, hardware: hardware.max(0.0) })
    }

    fn scaled(self, scale: f64) -> Parts {
        let Parts { client, server, hardware } = self;
        Parts { client: client * scale, server: server * scale, hardware: hardware * scale }
    }

    fn rtt_ns(self) -> f64 {
        self.client + self.server + self.hardware
    }
}

/// Refuses what nothing is published of.
fn check(trips: &RoundTrips) -> Result<(), DeviceError> {
    let RoundTrips { echo, family, feature, .. } = trips;
    let lacks = [
        (echo.transport != Transport::Udp, "round trips over TCP"),
        (*family != Family::V4, "round trips over IPv6"),
        (!feature.is_none(), "features in the path"),
        (echo.receive != Receive::Blocking, "programs that do not sleep until a message comes"),
        (echo.pace != Pace::Closed, "messages at a rate"),
        (echo.batch != 1, "messages sent together"),
        (echo.size > SIZE_MAX, "messages longer than a frame"),
    ];
    match lacks.iter().find(|(is_asked, _)| *is_asked) {
        Some((_, what)) => Err(DeviceError::lacks(*what)),
        None => echo.check().map_err(|error| DeviceError::BadLoad { reason: error.to_string() }),
    }
}

/// The path between programs on the two sides; empty if the profile has no figures for messages.
pub(super) fn hosts(profile: &Profile) -> Vec<PathNode> {
    let place =
        |role: &str, label: &str| PathNode { role: role.into(), label: label.into(), core: None };
    match profile.number(ECHO, "hardware_ns") {
        None => Vec::new(),
        Some(_) => vec![
            place("client", "program, kernel, modelled"),
            place("device", &format!("{}, modelled", profile.title)),
            place("wire", "hardware and wire"),
            place("server", "program, kernel, modelled"),
        ],
    }
}

/// Messages that take `scale` times what the profile says; how many there are follows from it.
fn echoed(parts: Parts, duration_ns: u64) -> Echoed {
    let rtt_ns = parts.rtt_ns().max(1.0);
    let count = (duration_ns as f64 / rtt_ns).max(1.0) as u64;
    let mut rtt = Latency::new();
    rtt.record_n(rtt_ns.round() as u64, count);
    let (planned, sent, answered) = (count, count, count);
    Echoed { duration_ns, planned, sent, answered, rtt, ..Echoed::default() }
}

/// Round trips.
///
/// # Errors
/// [`DeviceError::NotSupported`] for what nothing is published of; [`DeviceError::BadLoad`].
pub(super) fn round_trips(
    profile: &Profile,
    trips: &RoundTrips,
    scale: f64,
) -> Result<RoundTripsObservation, DeviceError> {
    let parts = Parts::of(profile, trips)?.scaled(scale);
    Ok(RoundTripsObservation { echoed: echoed(parts, trips.echo.duration_ns), served: None })
}

/// Its breakdown: of the terms of each side the sum alone is published. Nobody stamps anything, so
/// that there are no slices to compare.
///
/// # Errors
/// As of [`round_trips`].
pub(super) fn breakdown(
    profile: &Profile,
    trips: &RoundTrips,
    scale: f64,
) -> Result<BreakdownObservation, DeviceError> {
    let parts = Parts::of(profile, trips)?.scaled(scale);
    let observation = echoed(parts, trips.echo.duration_ns);
    let term = |name: &str, ns: f64| BreakdownTerm {
        name: name.to_owned(),
        mean_ns: ns,
        median_ns: ns,
        tail_ns: ns,
        core: None,
        core_share: 0.0,
    };
    Ok(BreakdownObservation {
        messages: observation.answered,
        rtt_ns: parts.rtt_ns(),
        terms: vec![
            term("client_software", parts.client),
            term("server_software", parts.server),
            term("hardware", parts.hardware),
        ],
        with: observation.rtt.clone(),
        without: observation.rtt,
        ..BreakdownObservation::default()
    })
}

#[cfg(test)]
#[path = "echoes_tests.rs"]
mod tests;
