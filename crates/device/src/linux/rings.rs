//! The rings of both ends of a wire: those of generator and sink, and those of the function.

use std::io;

use niclab_load::{Load, PortCounters, StampedFrames};
use niclab_packet::size::FCS_LEN;
use niclab_packet::timestamp::TimestampClock;
use niclab_port::error::PortError;
use niclab_port::packet::StampingSocket;

use super::forward::{FRAME_NS, Forward};
use super::forward_xdp;
use super::link::Link;
use super::name::Path;
use super::ring::{RX_SLOTS, RxRing, SINK_SLOTS, TxRing, stamp_frames};
use super::{End, RIGHTS, refused};
use crate::face::DeviceError;
use crate::pair::{DeviceSide, ShowFrame};

/// Slots of the rings of several queues, at least.
const QUEUE_SLOTS_MIN: usize = 512;

/// Descriptors of an AF_XDP ring.
const XDP_SLOTS: usize = niclab_port::xdp::FRAMES / 4;

const _: () = assert!(RX_SLOTS.is_power_of_two() && QUEUE_SLOTS_MIN.is_power_of_two());

/// The parameters of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingShape {
    /// The path of the function's frames.
    pub path: Path,
    /// The function's queues.
    pub queues: u16,
    /// Longest frame, bytes with FCS.
    pub frame_len_max: u16,
}

/// The rings of both ends.
pub(super) struct Rings {
    /// Those of generator and sink, where the tester is on this host.
    pub tester: Option<TesterRings>,
    pub function: Function,
}

/// The rings of generator and sink.
pub(super) struct TesterRings {
    pub outlet: TxRing,
    pub inlet: RxRing,
}

impl TesterRings {
    /// Opens those for frames of at most so many bytes with FCS. Where it spreads, the kernel
    /// chooses the queue of each flow. Some frames are stamped by `stamps`, if there is one.
    pub(super) fn open(
        tester: &End,
        (frame_len_max, spreads): (u16, bool),
        stamps: Option<TimestampClock>,
    ) -> Result<TesterRings, DeviceError> {
        let len = usize::from(frame_len_max.saturating_sub(FCS_LEN));
        tester.within("opening AF_PACKET rings on", |link| {
            // Of a veth pair the queue that sends is the queue that receives.
            let tx = if spreads { TxRing::open_spread } else { TxRing::open };
            let (mut inlet, mut outlet) = (RxRing::open(link, len, SINK_SLOTS)?, tx(link, len)?);
            if let Some(clock) = stamps {
                let socket = StampingSocket::open(link, clock, !spreads)?;
                stamp_frames((&mut outlet, &mut inlet), clock, socket)?;
            }
            Ok(TesterRings { outlet, inlet })
        })
    }

    /// The times of the stamped frames of a load that is over, where stamps are asked for.
    pub(super) fn end_stamps(&self, load: &Load) -> Result<Option<StampedFrames>, DeviceError> {
        self.outlet.end_stamps(load).map_err(|e| refused("reading the time stamps of frames", &e))
    }

    /// Throws away what has arrived so far.
    pub(super) fn drain(&mut self) -> Result<(), DeviceError> {
        self.inlet.drain().map_err(|e| refused("emptying the rings", &e))
    }
}

/// The function under test, by its path.
pub(super) enum Function {
    Packet(Forward),
    Xdp(Box<forward_xdp::Forward>),
}

impl Rings {
    pub(super) fn open(
        tester: Option<&End>,
        device: &End,
        shape: RingShape,
        stamps: Option<TimestampClock>,
    ) -> Result<Rings, DeviceError> {
        let len = usize::from(shape.frame_len_max.saturating_sub(FCS_LEN));
        let what = "opening AF_PACKET rings on";
        let tester = match tester {
            None => None,
            Some(tester) => {
                let spreads = shape.queues > 1 && tester.link.is_veth();
                Some(TesterRings::open(tester, (shape.frame_len_max, spreads), stamps)?)
            }
        };
        let function = match shape.path {
            Path::Packet | Path::Tc => {
                Function::Packet(device.within(what, |link| packet(link, shape, len))?)
            }
            Path::Xdp => {
                let open = |link: &Link| Ok(forward_xdp::Forward::open(link, shape.queues));
                let opened = device.within("opening AF_XDP sockets on", open)?;
                Function::Xdp(Box::new(opened.map_err(of_port)?))
            }
        };
        Ok(Rings { tester, function })
    }

