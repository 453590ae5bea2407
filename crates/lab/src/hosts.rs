//! Axes of messages between two hosts over the kernel's stack.

use niclab_device::echo::{Pace, Transport};
use niclab_device::{Family, Host};
use niclab_result::Coordinate;

use crate::axes::refused;
use crate::spec::SpecError;
use crate::values::Values;

/// Protocols, by name.
pub(crate) const TRANSPORTS: [(&str, Transport); 2] =
    [("udp", Transport::Udp), ("tcp", Transport::Tcp)];

/// Hosts of the client, by name.
pub(crate) const HOSTS: [(&str, Host); 2] = [("here", Host::Here), ("there", Host::There)];

/// Network protocols, by name.
pub(crate) const FAMILIES: [(&str, Family); 2] = [("ipv4", Family::V4), ("ipv6", Family::V6)];

/// Stands for a closed loop among rates.
pub(crate) const CLOSED: &str = "closed";

/// Greatest rate, messages a second.
const PER_S_MAX: f64 = 1e9;

/// All pairs of two lists, the second going round faster.
pub(crate) fn product<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(|one| b.iter().map(move |other| (one, other)))
}

pub(crate) fn paces(values: &Values) -> Result<Vec<Pace>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == CLOSED => Ok(Pace::Closed),
        Coordinate::Number(per_s) if (1.0..=PER_S_MAX).contains(per_s) => {
            Ok(Pace::Open { per_s: *per_s })
        }
        _ => Err(refused("rate", value, "use 1 to 1000M messages a second, or closed".to_owned())),
    };
    values.0.iter().map(one).collect()
}

/// Median of the round trip.
pub(crate) const RTT: &str = "rtt_ns_p50";

/// Its tail.
pub(crate) const RTT_TAIL: &str = "rtt_ns_p99";
