//! Exchanges with stamps: slices of a trial with probes in the kernel and slices without them, in
//! turn, so that the price of the probes is known beside what they tell.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use niclab_load::Latency;
use niclab_load::echo::{self, Echo, Logged, Passages, Serve, Server, Transport};
use niclab_packet::echo::{Passage, Place, is_stamped};
use niclab_probe::ledger::{Ledger, of_kernel};
use niclab_probe::parts::Parts;
use niclab_probe::{Deep, Direction, Flow, Inner, MessageId, ProbeError, Stamps, sequence_behind};

use super::hosts::{End, Hosts, Wire, broken, real_time};
use super::link;
use crate::cores::Pinned;
use crate::face::{DeviceError, Exchange, Ledgered, PartsShown, TermShown};

/// Longest UDP message that goes in one frame: the MTU less the headers of IPv6 and UDP.
const WHOLE_MAX: u16 = super::hosts::MTU as u16 - 40 - 8;

/// Stamps of a message that nobody takes without a ledger: the kernel's and the server's. The
/// client reads the clock in any case.
const STAMPS_ADDED: u32 = 6;

/// And those inside the stacks, both ways.
const STAMPS_DEEP: u32 = 14;

/// The probes at both hosts' interfaces.
struct Probes {
    client: Stamps,
    server: Stamps,
    deep: Option<Deep>,
}

impl Probes {
    fn attach(client: &End, server: &End, port: u16, is_deep: bool) -> Result<Probes, DeviceError> {
        let at = |end: &End| {
            let attached = end.netns.within(|| -> Result<Stamps, ProbeError> {
                let found = link::look(end.name).ok().flatten();
                Stamps::attach(found.map_or(0, |link| link.index), port)
            });
            attached.map_err(|e| super::refused("the probes' namespace", &e))?.map_err(refused)
        };
        let deep = is_deep.then(|| Deep::attach(port)).transpose().map_err(refused)?;
        Ok(Probes { client: at(client)?, server: at(server)?, deep })
    }

    /// Adds the stamps of the kernel that do not travel with the message.
    fn complete(
        &self,
        of: &Asked<'_>,
        number: u32,
        passage: &mut Passage,
    ) -> Result<(), ProbeError> {
        for place in of_kernel() {
            if passage.at(place).is_some() {
                continue;
            }
            let probes = match place {
                Place::ClientEgress | Place::ClientIngress => &self.client,
                _ => &self.server,
            };
            let found = match of.echo.transport {
                Transport::Udp => probes.message(MessageId { run: of.run, number }, place)?,
                Transport::Tcp => self.segment(probes, of, number, place)?,
            };
            if let Some(stamp) = found {
                passage.put(place, stamp);
            }
        }
        Ok(())
    }

    /// The stamp of the segment that ends with a message: the run's first message begins its
    /// stream, and all are of one length.
    fn segment(
        &self,
        probes: &Stamps,
        of: &Asked<'_>,
        number: u32,
        place: Place,
    ) -> Result<Option<niclab_packet::echo::Stamp>, ProbeError> {
        let Some(source) = of.client else { return Ok(None) };
        let request = Flow { source, target: of.server };
        let (flow, direction) = match place {
            Place::ClientEgress => (request, Direction::Egress),
            Place::ServerIngress => (request, Direction::Ingress),
            Place::ServerEgress => (request.turned(), Direction::Egress),
            _ => (request.turned(), Direction::Ingress),
        };
        let Some(beginning) = probes.beginning(flow)? else { return Ok(None) };
        let end = (u64::from(number) + 1) * u64::from(of.echo.size);
        probes.segment(flow, direction, sequence_behind(beginning, end))
    }
}

/// One slice: which messages, between whom.
struct Asked<'a> {
    echo: &'a Echo,
    run: u32,
    client: Option<SocketAddr>,
    server: SocketAddr,
}

/// What is said of probes that cannot be had.
fn refused(error: ProbeError) -> DeviceError {
    match error {
        ProbeError::NotAllowed { .. }
        | ProbeError::NoBpf
        | ProbeError::NoTcx
        | ProbeError::NoClsact
        | ProbeError::NoTracepoint { .. } => {
            DeviceError::NotSupported { capability: format!("stamps: {error}") }
        }
        _ => DeviceError::Broken { device: "the probes".into(), reason: error.to_string() },
    }
}

/// What slices have shown so far.
#[derive(Default)]
struct Slices {
    with: Latency,
    without: Latency,
    /// Medians of neighbours, with probes and without, nanoseconds.
    pairs: Vec<[u64; 2]>,
    passages: Vec<Passage>,
    /// Of the same messages, where the stacks were stamped.
    inner: Vec<Inner>,
}

