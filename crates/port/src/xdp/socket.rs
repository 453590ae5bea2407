//! A socket of AF_XDP: its four rings, and the frames that the kernel has.
//!
//! # Why it is sound
//! The kernel reads and writes frame memory at the addresses that stand in the fill ring and in
//! the transmit ring. So each address is that of a frame whose descriptor is kept here until the
//! kernel names the address again in one of the other two rings: nobody else can reach the frame
//! meanwhile. An address of a frame that the kernel does not hold is refused.
//!
//! One of the modules that may use `unsafe`: it maps rings, each once, of a socket that it made.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use niclab_nic::memory::{Desc, Region};
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::RING;
use super::ring::{ConsumerRing, ProducerRing};
use crate::burst::Burst;

/// `struct xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes)]
struct Descriptor {
    address: u64,
    len: u32,
    options: u32,
}

/// A socket whose frames are those of one region.
pub struct Xsk {
    /// Dropped in this order: the socket, then its rings, then the frames.
    socket: OwnedFd,
    rx: ConsumerRing<Descriptor>,
    fill: ProducerRing<u64>,
    tx: ProducerRing<Descriptor>,
    sent: ConsumerRing<u64>,
    in_kernel: KernelDescriptors,
}

/// Descriptors of the frames that the kernel has, by their slot.
struct KernelDescriptors {
    region: Arc<Region>,
    frames: Vec<Option<Desc>>,
}

impl KernelDescriptors {
    /// Keeps the descriptor of a frame that the kernel is to have: its address.
    ///
    /// # Panics
    /// If it is of another region.
    #[inline]
    fn lend(&mut self, desc: Desc) -> u64 {
        let (slot, address) = (self.region.slot_of(&desc), desc.address().into());
        self.frames[slot] = Some(desc);
        address
    }

    /// The descriptor of a frame that the kernel gives back: one that it holds, unless it is at
    /// fault.
    #[inline]
    fn returned(&mut self, address: u64) -> io::Result<Desc> {
        let slot = self.region.slot_at(address);
        self.frames.get_mut(slot).and_then(Option::take).ok_or_else(foreign)
    }
}

/// The kernel named a frame that it does not hold.
#[cold]
fn foreign() -> io::Error {
    io::Error::other("the kernel gave back a frame that it does not hold")
}

impl Xsk {
    /// A socket that is bound to nothing yet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(region: &Arc<Region>) -> io::Result<Xsk> {
        let (family, kind) = (AddressFamily::XDP, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let (base, len) = region.extent();
        let memory = XdpUmemReg {
            addr: base.as_ptr() as u64,
            len: len as u64,
            chunk_size: region.slot_len() as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        set_xdp_umem_reg(&socket, memory)?;
        set_xdp_umem_fill_ring_size(&socket, RING)?;
        set_xdp_umem_completion_ring_size(&socket, RING)?;
        set_xdp_rx_ring_size(&socket, RING)?;
        set_xdp_tx_ring_size(&socket, RING)?;
        let at = xdp_mmap_offsets(&socket)?;
        let fd = socket.as_fd();
        // SAFETY: the socket was just made, with rings of so many entries of these types
        // (linux/if_xdp.h), and nobody else has it; each ring is mapped once, at the offsets that
        // the kernel has told of it.
        let (rx, tx, fill, sent) = unsafe {
            (
                ConsumerRing::map(fd, XDP_PGOFF_RX_RING, &at.rx, RING)?,
                ProducerRing::map(fd, XDP_PGOFF_TX_RING, &at.tx, RING)?,
                ProducerRing::map(fd, XDP_UMEM_PGOFF_FILL_RING, &at.fr, RING)?,
                ConsumerRing::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, RING)?,
            )
        };
        let frames = std::iter::repeat_with(|| None).take(region.frames()).collect();
        let in_kernel = KernelDescriptors { region: Arc::clone(region), frames };
        Ok(Xsk { socket, rx, fill, tx, sent, in_kernel })
    }

    /// Lends the kernel frames to be filled: those that `next` has, `most` at most, while there is
    /// room for them; how many.
    #[inline]
    pub fn fill(&mut self, most: u32, mut next: impl FnMut() -> Option<Desc>) -> u32 {
        let mut room = self.fill.room(most);
        let before = room.left();
        while room.left() > 0
            && let Some(desc) = next()
        {
            room.put(self.in_kernel.lend(desc));
        }
        let put = before - room.left();
        self.fill.publish();
        put
    }

    /// Whether the kernel wants to be told of frames to be filled by a call.
    #[inline]
    pub fn fill_needs_wakeup(&self) -> bool {
        self.fill.needs_wakeup()
    }

    /// Takes frames that have arrived, `most` at most; how many.
    ///
    /// # Errors
    /// When the kernel names a frame that it does not hold.
    #[inline]
    pub fn receive(&mut self, most: u32, mut each: impl FnMut(Desc)) -> io::Result<u32> {
        let taken = self.rx.take(most);
        let count = taken.left();
        for Descriptor { address, len, .. } in taken {
            let mut desc = self.in_kernel.returned(address)?;
            if !self.in_kernel.region.set_extent(&mut desc, address, len) {
                self.in_kernel.lend(desc);
                return Err(foreign());
            }
            each(desc);
        }
        if count > 0 {
            self.rx.release();
        }
        Ok(count)
    }

    /// Lends the kernel the first frames of a burst to be sent, as many as there is room for; how
    /// many. Calls `each` with the length of each, in bytes.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst, mut each: impl FnMut(u16)) -> u32 {
        let mut room = self.tx.room(burst.len() as u32);
        let count = room.left();
        room.put_all(burst.drain(..count as usize), |desc| {
            let len = desc.len();
            each(len);
            Descriptor { address: self.in_kernel.lend(desc), len: len.into(), options: 0 }
        });
        if count > 0 {
            self.tx.publish();
        }
        count
    }

    /// Whether frames to be sent wait for a call.
    #[inline]
    pub fn needs_kick(&mut self) -> bool {
        self.tx.needs_wakeup() && self.tx.waiting() > 0
    }

    /// Takes all frames back that were sent.
    ///
    /// # Errors
    /// When the kernel names a frame that it does not hold.
    #[inline]
    pub fn take_completed(&mut self, mut each: impl FnMut(Desc)) -> io::Result<()> {
        let taken = self.sent.take(u32::MAX);
        let count = taken.left();
        for address in taken {
            each(self.in_kernel.returned(address)?);
        }
        if count > 0 {
            self.sent.release();
        }
        Ok(())
    }

    /// Ends it; the frames that the kernel had.
    ///
    /// From here on the kernel takes no frame and fills none; one that is on its way out of a card
    /// in zero-copy mode may go with other bytes, but goes nowhere else.
    pub fn close(self) -> impl Iterator<Item = Desc> {
        drop(self.socket);
        self.in_kernel.frames.into_iter().flatten()
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
