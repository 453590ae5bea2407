//! The agent: opens a device of its host, and answers for it on standard output.

use std::cell::RefCell;
use std::io::{self, BufRead};
use std::process;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::files::KeptFiles;
use super::name::is_remote;
use super::protocol::{
    AgentAnswer, AgentRequest, Greeting, OpenDevice, Opened, SILENCE_MAX, VERSION,
};
use crate::cores;
use crate::face::{DeviceError, HostEnvironment, Testbed};
use crate::two_hosts::{Caller, FarLink, RequestLine, write_line};

/// How often the agent shows that it works on a request.
const SIGN_EVERY: Duration = Duration::from_secs(1);

/// How long a trial may go on when nobody waits for its result any more.
const END_MAX: Duration = Duration::from_secs(10);

/// Answers the requests on standard input until it ends, or until `ended` says so. `environment`
/// describes this host.
///
/// The device is closed then: its host is as it was. A trial under way may first come to its end,
/// for at most ten seconds.
///
/// # Errors
/// Of standard output; a request that cannot be read.
pub fn serve(environment: impl Fn() -> HostEnvironment, ended: Receiver<()>) -> io::Result<()> {
    let output = Arc::new(Mutex::new(io::stdout()));
    write_line(&output, &Greeting { niclab_agent: VERSION.to_owned() })?;
    let heard = Heard::default();
    let (requests, lines) = requests(ended, &heard);
    let requests = Rc::new(requests);
    let caller = Caller::new(Rc::clone(&requests), Arc::clone(&output));
    let far: FarLink = Rc::new(RefCell::new(caller));
    let mut agent = Agent { bed: None, files: KeptFiles::default(), far };
    while let Ok(Some(request)) = requests.recv() {
        let request = serde_json::from_str(&request?)?;
        let signs = Signs { output: &output, heard: &heard, lines: &lines };
        let answer = signs.during(|| agent.answer(request, &environment))?;
        write_line(&output, &answer.unwrap_or_else(AgentAnswer::Refused))?;
    }
    Ok(())
}

/// When somebody was last heard on standard input.
#[derive(Clone)]
struct Heard(Arc<Mutex<Instant>>);

impl Default for Heard {
    fn default() -> Heard {
        Heard(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Heard {
    fn last(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of standard input that are requests, and their other end.
fn requests(ended: Receiver<()>, heard: &Heard) -> (Receiver<RequestLine>, Sender<RequestLine>) {
    let (sender, receiver) = channel();
    let (of_input, of_signal) = (sender.clone(), sender.clone());
    let heard = heard.clone();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            *heard.last() = Instant::now();
            let is_sign = line
                .as_ref()
                .is_ok_and(|line| matches!(serde_json::from_str(line), Ok(AgentRequest::Waiting)));
            if !is_sign && of_input.send(Some(line)).is_err() {
                break;
            }
        }
        end(&of_input);
    });
    thread::spawn(move || {
        if ended.recv().is_ok() {
            end(&of_signal);
        }
    });
    (receiver, sender)
}

/// Lets the agent end, and ends the process where it does not.
fn end(lines: &Sender<RequestLine>) {
    let _ = lines.send(None);
    thread::sleep(END_MAX);
    process::exit(0);
}

/// The signs of both sides while the agent works.
struct Signs<'a> {
    output: &'a Mutex<io::Stdout>,
    heard: &'a Heard,
    lines: &'a Sender<RequestLine>,
}

impl Signs<'_> {
    /// Works while another thread shows that it does, and ends the process where nobody waits for
    /// that any more.
    fn during<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let (done, waits) = channel::<()>();
        let Signs { output, heard, lines } = *self;
        thread::scope(|scope| {
            thread::Builder::new().name("signs".to_owned()).spawn_scoped(scope, move || {
                while waits.recv_timeout(SIGN_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if heard.last().elapsed() > SILENCE_MAX {
                        end(lines);
                    }
                    // Where nobody reads any more, the input has ended too.
                    let _ = write_line(output, &AgentAnswer::Working);
                }
            })?;
            let result = work();
            drop(done);
            Ok(result)
        })
    }
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
        OpenDevice { name, role, others }: OpenDevice,
        environment: &impl Fn() -> HostEnvironment,
    ) -> Result<AgentAnswer, DeviceError> {
        self.bed = None;
        if is_remote(&name) {
            let reason = "an agent opens devices of its own host alone".to_owned();
            return Err(DeviceError::BadName { text: name, reason });
        }
        let machine = machine();
        if let Some(others) = others.filter(|others| others.machine == machine) {
            cores::leave(&name, &others.cores)?;
        }
        let environment = environment();
        let bed = crate::open_half(&name, role, Rc::clone(&self.far))?;
        let about = self.bed.insert(bed).about().clone();
        Ok(AgentAnswer::Opened(Box::new(Opened { about, environment, machine })))
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
            AgentRequest::Far(_) | AgentRequest::Signal(_) | AgentRequest::Waiting => {
                Err(broken("an answer or a signal that nobody waits for".to_owned()))
            }
        }
    }
}

/// A word for the running kernel: agents with the same one share its cores.
fn machine() -> String {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot_id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
