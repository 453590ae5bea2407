//! The rings of AF_PACKET (PACKET_MMAP, TPACKET_V2): frames in memory shared with the kernel.
//!
//! The only module here that touches memory the kernel writes too. The owner of a slot is in the
//! slot's status word, which is loaded with acquire and stored with release ordering; the bytes of
//! a slot are read or written only while the word says that it is ours
//! (Documentation/networking/packet_mmap.rst).
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use niclab_nic::limits::BURST;
use niclab_packet::timestamp::TimestampClock;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::stamps;
use crate::link::Link;

/// Slots of a receive ring that is to outlast most stalls: 4 ms of a million frames a second.
pub const RX_SLOTS: usize = 4096;

/// Most memory of a ring, bytes; with long frames it has fewer slots.
const RING_LEN_MAX: usize = 32 << 20;

/// Slots of a transmit ring; a send is finished when its call returns, so that it never grows full.
pub const TX_SLOTS: usize = 1024;

/// Bytes of a slot beside the frame: header, address and alignment (netoff in `tpacket_rcv`), and
/// room for a VLAN tag that is put back.
const SLOT_OVERHEAD: usize = 128;

/// Memory is given to the kernel in blocks of this size; a slot never crosses a block.
const BLOCK_LEN: usize = 1 << 16;

/// Where a frame to be sent starts in its slot (`TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`).
const TX_FRAME_AT: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();

/// linux/if_packet.h
const FANOUT_QM: libc::c_uint = 5;

/// Bytes before the VLAN tag: both MAC addresses.
const TAG_AT: usize = 12;

/// Length of a VLAN tag, bytes.
const TAG_LEN: usize = 4;

const _: () = assert!(size_of::<libc::tpacket2_hdr>() == 32 && TX_FRAME_AT == 32);
const _: () = assert!(TX_SLOTS >= BURST && RING_LEN_MAX >> 17 >= BURST);

/// `struct tpacket_req`.
#[repr(C)]
#[derive(Immutable, IntoBytes)]
struct RingRequest {
    block_len: u32,
    blocks: u32,
    slot_len: u32,
    slots: u32,
}

/// `struct tpacket_stats`.
#[repr(C)]
#[derive(Default, FromBytes, IntoBytes)]
struct Statistics {
    packets: u32,
    drops: u32,
}

/// `struct packet_mreq`.
#[repr(C)]
#[derive(Immutable, IntoBytes)]
struct Membership {
    interface: c_int,
    kind: u16,
    address_len: u16,
    address: [u8; 8],
}

const _: () = assert!(size_of::<RingRequest>() == size_of::<libc::tpacket_req>());
const _: () = assert!(size_of::<Statistics>() == size_of::<libc::tpacket_stats>());
const _: () = assert!(size_of::<Membership>() == size_of::<libc::packet_mreq>());

/// A ring of slots in memory shared with the kernel, and the socket it belongs to.
struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    slots: usize,
    slot_len: usize,
    /// The slot that is next.
    head: usize,
}

