//! Interface counters of a trial, compared with the counts at both ends of the wire.

use super::facts::Statistics;
use super::link::LinkCounters;
use super::name::Path;
use super::{End, flower};
use crate::LoadObservation;
use crate::face::DeviceError;
use crate::two_hosts::{DeviceObservation, InterfaceCounts, balance_interface};

/// Counters of both interfaces at one moment.
pub(super) struct WireCounters {
    tester: Option<LinkCounters>,
    device: LinkCounters,
    /// The driver's own counters of the interface under test.
    statistics: Statistics,
    /// Frames that filters in the kernel have dropped before the function; `None` where it has
    /// frames before the filters.
    filtered: Option<u32>,
}

impl WireCounters {
    pub(super) fn now(
        path: Path,
        tester: Option<&End>,
        device: &End,
    ) -> Result<WireCounters, DeviceError> {
        let statistics = Statistics::of(device);
        let filtered = (path == Path::Tc).then(|| filtered(device)).transpose()?;
        let tester = tester.map(End::counters).transpose()?;
        Ok(WireCounters { tester, device: device.counters()?, statistics, filtered })
    }

    /// Enters what was counted since into an observation, and balances it. `sink_missed` frames
    /// found the sink's ring full.
    pub(super) fn account(
        self,
        observation: &mut LoadObservation,
        sink_missed: u64,
        (tester, device): (&End, &End),
    ) -> Result<(), DeviceError> {
        let sent = match &self.tester {
            Some(before) => tester.counters()?.since(before),
            None => LinkCounters::default(),
        };
        let function = observation.device.take().unwrap_or_default();
        let mut served = DeviceObservation { function, ..DeviceObservation::default() };
        self.enter(&mut served, device)?;
        observation.device = Some(served.function);
        if served.is_veth {
            // The ring of the far end was full: it has no counter of its own for that.
            served.interface.rx_missed += sent.tx_dropped;
        }
        balance_interface(observation, served.interface, sink_missed);
        if let Some(device) = &mut observation.device {
            device.statistics = served.statistics;
        }
        Ok(())
    }

    /// Enters what the interface under test has counted since.
    pub(super) fn enter(
        self,
        observation: &mut DeviceObservation,
        device: &End,
    ) -> Result<(), DeviceError> {
        let LinkCounters { rx_frames, tx_frames, rx_missed, tx_dropped, .. } =
            device.counters()?.since(&self.device);
        observation.interface = InterfaceCounts { rx_frames, tx_frames, rx_missed, tx_dropped };
        observation.is_veth = device.link.is_veth();
        observation.statistics = Statistics::of(device).since(&self.statistics);
        if let Some(before) = self.filtered {
            let drops = u64::from(filtered(device)?.wrapping_sub(before));
            observation.function.rule_drops = drops;
            // They were at no queue: they count as queue 0's.
            if let Some(first) = observation.function.queues.first_mut() {
                first.rx_frames += drops;
            }
        }
        Ok(())
    }
}

/// Frames that filters of an interface's ingress have dropped so far; the number wraps.
fn filtered(device: &End) -> Result<u32, DeviceError> {
    device.within("reading the drops of filters of", flower::dropped)
}
