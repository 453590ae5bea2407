//! Round trips with stamps: slices of a trial with probes in the kernel and slices without them, in
//! turn, so that the price of the probes is known beside what they tell.

use std::collections::HashMap;
use std::net::SocketAddr;

use niclab_load::Latency;
use niclab_load::echo::{Echo, Echoed, MessageStamps, Server, ServerStamps, Transport};
use niclab_packet::echo::{Passage, StampPoint, is_stamped};
use niclab_probe::breakdown::{Breakdown, KINDS, TermKind, of_kernel};
use niclab_probe::parts::RoundTripParts;
use niclab_probe::{Deep, Direction, Flow, Inner, MessageId, ProbeError, Stamps, sequence_behind};

use super::hosts::{End, Hosts};
use super::link;
use super::stamped_sockets::can_stamp;
use crate::face::{BreakdownObservation, BreakdownParts, BreakdownTerm, DeviceError, RoundTrips};

/// Longest UDP message that goes in one frame: the MTU less the headers of IPv6 and UDP.
const WHOLE_MAX: u16 = super::hosts::MTU as u16 - 40 - 8;

/// Stamps of a message that nobody takes without a breakdown: the kernel's and the server's. The
/// client reads the clock in any case.
const STAMPS_ADDED: u32 = 6;

/// And those inside the stacks, both ways.
const STAMPS_DEEP: u32 = 14;

/// The probes at both hosts' interfaces.
pub(super) struct Probes {
    client: Stamps,
    server: Stamps,
    deep: Option<Deep>,
}

impl Probes {
    pub(super) fn attach(
        client: &End,
        server: &End,
        port: u16,
        is_deep: bool,
    ) -> Result<Probes, DeviceError> {
        let at = |end: &End| {
            let attached = end.netns.within(|| attach(end.name, port));
            attached.map_err(|e| super::refused("the probes' namespace", &e))?
        };
        let deep = is_deep.then(|| Deep::attach(port)).transpose().map_err(refused)?;
        Ok(Probes { client: at(client)?, server: at(server)?, deep })
    }

    /// Adds the stamps of the kernel that do not travel with the message.
    fn complete(
        &self,
        of: &StampedSlice<'_>,
        number: u32,
        passage: &mut Passage,
    ) -> Result<(), ProbeError> {
        if of.echo.transport == Transport::Tcp {
            // The run's first message begins its stream, and all are of one length.
            let end = (u64::from(number) + 1) * u64::from(of.echo.size);
            return self.complete_segments((of.client, of.server), (end, end), passage);
        }
        for place in of_kernel() {
            if passage.at(place).is_none()
                && let Some(stamp) =
                    self.at(place).message(MessageId { run: of.run, number }, place)?
            {
                passage.put(place, stamp);
            }
        }
        Ok(())
    }

    /// Adds the stamps of the segments that end with a request and with its answer: so many bytes
    /// behind the beginnings of their streams.
    pub(super) fn complete_segments(
        &self,
        (client, server): (Option<SocketAddr>, SocketAddr),
        (request_end, answer_end): (u64, u64),
        passage: &mut Passage,
    ) -> Result<(), ProbeError> {
        let Some(source) = client else { return Ok(()) };
        let request = Flow { source, target: server };
        for place in of_kernel() {
            let probes = self.at(place);
            let (flow, direction, end) = match place {
                StampPoint::ClientEgress => (request, Direction::Egress, request_end),
                StampPoint::ServerIngress => (request, Direction::Ingress, request_end),
                StampPoint::ServerEgress => (request.turned(), Direction::Egress, answer_end),
                _ => (request.turned(), Direction::Ingress, answer_end),
            };
            let Some(beginning) = probes.beginning(flow)? else { continue };
            if let Some(stamp) = probes.segment(flow, direction, sequence_behind(beginning, end))? {
                passage.put(place, stamp);
            }
        }
        Ok(())
    }

    /// The probes that stamp at a place.
    fn at(&self, place: StampPoint) -> &Stamps {
        match place {
            StampPoint::ClientEgress | StampPoint::ClientIngress => &self.client,
            _ => &self.server,
        }
    }
}

/// One slice: which messages, between whom.
struct StampedSlice<'a> {
    echo: &'a Echo,
    run: u32,
    client: Option<SocketAddr>,
    server: SocketAddr,
}

/// Converts an error of the probes.
pub(super) fn refused(error: ProbeError) -> DeviceError {
    match error {
        ProbeError::NotAllowed { .. }
        | ProbeError::NoBpf
        | ProbeError::NoTcx
        | ProbeError::NoClsact
        | ProbeError::NoTracepoint { .. } => DeviceError::lacks(format!("stamps: {error}")),
        _ => DeviceError::Broken { device: "the probes".into(), reason: error.to_string() },
    }
}

