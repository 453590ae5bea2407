//! `niclab agent`: measures devices of this host for a niclab on another one.

use std::sync::mpsc::{Receiver, channel};
use std::thread;

use niclab_device::remote;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::environment;
use crate::failure::Failure;

/// Answers requests until standard input ends, or a signal ends it.
pub fn run() -> Result<(), Failure> {
    Ok(remote::serve(environment::this_host, signals()?)?)
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
