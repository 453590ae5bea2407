//! The way of packets through a program, on one core; a burst at a time.

use std::sync::{Arc, PoisonError};

use niclab_nic::memory::{Desc, Region};
use niclab_table::Participant;

use super::burst::{BURST, Burst, bits, copy_header, each_of};
use super::control::Board;
use super::exec::Run;
use super::keyed::Lookup;
use super::state::Counts;
use super::tables::{Reading, Tables};
use crate::entry::Session;
use crate::limits::{
    COPY_LEN_MAX, DMA_LEN_MAX, ENTRY_LEN_MAX, HEADERS_LEN_MAX, RECIRCULATIONS_MAX, STRUCT_LEN_MAX,
};
use crate::outcome::{Fate, Lost};
use crate::turn::turn;

/// What carries packets through a program, for one core. It reads what the control side shows and
/// waits for nobody.
pub struct Worker {
    board: Arc<Board>,
    participant: Participant,
    tables: Tables,
    burst: Box<Burst>,
    scratch: Vec<u8>,
    counts: Arc<Counts>,
    now_ns: u64,
}

/// What is hashed, written or read at once. Twice, for what is too long is seen afterwards.
const SCRATCH_LEN: usize = 2 * DMA_LEN_MAX;

const _: () = assert!(HEADERS_LEN_MAX <= SCRATCH_LEN && ENTRY_LEN_MAX as usize <= DMA_LEN_MAX);
// A copy, and the header by which it is seen to be too long.
const _: () = assert!(COPY_LEN_MAX + STRUCT_LEN_MAX <= SCRATCH_LEN);

impl Worker {
    pub(super) fn new(board: Arc<Board>, readers: Vec<Box<dyn Lookup>>) -> Worker {
        let counts = Arc::new(Counts::new(&board.program));
        let mut all = board.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::clone(&counts));
        drop(all);
        Worker {
            counts,
            participant: board.domain.register_reader(),
            tables: Tables::new(&board.plan, &board.program, readers),
            burst: Box::new(Burst::new(&board.plan)),
            scratch: Vec::with_capacity(SCRATCH_LEN),
            now_ns: 0,
            board,
        }
    }

    /// Says what time it is, nanoseconds from any moment, for bursts to come: meters and learners
    /// go by it.
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Says that this worker will not run for a while: what it held may be used again.
    pub fn offline(&mut self) {
        self.participant.offline();
        self.tables.release_view();
    }

    /// Takes up work again after [`Worker::offline`].
    pub fn online(&mut self) {
        self.participant.online();
    }

    /// Which rings got an entry since this was last asked: a bit for each number of a ring modulo
    /// 64, for whoever wakes those that read them.
    pub fn take_filled(&mut self) -> u64 {
        std::mem::take(&mut self.burst.filled)
    }

    /// Carries a burst of at most [`BURST`](niclab_nic::limits::BURST) frames of `region` through
    /// the program, which came by `port`: the frames are then as they leave, and `fates` says
    /// where each goes. `copy` gets the bytes of each copy and the port that it leaves by.
    ///
    /// # Panics
    /// If this worker is offline, or there are more frames than a burst or than fates.
    pub fn run(
        &mut self,
        region: &Region,
        frames: &mut [Desc],
        port: u64,
        fates: &mut [Fate],
        mut copy: impl FnMut(u32, &[u8]),
    ) {
        assert!(self.participant.is_online(), "an offline worker runs; call `online` first");
        assert!(frames.len() <= BURST && frames.len() <= fates.len(), "a burst that is too long");
        self.participant.quiescent();
        // What a transaction made is there before its generation.
        let generation = self.board.versions.generation();
        let Worker { board, participant, tables, burst, scratch, counts, .. } = self;
        let now_ns = self.now_ns;
        let board: &Board = board;
        let reading = || Reading {
            participant,
            generation,
            versions: &board.versions,
            records: &board.records,
            defaults: &board.defaults,
            groups: &board.groups,
        };
        let all = u64::MAX.checked_shr(64 - frames.len() as u32).unwrap_or(0);
        let (mut rest, one) = (all, board.plan.all_alone);
        while rest != 0 {
            let now = if one { rest & rest.wrapping_neg() } else { rest };
            rest &= !now;
            let mut packets = now;
            for pass in 0..=u64::from(RECIRCULATIONS_MAX) {
                burst.begin(&board.plan, packets, pass == 0);
                Run {
                    plan: &board.plan,
                    state: &board.state,
                    counts,
                    tables,
                    reading: reading(),
                    burst,
                    region,
                    frames,
                    port,
                    pass,
                    now_ns,
                    scratch,
                    copy: &mut copy,
                }
                .apply(packets);
                packets = leave(board, burst, region, frames, packets, &mut copy);
                burst.hand_over(now & !packets);
                for i in bits(now & !packets) {
                    fates[i] = burst.fates[i];
                }
                for i in bits(burst.replied & now & !packets) {
                    turn(region.frame_mut(&mut frames[i]));
                }
                if packets == 0 {
                    break;
                }
            }
            bits(packets).for_each(|i| fates[i] = Fate::Dropped(Lost::Rounds));
        }
        tables.learnt(|table, entries| counts.learn(table, entries as u64));
    }
}

