//! The agent: opens a device of its host, and answers for it on standard output.

use std::cell::RefCell;
use std::io::{self, BufRead};
use std::process;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::files::KeptFiles;
use super::name::is_remote;
use super::protocol::{AgentAnswer, AgentRequest, Greeting, OpenDevice, Opened, VERSION};
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
    let requests = Rc::new(requests(ended));
    let caller = Caller::new(Rc::clone(&requests), Arc::clone(&output));
    let far: FarLink = Rc::new(RefCell::new(caller));
    let mut agent = Agent { bed: None, files: KeptFiles::default(), far };
    while let Ok(Some(request)) = requests.recv() {
        let request = serde_json::from_str(&request?)?;
        let answer = while_signs(&output, || agent.answer(request, &environment))?;
        write_line(&output, &answer.unwrap_or_else(AgentAnswer::Refused))?;
    }
    Ok(())
}

/// The lines of standard input.
fn requests(ended: Receiver<()>) -> Receiver<RequestLine> {
    let (sender, receiver) = channel();
    let other = sender.clone();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.send(Some(line)).is_err() {
                break;
            }
        }
        end(&sender);
    });
    thread::spawn(move || {
        if ended.recv().is_ok() {
            end(&other);
        }
    });
    receiver
}

/// Lets the agent end, and ends the process where it does not.
fn end(lines: &Sender<RequestLine>) {
    let _ = lines.send(None);
    thread::sleep(END_MAX);
    process::exit(0);
}

/// Works while another thread shows that it does.
fn while_signs<T>(output: &Mutex<io::Stdout>, work: impl FnOnce() -> T) -> io::Result<T> {
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
        OpenDevice { name, role }: OpenDevice,
        environment: &impl Fn() -> HostEnvironment,
    ) -> Result<AgentAnswer, DeviceError> {
        self.bed = None;
        if is_remote(&name) {
            let reason = "an agent opens devices of its own host alone".to_owned();
            return Err(DeviceError::BadName { text: name, reason });
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
