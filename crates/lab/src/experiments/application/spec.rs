//! The axes of the experiments on applications.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{closed, here, ipv4, no, one, word, zero};
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of what clients ask of a server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationSweep {
    /// `memcached-tcp`, `memcached-udp`, `redis`, `http`.
    pub protocol: Values,
    /// `ipv4`, `ipv6`.
    #[serde(default = "ipv4")]
    pub family: Values,
    /// The host of the clients: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// What is asked for over HTTP.
    #[serde(default = "root")]
    pub path: Values,
    /// Percent of the requests that are gets.
    #[serde(default = "zero")]
    pub gets: Values,
    /// Bytes of a value, or `etc`.
    pub size: Values,
    /// How many keys there are.
    #[serde(default = "keys_default")]
    pub keys: Values,
    /// Requests a second whatever comes back, or `closed`.
    #[serde(default = "closed")]
    pub rate: Values,
    /// Connections, or so many for each core of the server: `100/core`.
    #[serde(default = "one")]
    pub connections: Values,
    /// Requests that wait on each connection.
    #[serde(default = "one")]
    pub depth: Values,
    /// Cores of the server, or `to-all`.
    #[serde(default = "one")]
    pub cores: Values,
    /// Whether there is a breakdown of the requests, too: `no` or `yes`.
    #[serde(default = "no")]
    pub stamps: Values,
}

axes!(
    ApplicationSweep: protocol, family, client, path, gets, size,
    keys, rate, connections, depth, cores, stamps
);

fn root() -> Values {
    word("/")
}

fn keys_default() -> Values {
    Values(vec![niclab_result::Coordinate::Number(10_000.0)])
}

/// Axes of `application`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("protocol", "memcached-tcp, memcached-udp, redis or http"),
    ("family", "ipv4 or ipv6"),
    ("client", "the host of the clients: here or there"),
    ("path", "requested path over http: /"),
    ("gets", "percent of the requests that are gets; the others are sets"),
    ("size", "bytes of a value, or etc: lengths and order of keys as measured at Facebook"),
    ("keys", "number of keys"),
    ("rate", "requests a second (open loop), or closed: the next one after an answer"),
    ("connections", "1 to 10000, or a number for each core of the server: 100/core"),
    ("depth", "requests that wait on each connection"),
    ("cores", "cores of the server; to-all: 1, 2, 4 and so on, up to all"),
    ("stamps", "latency breakdown of requests as well, over TCP: no, yes"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// What to ask of which servers.
        application: ApplicationSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.application.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_applications(&self.application)
    }
}
