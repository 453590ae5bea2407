//! Where tuples come from: UDP, lines of JSON, or a generator.
//!
//! [`Demultiplexer`] gives each tuple to its worker's inbox; all inputs use it. [`Reception`] is
//! the receiving side of a network.

mod demultiplexer;
mod generator;
mod json;
mod local;
mod reception;
mod status;
mod udp;

pub use demultiplexer::Demultiplexer;
pub use generator::{GENERATED_STREAMS, Generator, GeneratorError, GeneratorSpec};
pub use json::{JsonError, JsonTuples, LINE_LEN_MAX};
pub use local::{LocalCounters, LocalInput};
pub use reception::Reception;
pub use status::{InputSnapshot, InputStatus, PolledClock};
pub use udp::{UdpInput, UdpOptions};

/// A tuple of a source whose tuples neither get lost nor come twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTuple {
    /// Its stream.
    pub stream: u16,
    /// Its key.
    pub key: u64,
    /// Event time, nanoseconds, at most [`TIME_NS_MAX`](crate::tuple::TIME_NS_MAX).
    pub time_ns: u64,
}
