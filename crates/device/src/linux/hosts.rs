//! Two hosts in one machine: two network namespaces with addresses, joined by a veth pair.
//!
//! Each has a core of its own. What a host receives is worked on by its core, too: a veth pair has
//! no interrupts of its own, so that receiving would otherwise be done on the core that sends, and
//! both hosts' work would look like the sender's. Receive packet steering (RPS) sends it over.
//!
//! Addresses are those set aside for measurements: 198.18.0.0/15 (RFC 2544) and 2001:2::/48
//! (RFC 5180).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use niclab_load::echo::{self, EchoError, Echoed, IDLE_NS, MessageStamps, Serve, Server};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use super::features;
use super::link;
use super::netns::NetNs;
use crate::address::display;
use crate::cores::{Cores, Pinned};
use crate::face::{DeviceError, Family, Host, RoundTrips, RoundTripsObservation};
use crate::feature::Feature;
use crate::program::{Program, Sockets};
use crate::realtime::RealTime;

/// MTU of the wire between the hosts: that of Ethernet.
pub const MTU: u32 = 1500;

/// The interfaces' names.
const NAMES: [&str; 2] = ["niclab-a", "niclab-b"];

/// The last number of both addresses of each host.
const NUMBERS: [u8; 2] = [1, 2];

/// Bits of an address that both hosts share.
const PREFIX_V4: u8 = 24;
const PREFIX_V6: u8 = 64;

/// Which of a host's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// The IPv4 address on the wire itself.
    Plain,
    /// The IPv6 address there.
    Plain6,
    /// The IPv4 address in a tunnel.
    Tunnel,
}

impl Wire {
    /// The one that the messages of round trips go to.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where its feature is not there over IPv6.
    pub fn of(trips: &RoundTrips) -> Result<Wire, DeviceError> {
        match (trips.family, &trips.feature) {
            (Family::V4, Feature::Vxlan) => Ok(Wire::Tunnel),
            (Family::V4, _) => Ok(Wire::Plain),
            (Family::V6, feature @ (Feature::Vxlan | Feature::Nft { .. })) => {
                Err(DeviceError::lacks(format!("{feature} over IPv6")))
            }
            (Family::V6, _) => Ok(Wire::Plain6),
        }
    }
}

/// One of the two.
pub(super) struct End {
    pub(super) netns: NetNs,
    pub(super) core: u32,
    pub(super) name: &'static str,
    number: u8,
}

/// Two hosts and the wire between them; gone with this value, and with the process however it ends.
pub struct Hosts {
    here: End,
    there: End,
}

impl Hosts {
    /// Makes them, `here` on the tester's core, `there` on the device's.
    fn make(cores: Cores) -> io::Result<Hosts> {
        let [near, far] = NAMES;
        let (near_ns, far_ns) = (NetNs::anonymous()?, NetNs::anonymous()?);
        let far_fd = far_ns.fd().ok_or(io::ErrorKind::Unsupported)?;
        near_ns.within(|| link::make_pair(near, far, far_fd, (MTU, 1)))??;
        far_ns.within(|| link::switch_on(far))??;
        let here = End { netns: near_ns, core: cores.tester, name: near, number: NUMBERS[0] };
        let there = End { netns: far_ns, core: cores.device, name: far, number: NUMBERS[1] };
        for end in [&here, &there] {
            end.netns.within(|| furnish(end.name, end.number, end.core))??;
        }
        Ok(Hosts { here, there })
    }

    /// Makes them with this in their path.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where the kernel or a tool lacks it; [`DeviceError::Rights`];
    /// [`DeviceError::Broken`].
    pub fn with(cores: Cores, feature: &Feature) -> Result<Hosts, DeviceError> {
        let hosts = Hosts::make(cores).map_err(|e| super::refused("making two hosts", &e))?;
        features::put(feature, &hosts.here, &hosts.there)?;
        features::put(feature, &hosts.there, &hosts.here)?;
        Ok(hosts)
    }

    /// The address of a host.
    pub fn address(&self, host: Host, wire: Wire) -> IpAddr {
        self.sides(host).0.address(wire)
    }

    /// Starts a program on a host, which gets the host's core.
    ///
    /// # Errors
    /// As of [`Program::start`].
    pub fn start(&self, host: Host, command: Command) -> Result<Program, DeviceError> {
        let end = self.sides(host).0;
        Program::start(&end.netns, &[end.core], command)
    }

