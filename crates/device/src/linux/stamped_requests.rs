//! Requests with stamps at both hosts' interfaces: the shares of client, server and wire in a
//! request's time. The server's program takes no stamps of its own.

use std::net::SocketAddr;

use niclab_load::requests::{Protocol, Requests, StreamPosition};
use niclab_packet::echo::{Passage, StampPoint};
use niclab_probe::breakdown::OUTSIDE;

use super::applications::all;
use super::hosts::End;
use super::stamped::{Probes, Slices, refused};
use crate::face::{BreakdownObservation, DeviceError};

/// Pairs of slices, one with probes and one without.
pub const PAIRS: u32 = 3;

/// Longest measured part of a slice, nanoseconds, and the part before it that does not count.
const SLICE_MAX_NS: u64 = 100_000_000;
const WARMUP_NS: u64 = 5_000_000;

/// Slices are so many times shorter than the trial whose requests they make again.
const SHORTER: u64 = 10;

/// Stamps of a request that nobody takes without a breakdown: the kernel's.
const STAMPS: u32 = 4;

/// How long each slice is for requests measured so long, nanoseconds, what does not count included.
pub fn slice_ns(requests: &Requests) -> u64 {
    measured_ns(requests) + WARMUP_NS
}

fn measured_ns(requests: &Requests) -> u64 {
    (requests.duration_ns / SHORTER).clamp(1, SLICE_MAX_NS)
}

/// The breakdown of what clients on these cores of one host ask of a server on the other.
///
/// # Errors
/// [`DeviceError::NotSupported`] where requests have no segments of their own, or probes cannot be
/// had; [`DeviceError::Broken`].
pub(super) fn breakdown(
    (client, server): (&End, &End),
    cores: &[u32],
    asked: &Requests,
    address: SocketAddr,
) -> Result<BreakdownObservation, DeviceError> {
    let lacks = |what: &str| Err(DeviceError::lacks(what));
    if asked.protocol == Protocol::MemcachedUdp {
        return lacks("stamps of memcached over UDP (its datagrams are not told apart)");
    }
    if asked.depth > 1 {
        return lacks("stamps of requests that wait behind others on their connection (depth)");
    }
    let slice = Requests { duration_ns: measured_ns(asked), warmup_ns: WARMUP_NS, ..asked.clone() };
    let slices = Slices::make(PAIRS, |is_on, slices| {
        let attach = || Probes::attach(client, server, address.port(), false);
        let probes = is_on.then(attach).transpose()?;
        let mut passed = Vec::new();
        let kept = is_on.then_some(&mut passed);
        let observed = all(&client.netns, cores, &slice, address, &|| (), kept)?;
        if let Some(reason) = observed.ended {
            return Err(DeviceError::Broken { device: "the client".into(), reason });
        }
        for one in &passed {
            let passage = probes.as_ref().map(|probes| passage(probes, one, address));
            slices.passages.extend(passage.transpose()?);
        }
        // In an open loop what waits for its turn at the client has not left yet.
        Ok(observed.service.unwrap_or(observed.latency))
    })?;
    slices.with_terms(&OUTSIDE, STAMPS)
}

/// All stamps of a request.
fn passage(
    probes: &Probes,
    passed: &StreamPosition,
    server: SocketAddr,
) -> Result<Passage, DeviceError> {
    let mut passage = Passage::default();
    passage.put(StampPoint::ClientSend, passed.sent);
    passage.put(StampPoint::ClientReceive, passed.received);
    let ends = (passed.request_end, passed.answer_end);
    let found = probes.complete_segments((passed.client, server), ends, &mut passage);
    found.map_err(refused)?;
    Ok(passage)
}

#[cfg(test)]
#[path = "stamped_requests_tests.rs"]
mod tests;
