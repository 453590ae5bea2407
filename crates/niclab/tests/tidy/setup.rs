//! `scripts/setup.sh` as `./run` and `./test` use it, on a machine made of a few files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::root;

/// Every program that it may call, as a script that notes the call.
const NOTES: &str = "#!/bin/sh\necho \"$(basename \"$0\") $*\" >>\"$CALLS\"\n";

/// `apt-get` of a machine: it downloads a file for each package, and the package `with-service`
/// starts a service at boot.
const APT_GET: &str = r#"
command=$1; shift
case "$command" in
download) for one; do case $one in -*) ;; *) : >"$one.deb" ;; esac; done ;;
install) case " $* " in *" with-service "*)
    ln -s /lib/loud.service "$ETC/systemd/system/multi-user.target.wants/loud.service"
    ln -s ../init.d/loud "$ETC/rc2.d/S01loud" ;;
esac ;;
esac
"#;

/// `dpkg-deb -x FILE DIRECTORY` unpacks a program of the package's name; `-f` knows a library.
const DPKG_DEB: &str = r#"
name=$(basename "$2" .deb)
case "$1" in
-x) mkdir -p "$3/usr/bin"; echo '#!/bin/sh' >"$3/usr/bin/$name"; chmod +x "$3/usr/bin/$name" ;;
-f) echo "libc6 (>= 2.36), libevent-2.1-7 | libevent, perl" ;;
esac
"#;

/// `ldd FILE...` says of the first file that a library is missing, and much of the others. It ends
/// with an error, because one of them is a script.
const LDD: &str = r#"
echo "$1: libevent-2.1.so.7 => not found"
shift
for one; do printf "$one: libc.so.6 => /lib/libc.so.6\n%.0s" $(seq 5000); done
exit 1
"#;

/// `python3 -m venv DIRECTORY` makes a place with a Python and a pip.
const PYTHON: &str = r#"
case "$1 $2" in
"-m venv") mkdir -p "$3/bin"; for name in python pip; do cp "$0" "$3/bin/$name"; done ;;
esac
"#;

/// A machine whose `/etc` has one service that starts at boot.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        let wants = machine.path("etc/systemd/system/multi-user.target.wants");
        for directory in [wants.as_str(), &machine.path("etc/rc2.d"), &machine.path("bin")] {
            fs::create_dir_all(directory).unwrap();
        }
        symlink("/lib/systemd/system/old.service", format!("{wants}/old.service")).unwrap();
        machine.program("apt-get", APT_GET);
        machine.program("dpkg-deb", DPKG_DEB);
        for name in ["systemctl", "update-rc.d", "invoke-rc.d"] {
            machine.program(name, "");
        }
        machine.program("id", "echo 0\n");
        machine.program("ldd", LDD);
        machine
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn program(&self, name: &str, does: &str) {
        let path = self.path(&format!("bin/{name}"));
        fs::write(&path, format!("{NOTES}{does}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Carries a line out behind the script; what it said and which programs it called.
    fn does(&self, line: &str) -> (String, Vec<String>) {
        let mut bash = Command::new("bash");
        let script = format!("set -euo pipefail\n. scripts/setup.sh\netc=$ETC\n{line}");
        bash.arg("-c").arg(script).current_dir(root());
        bash.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin")));
        bash.env("CALLS", self.path("calls")).env("ETC", self.path("etc"));
        bash.env("CARGO_TARGET_DIR", self.path("target"));
        let output = bash.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{line}: {said}");
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        (said, calls.lines().map(str::to_owned).collect())
    }
}

#[test]
fn servers_are_unpacked_and_never_installed() {
    let machine = Machine::new();
    let (said, calls) = machine.does(
        "have_daemon() { false; }; want_function() { :; }\n\
                                      want_applications",
    );
    assert!(said.contains("they are not installed, and no service starts"), "{said}");
    let installed = |name: &str| {
        let is_of = |call: &&String| call.split(' ').any(|word| word == name);
        calls.iter().filter(|call| call.starts_with("apt-get install")).any(|c| is_of(&c))
    };
    for server in ["memcached", "redis-server", "redis-tools"] {
        assert!(!installed(server), "{calls:#?}");
        let program = machine.path(&format!("target/servers/usr/bin/{server}"));
        assert!(Path::new(&program).is_file(), "{program}: {calls:#?}");
    }
    // What they lack is a library, which starts nothing.
    assert!(installed("libevent-2.1-7") && !installed("perl"), "{calls:#?}");
    assert!(!Path::new(&machine.path("target/servers.part")).exists());
    // They are found there.
    machine.does("[[ :$PATH: == *:\"$(realpath \"$servers\")\"/usr/bin:* ]]");
}

#[test]
fn servers_whose_libraries_cannot_be_had_leave_nothing_behind() {
    let machine = Machine::new();
    machine.program("apt-get", &format!("[ \"$1\" != install ] || exit 1\n{APT_GET}"));
    let (said, calls) = machine.does("! unpack_servers memcached");
    assert!(calls.iter().any(|call| call.starts_with("apt-get install")), "{calls:#?}");
    assert!(said.contains("the installation failed"), "{said}");
    for left in ["target/servers.part", "target/servers"] {
        assert!(!Path::new(&machine.path(left)).exists(), "{left} is left: {said}");
    }
}

/// An `apt-cache` that knows a kernel whose modules have a package of their own.
const PACKAGES: &str = "echo \"$2\"
case $2 in
    linux-image-amd64) echo '  Depends: linux-image-6.1.0-9-x' ;;
    linux-image-*) printf '  Depends: %s\\n' linux-base kmod linux-modules-6.1.0-9-x ;;
