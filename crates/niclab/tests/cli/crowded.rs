//! `serve echo` with many clients, few threads, few descriptors, and clients that read no answers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};

use crate::command::{cores, niclab, run, wants_long};
use crate::echo::{Server, measure};

/// What `start` says of a server that a launcher such as `prlimit` starts.
fn start_under(launcher: &[&str], options: &[&str]) -> Server {
    let command = niclab(&["serve", "echo", "--bind", "127.0.0.1:0"]);
    let mut under = Command::new(launcher[0]);
    under.args(&launcher[1..]).arg(command.get_program()).args(command.get_args()).args(options);
    Server::of(under)
}

/// `true` where this test can start programs by `launcher`.
fn can_launch(test: &str, launcher: &[&str]) -> bool {
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]).arg(niclab(&["--version"]).get_program()).arg("--version");
    let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can = ended.is_ok_and(|status| status.success());
    if !can {
        println!("SKIP {test}: cannot run niclab by `{}`", launcher.join(" "));
    }
    can
}

/// Lets this process hold so many connections.
fn hold(descriptors: u64) {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(descriptors);
    assert!(most >= descriptors, "the hard limit of descriptors is {most}");
    if limit.current.is_some_and(|now| now < descriptors) {
        let raised = Rlimit { current: Some(descriptors), maximum: limit.maximum };
        rustix::process::setrlimit(Resource::Nofile, raised).unwrap();
    }
}

impl Server {
    /// CPU time that it has had so far, milliseconds.
    fn cpu_ms(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let behind_name = stat.rsplit_once(") ").unwrap().1;
        let ticks = behind_name.split(' ').skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>() * 1_000
            / rustix::param::clock_ticks_per_second()
    }

    /// CPU time that it has in the next `time`, milliseconds.
    fn cpu_ms_in(&self, time: Duration) -> u64 {
        let before = self.cpu_ms();
        sleep(time);
        self.cpu_ms() - before
    }

    fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// It serves a client over TCP.
    fn assert_serves(&self) {
        let ended = run(measure(&self.address, &["--transport", "tcp", "--json"]));
        ended.with(0, &[]);
        let observed: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert!(observed["answered"].as_u64() > Some(0), "{observed:#}");
    }

    fn connect(&self, count: usize) -> Vec<TcpStream> {
        (0..count).map(|_| TcpStream::connect(&self.address).unwrap()).collect()
    }
}

const RECEIVES: [&str; 3] = ["blocking", "busy-poll", "epoll"];

#[test]
fn idle_connections_keep_nobody_out_and_have_no_threads() {
    if !wants_long("idle_connections_keep_nobody_out_and_have_no_threads") {
        return;
    }
    let _cores = cores();
    hold(2_000);
    for receive in RECEIVES {
        let server = start_under(
            &["prlimit", "--nofile=4096"],
            &["--receive", receive, "--transport", "tcp", "--idle-timeout", "2"],
        );
        let idle = server.connect(1_100);
        server.assert_serves();
        // A thread for signals, loops, those of connections that asked.
        assert!(server.threads() < 40, "{receive}: {} threads", server.threads());
        sleep(Duration::from_millis(1_200));
        let spent_ms = server.cpu_ms_in(Duration::from_secs(1));
        assert!(spent_ms < 200, "{receive}: {spent_ms} ms of CPU for idle connections");
        sleep(Duration::from_secs(1));
        for mut stream in idle {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let closed = stream.read(&mut [0]);
            let is_closed = match &closed {
                Ok(count) => *count == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            };
            assert!(is_closed, "{receive}: open for longer than the time-out: {closed:?}");
        }
        server.assert_serves();
        let message = server.stop();
        assert!(
            message.contains("1,102 connections, 1,100 of them closed by the server"),
            "{message}"
        );
    }
}

