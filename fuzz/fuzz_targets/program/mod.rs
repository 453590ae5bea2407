//! A program carried out by the definition and by the fast path.

use std::sync::{Arc, Mutex, OnceLock};

use niclab_nic::memory::{Desc, Region};
use niclab_program::definition::Definition;
use niclab_program::{Command, Copied, Execution, Fate, Lost, Pipeline, Program};

/// What a program sets aside for its arrays and windows, at most: it could be all there is.
const ROOM_MAX: usize = 1 << 16;

/// Frames that all runs share: a process has so many regions and no more.
fn region() -> Option<&'static (Arc<Region>, Mutex<Vec<Desc>>)> {
    static REGION: OnceLock<Option<(Arc<Region>, Mutex<Vec<Desc>>)>> = OnceLock::new();
    let make = || Region::new(1, 9_000).ok().map(|(region, frames)| (region, Mutex::new(frames)));
    REGION.get_or_init(make).as_ref()
}

fn room(program: &Program) -> usize {
    let registers = program.registers.iter().map(|of| of.len);
    let meters = program.meters.iter().map(|of| of.len);
    let counters = program.counters.iter().map(|of| of.len);
    let windows = program.windows.iter().map(|of| of.len);
    let rings = program.rings.iter().map(|of| of.count.saturating_mul(of.shape.bytes()));
    let digests = program.digests.iter().map(|of| of.len * program.structs[of.of].len);
    let tables = program.tables.iter().map(|of| of.size);
    let all = registers.chain(meters).chain(counters).chain(windows).chain(rings);
    all.chain(digests).chain(tables).fold(0, usize::saturating_add)
}

/// Both are told the same, and do the same with each packet.
pub fn carry(program: Program, packets: &[&[u8]], told: &[Command]) {
    if room(&program) > ROOM_MAX {
        return;
    }
    let mut definition = Definition::new(program.clone());
    let Ok(mut pipeline) = Pipeline::new(program) else { return };
    for command in told {
        let said = Execution::tell(&mut definition, command);
        assert_eq!(said, pipeline.tell(std::slice::from_ref(command), 0));
    }
    let (mut worker, Some((region, frames))) = (pipeline.worker(), region()) else {
        panic!("no memory for a frame");
    };
    let Ok(mut frames) = frames.lock() else { panic!("a run before has ended in its middle") };
    for packet in packets {
        let packet = &packet[..packet.len().min(1_500)];
        if packet.is_empty() {
            continue;
        }
        region.slot_mut(&mut frames[0])[..packet.len()].copy_from_slice(packet);
        region.set_len(&mut frames[0], packet.len() as u16);
        let expected = definition.run(1, packet);
        let (mut fates, mut copies) = ([Fate::Dropped(Lost::Told)], Vec::new());
        worker.run(region, &mut frames[..1], 1, &mut fates, |port, frame| {
            copies.push(Copied { port, frame: frame.to_vec() });
        });
        // Headers that a frame has no room for are the frame's, not the program's.
        if fates[0] == Fate::Dropped(Lost::NoRoom) {
            return;
        }
        assert_eq!(expected.fate, fates[0]);
        if !matches!(fates[0], Fate::Dropped(_)) {
            assert_eq!(expected.frame, region.frame(&frames[0]));
        }
        assert_eq!(expected.copies, copies);
    }
}
