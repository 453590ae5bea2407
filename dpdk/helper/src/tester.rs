//! The tester's half of a testbed of two hosts: generator and sink on one port.

use std::time::Instant;

use niclab_device::capability::TWO_HOSTS;
use niclab_device::dpdk::protocol::Open;
use niclab_device::two_hosts::{
    HalfObservation, HalfTask, InterfaceCounts, TesterEnds, TesterObservation,
};
use niclab_device::{
    DeviceError, DeviceInfo, Fact, Load, Observation, PathNode, Setup, SetupReport, Task, Testbed,
};
use niclab_load::clock::Clock;

use crate::arguments::Arguments;
use crate::bed::{
    CARD_SLOTS, FCS_LEN, FRAME_LEN_DEFAULT, broken, card_of, mtu, one_port, start_dpdk,
    wait_for_link,
};
use crate::pools::Pools;
use crate::rings::{In, Out, frame_ns};
use crate::shim::{Port, PortShape, Refusal};

/// Generator and sink.
pub struct DpdkTester {
    about: DeviceInfo,
    core: u32,
    port: Port,
    pools: Pools,
    ends: Option<(Out, In)>,
    /// Longest frame that the port is started for, bytes with FCS.
    frame_len_max: u16,
    /// What a frame may cost its core, nanoseconds.
    frame_ns: u64,
    /// The number of the next marker.
    next: u64,
}

impl DpdkTester {
    /// Starts DPDK and the port.
    pub fn open(open: &Open) -> Result<DpdkTester, DeviceError> {
        let arguments = Arguments::of(open)?;
        let dpdk = start_dpdk(&arguments, open)?;
        let port = one_port(&dpdk, &arguments, open)?;
        let info = port.info().map_err(|refusal| broken(open, refusal))?;
        let core = open.cores[0];
        let place =
            |role: &str| PathNode { role: role.into(), label: info.name.clone(), core: Some(core) };
        let fact = |name: &str, value: &str| Fact { name: name.into(), value: value.into() };
        let mut facts = vec![
            fact("DPDK of the tester", &dpdk.version()),
            fact("port of the tester", &info.name),
            fact("driver of the tester", &info.driver),
        ];
        facts.extend(card_of(&info.name).map(|id| fact("PCI id of the tester", &id)));
        if info.speed_mbps > 0 {
            facts.push(fact(
                "speed of the tester",
                &format!("{} Gbps", f64::from(info.speed_mbps) / 1e3),
            ));
        }
        facts.extend(port.firmware().map(|firmware| fact("firmware of the tester", &firmware)));
        let about = DeviceInfo {
            name: open.name.clone(),
            facts,
            places: vec![place("generator"), place("sink")],
            ..DeviceInfo::default()
        };
        let pools = Pools::new(dpdk);
        let frame_ns = frame_ns(arguments.is_by_kernel(&info.name));
        let (ends, frame_len_max, next) = (None, 0, 0);
        let mut tester =
            DpdkTester { about, core, port, pools, ends, frame_len_max, frame_ns, next };
        tester.start(FRAME_LEN_DEFAULT).map_err(|refusal| broken(open, refusal))?;
        Ok(tester)
    }

    /// Starts the port for frames of so many bytes with FCS.
    fn start(&mut self, frame_len_max: u16) -> Result<(), Refusal> {
        let pool = self.pools.of_frames(frame_len_max)?;
        self.ends = None;
        let mtu = mtu(&self.port, frame_len_max)?;
        let shape = PortShape {
            rx_queues: 1,
            tx_queues: 1,
            slots: CARD_SLOTS,
            mtu,
            ..PortShape::default()
        };
        let (rx, tx) = self.port.start(&pool, &shape)?;
        let (rx, tx) = (rx.into_iter().next(), tx.into_iter().next());
        let (rx, tx) = rx.zip(tx).ok_or_else(|| Refusal("no queues".into()))?;
        self.ends =
            Some((Out::new(tx, pool, None, (frame_len_max - FCS_LEN, self.frame_ns)), In::new(rx)));
        self.frame_len_max = frame_len_max;
        Ok(())
    }

    fn broken(&self, refusal: Refusal) -> DeviceError {
        DeviceError::Broken { device: self.about.name.clone(), reason: refusal.0 }
    }

    fn ends(&mut self) -> Result<TesterEnds<'_, Out, In>, DeviceError> {
        let gone = || DeviceError::Broken {
            device: self.about.name.clone(),
            reason: "its port has not been started".into(),
        };
        let (outlet, inlet) = self.ends.as_mut().ok_or_else(gone)?;
        Ok(TesterEnds { outlet, inlet, core: self.core })
    }

    fn offer(
        &mut self,
        load: &Load,
        start_ns: u64,
        depth: u32,
    ) -> Result<TesterObservation, DeviceError> {
        self.ends()?.drain();
        let before = self.port.stats().map_err(|refusal| self.broken(refusal))?;
        let (load, opened_ns) = self.ends()?.offer(load, start_ns, depth)?;
        let after = self.port.stats().map_err(|refusal| self.broken(refusal))?;
        let sink_missed = after.rx_missed + after.rx_no_buffer;
        Ok(TesterObservation {
            load,
            opened_ns,
            sink_missed: sink_missed.saturating_sub(before.rx_missed + before.rx_no_buffer),
            interface: InterfaceCounts {
                rx_frames: after.rx_frames.saturating_sub(before.rx_frames),
                tx_frames: after.tx_frames.saturating_sub(before.tx_frames),
                ..InterfaceCounts::default()
            },
        })
    }
}

impl Testbed for DpdkTester {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let frame_len_max = setup.frame_len_max.max(FRAME_LEN_DEFAULT);
        if frame_len_max != self.frame_len_max || self.ends.is_none() {
            self.start(frame_len_max).map_err(|refusal| self.broken(refusal))?;
        }
        wait_for_link(&self.port, Instant::now()).map_err(|refusal| self.broken(refusal))?;
        self.ends()?.drain();
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        Err(task.not_supported())
    }

    fn measure_half(&mut self, task: &HalfTask) -> Result<HalfObservation, DeviceError> {
        match task {
            HalfTask::Offer { load, start_ns, depth } => {
                let offered = self.offer(load, *start_ns, *depth)?;
                Ok(HalfObservation::Offered(Box::new(offered)))
            }
            HalfTask::Mark { count } => {
                wait_for_link(&self.port, Instant::now())
                    .map_err(|refusal| self.broken(refusal))?;
                let mut next = self.next;
                let mut ends = self.ends()?;
                ends.drain();
                let marked = ends.mark(*count, &mut next);
                self.next = next;
                Ok(HalfObservation::Marked(marked))
            }
            HalfTask::Exchange { frames } => {
                Ok(HalfObservation::Exchanged(self.ends()?.exchange(frames)))
            }
            HalfTask::Clock => Ok(HalfObservation::Clock(Clock::new().now_ns())),
            HalfTask::Serve { .. } => Err(DeviceError::lacks(TWO_HOSTS)),
        }
    }
}