// SAFETY: the memory belongs to this ring alone (and to the kernel, whichever thread calls it);
// nothing in it is bound to the thread that mapped it.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of at most `slots` slots for frames of up to `frame_len` bytes; `option` says which
    /// way.
    fn open(socket: OwnedFd, option: c_int, slots: usize, frame_len: usize) -> io::Result<Ring> {
        let slot_len = (frame_len + SLOT_OVERHEAD).next_power_of_two();
        let slots = slots.min(RING_LEN_MAX / slot_len);
        let block_len = BLOCK_LEN.max(slot_len);
        let request = RingRequest {
            block_len: block_len as u32,
            blocks: (slots * slot_len / block_len) as u32,
            slot_len: slot_len as u32,
            slots: slots as u32,
        };
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        set_option(socket.as_fd(), libc::PACKET_VERSION, &version)?;
        set_option(socket.as_fd(), option, &request)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let length = slots * slot_len;
        // SAFETY: the kernel chooses the address; nothing else is mapped there.
        let memory = unsafe { mmap(ptr::null_mut(), length, protection, flags, &socket, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { socket, memory, slots, slot_len, head: 0 })
    }

    /// The start of the slot `ahead` places after the head.
    #[inline]
    fn slot(&self, ahead: usize) -> NonNull<u8> {
        let at = (self.head + ahead) % self.slots * self.slot_len;
        // SAFETY: `at` is below slots * slot_len, the length that was mapped.
        unsafe { self.memory.add(at) }
    }

    /// The status word of the slot `ahead` places after the head.
    #[inline]
    fn status(&self, ahead: usize) -> &AtomicU32 {
        const { assert!(offset_of!(libc::tpacket2_hdr, tp_status) == 0) };
        // SAFETY: a slot starts with the word, is aligned to 16, and stays mapped as long as
        // `self`; the kernel, too, reads and writes the word as a whole.
        unsafe { self.slot(ahead).cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: maps exactly what `open` mapped; no slice outlives the borrow of the ring.
        // An error would mean that it was not mapped, and leaves nothing to be done.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.slots * self.slot_len) };
    }
}

/// A transmit ring on an interface.
pub struct TxRing {
    ring: Ring,
    /// Longest frame it was opened for.
    frame_len: usize,
    reserved: usize,
    /// Of the last commit.
    refused: bool,
}

impl TxRing {
    /// Opens one for frames of up to `frame_len` bytes, past the queueing disciplines: all leave by
    /// one queue of the interface, that of the core which sends.
    pub fn open(link: &Link, frame_len: usize) -> io::Result<TxRing> {
        TxRing::open_at(link, frame_len, true)
    }

    /// The same through the queueing disciplines: the kernel chooses a queue of the interface for
    /// each flow, by a hash that it does not report.
    pub fn open_spread(link: &Link, frame_len: usize) -> io::Result<TxRing> {
        TxRing::open_at(link, frame_len, false)
    }

    fn open_at(link: &Link, frame_len: usize, bypasses: bool) -> io::Result<TxRing> {
        let socket = packet_socket()?;
        set_option(socket.as_fd(), libc::PACKET_QDISC_BYPASS, &c_int::from(bypasses))?;
        let ring = Ring::open(socket, libc::PACKET_TX_RING, TX_SLOTS, frame_len)?;
        bind(ring.socket.as_fd(), link, 0)?;
        Ok(TxRing { ring, frame_len, reserved: 0, refused: false })
    }

    /// How many of the `count` slots from the head on the kernel took over, and whether it refuses
    /// the frame in the one behind them.
    fn taken(&self, count: usize) -> (usize, bool) {
        for i in 0..count {
            match self.ring.status(i).load(Ordering::Acquire) {
                libc::TP_STATUS_SEND_REQUEST => return (i, false),
                libc::TP_STATUS_WRONG_FORMAT => return (i, true),
                _ => {}
            }
        }
        (count, false)
    }
}

impl TxRing {
    /// Longest frame that it takes, bytes.
    pub fn frame_len_max(&self) -> u16 {
        self.frame_len.try_into().unwrap_or(u16::MAX)
    }

    /// Slots that can be filled now, at most `want`.
    pub fn reserve(&mut self, want: usize) -> usize {
        let owned = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;
        let want = want.min(BURST);
        let busy = |i: &usize| self.ring.status(*i).load(Ordering::Acquire) & owned != 0;
        self.reserved = (0..want).find(busy).unwrap_or(want);
        self.reserved
    }

    /// The buffer of reserved slot `i`: at least [`TxRing::frame_len_max`] bytes.
    pub fn slot(&mut self, i: usize) -> &mut [u8] {
        assert!(i < self.reserved, "slot {i} was not reserved");
        let len = self.ring.slot_len - TX_FRAME_AT;
        // SAFETY: `reserve` saw the slot as ours and the kernel takes it only after `commit`, which
        // needs `self` mutably as the slice does; the slice ends with the slot.
        unsafe { slice::from_raw_parts_mut(self.ring.slot(i).add(TX_FRAME_AT).as_ptr(), len) }
    }

    /// Sends the first `lens.len()` reserved slots with these lengths in bytes, in order; how many
    /// left. What was reserved and did not leave is given back.
    pub fn commit(&mut self, lens: &[u16]) -> usize {
        assert!(lens.len() <= self.reserved, "more committed than reserved");
        (self.reserved, self.refused) = (0, false);
        if lens.is_empty() {
            return 0;
        }
        for (i, len) in lens.iter().enumerate() {
            let header = self.ring.slot(i).cast::<libc::tpacket2_hdr>();
            // SAFETY: the slot is ours until its status word is stored below.
            unsafe { (*header.as_ptr()).tp_len = u32::from(*len) };
            let request = libc::TP_STATUS_SEND_REQUEST;
            self.ring.status(i).store(request, Ordering::Release);
        }
        // The kernel takes the slots in order and stops at the first that the interface refuses
        // (ENOBUFS and the like), and there it goes on; the status words tell how far it came, so
        // the result does not.
        let _ = send(&self.ring.socket, &[], SendFlags::DONTWAIT);
        let (left, refused) = self.taken(lens.len());
        self.refused = refused;
        for i in left..lens.len() {
            self.ring.status(i).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        self.ring.head = (self.ring.head + left) % self.ring.slots;
        left
    }

    /// Whether the frame behind those that left at the last commit is one that the interface never
    /// takes: it is longer than its MTU, or shorter than a header.
    pub fn is_next_refused(&self) -> bool {
        self.refused
    }
}

/// A receive ring on an interface: what arrives, not what leaves, whomever it is addressed to.
pub struct RxRing {
    ring: Ring,
    polled: usize,
    partial_checksums: u64,
    /// The clock of the time stamps beside frames.
    clock: Option<TimestampClock>,
}

/// Counters of a receive ring's socket since they were last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Frames that arrived, the dropped ones among them.
    pub frames: u64,
    /// Frames that found no free slot.
    pub dropped: u64,
}

impl RxRing {
    /// Opens one of at most `slots` slots for frames of up to `frame_len` bytes.
    pub fn open(link: &Link, frame_len: usize, slots: usize) -> io::Result<RxRing> {
        RxRing::open_for(link, (frame_len, slots), libc::ETH_P_ALL as u16)
    }

    /// The same for frames of one protocol, `ETH_P_IP` or another Ethernet type. The kernel gives
    /// such a ring what the filters of the interface's ingress have let through, while a ring of
    /// all protocols has the frames before them (`__netif_receive_skb_core` in net/core/dev.c).
    pub fn open_behind_filters(
        link: &Link,
        (frame_len, slots): (usize, usize),
        protocol: u16,
    ) -> io::Result<RxRing> {
        RxRing::open_for(link, (frame_len, slots), protocol)
    }

    fn open_for(
        link: &Link,
        (frame_len, slots): (usize, usize),
        protocol: u16,
    ) -> io::Result<RxRing> {
        let socket = packet_socket()?;
        set_option(socket.as_fd(), libc::PACKET_IGNORE_OUTGOING, &1)?;
        set_option(socket.as_fd(), libc::PACKET_RESERVE, &(TAG_LEN as c_int))?;
        let ring = Ring::open(socket, libc::PACKET_RX_RING, slots, frame_len)?;
        bind(ring.socket.as_fd(), link, protocol)?;
        let_all_in(ring.socket.as_fd(), link)?;
        Ok(RxRing { ring, polled: 0, partial_checksums: 0, clock: None })
    }

    /// Shares what arrives with the other rings of a group, by flow: a flow has its frames on one
    /// of them (`PACKET_FANOUT_HASH`). The first begins a group, whose number the others say. A
    /// ring that is to join has had every frame since it was opened, and those of before stay in it
    /// until [`RxRing::drain`].
    pub fn share(&self, group: Option<u16>) -> io::Result<u16> {
        self.fan_out(group, libc::PACKET_FANOUT_HASH)
    }

    /// The same by what the kernel keeps of a frame's queue: the ring that was the `n`-th to join
    /// has the frames for which that number leaves the rest `n` (`PACKET_FANOUT_QM`). Of a frame
    /// that a card received it is the queue's number and one; of one that a veth pair carried
    /// across, the number of the queue that it was sent by.
    pub fn share_by_queue(&self, group: Option<u16>) -> io::Result<u16> {
        self.fan_out(group, FANOUT_QM)
    }

    fn fan_out(&self, group: Option<u16>, mode: libc::c_uint) -> io::Result<u16> {
        // The kernel knows which numbers other programs of the namespace have.
        let flag = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let fanout = c_int::from(group.unwrap_or(0)) | ((mode | flag) as c_int) << 16;
        set_option(self.ring.socket.as_fd(), libc::PACKET_FANOUT, &fanout)?;
        let mut given: c_int = 0;
        option(self.ring.socket.as_fd(), libc::PACKET_FANOUT, &mut given)?;
        Ok(given as u16)
    }

    /// The socket, which tells when frames have arrived.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.ring.socket.as_fd()
    }

    /// Frames it holds.
    pub fn slots(&self) -> usize {
        self.ring.slots
    }

    /// Frames polled so far whose TCP or UDP checksum the sender left to a card
    /// (`TP_STATUS_CSUMNOTREADY`, packet(7)).
    pub fn partial_checksums(&self) -> u64 {
        self.partial_checksums
    }

    /// Counters of the socket since the last call.
    pub fn counters(&self) -> io::Result<RxCounters> {
        let mut stats = Statistics::default();
        option(self.ring.socket.as_fd(), libc::PACKET_STATISTICS, &mut stats)?;
        Ok(RxCounters { frames: stats.packets.into(), dropped: stats.drops.into() })
    }

    /// Throws away what has arrived so far and forgets what was counted.
    pub fn drain(&mut self) -> io::Result<()> {
        // Bounded, lest a flood from elsewhere hold us here.
        for _ in 0..2 * self.ring.slots / BURST {
            if self.poll() == 0 {
                break;
            }
            self.release();
        }
        self.release();
        self.counters().map(|_| ())
    }

    /// Where the frame in slot `ahead` starts, and its length.
    #[inline]
    fn extent(&self, ahead: usize) -> (usize, usize) {
        // SAFETY: called for slots that the kernel gave us and that are not yet released; it writes
        // into them no more.
        let header = unsafe { self.ring.slot(ahead).cast::<libc::tpacket2_hdr>().as_ref() };
        let start = usize::from(header.tp_mac);
        let len = (header.tp_snaplen as usize).min(self.ring.slot_len - start);
        (start, len)
    }

    /// Puts the outermost VLAN tag back, which the kernel takes out of every frame it receives: the
    /// addresses move into the reserved bytes before them.
    #[cold]
    fn put_tag_back(&mut self, ahead: usize) {
        let (start, len) = self.extent(ahead);
        let Some(tagged) = start.checked_sub(TAG_LEN).filter(|_| len >= TAG_AT) else {
            return;
        };
        let slot = self.ring.slot(ahead);
        // SAFETY: the slot is ours until released, `self` is borrowed mutably, so no slice of it
        // exists; start + len lies within the slot, and the header ends before start - TAG_LEN
        // (PACKET_RESERVE asked for these bytes).
        unsafe {
            let bytes = slice::from_raw_parts_mut(slot.add(tagged).as_ptr(), len + TAG_LEN);
            let header = slot.cast::<libc::tpacket2_hdr>().as_mut();
            bytes.copy_within(TAG_LEN..TAG_LEN + TAG_AT, 0);
            let known = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if known { header.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
            bytes[TAG_AT..TAG_AT + 2].copy_from_slice(&tpid.to_be_bytes());
            bytes[TAG_AT + 2..TAG_AT + 4].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
            header.tp_mac -= TAG_LEN as u16;
            header.tp_snaplen += TAG_LEN as u32;
        }
    }
}

impl RxRing {
    /// Looks for frames, at most [`BURST`]; after it `frame(0..n)` may be read.
    pub fn poll(&mut self) -> usize {
        self.release();
        for i in 0..BURST {
            let status = self.ring.status(i).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            self.partial_checksums += u64::from(status & libc::TP_STATUS_CSUMNOTREADY != 0);
            if status & libc::TP_STATUS_VLAN_VALID != 0 {
                self.put_tag_back(i);
            }
            self.polled = i + 1;
        }
        self.polled
    }

    /// Frame `i` of the last poll.
    pub fn frame(&self, i: usize) -> &[u8] {
        assert!(i < self.polled, "frame {i} was not polled");
        let (start, len) = self.extent(i);
        // SAFETY: the slot is ours until `release`, which needs `self` mutably; the extent was cut
        // to the slot.
        unsafe { slice::from_raw_parts(self.ring.slot(i).add(start).as_ptr(), len) }
    }

    /// Has the kernel write time stamps of this clock beside frames, as far as they have some
    /// (`PACKET_TIMESTAMP`).
    pub fn stamp_by(&mut self, clock: TimestampClock) -> io::Result<()> {
        stamps::report_received(self.socket(), clock)?;
        set_option(self.socket(), libc::PACKET_TIMESTAMP, &stamps::flags(clock))?;
        self.clock = Some(clock);
        Ok(())
    }

    /// The time stamp of frame `i` of the last poll, nanoseconds; `None` if it has none of the
    /// clock that was asked for.
    pub fn stamp_ns(&self, i: usize) -> Option<u64> {
        assert!(i < self.polled, "frame {i} was not polled");
        let status = self.ring.status(i).load(Ordering::Acquire);
        // The kernel may write its own in the place of a card's.
        self.clock.filter(|clock| status & stamps::status(*clock) != 0)?;
        // SAFETY: as in `extent`: the slot is ours until `release`, and the kernel writes into it
        // no more.
        let header = unsafe { self.ring.slot(i).cast::<libc::tpacket2_hdr>().as_ref() };
        let ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        Some(ns)
    }

    /// Gives the polled frames back.
    pub fn release(&mut self) {
        for i in 0..self.polled {
            self.ring.status(i).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.ring.head = (self.ring.head + self.polled) % self.ring.slots;
        self.polled = 0;
    }
}

/// A socket that receives nothing yet: it takes part when it is bound.
fn packet_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?)
}

