//! The testbed: ports, their queues, and what is done with them.

use std::ffi::CStr;
use std::thread;
use std::time::{Duration, Instant};

use niclab_device::cores::Cores;
use niclab_device::dpdk::protocol::Open;
use niclab_device::pair::{Stage, Trial, judge_refused};
use niclab_device::{
    DeviceError, DeviceInfo, Fact, Function, Load, LoadObservation, Observation, PathNode, Rate,
    RuleBlock, Setup, SetupReport, Task, Testbed,
};
use niclab_load::rings::{BURST, Inlet};

use crate::arguments::{Arguments, Wiring};
use crate::rings::{Forward, In, Out};
use crate::shim::{Dpdk, Pool, Port, PortInfo, Refusal, Ring, RxQueue, Stats};

/// Places of a ring between two ports: a quarter of a millisecond at 16 million frames a second.
const RING_SLOTS: u16 = 4096;

/// Descriptors of a card's queue, as far as it has them.
const CARD_SLOTS: u16 = 1024;

/// Frames of a pool: both rings full, both cards' queues full, every burst and cache full.
/// One less than a power of two uses memory best (rte_mempool.h).
const POOL_FRAMES: u32 = 16_383;

/// Room of a frame, bytes: the usual, and the longest.
const FRAME_ROOMS: [(u16, &CStr); 2] = [(2048, c"niclab-frames"), (9728, c"niclab-jumbo-frames")];

/// Frame check sequence, which DPDK leaves out, bytes.
const FCS_LEN: u16 = 4;

/// Ethernet header and frame check sequence, which the MTU leaves out, bytes.
const HEADER_AND_FCS_LEN: u16 = 18;

/// Longest frame before the first setup says otherwise, bytes with FCS.
const FRAME_LEN_DEFAULT: u16 = 1518;

/// How long a card's link may take to come up.
const LINK_TIMEOUT: Duration = Duration::from_secs(20);

const _: () = assert!(POOL_FRAMES as usize > 2 * RING_SLOTS as usize + 4 * CARD_SLOTS as usize);

/// DPDK ports as a device under test.
pub struct DpdkBed {
    about: DeviceInfo,
    cores: Cores,
    wiring: Wiring,
    dpdk: Dpdk,
    ports: Ports,
    pools: [Option<Pool>; FRAME_ROOMS.len()],
    rings: Option<PortRings>,
    frame_len_max: u16,
}

/// The ports of a testbed.
struct Ports {
    tester: Option<Port>,
    device: Port,
    /// From the tester's port to the device's, where it is a ring.
    ring: Option<Ring>,
}

/// The queues, in the hands that use them.
struct PortRings {
    tester: Option<(Out, In)>,
    function: Forward,
}

impl DpdkBed {
    /// Starts DPDK and finds or makes the ports.
    pub fn open(open: &Open) -> Result<DpdkBed, DeviceError> {
        let bad = |reason: String| DeviceError::BadName { text: open.name.clone(), reason };
        let arguments = Arguments::complete(&open.arguments, open.cores).map_err(bad)?;
        let dpdk = Dpdk::start(&arguments.list).map_err(|refusal| bad(refusal.0))?;
        let ports = Ports::find(&dpdk, arguments.wiring, open)?;
        let about = about(open, &dpdk, &arguments, &ports).map_err(|r| broken(open, r))?;
        let mut bed = DpdkBed {
            about,
            cores: open.cores,
            wiring: arguments.wiring,
            dpdk,
            ports,
            pools: [None; FRAME_ROOMS.len()],
            rings: None,
            frame_len_max: 0,
        };
        bed.start(FRAME_LEN_DEFAULT).map_err(|refusal| broken(open, refusal))?;
        Ok(bed)
    }

    /// Starts the ports for frames of up to this length, with FCS.
    fn start(&mut self, frame_len_max: u16) -> Result<(), Refusal> {
        let pool = self.pool(frame_len_max)?;
        let slots = if self.wiring == Wiring::Rings { RING_SLOTS } else { CARD_SLOTS };
        self.rings = None;
        let start = |port: &mut Port| {
            let mtu = u32::from(frame_len_max - HEADER_AND_FCS_LEN).max(1500);
            port.start(&pool, slots, mtu.min(port.info()?.mtu_max))
        };
        let (rx, tx) = start(&mut self.ports.device)?;
        let function = Forward::new(rx, tx);
        let ring = self.ports.ring;
        let tester = match &mut self.ports.tester {
            None => None,
            Some(port) => {
                let (rx, tx) = start(port)?;
                Some((Out::new(tx, pool, ring, frame_len_max - FCS_LEN), In::new(rx)))
            }
        };
        self.ports.wait_for_links()?;
        self.rings = Some(PortRings { tester, function });
        self.frame_len_max = frame_len_max;
        Ok(())
    }

