//! Readiness as systemd asks for it: when it is reported, and that the units are in order.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::command::{call, niclab, run, scratch, slow_capture, start};

/// The next thing that a service reports.
fn reported(manager: &UnixDatagram) -> String {
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut state = [0; 100];
    let len = manager.recv(&mut state).unwrap();
    String::from_utf8_lossy(&state[..len]).into_owned()
}

#[test]
fn a_store_is_ready_when_it_listens_and_reports_its_end() {
    let scratch = scratch();
    let path = scratch.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command = niclab(&["kvs", "--listen", &free]);
    command.env("NOTIFY_SOCKET", &path);
    let running = start(command);
    assert_eq!(reported(&manager), "READY=1");
    TcpStream::connect(&free).expect("it listens");
    running.signal(Signal::TERM);
    assert_eq!(reported(&manager), "STOPPING=1");
    running.end().with(0, &[]);
}

#[test]
fn a_card_reports_readiness_when_it_answers_and_reports_its_end() {
    let scratch = scratch();
    let name = format!("niclab-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    fs::write(scratch.path().join("slow.pcap"), slow_capture()).unwrap();
    let mut command = niclab(&["nic", "--port", "pcap:in=slow.pcap", "--control", "card"]);
    command.env("NOTIFY_SOCKET", format!("@{name}")).current_dir(scratch.path());
    let running = start(command);
    assert_eq!(reported(&manager), "READY=1");
    let socket = scratch.path().join("card");
    UnixStream::connect(&socket).expect("it listens");
    call(&["nic", "ctl", "--control", socket.to_str().unwrap(), "stop"]).with(0, &[]);
    assert_eq!(reported(&manager), "STOPPING=1");
    running.end().with(0, &[]);
}

#[test]
fn a_service_that_does_not_start_is_never_ready() {
    let scratch = scratch();
    let path = scratch.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _taken = TcpListener::bind(taken).unwrap();
    let mut command = niclab(&["kvs", "--listen", &taken.to_string()]);
    command.env("NOTIFY_SOCKET", &path);
    run(command).with(9, &["is in use"]);
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0; 100]).is_err(), "nothing was reported");
    // A socket of a kind that is unknown here does not end a card.
    let mut command = niclab(&["nic", "--port", "pcap:out=/dev/null", "--seconds", "0"]);
    command.env("NOTIFY_SOCKET", "vsock:2:1234");
    run(command).with(0, &["the socket of NOTIFY_SOCKET cannot be notified"]);
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    let test = "systemd_finds_no_fault_in_the_units";
    let scratch = scratch();
    let mut paths = Vec::new();
    for name in ["niclab-nic.service", "niclab-kvs.service"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd").join(name);
        // The command is where it was built.
        let unit = fs::read_to_string(path).unwrap();
        let built = env!("CARGO_BIN_EXE_niclab");
        fs::write(scratch.path().join(name), unit.replace("/usr/bin/niclab", built)).unwrap();
        paths.push(scratch.path().join(name));
    }
    let mut command = Command::new("systemd-analyze");
    let Ok(ended) = command.args(["verify", "--man=no"]).args(&paths).output() else {
        println!("SKIP {test}: no systemd-analyze (apt-get install systemd)");
        return;
    };
    let message = String::from_utf8_lossy(&ended.stderr);
    let faults: Vec<&str> = message.lines().filter(|line| line.contains("niclab-")).collect();
    assert!(faults.is_empty(), "{message}");
}
