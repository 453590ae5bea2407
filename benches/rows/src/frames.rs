//! Frames in memory that go round, as a core's receive queue holds them.

use std::hint::black_box;
use std::sync::Arc;

use niclab_nic::Worker;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_packet::stack::{Layer, build_with_len};
use niclab_packet::wire::{IpProtocol, ethernet, ipv4, tcp, udp};
use niclab_pairing::slice;
use niclab_peer::Answer;

use crate::BenchError;
use crate::sets::PacketValues;

/// Bytes of a frame with its FCS.
const LEN: u16 = 64;

/// Frames, in bursts.
#[derive(Debug)]
pub struct Frames {
    /// Their memory.
    pub region: Arc<Region>,
    /// One for each frame, in the order of the packets.
    pub descs: Vec<Desc>,
    at: usize,
}

impl Frames {
    /// A frame of 64 bytes for each packet, whole bursts of them.
    pub fn new(packets: &[PacketValues]) -> Result<Frames, BenchError> {
        Self::of(&packets.iter().map(frame).collect::<Result<Vec<_>, _>>()?)
    }

    /// These frames, whole bursts of them.
    pub fn of(frames: &[Vec<u8>]) -> Result<Frames, BenchError> {
        let count = frames.len() / BURST * BURST;
        let room = frames.iter().map(Vec::len).max().unwrap_or(0);
        let (region, mut descs) = Region::new(count, room)?;
        for (frame, desc) in frames.iter().zip(&mut descs) {
            region.set_len(desc, frame.len() as u16);
            region.frame_mut(desc).copy_from_slice(frame);
        }
        Ok(Frames { region, descs, at: 0 })
    }

    /// Classifies burst after burst for a slice.
    pub fn classify(&mut self, worker: &mut Worker, slice_ms: u64) -> Answer {
        slice(slice_ms, || {
            for _ in 0..16 {
                let (region, burst) = self.burst();
                black_box(worker.classify(region, burst));
            }
            16 * BURST as u64
        })
    }

    /// The next burst; as where frames come from a ring, the first line of those behind it is asked
    /// for.
    #[inline]
    pub fn burst(&mut self) -> (&Region, &mut [Desc]) {
        let here = self.at..self.at + BURST;
        self.at = here.end % self.descs.len();
        self.descs[self.at..][..BURST].iter().for_each(|desc| self.region.prefetch(desc));
        (&self.region, &mut self.descs[here])
    }
}

/// Ethernet, IPv4 and what the protocol says; of a protocol without ports the two ports are the
/// first bytes behind IP.
fn frame(&[src, dst, sport, dport, protocol]: &PacketValues) -> Result<Vec<u8>, BenchError> {
    let protocol = IpProtocol(protocol as u8);
    let (src_port, dst_port) = (sport as u16, dport as u16);
    let inner = match protocol {
        IpProtocol::TCP => Layer::Tcp(tcp::Repr { src_port, dst_port, ..tcp::Repr::default() }),
        IpProtocol::UDP => Layer::Udp(udp::Repr { src_port, dst_port, ..udp::Repr::default() }),
        _ => Layer::Payload((sport << 16 | dport).to_be_bytes().to_vec()),
    };
    let ip = ipv4::Repr { src: src.into(), dst: dst.into(), protocol, ..ipv4::Repr::default() };
    let layers = [Layer::Ethernet(ethernet::Repr::default()), Layer::Ipv4(ip), inner];
    Ok(build_with_len(&layers, LEN)?)
}
