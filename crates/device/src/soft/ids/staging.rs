//! The card in front of the engines: it gives each core the packets that its rules can match.

use niclab_card::{Card, CardConfig, CardWorkload, Core, PacketProcessor};
use niclab_ids::partition::Partition;
use niclab_ids::{STEERING_PROGRAM, SteeringTables};
use niclab_load::clock::Clock;
use niclab_nic::limits::BURST;
use niclab_program::{Pipeline, Program, read_tables};

use super::super::broken;
use super::super::replay::{Destination, Replay};
use crate::face::DeviceError;

/// Passes in which the card's own work is timed.
const TIMED_PASSES: usize = 5;

/// The packets of a core, one behind the other as a card writes them into its memory.
#[derive(Default)]
pub(super) struct CorePackets {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl CorePackets {
    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    /// The packets, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes without FCS.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }
}

/// What the card did with all packets.
pub(super) struct StagedPackets {
    /// Of each core.
    pub(super) cores: Vec<CorePackets>,
    /// Packets that should have come to a core and did not.
    pub(super) lost: u64,
    /// Time of the card for a packet, nanoseconds.
    pub(super) card_ns: f64,
    /// Frames that the card's engine took in all passes.
    pub(super) card_frames: u64,
}

/// Lets a card of one core take these frames.
///
/// # Errors
/// [`DeviceError::NotSupported`] if the card cannot route as the partition does;
/// [`DeviceError::Broken`].
pub(super) fn stage(
    frames: &[Vec<u8>],
    partition: &Partition,
) -> Result<StagedPackets, DeviceError> {
    let count = partition.cores_count();
    let ports = Replay::ports(frames.to_vec(), count + 1);
    let port = ports[0].clone();
    let program = Some(PacketProcessor::from(pipeline(partition)?));
    let runs = CardWorkload { program, ..CardWorkload::default() };
    let made = Card::driven(&CardConfig::new(ports, 1, vec![0]), runs);
    let (card, mut driven) = made.map_err(broken)?;
    let core = driven.first_mut().ok_or_else(|| broken("the card has no core"))?;
    let mut cores: Vec<CorePackets> = (0..count).map(|_| CorePackets::default()).collect();
    port.keep(true);
    pass(core, &port, frames.len());
    port.keep(false);
    for arrived in port.take_kept() {
        if let Destination::Port(number @ 1.., frame) = arrived {
            cores[number - 1].push(&frame);
        }
    }
    let clock = Clock::new();
    let mut passes: Vec<u64> = (0..TIMED_PASSES)
        .map(|_| {
            port.begin(frames.len(), BURST);
            core.turn();
            let begun_ns = clock.now_ns();
            while core.turn() > 0 {}
            clock.now_ns() - begun_ns
        })
        .collect();
    passes.sort_unstable();
    let card_ns = passes[TIMED_PASSES / 2] as f64 / frames.len().max(1) as f64;
    let expected: u32 = frames.iter().map(|frame| route(partition, frame).count_ones()).sum();
    let given = cores.iter().map(CorePackets::len).sum::<usize>() as u64;
    let (ended, _) = card.shut_down_driven(driven);
    match ended.frames_lost {
        0 => Ok(StagedPackets {
            cores,
            lost: u64::from(expected).abs_diff(given),
            card_ns,
            card_frames: ended.counters.rx_frames(),
        }),
        lost => Err(broken(format!("the card has lost {lost} of its frames"))),
    }
}

/// Lets the card take all frames once.
fn pass(core: &mut Core, port: &Replay, count: usize) {
    port.begin(count, BURST);
    core.turn();
    while core.turn() > 0 {}
    // What the last burst has left.
    core.turn();
}

/// The cores that a frame goes to, as bits.
fn route(partition: &Partition, frame: &[u8]) -> u64 {
    match niclab_ids::flow_of(frame) {
        Some(flow) => partition.route(&flow).cores,
        None => partition.route_of_others().cores,
    }
}

/// The card's program with the tables of a partition.
fn pipeline(partition: &Partition) -> Result<Pipeline, DeviceError> {
    let tables = SteeringTables::of(partition);
    let tables = tables.map_err(|error| DeviceError::lacks(error.to_string()))?;
    let program = Program::read(STEERING_PROGRAM).map_err(broken)?;
    let mut pipeline = Pipeline::new(program).map_err(broken)?;
    let text = serde_json::to_string(&tables).map_err(broken)?;
    let commands = read_tables(pipeline.program(), &text).map_err(broken)?;
    pipeline.tell(&commands, 0).map_err(broken)?;
    Ok(pipeline)
}
