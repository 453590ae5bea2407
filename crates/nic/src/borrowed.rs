//! Bursts of frames that lie in the caller's own buffers: they are classified in place, and nothing
//! is copied.
//!
//! A program with buffers of its own (a DPDK driver, for example) has no [`Region`] and no
//! descriptors to give away. It lists its frames, the worker makes descriptors for the length of
//! one call, and the results are written into the list.
//!
//! [`Region`]: crate::memory::Region
#![allow(unsafe_code)]

use std::cell::Cell;

use arrayvec::ArrayVec;

use crate::limits::BURST;
use crate::memory::{Desc, Frames};
use crate::tables::bits;
use crate::worker::Worker;

/// Bits of [`BorrowedFrame::flags`]: what the pipeline decided about a frame.
pub mod flags {
    /// A rule flagged the packet.
    pub const FLAGGED: u8 = 1;
    /// A rule marked the packet; the number is in [`mark`](super::BorrowedFrame::mark).
    pub const MARKED: u8 = 2;
    /// No queue gets the packet: discard it.
    pub const DROPPED: u8 = 4;
    /// No queue gets the packet: send it by [`port`](super::BorrowedFrame::port).
    pub const LEAVES: u8 = 8;
    /// The port's RSS sent the packet to its queue, so that no rule decided about it.
    pub const PORT_RSS: u8 = 16;
}

/// A frame in the caller's buffer, and what the pipeline decided about it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BorrowedFrame {
    /// First byte of the frame. Rules that put headers in front or remove them move it.
    pub data: *mut u8,
    /// Bytes before `data` that headers may be put into.
    pub headroom: u16,
    /// Length of the frame, bytes without FCS.
    pub len: u16,
    /// RSS hash; 0 if RSS computed none.
    pub hash: u32,
    /// The number of a rule's `mark`, if [`flags::MARKED`] is set.
    pub mark: u32,
    /// Receive queue.
    pub queue: u16,
    /// Port that the packet leaves by, if [`flags::LEAVES`] is set.
    pub port: u8,
    /// See [`flags`].
    pub flags: u8,
}

const _: () = assert!(size_of::<BorrowedFrame>() == 24);

/// The frames of one call. A descriptor's address is the index of its frame.
struct BorrowedFrames<'a>(&'a [Cell<BorrowedFrame>]);

impl BorrowedFrames<'_> {
    fn get(&self, desc: &Desc) -> BorrowedFrame {
        self.0[desc.address() as usize].get()
    }

    fn set(&self, desc: &mut Desc, frame: BorrowedFrame) {
        self.0[desc.address() as usize].set(frame);
        desc.set_borrowed_len(frame.len);
    }
}

impl Frames for BorrowedFrames<'_> {
    #[inline]
    fn frame<'a>(&'a self, desc: &'a Desc) -> &'a [u8] {
        let frame = self.get(desc);
        // SAFETY: the caller of `classify_borrowed` vouches for `len` bytes at `data`, and
        // `grow_front` and `shrink_front` stay within them and the headroom. The descriptor is the
        // only one of this frame, and it is borrowed, so nobody writes.
        unsafe { std::slice::from_raw_parts(frame.data, usize::from(frame.len)) }
    }

    #[inline]
    fn frame_mut<'a>(&'a self, desc: &'a mut Desc) -> &'a mut [u8] {
        let frame = self.get(desc);
        // SAFETY: as in `frame`; the descriptor is borrowed for writing, so this is the only
        // access.
        unsafe { std::slice::from_raw_parts_mut(frame.data, usize::from(frame.len)) }
    }

    fn grow_front<'a>(&'a self, desc: &'a mut Desc, len: usize) -> Option<&'a mut [u8]> {
        let mut frame = self.get(desc);
        let added = u16::try_from(len).ok()?;
        frame.len = frame.len.checked_add(added)?;
        frame.headroom = frame.headroom.checked_sub(added)?;
        frame.data = frame.data.wrapping_sub(len);
        self.set(desc, frame);
        Some(self.frame_mut(desc))
    }

    fn shrink_front(&self, desc: &mut Desc, len: usize) {
        let mut frame = self.get(desc);
        assert!(len < usize::from(frame.len), "a frame keeps a byte");
        frame.len -= len as u16;
        frame.headroom = frame.headroom.saturating_add(len as u16);
        frame.data = frame.data.wrapping_add(len);
        self.set(desc, frame);
    }

    fn set_mark(&self, desc: &mut Desc, mark: u32) {
        self.set(desc, BorrowedFrame { mark, ..self.get(desc) });
        desc.set_marked();
    }
}

