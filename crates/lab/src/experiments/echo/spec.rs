//! The axes of the echo experiments: what can be typed.

use serde::Deserialize;

use super::metrics::ECHO;
use crate::run::Resolver;
use crate::spec::defaults::{closed, here, ipv4, no, none, one, word};
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of messages that go to an echo server and back.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoSweep {
    /// `udp`, `tcp`.
    #[serde(default = "udp")]
    pub transport: Values,
    /// `ipv4`, `ipv6`.
    #[serde(default = "ipv4")]
    pub family: Values,
    /// The host of the client: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// How both wait: `blocking`, `busy-poll`, `epoll`, `io-uring`.
    #[serde(default = "blocking")]
    pub receive: Values,
    /// Messages a second whatever comes back, or `closed`.
    #[serde(default = "closed")]
    pub rate: Values,
    /// Bytes of a message.
    pub size: Values,
    /// Messages sent by one call.
    #[serde(default = "one")]
    pub batch: Values,
    /// What else stands in the path: `none`, `nft-100`, `vxlan`, `fq_codel`.
    #[serde(default = "none")]
    pub feature: Values,
    /// Of a ledger: whether it stamps inside the stacks too, `no` or `yes`.
    #[serde(default = "no")]
    pub deep: Values,
    /// Of a ledger: whose stamps it has, those of `probes` or of `sockets`.
    #[serde(default = "probes")]
    pub stamps: Values,
}

axes!(EchoSweep: transport, family, client, receive, rate, size, batch, feature, deep, stamps);

pub(crate) fn udp() -> Values {
    word("udp")
}

fn blocking() -> Values {
    word("blocking")
}

fn probes() -> Values {
    word("probes")
}

/// Axes of `echo`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("transport", "udp or tcp"),
    ("family", "ipv4 or ipv6"),
    ("client", "the host of the client: here or there"),
    ("receive", "how both wait: blocking, busy-poll, epoll or io-uring"),
    ("rate", "messages a second whatever comes back, or closed: a batch when the last is back"),
    ("size", "bytes of a message, 16 to 65507"),
    ("batch", "messages sent by one call, 1 to 1024"),
    ("deep", "a ledger stamps inside the stacks too, over UDP: no, yes"),
    ("stamps", "whose a ledger has: of probes, or where there are none of sockets; sockets"),
    ("feature", "in the path: none, nft-RULES, vxlan, or a queueing discipline such as fq_codel"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which messages go there and back.
        echo: EchoSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.echo.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_exchanges(&self.echo, ECHO)
    }
}
