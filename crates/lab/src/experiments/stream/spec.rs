//! The axes of `stream`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{here, one, word};
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of bulk data from one host to another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSweep {
    /// `udp`, `tcp`.
    pub transport: Values,
    /// The host that sends: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// Bytes given to the kernel at once.
    pub size: Values,
    /// Datagrams sent by one call.
    #[serde(default = "one")]
    pub batch: Values,
    /// Connections, or pairs of sockets.
    #[serde(default = "one")]
    pub connections: Values,
    /// Cores of each side, a thread on each.
    #[serde(default = "one")]
    pub cores: Values,
    /// Datagrams a second, or `full`.
    #[serde(default = "full")]
    pub rate: Values,
}

axes!(StreamSweep: transport, client, size, batch, connections, cores, rate);

fn full() -> Values {
    word("full")
}

/// Axes of `stream`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("transport", "tcp or udp"),
    ("client", "the host that sends: here or there"),
    ("size", "bytes given to the kernel at once: 1 to 1048576 of a write, 16 to 65507 over UDP"),
    ("batch", "datagrams sent by one call, 1 to 1024 (UDP alone)"),
    ("connections", "connections, or pairs of sockets, 1 to 256"),
    ("cores", "cores of each side, a thread on each"),
    ("rate", "datagrams a second (UDP alone), or full: as fast as they go"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which bulk data to send.
        stream: StreamSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.stream.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_streams(&self.stream)
    }
}
