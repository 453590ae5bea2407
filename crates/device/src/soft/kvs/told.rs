//! The stage of a card that writes items and tells events: done anew before each pass, for events
//! are taken and items linked once.

use std::sync::Arc;

use niclab_apps::kvs::protocol::event::{HEAD_LEN, PLACE_LEN};
use niclab_apps::kvs::store::{Store, item_len};
use niclab_card::items::{Items, Staged};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::shared::WORD;
use niclab_program::{Fate, Lost};

use super::super::broken;
use super::load::{FRAMES, KEY_LEN, STORE, VALUE_LEN};
use crate::face::DeviceError;

/// Room that a segment has to have for all sets of a pass that one core may own, bytes.
const PASS_LEN: usize = 1 << 19;

/// Rounds of turns in which a full segment gives way to the next one.
const ROUNDS_MAX: usize = 16;

/// The card.
pub struct Told {
    card: Staged,
    room: (Arc<Region>, Vec<Desc>),
    frames: Vec<Vec<u8>>,
}

/// Pieces that the program writes for so many gets and sets, and their bytes: an event for each,
/// with the word of the ring's slot, and an item for a set.
pub fn written(gets: u64, sets: u64) -> (u64, u64) {
    let event = (WORD + HEAD_LEN) as u64;
    let item = item_len(KEY_LEN, VALUE_LEN) as u64;
    let bytes = gets * (event + KEY_LEN as u64) + sets * (event + PLACE_LEN as u64 + item);
    (gets + 2 * sets, bytes)
}

/// All sets of a pass are written before any is linked.
fn too_many() -> DeviceError {
    let capability = "dma: more sets in a pass than a segment of a core has room for".to_owned();
    DeviceError::NotSupported { capability }
}

impl Told {
    /// A card for a store on so many cores, which lends it segments, and the frames that come.
    pub fn new(
        store: &Store,
        cores: usize,
        bytes: usize,
        frames: Vec<Vec<u8>>,
    ) -> Result<Told, DeviceError> {
        // All of a pass are told before any is taken.
        let made = Items::new(&STORE, cores, bytes, Some(FRAMES as u32));
        let (items, loans) = made.map_err(broken)?;
        store.attach_dma(loans.into_iter());
        let room =
            Region::new(BURST, frames.iter().map(Vec::len).max().unwrap_or(0)).map_err(broken)?;
        Ok(Told { card: items.staged(), room, frames })
    }

    /// Has the card go over all frames: sets are written and answered, gets told.
    pub fn stage(&mut self, store: &Store) -> Result<(), DeviceError> {
        for core in 0..store.partitions() {
            self.make_room(store, core)?;
        }
        let (region, descs) = &mut self.room;
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        for frames in self.frames.chunks(BURST) {
            let descs = &mut descs[..frames.len()];
            for (desc, frame) in descs.iter_mut().zip(frames) {
                region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
                region.set_len(desc, frame.len() as u16);
            }
            self.card.run(region, descs, &mut fates);
            let told = [Fate::Back, Fate::Dropped(Lost::Handed)];
            match fates[..frames.len()].iter().find(|fate| !told.contains(fate)) {
                None => {}
                // There was no room in the segment.
                Some(Fate::Queue(_)) => return Err(too_many()),
                Some(fate) => return Err(broken(format!("the card says {fate:?} of a request"))),
            }
        }
        Ok(())
    }

    /// Has the card go on with another segment where the one that it fills has little room.
    fn make_room(&mut self, store: &Store, core: usize) -> Result<(), DeviceError> {
        if self.card.room(core) >= PASS_LEN {
            return Ok(());
        }
        self.card.leave_segment(core);
        for _ in 0..ROUNDS_MAX {
            self.card.turn();
            store.catch_up(core);
            if self.card.room(core) >= PASS_LEN {
                return Ok(());
            }
        }
        Err(broken("no empty segment for the card"))
    }
}
