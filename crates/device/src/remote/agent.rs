//! The agent: opens a device of its host, and answers for it on standard output.

use std::io::{self, BufRead, Write};
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::files::KeptFiles;
use super::name::is_remote;
use super::protocol::{AgentAnswer, AgentRequest, Greeting, Opened, VERSION};
use crate::face::{DeviceError, HostEnvironment, Testbed};

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
    let output = Mutex::new(io::stdout());
    write(&output, &Greeting { niclab_agent: VERSION.to_owned() })?;
    let requests = requests(ended);
    let (mut bed, mut files) = (None, KeptFiles::default());
    while let Ok(Some(request)) = requests.recv() {
        let request = serde_json::from_str(&request?)?;
        let answer =
            while_signs(&output, || answer((&mut bed, &mut files), request, &environment))?;
        write(&output, &answer.unwrap_or_else(AgentAnswer::Refused))?;
    }
    Ok(())
}

/// A line of standard input; `None` is its end, or the end that was asked for.
type RequestLine = Option<io::Result<String>>;

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

fn write(output: &Mutex<io::Stdout>, line: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Works while another thread shows that it does.
fn while_signs<T>(output: &Mutex<io::Stdout>, work: impl FnOnce() -> T) -> io::Result<T> {
    let (done, waits) = channel::<()>();
    thread::scope(|scope| {
        thread::Builder::new().name("signs".to_owned()).spawn_scoped(scope, move || {
            while waits.recv_timeout(SIGN_EVERY) == Err(RecvTimeoutError::Timeout) {
                // Where nobody reads any more, the input has ended too.
                let _ = write(output, &AgentAnswer::Working);
            }
        })?;
        let result = work();
        drop(done);
        Ok(result)
    })
}

fn answer(
    (bed, files): (&mut Option<Box<dyn Testbed>>, &mut KeptFiles),
    request: AgentRequest,
    environment: &impl Fn() -> HostEnvironment,
) -> Result<AgentAnswer, DeviceError> {
    let early = || DeviceError::Broken {
        device: "agent".into(),
        reason: "asked before a device was opened".into(),
    };
    match request {
        AgentRequest::Open(name) => {
            *bed = None;
            if is_remote(&name) {
                let reason = "an agent opens devices of its own host alone".to_owned();
                return Err(DeviceError::BadName { text: name, reason });
            }
            let environment = environment();
            let about = bed.insert(crate::open(&name)?).about().clone();
            Ok(AgentAnswer::Opened(Box::new(Opened { about, environment })))
        }
        AgentRequest::Keep(part) => match files.keep(&part) {
            Ok(()) => Ok(AgentAnswer::Kept),
            Err(error) => Err(DeviceError::Broken {
                device: "agent".into(),
                reason: format!("keeping a copy of {}: {error}", part.path.display()),
            }),
        },
        AgentRequest::Setup(mut setup) => {
            files.place_setup(&mut setup);
            bed.as_mut().ok_or_else(early)?.setup(&setup).map(AgentAnswer::Ready)
        }
        AgentRequest::Measure(mut task) => {
            files.place_task(&mut task);
            let observation = bed.as_mut().ok_or_else(early)?.measure(&task)?;
            Ok(AgentAnswer::Observed(Box::new(observation)))
        }
        AgentRequest::TryRules(cases) => {
            bed.as_mut().ok_or_else(early)?.try_rules(&cases).map(AgentAnswer::Tried)
        }
    }
}
