//! Programs of others: a server that an experiment asks, a tool that ours is compared with.
//!
//! A program gets cores, a network namespace and a namespace of processes of its own, in which it
//! is the first one. So it takes its children with it when it ends, and a thread of this process,
//! which ends with this process in any case, takes it: nothing is left running however a
//! measurement ends.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity, unshare_unsafe};

use crate::face::DeviceError;
use crate::linux::netns::NetNs;

/// Where a program finds the files that it was [started with](Program::start_with): not where
/// programs may be installed, for it sees nothing else there.
pub const FILES: &str = "/dev/shm";

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(20);

/// How often it is asked meanwhile whether it does.
const LOOK: Duration = Duration::from_millis(5);

/// What is kept of what a program said at its end, bytes.
const OUTPUT_MAX: usize = 400;

/// Which of the kernel's tables has a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// TCP over IPv4.
    Tcp,
    /// UDP over IPv4.
    Udp,
}

impl Sockets {
    fn path(self) -> &'static str {
        match self {
            Sockets::Tcp => "/proc/thread-self/net/tcp",
            Sockets::Udp => "/proc/thread-self/net/udp",
        }
    }
}

/// A running program; it ends with this value. It must not change its user: the kernel would not
/// end it any more where this process is killed (prctl(2), PR_SET_PDEATHSIG).
#[derive(Debug)]
pub struct Program {
    name: String,
    pid: u32,
    output: File,
    /// Its end tells the thread to end the program.
    stop: Option<Sender<()>>,
    ended: Receiver<io::Result<Option<i32>>>,
    keeper: Option<JoinHandle<()>>,
}

impl Program {
    /// Starts a program in a network namespace on these cores. What it writes is kept, for its
    /// [end](Program::wait) or for the message when it ends by itself.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where there is no such program; [`DeviceError::Rights`];
    /// [`DeviceError::Broken`].
    pub fn start(netns: &NetNs, cores: &[u32], command: Command) -> Result<Program, DeviceError> {
        Program::start_with(netns, cores, command, &[])
    }

    /// Starts a program as [`Program::start`] does, with these files, name and text, in [`FILES`]:
    /// a directory in memory that it alone sees, and that ends with it.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub fn start_with(
        netns: &NetNs,
        cores: &[u32],
        mut command: Command,
        files: &[(&'static str, &'static str)],
    ) -> Result<Program, DeviceError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
        let failed = |e: io::Error| refused(&name, &e);
        let said: File = memfd_create(name.as_str(), MemfdFlags::CLOEXEC)
            .map_err(|e| refused(&name, &e.into()))?
            .into();
        command.stdin(Stdio::null());
        command.stdout(said.try_clone().map_err(failed)?);
        command.stderr(said.try_clone().map_err(failed)?);
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core as usize));
        // SAFETY: between fork and exec only these two calls of the kernel are made, which take no
        // lock and allocate nothing.
        unsafe {
            command.pre_exec(move || {
                sched_setaffinity(None, &set)?;
                Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
            });
        }
        let (stop, stopped) = channel();
        let (tell, ended) = channel();
        let (started, pid) = channel();
        let netns = netns.try_clone().map_err(failed)?;
        let files = files.to_vec();
        let keeper = thread::Builder::new().name("program".into()).spawn(move || {
            let child = netns.enter().and_then(|()| apart(&mut command, &files));
            match child {
                Ok(child) => {
                    let _ = started.send(Ok(child.id()));
                    let _ = tell.send(keep(child, &stopped));
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
        let keeper = Some(keeper.map_err(failed)?);
        let gone = |_| io::Error::other("its thread ended");
        let pid = pid.recv().map_err(gone).and_then(|pid| pid).map_err(failed)?;
        Ok(Program { name, pid, output: said, stop: Some(stop), ended, keeper })
    }

    /// Waits until somebody listens at `address` over TCP, in the namespace of the program.
    ///
    /// # Errors
    /// [`DeviceError::Broken`], with what the program said where it has ended.
    pub fn wait_for_listener(
        &mut self,
        netns: &NetNs,
        address: SocketAddr,
    ) -> Result<(), DeviceError> {
        self.until(|| {
            let answer =
                netns.within(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)));
            let answer = answer.and_then(|connected| connected.map(drop));
            answer.map_err(|error| format!("nothing listens at {address}: {error}"))
        })
    }

    /// Waits until somebody has taken a port of a protocol in the namespace of the program. Unlike
    /// [`Program::wait_for_port`] it asks nobody but the kernel: the program sees nothing of it.
    ///
    /// # Errors
    /// [`DeviceError::Broken`], with what the program said where it has ended.
    pub fn wait_for_port(
        &mut self,
        netns: &NetNs,
        table: Sockets,
        port: u16,
    ) -> Result<(), DeviceError> {
        self.until(|| {
            let path = table.path();
            let read = netns.within(|| std::fs::read_to_string(path)).and_then(|text| text);
            match read {
                Ok(text) if is_taken(&text, port) => Ok(()),
                Ok(_) => Err(format!("port {port} is not taken")),
                Err(error) => Err(format!("{path}: {error}")),
            }
        })
    }

    /// Looks again and again until something is so, or the program has ended.
    fn until(&mut self, mut look: impl FnMut() -> Result<(), String>) -> Result<(), DeviceError> {
        let until = Instant::now() + START;
        loop {
            if let Ok(ended) = self.ended.try_recv() {
                return Err(self.broken(&ending(ended)));
            }
            match look() {
                Ok(()) => return Ok(()),
                Err(_) if Instant::now() < until => thread::sleep(LOOK),
                Err(error) => {
                    return Err(self.broken(&format!("{error}, after {} s", START.as_secs())));
                }
            }
        }
    }

    /// Waits for the program's own end, `patience` at most, and returns what it wrote.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where it takes longer or ends with an error.
    pub fn wait(mut self, patience: Duration) -> Result<String, DeviceError> {
        match self.ended.recv_timeout(patience) {
            Ok(Ok(Some(0))) => Ok(self.last_output(usize::MAX)),
            Ok(ended) => Err(self.broken(&ending(ended))),
            Err(_) => Err(self.broken(&format!("it has not ended after {} s", patience.as_secs()))),
        }
    }

    /// `true` until it has ended.
    pub fn is_running(&self) -> bool {
        // Its last status is not needed: a server is not to end at all.
        self.ended.try_recv().is_err() && self.keeper.as_ref().is_some_and(|k| !k.is_finished())
    }

    /// Its number among this process's neighbours.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn broken(&mut self, reason: &str) -> DeviceError {
        let output = self.last_output(OUTPUT_MAX);
        let reason = match output.trim() {
            "" => reason.to_owned(),
            output => format!("{reason}; its output: {output}"),
        };
        DeviceError::Broken { device: self.name.clone(), reason }
    }

    /// The last of what it wrote.
    fn last_output(&mut self, most: usize) -> String {
        let mut text = Vec::new();
        let _ = self.output.rewind().and_then(|()| self.output.read_to_end(&mut text));
        let from = text.len().saturating_sub(most);
        String::from_utf8_lossy(&text[from..]).into_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Whether a table of sockets has one on a port (proc_net_tcp in the kernel's documentation): the
/// second field of its lines is the local address, in hexadecimal.
fn is_taken(table: &str, port: u16) -> bool {
    let port_of = |line: &str| {
        let local = line.split_whitespace().nth(1)?;
        u16::from_str_radix(local.split_once(':')?.1, 16).ok()
    };
    table.lines().any(|line| port_of(line) == Some(port))
}

/// Starts it as the first process of a namespace of its own: the kernel ends all others there with
/// it.
fn apart(command: &mut Command, files: &[(&str, &str)]) -> io::Result<Child> {
    if !files.is_empty() {
        own_files(files)?;
    }
    // SAFETY: the flag changes where children of this thread are put, and nothing of the thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }?;
    command.spawn()
}

/// Gives this thread mounts of its own, and among them a directory with these files: the kernel
/// takes it away with the last process that sees it.
fn own_files(files: &[(&str, &str)]) -> io::Result<()> {
    // SAFETY: the flag gives this thread alone a copy of the mounts, and of its working directory.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // What is mounted here is to stay here.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("tmpfs", FILES, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None)?;
    files.iter().try_for_each(|(name, text)| fs::write(Path::new(FILES).join(name), text))
}

/// Waits for its end, or ends it when the other end of the channel goes; its exit status, where it
/// ended by itself.
fn keep(mut child: Child, stopped: &Receiver<()>) -> io::Result<Option<i32>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        match stopped.recv_timeout(LOOK) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            _ => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
        }
    }
}