    /// Starts a server on a host and waits until it has its port.
    ///
    /// # Errors
    /// As of [`Program::start`] and [`Program::wait_for_listener`].
    pub fn serve(
        &self,
        host: Host,
        command: Command,
        table: Sockets,
        port: u16,
    ) -> Result<Program, DeviceError> {
        let mut program = self.start(host, command)?;
        program.wait_for_port(&self.sides(host).0.netns, table, port)?;
        Ok(program)
    }

    /// The hosts of client and server.
    pub(super) fn ends(&self, trips: &RoundTrips) -> (&End, &End) {
        self.sides(trips.client)
    }

    /// The hosts of client and server, where the client is on this one.
    pub(super) fn sides(&self, client: Host) -> (&End, &End) {
        match client {
            Host::Here => (&self.here, &self.there),
            Host::There => (&self.there, &self.here),
        }
    }

    /// Lets a client on the one host talk to a server on the other, which starts and ends with it.
    pub fn round_trips(
        &self,
        trips: &RoundTrips,
        run: u32,
    ) -> Result<RoundTripsObservation, DeviceError> {
        let server = self.server(trips)?;
        let client = || self.client(trips, server.address(), run, None);
        let echoed = self.beside(&server, trips, client)?;
        Ok(RoundTripsObservation { echoed, served: Some(server.served()) })
    }

    /// The server of round trips on its host, which does not serve yet.
    pub(super) fn server(&self, trips: &RoundTrips) -> Result<Server, DeviceError> {
        let (_, server) = self.ends(trips);
        let asked = &trips.echo;
        asked.check().map_err(broken)?;
        let serve = Serve {
            transport: Some(asked.transport),
            receive: asked.receive,
            batch: asked.batch,
            size_max: asked.size,
            idle_ns: IDLE_NS,
        };
        let address = SocketAddr::new(server.address(Wire::of(trips)?), 0);
        let bound = server.netns.within(|| Server::bind(address, serve));
        bound.map_err(|e| super::refused("a server's socket", &e))?.map_err(broken)
    }

    /// Lets it serve on its host's core while `work` is done.
    pub(super) fn beside<T>(
        &self,
        server: &Server,
        trips: &RoundTrips,
        work: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let (_, host) = self.ends(trips);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let serve = || {
                let _pinned = Pinned::to(host.core);
                let _real_time = real_time(trips.fifo)?;
                server.run(&stop).map_err(broken)
            };
            let serving = thread::Builder::new().name("server".into()).spawn_scoped(scope, serve);
            let serving = serving.map_err(|source| broken(EchoError::NoThread { source }))?;
            let done = work();
            stop.store(true, Ordering::Relaxed);
            let served = serving.join().map_err(|_| DeviceError::Broken {
                device: "the echo server".into(),
                reason: "its thread panicked".into(),
            })?;
            served.and(done)
        })
    }

    /// Lets the client of round trips run on its host's core.
    pub(super) fn client(
        &self,
        trips: &RoundTrips,
        address: SocketAddr,
        run: u32,
        passages: Option<&mut MessageStamps>,
    ) -> Result<Echoed, DeviceError> {
        let (client, _) = self.ends(trips);
        let never = AtomicBool::new(false);
        let ran = client.netns.within(|| {
            let _pinned = Pinned::to(client.core);
            let _real_time = real_time(trips.fifo)?;
            echo::run(&trips.echo, address, run, &never, passages).map_err(broken)
        });
        ran.map_err(|e| super::refused("the client's namespace", &e))?
    }
}

impl End {
    pub(super) fn address(&self, wire: Wire) -> IpAddr {
        address(self.number, wire)
    }
}

/// A host whose work is done by other cores than its own, until this is dropped.
pub(super) struct Steered<'a>(&'a End);

impl Drop for Steered<'_> {
    fn drop(&mut self) {
        // Where this fails the next trial's figures say so: its server's core has less to do.
        let _ = self.0.steer(&[self.0.core]);
    }
}

impl End {
    /// Has what the host receives worked on by these cores.
    pub(super) fn steered(&self, cores: &[u32]) -> Result<Option<Steered<'_>>, DeviceError> {
        if cores == [self.core] {
            return Ok(None);
        }
        self.steer(cores).map_err(|e| super::refused("steering packets to cores", &e))?;
        Ok(Some(Steered(self)))
    }

    fn steer(&self, cores: &[u32]) -> io::Result<()> {
        self.netns.within(|| steer(self.name, cores))?
    }
}

