//! The client: sends by a closed or an open loop, and receives the answers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use niclab_packet::echo::{MessageHeader, MessageKind, Stamp};

use super::datagrams::Datagrams;
use super::stamping::StampedDatagrams;
use super::stream::Stream;
use super::tally::EchoTally;
use super::{
    Echo, EchoError, Echoed, MessageStamps, PATIENCE_NS, Pace, SILENCE_NS, Transport,
    check_by_socket, core_now, now_ns,
};

/// Sends messages to `server` as `echo` says, until its time is over or `stop` is set, and says
/// what became of them. `run` tells its messages from those of others and of earlier trials.
///
/// A server that falls silent ends it early; what was measured until then is returned. Where
/// `passages` are asked for, programs stamp messages, and the stamps of those that came back are
/// kept.
///
/// # Errors
/// [`EchoError`], of a server that never answers above all.
pub fn run(
    echo: &Echo,
    server: SocketAddr,
    run: u32,
    stop: &AtomicBool,
    mut passages: Option<&mut MessageStamps>,
) -> Result<Echoed, EchoError> {
    echo.check()?;
    let by_socket = passages.as_ref().is_some_and(|passages| passages.by_socket);
    if by_socket {
        check_by_socket(Some(echo.transport), echo.receive, echo.batch)?;
    }
    let wire = match echo.transport {
        Transport::Udp if by_socket => Wire::Stamped(StampedDatagrams::new(echo, server)?),
        Transport::Udp => Wire::Udp(Datagrams::new(echo, server)?),
        Transport::Tcp => Wire::Tcp(Stream::new(echo, server)?),
    };
    if let Some(passages) = &mut passages {
        passages.client = wire.address();
    }
    let tally = EchoTally::new(echo.pace != Pace::Closed);
    let mut client = Client { echo, wire, run, stop, tally, passages, heard_ns: 0 };
    let start_ns = now_ns();
    client.heard_ns = start_ns;
    let begin_ns = start_ns + echo.warmup_ns;
    let end_ns = begin_ns + echo.duration_ns;
    let ended = match echo.pace {
        Pace::Closed => client.closed(begin_ns, end_ns),
        Pace::Open { per_s } => client.open(start_ns, begin_ns, end_ns, per_s),
    };
    let now_ns = now_ns();
    let has_answers = client.tally.has_answers();
    let ended = match ended {
        // What answers nothing is no server, however short the time was.
        Ok(()) if !has_answers => return Err(EchoError::Silent { server }),
        Ok(()) => None,
        Err(_) if !has_answers => return Err(EchoError::Nobody { server }),
        Err(error) => Some(words(&error, now_ns.saturating_sub(start_ns))),
    };
    let planned = match echo.pace {
        Pace::Closed => 0,
        Pace::Open { per_s } => planned(echo, per_s),
    };
    let duration_ns = now_ns.min(end_ns).saturating_sub(begin_ns).max(1);
    Ok(client.tally.end(planned, duration_ns, ended))
}

/// Why a client ended before its time.
fn words(error: &io::Error, after_ns: u64) -> String {
    let after_s = after_ns as f64 / 1e9;
    let why = match error.kind() {
        io::ErrorKind::TimedOut => {
            format!("it answers no more, for {} s", SILENCE_NS / 1_000_000_000)
        }
        io::ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
        io::ErrorKind::ConnectionRefused => "nobody listens there any more".to_owned(),
        io::ErrorKind::Interrupted => return "stopped".to_owned(),
        _ => error.to_string(),
    };
    format!("the server was lost after {after_s:.1} s: {why}")
}

/// Messages of an open loop that are due in its measured part, as whole batches.
fn planned(echo: &Echo, per_s: f64) -> u64 {
    let batches = |ns: u64| due_count(ns, gap_ns(echo, per_s));
    let end = batches(echo.warmup_ns + echo.duration_ns);
    (end - batches(echo.warmup_ns)) * u64::from(echo.batch)
}

/// Time between two batches, nanoseconds.
fn gap_ns(echo: &Echo, per_s: f64) -> f64 {
    f64::from(echo.batch) / per_s * 1e9
}

/// Batches due before `ns` have passed; the first one is due at once.
fn due_count(ns: u64, gap_ns: f64) -> u64 {
    (ns as f64 / gap_ns).ceil() as u64
}

enum Wire {
    Udp(Datagrams),
    Stamped(StampedDatagrams),
    Tcp(Stream),
}

impl Wire {
    fn address(&self) -> Option<SocketAddr> {
        match self {
            Wire::Udp(wire) => wire.address(),
            Wire::Stamped(wire) => wire.address(),
            Wire::Tcp(wire) => wire.address(),
        }
    }