/// The observations of slices so far.
#[derive(Default)]
pub(crate) struct Slices {
    with: Latency,
    without: Latency,
    /// Medians of neighbours, with probes and without, nanoseconds.
    pairs: Vec<[u64; 2]>,
    pub(crate) passages: Vec<Passage>,
    /// The stamps inside the stacks of the same messages.
    inner: Vec<Inner>,
}

impl Slices {
    /// So many pairs of slices, one with probes and one without, each made by `slice`, which keeps
    /// the passages.
    pub(crate) fn make(
        pairs: u32,
        mut slice: impl FnMut(bool, &mut Slices) -> Result<Latency, DeviceError>,
    ) -> Result<Slices, DeviceError> {
        let mut slices = Slices::default();
        for pair in 0..pairs {
            let mut medians = [None; 2];
            // Which is first changes, so that what drifts is no price.
            for is_on in [pair % 2 == 0, pair % 2 != 0] {
                let rtt = slice(is_on, &mut slices)?;
                medians[usize::from(!is_on)] =
                    (!rtt.0.is_empty()).then(|| rtt.0.value_at_quantile(0.5));
                let all = if is_on { &mut slices.with } else { &mut slices.without };
                all.0 += &rtt.0;
            }
            // A slice in which nothing came back has no median, and its pair no difference.
            if let [Some(with), Some(without)] = medians {
                slices.pairs.push([with, without]);
            }
        }
        Ok(slices)
    }

    /// The breakdown of round trips, where messages get so many stamps with probes alone.
    pub(crate) fn breakdown_of(
        self,
        trips: &RoundTrips,
        stamps: u32,
    ) -> Result<BreakdownObservation, DeviceError> {
        let parts = trips.deep.then(|| parts(&self)).transpose()?;
        let in_payload = in_payload(&trips.echo);
        Ok(BreakdownObservation { parts, in_payload, ..self.with_terms(&KINDS, stamps)? })
    }

    /// The breakdown with these terms, from stamps in tables of the kernel.
    pub(super) fn with_terms(
        self,
        kinds: &[TermKind],
        stamps: u32,
    ) -> Result<BreakdownObservation, DeviceError> {
        let breakdown =
            Breakdown::of(&self.passages, kinds).ok_or_else(|| DeviceError::Broken {
                device: "the probes".into(),
                reason: format!("none of {} messages has all its stamps", self.passages.len()),
            })?;
        let term = |term: &niclab_probe::breakdown::Term| BreakdownTerm {
            name: term.kind.name().to_owned(),
            mean_ns: term.mean_ns,
            median_ns: term.median_ns,
            tail_ns: term.tail_ns,
            core: term.core.map(|(core, _)| core),
            core_share: term.core.map_or(0.0, |(_, share)| share),
        };
        Ok(BreakdownObservation {
            messages: breakdown.messages as u64,
            incomplete: breakdown.incomplete as u64,
            rtt_ns: breakdown.rtt_ns,
            residue_ratio: breakdown.residue_ratio(),
            terms: breakdown.terms.iter().map(term).collect(),
            parts: None,
            with: self.with,
            without: self.without,
            pairs: self.pairs,
            stamps,
            in_payload: false,
            by_sockets: None,
        })
    }
}

/// `true` where the stamps of messages travel in them.
pub(crate) fn in_payload(echo: &Echo) -> bool {
    echo.transport == Transport::Udp && is_stamped(echo.size.into()) && echo.size <= WHOLE_MAX
}

/// Probes at the interface of an address of the calling thread's namespace, which stamp messages to
/// and from its port for as long as they are held.
///
/// # Errors
/// [`DeviceError::NotSupported`]: `stamps`; [`DeviceError::Absent`] where no single interface has
/// the address.
pub fn stamps_at(address: SocketAddr) -> Result<Stamps, DeviceError> {
    let found = super::tune::interface_of(address)?;
    let found = found.ok_or_else(|| DeviceError::Absent {
        what: format!("a single interface with {}, which probes must know", address.ip()),
        remedy: "give the address that messages come to".into(),
    })?;
    attach(&found, address.port())
}

/// Probes at an interface of the calling thread's namespace.
pub(crate) fn attach(interface: &str, port: u16) -> Result<Stamps, DeviceError> {
    let found = link::find(interface).ok().flatten();
    Stamps::attach(found.map_or(0, |link| link.index), port).map_err(refused)
}

impl Hosts {
    /// Makes so many pairs of slices of round trips, one with stamps and one without, in changing
    /// order; each as long as the task says. The stamps are those of probes, or where there are
    /// none, or that is asked for, of the sockets.
    pub fn breakdown(
        &self,
        trips: &RoundTrips,
        pairs: u32,
        run: &mut u32,
    ) -> Result<BreakdownObservation, DeviceError> {
        if trips.sockets {
            return self.breakdown_by_sockets(trips, pairs, run, "they were asked for");
        }
        let made = self.breakdown_by_probes(trips, pairs, run);
        self.or_by_sockets(made, trips, pairs, run)
    }

