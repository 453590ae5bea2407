//! Packets in memory and a program, on one core: burst by burst, as a card's core takes them.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use niclab_nic::dma::Reader;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_program::{Command, Fate, Lost, Pipeline, Worker};

use super::broken;
use crate::cases::Prepared;
use crate::cores::Pinned;
use crate::face::{DeviceError, Place, Processed, Processing};
use crate::processing::{self, COMPARED, Digest, STRETCH};

/// Commands that are told together.
const CHANGES: usize = 4_096;

/// Transactions' leftovers that are taken out at a time.
const SETTLE_STEPS: usize = 1 << 16;

/// Room for headers that a program puts before the longest frame.
const ROOM: usize = 128;

/// What stands along the packets' way.
pub(super) fn places() -> Vec<Place> {
    processing::places("a program of the software NIC")
}

/// Lets the packets of a program through, pass by pass.
pub(super) fn process(processing: &Processing, is_pinned: bool) -> Result<Processed, DeviceError> {
    let of = processing.program;
    let prepared = of.prepare().map_err(|error| processing::refused("soft", of.case, error))?;
    let _pinned = processing::core().filter(|_| is_pinned).map(Pinned::to);
    let mut seen = processing::begun(&prepared);
    let mut stage = Stage::new(prepared)?;
    seen.digest = stage.digest();
    stage.pass();
    seen.lost = stage.lost;
    let mut warm_ns = 0;
    while warm_ns < processing.warmup_ns {
        stage.pass();
        warm_ns += stage.stretches_ns.iter().sum::<u64>();
    }
    let mut measured_ns = 0;
    while measured_ns < processing.duration_ns || seen.stretches_ns.is_empty() {
        stage.pass();
        seen.stretches_ns.extend(&stage.stretches_ns);
        measured_ns += stage.stretches_ns.iter().sum::<u64>();
    }
    Ok(seen)
}

/// A program with its tables, and its packets.
struct Stage {
    pipeline: Pipeline,
    /// What it was told of registers.
    registers: Vec<Command>,
    /// The application's ends of its rings.
    readers: Vec<Reader>,
    worker: Worker,
    region: Arc<Region>,
    descs: Vec<Desc>,
    /// The packets as they were before the first pass.
    frames: Vec<Vec<u8>>,
    /// Packets of the last pass that did not leave.
    lost: u64,
    /// What each stretch of it took, nanoseconds.
    stretches_ns: Vec<u64>,
    epoch: Instant,
}

impl Stage {
    fn new(prepared: Prepared) -> Result<Stage, DeviceError> {
        let Prepared { program, commands, frames, .. } = prepared;
        let mut pipeline = Pipeline::new(program).map_err(broken)?;
        commands.chunks(CHANGES).try_for_each(|some| pipeline.tell(some, 0)).map_err(broken)?;
        while !pipeline.settle(SETTLE_STEPS) {}
        let longest = frames.iter().map(Vec::len).max().unwrap_or(0);
        let (region, descs) = Region::new(frames.len(), longest + ROOM).map_err(broken)?;
        let worker = pipeline.worker();
        let epoch = Instant::now();
        let (lost, stretches_ns) = (0, Vec::with_capacity(descs.len() / STRETCH + 1));
        let is_register = |command: &Command| matches!(command, Command::Register { .. });
        let registers = commands.into_iter().filter(is_register).collect();
        let counts: Vec<usize> = pipeline.program().rings.iter().map(|of| of.count).collect();
        let ends = |(rings, count)| (0..count).map(move |index| (rings, index));
        let ends = counts.into_iter().enumerate().flat_map(ends);
        let readers = ends.filter_map(|(rings, index)| pipeline.reader(rings, index)).collect();
        Ok(Stage {
            pipeline,
            registers,
            readers,
            worker,
            region,
            descs,
            frames,
            lost,
            stretches_ns,
            epoch,
        })
    }

    /// Puts every packet and register back as it was, and empties the rings.
    fn rewind(&mut self) {
        for command in &self.registers {
            if let Command::Register { array, index, value } = *command {
                self.pipeline.set_register(array, index, value);
            }
        }
        for reader in &mut self.readers {
            while reader.take(|_, _| ()).is_some() {}
        }
        for (desc, frame) in self.descs.iter_mut().zip(&self.frames) {
            self.region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            self.region.set_len(desc, frame.len() as u16);
        }
    }

    /// Lets every packet through once, and keeps what each stretch of them took.
    fn pass(&mut self) {
        self.rewind();
        self.stretches_ns.clear();
        let Stage { worker, region, descs, stretches_ns, .. } = self;
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        // Learners and meters go by it.
        worker.set_time_ns(self.epoch.elapsed().as_nanos() as u64);
        let (mut rest, mut lost) = (&mut descs[..], 0);
        while !rest.is_empty() {
            let start = Instant::now();
            for _ in 0..STRETCH / BURST {
                let (burst, behind) = rest.split_at_mut(BURST.min(rest.len()));
                // As where frames come from a ring, the first line of those behind is asked for.
                behind.iter().take(BURST).for_each(|desc| region.prefetch(desc));
                worker.run(region, burst, 0, &mut fates, |_, _| {});
                let is_lost = |fate: &&Fate| matches!(fate, Fate::Dropped(_));
                lost += fates[..burst.len()].iter().filter(is_lost).count() as u64;
                black_box(&fates);
                rest = behind;
            }
            stretches_ns.push((start.elapsed().as_nanos() as u64).max(1));
        }
        self.lost = lost;
    }

    /// Lets the first packets through and says what became of them.
    fn digest(&mut self) -> String {
        self.rewind();
        let mut digest = Digest::new();
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        let first = COMPARED.min(self.descs.len());
        for burst in self.descs[..first].chunks_mut(BURST) {
            self.worker.run(&self.region, burst, 0, &mut fates, |_, _| {});
            for (desc, fate) in burst.iter().zip(&fates) {
                let sent = |port: u64| {
                    let bytes = self.region.frame(desc).iter();
                    let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
                    format!("{port} {hex}")
                };
                digest.line(&match fate {
                    Fate::Port(port) => sent(*port),
                    // All come by port 0.
                    Fate::Back => sent(0),
                    Fate::Queue(queue) => format!("queue {queue}"),
                    Fate::Dropped(_) => "drop".to_owned(),
                });
            }
        }
        digest.text()
    }
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;
