//! A card's way through the kernel: frames received over AF_XDP, sent back with their MAC addresses
//! swapped over AF_XDP, by one core.
//!
//! Ours and testpmd have a veth pair each, made alike, and the same core. Frames come from the
//! other end, sent over AF_XDP by the other core as fast as it can, which hands them over within
//! its own calls; there nobody takes what comes back, so that the forwarding core has more to do
//! than the sending one. What the forwarding interface has sent is counted by the kernel.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use niclab_card::{Card, CardConfig, PortName};
use niclab_device::DeviceError;
use niclab_device::linux::netns::NetNs;
use niclab_device::linux::{link, refused};
use niclab_device::program::{self, Program};
use niclab_packet::stack::build;
use niclab_packet::wire::{MacAddress, ethernet, ipv4, udp};
use niclab_pairing::{alternate, pin};
use niclab_peer::Answer;
use niclab_port::Burst;
use niclab_port::frame_pool::{FramePool, frame_pools};
use niclab_port::queue_pair::QueuePair;
use niclab_port::xdp::{self, XdpQueuePair};
use rustix::process::{Pid, Signal, kill_process};

use crate::echo::or_not_supported;
use crate::{Bench, BenchError, Measured, Slices};

/// Measured part of a slice: long enough for the kernel's counter to be asked twice.
const SLICE: Duration = Duration::from_millis(200);

/// What is left out before it: a card begins, a program goes on.
const WARMUP: Duration = Duration::from_millis(50);

/// How long testpmd may take until it forwards.
const START: Duration = Duration::from_secs(20);

/// Bytes of a frame without FCS.
const FRAME_LEN: u16 = 60;

/// Frames a second over AF_XDP there and back, beside testpmd's `net_af_xdp`.
///
/// # Errors
/// [`BenchError::Device`]. What is missing here is no error but [`Slices::NotSupported`].
pub fn frames(bench: &Bench) -> Result<Measured, BenchError> {
    or_not_supported(compare(bench))
}

fn compare(bench: &Bench) -> Result<Measured, BenchError> {
    let other = bench
        .other
        .ok_or_else(|| DeviceError::lacks("forwarding beside a generator on one core"))?;
    let netns = NetNs::anonymous().map_err(|error| refused("a network namespace", &error))?;
    let mut ours = VethEnd::make(&netns, "ours", "from-a")?;
    let mut theirs = VethEnd::make(&netns, "theirs", "from-b")?;
    let peer = Testpmd::start(&netns, bench, &mut theirs, other)?;
    let config =
        CardConfig::new(vec![PortName::Xdp("ours".to_owned())], 1, vec![bench.core as u32]);
    let card = || -> Result<Answer, BenchError> {
        let card = netns.within(|| Card::start(&config, "")).map_err(lost)?;
        let card = card.map_err(|error| DeviceError::Broken {
            device: "our card".to_owned(),
            reason: error.to_string(),
        })?;
        let answer = ours.slice(&netns, other);
        drop(card.shut_down());
        answer
    };
    let pairs = alternate(bench.pairs, card, || {
        peer.signal(Signal::CONT);
        let answer = theirs.slice(&netns, other);
        peer.signal(Signal::STOP);
        answer
    })?;
    Ok(Measured::of(Slices::Paired(pairs)))
}

/// One veth pair, and what sends at its far end.
struct VethEnd {
    near: &'static str,
    queue_pair: XdpQueuePair,
    pool: FramePool,
}

impl VethEnd {
    fn make(netns: &NetNs, near: &'static str, far: &str) -> Result<VethEnd, BenchError> {
        let broken = |reason: String| DeviceError::Broken { device: "a veth pair".into(), reason };
        let made = netns.within(|| -> Result<(XdpQueuePair, FramePool), String> {
            let fd = netns.fd().ok_or("no namespace")?;
            link::make_pair(near, far, fd, (1_500, 1)).map_err(|error| error.to_string())?;
            link::switch_on(far).map_err(|error| error.to_string())?;
            let mut pools =
                frame_pools(1, xdp::FRAMES, 1_514).map_err(|error| error.to_string())?;
            let mut pool = pools.remove(0);
            fill(&mut pool)?;
            let queue_pairs =
                xdp::open(far, 1, pool.region()).map_err(|error| error.to_string())?;
            Ok((queue_pairs.into_iter().next().ok_or("no queue pair")?, pool))
        });
        let (queue_pair, pool) =
            made.map_err(|error| broken(error.to_string()))?.map_err(broken)?;
        Ok(VethEnd { near, queue_pair, pool })
    }