fn ending(ended: io::Result<Option<i32>>) -> String {
    match ended {
        Ok(Some(-1)) => "a signal ended it".to_owned(),
        Ok(Some(code)) => format!("it ended with {code}"),
        Ok(None) => "it was ended".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn refused(name: &str, error: &io::Error) -> DeviceError {
    match error.kind() {
        io::ErrorKind::NotFound => DeviceError::lacks(name),
        io::ErrorKind::PermissionDenied => DeviceError::Rights {
            what: format!("starting {name} apart"),
            remedy: crate::linux::RIGHTS.to_owned(),
        },
        _ => DeviceError::Broken { device: name.to_owned(), reason: error.to_string() },
    }
}

/// Where `./run` puts servers, beside this program.
const BESIDE: [&str; 2] = ["function/bin", "servers/usr/bin"];

/// Where `./test` unpacks a program that needs libraries which lie beside it.
const UNPACKED: &str = "suricata/usr/bin";

/// Where a program is: among those that `./run` has put beside this one, or on the path.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(usual).map(|place| place.join(name));
    let own = std::env::current_exe().unwrap_or_default();
    beside(&own, name, &BESIDE).or_else(|| places.find(|path| path.is_file()))
}

/// Where a program is: on the path, or where `./test` has unpacked it. Then it needs the libraries
/// of `../lib/ARCHITECTURE-linux-gnu`.
pub(crate) fn find_unpacked(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap_or_default();
    find(name).or_else(|| beside(&own, name, &[UNPACKED]))
}

/// Where a program is that `./run` has put beside the program `own`. One that somebody else may
/// have put there, as above a program in `/tmp`, is none of these.
fn beside(own: &Path, name: &str, places: &[&str]) -> Option<PathBuf> {
    // `target/release/niclab`, or a test in `target/debug/deps`.
    let above = own.ancestors().skip(1).take(3);
    let mut found =
        above.flat_map(|place| places.iter().map(move |one| place.join(one).join(name)));
    found.find(|path| path.is_file() && niclab_files::is_trusted(path))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