    /// Falls back to the stamps of sockets if there are no probes.
    pub(super) fn or_by_sockets(
        &self,
        by_probes: Result<BreakdownObservation, DeviceError>,
        trips: &RoundTrips,
        pairs: u32,
        run: &mut u32,
    ) -> Result<BreakdownObservation, DeviceError> {
        match by_probes {
            Err(DeviceError::NotSupported { capability }) if can_stamp(trips) => {
                self.breakdown_by_sockets(trips, pairs, run, &capability)
            }
            made => made,
        }
    }

    /// The same with probes, or not at all.
    fn breakdown_by_probes(
        &self,
        trips: &RoundTrips,
        pairs: u32,
        run: &mut u32,
    ) -> Result<BreakdownObservation, DeviceError> {
        if trips.deep && trips.echo.transport == Transport::Tcp {
            return Err(DeviceError::lacks(
                "stamps inside the stack over TCP (a stream has no numbers)",
            ));
        }
        let server = self.server(trips)?;
        let slices = self.beside(&server, trips, || {
            Slices::make(pairs, |is_on, slices| {
                *run = run.wrapping_add(1);
                self.slice(trips, &server, is_on, *run, slices)
            })
        })?;
        let stamps = STAMPS_ADDED + if trips.deep { STAMPS_DEEP } else { 0 };
        slices.breakdown_of(trips, stamps)
    }

    /// One slice.
    fn slice(
        &self,
        trips: &RoundTrips,
        bound: &Server,
        is_on: bool,
        run: u32,
        slices: &mut Slices,
    ) -> Result<Latency, DeviceError> {
        let (client, server) = self.ends(trips);
        let address = bound.address();
        let attach = || Probes::attach(client, server, address.port(), trips.deep);
        let probes = is_on.then(attach).transpose()?;
        bound.stamp(is_on);
        let mut passages = MessageStamps::new();
        let kept = is_on.then_some(&mut passages);
        let rtt = whole(self.client(trips, address, run, kept)?)?;
        let Some(probes) = probes else {
            return Ok(rtt);
        };
        let log = bound.take_log().into_iter().filter(|logged| logged.run == run);
        let log: HashMap<u32, ServerStamps> = log.map(|logged| (logged.number, logged)).collect();
        let of = StampedSlice { echo: &trips.echo, run, client: passages.client, server: address };
        for (number, passage) in &mut passages.kept {
            if let Some(logged) = log.get(number) {
                passage.put(StampPoint::ServerReceive, logged.received);
                passage.put(StampPoint::ServerSend, logged.sent);
            }
            probes.complete(&of, *number, passage).map_err(refused)?;
            if let Some(deep) = &probes.deep {
                let found = deep.message(MessageId { run, number: *number }).map_err(refused)?;
                slices.inner.push(found.unwrap_or_default());
            }
        }
        slices.passages.extend(passages.kept.iter().map(|(_, passage)| *passage));
        Ok(rtt)
    }
}

/// The round trips of a task that did not end before its time.
pub(crate) fn whole(echoed: Echoed) -> Result<Latency, DeviceError> {
    match echoed.ended {
        Some(reason) => Err(DeviceError::Broken { device: "echo".into(), reason }),
        None => Ok(echoed.rtt),
    }
}

/// The breakdown inside the stacks.
fn parts(slices: &Slices) -> Result<BreakdownParts, DeviceError> {
    let messages = slices.passages.iter().zip(&slices.inner);
    let parts = RoundTripParts::of(messages).ok_or_else(|| DeviceError::Broken {
        device: "the probes inside the stack".into(),
        reason: format!("none of {} messages has all its stamps", slices.inner.len()),
    })?;
    let part = |part: &niclab_probe::parts::DirectionPart| BreakdownTerm {
        name: format!("{}_{}", if part.is_reply { "reply" } else { "request" }, part.name),
        mean_ns: part.mean_ns,
        median_ns: part.median_ns,
        tail_ns: part.tail_ns,
        ..BreakdownTerm::default()
    };
    Ok(BreakdownParts {
        messages: parts.messages as u64,
        incomplete: parts.incomplete as u64,
        parts: parts.parts.iter().map(part).collect(),
        residue_ratio: parts.residue_ratio(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_without_an_answer_has_no_median() {
        let mut slices = 0;
        let made = Slices::make(3, |_, _| {
            slices += 1;
            let mut rtt = Latency::new();
            rtt.record_n(1_000, u64::from(slices != 4));
            Ok(rtt)
        });
        assert_eq!(made.unwrap().pairs, [[1_000, 1_000]; 2]);
    }
}