impl Drop for Worker {
    /// What it has counted stays; what it has learnt does not.
    fn drop(&mut self) {
        self.counts.forget();
    }
}

/// Puts headers before what is left of the packets and makes their copies; those that come round
/// again.
fn leave(
    board: &Board,
    burst: &mut Burst,
    region: &Region,
    frames: &mut [Desc],
    packets: u64,
    copy: &mut impl FnMut(u32, &[u8]),
) -> u64 {
    let mut gone = 0;
    let alike = Alike::of(board, burst, packets);
    each_of(packets, |i| {
        let left = match &alike {
            Some(alike) if usize::from(burst.cursor[i]) == alike.len => {
                alike.put(burst.stored(i), region.frame_mut(&mut frames[i]));
                Ok(())
            }
            _ => deparse(board, burst, region, &mut frames[i], i),
        };
        if let Err(lost) = left {
            // What ended it before is the reason.
            if !matches!(burst.fates[i], Fate::Dropped(_)) {
                burst.fates[i] = Fate::Dropped(lost);
            }
            gone |= 1 << i;
        }
    });
    for i in bits(burst.mirrored & packets & !gone) {
        for session in burst.sessions[i].into_iter().filter(|session| *session != 0) {
            let session = board.state.session(usize::from(session) - 1);
            if let Some(Session { port, len_max }) = session {
                let frame = region.frame(&frames[i]);
                copy(port, &frame[..frame.len().min(len_max as usize)]);
            }
        }
    }
    let goes_on = |i: &usize| !matches!(burst.fates[*i], Fate::Dropped(_));
    bits(burst.again & packets).filter(goes_on).fold(0, |mask, i| mask | 1 << i)
}

/// What all packets of a burst have before the rest, where it is the same and has their lengths:
/// stretches of their stores, one behind the other.
struct Alike {
    stretches: [(usize, usize); STRETCHES_MAX],
    count: usize,
    len: usize,
}

/// More come one by one.
const STRETCHES_MAX: usize = 8;

impl Alike {
    fn of(board: &Board, burst: &Burst, packets: u64) -> Option<Alike> {
        let mut alike = Alike { stretches: [(0, 0); STRETCHES_MAX], count: 0, len: 0 };
        for (header, of) in &burst.emits {
            let head = board.plan.headers[*header];
            match of & packets {
                0 => continue,
                of if of == packets && head.len == head.len_max => {}
                _ => return None,
            }
            alike.len += head.len;
            // Headers that lie side by side are one stretch.
            if let Some((at, len)) = alike.stretches[..alike.count].last_mut()
                && *at + *len == head.at
            {
                *len += head.len;
                continue;
            }
            *alike.stretches.get_mut(alike.count)? = (head.at, head.len);
            alike.count += 1;
        }
        (alike.len > 0).then_some(alike)
    }

    /// Puts them where they were taken off.
    #[inline(always)]
    fn put(&self, stored: &[u8], frame: &mut [u8]) {
        let mut to = 0;
        for &(at, len) in &self.stretches[..self.count] {
            copy_header(&mut frame[to..to + len], &stored[at..at + len]);
            to += len;
        }
    }
}

/// Puts the emitted headers of a packet before what is left of it.
fn deparse(
    board: &Board,
    burst: &Burst,
    region: &Region,
    frame: &mut Desc,
    i: usize,
) -> Result<(), Lost> {
    let plan = &board.plan;
    let emitted = || burst.emits.iter().filter(|(_, of)| of >> i & 1 == 1).map(|(h, _)| *h);
    let len: usize = emitted().map(|header| burst.header_len(plan, header, i)).sum();
    let cursor = usize::from(burst.cursor[i]);
    if len + usize::from(frame.len()) == cursor {
        return Err(Lost::Empty);
    }
    match len.checked_sub(cursor) {
        Some(0) => {}
        Some(more) => {
            region.grow_front(frame, more).ok_or(Lost::NoRoom)?;
        }
        None => region.shrink_front(frame, cursor - len),
    }
    let (bytes, stored) = (region.frame_mut(frame), burst.stored(i));
    let mut at = 0;
    for header in emitted() {
        let len = burst.header_len(plan, header, i);
        let from = plan.headers[header].at;
        copy_header(&mut bytes[at..at + len], &stored[from..from + len]);
        at += len;
    }
    Ok(())
}
