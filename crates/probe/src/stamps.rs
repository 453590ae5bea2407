//! Stamps at one interface, for as long as the value lives.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkLayerType, LinkMessage};
use niclab_netlink::Netlink;
use niclab_packet::echo::{Stamp, StampPoint};

use crate::clsact::{Clsact, Direction};
use crate::error::{EINVAL, EOPNOTSUPP, ProbeError};
use crate::maps::{Counts, Flow, MessageId};
use crate::programs::{ProgramRuns, Programs};
use crate::tcx;

/// How programs are held at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// By TCX links (from Linux 6.6 on): they go with the process, however it ends.
    Tcx,
    /// By filters on a clsact qdisc: what a killed process leaves is found by
    /// [`leftovers`](crate::leftovers).
    Clsact,
}

/// What holds the programs; dropped, it lets them go.
enum Held {
    Tcx { _links: [OwnedFd; 2] },
    Clsact(Clsact),
}

/// Two programs at an interface that stamp the echo messages of one port; dropped, they go, and the
/// interface is as it was.
pub struct Stamps {
    held: Held,
    programs: Programs,
}

impl fmt::Debug for Stamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stamps").field("hook", &self.hook()).finish_non_exhaustive()
    }
}

impl Stamps {
    /// Stamps the messages to and from `port` at the interface of this index in the calling
    /// thread's network namespace: by TCX links, or by clsact where the kernel has none.
    ///
    /// The value may then be used and dropped on any thread.
    ///
    /// # Errors
    /// [`ProbeError::NotAllowed`] without the right, after which the time stamps of sockets remain;
    /// whatever else keeps the programs from being attached.
    pub fn attach(index: u32, port: u16) -> Result<Stamps, ProbeError> {
        match Stamps::attach_by(Hook::Tcx, index, port) {
            Err(ProbeError::NoTcx) => Stamps::attach_by(Hook::Clsact, index, port),
            other => other,
        }
    }

    /// The same by one way alone.
    ///
    /// # Errors
    /// As [`Stamps::attach`]; [`ProbeError::NoTcx`] and [`ProbeError::NoClsact`] where the kernel
    /// lacks the way.
    pub fn attach_by(hook: Hook, index: u32, port: u16) -> Result<Stamps, ProbeError> {
        if port == 0 {
            return Err(ProbeError::NoPort);
        }
        let programs = Programs::load(port, network_at(index)?)?;
        let (egress, ingress) = (programs.egress.as_fd(), programs.ingress.as_fd());
        let held = match hook {
            Hook::Clsact => Held::Clsact(Clsact::attach(index, egress, ingress)?),
            Hook::Tcx => {
                let link = |program, direction| {
                    tcx::attach(program, index, direction).map_err(|e| no_tcx(index, e))
                };
                let links = [link(egress, Direction::Egress)?, link(ingress, Direction::Ingress)?];
                Held::Tcx { _links: links }
            }
        };
        Ok(Stamps { held, programs })
    }

    /// The way in which they are attached.
    pub fn hook(&self) -> Hook {
        match self.held {
            Held::Tcx { .. } => Hook::Tcx,
            Held::Clsact(_) => Hook::Clsact,
        }
    }

    /// The stamp that was taken of a message without room for it, or of a fragmented one; `None`
    /// where there is none, or none any more: of one run the last 65,536 messages are kept.
    ///
    /// # Errors
    /// What the kernel says against reading.
    pub fn message(&self, id: MessageId, place: StampPoint) -> Result<Option<Stamp>, ProbeError> {
        self.programs.maps.message(id, place)
    }

    /// The stamp of the TCP segment that ends before the sequence number `end`
    /// ([`sequence_behind`](crate::sequence_behind)); the first one, if it passed more than once.
    /// There are 32,768 entries for all flows of a direction, and a later segment may have taken
    /// this one's.
    ///
    /// # Errors
    /// What the kernel says against reading.
    pub fn segment(
        &self,
        flow: Flow,
        direction: Direction,
        end: u32,
    ) -> Result<Option<Stamp>, ProbeError> {
        self.programs.maps.segment(flow, direction, end)
    }

