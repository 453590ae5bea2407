//! Bulk data between the two hosts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use niclab_load::stream::{
    Received, Receiver, ReceiverPart, SenderPart, Sent, StreamError, Window, connect,
};

use super::hosts::{End, Hosts, Wire};
use crate::cores::{Pinned, allowed};
use crate::face::{DeviceError, StreamObservation, Streaming};
use crate::usage::CoreUse;

/// How long before its window all threads have started, at least.
const START: Duration = Duration::from_millis(5);

impl Hosts {
    /// Lets one host send to the other, from threads of its own on cores of its own, to such.
    pub fn stream(
        &self,
        streaming: &Streaming,
        run: u32,
    ) -> Result<StreamObservation, DeviceError> {
        let asked = &streaming.stream;
        asked.check().map_err(broken)?;
        let (source, target) = self.sides(streaming.client);
        let first = [source.core, target.core];
        let [sender_cores, receiver_cores] = shared_out(first, &allowed(), asked.threads)?;
        let _source = source.steered(&sender_cores)?;
        let _target = target.steered(&receiver_cores)?;
        let receiver = within(target, || Receiver::bind(target.address(Wire::Plain), asked, run))?;
        let senders = within(source, || connect(asked, receiver.addresses(), run))?;
        let receivers = receiver.parts().map_err(broken)?;
        let warmup_ns = asked.warmup_ns.max(START.as_nanos() as u64);
        let window = Window::from_now(warmup_ns, asked.duration_ns);
        let (sent, received, used) =
            carry((senders, &sender_cores), (receivers, &receiver_cores), window);
        let used = used.map_err(|e| super::refused("reading the use of cores", &e))?;
        let (sender_cores, receiver_cores) = used;
        let nothing = received.bytes == 0 && received.ended.is_none();
        let ended = nothing.then(|| "nothing came through in the measured part".to_owned());
        let received = Received { ended: received.ended.or(ended), ..received };
        Ok(StreamObservation { sent, received, sender_cores, receiver_cores })
    }
}

/// Shares cores out to two hosts, each of which has its first one.
fn shared_out(first: [u32; 2], allowed: &[u32], each: u16) -> Result<[Vec<u32>; 2], DeviceError> {
    // A host has its core however few the calling thread may use.
    if each == 1 {
        return Ok(first.map(|core| vec![core]));
    }
    let (needed, available) = (2 * u32::from(each), allowed.len() as u32);
    if needed > available {
        let capability = format!("{needed} cores ({available} may be used here)");
        return Err(DeviceError::lacks(capability));
    }
    let mut cores = first.map(|core| vec![core]);
    let others = allowed.iter().filter(|core| !first.contains(core));
    for (at, &core) in others.take(needed as usize - 2).enumerate() {
        cores[at % 2].push(core);
    }
    Ok(cores)
}

/// Carries out what opens sockets, where these are to be.
fn within<T: Send>(
    end: &End,
    open: impl FnOnce() -> Result<T, StreamError> + Send,
) -> Result<T, DeviceError> {
    let opened = end.netns.within(open);
    opened.map_err(|e| super::refused("a host's sockets", &e))?.map_err(broken)
}

type CoreUses = (Vec<CoreUse>, Vec<CoreUse>);

/// Starts all threads and waits for them; meanwhile this one reads what the cores are busy with,
/// when the window begins and when it is over.
fn carry(
    (senders, sender_cores): (Vec<SenderPart>, &[u32]),
    (receivers, receiver_cores): (Vec<ReceiverPart>, &[u32]),
    window: Window,
) -> (Sent, Received, std::io::Result<CoreUses>) {
    let stop = &AtomicBool::new(false);
    let pinned = |core: Option<&u32>| core.map(|&core| Pinned::to(core));
    thread::scope(|scope| {
        let receiving = receivers.into_iter().enumerate().map(|(at, part)| {
            let core = receiver_cores.get(at);
            let work = move || {
                let _pinned = pinned(core);
                part.run(window, stop)
            };
            started(thread::Builder::new().name("receiver".into()).spawn_scoped(scope, work), stop)
        });
        let receiving: Vec<_> = receiving.collect();
        let sending = senders.into_iter().enumerate().map(|(at, part)| {
            let core = sender_cores.get(at);
            let work = move || {
                let _pinned = pinned(core);
                part.run(window, stop)
            };
            started(thread::Builder::new().name("sender".into()).spawn_scoped(scope, work), stop)
        });
        let sending: Vec<_> = sending.collect();
        let read = || Ok((CoreUse::read(sender_cores)?, CoreUse::read(receiver_cores)?));
        window.wait_begin();
        let before = read();
        let gone = |why| Sent { ended: Some(why), ..Sent::default() };
        let sent = sending.into_iter().map(|part| ended(part).unwrap_or_else(gone));
        let sent = Sent::of(sent.collect());
        let after = read();
        let gone = |why| Received { ended: Some(why), ..Received::default() };
        let received = receiving.into_iter().map(|part| ended(part).unwrap_or_else(gone));
        let received = Received::of(received.collect());
        (sent, received, passed(before, after))
    })
}

/// A thread, or why there is none; the others end then.
type StartedThread<'scope, T> = Result<ScopedJoinHandle<'scope, T>, String>;

fn started<'scope, T>(
    thread: std::io::Result<ScopedJoinHandle<'scope, T>>,
    stop: &AtomicBool,
) -> StartedThread<'scope, T> {
    thread.map_err(|error| {
        stop.store(true, Ordering::Relaxed);
        format!("no thread for it ({error}): raise the limit with `ulimit -u`")
    })
}

/// The result of a thread, or its error.
fn ended<T>(thread: StartedThread<'_, T>) -> Result<T, String> {
    thread?.join().map_err(|_| "a thread panicked".to_owned())
}

/// The difference of two readings.
fn passed(
    before: std::io::Result<CoreUses>,
    after: std::io::Result<CoreUses>,
) -> std::io::Result<CoreUses> {
    let (before, after) = (before?, after?);
    let since = |after: &[CoreUse], before: &[CoreUse]| {
        after.iter().zip(before).map(|(after, before)| after.since(before)).collect()
    };
    Ok((since(&after.0, &before.0), since(&after.1, &before.1)))
}

/// Converts an error of sender or receiver.
fn broken(error: StreamError) -> DeviceError {
    match error {
        StreamError::Range { .. } => DeviceError::BadLoad { reason: error.to_string() },
        StreamError::Socket { .. } => {
            DeviceError::Broken { device: "stream".into(), reason: error.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_keep_their_first_core_and_get_others_in_turn() {
        let all = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(shared_out([0, 1], &all, 1), Ok([vec![0], vec![1]]));
        assert_eq!(shared_out([0, 1], &[1], 1), Ok([vec![0], vec![1]]));
        assert_eq!(shared_out([0, 1], &all, 3), Ok([vec![0, 2, 4], vec![1, 3, 5]]));
        assert_eq!(shared_out([6, 2], &all, 2), Ok([vec![6, 0], vec![2, 1]]));
        let error = shared_out([0, 1], &all, 4).unwrap_err();
        assert_eq!(error.to_string(), "not supported: 8 cores (7 may be used here)");
    }
}