    /// The pool whose frames are long enough, made when it is first needed.
    fn pool(&mut self, frame_len_max: u16) -> Result<Pool, Refusal> {
        let fits = |room: &(u16, &CStr)| room.0 >= frame_len_max;
        let at = FRAME_ROOMS.iter().position(fits).ok_or_else(|| {
            let longest = FRAME_ROOMS[FRAME_ROOMS.len() - 1].0;
            Refusal(format!("frames of {frame_len_max} bytes: at most {longest}"))
        })?;
        if let Some(pool) = self.pools[at] {
            return Ok(pool);
        }
        let (room, name) = FRAME_ROOMS[at];
        let pool = self.dpdk.pool(name, POOL_FRAMES, room)?;
        self.pools[at] = Some(pool);
        Ok(pool)
    }

    fn broken(&self, refusal: Refusal) -> DeviceError {
        DeviceError::Broken { device: self.about.name.clone(), reason: refusal.0 }
    }

    /// A trial between two ports.
    fn run_pair(&mut self, load: &Load) -> Result<LoadObservation, DeviceError> {
        let name = self.about.name.clone();
        let gone = || DeviceError::Broken { device: name.clone(), reason: "not set up".into() };
        let rings = self.rings.as_mut().ok_or_else(gone)?;
        let (outlet, inlet) = rings.tester.as_mut().ok_or_else(gone)?;
        // What an earlier trial left behind.
        for _ in 0..2 * usize::from(RING_SLOTS) / BURST {
            if inlet.poll() == 0 {
                break;
            }
        }
        inlet.release();
        let depth = match self.wiring {
            Wiring::Rings => RING_SLOTS,
            _ => CARD_SLOTS,
        };
        let sunk = missed(inlet.queue());
        let core = Some(self.cores.tester);
        let trial = Trial { device: &name, load, depth: u32::from(depth), core };
        let function = Stage::new("function", Some(self.cores.device), &mut rings.function);
        let mut observation = trial.run((&mut *outlet, &mut *inlet), vec![function])?;
        observation.balance(missed(inlet.queue()) - sunk);
        if self.wiring == Wiring::Cards {
            judge_refused(&mut observation);
        }
        Ok(observation)
    }

    /// The function alone, on a port that makes its own frames.
    fn run_alone(&mut self, load: &Load) -> Result<LoadObservation, DeviceError> {
        if load.rate != Rate::Saturate {
            return Err(DeviceError::lacks("rate"));
        }
        if load.trace.is_some() {
            return Err(DeviceError::lacks("trace"));
        }
        let name = self.about.name.clone();
        let gone = || DeviceError::Broken { device: name.clone(), reason: "not set up".into() };
        let rings = self.rings.as_mut().ok_or_else(gone)?;
        // A ring's depth and a tester's core mean nothing here: there is no tester.
        let trial = Trial { device: &name, load, depth: 0, core: None };
        let function = Stage::new("function", Some(self.cores.device), &mut rings.function);
        let mut observation = trial.run_alone(function)?;
        let made = observation.offered_bytes.checked_div(observation.offered).unwrap_or(0);
        if load.sizes.period().iter().any(|&size| u64::from(size) != made) {
            return Err(DeviceError::lacks("frame_size"));
        }
        observation.honesty.balanced = true;
        Ok(observation)
    }
}

impl Testbed for DpdkBed {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let empty = |block: &RuleBlock| matches!(block, RuleBlock::FiveTuples { count: 0, .. });
        if !setup.rules.iter().all(empty) {
            return Err(DeviceError::lacks("rules"));
        }
        setup.check_plain()?;
        if setup.queues > 1 {
            return Err(DeviceError::lacks("queues"));
        }
        let frame_len_max = setup.frame_len_max.max(FRAME_LEN_DEFAULT);
        if frame_len_max != self.frame_len_max {
            self.start(frame_len_max).map_err(|refusal| self.broken(refusal))?;
        }
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Load { load, plan } = task else { return Err(task.not_supported()) };
        plan.check_no_plan()?;
        let before = self.ports.device.stats().map_err(|refusal| self.broken(refusal))?;
        let mut observation = match self.wiring {
            Wiring::Null => self.run_alone(load)?,
            Wiring::Rings | Wiring::Cards => self.run_pair(load)?,
        };
        let after = self.ports.device.stats().map_err(|refusal| self.broken(refusal))?;
        hold_against_port(&mut observation, &before, &after);
        Ok(Observation::Load(observation))
    }
}

impl Ports {
    fn find(dpdk: &Dpdk, wiring: Wiring, open: &Open) -> Result<Ports, DeviceError> {
        if wiring == Wiring::Rings {
            return Ports::of_rings(dpdk).map_err(|refusal| broken(open, refusal));
        }
        let mut ports = dpdk.ports().into_iter();
        let bad =
            |reason: &str| DeviceError::BadName { text: open.name.clone(), reason: reason.into() };
        match (wiring, ports.next(), ports.next()) {
            (Wiring::Null, Some(device), _) => Ok(Ports { tester: None, device, ring: None }),
            (_, Some(tester), Some(device)) => {
                Ok(Ports { tester: Some(tester), device, ring: None })
            }
            (_, Some(_), None) => Err(bad("one port; it takes two, the tester's and the device's")),
            (_, None, _) => Err(bad(
                "no port; bind two cards to a driver that DPDK can use (dpdk-devbind.py), or try \
                 `dpdk:--vdev=net_ring0`",
            )),
        }
    }

