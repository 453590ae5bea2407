//! A host that is reached by ssh: a real sshd of the test's own, on loopback.
//!
//! sshd wants a user and a directory that a machine without it lacks. So it runs in a mount
//! namespace with a `passwd`, a `shadow` and a `/run/sshd` of its own, which go with it.

use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::command::{niclab, scratch};

const PATIENCE: Duration = Duration::from_secs(20);

/// Names of the host, as if it were two.
pub const NAMES: &str = "host-a host-b";

/// The host while it is up.
pub struct SshHost {
    server: Child,
    port: u16,
    place: TempDir,
}

/// A file of that text which its owner alone may use.
fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Where sshd is: installed, or unpacked for tests.
fn find_sshd() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../servers/usr/sbin/sshd");
    [PathBuf::from("/usr/sbin/sshd"), unpacked].into_iter().find(|path| path.is_file())
}

impl SshHost {
    /// Brings a host up on which `niclab` is in the PATH, unless it is to be deployed there; says
    /// why that cannot be.
    pub fn start(has_niclab: bool) -> Result<SshHost, String> {
        SshHost::start_in(has_niclab, None)
    }

    /// The same in a network namespace, with sessions on one core.
    pub fn start_in(has_niclab: bool, within: Option<(&str, u32)>) -> Result<SshHost, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("a mount namespace needs root".into());
        }
        let sshd = find_sshd().ok_or("sshd is missing")?;
        let place = scratch();
        let path = |name: &str| place.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(place.path().join(key));
            let made = make.stdin(Stdio::null()).status();
            if !made.is_ok_and(|status| status.success()) {
                return Err("ssh-keygen is missing".into());
            }
        }
        let port = free_port();
        fs::copy(place.path().join("user.pub"), place.path().join("authorized")).unwrap();
        fs::create_dir(place.path().join("tmp")).unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().display();
        let programs = if has_niclab { format!("{programs}:") } else { String::new() };
        let mut config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             Subsystem sftp internal-sftp\n\
             SetEnv PATH={programs}/usr/bin:/bin:/usr/sbin:/sbin TMPDIR={}\n",
            path("host"),
            path("authorized"),
            path("tmp"),
        );
        // From 9.8 and 10.0 on sshd starts programs beside it.
        let libexec = sshd.parent().and_then(Path::parent).unwrap().join("lib/openssh");
        for (option, program) in
            [("SshdSessionPath", "sshd-session"), ("SshdAuthPath", "sshd-auth")]
        {
            let program = libexec.join(program);
            if program.is_file() {
                config += &format!("{option} {}\n", program.display());
            }
        }
        write(&place.path().join("config"), &config, 0o600);
        let host_key = fs::read_to_string(place.path().join("host.pub")).unwrap();
        write(&place.path().join("known"), &format!("[127.0.0.1]:{port} {host_key}"), 0o600);
        let client = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n\
             StrictHostKeyChecking yes\nLogLevel ERROR\n{}\
             Host {NAMES}\nHostName 127.0.0.1\nPort {port}\nUser root\n",
            path("user"),
            path("known"),
            within.map_or(String::new(), |(namespace, _)| way_into(namespace)),
        );
        write(&place.path().join("client"), &client, 0o600);
        fs::create_dir(place.path().join("bin")).unwrap();
        for name in ["ssh", "scp"] {
            let program = which(name).ok_or_else(|| format!("{name} is missing"))?;
            let program = program.display();
            let wrapper = format!("#!/bin/sh\nexec {program} -F {} \"$@\"\n", path("client"));
            write(&place.path().join("bin").join(name), &wrapper, 0o755);
        }
        let server = serve(&sshd, place.path(), within)?;
        let mut host = SshHost { server, port, place };
        host.wait_until_up(within)?;
        Ok(host)
    }

    fn wait_until_up(&mut self, within: Option<(&str, u32)>) -> Result<(), String> {
        let begun = Instant::now();
        let is_up = |port| match within {
            None => TcpStream::connect(("127.0.0.1", port)).is_ok(),
            Some((namespace, _)) => is_open_in(namespace, port),
        };
        while !is_up(self.port) {
            let log = self.place.path().join("log");
            let log = || fs::read_to_string(&log).unwrap_or_default();
            if let Ok(Some(status)) = self.server.try_wait() {
                return Err(format!("sshd ended: {status}: {}", log()));
            }
            assert!(begun.elapsed() < PATIENCE, "sshd does not answer: {}", log());
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// A device there.
    pub fn device(&self, device: &str) -> String {
        format!("ssh://root@127.0.0.1:{}={device}", self.port)
    }

    /// `niclab` with the right keys.
    pub fn niclab<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = niclab(arguments);
        command.env("PATH", self.path());
        command
    }

    /// A PATH whose `ssh` and `scp` have the right keys, and reach the host by its two names.
    pub fn path(&self) -> String {
        let before = env::var("PATH").unwrap_or_default();
        format!("{}:{before}", self.place.path().join("bin").display())
    }

    /// Takes the right to log in away.
    pub fn forget_key(&self) {
        fs::write(self.place.path().join("authorized"), "").unwrap();
    }

    /// Files for a while that are on the host now.
    pub fn left(&self) -> usize {
        fs::read_dir(self.place.path().join("tmp")).unwrap().count()
    }

    /// Ends sshd; sessions go on.
    pub fn stop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

impl Drop for SshHost {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts sshd in its namespace, with its files of users.
fn serve(sshd: &Path, place: &Path, within: Option<(&str, u32)>) -> Result<Child, String> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let others = passwd.lines().filter(|line| !line.starts_with("sshd:"));
    let passwd: Vec<&str> = others.chain(["sshd:x:65533:65534::/run/sshd:/bin/false"]).collect();
    write(&place.join("passwd"), &(passwd.join("\n") + "\n"), 0o644);
    write(&place.join("shadow"), "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n", 0o600);
    fs::create_dir(place.join("run")).unwrap();
    fs::create_dir(place.join("run/sshd")).unwrap();
    let script = format!(
        "cd {} && mount --bind passwd /etc/passwd && mount --bind shadow /etc/shadow && \
         mount --bind run /run && exec {} -D -e -f $PWD/config 2>log",
        place.display(),
        sshd.display()
    );
    let mut command = match within {
        None => Command::new("unshare"),
        Some((namespace, core)) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace, "taskset", "-c"]);
            command.args([&core.to_string(), "unshare"]);
            command
        }
    };
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| format!("unshare: {error}"))
}

/// How ssh reaches loopback of a namespace: by bash's own connections.
fn way_into(namespace: &str) -> String {
    format!(
        "ProxyCommand ip netns exec {namespace} bash -c 'exec 3<>/dev/tcp/127.0.0.1/%p; \
         cat <&3 & cat >&3; kill $!'\n"
    )
}

fn is_open_in(namespace: &str, port: u16) -> bool {
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "bash", "-c", &connect]);
    command.stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn which(program: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|path| path.join(program)).find(|path| path.is_file())
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
