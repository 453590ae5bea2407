//! Names of ports: their kind, and their interface or files.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use niclab_nic::memory::Region;
use niclab_packet::wire::MacAddress;
use niclab_port::error::PortError;
use niclab_port::link::Link;
use niclab_port::pcap::{Files, Speed};
use niclab_port::queue_pair::QueuePair;
use niclab_port::{link, packet, pcap, tap, xdp};

/// A port as it is asked for: `xdp:veth0`, `tap:nic0`, `pcap:in=a.pcap,out=b.pcap`.
#[derive(Clone, Debug, PartialEq)]
pub enum PortName {
    /// AF_XDP, on an interface that is there.
    Xdp(String),
    /// AF_PACKET, on an interface that is there.
    Packet(String),
    /// A TAP interface, which is made where there is none of its name.
    Tap(String),
    /// Packet traces.
    Pcap(Files),
}

/// A name that is no port's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no port: write xdp:INTERFACE, packet:INTERFACE, tap:INTERFACE, or \
     pcap:in=FILE,out=FILE,speed=N (one of the files, at least; N from 0.000001 to 1e9, or max)"
)]
pub struct UnknownPort(String);

impl PortName {
    /// The Ethernet address of its interface, as the kernel has it in this network namespace;
    /// `None` where there is no such interface, or it has none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn mac(&self) -> io::Result<Option<MacAddress>> {
        Ok(self.link()?.and_then(|link| link.mac))
    }

    /// The name of its interface, where that is there in this network namespace and switched off:
    /// no frame comes by it, and none leaves.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn down_interface(&self) -> io::Result<Option<String>> {
        Ok(self.link()?.filter(|link| !link.is_on).map(|link| link.name))
    }

    /// The name of its interface, where that may hand over frames without whole TCP or UDP
    /// checksums and the port cannot tell which these are: a veth pair by AF_XDP, unless its other
    /// end is here and computes them.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn partial_checksum_interface(&self) -> io::Result<Option<String>> {
        let is_xdp = matches!(self, PortName::Xdp(_));
        Ok(self
            .link()?
            .filter(|link| is_xdp && xdp::has_partial_checksums(link))
            .map(|link| link.name))
    }

    /// Its interface, where there is one.
    fn link(&self) -> io::Result<Option<Link>> {
        match self {
            PortName::Xdp(name) | PortName::Packet(name) | PortName::Tap(name) => link::find(name),
            PortName::Pcap(_) => Ok(None),
        }
    }
}

impl FromStr for PortName {
    type Err = UnknownPort;

    fn from_str(text: &str) -> Result<PortName, UnknownPort> {
        let unknown = || UnknownPort(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        if rest.is_empty() {
            return Err(unknown());
        }
        match kind {
            "xdp" => Ok(PortName::Xdp(rest.to_owned())),
            "packet" => Ok(PortName::Packet(rest.to_owned())),
            "tap" => Ok(PortName::Tap(rest.to_owned())),
            "pcap" => files(rest).map(PortName::Pcap).ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }
}

/// How many times as fast as recorded a trace may be played.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e9;

/// `in=FILE,out=FILE,speed=N`, each at most once, and one of the files.
fn files(text: &str) -> Option<Files> {
    let (mut input, mut output, mut speed) = (None, None, None);
    for part in text.split(',') {
        let (key, value) = part.split_once('=').filter(|(_, value)| !value.is_empty())?;
        let was = match key {
            "in" => input.replace(PathBuf::from(value)).is_some(),
            "out" => output.replace(PathBuf::from(value)).is_some(),
            "speed" if value == "max" => speed.replace(Speed::Max).is_some(),
            "speed" => {
                let times = value.parse::<f64>().ok().filter(|times| SPEEDS.contains(times))?;
                speed.replace(Speed::Times(times)).is_some()
            }
            _ => return None,
        };
        if was {
            return None;
        }
    }
    let has_file = input.is_some() || output.is_some();
    has_file.then(|| Files { input, output, speed: speed.unwrap_or(Speed::Times(1.0)) })
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = match self {
            PortName::Xdp(name) => return write!(f, "xdp:{name}"),
            PortName::Packet(name) => return write!(f, "packet:{name}"),
            PortName::Tap(name) => return write!(f, "tap:{name}"),
            PortName::Pcap(files) => files,
        };
        let path = |key: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| format!("{key}={}", path.display()))
        };
        let speed = match files.speed {
            Speed::Times(1.0) => None,
            Speed::Times(times) => Some(format!("speed={times}")),
            Speed::Max => Some("speed=max".to_owned()),
        };
        let parts = [path("in", &files.input), path("out", &files.output), speed];
        write!(f, "pcap:{}", parts.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

/// A source of queue pairs: a [`PortName`], or a source of the caller.
pub trait PortSource: fmt::Display + Send + Sync {
    /// Frames that one of its queue pairs may hold.
    fn queue_pair_frames(&self) -> usize;

    /// Opens the queue pairs in the network namespace of the calling thread, for frames of this
    /// region.
    ///
    /// # Errors
    /// [`PortError`]; nothing stays open.
    fn open(&self, count: u32, region: &Arc<Region>) -> Result<Vec<Box<dyn QueuePair>>, PortError>;

    /// Whether it may be opened again where it has ended: an interface, and no file.
    fn can_reopen(&self) -> bool;

    /// Whether frames only leave by it, so that nobody waits for the end of those that come.
    fn is_output_only(&self) -> bool {
        false
    }
}

impl PortSource for PortName {
    fn queue_pair_frames(&self) -> usize {
        match self {
            PortName::Xdp(_) => xdp::FRAMES,
            PortName::Packet(_) => packet::FRAMES,
            PortName::Tap(_) => tap::FRAMES,
            PortName::Pcap(_) => pcap::FRAMES,
        }
    }

    fn open(&self, count: u32, region: &Arc<Region>) -> Result<Vec<Box<dyn QueuePair>>, PortError> {
        fn boxed(queue_pairs: Vec<impl QueuePair + 'static>) -> Vec<Box<dyn QueuePair>> {
            queue_pairs
                .into_iter()
                .map(|queue_pair| Box::new(queue_pair) as Box<dyn QueuePair>)
                .collect()
        }
        match self {
            PortName::Xdp(name) => xdp::open(name, count, region).map(boxed),
            PortName::Packet(name) => packet::open(name, count, region).map(boxed),
            PortName::Tap(name) => tap::open(name, count, region).map(boxed),
            PortName::Pcap(files) => pcap::open(files, count, region).map(boxed),
        }
    }

    fn can_reopen(&self) -> bool {
        !matches!(self, PortName::Pcap(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed_alike_and_others_refused() {
        for text in [
            "xdp:veth0",
            "packet:eth0",
            "tap:nic0",
            "xdp:a:b",
            "pcap:in=a.pcap",
            "pcap:in=a,out=b,speed=max",
            "pcap:out=b,speed=0.5",
        ] {
            assert_eq!(text.parse::<PortName>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "xdp",
            "xdp:",
            "pcap:a",
            "veth0",
            ":",
            "pcap:speed=1",
            "pcap:in=a,in=b",
            "pcap:in=",
            "pcap:in=a,speed=0",
            "pcap:in=a,speed=1e-300",
            "pcap:in=a,speed=inf",
            "pcap:in=a,speed=fast",
        ] {
            assert!(text.parse::<PortName>().is_err(), "{text}");
        }
    }
}
