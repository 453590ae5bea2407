//! Servers and load clients of others, as Debian's packages have them.
//!
//! A server is on loopback, on a core of its own, and ends with the thread that started it
//! (`setpriv --pdeathsig`), however that ends.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::BenchError;

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(10);

/// A program and the package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// As it is called.
    pub name: &'static str,
    /// As it is installed.
    pub package: &'static str,
}

impl Program {
    /// Where it is.
    ///
    /// # Errors
    /// [`BenchError::NotInstalled`].
    pub fn path(&self) -> Result<PathBuf, BenchError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
        let mut places = env::split_paths(&path).chain(usual);
        let found = places.find_map(|place| Some(place.join(self.name)).filter(|it| it.is_file()));
        found.ok_or(BenchError::NotInstalled { program: self.name, package: self.package })
    }

    /// Runs it to its end on the core of this thread; what it wrote to its standard output.
    ///
    /// # Errors
    /// [`BenchError::Program`] where it fails.
    pub fn run(&self, arguments: &[String]) -> Result<String, BenchError> {
        let failed = |said: String| BenchError::Program { program: self.name, said };
        let mut command = Command::new(self.path()?);
        let output = command.args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }
}

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// One thread, 512 MB.
    Memcached,
    /// The same, over UDP, too.
    MemcachedUdp,
    /// Nothing is written to a disk.
    Redis,
    /// One process, which answers `hello`.
    Nginx,
}

/// Nginx: connections last, nothing is logged.
const NGINX: &str = "\
daemon off; master_process off; pid PLACE/pid; error_log PLACE/log; events {
worker_connections 4096; }
http { access_log off; keepalive_requests 1000000000; client_body_temp_path PLACE/body;
proxy_temp_path PLACE/proxy; fastcgi_temp_path PLACE/fastcgi; uwsgi_temp_path PLACE/uwsgi;
scgi_temp_path PLACE/scgi;
server { listen 127.0.0.1:PORT; location / { return 200 hello; } } }
";

impl Service {
    fn program(self) -> Program {
        let (name, package) = match self {
            Service::Memcached | Service::MemcachedUdp => ("memcached", "memcached"),
            Service::Redis => ("redis-server", "redis-server"),
            Service::Nginx => ("nginx", "nginx-light"),
        };
        Program { name, package }
    }

    fn arguments(self, port: &str, place: &str) -> Result<Vec<String>, BenchError> {
        // As root it stays root: who becomes another one does not end with us.
        let line = match self {
            Service::Memcached => format!("-u root -t 1 -m 512 -U 0 -l 127.0.0.1 -p {port}"),
            Service::MemcachedUdp => {
                format!("-u root -t 1 -m 512 -U {port} -l 127.0.0.1 -p {port}")
            }
            Service::Redis => format!("--bind 127.0.0.1 --port {port} --appendonly no --save"),
            Service::Nginx => {
                let text = NGINX.replace("PLACE", place).replace("PORT", port);
                fs::write(format!("{place}/conf"), text).map_err(BenchError::Temporary)?;
                format!("-p {place} -e {place}/log -c {place}/conf")
            }
        };
        let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        if self == Service::Redis {
            arguments.push(String::new());
        }
        Ok(arguments)
    }
}

/// A running server. It ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    #[cfg_attr(not(test), expect(dead_code, reason = "holds its files until it ends"))]
    place: TempDir,
}

impl Server {
    /// Starts a server on a core, and waits until it listens.
    ///
    /// # Errors
    /// [`BenchError::NotInstalled`], [`BenchError::Program`] where it does not listen.
    pub fn start(service: Service, core: usize) -> Result<Server, BenchError> {
        let program = service.program();
        let path = program.path()?;
        let failed = |said: String| BenchError::Program { program: program.name, said };
        let place = tempfile::tempdir().map_err(BenchError::Temporary)?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
        let address = free.map_err(|error| failed(error.to_string()))?;
        let port = address.port().to_string();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "taskset", "-c", &core.to_string()])
            .arg(path)
            .args(service.arguments(&port, &place.path().to_string_lossy())?)
            .current_dir(place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut server = Server { child, address, place };
        let until = Instant::now() + START;
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(failed(format!("it ended with {status}")));
            }
            if Instant::now() > until {
                return Err(failed(format!("it does not listen at {address}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets it stand still from `after` on, for so long, while `with` runs.
    pub fn stalled<T>(&self, after: Duration, stall: Duration, with: impl FnOnce() -> T) -> T {
        let pid = Pid::from_child(&self.child);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(after);
                // Its client notices a server that is gone.
                let _ = kill_process(pid, Signal::STOP);
                thread::sleep(stall);
                let _ = kill_process(pid, Signal::CONT);
            });
            with()
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const SERVICES: [Service; 3] = [Service::Memcached, Service::Redis, Service::Nginx];

    /// A server, where there is one to start.
    fn start(test: &str, service: Service) -> Option<Server> {
        match Server::start(service, 0) {
            Ok(server) => Some(server),
            Err(missing @ BenchError::NotInstalled { .. }) => {
                println!("SKIP {test}: {missing}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn is_gone(address: SocketAddr) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            match TcpStream::connect(address) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => return true,
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    #[test]
    fn a_server_ends_with_its_value_and_with_its_thread() {
        let test = "a_server_ends_with_its_value_and_with_its_thread";
        for service in SERVICES {
            let Some(server) = start(test, service) else { continue };
            let address = server.address();
            drop(server);
            assert!(is_gone(address), "{service:?}");
            // A thread that ends without having ended its server.
            let started = thread::spawn(move || {
                let mut server = std::mem::ManuallyDrop::new(start(test, service).unwrap());
                let place = server.place.path().to_owned();
                (server.address(), place, server.child.try_wait().unwrap())
            });
            let (address, place, ended) = started.join().unwrap();
            assert_eq!(ended, None);
            assert!(is_gone(address), "{service:?}");
            fs::remove_dir_all(place).unwrap();
        }
    }

    #[test]
    fn a_server_stands_still_as_long_as_asked() {
        let test = "a_server_stands_still_as_long_as_asked";
        let Some(server) = start(test, Service::Redis) else { return };
        let state = || {
            let status = fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
            status.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        let (stall, seen) = (Duration::from_millis(200), AtomicBool::new(false));
        let began = Instant::now();
        server.stalled(Duration::ZERO, stall, || {
            while !seen.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(5) {
                seen.store(state() == 'T', Ordering::Relaxed);
            }
        });
        assert!(seen.into_inner() && began.elapsed() >= stall);
        assert_ne!(state(), 'T');
    }

    #[test]
    fn what_is_not_installed_is_reported_with_its_package() {
        let program = Program { name: "no-such-program", package: "a-package" };
        let said = program.path().unwrap_err().to_string();
        assert_eq!(said, "no-such-program is not installed: apt-get install a-package");
        let failing = Program { name: "sh", package: "dash" };
        let run = |script: &str| failing.run(&["-c".to_owned(), script.to_owned()]);
        assert_eq!(run("echo 5; echo x >&2").unwrap(), "5\n");
        assert_eq!(run("echo no >&2; exit 3").unwrap_err().to_string(), "sh: no\n");
    }
}
