//! One Suricata: started, watched, started again when it dies, given other rules.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::child;
use super::command_socket::ask;
use super::error::EngineError;
use super::pipe::Pipe;
use super::settings::{CONFIG, Input, LOG, SOCKET};
use super::usage::Usage;

/// The line of its log by which Suricata says that it takes packets.
const STARTED: &str = "Engine started";

/// Bytes of the log that are looked at, from its end.
const LOG_LEN_MAX: u64 = 64 << 10;

/// Bytes of an event, at most; a longer one is dropped.
const EVENT_LEN_MAX: u64 = 16 << 20;

/// The pause before an engine that died is started again. It doubles with each death, up to the
/// second value, and begins anew when an engine has lived that long.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long an engine may take to read other rules: 50,000 take some ten seconds.
const RELOAD: Duration = Duration::from_secs(600);

/// How long an engine may take for other commands.
const ANSWER: Duration = Duration::from_secs(10);

/// How often an engine is asked for its packets: it counts them once a second.
const ASK: Duration = Duration::from_secs(1);

/// How long the process of an engine may be there after its socket is gone.
const DYING: Duration = Duration::from_millis(200);

/// How long an engine may take to end; then it is killed.
pub(super) const END: Duration = Duration::from_secs(60);

/// What an engine wrote.
pub(super) struct Output {
    /// The engine.
    pub(super) engine: usize,
    /// A line without its end.
    pub(super) line: Vec<u8>,
    /// Whether the engine wrote all of it.
    pub(super) is_whole: bool,
}

/// What an engine is started with.
pub(super) struct EngineSettings {
    /// Its number.
    pub(super) number: usize,
    /// Its CPU.
    pub(super) cpu: u32,
    /// The program.
    pub(super) program: PathBuf,
    /// The configuration of the user.
    pub(super) config: PathBuf,
    /// Its directory.
    pub(super) directory: PathBuf,
    /// How it gets packets.
    pub(super) input: Input,
    /// The way of the card to it, for [`Input::Pipe`].
    pub(super) pipe: Option<Pipe>,
}

/// A Suricata, or the next one if it died.
pub(super) struct Engine {
    settings: EngineSettings,
    output: SyncSender<Output>,
    state: EngineState,
    pause: Duration,
    /// The generation of rules in its directory, the one when it was started, and the one that it
    /// has.
    written: u64,
    launched: u64,
    loaded: u64,
    reload: Option<(u64, JoinHandle<Result<(), EngineError>>)>,
    /// How often it died.
    pub(super) deaths: u64,
    /// What those before have used, and this one at the last look.
    used: Usage,
    uses: Usage,
    /// Packets of this one, as it said, and when it was asked.
    packets: Option<EnginePackets>,
    asked: Instant,
    asking: Option<JoinHandle<Option<EnginePackets>>>,
    has_read_all: bool,
}

/// Packets of an engine since it was started.
#[derive(Clone, Copy, Default)]
struct EnginePackets {
    /// Those that it has inspected.
    inspected: u64,
    /// Those that the kernel dropped, because it had no room for them.
    dropped: u64,
}

enum EngineState {
    Running {
        child: Child,
        reader: JoinHandle<()>,
        since: Instant,
        /// What it had used when it was ready.
        start: Option<Usage>,
    },
    /// It is started again at this time.
    Dead { until: Instant },
    /// It has read all packets and ended.
    Ended,
}

/// What happened to an engine.
#[derive(Debug)]
pub(super) enum EngineChange {
    /// It takes packets.
    Ready,
    /// It died.
    Died(EngineError),
    /// It does not take the rules of this generation.
    Refused { generation: u64, error: EngineError },
}

impl Engine {
    /// Starts one. Its configuration and its rules are in its directory.
    ///
    /// # Errors
    /// [`EngineError::Program`].
    pub(super) fn start(
        settings: EngineSettings,
        output: SyncSender<Output>,
    ) -> Result<Engine, EngineError> {
        let (state, pause) = (EngineState::Ended, PAUSES.0);
        let mut engine = Engine {
            settings,
            output,
            state,
            pause,
            written: 1,
            launched: 1,
            loaded: 0,
            reload: None,
            deaths: 0,
            used: Usage::default(),
            uses: Usage::default(),
            packets: None,
            asked: Instant::now(),
            asking: None,
            has_read_all: false,
        };
        engine.launch()?;
        Ok(engine)
    }

