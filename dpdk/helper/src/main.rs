//! The process that drives DPDK ports for niclab: questions in, answers out, one JSON line each.
//!
//! DPDK prints on standard output what it likes (a page of usage, say). So the protocol keeps that
//! pipe under another number, and what is printed goes nowhere; its errors go to standard error,
//! where niclab keeps the last lines.

#![deny(unsafe_code)]

mod arguments;
mod bed;
mod proving;
mod rings;
mod rss;
mod rules;
mod shim;
mod translate;

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::process::{self, ExitCode};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use niclab_device::dpdk::protocol::{Answer, Request};
use niclab_device::{DeviceError, Testbed};

use crate::bed::DpdkBed;

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
    let mut output = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let questions = questions();
    let mut bed = None;
    for question in questions {
        let request = serde_json::from_str(&question?)?;
        let answer = answer(&mut bed, request).unwrap_or_else(Answer::Refused);
        let mut line = serde_json::to_string(&answer)?;
        line.push('\n');
        output.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// The lines of standard input. A thread of its own waits for them: with the end of the input the
/// process ends at once, a trial under way or not, for then nobody is there to be answered.
fn questions() -> Receiver<io::Result<String>> {
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

fn answer(bed: &mut Option<DpdkBed>, request: Request) -> Result<Answer, DeviceError> {
    let early = || DeviceError::Broken {
        device: "dpdk".into(),
        reason: "asked before it was opened".into(),
    };
    match request {
        Request::Open(open) => {
            let opened = bed.insert(DpdkBed::open(&open)?);
            Ok(Answer::Opened(opened.about().clone()))
        }
        Request::Setup(setup) => bed.as_mut().ok_or_else(early)?.setup(&setup).map(Answer::Ready),
        Request::Measure(task) => {
            let observation = bed.as_mut().ok_or_else(early)?.measure(&task)?;
            Ok(Answer::Observed(Box::new(observation)))
        }
        Request::TryRules(cases) => {
            bed.as_mut().ok_or_else(early)?.try_rules(&cases).map(Answer::Tried)
        }
    }
}
