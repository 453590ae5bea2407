//! Names of ports: what kind, and which interface.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use niclab_nic::memory::Region;
use niclab_port::error::PortError;
use niclab_port::lane::Lane;
use niclab_port::{packet, tap, xdp};

/// How frames come in and go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// AF_XDP, on an interface that is there.
    Xdp,
    /// AF_PACKET, on an interface that is there.
    Packet,
    /// A TAP interface, which is made where there is none of its name.
    Tap,
}

/// A port as it is asked for: `xdp:veth0`, `tap:nic0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    /// Its kind.
    pub kind: PortKind,
    /// Its interface.
    pub interface: String,
}

/// A name that is no port's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no port: write xdp:INTERFACE, packet:INTERFACE or tap:INTERFACE")]
pub struct UnknownPort(String);

impl FromStr for PortName {
    type Err = UnknownPort;

    fn from_str(text: &str) -> Result<PortName, UnknownPort> {
        let unknown = || UnknownPort(text.to_owned());
        let (kind, interface) = text.split_once(':').ok_or_else(unknown)?;
        let kind = match kind {
            "xdp" => PortKind::Xdp,
            "packet" => PortKind::Packet,
            "tap" => PortKind::Tap,
            _ => return Err(unknown()),
        };
        match interface.is_empty() {
            true => Err(unknown()),
            false => Ok(PortName { kind, interface: interface.to_owned() }),
        }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PortKind::Xdp => "xdp",
            PortKind::Packet => "packet",
            PortKind::Tap => "tap",
        };
        write!(f, "{kind}:{}", self.interface)
    }
}

impl PortName {
    /// Frames that one of its lanes may hold.
    pub(crate) fn lane_frames(&self) -> usize {
        match self.kind {
            PortKind::Xdp => xdp::FRAMES,
            PortKind::Packet => packet::FRAMES,
            PortKind::Tap => tap::FRAMES,
        }
    }

    /// Opens so many lanes in the calling thread's network namespace.
    pub(crate) fn open(
        &self,
        count: u32,
        region: &Arc<Region>,
    ) -> Result<Vec<Box<dyn Lane>>, PortError> {
        fn boxed(lanes: Vec<impl Lane + 'static>) -> Vec<Box<dyn Lane>> {
            lanes.into_iter().map(|lane| Box::new(lane) as Box<dyn Lane>).collect()
        }
        match self.kind {
            PortKind::Xdp => xdp::open(&self.interface, count, region).map(boxed),
            PortKind::Packet => packet::open(&self.interface, count, region).map(boxed),
            PortKind::Tap => tap::open(&self.interface, count, region).map(boxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed_alike_and_others_refused() {
        for text in ["xdp:veth0", "packet:eth0", "tap:nic0", "xdp:a:b"] {
            assert_eq!(text.parse::<PortName>().unwrap().to_string(), text);
        }
        for text in ["", "xdp", "xdp:", "pcap:a", "veth0", ":"] {
            assert!(text.parse::<PortName>().is_err(), "{text}");
        }
    }
}