    fn launch(&mut self) -> Result<(), EngineError> {
        let EngineSettings { number, cpu, program, config, directory, input, pipe } =
            &self.settings;
        let failed = |source| EngineError::Program { program: program.clone(), source };
        // The last one may have left it.
        let _ = fs::remove_file(directory.join(SOCKET));
        let _ = fs::remove_file(directory.join(LOG));
        let mut command = Command::new(program);
        // It finds the files of its configuration from here, as without niclab.
        command.arg("-c").arg(config).arg("--include").arg(directory.join(CONFIG));
        command.arg("-l").arg(directory);
        // Ctrl-C is for niclab, which ends it.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(directory.join("stderr.log")).map_err(failed)?);
        match (input, pipe) {
            (Input::Tap(name), _) => {
                command.arg(format!("--af-packet={name}")).args(["--runmode", "workers"]);
            }
            (Input::Pipe, pipe) => {
                command.args(["-r", "/dev/stdin", "--runmode", "single"]);
                let reader = pipe.as_ref().map(Pipe::make).transpose().map_err(failed)?;
                command.stdin(reader.map_or(Stdio::null(), Stdio::from));
            }
        }
        let mut child = child::spawn(&mut command, *cpu).map_err(failed)?;
        let (number, to) = (*number, self.output.clone());
        let stdout = child.stdout.take();
        let read = move || stdout.into_iter().for_each(|stdout| read_all(number, stdout, &to));
        let reader = thread::Builder::new().name(format!("events-{number}")).spawn(read);
        let reader = reader.map_err(|error| {
            let _ = child.kill();
            let _ = child.wait();
            failed(error)
        })?;
        self.state = EngineState::Running { child, reader, since: Instant::now(), start: None };
        self.launched = self.written;
        Ok(())
    }

    /// Looks after it: says what happened to it since the last time, and starts it again.
    pub(super) fn look(&mut self) -> Option<EngineChange> {
        if let Some(change) = self.look_at_reload() {
            return Some(change);
        }
        self.look_at_usage();
        self.look_at_packets();
        let directory = &self.settings.directory;
        match &mut self.state {
            EngineState::Ended => None,
            EngineState::Dead { until } if Instant::now() < *until => None,
            EngineState::Dead { .. } => match self.launch() {
                Ok(()) => None,
                Err(error) => Some(self.died(error)),
            },
            EngineState::Running { child, since, start, .. } => match child.try_wait() {
                Ok(None) if start.is_none() && has_started(directory) => {
                    *start = Some(Usage::read(child.id()).unwrap_or_default());
                    self.settings.pipe.iter().for_each(Pipe::publish);
                    self.ask_for_rules(self.launched, false);
                    Some(EngineChange::Ready)
                }
                Ok(None) => {
                    if since.elapsed() > PAUSES.1 {
                        self.pause = PAUSES.0;
                    }
                    None
                }
                Ok(Some(status)) => {
                    let error = EngineError::Ended(last_words(directory, status));
                    Some(self.died(error))
                }
                Err(source) => Some(self.died(EngineError::Command { command: "waitpid", source })),
            },
        }
    }

    /// Reads what it has used. One that has ended counts as long as nobody has waited for it.
    fn look_at_usage(&mut self) {
        if let EngineState::Running { child, start: Some(start), .. } = &self.state
            && let Some(now) = Usage::read(child.id())
        {
            let resident_bytes = self.uses.resident_bytes.max(now.resident_bytes);
            self.uses = Usage { resident_bytes, ..now.since(*start) };
        }
    }

    /// What it has used since it was ready, all that died included.
    pub(super) fn usage(&self) -> Usage {
        self.used.and(self.uses)
    }