esac
";

#[test]
fn a_kernel_for_the_guest_is_downloaded_and_never_installed() {
    let machine = Machine::new();
    machine.program("apt-cache", PACKAGES);
    let (said, calls) = machine.does("uname() { echo x86_64; }; ! want_guest");
    let of = |command: &str, name: &str| {
        let mut calls = calls.iter().filter(|call| call.starts_with(command));
        calls.any(|call| call.contains(name))
    };
    for package in ["linux-image-6.1.0-9-x", "linux-modules-6.1.0-9-x", "busybox-static"] {
        assert!(of("apt-get download", package), "{package}: {calls:#?}");
        assert!(!of("apt-get install", package), "{package}: {calls:#?}");
    }
    // That of this machine has nothing in it.
    assert!(said.contains("that failed") && said.contains("going on without tests in a"), "{said}");
    for left in ["target/guest.part", "target/guest"] {
        assert!(!Path::new(&machine.path(left)).exists(), "{left} is left: {said}");
    }
}

#[test]
fn a_service_that_a_package_brings_is_turned_off_and_others_are_left_alone() {
    let machine = Machine::new();
    let (said, calls) = machine.does("install_packages optional 'a test' with-service");
    assert!(said.contains("brought the service loud: it is stopped and does not start"), "{said}");
    for call in ["systemctl disable loud", "update-rc.d loud disable", "systemctl stop loud"] {
        assert!(calls.iter().any(|made| made == call), "`{call}` is missing: {calls:#?}");
    }
    assert!(!calls.iter().any(|call| call.contains("old")), "{calls:#?}");
    assert!(!said.contains("old"), "{said}");
}

#[test]
fn an_old_java_is_reported_and_builds_nothing() {
    let machine = Machine::new();
    machine.program("javac", "echo 'javac 11.0.2'\n");
    machine.program("mvn", "");
    let (said, calls) = machine.does("! want_storm");
    assert!(said.contains("Java 17 or newer is needed"), "{said}");
    let is_install = |call: &&String| call.starts_with("apt-get install");
    let installs: Vec<_> = calls.iter().filter(is_install).collect();
    assert!(matches!(&installs[..], [one] if one.contains(" default-jdk-headless ")), "{calls:#?}");
    assert!(!calls.iter().any(|call| call.starts_with("mvn")), "{calls:#?}");
}

#[test]
fn the_function_is_pinned_by_hash_with_all_that_it_needs() {
    let pins = fs::read_to_string(root().join("scripts/function.txt")).unwrap();
    let text = pins.replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut names = Vec::new();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        assert!(line.contains("==") && line.contains("--hash=sha256:"), "not pinned: {line}");
        names.push(line.split("==").next().unwrap().to_owned());
    }
    for name in ["functions-framework", "flask", "gunicorn", "uvicorn", "werkzeug"] {
        assert!(names.iter().any(|found| found == name), "{name} is missing in {names:?}");
    }
}

#[test]
fn python_places_are_of_pinned_wheels_and_made_anew_when_the_pins_change() {
    let machine = Machine::new();
    machine.program("python3", PYTHON);
    machine.program("apt-cache", "exit 1\n");
    let installs = || {
        let (_, calls) = machine.does("python_place function 'a test'; want_histogram_tools");
        let of_pip = calls.into_iter().filter(|call| call.starts_with("pip "));
        of_pip.collect::<Vec<String>>()
    };
    let first = installs();
    for (call, pins) in first.iter().zip(["function", "hdrhistogram"]) {
        for option in ["--require-hashes", "--only-binary :all:", &format!("scripts/{pins}.txt")] {
            assert!(call.contains(option), "`{option}` is missing: {call}");
        }
    }
    assert_eq!(first.len(), 2, "{first:#?}");
    assert_eq!(installs(), first, "what is complete is left alone");
    fs::remove_file(machine.path("target/function/function.txt")).unwrap();
    assert_eq!(installs().len(), 3, "a place that is half made");
    fs::write(machine.path("target/hdrhistogram/hdrhistogram.txt"), "hdrhistogram==0.1\n").unwrap();
    assert_eq!(installs().len(), 4, "a place of other pins");
    // Without a wheel there is none, and the reason is said.
    fs::remove_file(machine.path("target/hdrhistogram/hdrhistogram.txt")).unwrap();
    machine.program(
        "python3",
        &format!("case $0 in */pip) echo 'no wheel'; exit 1 ;; esac\n{PYTHON}"),
    );
    let (said, _) = machine.does("! want_histogram_tools");
    assert!(said.contains("no wheel\n") && said.contains("going on without tests"), "{said}");
    assert!(!Path::new(&machine.path("target/hdrhistogram")).exists());
}
