//! A client of the tests', which writes into its memory what the test says.
//!
//! It knows the layout from the header alone, as a program in another language would.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, recvmsg, send, socket_with,
};

use niclab_nic::shared_memory::SharedMemory;

/// Where a ring is.
#[derive(Clone, Copy, Debug)]
pub struct RingAt {
    pub producer: u64,
    pub consumer: u64,
    pub entries: u64,
}

/// What the header says, as far as the tests use it.
#[derive(Debug)]
pub struct Layout {
    pub memory_len: u64,
    pub slots_at: u64,
    pub slots: u32,
    pub slot_len: u32,
    pub frame_len_max: u32,
    pub entries: u32,
    pub asleep_at: u64,
    pub fill: RingAt,
    pub receive: RingAt,
    pub transmit: RingAt,
    pub completion: RingAt,
}

/// A client that does what the test says.
pub struct Peer {
    pub socket: OwnedFd,
    pub file: OwnedFd,
    pub memory: SharedMemory,
    pub layout: Layout,
}

/// Connects, and waits for nothing.
pub fn knock(path: &Path) -> OwnedFd {
    // Not for the children that other tests start meanwhile: they would keep it open.
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// Whether the card has said something.
pub fn has_message(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    recv(socket, &mut [0; 1], flags).is_ok()
}

impl Peer {
    /// Takes what a card sends to a client that it lets in.
    pub fn join(socket: OwnedFd) -> Peer {
        let mut header = [0; 400];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let into = &mut [IoSliceMut::new(&mut header)];
        let got = recvmsg(&socket, into, &mut beside, flags).unwrap();
        let file = beside.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let (layout, file) = (Layout::read(&header[..got.bytes]), file.unwrap());
        let memory = SharedMemory::map(file.as_fd(), layout.memory_len as usize).unwrap();
        send(&socket, b"mapped", SendFlags::NOSIGNAL).unwrap();
        Peer { socket, file, memory, layout }
    }

    pub fn index(&self, at: u64) -> u32 {
        self.memory.index(at as usize, Ordering::SeqCst)
    }

    pub fn set_index(&self, at: u64, value: u32) {
        self.memory.set_index(at as usize, value, Ordering::SeqCst);
    }

    /// Writes bytes anywhere, by words.
    pub fn scribble(&self, at: u64, bytes: &[u8]) {
        self.memory.copy_in(at as usize / 8 * 8, bytes);
    }

    /// Puts entries into a ring behind those that are there, in words, and shows them.
    pub fn put<const WORDS: usize>(&self, ring: RingAt, entries: &[[u64; WORDS]]) {
        let produced = self.index(ring.producer);
        for (number, words) in (0..).zip(entries) {
            let count = produced.wrapping_add(number);
            let at = u64::from(count & (self.layout.entries - 1)) * 8 * WORDS as u64;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            self.memory.copy_in((ring.entries + at) as usize, &bytes);
        }
        self.set_index(ring.producer, produced.wrapping_add(entries.len() as u32));
    }

    /// Takes all entries out of a ring.
    pub fn take<const WORDS: usize>(&self, ring: RingAt) -> Vec<[u64; WORDS]> {
        let (from, to) = (self.index(ring.consumer), self.index(ring.producer));
        let entry = |number| {
            let count = from.wrapping_add(number);
            let at = u64::from(count & (self.layout.entries - 1)) * 8 * WORDS as u64;
            let word = |number| {
                let at = (ring.entries + at) as usize + number * 8;
                self.memory.word(at).load(Ordering::Relaxed)
            };
            std::array::from_fn(word)
        };
        let count = to.wrapping_sub(from).min(self.layout.entries);
        let entries = (0..count).map(entry).collect();
        self.set_index(ring.consumer, to);
        entries
    }

    /// Lends slots to be filled.
    pub fn lend(&self, slots: impl IntoIterator<Item = u32>) {
        let address = |slot| [u64::from(slot) * u64::from(self.layout.slot_len)];
        let entries: Vec<[u64; 1]> = slots.into_iter().map(address).collect();
        self.put(self.layout.fill, &entries);
    }

    /// The frames that came, and their slots.
    pub fn received(&self) -> Vec<(u32, Vec<u8>)> {
        let frame = |[address, len]: [u64; 2]| {
            let inside = address % u64::from(self.layout.slot_len);
            assert!(inside + len <= u64::from(self.layout.slot_len), "behind the slot's end");
            let mut bytes = vec![0; len as usize];
            self.memory.copy_out((self.layout.slots_at + address) as usize, &mut bytes);
            ((address / u64::from(self.layout.slot_len)) as u32, bytes)
        };
        self.take(self.layout.receive).into_iter().map(frame).collect()
    }

    /// Writes a frame into a slot; its entry for the transmit ring.
    pub fn write(&self, slot: u32, inside: u64, bytes: &[u8]) -> [u64; 2] {
        let address = u64::from(slot) * u64::from(self.layout.slot_len) + inside;
        let at = (self.layout.slots_at + address) as usize;
        let mut whole = vec![0; at % 8];
        whole.extend(bytes);
        self.memory.copy_in(at / 8 * 8, &whole);
        [address, bytes.len() as u64]
    }

    /// All of the memory.
    pub fn all(&self) -> Vec<u8> {
        let mut all = vec![0; self.layout.memory_len as usize];
        self.memory.copy_out(0, &mut all);
        all
    }

    /// A message of the card's that waits.
    pub fn message(&self) -> Option<Vec<u8>> {
        let mut message = [0; 300];
        let got = recv(self.socket.as_fd(), &mut message, RecvFlags::DONTWAIT);
        got.ok().map(|(len, _)| message[..len].to_vec())
    }
}

impl Layout {
    fn read(header: &[u8]) -> Layout {
        assert_eq!((header.len(), &header[..8]), (152, &b"NICLABQ\0"[..]));
        let half = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let word = |at: usize| u64::from_ne_bytes(header[at..at + 8].try_into().unwrap());
        assert_eq!((half(8), half(12)), (1, 152));
        let ring = |number: usize| {
            let at = 56 + number * 24;
            RingAt { producer: word(at), consumer: word(at + 8), entries: word(at + 16) }
        };
        Layout {
            memory_len: word(16),
            slots_at: word(24),
            slots: half(32),
            slot_len: half(36),
            frame_len_max: half(40),
            entries: half(44),
            asleep_at: word(48),
            fill: ring(0),
            receive: ring(1),
            transmit: ring(2),
            completion: ring(3),
        }
    }
}
