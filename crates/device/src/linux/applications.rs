//! Clients on one of the two hosts ask a real server on the other.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use niclab_load::requests::{self, Pace, Requested, Requests, RequestsError, StreamPosition};

use super::hosts::Hosts;
use super::link;
use super::netns::NetNs;
use super::servers::Servers;
use super::stamped_requests;
use crate::cores::{Pinned, allowed};
use crate::energy::Reading;
use crate::face::{Application, DeviceError, Energy, Host, LinkUse, RequestsObservation};
use crate::usage::CoreUse;

/// Which cores are the server's and which the clients': the server takes those of its own host
/// first, and where it takes all, the clients share one of them.
pub fn shares(
    allowed: &[u32],
    server: Host,
    cores: u16,
) -> Result<(Vec<u32>, Vec<u32>), DeviceError> {
    let mut order = allowed.to_vec();
    match server {
        // The first core is that of the host here.
        Host::There => order.rotate_left(1),
        Host::Here => order[1..].reverse(),
    }
    let count = usize::from(cores);
    if count == 0 || count > order.len() {
        let there = allowed.len();
        let capability = format!("{cores} cores for the server ({there} are here)");
        return Err(DeviceError::lacks(capability));
    }
    let clients = match count == order.len() {
        true => order[count - 1..].to_vec(),
        false => order[count..].to_vec(),
    };
    order.truncate(count);
    Ok((order, clients))
}

/// Divides the requests among `clients` clients: connections and rate in equal shares, a seed for
/// each.
pub fn split(requests: &Requests, clients: usize) -> Vec<Requests> {
    let clients = clients.min(requests.connections.into()).max(1) as u16;
    let share = |client: u16| {
        let connections =
            requests.connections / clients + u16::from(client < requests.connections % clients);
        let part = f64::from(connections) / f64::from(requests.connections.max(1));
        let pace = match requests.pace {
            Pace::Closed => Pace::Closed,
            Pace::Open { per_s } => Pace::Open { per_s: per_s * part },
        };
        let seed = requests.seed.wrapping_add(client.into());
        Requests { connections, pace, seed, ..requests.clone() }
    };
    (0..clients).map(share).collect()
}

/// The resources used in the measured part of a trial.
#[derive(Default)]
struct ResourceUse {
    client: Vec<CoreUse>,
    server: Vec<CoreUse>,
    link: Option<LinkUse>,
    energy: Energy,
    /// Time between the two looks.
    watched_ns: u64,
}

/// One look at all that is used.
struct ResourceSample {
    at: Instant,
    client: Vec<CoreUse>,
    server: Vec<CoreUse>,
    link: Option<link::LinkCounters>,
    energy: Reading,
}

impl ResourceSample {
    fn now(
        netns: &NetNs,
        interface: Option<&str>,
        cores: (&[u32], &[u32]),
    ) -> std::io::Result<ResourceSample> {
        let found = match interface {
            Some(name) => netns.within(|| link::find(name))??,
            None => None,
        };
        Ok(ResourceSample {
            at: Instant::now(),
            client: CoreUse::read(cores.0)?,
            server: CoreUse::read(cores.1)?,
            link: found.map(|link| link.counters),
            energy: Reading::now(),
        })
    }

    fn since(&self, before: &ResourceSample) -> ResourceUse {
        let passed = |now: &[CoreUse], before: &[CoreUse]| {
            now.iter().zip(before).map(|(now, before)| now.since(before)).collect()
        };
        let link = self.link.zip(before.link).map(|(now, before)| now.since(&before));
        ResourceUse {
            client: passed(&self.client, &before.client),
            server: passed(&self.server, &before.server),
            link: link.map(|link| LinkUse {
                tx_bytes: link.tx_bytes,
                rx_bytes: link.rx_bytes,
                bits_per_s: None,
            }),
            energy: self.energy.since(&before.energy),
            watched_ns: self.at.duration_since(before.at).as_nanos() as u64,
        }
    }
}

impl Hosts {
    /// Lets clients ask a server, one a core, and says what they saw and what was used meanwhile.
    pub fn apply(
        &self,
        application: &Application,
        servers: &mut Servers,
    ) -> Result<RequestsObservation, DeviceError> {
        let asked = &application.requests;
        asked.check().map_err(broken)?;
        let (client, server) = self.sides(application.client);
        let there = match application.client {
            Host::Here => Host::There,
            Host::There => Host::Here,
        };
        let (server_cores, client_cores) = shares(&allowed(), there, application.cores)?;
        let address =
            servers.address(asked.protocol, (there, server), application.family, &server_cores)?;
        let _here = client.steered(&client_cores)?;
        let _there = server.steered(&server_cores)?;
        let cores = (client_cores.as_slice(), server_cores.as_slice());
        let mut applied = ask(&client.netns, Some(client.name), cores, asked, address)?;
        if application.stamps && applied.requested.ended.is_none() {
            let breakdown = stamped_requests::breakdown((client, server), cores.0, asked, address);
            // What was measured without probes holds whether they can be had or not.
            applied.breakdown = Some(match breakdown {
                Err(DeviceError::NotSupported { capability }) => Err(capability),
                made => Ok(made?),
            });
        }
        Ok(applied)
    }
}

