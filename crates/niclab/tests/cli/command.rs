//! Starting the command and waiting for it, never for ever.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Far more than any of these commands takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run of about a second: the soft device, with no rule and with a few.
pub const QUICK: [&str; 12] = [
    "run",
    "occupancy",
    "--device",
    "soft",
    "--set",
    "rules=0,16",
    "--set",
    "duration_ms=5",
    "--set",
    "warmup_ms=1",
    "--repeats",
    "1",
];

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Ended {
    /// `None` where a signal killed it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// The exit code is `code`, and standard error has all the phrases.
    #[track_caller]
    pub fn with(&self, code: i32, phrases: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for phrase in phrases {
            let message = self.err.contains(phrase) || unwrapped(&self.err).contains(phrase);
            assert!(message, "`{phrase}` is missing in: {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
    }

    /// Standard output with its paragraphs in one line each: where they are broken hangs on the
    /// length of the paths that they name.
    pub fn prose(&self) -> String {
        unwrapped(&self.out)
    }
}

fn unwrapped(text: &str) -> String {
    text.replace("\n  ", " ")
}

/// A command under way.
pub struct Running {
    child: Child,
    out: File,
    err: File,
}

/// `niclab` with these arguments, not started yet; where it writes is for the caller to say.
pub fn niclab<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_niclab"));
    command.args(arguments).env_remove("COLUMNS");
    command
}

/// Starts a command that writes into files, so that it never waits for its reader.
pub fn start(mut command: Command) -> Running {
    let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let child = command.spawn().unwrap();
    Running { child, out, err }
}

/// Runs a command to its end.
pub fn run(command: Command) -> Ended {
    start(command).end()
}

/// Runs `niclab` with these arguments to its end.
pub fn call<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Ended {
    run(niclab(arguments))
}

/// A quick run into `directory`, with more arguments.
pub fn quick(directory: &Path, more: &[&str]) -> Command {
    let mut command = niclab(&QUICK);
    command.args(more).arg("-o").arg(directory);
    command
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until `so` holds; `false` where the command ended before.
    pub fn wait_until(&mut self, so: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        while !so() {
            if self.child.try_wait().unwrap().is_some() {
                return so();
            }
            assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain");
            sleep(Duration::from_millis(2));
        }
        true
    }

    pub fn end(mut self) -> Ended {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it did not end within {PATIENCE:?}: {}", text(&mut self.err));
            }
            sleep(Duration::from_millis(2));
        };
        let (out, err) = (text(&mut self.out), text(&mut self.err));
        Ended { code: status.code(), out, err }
    }
}

/// A test that fails must not leave a measurement behind.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The right to measure: one test at a time.
pub fn cores() -> MutexGuard<'static, ()> {
    static CORES: Mutex<()> = Mutex::new(());
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory for one test.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A capture of `frames` frames of `len` bytes without FCS, at least 42: IPv4 and UDP.
pub fn capture(frames: u8, len: u16, link_type: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link_type] {
        bytes.extend_from_slice(&u32::to_le_bytes(word));
    }
    for frame in 0..frames {
        for word in [1, u32::from(frame), len.into(), len.into()] {
            bytes.extend_from_slice(&u32::to_le_bytes(word));
        }
        let [ip_len, udp_len] = [len - 14, len - 34].map(u16::to_be_bytes);
        bytes.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
        bytes.extend_from_slice(&ip_len);
        bytes.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, frame, 10, 1, 0, 1]);
        bytes.extend_from_slice(&[4, 0, 8, 0]);
        bytes.extend_from_slice(&udp_len);
        bytes.resize(bytes.len() + 2 + usize::from(len) - 42, 0);
    }
    bytes
}

/// A capture of two frames of 60 bytes, of which the second comes hours after the first: a card
/// that plays it does not end by itself.
pub fn slow_capture() -> Vec<u8> {
    let mut bytes = capture(2, 60, 1);
    let second = bytes.len() - 76;
    bytes[second..second + 4].copy_from_slice(&9_000_u32.to_le_bytes());
    bytes
}

/// The same capture with only the first 46 bytes of its frames from the `first` on.
pub fn cut(frames: u8, len: u16, first: u8) -> Vec<u8> {
    const CUT: u16 = 46;
    let whole = capture(frames, len, 1);
    let (head, records) = whole.split_at(24);
    let mut bytes = head.to_vec();
    for (at, record) in records.chunks(16 + usize::from(len)).enumerate() {
        let is_cut = at >= usize::from(first);
        let captured_len = if is_cut { CUT } else { len };
        bytes.extend_from_slice(&record[..8]);
        bytes.extend_from_slice(&u32::from(captured_len).to_le_bytes());
        bytes.extend_from_slice(&record[12..16 + usize::from(captured_len)]);
    }
    bytes
}

/// A finished quick run that all tests share and none changes, and how it ended.
pub fn shared() -> &'static (PathBuf, Ended) {
    static SHARED: OnceLock<(PathBuf, Ended)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let _cores = cores();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared run");
        let _ = fs::remove_dir_all(&path);
        let batches = ["update-batch", "--set", "batch=1,16", "--set", "before_ms=20"];
        // Longer than a busy machine takes a core away for.
        let times = ["--set", "after_ms=30", "--set", "duration_ms=25"];
        let ended = run(quick(&path, &[&batches[..], &times].concat()));
        (path, ended)
    })
}

/// A copy of the shared run that a test may spoil.
pub fn copied() -> (TempDir, PathBuf) {
    let scratch = scratch();
    let path = scratch.path().join("run");
    fs::create_dir(&path).unwrap();
    for entry in fs::read_dir(&shared().0).unwrap().flatten() {
        fs::copy(entry.path(), path.join(entry.file_name())).unwrap();
    }
    (scratch, path)
}

/// Whole lines of `samples.jsonl`, as JSON.
pub fn samples(directory: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(directory.join("samples.jsonl")).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether tests that take more than ten seconds are wanted; says which one is left out.
pub fn wants_long(test: &str) -> bool {
    let wants = std::env::var_os("NICLAB_TEST_ALL").is_some();
    if !wants {
        println!("SKIP {test}: takes more than ten seconds: ./test --all");
    }
    wants
}
