//! Clients, servers and runs that are killed at any moment: nothing of them is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::query::ProgInfoIter;

use crate::command::{call, cores, niclab, scratch, wants_long};

/// How often something is killed.
const KILLS: u64 = 50;

/// How the names of processes begin, as the kernel has them: niclab's own, and servers'.
const OURS: [&str; 5] = ["niclab", "memcached", "redis-server", "functions-frame", "gunicorn"];

/// How long the kernel may take to clear up behind a process.
const PATIENCE: Duration = Duration::from_secs(20);

/// What measurements make on a machine.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    /// Programs in the kernel, by number and name.
    programs: BTreeSet<(u32, String)>,
    /// Network namespaces that a process or a descriptor holds.
    namespaces: BTreeSet<String>,
    /// Interfaces, as the namespace of this process has them.
    interfaces: BTreeSet<String>,
    /// Processes of niclab and of servers that it starts.
    processes: BTreeSet<String>,
    /// Files of niclab among those for a while.
    files: BTreeSet<String>,
}

impl Machine {
    fn look() -> Machine {
        let named = |path: &str| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let (mut namespaces, mut processes) = (BTreeSet::new(), BTreeSet::new());
        for process in named("/proc").filter(|name| name.parse::<u32>().is_ok()) {
            let at = Path::new("/proc").join(&process);
            namespaces.extend(link(&at.join("ns/net")));
            let fds = fs::read_dir(at.join("fd")).into_iter().flatten().flatten();
            namespaces.extend(fds.filter_map(|fd| link(&fd.path())).filter(|to| is_net(to)));
            let is_ours = |name: String| OURS.iter().any(|ours| name.starts_with(ours));
            if fs::read_to_string(at.join("comm")).is_ok_and(is_ours) {
                processes.insert(process);
            }
        }
        let program = |program: libbpf_rs::query::ProgramInfo| {
            (program.id, program.name.to_string_lossy().into_owned())
        };
        Machine {
            programs: ProgInfoIter::default().map(program).collect(),
            namespaces,
            interfaces: named("/sys/class/net").collect(),
            processes,
            files: ["/tmp", "/dev/shm"]
                .into_iter()
                .flat_map(named)
                .filter(|name| is_file(name))
                .collect(),
        }
    }

    /// What is there now and was not before. Other tests go on meanwhile: what they take away is
    /// nothing left over.
    fn new_since(self, before: &Machine) -> Machine {
        Machine {
            programs: &self.programs - &before.programs,
            namespaces: &self.namespaces - &before.namespaces,
            interfaces: &self.interfaces - &before.interfaces,
            processes: &self.processes - &before.processes,
            files: &self.files - &before.files,
        }
    }

    fn is_empty(&self) -> bool {
        let Machine { programs, namespaces, interfaces, processes, files } = self;
        programs.is_empty()
            && namespaces.is_empty()
            && interfaces.is_empty()
            && processes.is_empty()
            && files.is_empty()
    }

    /// Waits until nothing is there that was not before.
    fn is_again(&self) {
        let start = Instant::now();
        loop {
            let new = Machine::look().new_since(self);
            if new.is_empty() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "left over: {new:#?}");
            sleep(Duration::from_millis(50));
        }
    }
}

fn is_file(name: &str) -> bool {
    name.starts_with("niclab-")
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn link(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.to_string_lossy().into_owned())
}

fn is_net(to: &str) -> bool {
    to.starts_with("net:[")
}

fn started(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_process_killed_at_any_moment_leaves_nothing() {
    let test = "a_process_killed_at_any_moment_leaves_nothing";
    if !wants_long(test) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return;
    }
    let _cores = cores();
    let scratch = scratch();
    let before = Machine::look();
    let mut observed = [false; 4];
    for kill in 0..KILLS {
        let run = |experiment: &str| {
            let mut command = niclab(&["run", experiment, "--device", "linux:veth"]);
            command.arg("-o").arg(scratch.path().join(kill.to_string()));
            command
        };
        let serve = || niclab(&["serve", "echo", "--bind", "127.0.0.1:17907"]);
        let client = |more: &[&str]| {
            let mut command = niclab(&["measure", "echo", "--duration-ms", "60000"]);
            command.args(more);
            command
        };
        let to = ["--server", "127.0.0.1:17907", "--transport", "tcp"];
        // Niclab as a whole, with its own server or that of an application; a client and a server
        // in one; a server, and a client beside it.
        let application = ["memcached", "redis", "function"][kill as usize / 4 % 3];
        let commands = match kill % 4 {
            0 => vec![run("echo-ledger")],
            1 => vec![client(&[])],
            2 => vec![run(application)],
            _ => vec![serve(), client(&to)],
        };
        let mut running: Vec<Child> = commands
            .into_iter()
            .map(|command| {
                let child = started(command);
                sleep(Duration::from_millis(30));
                child
            })
            .collect();
        // Moments spread over the first two seconds, none twice: a run watches the cores for one.
        sleep(Duration::from_millis(kill * 389 % 2_000));
        let new = Machine::look().new_since(&before);
        observed[0] |= !new.programs.is_empty();
        observed[1] |= !new.namespaces.is_empty();
        observed[2] |= !new.processes.is_empty();
        observed[3] |= new.processes.len() > running.len();
        if kill % 8 == 7 {
            running.reverse();
        }
        for child in &mut running {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
    let has_servers = ["memcached", "redis-server"].map(is_installed);
    if has_servers == [false; 2] {
        println!("SKIP part of {test}: neither memcached nor redis-server is installed");
        observed[3] = true;
    }
    assert_eq!(observed, [true; 4], "what is looked for was never there");
    before.is_again();
    let ended = call(&["doctor", "--clean"]);
    assert_eq!(ended.out, "nothing was left over\n", "{ended:?}");
}
