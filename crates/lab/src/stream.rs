//! The experiment on bulk data: where it measures, and what arrives of what is sent.

use niclab_device::stream::{
    BATCH_MAX, CONNECTIONS_MAX, DATAGRAM_MAX, DATAGRAM_MIN, Stream, Transport, WRITE_MAX,
};
use niclab_device::{CoreUse, Streamed, Streaming};
use niclab_result::{Coordinate, Mark, Point};

use crate::axes::{at_axes, name_of, numbers, refused, words};
use crate::exchange::{HOSTS, TRANSPORTS, product};
use crate::measure::{Metrics, put, put_ratio};
use crate::occupancy::Place;
use crate::run::{PlannedRate, Resolver, Task, Trial, index_of};
use crate::spec::{Hits, SpecError, StreamSweep, TrialKind};
use crate::values::Values;

/// Stands for as much as goes among rates.
pub(crate) const FULL: &str = "full";

/// Most cores on each side.
const CORES_MAX: u32 = 64;

/// Share of the datagrams due that a sender may leave unsent before a trial is marked.
const UNSENT_MAX: f64 = 0.005;

/// Payload that arrived, bits a second.
pub(crate) const CARRIED: &str = "carried_bits_per_s";
/// Time of both sides' cores for what arrived.
pub(crate) const CPU: &str = "cpu_ns_per_gigabit";
/// Share of the time in which the sender's cores worked.
pub(crate) const SENDER_BUSY: &str = "sender_busy_ratio";
/// The same of the receiver's.
pub(crate) const RECEIVER_BUSY: &str = "receiver_busy_ratio";

/// Share of a side's cores that programs of others had, the greater of both.
pub(crate) const OTHERS: &str = "others_ratio";

/// All streams of a sweep, the product of its axes. A stream over TCP has neither batches nor a
/// rate: of those axes it has the first value alone. Connections that are fewer than the cores
/// they would be spread over are left out.
pub fn streams(
    sweep: &StreamSweep,
    duration_ms: u64,
    warmup_ms: u64,
) -> Result<Vec<Streaming>, SpecError> {
    let batches = numbers("batch", &sweep.batch, 1, BATCH_MAX.into())?;
    let connections = numbers("connections", &sweep.connections, 1, CONNECTIONS_MAX.into())?;
    let cores = numbers("cores", &sweep.cores, 1, CORES_MAX)?;
    let rates = rates(&sweep.rate)?;
    let hosts = words("client", &sweep.client, &HOSTS)?;
    let mut all: Vec<Streaming> = Vec::new();
    for transport in words("transport", &sweep.transport, &TRANSPORTS)? {
        let sizes = sizes(transport, &sweep.size)?;
        let (batches, rates) = match transport {
            Transport::Udp => (&batches[..], &rates[..]),
            Transport::Tcp => (&[1][..], &[None][..]),
        };
        for (&client, &per_s) in product(&hosts, rates) {
            for (&threads, &count) in product(&cores, &connections).filter(|(a, b)| a <= b) {
                all.extend(product(&sizes, batches).map(|(&size, &batch)| {
                    let stream = Stream {
                        transport,
                        size,
                        batch: batch as u16,
                        connections: count as u16,
                        threads: threads as u16,
                        per_s,
                        duration_ns: duration_ms * 1_000_000,
                        warmup_ns: warmup_ms * 1_000_000,
                    };
                    Streaming { client, stream }
                }));
            }
        }
    }
    if all.is_empty() {
        let value = Coordinate::Word(sweep.cores.to_string());
        return Err(refused("cores", &value, "use at most as many as connections".to_owned()));
    }
    Ok(all)
}

fn sizes(transport: Transport, values: &Values) -> Result<Vec<u32>, SpecError> {
    match transport {
        Transport::Udp => numbers("size", values, DATAGRAM_MIN, DATAGRAM_MAX),
        Transport::Tcp => numbers("size", values, 1, WRITE_MAX),
    }
}

fn rates(values: &Values) -> Result<Vec<Option<f64>>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == FULL => Ok(None),
        Coordinate::Number(per_s) if (1.0..=1e9).contains(per_s) => Ok(Some(*per_s)),
        _ => Err(refused("rate", value, "use 1 to 1000M datagrams a second, or full".to_owned())),
    };
    values.0.iter().map(one).collect()
}

/// Where a stream stands.
fn point(streaming: &Streaming) -> Point {
    let word = |word: &str| Coordinate::Word(word.to_owned());
    let number = |number: u32| Coordinate::Number(number.into());
    let stream = &streaming.stream;
    at_axes([
        ("transport", word(name_of(&TRANSPORTS, stream.transport))),
        ("client", word(name_of(&HOSTS, streaming.client))),
        ("rate", stream.per_s.map_or(word(FULL), Coordinate::Number)),
        ("size", number(stream.size)),
        ("batch", number(stream.batch.into())),
        ("connections", number(stream.connections.into())),
        ("cores", number(stream.threads.into())),
    ])
}