    /// All stamps of a flow with the sequence numbers behind their segments, earliest first: for
    /// bytes that do not end a segment. Reads the whole table.
    ///
    /// # Errors
    /// What the kernel says against reading.
    pub fn segments(
        &self,
        flow: Flow,
        direction: Direction,
    ) -> Result<Vec<(u32, Stamp)>, ProbeError> {
        self.programs.maps.segments(flow, direction)
    }

    /// The initial sequence number of a flow whose opening passed while we were attached.
    ///
    /// # Errors
    /// What the kernel says against reading.
    pub fn beginning(&self, flow: Flow) -> Result<Option<u32>, ProbeError> {
        self.programs.maps.beginning(flow)
    }

    /// What was done since the programs were attached.
    ///
    /// # Errors
    /// What the kernel says against reading.
    pub fn counts(&self) -> Result<Counts, ProbeError> {
        self.programs.maps.counts()
    }

    /// Forgets the stamps in the tables. The counters go on, and beginnings of flows are kept.
    ///
    /// # Errors
    /// What the kernel says against it.
    pub fn clear(&self) -> Result<(), ProbeError> {
        self.programs.maps.clear()
    }

    /// How often a program ran and how long that took, where the kernel counts it.
    ///
    /// # Errors
    /// What the kernel says against reading.
    pub fn runs(&self, direction: Direction) -> Result<ProgramRuns, ProbeError> {
        self.programs.runs(direction)
    }

    /// Takes the programs away as dropping does, and says what went wrong.
    ///
    /// # Errors
    /// What the kernel says against it.
    pub fn detach(mut self) -> Result<(), ProbeError> {
        match &mut self.held {
            Held::Tcx { .. } => Ok(()),
            Held::Clsact(clsact) => clsact
                .remove()
                .map_err(|source| ProbeError::System { what: "take the filters away", source }),
        }
    }
}

/// Where the IP header begins in the packets of an interface, bytes.
fn network_at(index: u32) -> Result<u32, ProbeError> {
    let system = |e| ProbeError::system("look at an interface", index, e);
    let mut asked = LinkMessage::default();
    asked.header.index = index;
    let asked = RouteNetlinkMessage::GetLink(asked);
    let answers =
        Netlink::route().and_then(|netlink| Ok(netlink.request(asked, 0)?)).map_err(system)?;
    let link = answers.into_iter().find_map(|message| match message {
        RouteNetlinkMessage::NewLink(link) if link.header.index == index => Some(link),
        _ => None,
    });
    match link.map(|link| link.header.link_layer_type) {
        None => Err(ProbeError::NoInterface { index }),
        Some(LinkLayerType::Ether | LinkLayerType::Loopback) => Ok(14),
        Some(LinkLayerType::None | LinkLayerType::Rawip) => Ok(0),
        Some(other) => Err(ProbeError::LinkType { index, link_type: other.into() }),
    }
}

/// What the kernel said when a link was to be made; an older one does not know what that is.
fn no_tcx(index: u32, error: io::Error) -> ProbeError {
    match error.raw_os_error() {
        Some(EINVAL | EOPNOTSUPP) => ProbeError::NoTcx,
        _ => ProbeError::system("attach a program", index, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_may_go_to_another_thread_and_be_read_by_many() {
        fn may<T: Send + Sync>() {}
        may::<Stamps>();
    }

    #[test]
    fn what_the_kernel_says_against_a_link_is_distinguished() {
        let told = |number| no_tcx(7, io::Error::from_raw_os_error(number));
        assert!(matches!(told(EINVAL), ProbeError::NoTcx));
        assert!(matches!(told(crate::error::EPERM), ProbeError::NotAllowed { .. }));
        assert!(matches!(told(crate::error::ENODEV), ProbeError::NoInterface { index: 7 }));
        assert!(matches!(told(crate::error::EEXIST), ProbeError::System { .. }));
    }
}