#[test]
fn a_server_without_descriptors_waits_and_recovers() {
    let _cores = cores();
    let server = start_under(&["prlimit", "--nofile=40"], &["--transport", "tcp"]);
    // Those that never asked make room for those behind them.
    let idle = server.connect(100);
    server.assert_serves();
    drop(idle);
    // Those that ask all the time do not.
    let mut busy = server.connect(60);
    let (stop, ask) = (AtomicBool::new(false), request(64));
    let asking = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        stream.write_all(&ask).is_ok() && stream.read(&mut [0; 4_096]).is_ok()
    };
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut answers = 0;
            while !stop.load(Ordering::Relaxed) {
                answers += busy.iter_mut().filter_map(|one| asking(one).then_some(())).count();
                sleep(Duration::from_millis(100));
            }
            answers
        });
        sleep(Duration::from_millis(500));
        let spent_ms = server.cpu_ms_in(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        let answers = asking.join().unwrap();
        assert!(spent_ms < 300, "{spent_ms} ms of CPU in a second without descriptors");
        assert!(answers > 100, "{answers} answers");
    });
    drop(busy);
    server.assert_serves();
    server.stop();
}

#[test]
fn a_server_without_threads_serves_all_the_same() {
    let test = "a_server_without_threads_serves_all_the_same";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root, to be a user who has no other threads");
        return;
    }
    let user = ["setpriv", "--reuid=64917", "--regid=64917", "--clear-groups", "prlimit"];
    if !can_launch(test, &[&user[..], &["--nproc=64"]].concat()) {
        return;
    }
    let _cores = cores();
    // Threads for signals, for UDP and for TCP.
    let launcher = [&user[..], &["--nproc=3"]].concat();
    let server = start_under(&launcher, &[]);
    let idle = server.connect(20);
    for mut stream in &idle {
        stream.write_all(&request(64)).unwrap();
        stream.read_exact(&mut [0; 64]).unwrap();
    }
    server.assert_serves();
    run(measure(&server.address, &["--transport", "udp"])).with(0, &[]);
    assert_eq!(server.threads(), 3);
    server.stop();
    // Without any it says so.
    let serve = niclab(&["serve", "echo", "--bind", "127.0.0.1:0"]);
    let mut command = Command::new("setpriv");
    command.args(&user[1..]).arg("--nproc=2").arg(serve.get_program());
    command.args(serve.get_args());
    run(command).with(9, &["no thread", "ulimit -u"]);
}

#[test]
fn a_client_that_reads_no_answers_costs_no_time_and_is_closed_at_last() {
    if !wants_long("a_client_that_reads_no_answers_costs_no_time_and_is_closed_at_last") {
        return;
    }
    let _cores = cores();
    for receive in ["blocking", "busy-poll", "epoll", "io-uring"] {
        let mut probe = niclab(&["measure", "echo", "--duration-ms", "1", "--receive", receive]);
        probe.args(["--server", "127.0.0.1:9"]);
        if receive == "io-uring" && run(probe).err.contains("no io_uring") {
            println!("SKIP a_client_that_reads_no_answers: io-uring: none here");
            continue;
        }
        let options = ["--receive", receive, "--transport", "tcp", "--idle-timeout", "3"];
        let mut command = niclab(&["serve", "echo", "--bind", "127.0.0.1:0"]);
        command.args(options);
        let server = Server::of(command);
        let mut deaf = server.connect(1).remove(0);
        deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        while deaf.write_all(&request(60_000)).is_ok() {}
        // It has a thread of its own for a second.
        sleep(Duration::from_millis(1_300));
        let spent_ms = server.cpu_ms_in(Duration::from_millis(500));
        assert!(spent_ms < 100, "{receive}: {spent_ms} of 500 ms of CPU");
        server.assert_serves();
        sleep(Duration::from_millis(2_500));
        let message = server.stop();
        assert!(
            message.contains("connections, 1 of them closed by the server"),
            "{receive}: {message}"
        );
    }
}

/// A request of so many bytes.
fn request(len: u16) -> Vec<u8> {
    use niclab_packet::echo::{MessageHeader, MessageKind};
    let mut bytes = vec![0; len.into()];
    MessageHeader { kind: MessageKind::Request, len, run: 1, number: 0 }.write(&mut bytes);
    bytes
}