    /// Throws away what has arrived so far.
    pub(super) fn drain(&mut self) -> Result<(), DeviceError> {
        let function = match &mut self.function {
            Function::Packet(function) => function.rx.iter_mut().try_for_each(RxRing::drain),
            Function::Xdp(function) => function.drain(),
        };
        function.map_err(|e| refused("emptying the rings", &e))?;
        self.tester.as_mut().map_or(Ok(()), TesterRings::drain)
    }
}

/// The protocols of frames that come through behind filters.
const BEHIND_FILTERS: [u16; 2] = [libc::ETH_P_IP as u16, libc::ETH_P_IPV6 as u16];

/// AF_PACKET rings for as many queues; behind filters as many again for each protocol.
fn packet(link: &Link, shape: RingShape, len: usize) -> io::Result<Forward> {
    let queues = usize::from(shape.queues);
    let rx = match shape.path {
        Path::Tc => {
            let mut all = Vec::with_capacity(BEHIND_FILTERS.len() * queues);
            for protocol in BEHIND_FILTERS {
                all.extend(queue_rings(link, queues, |slots| {
                    RxRing::open_behind_filters(link, (len, slots), protocol)
                })?);
            }
            all
        }
        _ => queue_rings(link, queues, |slots| RxRing::open(link, len, slots))?,
    };
    Ok(Forward::new(rx, queues, TxRing::open(link, len)?))
}

/// A ring for each queue.
fn queue_rings(
    link: &Link,
    queues: usize,
    open: impl Fn(usize) -> io::Result<RxRing>,
) -> io::Result<Vec<RxRing>> {
    // Blocks of the kernel's memory are filled by a power of two alone.
    let slots = (RX_SLOTS / queues.max(1).next_power_of_two()).max(QUEUE_SLOTS_MIN);
    let rx = (0..queues).map(|_| open(slots)).collect::<io::Result<Vec<_>>>()?;
    if queues > 1 {
        // Queue 0 of a card has the number 1, of a veth pair 0: the ring of the last queue is the
        // first to join, or that of the first.
        let first = if link.is_veth() { 0 } else { queues - 1 };
        let mut group = None;
        for at in 0..queues {
            group = Some(rx[(first + at) % queues].share_by_queue(group)?);
        }
    }
    Ok(rx)
}

/// Converts an error of a port.
pub(super) fn of_port(error: PortError) -> DeviceError {
    let (device, reason) = ("linux".to_owned(), error.to_string());
    match error {
        PortError::NotAllowed { .. } => DeviceError::Rights { what: reason, remedy: RIGHTS.into() },
        PortError::NoQueue { .. } | PortError::Mtu { .. } | PortError::QueuePairs { .. } => {
            DeviceError::lacks(reason)
        }
        _ => DeviceError::Broken { device, reason },
    }
}

impl Function {
    /// Why the function dealt with no more frames, where its interface failed in a trial.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        match self {
            Function::Packet(_) => None,
            Function::Xdp(function) => function.take_error(),
        }
    }

    /// Frames that the ring of one of its queues holds.
    pub(super) fn depth(&self) -> usize {
        match self {
            Function::Packet(function) => {
                function.rx.iter().map(RxRing::slots).min().unwrap_or_default()
            }
            Function::Xdp(_) => XDP_SLOTS,
        }
    }
}

impl DeviceSide for Function {
    fn frame_ns(&self) -> u64 {
        FRAME_NS
    }

    fn queues(&self) -> u16 {
        match self {
            Function::Packet(function) => function.queues(),
            Function::Xdp(function) => function.queues(),
        }
    }

    fn start(&mut self) {
        match self {
            Function::Packet(function) => function.start(),
            Function::Xdp(function) => function.start(),
        }
    }

    #[inline]
    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        match self {
            Function::Packet(function) => function.turn(counters),
            Function::Xdp(function) => function.turn(counters),
        }
    }

    fn turn_shown(&mut self, show: &mut ShowFrame<'_>) -> usize {
        match self {
            Function::Packet(function) => function.turn_shown(show),
            Function::Xdp(function) => function.turn_shown(show),
        }
    }

    fn last(&mut self, counters: &mut PortCounters) {
        match self {
            Function::Packet(function) => function.last(counters),
            Function::Xdp(function) => function.last(counters),
        }
    }

    fn missed(&mut self) -> u64 {
        match self {
            Function::Packet(function) => function.missed(),
            Function::Xdp(function) => function.missed(),
        }
    }
}
