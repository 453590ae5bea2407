//! Panes of tuples that lie in memory, by a card of as many cores as there are workers.
//!
//! A pane is counted pass by pass, and a pass has up to three parts. In the first, one thread lets
//! all cores of the card take the frames. With `dma` the tuples are in the workers' rings then.
//! Otherwise the hosts have kept the frames; in the second part each core has a thread that takes
//! them, as `niclab analytics` does, and hands the tuples over. In the third part workers count.
//! After the last pass of a pane all sources say that it has ended, and the workers rank.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use niclab_analytics::cost::WorkStep;
use niclab_analytics::definition::Query;
use niclab_analytics::rank::KeyCount;
use niclab_analytics::window::Windows;
use niclab_apps::service::Service;
use niclab_card::{Card, CardConfig, CardWorkload, Core};
use niclab_nic::limits::BURST;

use super::super::at_once::{Barrier, on_cores};
use super::super::broken;
use super::super::kept_frames::FrameMemory;
use super::super::replay::Replay;
use super::expected::ExpectedWindows;
use super::gate::thread_ns;
use super::host::SharedHost;
use super::load::{Counted, LONGEST, PASSES, TupleLoad};
use super::workers::{GatedEngine, Observed, Reception, StartedWorkers};
use crate::cores::Pinned;
use crate::counting::{Counting, TupleMode};
use crate::face::DeviceError;

/// Length and slide of the windows, nanoseconds of event time: the slide is the length of a pane.
const LENGTH_NS: u64 = 4_000_000_000;
const SLIDE_NS: u64 = 1_000_000_000;
/// Keys of a result.
const TOP: usize = 10;
/// The first pane that has tuples: no window ends before it.
const FIRST_PANE: u64 = 100;
/// Rounds of turns after the last frame: a core takes a frame that another core has given it up to
/// two rounds later.
const LAST_ROUNDS: usize = 4;
/// Most time of the workers for a pane, and time between two checks whether they are done.
const PANE_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_micros(100);
/// Rounds in which all sources are known.
const GREETINGS: usize = 8;

/// Times of a pane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PaneTimes {
    /// By core: time on its CPU as receiver and as worker, nanoseconds.
    pub(super) cores_ns: Vec<u64>,
    /// By step of all cores as receivers: time by the clock, nanoseconds.
    pub(super) receiving_ns: [u64; WorkStep::ALL.len()],
    /// Time of all cores as receivers, nanoseconds.
    pub(super) received_ns: u64,
    /// Time of the card's own work, nanoseconds.
    pub(super) card_ns: u64,
    /// From the first frame that says that the pane has ended to the result of its window, where
    /// nothing else is left to be done then; nanoseconds.
    pub(super) result_ns: Option<u64>,
}

/// Workers, the card in front of them, and the tuples for them.
pub(super) struct StagedWorkers {
    load: TupleLoad,
    expected: ExpectedWindows,
    /// The next pane.
    pane: u64,
    pub(super) windows: u64,
    pub(super) wrong: u64,
    pub(super) frames: u64,
    pub(super) observed: Observed,
    engine: GatedEngine,
    reception: Reception,
    card: Card,
    cores: Vec<Core>,
    hosts: Vec<Arc<SharedHost>>,
    /// By core: where its thread keeps to; none: wherever there is room.
    pinned: Vec<Option<u32>>,
    port: Replay,
}

