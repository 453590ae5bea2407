//! The process that drives DPDK ports for niclab: questions in, answers out, one JSON line each.
//!
//! DPDK prints on standard output what it likes (a page of usage, say). So the protocol keeps that
//! pipe under another number, and what is printed goes nowhere; its errors go to standard error,
//! where niclab keeps the last lines.

#![deny(unsafe_code)]

mod arguments;
mod bed;
mod pools;
mod proving;
mod rings;
mod rss;
mod rules;
mod shim;
mod tester;
mod translate;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::process::{self, ExitCode};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use niclab_device::dpdk::protocol::{Answer, Request};
use niclab_device::two_hosts::{Caller, FarLink, RequestLine, Role, write_line};
use niclab_device::{DeviceError, Testbed};

use crate::bed::DpdkBed;
use crate::tester::DpdkTester;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // The last line that niclab quotes.
            let _ = writeln!(io::stderr(), "niclab-dpdk: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let output = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let (questions, output) = (Rc::new(questions()), Arc::new(Mutex::new(output)));
    let caller = Caller::new(Rc::clone(&questions), Arc::clone(&output));
    let far: FarLink = Rc::new(RefCell::new(caller));
    let mut bed = None;
    while let Ok(question) = questions.recv() {
        let request = serde_json::from_str(&question?)?;
        let answer = answer(&mut bed, request, &far).unwrap_or_else(Answer::Refused);
        write_line(&output, &answer)?;
    }
    Ok(())
}

/// The lines of standard input. A thread of its own waits for them: with the end of the input the
/// process ends at once, a trial under way or not, for then nobody is there to be answered.
fn questions() -> Receiver<RequestLine> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
        process::exit(0)
    });
    receiver
}

fn answer(
    bed: &mut Option<Box<dyn Testbed>>,
    request: Request,
    far: &FarLink,
) -> Result<Answer, DeviceError> {
    match request {
        Request::Open(open) => {
            let opened: Box<dyn Testbed> = match open.role {
                Role::Tester => Box::new(DpdkTester::open(&open)?),
                Role::Whole | Role::Device => Box::new(DpdkBed::open(&open, Rc::clone(far))?),
            };
            Ok(Answer::Opened(bed.insert(opened).about().clone()))
        }
        Request::Setup(setup) => opened(bed)?.setup(&setup).map(Answer::Ready),
        Request::Measure(task) => {
            let observation = opened(bed)?.measure(&task)?;
            Ok(Answer::Observed(Box::new(observation)))
        }
        Request::TryRules(cases) => opened(bed)?.try_rules(&cases).map(Answer::Tried),
        Request::MeasureHalf(task) => opened(bed)?.measure_half(&task).map(Answer::Half),
        Request::Far(_) | Request::Signal(_) => {
            Err(broken("an answer or a signal that nobody waits for"))
        }
    }
}

fn opened(bed: &mut Option<Box<dyn Testbed>>) -> Result<&mut Box<dyn Testbed>, DeviceError> {
    bed.as_mut().ok_or_else(|| broken("asked before it was opened"))
}

fn broken(reason: &str) -> DeviceError {
    DeviceError::Broken { device: "dpdk".into(), reason: reason.into() }
}