impl Worker {
    /// Classifies a burst of at most [`BURST`] frames in the caller's buffers, as
    /// [`Worker::classify`] does for frames of a region. Sets every field of each frame; rules that
    /// change a packet change its bytes in place.
    ///
    /// # Panics
    /// If there are more than [`BURST`] frames, or this worker is offline.
    ///
    /// # Safety
    /// For each frame, `data` is not null. The `len` bytes from `data` and the `headroom` bytes
    /// before it are valid for reads and writes, and nobody else accesses them during the call. No
    /// two frames share bytes.
    pub unsafe fn classify_borrowed(&mut self, burst: &mut [BorrowedFrame]) {
        assert!(burst.len() <= BURST, "a burst of more than {BURST} frames");
        for frame in &mut *burst {
            (frame.mark, frame.port) = (0, 0);
        }
        let descs = burst.iter().zip(0..).map(|(frame, index)| Desc::borrowed(index, frame.len));
        let mut descs: ArrayVec<Desc, BURST> = descs.collect();
        let frames = BorrowedFrames(Cell::from_mut(&mut *burst).as_slice_of_cells());
        self.begin(&frames, &descs);
        let undelivered = self.match_groups(&frames, &mut descs);
        let port_rss = self.port_rss_packets();
        for ((i, desc), frame) in descs.iter().enumerate().zip(&mut *burst) {
            frame.hash = desc.hash;
            frame.queue = desc.queue;
            let flag = |bit: bool, flag: u8| if bit { flag } else { 0 };
            frame.flags = flag(desc.is_flagged(), flags::FLAGGED)
                | flag(desc.is_marked(), flags::MARKED)
                | flag(port_rss >> i & 1 == 1, flags::PORT_RSS);
        }
        for i in bits(undelivered) {
            let port = descs[i].port();
            burst[i].flags |= if port.is_some() { flags::LEAVES } else { flags::DROPPED };
            burst[i].port = port.unwrap_or(0) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::stack::build;
    use niclab_packet::wire::{ethernet, ipv4, udp};

    use super::*;
    use crate::memory::Region;
    use crate::rule::{Action, Pattern, Rule};
    use crate::{Nic, NicConfig};

    fn frame_to(port: u16) -> Vec<u8> {
        build(&[
            ethernet::Repr::default().into(),
            ipv4::Repr::default().into(),
            udp::Repr { dst_port: port, ..Default::default() }.into(),
        ])
        .unwrap()
    }

    /// A buffer with headroom, and the frame in it.
    fn borrowed(buffer: &mut Vec<u8>, frame: &[u8], headroom: usize) -> BorrowedFrame {
        *buffer = vec![0xee; headroom];
        buffer.extend(frame);
        BorrowedFrame {
            data: buffer[headroom..].as_mut_ptr(),
            headroom: headroom as u16,
            len: frame.len() as u16,
            hash: 0,
            mark: 0,
            queue: 0,
            port: 0,
            flags: 0,
        }
    }

    fn nic() -> Nic {
        let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
        for (port, actions) in [
            (1, vec![Action::Queue(3)]),
            (2, vec![Action::Drop]),
            (3, vec![Action::Mark(77), Action::Queue(1)]),
            (4, vec![Action::PushVlan(0x8100), Action::Jump(1)]),
            (5, vec![Action::RawDecap(14), Action::Queue(2)]),
            (6, vec![Action::Flag, Action::Port(0)]),
        ] {
            let pattern = Pattern::ipv4().udp().dport(port);
            nic.create(&Rule { group: 0, priority: 0, pattern, actions: &actions }).unwrap();
        }
        let (pattern, actions) =
            (Pattern::ipv4().udp().dport(4), [Action::Count, Action::Queue(2)]);
        nic.create(&Rule { group: 1, priority: 0, pattern, actions: &actions }).unwrap();
        nic
    }

    #[test]
    fn frames_of_the_caller_are_classified_as_frames_of_a_region_are() {
        let mut nic = nic();
        let mut worker = nic.worker();
        let frames: Vec<Vec<u8>> = (0..8).map(frame_to).collect();
        let (region, mut descs) = Region::new(frames.len(), 100).unwrap();
        for (desc, frame) in descs.iter_mut().zip(&frames) {
            region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            region.set_len(desc, frame.len() as u16);
        }
        let dropped = worker.classify(&region, &mut descs);
        let mut buffers = vec![Vec::new(); frames.len()];
        let buffers = buffers.iter_mut().zip(&frames);
        let mut burst: Vec<_> = buffers.map(|(b, frame)| borrowed(b, frame, 64)).collect();
        // SAFETY: each buffer outlives the call and belongs to one frame.
        unsafe { worker.classify_borrowed(&mut burst) };
        for (i, (desc, frame)) in descs.iter().zip(&burst).enumerate() {
            // SAFETY: as above; the frame's bytes are in its buffer.
            let bytes = unsafe { std::slice::from_raw_parts(frame.data, frame.len.into()) };
            assert_eq!(bytes, region.frame(desc), "frame {i}");
            assert_eq!((frame.queue, frame.hash), (desc.queue, desc.hash), "frame {i}");
            assert_eq!(frame.flags & flags::FLAGGED != 0, desc.is_flagged(), "frame {i}");
            let mark = (frame.flags & flags::MARKED != 0).then_some(frame.mark);
            assert_eq!(mark, region.mark(desc), "frame {i}");
            let undelivered = frame.flags & (flags::DROPPED | flags::LEAVES) != 0;
            assert_eq!(undelivered, dropped >> i & 1 == 1, "frame {i}");
            assert_eq!(frame.flags & flags::LEAVES != 0, desc.port().is_some(), "frame {i}");
        }
        let rss: Vec<bool> = burst.iter().map(|f| f.flags & flags::PORT_RSS != 0).collect();
        assert_eq!(rss, [true, false, false, false, false, false, false, true]);
    }

    #[test]
    fn a_header_in_front_needs_headroom_and_a_packet_without_it_is_dropped_and_counted() {
        let mut nic = nic();
        let mut worker = nic.worker();
        let mut buffers = [Vec::new(), Vec::new()];
        let [one, other] = &mut buffers;
        let mut burst = [borrowed(one, &frame_to(4), 4), borrowed(other, &frame_to(4), 3)];
        // SAFETY: each buffer outlives the call and belongs to one frame.
        unsafe { worker.classify_borrowed(&mut burst) };
        assert_eq!((burst[0].headroom, burst[0].queue), (0, 2), "jumped and counted");
        assert_eq!(burst[1].flags, flags::DROPPED);
        assert_eq!(nic.headroom_drops(), 1);
        assert_eq!(
            buffers[0][..20],
            [&frame_to(4)[..12], &[0x81, 0, 0, 0, 8, 0, 0x45, 0]].concat()
        );
    }
}