impl Hosts {
    /// Makes so many pairs of slices of an exchange, one with probes and one without, in changing
    /// order; each as long as the exchange says.
    pub fn ledger(
        &self,
        exchange: &Exchange,
        pairs: u32,
        run: &mut u32,
    ) -> Result<Ledgered, DeviceError> {
        let (_, server) = self.ends(exchange);
        let echo = &exchange.echo;
        echo.check().map_err(broken)?;
        if exchange.deep && echo.transport == Transport::Tcp {
            let capability = "stamps inside the stack over TCP (a stream has no numbers)".into();
            return Err(DeviceError::NotSupported { capability });
        }
        let serve = Serve {
            transport: Some(echo.transport),
            receive: echo.receive,
            batch: echo.batch,
            size_max: echo.size,
        };
        let address = SocketAddr::new(server.address(Wire::of(exchange)?), 0);
        let bound = server.netns.within(|| Server::bind(address, serve));
        let bound = bound.map_err(|e| super::refused("a server's socket", &e))?.map_err(broken)?;
        let address = bound.address();
        let stop = AtomicBool::new(false);
        let mut slices = Slices::default();
        let made = thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let _pinned = Pinned::to(server.core);
                let _real_time = real_time(exchange.fifo)?;
                bound.run(&stop).map_err(broken)
            });
            let made = (0..pairs).try_for_each(|pair| {
                let mut medians = [0; 2];
                // Which is first changes, so that what drifts is no price.
                for is_on in [pair % 2 == 0, pair % 2 != 0] {
                    *run = run.wrapping_add(1);
                    let median = self.slice(exchange, (&bound, address), is_on, *run, &mut slices);
                    medians[usize::from(!is_on)] = median?;
                }
                slices.pairs.push(medians);
                Ok(())
            });
            stop.store(true, Ordering::Relaxed);
            let panicked = |_| DeviceError::Broken {
                device: "the echo server".into(),
                reason: "its thread panicked".into(),
            };
            let served = serving.join().map_err(panicked)?;
            made.and(served)
        });
        made?;
        shown(exchange, slices)
    }

    /// One slice; the median of its round trips, nanoseconds.
    fn slice(
        &self,
        exchange: &Exchange,
        (bound, address): (&Server, SocketAddr),
        is_on: bool,
        run: u32,
        slices: &mut Slices,
    ) -> Result<u64, DeviceError> {
        let (client, server) = self.ends(exchange);
        let attach = || Probes::attach(client, server, address.port(), exchange.deep);
        let probes = is_on.then(attach).transpose()?;
        bound.stamp(is_on);
        let mut passages = Passages::new();
        let never = AtomicBool::new(false);
        let ran = client.netns.within(|| {
            let _pinned = Pinned::to(client.core);
            let _real_time = real_time(exchange.fifo)?;
            let kept = is_on.then_some(&mut passages);
            echo::run(&exchange.echo, address, run, &never, kept).map_err(broken)
        });
        let echoed = ran.map_err(|e| super::refused("the client's namespace", &e))??;
        if let Some(reason) = echoed.ended {
            return Err(DeviceError::Broken { device: "echo".into(), reason });
        }
        let median_ns = echoed.rtt.0.value_at_quantile(0.5);
        let Some(probes) = probes else {
            slices.without.0 += &echoed.rtt.0;
            return Ok(median_ns);
        };
        slices.with.0 += &echoed.rtt.0;
        let log = bound.take_log().into_iter().filter(|logged| logged.run == run);
        let log: HashMap<u32, Logged> = log.map(|logged| (logged.number, logged)).collect();
        let of = Asked { echo: &exchange.echo, run, client: passages.client, server: address };
        for (number, passage) in &mut passages.kept {
            if let Some(logged) = log.get(number) {
                passage.put(Place::ServerReceive, logged.received);
                passage.put(Place::ServerSend, logged.sent);
            }
            probes.complete(&of, *number, passage).map_err(refused)?;
            if let Some(deep) = &probes.deep {
                let found = deep.message(MessageId { run, number: *number }).map_err(refused)?;
                slices.inner.push(found.unwrap_or_default());
            }
        }
        slices.passages.extend(passages.kept.iter().map(|(_, passage)| *passage));
        Ok(median_ns)
    }
}

/// What the slices come to.
fn shown(exchange: &Exchange, slices: Slices) -> Result<Ledgered, DeviceError> {
    let echo = &exchange.echo;
    let ledger = Ledger::of(&slices.passages).ok_or_else(|| DeviceError::Broken {
        device: "the probes".into(),
        reason: format!("none of {} messages has all its stamps", slices.passages.len()),
    })?;
    let is_in_payload =
        echo.transport == Transport::Udp && is_stamped(echo.size.into()) && echo.size <= WHOLE_MAX;
    let term = |term: &niclab_probe::ledger::Term| TermShown {
        name: term.kind.name().to_owned(),
        mean_ns: term.mean_ns,
        median_ns: term.median_ns,
        tail_ns: term.tail_ns,
        core: term.core.map(|(core, _)| core),
        core_share: term.core.map_or(0.0, |(_, share)| share),
    };
    Ok(Ledgered {
        messages: ledger.messages as u64,
        incomplete: ledger.incomplete as u64,
        rtt_ns: ledger.rtt_ns,
        residue_ratio: ledger.residue_ratio(),
        terms: ledger.terms.iter().map(term).collect(),
        parts: exchange.deep.then(|| parts(&slices)).transpose()?,
        with: slices.with,
        without: slices.without,
        pairs: slices.pairs,
        stamps: STAMPS_ADDED + if exchange.deep { STAMPS_DEEP } else { 0 },
        in_payload: is_in_payload,
    })
}

/// What they come to inside the stacks.
fn parts(slices: &Slices) -> Result<PartsShown, DeviceError> {
    let messages = slices.passages.iter().zip(&slices.inner);
    let parts = Parts::of(messages).ok_or_else(|| DeviceError::Broken {
        device: "the probes inside the stack".into(),
        reason: format!("none of {} messages has all its stamps", slices.inner.len()),
    })?;
    let part = |part: &niclab_probe::parts::Part| TermShown {
        name: format!("{}_{}", if part.is_reply { "reply" } else { "request" }, part.name),
        mean_ns: part.mean_ns,
        median_ns: part.median_ns,
        tail_ns: part.tail_ns,
        ..TermShown::default()
    };
    Ok(PartsShown {
        messages: parts.messages as u64,
        incomplete: parts.incomplete as u64,
        parts: parts.parts.iter().map(part).collect(),
        residue_ratio: parts.residue_ratio(),
    })
}