    fn died(&mut self, error: EngineError) -> EngineChange {
        self.used = self.used.and(std::mem::take(&mut self.uses));
        self.state = EngineState::Dead { until: Instant::now() + self.pause };
        self.pause = (self.pause * 2).min(PAUSES.1);
        self.deaths += 1;
        EngineChange::Died(error)
    }

    /// Whether it takes packets.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, EngineState::Running { start: Some(_), .. })
    }

    /// Gives it rules of a generation, which have been written into its directory. It reads them
    /// while it goes on; [`Engine::has_loaded`] says when it has them.
    pub(super) fn reload(&mut self, generation: u64) {
        self.written = generation;
        // Otherwise it reads them when it starts, or when it has read those before.
        if self.is_ready() && self.reload.is_none() {
            self.ask_for_rules(generation, true);
        }
    }

    /// Asks it which rules it refuses; with `loads`, has it load those of its directory before.
    fn ask_for_rules(&mut self, generation: u64, loads: bool) {
        let directory = self.settings.directory.clone();
        let ask_it = move || {
            if loads {
                let command = "reload-rules";
                let answer = ask(&directory, command, RELOAD);
                answer.map_err(|source| EngineError::Command { command, source })?;
            }
            check_rules(&directory)
        };
        self.reload = Some((generation, thread::spawn(ask_it)));
    }

    fn look_at_reload(&mut self) -> Option<EngineChange> {
        let (generation, reload) = self.reload.take_if(|(_, reload)| reload.is_finished())?;
        let result = reload.join().unwrap_or_else(|_| {
            let source = io::Error::other("a fault of niclab");
            Err(EngineError::Command { command: "reload-rules", source })
        });
        let change = match result {
            Ok(()) => {
                self.loaded = generation;
                None
            }
            // It reads the rules of its directory when it starts again.
            Err(EngineError::Command { .. }) if self.is_dying() => None,
            Err(error) => Some(EngineChange::Refused { generation, error }),
        };
        if self.written > generation {
            self.reload(self.written);
        }
        change
    }

    /// Whether it has the rules of a generation, or later ones.
    pub(super) fn has_loaded(&self, generation: u64) -> bool {
        self.loaded >= generation && self.is_ready()
    }

    /// Whether it has ended, or does so now: its socket is gone a little before.
    fn is_dying(&mut self) -> bool {
        let EngineState::Running { child, .. } = &mut self.state else { return true };
        let until = Instant::now() + DYING;
        loop {
            match child.try_wait() {
                Ok(None) if Instant::now() < until => thread::sleep(DYING / 20),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }

    /// Asks it now and then how many packets it has inspected.
    fn look_at_packets(&mut self) {
        if let Some(asking) = self.asking.take_if(|asking| asking.is_finished()) {
            self.packets = asking.join().ok().flatten().or(self.packets);
        }
        if self.is_ready() && self.asking.is_none() && self.asked.elapsed() >= ASK {
            let directory = self.settings.directory.clone();
            self.asked = Instant::now();
            self.asking = Some(thread::spawn(move || packets(&directory)));
        }
    }

    /// Packets that it has inspected since it was started, as far as it has said. One that was
    /// started again has inspected none before it says so.
    pub(super) fn inspected(&self) -> Option<u64> {
        Some(self.without_own(self.packets?.inspected))
    }

    /// The same, and those that the kernel dropped because the engine was too slow.
    pub(super) fn counted(&self) -> Option<u64> {
        let EnginePackets { inspected, dropped } = self.packets?;
        Some(self.without_own(inspected + dropped))
    }

    /// A count of packets without niclab's own frames.
    fn without_own(&self, count: u64) -> u64 {
        count.saturating_sub(self.settings.pipe.as_ref().map_or(0, Pipe::own_frames))
    }

    /// Takes the count of packets that a dead engine has inspected. Later counts begin at none.
    pub(super) fn take_inspected(&mut self) -> Option<u64> {
        let inspected = self.inspected();
        (self.packets, self.asking) = (Some(EnginePackets::default()), None);
        inspected
    }

    /// Packets that it has inspected at the end of a run: all `given` packets if it has read its
    /// pipe to the end.
    pub(super) fn inspected_at_end(&self, given: u64) -> Option<u64> {
        if self.has_read_all { Some(given) } else { self.inspected() }
    }

    /// Its process, if it has one.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            EngineState::Running { child, .. } => Some(child.id()),
            EngineState::Dead { .. } | EngineState::Ended => None,
        }
    }

    /// Tells it to end. One that reads a pipe ends with that.
    pub(super) fn ask_to_end(&self) {
        if let (Input::Tap(_), Some(pid)) = (&self.settings.input, self.pid())
            && let Some(pid) = Pid::from_raw(pid as i32)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Whether its process is gone and all that it wrote was read. An engine that died is not
    /// started again then.
    pub(super) fn is_gone(&mut self) -> bool {
        self.look_at_usage();
        let (is_gone, status) = match &mut self.state {
            EngineState::Running { child, reader, .. } => match child.try_wait() {
                Ok(Some(status)) => (reader.is_finished(), Some(status)),
                _ => (false, None),
            },
            EngineState::Dead { .. } | EngineState::Ended => (true, None),
        };
        if let (true, Some(status)) = (is_gone, status) {
            self.has_read_all = status.success() && self.settings.input == Input::Pipe;
            self.deaths += u64::from(!status.success());
            self.state = EngineState::Ended;
        }
        is_gone
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        if let EngineState::Running { child, .. } = &mut self.state {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.state = EngineState::Ended;
        let (unused, _) = sync_channel(0);
        self.output = unused;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_file(self.settings.directory.join(SOCKET));
    }
}

/// Sends all lines that an engine writes, until it ends.
fn read_all(engine: usize, stdout: ChildStdout, to: &SyncSender<Output>) {
    let mut reader = BufReader::with_capacity(1 << 16, stdout);
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(EVENT_LEN_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(len) if len > 0) {
            return;
        }
        let is_whole = line.pop_if(|last| *last == b'\n').is_some();
        // Nobody listens any more.
        if to.send(Output { engine, line, is_whole }).is_err() {
            return;
        }
    }
}

