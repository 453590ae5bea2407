//! `niclab agent`: measures devices of this host for a niclab on another one.

use std::sync::mpsc::{Receiver, channel};
use std::thread;

use niclab_device::{Fact, HostEnvironment, remote};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::environment;
use crate::failure::Failure;

/// Answers requests until standard input ends, or a signal ends it.
pub fn run() -> Result<(), Failure> {
    Ok(remote::serve(environment, signals()?)?)
}

/// Hears of the first signal that is to end the agent.
fn signals() -> Result<Receiver<()>, Failure> {
    let (sender, receiver) = channel();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.forever().next();
        let _ = sender.send(());
    })?;
    Ok(receiver)
}

/// This host, for the results of the other one.
fn environment() -> HostEnvironment {
    let read = environment::read();
    let facts = read.facts.into_iter().map(|(name, value)| Fact { name, value }).collect();
    HostEnvironment { place: String::new(), facts, noise: read.noise }
}
