//! Events: a card reports to the core that owns a key that it has written an item, or that a client
//! asks for one.
//!
//! An event is an entry of a ring of the program `kvs-items`; the README of that has its layout.

use std::net::Ipv4Addr;

use niclab_nic::dma::Reader;
use niclab_nic::shared_memory::{SharedMemory, WORD};
use niclab_packet::wire::MacAddress;

use super::binary::HEAD_LEN as HEAD_OF_REQUEST_LEN;
use super::datagram::FRAME_LEN;

/// Bytes of an event before the key or the address of the item.
pub const HEAD_LEN: usize = 22;

/// Longest key that an event has, bytes.
pub const EVENT_KEY_LEN_MAX: usize = 64;

/// Longest event, bytes.
pub const EVENT_LEN_MAX: usize = HEAD_LEN + EVENT_KEY_LEN_MAX;

/// Bytes that are copied, whole words: an entry of a ring has as many at least.
pub(in crate::kvs) const COPIED_LEN: usize = EVENT_LEN_MAX.next_multiple_of(WORD);

/// Kinds of events.
const ASKED: u8 = 1;
const STORED: u8 = 2;

/// Bytes that say where an item is.
pub const PLACE_LEN: usize = 12;

/// Bytes of datagrams without key and value: of a get and of a set that the card takes, and of its
/// answer to a set.
pub(in crate::kvs) const GET_LEN: usize = FRAME_LEN + HEAD_OF_REQUEST_LEN;
pub(in crate::kvs) const SET_LEN: usize = GET_LEN + 8;
pub(in crate::kvs) const SET_ANSWER_LEN: usize = GET_LEN;

/// One event, copied out of the ring.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    bytes: [u8; COPIED_LEN],
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind<'a> {
    /// This client asks for the item of this key.
    Asked(&'a [u8], Requester),
    /// The card has written an item and answered its client.
    Stored(WrittenItem),
    /// No event that a card reports.
    Nothing,
}

/// The place of an item that the card has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenItem {
    /// Its start in the window.
    pub at: u64,
    /// Bytes that it has there.
    pub len: usize,
}

/// The client, and the fields that an answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
    /// Its port of UDP.
    pub port: u16,
    /// Id of the datagram.
    pub id: u16,
    /// Bytes that are returned with the answer.
    pub opaque: [u8; 4],
}

impl Default for Event {
    fn default() -> Event {
        Event { bytes: [0; COPIED_LEN] }
    }
}

impl Event {
    /// Takes the next event out of a ring; `false` where there is none.
    #[inline]
    pub fn take(&mut self, ring: &mut Reader) -> bool {
        ring.take(|shared, at| self.copy(shared, at)).is_some()
    }

    /// Copies all of it, whole words: that is faster than to look first how long it is.
    #[inline]
    fn copy(&mut self, shared: &SharedMemory, at: usize) {
        shared.copy_out(at, &mut self.bytes);
    }

    /// The place of a written item, from the event behind `ahead` others. `None`: there is no event
    /// yet; `Some(None)`: the event reports something else.
    pub fn written(ring: &Reader, ahead: u64) -> Option<Option<WrittenItem>> {
        ring.look(ahead, |shared, at| {
            let mut event = Event::default();
            event.copy(shared, at);
            match event.kind() {
                EventKind::Stored(written) => Some(written),
                _ => None,
            }
        })
    }

    /// Its kind.
    #[inline]
    pub fn kind(&self) -> EventKind<'_> {
        let bytes = &self.bytes;
        let rest = &bytes[HEAD_LEN..];
        match bytes[0] {
            ASKED => {
                let key_len = usize::from(bytes[1]);
                if !(1..=EVENT_KEY_LEN_MAX).contains(&key_len) {
                    return EventKind::Nothing;
                }
                EventKind::Asked(&rest[..key_len], self.client())
            }
            STORED => {
                let mut at = [0; 8];
                at.copy_from_slice(&rest[..8]);
                let len = u32::from_le_bytes([rest[8], rest[9], rest[10], rest[11]]);
                EventKind::Stored(WrittenItem { at: u64::from_le_bytes(at), len: len as usize })
            }
            _ => EventKind::Nothing,
        }
    }

    #[inline]
    fn client(&self) -> Requester {
        let [_, _, _, _, i0, i1, p0, p1, rest @ ..] = &self.bytes;
        let [m0, m1, m2, m3, m4, m5, o0, o1, o2, o3, a0, a1, a2, a3, ..] = *rest;
        Requester {
            mac: MacAddress([m0, m1, m2, m3, m4, m5]),
            ip: Ipv4Addr::from(u32::from_le_bytes([a0, a1, a2, a3])),
            port: u16::from_le_bytes([*p0, *p1]),
            id: u16::from_le_bytes([*i0, *i1]),
            // Numbers stand in events with their lowest byte first.
            opaque: [o3, o2, o1, o0],
        }
    }
}

#[cfg(test)]
pub(in crate::kvs) mod tests {
    use super::*;

    /// An event that an item is asked for, as the card writes it.
    pub fn encode_get(client: &Requester, key: &[u8]) -> Vec<u8> {
        let Requester { mac, ip, port, id, opaque } = *client;
        let mut bytes = vec![ASKED, key.len() as u8, 0, 0];
        bytes.extend([id, port].map(u16::to_le_bytes).as_flattened());
        bytes.extend(mac.0);
        bytes.extend(opaque.iter().rev());
        bytes.extend(u32::from(ip).to_le_bytes());
        [&bytes[..], key].concat()
    }

    /// An event that an item was written.
    pub fn encode_stored(key_len: u8, at: u64, len: u32) -> Vec<u8> {
        let mut bytes = [0; HEAD_LEN];
        (bytes[0], bytes[1]) = (STORED, key_len);
        [&bytes[..], &at.to_le_bytes(), &len.to_le_bytes()].concat()
    }

    #[test]
    fn items_that_a_card_wrote_can_be_read() {
        // As in the program's tests: client 10.9.0.1, port 4000, id 0xbeef, opaque 01020304.
        let client = Requester {
            mac: MacAddress([2, 0, 0, 0, 0, 7]),
            ip: Ipv4Addr::new(10, 9, 0, 1),
            port: 4000,
            id: 0xbeef,
            opaque: [1, 2, 3, 4],
        };
        let bytes = encode_get(&client, b"a");
        let expected = "01010000efbea00f020000000007040302010100090a61";
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        let event = |bytes: &[u8]| {
            let mut event = Event::default();
            event.bytes[..bytes.len()].copy_from_slice(bytes);
            event
        };
        assert_eq!(event(&bytes).kind(), EventKind::Asked(b"a", client));
        let long = encode_get(&client, &[7; EVENT_KEY_LEN_MAX]);
        assert_eq!(event(&long).kind(), EventKind::Asked(&[7; EVENT_KEY_LEN_MAX], client));
        let written = WrittenItem { at: 0x0020_0008, len: 48 };
        assert_eq!(event(&encode_stored(1, 0x0020_0008, 48)).kind(), EventKind::Stored(written));
        assert_eq!(event(&[0]).kind(), EventKind::Nothing);
        assert_eq!(event(&[3, 1]).kind(), EventKind::Nothing);
        for key_len in [0, 65, 255] {
            let mut wrong = bytes.clone();
            wrong[1] = key_len;
            assert_eq!(event(&wrong).kind(), EventKind::Nothing);
        }
    }
}
