//! The agent: opens a device of its host, and answers for it on standard output.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::cores::here;
use super::files::KeptFiles;
use super::name::is_remote;
use super::output::QueuedOutput;
use super::protocol::{
    AgentAnswer, AgentRequest, Greeting, OpenDevice, Opened, SIGN, SIGN_EVERY, SILENCE_MAX, VERSION,
};
use crate::cores::restrict;
use crate::face::{DeviceError, HostEnvironment, Testbed};
use crate::two_hosts::{Caller, FarLink, RequestLine, write_line};

/// How long a trial may go on when nobody waits for its result any more.
const END_MAX: Duration = Duration::from_secs(10);

/// How long the last answer may take to be read.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(1);

/// Answers the requests on standard input until it ends, until nothing came for ten seconds, or
/// until `ended` says so. `environment` describes this host.
///
/// Then it closes the device: its host is as it was. A trial under way may first come to its end,
/// for at most ten seconds.
///
/// # Errors
/// Of standard output; a request that cannot be read.
pub fn serve(environment: impl Fn() -> HostEnvironment, ended: Receiver<()>) -> io::Result<()> {
    let output = Arc::new(Mutex::new(QueuedOutput::start(io::stdout())));
    write_line(&output, &Greeting { niclab_agent: VERSION.to_owned(), host: here() })?;
    let requests = Rc::new(requests(ended));
    let caller = Caller::new(Rc::clone(&requests), Arc::clone(&output));
    let far: FarLink = Rc::new(RefCell::new(caller));
    let mut agent = Agent { bed: None, files: KeptFiles::default(), far };
    while let Ok(request) = requests.recv() {
        let request = serde_json::from_str(&request?)?;
        let answer = while_signs(&output, || agent.answer(request, &environment))?;
        write_line(&output, &answer.unwrap_or_else(AgentAnswer::Refused))?;
    }
    drop(agent);
    output.lock().unwrap_or_else(PoisonError::into_inner).finish(LAST_ANSWER_MAX);
    Ok(())
}

/// The lines of standard input that are requests.
fn requests(ended: Receiver<()>) -> Receiver<RequestLine> {
    let (sender, receiver) = channel();
    let requests = Requests(Arc::new(Mutex::new(Some(sender))));
    let (by_signal, by_silence) = (requests.clone(), requests.clone());
    let silence = Silence::default();
    let input = WatchedInput { input: io::stdin(), silence: silence.clone() };
    thread::spawn(move || {
        let lines = BufReader::new(input).lines();
        let mut lines = lines.filter(|line| !matches!(line, Ok(line) if line == SIGN));
        while lines.next().is_some_and(|line| requests.add(line)) {}
        requests.end();
    });
    thread::spawn(move || {
        if ended.recv().is_ok() {
            by_signal.end();
        }
    });
    thread::spawn(move || {
        silence.wait_for(SILENCE_MAX);
        by_silence.end();
    });
    receiver
}

/// Where requests come from, until somebody ends them.
#[derive(Clone)]
struct Requests(Arc<Mutex<Option<Sender<RequestLine>>>>);

impl Requests {
    /// Adds a request; `false` where there are to be no more.
    fn add(&self, line: RequestLine) -> bool {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|sender| sender.send(line).is_ok())
    }

    /// Disconnects whoever waits for requests, so that the agent ends; ends the process where the
    /// agent does not.
    fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        thread::sleep(END_MAX);
        process::exit(0);
    }
}

/// Signs of life that are missing. Whoever asks may be gone although the input has not ended, for
/// example where its host has lost the network.
///
/// It counts periods in which this process ran, not time: signs that came while it was stopped are
/// still to be read.
#[derive(Clone, Default)]
struct Silence(Arc<AtomicU32>);

impl Silence {
    fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns when the silence has lasted this long.
    fn wait_for(&self, most: Duration) {
        while SIGN_EVERY * self.0.fetch_add(1, Ordering::Relaxed) < most {
            thread::sleep(SIGN_EVERY);
        }
    }
}

/// Input that ends the silence with each byte.
struct WatchedInput<R> {
    input: R,
    silence: Silence,
}

impl<R: Read> Read for WatchedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.silence.end();
        Ok(read)
    }
}

/// Works while another thread shows that it does.
fn while_signs<T>(output: &Mutex<impl Write + Send>, work: impl FnOnce() -> T) -> io::Result<T> {
    let (done, waits) = channel::<()>();
    thread::scope(|scope| {
        thread::Builder::new().name("signs".to_owned()).spawn_scoped(scope, move || {
            while waits.recv_timeout(SIGN_EVERY) == Err(RecvTimeoutError::Timeout) {
                // Where nobody reads any more, the input has ended too.
                let _ = write_line(output, &AgentAnswer::Working);
            }
        })?;
        let result = work();
        drop(done);
        Ok(result)
    })
}

/// The device that is open, and what it needs.
struct Agent {
    bed: Option<Box<dyn Testbed>>,
    files: KeptFiles,
    far: FarLink,
}

impl Agent {
    fn bed(&mut self) -> Result<&mut Box<dyn Testbed>, DeviceError> {
        let reason = "asked before a device was opened".to_owned();
        self.bed.as_mut().ok_or(DeviceError::Broken { device: "agent".into(), reason })
    }

    fn open(
        &mut self,
        OpenDevice { name, role, cores }: OpenDevice,
        environment: &impl Fn() -> HostEnvironment,
    ) -> Result<AgentAnswer, DeviceError> {
        self.bed = None;
        if is_remote(&name) {
            let reason = "an agent opens devices of its own host alone".to_owned();
            return Err(DeviceError::BadName { text: name, reason });
        }
        if let Some(cores) = cores {
            restrict(&name, &cores)?;
        }
        let environment = environment();
        let bed = crate::open_half(&name, role, Rc::clone(&self.far))?;
        let about = self.bed.insert(bed).about().clone();
        Ok(AgentAnswer::Opened(Box::new(Opened { about, environment })))
    }

    fn answer(
        &mut self,
        request: AgentRequest,
        environment: &impl Fn() -> HostEnvironment,
    ) -> Result<AgentAnswer, DeviceError> {
        let broken = |reason: String| DeviceError::Broken { device: "agent".into(), reason };
        match request {
            AgentRequest::Open(device) => self.open(device, environment),
            AgentRequest::Keep(part) => match self.files.keep(&part) {
                Ok(()) => Ok(AgentAnswer::Kept),
                Err(e) => Err(broken(format!("keeping a copy of {}: {e}", part.path.display()))),
            },
            AgentRequest::Setup(mut setup) => {
                self.files.place_setup(&mut setup);
                self.bed()?.setup(&setup).map(AgentAnswer::Ready)
            }
            AgentRequest::Measure(mut task) => {
                self.files.place_task(&mut task);
                let observation = self.bed()?.measure(&task)?;
                Ok(AgentAnswer::Observed(Box::new(observation)))
            }
            AgentRequest::TryRules(cases) => self.bed()?.try_rules(&cases).map(AgentAnswer::Tried),
            AgentRequest::MeasureHalf(mut task) => {
                self.files.place_half(&mut task);
                self.bed()?.measure_half(&task).map(AgentAnswer::Half)
            }
            AgentRequest::Far(_) | AgentRequest::Signal(_) => {
                Err(broken("an answer or a signal that nobody waits for".to_owned()))
            }
        }
    }
}
