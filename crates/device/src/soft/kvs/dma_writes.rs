//! The bytes that a card writes into the store's memory: items and events.

use niclab_apps::kvs::protocol::event::{HEAD_LEN, PLACE_LEN};
use niclab_apps::kvs::store::item_len;
use niclab_nic::shared_memory::WORD;

use super::load::{KEY_LEN, VALUE_LEN};
use crate::face::DeviceError;

/// The number of pieces that the program writes for these gets and sets, and their bytes. It writes
/// an event for each, with the word of the ring's slot, and an item for a set.
pub fn count(gets: u64, sets: u64) -> (u64, u64) {
    let event = (WORD + HEAD_LEN) as u64;
    let item = item_len(KEY_LEN, VALUE_LEN) as u64;
    let bytes = gets * (event + KEY_LEN as u64) + sets * (event + PLACE_LEN as u64 + item);
    (gets + 2 * sets, bytes)
}

/// All sets of a pass are written before any is linked.
pub fn too_many() -> DeviceError {
    DeviceError::lacks("dma: more sets in a pass than a segment of a core has room for")
}
