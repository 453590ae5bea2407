//! The trials of `stream`: bulk data sent and received.

use niclab_device::stream::{
    BATCH_MAX, CONNECTIONS_MAX, DATAGRAM_MAX, DATAGRAM_MIN, Stream, Transport, WRITE_MAX,
};
use niclab_device::{Streaming, Task};
use niclab_result::{Coordinate, Point};

use super::metrics::STREAM;
use super::spec::StreamSweep;
use crate::axes::{at_axes, name_of, numbers, refused, words};
use crate::hosts::{HOSTS, TRANSPORTS, product};
use crate::run::Resolver;
use crate::spec::SpecError;
use crate::values::Values;

/// Stands for as much as goes among rates.
pub(crate) const FULL: &str = "full";

/// Most cores on each side.
const CORES_MAX: u32 = 64;

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
        for sweep in sweeps {
            for asked in streams(sweep, self.grid.duration_ms, self.grid.warmup_ms)? {
                self.task(STREAM, point(&asked), Task::Stream(asked));
            }
        }
        Ok(())
    }
}