    /// Frames that the near interface has sent in a slice, while this sends from `core` on.
    fn slice(&mut self, netns: &NetNs, core: usize) -> Result<Answer, BenchError> {
        let stop = AtomicBool::new(false);
        let (queue_pair, pool) = (&mut self.queue_pair, &mut self.pool);
        let near = self.near;
        thread::scope(|scope| {
            let sending = scope.spawn(|| -> Result<(), BenchError> {
                pin(core)?;
                let mut burst = Burst::new();
                while !stop.load(Ordering::Relaxed) {
                    burst.extend(
                        std::iter::from_fn(|| pool.take()).take(burst.remaining_capacity()),
                    );
                    queue_pair.send(pool, &mut burst).map_err(lost)?;
                }
                pool.give_all(&mut burst);
                Ok(())
            });
            thread::sleep(WARMUP);
            let counted = || -> Result<(u64, Instant), BenchError> {
                let seen = netns.within(|| link::find(near)).map_err(lost)?.map_err(lost)?;
                let link = seen.ok_or_else(|| lost(std::io::ErrorKind::NotFound.into()))?;
                Ok((link.counters.tx_frames, Instant::now()))
            };
            let before = counted();
            thread::sleep(SLICE);
            let after = counted();
            stop.store(true, Ordering::Relaxed);
            let panicked = |_| lost(std::io::Error::other("its thread panicked"));
            sending.join().map_err(panicked).and_then(|sent| sent)?;
            let ((before, from), (after, to)) = (before?, after?);
            let ns = (to - from).as_nanos() as u64;
            Ok(Answer { ops: after - before, ns, rest: Vec::new() })
        })
    }
}

fn lost(error: std::io::Error) -> BenchError {
    let reason = error.to_string();
    DeviceError::Broken { device: "a veth pair".to_owned(), reason }.into()
}

/// Writes the frame into every slot: what is sent comes back as it is.
fn fill(pool: &mut FramePool) -> Result<(), String> {
    let frame = build(&[
        ethernet::Repr {
            dst: MacAddress([2, 0, 0, 0, 0, 1]),
            src: MacAddress([2, 0, 0, 0, 0, 2]),
            ..Default::default()
        }
        .into(),
        ipv4::Repr::default().into(),
        udp::Repr::default().into(),
    ])
    .map_err(|error| error.to_string())?;
    let region = Arc::clone(pool.region());
    let mut all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for desc in &mut all {
        region.slot_mut(desc)[..frame.len()].copy_from_slice(&frame);
        region.set_len(desc, FRAME_LEN);
    }
    all.into_iter().for_each(|desc| pool.give(desc));
    Ok(())
}

/// testpmd, which forwards as long as it is not stopped.
struct Testpmd(Program);

impl Testpmd {
    fn start(
        netns: &NetNs,
        bench: &Bench,
        end: &mut VethEnd,
        other: usize,
    ) -> Result<Testpmd, BenchError> {
        let name = "dpdk-testpmd";
        let absent = || DeviceError::lacks(format!("{name} (apt-get install dpdk-dev)"));
        let mut command = Command::new(program::find(name).ok_or_else(absent)?);
        let cores = format!("--lcores=0@{other},1@{}", bench.core);
        command.args(["--no-huge", "--no-pci", "--no-shconf", "-m", "512", "--no-telemetry"]);
        command.args([&cores, "--main-lcore=0", "--vdev=net_af_xdp0,iface=theirs", "--"]);
        command.args(["--forward-mode=macswap", "--burst=64", "--nb-cores=1"]);
        // It prints as often as that, and does not wait for a key meanwhile.
        command.args(["--total-num-mbufs=16384", "--no-mlockall", "--stats-period=3600"]);
        let cores = [bench.core as u32, other as u32];
        let testpmd = Testpmd(Program::start(netns, &cores, command)?);
        let until = Instant::now() + START;
        while Instant::now() < until {
            if end.slice(netns, other)?.ops > 1_000 {
                testpmd.signal(Signal::STOP);
                return Ok(testpmd);
            }
        }
        let reason = match testpmd.0.is_running() {
            true => "it forwards nothing".to_owned(),
            false => testpmd.0.wait(Duration::ZERO).err().map_or(String::new(), |e| e.to_string()),
        };
        Err(BenchError::Program { program: "dpdk-testpmd", said: reason })
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.0.pid() as i32) {
            // One that is gone forwards nothing, which is seen.
            let _ = kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counts_is_what_the_card_sent_and_nothing_without_one() {
        let test = "what_the_kernel_counts_is_what_the_card_sent_and_nothing_without_one";
        if !rustix::process::geteuid().is_root() {
            return println!("SKIP {test}: needs root");
        }
        let netns = NetNs::anonymous().unwrap();
        let mut end = VethEnd::make(&netns, "ours", "from-a").unwrap();
        assert_eq!(end.slice(&netns, 0).unwrap().ops, 0);
        let port = PortName::Xdp("ours".to_owned());
        let config = CardConfig::new(vec![port], 1, vec![0]);
        let card = netns.within(|| Card::start(&config, "")).unwrap().unwrap();
        let answer = end.slice(&netns, 0).unwrap();
        let ended = card.shut_down();
        let sent = ended.counters.ports[0].tx_frames;
        assert!(answer.ops > 0 && answer.ops <= sent, "{answer:?} {ended:?}");
        assert_eq!(ended.frames_lost, 0);
    }
}