impl StagedWorkers {
    /// Workers on the cores of `allowed`, behind a card.
    pub(super) fn new(
        of: &Counting,
        (allowed, is_pinned): (&[u32], bool),
    ) -> Result<StagedWorkers, DeviceError> {
        let workers = usize::from(of.workers);
        let load = TupleLoad::new(&of.workload, (of.mode, workers), SLIDE_NS)?;
        let windows = Windows::new(LENGTH_NS, SLIDE_NS).map_err(broken)?;
        let query = Query { stream: 0, windows, top: TOP };
        let observed = Observed::new(workers);
        let started = observed.start(of.mode, query, &allowed[..workers], load.sources())?;
        let StartedWorkers { engine, program, services, reception } = started;
        let memory = match of.mode {
            TupleMode::Dma => FrameMemory::new(1, LONGEST),
            TupleMode::Rss | TupleMode::Steer => FrameMemory::new(load.frames_max(), LONGEST),
        }?;
        let shared_host = |service: Box<dyn Service>| SharedHost::new(service, &memory);
        let hosts: Vec<Arc<SharedHost>> = services.into_iter().map(shared_host).collect();
        let services = hosts.iter().map(SharedHost::service).collect();
        let ports = Replay::ports(vec![Vec::new(); load.frames_max()], 1);
        let port = ports[0].clone();
        let config = CardConfig::new(ports, of.workers, (0..u32::from(of.workers)).collect());
        let program = program.map(Into::into);
        let runs = CardWorkload { program, services, ..CardWorkload::default() };
        let (card, cores) = Card::driven(&config, runs).map_err(broken)?;
        let pinned = allowed.iter().map(|core| Some(*core).filter(|_| is_pinned)).collect();
        let mut staged = StagedWorkers {
            load,
            expected: ExpectedWindows::new(query),
            pane: FIRST_PANE,
            windows: 0,
            wrong: 0,
            frames: 0,
            observed,
            engine,
            reception,
            card,
            cores,
            hosts,
            pinned,
            port,
        };
        staged.greet()?;
        Ok(staged)
    }

    /// Tuples of all panes so far.
    pub(super) fn made(&self) -> u64 {
        self.load.made()
    }

    /// Has the receiving side know all sources.
    fn greet(&mut self) -> Result<(), DeviceError> {
        let greetings = self.load.greetings()?;
        let sources = greetings.len() as u64;
        for _ in 0..GREETINGS {
            let before = self.port.arrived();
            self.stage(greetings.clone());
            if let Reception::Rings(rings) = &mut self.reception {
                rings.tend(program(&mut self.card)?);
            }
            if self.port.arrived() - before == sources {
                return Ok(());
            }
        }
        Err(broken("the card does not know all sources"))
    }

    /// Lets the card take frames; time of this thread for it, without the writing of them,
    /// nanoseconds.
    fn stage(&mut self, frames: Vec<Vec<u8>>) -> u64 {
        let _pinned = self.pinned[0].map(Pinned::to);
        let count = frames.len();
        self.port.replace(frames);
        self.port.begin(count, BURST);
        self.cores.iter_mut().for_each(|core| _ = core.turn());
        let begun_ns = thread_ns();
        while self.cores.iter_mut().map(Core::turn).sum::<usize>() > 0 {}
        for _ in 0..LAST_ROUNDS {
            self.cores.iter_mut().for_each(|core| _ = core.turn());
        }
        thread_ns() - begun_ns
    }

    /// Counts the tuples of a pane. Where it is asked for, `result_ns` is measured: then the end
    /// of the pane is no part of the other times.
    pub(super) fn count_pane(&mut self, has_result_time: bool) -> Result<PaneTimes, DeviceError> {
        let mut times = PaneTimes { cores_ns: vec![0; self.cores.len()], ..PaneTimes::default() };
        let start_ns = self.pane * SLIDE_NS;
        let mut counted: Vec<Counted> = Vec::new();
        self.frames = 0;
        for pass in 0..PASSES {
            let pass_ns = start_ns + pass * (SLIDE_NS / PASSES);
            let frames = self.load.pass(pass_ns, &mut counted)?;
            let is_end = pass + 1 == PASSES && !has_result_time;
            let ends = if is_end { self.load.ends(start_ns + SLIDE_NS)? } else { Vec::new() };
            self.frames += (frames.len() + ends.len()) as u64;
            self.pass((frames, ends), &mut times)?;
        }
        if has_result_time {
            let ends = self.load.ends(start_ns + SLIDE_NS)?;
            times.result_ns = Some(self.end(ends)?);
        }
        self.compare(&counted);
        self.pane += 1;
        Ok(times)
    }

