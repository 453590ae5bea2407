//! The real servers that clients ask: which program, with which arguments, on which cores.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use niclab_load::requests::{CONNECTIONS_MAX, Protocol};

use super::hosts::{End, Wire};
use crate::face::{DeviceError, Family, Host};
use crate::program::{FILES, Program, find};

/// Servers that are kept for later trials at most: an idle one takes memory and no time.
const KEPT_MAX: usize = 4;

/// The first port; each server has one of its own.
const PORT: u16 = 20_000;

/// The file that the function is in.
const SOURCE: &str = "main.py";

/// The default function: it sends back what it is sent.
const FUNCTION: &str = "import functions_framework\n\n\n@functions_framework.http\n\
                        def echo(request):\n    return request.get_data()\n";

/// Which server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServerKey {
    program: Service,
    family: Family,
    cores: Vec<u32>,
    host: Host,
}

/// Which program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Memcached,
    Redis,
    Function,
}

impl Service {
    fn of(protocol: Protocol) -> Service {
        match protocol {
            Protocol::MemcachedTcp | Protocol::MemcachedUdp => Service::Memcached,
            Protocol::Redis => Service::Redis,
            Protocol::Http => Service::Function,
        }
    }

    fn program(self) -> &'static str {
        match self {
            Service::Memcached => "memcached",
            Service::Redis => "redis-server",
            Service::Function => "functions-framework",
        }
    }
}

/// A server that runs.
struct RunningServer {
    which: ServerKey,
    address: SocketAddr,
    program: Program,
}

/// The servers that run, the one that was asked last at the end.
#[derive(Default)]
pub struct Servers {
    running: Vec<RunningServer>,
    started: u16,
}

impl Servers {
    /// The address of a server that speaks `protocol` on these cores of a host; it is started where
    /// none runs.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where the program is not installed; [`DeviceError::Rights`];
    /// [`DeviceError::Broken`] with what the program said.
    pub(super) fn address(
        &mut self,
        protocol: Protocol,
        (host, end): (Host, &End),
        family: Family,
        cores: &[u32],
    ) -> Result<SocketAddr, DeviceError> {
        let program = Service::of(protocol);
        let which = ServerKey { program, family, cores: cores.to_vec(), host };
        let at = self.running.iter().position(|running| running.which == which);
        let known = at.map(|at| self.running.remove(at)).filter(|one| one.program.is_running());
        let running = match known {
            Some(running) => running,
            None => self.start(which, end)?,
        };
        let address = running.address;
        self.running.push(running);
        if self.running.len() > KEPT_MAX {
            self.running.remove(0);
        }
        Ok(address)
    }

    fn start(&mut self, which: ServerKey, end: &End) -> Result<RunningServer, DeviceError> {
        let wire = if which.family == Family::V4 { Wire::Plain } else { Wire::Plain6 };
        let port = PORT + self.started % PORT;
        self.started = self.started.wrapping_add(1);
        let address = SocketAddr::new(end.address(wire), port);
        let name = which.program.program();
        let path = find(name).ok_or_else(|| {
            DeviceError::lacks(format!("{name} (not found here: {})", remedy(which.program)))
        })?;
        let mut command = Command::new(path);
        let threads = which.cores.len();
        let files: &[(&str, &str)] = match which.program {
            Service::Memcached | Service::Redis => &[],
            Service::Function => &[(SOURCE, FUNCTION)],
        };
        match which.program {
            Service::Memcached => memcached(&mut command, address, threads),
            Service::Redis => redis(&mut command, address, threads),
            Service::Function => function(&mut command, address, threads),
        }
        let mut program = Program::start_with(&end.netns, &which.cores, command, files)?;
        program.wait_for_listener(&end.netns, address)?;
        Ok(RunningServer { which, address, program })
    }
}

fn remedy(service: Service) -> &'static str {
    match service {
        Service::Memcached => {
            "`apt-get install memcached`, or ./run, which unpacks it into target/servers"
        }
        Service::Redis => {
            "`apt-get install redis-server`, or ./run, which unpacks it into target/servers"
        }
        Service::Function => "./run installs it into target/function",
    }
}

/// TCP and UDP on one port, a thread a core, and memory for all that is asked. It stays what it is:
/// a process that changes its user outlives its parent (prctl(2), PR_SET_PDEATHSIG).
fn memcached(command: &mut Command, address: SocketAddr, threads: usize) {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    command.args(["-l", &host, "-p", &port, "-U", &port, "-u", "root", "-m", "512", "-B", "auto"]);
    command.args(["-t", &threads.to_string(), "-c", &(2 * CONNECTIONS_MAX).to_string()]);
}

/// Nothing is written to disk; commands are carried out by one thread, as Redis does, and the
/// others read and write.
fn redis(command: &mut Command, address: SocketAddr, threads: usize) {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    command.args(["--bind", &host, "--port", &port, "--protected-mode", "no", "--save", ""]);
    command.args(["--appendonly", "no", "--maxmemory", "512mb"]);
    command.args(["--maxmemory-policy", "allkeys-lru"]);
    command.args(["--maxclients", &(2 * CONNECTIONS_MAX).to_string(), "--dir", "/"]);
    command.args(["--io-threads", &threads.to_string()]);
}

/// A worker a core, as many threads in each as the framework itself takes for a core.
fn function(command: &mut Command, address: SocketAddr, workers: usize) {
    let port = address.port().to_string();
    // It puts both together, as in a URL.
    let host = match address.ip() {
        IpAddr::V4(host) => host.to_string(),
        IpAddr::V6(host) => format!("[{host}]"),
    };
    command.args(["--target", "echo", "--host", &host, "--port", &port]);
    command.arg("--source").arg(Path::new(FILES).join(SOURCE));
    // Its servers' own files are to be in that directory too.
    command.env("TMPDIR", FILES);
    command.env("WORKERS", workers.to_string()).env("THREADS", "4");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
}