/// Asks an engine for its packets. It has counted them up to 3 s before.
fn packets(directory: &Path) -> Option<EnginePackets> {
    let counters = ask(directory, "dump-counters", ANSWER).ok()?;
    let count = |path| counters.pointer(path)?.as_u64();
    let dropped = count("/capture/kernel_drops").unwrap_or(0);
    Some(EnginePackets { inspected: count("/decoder/pkts")?, dropped })
}

/// Refuses rules that an engine has not taken.
fn check_rules(directory: &Path) -> Result<(), EngineError> {
    let command = "ruleset-failed-rules";
    let answer = ask(directory, command, ANSWER);
    let answer = answer.map_err(|source| EngineError::Command { command, source })?;
    let failed = answer.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(first) = failed.first() else { return Ok(()) };
    let rule = first.get("rule").and_then(Value::as_str).unwrap_or_default().to_owned();
    let log = tail(&directory.join(LOG));
    // The last line says that the rule is wrong, and the one before it why.
    let mut errors = log.lines().rev().filter_map(|line| line.split_once("Error: "));
    let reason = errors.nth(1).map(|(_, reason)| reason.trim().to_owned()).unwrap_or_default();
    Err(EngineError::Rules { count: failed.len(), rule, reason })
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        io::Seek::seek(&mut file, io::SeekFrom::Start(len.saturating_sub(LOG_LEN_MAX)))?;
        let mut bytes = Vec::new();
        file.take(LOG_LEN_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

fn has_started(directory: &Path) -> bool {
    tail(&directory.join(LOG)).contains(STARTED)
}

/// How a process ended, and the last line in which it speaks of an error.
fn last_words(directory: &Path, status: ExitStatus) -> String {
    let end = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    };
    if status.signal().is_some() {
        return end;
    }
    let said = tail(&directory.join(LOG)) + &tail(&directory.join("stderr.log"));
    match said.lines().rfind(|line| line.contains("Error") || line.contains("error")) {
        Some(line) => format!("{end}; {}", line.trim()),
        None => end,
    }
}