    /// One pass of frames; `ends` say that the pane has ended, if it has. They follow when the
    /// card has taken all tuples: it keeps the order of a source's frames on one core alone.
    fn pass(
        &mut self,
        (frames, ends): (Vec<Vec<u8>>, Vec<Vec<u8>>),
        times: &mut PaneTimes,
    ) -> Result<(), DeviceError> {
        let is_host = matches!(self.reception, Reception::Host(_));
        let (count, is_end) = (frames.len() + ends.len(), !ends.is_empty());
        if is_host {
            self.hosts.iter().for_each(|host| host.keep());
        }
        times.card_ns += self.stage(frames);
        if is_end {
            times.card_ns += self.stage(ends);
        }
        if is_host {
            let kept: usize = self.hosts.iter().map(|host| host.take()).sum();
            if kept != count {
                return Err(broken(format!("{kept} of {count} frames came to the cores")));
            }
            let before_ns = self.receiving_ns();
            let received_ns = self.receive()?;
            for (sum, (now, before)) in
                times.receiving_ns.iter_mut().zip(self.receiving_ns().into_iter().zip(before_ns))
            {
                *sum += now - before;
            }
            times.received_ns += received_ns.iter().sum::<u64>();
            times.cores_ns.iter_mut().zip(received_ns).for_each(|(sum, ns)| *sum += ns);
            self.hosts.iter().for_each(|host| host.pass());
        }
        let before_ns = self.observed.gate.worked_ns();
        self.observed.gate.open();
        self.wait("not all tuples are counted", StagedWorkers::is_counted)?;
        if is_end {
            self.wait("a window has no result", |staged| staged.result().is_some())?;
        }
        self.close()?;
        let worked_ns = self.observed.gate.worked_ns().into_iter().zip(before_ns);
        let of_pass = worked_ns.map(|(now, before)| now - before);
        times.cores_ns.iter_mut().zip(of_pass).for_each(|(sum, ns)| *sum += ns);
        let taken = self.taken()?;
        match taken == self.load.made() {
            true => Ok(()),
            false => Err(broken(format!("{taken} of {} tuples were taken", self.load.made()))),
        }
    }

    /// Time of the steps of all receiving sides so far.
    fn receiving_ns(&self) -> [u64; WorkStep::ALL.len()] {
        WorkStep::ALL.map(|step| self.observed.receiving.of(step).0)
    }

    /// Has all cores take the frames that their hosts have kept, at once; by core: what that took.
    fn receive(&mut self) -> Result<Vec<u64>, DeviceError> {
        let StagedWorkers { cores, hosts, pinned, .. } = self;
        on_cores(pinned, cores.iter_mut().zip(&*hosts), |(core, host), barrier| {
            take(core, host, barrier)
        })
    }

    /// Has frames that end a pane go all the way, with open gate and at once; the time until the
    /// result is there, nanoseconds.
    fn end(&mut self, ends: Vec<Vec<u8>>) -> Result<u64, DeviceError> {
        let count = ends.len();
        self.port.replace(ends);
        self.port.begin(count, BURST);
        self.cores.iter_mut().for_each(|core| _ = core.turn());
        self.observed.gate.open();
        let begun = Instant::now();
        while self.cores.iter_mut().map(Core::turn).sum::<usize>() > 0 {}
        for _ in 0..LAST_ROUNDS {
            self.cores.iter_mut().for_each(|core| _ = core.turn());
        }
        self.wait("a window has no result", |staged| staged.result().is_some())?;
        self.close()?;
        let (_, at) = self.result().ok_or_else(|| broken("a result is gone"))?;
        Ok(at.saturating_duration_since(begun).as_nanos() as u64)
    }

    /// Tuples that the receiving side has given to the workers.
    fn taken(&mut self) -> Result<u64, DeviceError> {
        Ok(match &mut self.reception {
            Reception::Host(host) => host.received().counters.taken,
            Reception::Rings(rings) => {
                rings.tend(program(&mut self.card)?);
                rings.received().counters.taken
            }
        })
    }

    fn is_counted(&self) -> bool {
        self.observed.gate.counted() == self.load.made()
    }

    /// The result of the window that ends with the pane.
    fn result(&self) -> Option<(Vec<KeyCount>, Instant)> {
        let window = self.pane + 1 - LENGTH_NS / SLIDE_NS;
        self.observed.results.lock().unwrap_or_else(PoisonError::into_inner).get(&window).cloned()
    }