impl Resolver<'_> {
    /// A trial for each stream. They have no set-up but that nothing is set up.
    pub fn add_streams(&mut self, sweeps: &[StreamSweep]) -> Result<(), SpecError> {
        let (groups, rules, match_percent, hits, flows) = (0, 0, 0, Hits::Flows, 1);
        let nothing = Place { groups, rules, match_percent, hits, flows }.setup(self.seed, 64);
        let setup = index_of(&mut self.run.setups, nothing);
        for sweep in sweeps {
            for asked in streams(sweep, self.grid.duration_ms, self.grid.warmup_ms)? {
                let point = point(&asked);
                let stream = index_of(&mut self.run.streams, asked);
                let (kind, rate) = (TrialKind::Stream, PlannedRate::Saturate);
                self.trial(Trial { kind, setup, task: Task::Stream { stream }, rate, point });
            }
        }
        Ok(())
    }
}

/// The metrics of a stream.
///
/// | metric | meaning |
/// |---|---|
/// | `carried_bits_per_s` | payload that the receiver got |
/// | `sent_bits_per_s` | payload that the sender's kernel took |
/// | `sent_messages`, `unsent_messages` | writes or datagrams; due by a rate and never left |
/// | `received_messages`, `lost_messages` | datagrams that came, and whose numbers are missing |
/// | `reordered_messages`, `foreign_messages` | as they came |
/// | `loss_ratio` | lost by lost and received, over UDP |
/// | `retransmitted_segments` | sent again by TCP |
/// | `cpu_ns_per_gigabit` | time of both sides' cores, of all work, by what was carried |
/// | `sender_…`, `receiver_cpu_ns_per_gigabit` | of one side's |
/// | `sender_…`, `receiver_busy_ratio` | share of the time in which its cores worked |
/// | `…_user_ratio`, `…_system_ratio`, `…_softirq_ratio` | its parts; interrupts with softirqs |
/// | `…_thread_ratio` | share in which its threads were on a core |
/// | `others_ratio` | time of programs that was not of these threads, of the side that had more |
pub(crate) fn put_stream(metrics: &mut Metrics, seen: &Streamed, stream: &Stream) {
    let (sent, received) = (&seen.sent, &seen.received);
    put(metrics, CARRIED, received.bits_per_s(), "bit/s");
    put(metrics, "sent_bits_per_s", sent.bits_per_s(), "bit/s");
    put(metrics, "sent_messages", sent.messages as f64, "messages");
    if stream.transport == Transport::Udp {
        for (name, count) in [
            ("unsent_messages", sent.unsent),
            ("received_messages", received.messages),
            ("lost_messages", received.lost),
            ("reordered_messages", received.reordered),
            ("foreign_messages", received.foreign),
        ] {
            put(metrics, name, count as f64, "messages");
        }
        put_ratio(metrics, "loss_ratio", received.lost, received.lost + received.messages);
    }
    if let Some(segments) = sent.retransmits {
        put(metrics, "retransmitted_segments", segments as f64, "segments");
    }
    put_use(metrics, seen, stream);
}

/// A part of a core's time.
type Part = fn(&CoreUse) -> u64;

fn put_use(metrics: &mut Metrics, seen: &Streamed, stream: &Stream) {
    let gigabits = seen.received.bytes as f64 * 8e-9;
    let busy = |cores: &[CoreUse]| cores.iter().map(CoreUse::busy_ns).sum::<u64>() as f64;
    let sides = [
        ("sender", &seen.sender_cores, seen.sent.time, seen.sent.duration_ns),
        ("receiver", &seen.receiver_cores, seen.received.time, seen.received.duration_ns),
    ];
    let mut others: f64 = 0.0;
    for (side, cores, time, duration_ns) in sides {
        let had: u64 = cores.iter().map(|core| core.busy_ns() + core.idle_ns).sum();
        let programs: u64 = cores.iter().map(|core| core.user_ns + core.nice_ns).sum();
        if had > 0 {
            others = others.max(programs.saturating_sub(time.user_ns) as f64 / had as f64);
        }
        let parts: [(&str, Part); 4] = [
            ("busy", CoreUse::busy_ns),
            ("user", |core| core.user_ns + core.nice_ns),
            ("system", |core| core.system_ns),
            ("softirq", |core| core.softirq_ns + core.irq_ns),
        ];
        for (part, of) in parts.into_iter().filter(|_| had > 0) {
            let share = cores.iter().map(of).sum::<u64>() as f64 / had as f64;
            put(metrics, &format!("{side}_{part}_ratio"), share, "1");
        }
        let all_ns = duration_ns as f64 * f64::from(stream.threads);
        if all_ns > 0.0 {
            // A thread looks at the clock behind its last call, which may end behind the part.
            let share = (time.total_ns() as f64 / all_ns).min(1.0);
            put(metrics, &format!("{side}_thread_ratio"), share, "1");
        }
        if gigabits > 0.0 {
            put(metrics, &format!("{side}_cpu_ns_per_gigabit"), busy(cores) / gigabits, "ns");
        }
    }
    put(metrics, OTHERS, others, "1");
    if gigabits > 0.0 {
        let both = busy(&seen.sender_cores) + busy(&seen.receiver_cores);
        put(metrics, CPU, both / gigabits, "ns");
    }
}

/// Why a stream ended before its time; the receiver has the last word.
pub(crate) fn ended(seen: &Streamed) -> Option<String> {
    seen.received.ended.clone().or(seen.sent.ended.clone())
}

/// The warnings that belong to a stream.
pub(crate) fn marks(seen: &Streamed) -> Vec<Mark> {
    let due = seen.sent.messages + seen.sent.unsent;
    let is_limited = seen.sent.unsent as f64 > UNSENT_MAX * due as f64;
    if is_limited { vec![Mark::GeneratorLimited] } else { Vec::new() }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
