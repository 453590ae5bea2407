//! Programs start in the right place, report their output, and end with all their children.

use std::net::Ipv4Addr;

use super::*;
use crate::cores::allowed;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Starts a script here, or says why that is not tried.
fn started(script: &str) -> Option<Program> {
    match Program::start(&NetNs::current(), &allowed()[..1], shell(script)) {
        Err(DeviceError::Rights { what, .. }) => {
            println!("SKIP programs_of_others: {what} needs more rights");
            None
        }
        program => Some(program.unwrap()),
    }
}

#[test]
fn it_runs_on_its_core_as_the_first_process_and_says_what_it_said() {
    let script = "echo $$; grep Cpus_allowed_list /proc/self/status";
    let Some(program) = started(script) else { return };
    let message = program.wait(Duration::from_secs(10)).unwrap();
    let core = allowed()[0];
    assert_eq!(message, format!("1\nCpus_allowed_list:\t{core}\n"));
}

#[test]
fn its_files_are_seen_by_it_alone() {
    let files = [("said.txt", "by it alone\n")];
    let script = shell("cat /dev/shm/said.txt; echo more > /dev/shm/more.txt; ls /dev/shm");
    let cores = &allowed()[..1];
    let program = match Program::start_with(&NetNs::current(), cores, script, &files) {
        Err(DeviceError::Rights { what, .. }) => {
            return println!("SKIP its_files_are_seen_by_it_alone: {what} needs more rights");
        }
        program => program.unwrap(),
    };
    let message = program.wait(Duration::from_secs(10)).unwrap();
    assert_eq!(message, "by it alone\nmore.txt\nsaid.txt\n");
    let is_here = |name: &str| Path::new(FILES).join(name).exists();
    assert!(!is_here("said.txt") && !is_here("more.txt"));
}

#[test]
fn its_children_end_with_it() {
    let Some(program) = started("sleep 1000 & sleep 1000 & wait") else { return };
    let of_it = |pid: u32| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let pids = std::fs::read_to_string(path).unwrap_or_default();
        pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
    };
    let until = Instant::now() + Duration::from_secs(10);
    while of_it(program.pid()).len() < 2 {
        assert!(Instant::now() < until && program.is_running(), "it starts its children");
        thread::sleep(LOOK);
    }
    let mut all = of_it(program.pid());
    all.push(program.pid());
    drop(program);
    // The kernel takes the namespace's others away while it ends the first.
    for pid in all {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
    }
}

#[test]
fn each_error_has_its_own_message() {
    let Some(mut program) = started("echo cannot bind >&2; exit 3") else { return };
    let nowhere = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1);
    let error = program.wait_for_listener(&NetNs::current(), nowhere).unwrap_err();
    let DeviceError::Broken { device, reason } = error else { panic!("{error:?}") };
    assert_eq!(
        (device.as_str(), reason.as_str()),
        ("sh", "it ended with 3; its output: cannot bind")
    );

    let late = started("sleep 1000").unwrap().wait(Duration::from_millis(50)).unwrap_err();
    assert!(late.to_string().contains("has not ended"), "{late}");

    let missing = Command::new("no-such-server");
    let error = Program::start(&NetNs::current(), &[0], missing).unwrap_err();
    assert_eq!(error, DeviceError::lacks("no-such-server"));
    assert_eq!(find("no-such-server"), None);
}

#[test]
fn a_server_that_somebody_else_may_have_put_there_is_not_found() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("release/niclab");
    let place = directory.path().join("servers/usr/bin");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("memcached"), "").unwrap();
    let mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(directory.path().join("servers"), permissions).unwrap();
    };
    mode(0o755);
    assert_eq!(beside(&own, "memcached", &BESIDE), Some(place.join("memcached")));
    mode(0o777);
    assert_eq!(beside(&own, "memcached", &BESIDE), None);
}

#[test]
fn a_port_is_taken_when_a_program_has_it() {
    let table = "  sl  local_address rem_address   st\n 1231: 020012C6:2B67 00000000:0000 07\n";
    assert!(is_taken(table, 11111));
    assert!(!is_taken(table, 0));
    assert!(!is_taken(table, 0x2b66));

    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let Some(mut program) = started("sleep 1000") else { return };
    program.wait_for_port(&NetNs::current(), Sockets::Udp, port).unwrap();
    drop(program);
    // It has ended before it took anything.
    let mut program = started("exit 0").unwrap();
    let error = program.wait_for_port(&NetNs::current(), Sockets::Tcp, 1).unwrap_err();
    assert!(error.to_string().contains("it ended with 0"), "{error}");
}