    /// Waits until `is_done`. Meanwhile the card's cores have turns: a receiving side without
    /// frames passes on the progress of the others within a millisecond.
    fn wait(
        &mut self,
        lack: &str,
        is_done: impl Fn(&StagedWorkers) -> bool,
    ) -> Result<(), DeviceError> {
        let begun = Instant::now();
        while !is_done(self) {
            self.cores.iter_mut().for_each(|core| _ = core.turn());
            if self.engine.engine.is_over() {
                return Err(broken("the workers have ended"));
            }
            if self.engine.engine.status().restarts > 0 {
                return Err(broken("a worker has died; its message is on standard error"));
            }
            if begun.elapsed() > PANE_MAX {
                return Err(broken(format!("{lack} after {} s", PANE_MAX.as_secs())));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Holds the workers.
    fn close(&mut self) -> Result<(), DeviceError> {
        self.observed.gate.close();
        self.engine.engine.inboxes().iter().for_each(|inbox| inbox.wake());
        self.wait("a worker does not stop", |staged| {
            staged.observed.gate.held() == staged.cores.len()
        })
    }

    /// Compares the result of the pane's window with a plain count.
    fn compare(&mut self, counted: &[Counted]) {
        let expected = self.expected.pane(counted);
        let found = self.result().map(|(top, _)| top);
        self.observed.results.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.windows += 1;
        self.wrong += u64::from(found != Some(expected));
    }

    /// Ends the card; the frames that its engine took in all panes.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where it lost frames of its memory.
    pub(super) fn end_all(self) -> Result<u64, DeviceError> {
        let StagedWorkers { card, cores, engine: GatedEngine { engine, .. }, observed, .. } = self;
        engine.stop();
        observed.gate.open();
        let ended = engine.join();
        let (card_ended, _) = card.shut_down_driven(cores);
        ended.map_err(broken)?;
        match card_ended.frames_lost {
            0 => Ok(card_ended.counters.rx_frames()),
            lost => Err(broken(format!("the card has lost {lost} of its frames"))),
        }
    }
}

/// The card's program.
fn program(card: &mut Card) -> Result<&mut niclab_program::Pipeline, DeviceError> {
    card.program().ok_or_else(|| broken("the card has no program"))
}

/// Has a core take all that its host has kept, at the same time as the other cores; what that took,
/// nanoseconds.
fn take(core: &mut Core, host: &SharedHost, barrier: &Barrier) -> u64 {
    barrier.wait();
    let begun_ns = thread_ns();
    while host.remaining() > 0 {
        core.turn();
    }
    thread_ns() - begun_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::TupleWorkload;

    fn staged() -> StagedWorkers {
        let workload = TupleWorkload { keys: 5, zipf: 1.0, payload_len: 0, batch: 45, seed: 3 };
        let mode = TupleMode::Rss;
        let of = Counting { mode, workload, workers: 1, duration_ns: 1, warmup_ns: 0 };
        StagedWorkers::new(&of, (&crate::cores::allowed()[..1], false)).unwrap()
    }

    #[test]
    fn a_result_that_differs_from_a_plain_count_is_wrong() {
        let mut staged = staged();
        staged.count_pane(false).unwrap();
        assert_eq!((staged.windows, staged.wrong), (1, 0));
        // As if the pane before had had a tuple more.
        staged.expected.pane(&[Counted { stream: 0, key: 4 }]);
        staged.count_pane(false).unwrap();
        assert_eq!((staged.windows, staged.wrong), (2, 1));
        staged.end_all().unwrap();
    }

    #[test]
    fn workers_that_have_ended_say_why() {
        let workload = TupleWorkload { keys: 5, zipf: 1.0, payload_len: 0, batch: 45, seed: 3 };
        let mode = TupleMode::Rss;
        let of = Counting { mode, workload, workers: 1, duration_ns: 1, warmup_ns: 0 };
        let mut staged = StagedWorkers::new(&of, (&[9_999], false)).unwrap();
        let told = staged.count_pane(false).unwrap_err().to_string();
        assert!(told.contains("the workers have ended"), "{told}");
        let told = staged.end_all().unwrap_err().to_string();
        assert!(told.contains("core 9999"), "{told}");
    }

    #[test]
    fn workers_that_are_held_end_with_all_the_rest() {
        drop(staged());
    }
}