/// A socket that sends on an interface and receives nothing.
pub(super) fn sending_socket(link: &Link, bypasses: bool) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    set_option(socket.as_fd(), libc::PACKET_QDISC_BYPASS, &c_int::from(bypasses))?;
    bind(socket.as_fd(), link, 0)?;
    Ok(socket)
}

/// Has an interface let in frames to whomever they are addressed, as long as what this returns is
/// open.
pub fn promiscuous(link: &Link) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    let_all_in(socket.as_fd(), link)?;
    Ok(socket)
}

/// Ends with the socket, and the interface's own setting stays as it is.
fn let_all_in(socket: BorrowedFd<'_>, link: &Link) -> io::Result<()> {
    let all = Membership {
        interface: link.index as c_int,
        kind: libc::PACKET_MR_PROMISC as u16,
        address_len: 0,
        address: [0; 8],
    };
    set_option(socket, libc::PACKET_ADD_MEMBERSHIP, &all)
}

/// Binds a socket to an interface, for frames of `protocol` (0: none, it only sends).
fn bind(socket: BorrowedFd<'_>, link: &Link, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: link.index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call and the length is its own.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option of the packet layer to a value whose bytes are all written.
fn set_option<T: Immutable + IntoBytes>(
    socket: BorrowedFd<'_>,
    option: c_int,
    value: &T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let value = ptr::from_ref(value).cast();
    // SAFETY: the value lives through the call and the length is its own; the kernel only reads it.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of the packet layer, a value that any bytes make.
fn option<T: FromBytes + IntoBytes>(
    socket: BorrowedFd<'_>,
    option: c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let value = ptr::from_mut(value).cast();
    // SAFETY: both pointers are to values that live through the call; the length is the value's,
    // which any bytes make (`FromBytes`).
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, &raw mut length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
