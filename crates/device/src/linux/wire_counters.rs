//! Interface counters of a trial, compared with the counts at both ends of the wire.

use super::facts::Statistics;
use super::link::LinkCounters;
use super::name::Path;
use super::{End, flower};
use crate::LoadObservation;
use crate::face::DeviceError;
use crate::pair::judge_refused;

/// Counters of both interfaces at one moment.
pub(super) struct WireCounters {
    tester: LinkCounters,
    device: LinkCounters,
    /// The driver's own counters of the interface under test.
    statistics: Statistics,
    /// Frames that filters in the kernel have dropped before the function; `None` where it has
    /// frames before the filters.
    filtered: Option<u32>,
}

impl WireCounters {
    pub(super) fn now(path: Path, tester: &End, device: &End) -> Result<WireCounters, DeviceError> {
        let statistics = Statistics::of(device);
        let filtered = (path == Path::Tc).then(|| filtered(device)).transpose()?;
        let (tester, device) = (tester.counters()?, device.counters()?);
        Ok(WireCounters { tester, device, statistics, filtered })
    }

    /// Enters what was counted since into an observation, and balances it. `sink_missed` frames
    /// found the sink's ring full.
    pub(super) fn account(
        self,
        observation: &mut LoadObservation,
        sink_missed: u64,
        (tester, device): (&End, &End),
    ) -> Result<(), DeviceError> {
        let mut interface = device.counters()?.since(&self.device);
        let sent = tester.counters()?.since(&self.tester);
        let statistics = Statistics::of(device).since(&self.statistics);
        if tester.link.is_veth() {
            // The ring of the far end was full: it has no counter of its own for that.
            interface.rx_missed += sent.tx_dropped;
        }
        if let Some((before, counters)) = self.filtered.zip(observation.device.as_mut()) {
            let drops = u64::from(filtered(device)?.wrapping_sub(before));
            counters.rule_drops = drops;
            // They were at no queue: they count as queue 0's.
            if let Some(first) = counters.queues.first_mut() {
                first.rx_frames += drops;
            }
        }
        balance(observation, interface, sink_missed);
        if let Some(device) = &mut observation.device {
            device.statistics = statistics;
        }
        Ok(())
    }
}

/// Frames that filters of an interface's ingress have dropped so far; the number wraps.
fn filtered(device: &End) -> Result<u32, DeviceError> {
    device.within("reading the drops of filters of", flower::dropped)
}

/// Balances the counters, and holds those of the interface against those of the function.
fn balance(observation: &mut LoadObservation, interface: LinkCounters, sink_missed: u64) {
    let Some(device) = &mut observation.device else {
        return;
    };
    // Of the whole trial: those of the warm-up are no loss of the measured part.
    let rx_missed = observation.rx_missed + interface.rx_missed;
    observation.rx_missed = rx_missed.min(observation.lost);
    device.rx_missed += interface.rx_missed;
    // The interface also counts what its socket had no room for; what the wire refused it does not.
    let socket_missed = device.rx_missed - interface.rx_missed - observation.generator.rx_missed;
    let function = device.total();
    observation.balance(sink_missed);
    judge_refused(observation);
    let pairs = [
        ("received", interface.rx_frames, function.rx_frames + socket_missed),
        ("sent", interface.tx_frames, function.tx_frames),
    ];
    for (what, by_interface, by_function) in pairs {
        if by_interface != by_function {
            observation.honesty.balanced = false;
            observation.honesty.reasons.push(format!(
                "the interface {what} {by_interface} frames, its socket {by_function}"
            ));
        }
    }
    if socket_missed > 0 {
        let reason = format!(
            "{socket_missed} frames were lost at the socket of the device's \
            interface, {} in the interface",
            interface.rx_missed
        );
        observation.honesty.reasons.push(reason);
    }
}