    /// Two ports, crossed: what one sends the other receives.
    fn of_rings(dpdk: &Dpdk) -> Result<Ports, Refusal> {
        let there = dpdk.ring(c"niclab-there", RING_SLOTS.into())?;
        let back = dpdk.ring(c"niclab-back", RING_SLOTS.into())?;
        let tester = dpdk.ring_port(c"tester", &back, &there)?;
        let device = dpdk.ring_port(c"device", &there, &back)?;
        Ok(Ports { tester: Some(tester), device, ring: Some(there) })
    }

    fn wait_for_links(&self) -> Result<(), Refusal> {
        let started = Instant::now();
        let ports = || self.tester.iter().chain([&self.device]);
        while !ports().all(Port::has_link) {
            if started.elapsed() > LINK_TIMEOUT {
                return Err(Refusal("a port has no link; check the cable".into()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Frames the port of a queue had no room for.
fn missed(queue: &RxQueue) -> u64 {
    let stats = queue.stats().unwrap_or_default();
    stats.rx_missed + stats.rx_no_buffer
}

/// Holds the port's own counters against the function's.
fn hold_against_port(observation: &mut LoadObservation, before: &Stats, after: &Stats) {
    let queue = observation.device.iter().flat_map(|device| &device.queues).next();
    let Some(&queue) = queue else { return };
    let pairs = [
        ("received", after.rx_frames - before.rx_frames, queue.rx_frames),
        ("sent", after.tx_frames - before.tx_frames, queue.tx_frames),
    ];
    for (what, by_port, by_function) in pairs {
        if by_port != by_function {
            observation.honesty.balanced = false;
            let reason = format!("the port {what} {by_port} frames, the function {by_function}");
            observation.honesty.reasons.push(reason);
        }
    }
}

fn broken(open: &Open, refusal: Refusal) -> DeviceError {
    DeviceError::Broken { device: open.name.clone(), reason: refusal.0 }
}

/// What can be told of the ports.
fn about(
    open: &Open,
    dpdk: &Dpdk,
    arguments: &Arguments,
    ports: &Ports,
) -> Result<DeviceInfo, Refusal> {
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    let device = ports.device.info()?;
    let mut facts = vec![
        fact("DPDK", dpdk.version()),
        fact("arguments", arguments.list[1..].join(" ")),
        fact("port under test", device.name.clone()),
        fact("driver", device.driver.clone()),
        fact("queues it could have", format!("{} / {}", device.queues_max.0, device.queues_max.1)),
    ];
    if device.speed_mbps > 0 && arguments.wiring == Wiring::Cards {
        facts.push(fact("speed", format!("{} Mbit/s", device.speed_mbps)));
    }
    facts.push(fact(
        "flow rules",
        match ports.device.takes_rules() {
            Ok(()) => "the driver takes them, niclab does not drive them yet".into(),
            Err(refusal) => refusal.0,
        },
    ));
    if ports.ring.is_some() {
        facts.push(fact("ring", format!("{RING_SLOTS} frames")));
    }
    let tester = ports.tester.as_ref().map(Port::info).transpose()?;
    let (lacks, lacking): (&[&str], _) = match arguments.wiring {
        Wiring::Null => (
            &["rules", "queues", "latency", "rate", "frame_size"],
            "net_null makes its own frames, and niclab drives no rte_flow and one queue",
        ),
        Wiring::Rings => (&["rules", "queues"], "niclab drives one queue of a ring"),
        Wiring::Cards => (
            &["rules", "queues"],
            "niclab does not drive rte_flow or several queues of DPDK ports, whatever the card has",
        ),
    };
    Ok(DeviceInfo {
        name: open.name.clone(),
        facts,
        places: places(open.cores, arguments.wiring, tester.as_ref(), &device),
        not_supported: lacks.iter().map(|&capability| capability.into()).collect(),
        lacking: lacking.into(),
        ..DeviceInfo::default()
    })
}

/// What stands along the way of a frame.
fn places(
    cores: Cores,
    wiring: Wiring,
    tester: Option<&PortInfo>,
    device: &PortInfo,
) -> Vec<PathNode> {
    let place =
        |role: &str, label: &str, core| PathNode { role: role.into(), label: label.into(), core };
    let function = place("function", Function::Forward.label(), Some(cores.device));
    let device = place("device", &device.name, None);
    let Some(tester) = tester else {
        return vec![device, function];
    };
    let wire = match wiring {
        Wiring::Rings => "two rings in memory",
        _ => "cable",
    };
    vec![
        place("generator", &tester.name, Some(cores.tester)),
        place("wire", wire, None),
        device,
        function,
        place("sink", &tester.name, Some(cores.tester)),
    ]
}

// What the room of a frame must hold is its length without FCS, so rooms are counted generously.
const _: () = assert!(FRAME_ROOMS[1].0 > 9000 + FCS_LEN && FRAME_ROOMS[0].0 > FRAME_LEN_DEFAULT);
