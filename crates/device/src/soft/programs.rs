//! A program on the card, and packets in memory that go through it: the card of one core has the
//! program decide about them, as `niclab nic --program` has, turn by turn.

use std::time::Instant;

use niclab_card::{Card, CardConfig, CardWorkload, Core, PacketProcessor};
use niclab_nic::dma::Reader;
use niclab_nic::limits::{BURST, QUEUES_MAX};
use niclab_program::{Command, Pipeline};

use super::broken;
use super::replay::{Destination, Replay};
use crate::cases::Prepared;
use crate::cores::Pinned;
use crate::face::{DeviceError, PathNode, Processing, ProgramObservation};
use crate::processing::{self, COMPARED, Digest, STRETCH};

/// Commands that are told together.
const CHANGES: usize = 4_096;

/// Transactions' leftovers that are taken out at a time.
const HOUSEKEEPING_STEPS: usize = 1 << 16;

/// Ports of the card: packets come by port 0, and programs send them by ports 0 to 3.
const PORTS: usize = 4;

/// What stands along the packets' way.
pub(super) fn places() -> Vec<PathNode> {
    processing::places("a program of the software NIC, on the card")
}

/// Lets the packets of a program through, pass by pass. Beside it: the frames that the card took.
pub(super) fn process(
    processing: &Processing,
    is_pinned: bool,
) -> Result<(ProgramObservation, u64), DeviceError> {
    let of = processing.program;
    let prepared = of.prepare().map_err(|error| processing::refused("soft", of.case, error))?;
    let _pinned = processing::core().filter(|_| is_pinned).map(Pinned::to);
    let mut observed = processing::initial_observation(&prepared);
    let mut stage = ProgramBench::new(prepared)?;
    observed.digest = stage.digest()?;
    stage.pass()?;
    observed.lost = stage.lost;
    let mut warm_ns = 0;
    while warm_ns < processing.warmup_ns {
        stage.pass()?;
        warm_ns += stage.stretches_ns.iter().sum::<u64>();
    }
    let mut measured_ns = 0;
    while measured_ns < processing.duration_ns || observed.stretches_ns.is_empty() {
        stage.pass()?;
        observed.stretches_ns.extend(&stage.stretches_ns);
        measured_ns += stage.stretches_ns.iter().sum::<u64>();
    }
    Ok((observed, stage.end()?))
}

/// A card with a program and its tables, and the packets that come to it.
struct ProgramBench {
    card: Card,
    core: Core,
    port: Replay,
    packets: usize,
    /// The commands that set the program's registers.
    registers: Vec<Command>,
    /// The application's ends of its rings.
    readers: Vec<Reader>,
    /// Packets of the last pass that did not leave.
    lost: u64,
    /// What each stretch of it took, nanoseconds.
    stretches_ns: Vec<u64>,
}

impl ProgramBench {
    fn new(prepared: Prepared) -> Result<ProgramBench, DeviceError> {
        let Prepared { program, commands, frames, .. } = prepared;
        let mut pipeline = Pipeline::new(program).map_err(broken)?;
        commands.chunks(CHANGES).try_for_each(|some| pipeline.tell(some, 0)).map_err(broken)?;
        while !pipeline.run_housekeeping(HOUSEKEEPING_STEPS) {}
        let is_register = |command: &Command| matches!(command, Command::Register { .. });
        let registers = commands.into_iter().filter(is_register).collect();
        let counts: Vec<usize> = pipeline.program().rings.iter().map(|of| of.count).collect();
        let ends = |(rings, count)| (0..count).map(move |index| (rings, index));
        let ends = counts.into_iter().enumerate().flat_map(ends);
        let readers = ends.filter_map(|(rings, index)| pipeline.reader(rings, index)).collect();
        let packets = frames.len();
        let ports = Replay::ports(frames, PORTS);
        let port = ports[0].clone();
        let program = Some(PacketProcessor::from(pipeline));
        let runs =
            CardWorkload { program, services: vec![port.application()], ..CardWorkload::default() };
        let config = CardConfig::new(ports, QUEUES_MAX, vec![0]);
        let (card, mut cores) = Card::driven(&config, runs).map_err(broken)?;
        let core = cores.pop().ok_or_else(|| broken("the card has no core"))?;
        let stretches_ns = Vec::with_capacity(packets / STRETCH + 1);
        Ok(ProgramBench { card, core, port, packets, registers, readers, lost: 0, stretches_ns })
    }

    /// Puts every register back as it was, empties the rings, and has the card write `packets`
    /// packets again, which come in bursts of `burst`.
    fn rewind(&mut self, packets: usize, burst: usize) -> Result<(), DeviceError> {
        let program = self.card.program().ok_or_else(|| broken("the card has lost its program"))?;
        for command in &self.registers {
            if let Command::Register { array, index, value } = *command {
                program.set_register(array, index, value);
            }
        }
        for reader in &mut self.readers {
            while reader.take(|_, _| ()).is_some() {}
        }
        self.port.begin(packets, burst);
        match self.core.turn() {
            0 => Ok(()),
            received => Err(broken(format!("{received} packets that were not to come"))),
        }
    }

    /// Lets every packet through once, and keeps what each stretch of them took.
    fn pass(&mut self) -> Result<(), DeviceError> {
        self.rewind(self.packets, BURST)?;
        self.stretches_ns.clear();
        let (before, mut left) = (self.port.arrived(), self.packets);
        while left > 0 {
            let start = Instant::now();
            let received: usize = (0..STRETCH / BURST).map(|_| self.core.turn()).sum();
            self.stretches_ns.push((start.elapsed().as_nanos() as u64).max(1));
            if received != left.min(STRETCH) {
                return Err(broken(format!("{received} packets of a stretch came to the card")));
            }
            left -= received;
        }
        self.lost = (self.packets as u64).saturating_sub(self.port.arrived() - before);
        Ok(())
    }

    /// Lets the first packets through, one by one, and says what became of them.
    fn digest(&mut self) -> Result<String, DeviceError> {
        let first = COMPARED.min(self.packets);
        self.rewind(first, 1)?;
        self.port.keep(true);
        let mut digest = Digest::new();
        for _ in 0..first {
            self.core.turn();
            let arrived = self.port.take_kept();
            if arrived.is_empty() {
                digest.line("drop");
            }
            arrived.iter().for_each(|arrived| digest.line(&line(arrived)));
        }
        self.port.keep(false);
        Ok(digest.text())
    }

    /// Ends the card; the frames that its engine took.
    fn end(self) -> Result<u64, DeviceError> {
        let (ended, _) = self.card.shut_down_driven(vec![self.core]);
        match ended.frames_lost {
            0 => Ok(ended.counters.rx_frames()),
            lost => Err(broken(format!("the card has lost {lost} of its frames"))),
        }
    }
}

fn line(arrived: &Destination) -> String {
    match arrived {
        Destination::Port(port, bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{port} {hex}")
        }
        Destination::Queue(queue) => format!("queue {queue}"),
    }
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;