/// Lets clients on these cores of a host, one a core, ask a server, whose own cores are these where
/// they are ours to watch. The host's interface is watched where it has a name.
pub fn ask(
    netns: &NetNs,
    interface: Option<&str>,
    cores: (&[u32], &[u32]),
    asked: &Requests,
    address: SocketAddr,
) -> Result<RequestsObservation, DeviceError> {
    if asked.get_ratio > 0.0 {
        let filled = netns.within(|| requests::fill(asked, address));
        filled.map_err(|e| super::refused("the client's namespace", &e))?.map_err(broken)?;
    }
    let look = || ResourceSample::now(netns, interface, cores);
    let work = |begun: OnStart<'_>| all(netns, cores.0, asked, address, begun, None);
    let (requested, meanwhile) = watched(look, asked, cores.0.len(), work)?;
    let ResourceUse { client, server, link, energy, watched_ns } = meanwhile;
    let requested = requested?;
    Ok(RequestsObservation { requested, client, server, link, energy, watched_ns, breakdown: None })
}

/// Runs the clients, each on a core of its own, and puts what is known of their requests into
/// `passed`, where that is asked for. Each calls `begun` when its time begins to run.
pub(super) fn all(
    netns: &NetNs,
    cores: &[u32],
    asked: &Requests,
    address: SocketAddr,
    begun: OnStart<'_>,
    mut passed: Option<&mut Vec<StreamPosition>>,
) -> Result<Requested, DeviceError> {
    let shares = split(asked, cores.len());
    let never = AtomicBool::new(false);
    let keeps = passed.is_some();
    let observation: Vec<Result<(Requested, Vec<StreamPosition>), DeviceError>> =
        thread::scope(|scope| {
            let started: Vec<_> = shares
                .iter()
                .zip(cores)
                .map(|(share, &core)| {
                    let never = &never;
                    let ask = move || {
                        let ran = netns.within(|| {
                            let _pinned = Pinned::to(core);
                            let mut passed = Vec::new();
                            let kept = keeps.then_some(&mut passed);
                            let ran = requests::run(share, address, never, begun, kept);
                            ran.map_err(broken).map(|requested| (requested, passed))
                        });
                        ran.map_err(|e| super::refused("the client's namespace", &e))?
                    };
                    let started = thread::Builder::new().name("client".into());
                    let started = started.spawn_scoped(scope, ask);
                    started.inspect_err(|_| never.store(true, Ordering::Relaxed))
                })
                .collect();
            let panicked = || DeviceError::Broken {
                device: "a client".into(),
                reason: "its thread panicked".into(),
            };
            let no_thread = |e| super::refused("starting a client's thread", &e);
            let ended = |one: std::io::Result<ScopedJoinHandle<'_, _>>| {
                one.map_err(no_thread)?.join().unwrap_or_else(|_| Err(panicked()))
            };
            started.into_iter().map(ended).collect()
        });
    let mut sum: Option<Requested> = None;
    for one in observation {
        let (requested, kept) = one?;
        match &mut sum {
            Some(sum) => sum.merge(requested),
            None => sum = Some(requested),
        }
        if let Some(passed) = &mut passed {
            passed.extend(kept);
        }
    }
    Ok(sum.unwrap_or_default())
}

/// Called by each client when its time begins to run.
pub(super) type OnStart<'a> = &'a (dyn Fn() + Sync);

/// Looks at what is used when the measured part of the last of so many clients begins, and when it
/// ends: connections take their time before the first request.
fn watched<T>(
    look: impl Fn() -> std::io::Result<ResourceSample> + Send,
    asked: &Requests,
    clients: usize,
    work: impl FnOnce(OnStart<'_>) -> T,
) -> Result<(T, ResourceUse), DeviceError> {
    let (begun, begins) = channel::<()>();
    let clients = split(asked, clients).len();
    thread::scope(|scope| {
        let looking = move || -> std::io::Result<ResourceUse> {
            let wait = |ns| begins.recv_timeout(Duration::from_nanos(ns));
            let are_begun = (0..clients).all(|_| begins.recv().is_ok());
            if !are_begun || wait(asked.warmup_ns) != Err(RecvTimeoutError::Timeout) {
                return Ok(ResourceUse::default());
            }
            let before = look()?;
            let _ = wait(asked.duration_ns);
            Ok(look()?.since(&before))
        };
        let watch = thread::Builder::new().name("watch".into()).spawn_scoped(scope, looking);
        let watch = watch.map_err(|e| super::refused("starting the thread that watches", &e))?;
        // The watch ends before the work where it cannot look.
        let done = work(&|| begun.send(()).unwrap_or_default());
        drop(begun);
        let panicked = |_| std::io::Error::other("its thread panicked");
        let observation = watch.join().map_err(panicked).and_then(|observation| observation);
        Ok((done, observation.map_err(|e| super::refused("reading what is used", &e))?))
    })
}

/// Converts an error of a client.
pub fn broken(error: RequestsError) -> DeviceError {
    match error {
        RequestsError::Range { .. } => DeviceError::BadLoad { reason: error.to_string() },
        RequestsError::Nobody { server, protocol } => DeviceError::Absent {
            what: format!("a server for {protocol} at {server}"),
            remedy: "start it there, and let its port through the firewall".into(),
        },
        _ => DeviceError::Broken { device: "the client".into(), reason: error.to_string() },
    }
}

#[cfg(test)]
#[path = "applications_tests.rs"]
mod tests;