    fn write(&mut self, run: u32, first: u32) {
        match self {
            Wire::Udp(wire) => wire.write(run, first),
            Wire::Stamped(wire) => wire.write(run, first),
            Wire::Tcp(wire) => wire.write(run, first),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        match self {
            Wire::Udp(wire) => wire.send(),
            Wire::Stamped(wire) => wire.send(),
            Wire::Tcp(wire) => wire.send(),
        }
    }
}

struct Client<'a> {
    echo: &'a Echo,
    wire: Wire,
    run: u32,
    stop: &'a AtomicBool,
    tally: EchoTally,
    passages: Option<&'a mut MessageStamps>,
    /// When an answer was there last.
    heard_ns: u64,
}

impl Client<'_> {
    /// Sends a batch that was due at `due_ns`, or is due now.
    fn send(&mut self, due_ns: Option<u64>) -> io::Result<()> {
        let first = self.tally.next();
        self.wire.write(self.run, first);
        let called_ns = now_ns();
        let sent = self.wire.send();
        self.tally.sent(self.echo.batch.into(), due_ns.unwrap_or(called_ns), called_ns);
        sent
    }

    /// Takes what is there, after having waited for it until `until_ns` at most.
    fn receive(&mut self, until_ns: u64) -> io::Result<()> {
        let (run, size, tally) = (self.run, self.echo.size, &mut self.tally);
        let passages = &mut self.passages;
        let mut now = None;
        let mut each = |message: &mut [u8]| {
            let now_ns = *now.get_or_insert_with(now_ns);
            match MessageHeader::of_datagram(message) {
                Ok(MessageHeader { kind: MessageKind::Reply, len, run: of, number })
                    if (of, len) == (run, size) =>
                {
                    if let (Some(passages), Some(sent_ns)) =
                        (passages.as_deref_mut(), tally.called_ns(number))
                    {
                        let at = |time_ns| Stamp { time_ns, core: core_now() };
                        passages.keep(number, message, at(sent_ns), at(now_ns));
                    }
                    tally.answered(number, now_ns);
                }
                _ => tally.foreign(),
            }
        };
        match &mut self.wire {
            Wire::Udp(wire) => wire.receive(until_ns, &mut each)?,
            Wire::Stamped(wire) => wire.receive(until_ns, &mut each)?,
            Wire::Tcp(wire) => wire.receive(until_ns, &mut each)?,
        };
        if let Some(now_ns) = now {
            self.heard_ns = now_ns;
        }
        Ok(())
    }

    /// Gives up where the server has been silent for too long, or the caller says so.
    fn check(&self, now_ns: u64) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let is_silent = self.tally.waiting > 0 && now_ns > self.heard_ns + SILENCE_NS;
        if is_silent { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    fn closed(&mut self, begin_ns: u64, end_ns: u64) -> io::Result<()> {
        let mut unheard = 0;
        loop {
            let sent_ns = now_ns();
            if sent_ns >= begin_ns {
                self.tally.measure();
            }
            if sent_ns >= end_ns {
                return Ok(());
            }
            self.send(None)?;
            let until_ns = sent_ns + PATIENCE_NS;
            while self.tally.waiting > 0 {
                self.receive(until_ns)?;
                let now_ns = now_ns();
                if now_ns >= until_ns {
                    break;
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            unheard = if self.tally.give_up() { unheard + 1 } else { 0 };
            if unheard > 0 && now_ns() > self.heard_ns + SILENCE_NS {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn open(&mut self, start_ns: u64, begin_ns: u64, end_ns: u64, per_s: f64) -> io::Result<()> {
        let gap_ns = gap_ns(self.echo, per_s);
        let due_at = |batch: u64| start_ns + (batch as f64 * gap_ns) as u64;
        let mut batch = 0;
        loop {
            let (due_ns, now) = (due_at(batch), now_ns());
            if due_ns >= begin_ns {
                self.tally.measure();
            }
            if due_ns >= end_ns || now >= end_ns {
                break;
            }
            if now >= due_ns {
                self.send(Some(due_ns))?;
                batch += 1;
            }
            // One that is late looks for answers as well, but does not wait for them.
            self.receive(due_at(batch).min(end_ns))?;
            self.check(now)?;
        }
        let until_ns = now_ns().max(end_ns) + PATIENCE_NS;
        while self.tally.waiting > 0 && now_ns() < until_ns {
            self.receive(until_ns)?;
            self.check(0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Receive;
    use super::*;

    #[test]
    fn batches_are_due_at_equal_distances_from_the_start_on() {
        let echo = Echo {
            transport: Transport::Udp,
            size: 64,
            batch: 10,
            receive: Receive::Blocking,
            pace: Pace::Open { per_s: 10_000.0 },
            duration_ns: 10_000_000,
            warmup_ns: 2_500_000,
        };
        // Every millisecond: those at 0, 1 and 2 ms warm up, those at 3 to 12 ms count.
        assert_eq!(planned(&echo, 10_000.0), 100);
        assert_eq!(planned(&Echo { warmup_ns: 0, ..echo }, 10_000.0), 100);
    }
}