/// The address of a host.
fn address(number: u8, wire: Wire) -> IpAddr {
    match wire {
        Wire::Plain => Ipv4Addr::new(198, 18, 0, number).into(),
        Wire::Tunnel => Ipv4Addr::new(198, 18, 1, number).into(),
        Wire::Plain6 => Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, number.into()).into(),
    }
}

/// Gives the interface of the thread's namespace its addresses, and its work to one core.
fn furnish(name: &str, number: u8, core: u32) -> io::Result<()> {
    let link = link::find(name)?.ok_or(io::ErrorKind::NotFound)?;
    // No address but ours: nobody asks for routers or tells of groups in between. Where the kernel
    // has no IPv6 there is nothing to set; round trips over it are refused then.
    let ipv6 = format!("/proc/sys/net/ipv6/conf/{name}");
    let has_ipv6 = fs::exists(&ipv6)?;
    if has_ipv6 {
        for (setting, value) in
            [("addr_gen_mode", "1"), ("accept_ra", "0"), ("router_solicitations", "0")]
        {
            fs::write(format!("{ipv6}/{setting}"), value)?;
        }
        fs::write(format!("{ipv6}/disable_ipv6"), "0")?;
        fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0")?;
    }
    // A host reaches itself, too: that is how it is seen whether a server listens.
    link::switch_on("lo")?;
    link::add_address(link.index, address(number, Wire::Plain), PREFIX_V4)?;
    if has_ipv6 {
        link::add_address(link.index, address(number, Wire::Plain6), PREFIX_V6)?;
    }
    steer(name, &[core])
}

/// Has what an interface of the thread's namespace receives worked on by these cores.
fn steer(name: &str, cores: &[u32]) -> io::Result<()> {
    // Interfaces are seen in a sysfs that was mounted in their namespace. The mount is this
    // thread's alone: it ends with it.
    super::netns::apart(|| {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private)?;
        mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
        fs::write(format!("/sys/class/net/{name}/queues/rx-0/rps_cpus"), mask(cores))
    })
}

/// A set of cores as the kernel writes it: words of 32 bits, the highest first.
fn mask(cores: &[u32]) -> String {
    let highest = cores.iter().max().map_or(0, |core| core / 32);
    let word = |at: u32| {
        let of_it = cores.iter().filter(|core| *core / 32 == at);
        of_it.fold(0u32, |bits, core| bits | 1 << (core % 32))
    };
    let mut text = format!("{:x}", word(highest));
    (0..highest).rev().for_each(|at| text.push_str(&format!(",{:08x}", word(at))));
    text
}

/// Real-time priority for the calling thread, where it is asked for.
pub fn real_time(priority: Option<u8>) -> Result<Option<RealTime>, DeviceError> {
    let priority = priority.map(RealTime::with).transpose();
    priority.map_err(|e| super::refused("real-time priority", &e))
}

/// Converts an error of client or server.
pub fn broken(error: EchoError) -> DeviceError {
    match error {
        EchoError::NoRing { .. } => DeviceError::lacks(error.to_string()),
        EchoError::NotSupported { what } => DeviceError::lacks(what),
        EchoError::Range { .. } => DeviceError::BadLoad { reason: error.to_string() },
        EchoError::Silent { server } => DeviceError::Silent { reason: named(&error, server) },
        EchoError::Nobody { server } | EchoError::Unreachable { server, .. } => {
            DeviceError::NoServer { reason: named(&error, server) }
        }
        _ => DeviceError::Broken { device: "echo".into(), reason: error.to_string() },
    }
}

/// The error of a server, with the name of the interface in place of its number.
fn named(error: &EchoError, server: SocketAddr) -> String {
    error.to_string().replace(&server.to_string(), &display(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_cores_is_written_as_the_kernel_reads_it() {
        assert_eq!(mask(&[0]), "1");
        assert_eq!(mask(&[5]), "20");
        assert_eq!(mask(&[31]), "80000000");
        assert_eq!(mask(&[32]), "1,00000000");
        assert_eq!(mask(&[70]), "40,00000000,00000000");
        assert_eq!(mask(&[1, 0, 33, 3]), "2,0000000b");
    }
}
