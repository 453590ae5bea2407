//! `peer:ADDRESS`: the stacks of this host and of another one, where `niclab serve echo` runs.
//!
//! The client is here. For the other direction both commands change sides.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use niclab_load::echo::{self, Echoed, MessageStamps};
use niclab_load::requests::Protocol;
use niclab_packet::echo::{Passage, StampPoint as PacketPlace};

use crate::address::{self, AddressError, display};
use crate::cores::{Pinned, take};
use crate::face::{
    Application, BreakdownObservation, DeviceError, DeviceInfo, Fact, Family, Host, Observation,
    PathNode, RequestsObservation, RoundTrips, RoundTripsObservation, Setup, SetupReport, Task,
    Testbed,
};
use crate::linux::applications;
use crate::linux::hosts::{broken, real_time};
use crate::linux::netns::NetNs;
use crate::linux::stamped::{self, Slices, in_payload};
use crate::linux::tune::{self, toward};

/// The port of an echo server, where none is said.
pub const PORT: u16 = 17_007;

/// A server on another host, or in another program.
struct Peer {
    about: DeviceInfo,
    server: SocketAddr,
    core: u32,
    /// Tells our messages from those of others, and of our own earlier tasks.
    run: u32,
}

/// Opens the peer that a name such as `peer:192.0.2.7` or `peer:[2001:db8::7]:17007` stands for.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    let server = of_device(name)?;
    let core = take(name, 1)?[0];
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    let place =
        |role: &str, label: &str, core| PathNode { role: role.into(), label: label.into(), core };
    let mut facts = vec![fact("server", display(server)), fact("client's core", core.to_string())];
    // Without a way there are none; the first task says what is wrong.
    facts.extend(tune::interfaces(name).iter().flatten().filter_map(|of| tune::fact(of)));
    let about = DeviceInfo {
        name: name.to_owned(),
        facts,
        hosts: vec![
            place("client", "program, kernel", Some(core)),
            place("wire", "network", None),
            place("server", &display(server), None),
        ],
        not_supported: ["rules", "queues", "frames"].map(String::from).into(),
        lacking: "niclab measures a peer by messages and requests alone".into(),
        ..DeviceInfo::default()
    };
    Ok(Box::new(Peer { about, server, core, run: std::process::id() }))
}

/// The server of a device of that name.
pub(crate) fn of_device(name: &str) -> Result<SocketAddr, DeviceError> {
    let read = address(name.strip_prefix("peer:").unwrap_or_default());
    let bad = |e: AddressError| DeviceError::BadName { text: name.into(), reason: e.to_string() };
    read.map_err(bad)
}

/// The address of an echo server, where its port may be left out.
///
/// # Errors
/// [`AddressError`].
pub fn address(text: &str) -> Result<SocketAddr, AddressError> {
    address::read(text, PORT)
}

/// Stamps of a message by probes of this host: where it leaves and where it comes back.
const STAMPS_HERE: u32 = 2;

impl Peer {
    /// Round trips of messages, with the client here.
    fn echo(
        &mut self,
        trips: &RoundTrips,
        passages: Option<&mut MessageStamps>,
    ) -> Result<Echoed, DeviceError> {
        if trips.client == Host::There {
            return Err(DeviceError::lacks(
                "a client there (start client and server the other way round)",
            ));
        }
        if !trips.feature.is_none() {
            return Err(DeviceError::lacks(
                "features in the path of a peer (put them there by hand)",
            ));
        }
        let family = if self.server.is_ipv4() { Family::V4 } else { Family::V6 };
        if trips.family != family {
            return Err(DeviceError::lacks("the other family of addresses"));
        }
        self.run = self.run.wrapping_add(0x0001_0000);
        let _pinned = Pinned::to(self.core);
        let _real_time = real_time(trips.fifo)?;
        let never = AtomicBool::new(false);
        echo::run(&trips.echo, self.server, self.run, &never, passages).map_err(broken)
    }

    /// The server stamps its messages all the time, so the price that is reported is that
    /// of the probes of this host.
    fn breakdown(
        &mut self,
        trips: &RoundTrips,
        pairs: u32,
    ) -> Result<BreakdownObservation, DeviceError> {
        if !in_payload(&trips.echo) {
            return Err(DeviceError::lacks(
                "stamps that do not travel with their message (between two machines those of 128 \
                 to 1452 B over UDP do)",
            ));
        }
        if trips.sockets {
            return Err(DeviceError::lacks("stamps of the sockets of a peer"));
        }
        if trips.deep {
            return Err(DeviceError::lacks("stamps inside the stack of a peer"));
        }
        let interface = toward(self.server)?.ok_or_else(|| DeviceError::Absent {
            what: format!("the interface toward {}", self.server),
            remedy: format!("`ip route get {}` says what is missing", self.server.ip()),
        })?;
        let slices = Slices::make(pairs, |is_on, slices| {
            let _probes =
                is_on.then(|| stamped::attach(&interface, self.server.port())).transpose()?;
            let mut passages = MessageStamps::new();
            let echoed = self.echo(trips, is_on.then_some(&mut passages))?;
            slices.passages.extend(passages.kept.into_iter().map(|(_, passage)| passage));
            stamped::whole(echoed)
        })?;
        // By its probes, and by the program.
        let places = [PacketPlace::ServerIngress, PacketPlace::ServerReceive];
        let at_server = |passage: &Passage| places.iter().all(|&at| passage.at(at).is_some());
        if !slices.passages.iter().any(at_server) {
            return Err(DeviceError::lacks(
                "stamps: the server takes none; start it with --stamps",
            ));
        }
        slices.breakdown_of(trips, STAMPS_HERE)
    }

    /// Asks a server that somebody has started there, at the usual port of what it speaks where the
    /// device's name has none.
    fn requests(&mut self, application: &Application) -> Result<RequestsObservation, DeviceError> {
        if application.client == Host::There {
            return Err(DeviceError::lacks(
                "a client there (start client and server the other way round)",
            ));
        }
        let family = if self.server.is_ipv4() { Family::V4 } else { Family::V6 };
        if application.family != family {
            return Err(DeviceError::lacks("the other family of addresses"));
        }
        if application.cores != 1 {
            return Err(DeviceError::lacks("cores of a peer (give them to its server by taskset)"));
        }
        let port = match (self.server.port(), application.requests.protocol) {
            (PORT, Protocol::MemcachedTcp | Protocol::MemcachedUdp) => 11_211,
            (PORT, Protocol::Redis) => 6_379,
            (PORT, Protocol::Http) => 8_080,
            (port, _) => port,
        };
        let address = SocketAddr::new(self.server.ip(), port);
        let here = NetNs::current();
        let cores: (&[u32], &[u32]) = (&[self.core], &[]);
        let mut applied = applications::ask(&here, None, cores, &application.requests, address)?;
        if application.stamps {
            let why = "stamps of requests to a peer (nobody takes the server's)";
            applied.breakdown = Some(Err(why.to_owned()));
        }
        Ok(applied)
    }
}

impl Testbed for Peer {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        setup.check_no_rules().map(|()| SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        match task {
            Task::RoundTrips(trips) => {
                let echoed = self.echo(trips, None)?;
                Ok(Observation::RoundTrips(RoundTripsObservation { echoed, served: None }))
            }
            Task::Breakdown { trips, pairs } => {
                self.breakdown(trips, *pairs).map(Observation::Breakdown)
            }
            Task::Requests(application) => self.requests(application).map(Observation::Requests),
            _ => Err(task.not_supported()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_an_address() {
        assert!(open("peer:").is_err_and(|e| matches!(e, DeviceError::BadName { .. })));
    }
}
