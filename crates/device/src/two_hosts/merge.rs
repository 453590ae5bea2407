//! One observation of what tester and device counted.

use niclab_load::{Alignment, Load, LoadObservation, PortCounters, mark_stalls};

use super::{DeviceObservation, InterfaceCounts, TesterObservation};
use crate::pair::{judge_idle, judge_refused};

/// Lays what both halves counted side by side. `unseen` markers were sent and not seen by the
/// function.
pub fn merge(
    load: &Load,
    tester: TesterObservation,
    mut device: DeviceObservation,
    (alignment, unseen): (Alignment, u64),
) -> LoadObservation {
    forget_dropped_markers(&mut device, unseen);
    let mut observation = tester.load;
    let honesty = &mut observation.honesty;
    honesty.device_stalls = Some(device.stalls);
    honesty.device_idle_ratio = device.idle_ratio;
    honesty.device_busy_ns = device.busy_ns;
    honesty.alignment = Some(alignment);
    let rx_missed = observation.generator.rx_missed + device.function.rx_missed;
    // Those of the warm-up's last frames may fall behind its end: never more than were lost.
    observation.rx_missed = (observation.rx_missed + device.missed).min(observation.lost);
    observation.device = Some(PortCounters { rx_missed, ..device.function });
    judge_idle(&mut observation, load);
    let by_tester =
        |&(start_ns, length_ns): &(u64, u64)| (alignment.to_tester(start_ns), length_ns);
    let stalls: Vec<(u64, u64)> = device.each_stall_ns.iter().map(by_tester).collect();
    mark_stalls(&mut observation, tester.opened_ns, &stalls);
    let mut interface = device.interface;
    interface.rx_frames = interface.rx_frames.saturating_sub(device.shown);
    interface.tx_frames = interface.tx_frames.saturating_sub(device.shown);
    if device.is_veth {
        // The ring of the far end was full: it has no counter of its own for that.
        interface.rx_missed += tester.interface.tx_dropped;
    }
    balance_interface(&mut observation, interface, tester.sink_missed);
    if let Some(counters) = &mut observation.device {
        counters.statistics = device.statistics;
    }
    observation.control = device.control;
    observation.rss_changes = device.rss_changes;
    observation.honesty.reasons.extend(device.reasons);
    observation
}

/// Takes markers that a rule dropped out of the counters of drops, which count the whole trial.
fn forget_dropped_markers(device: &mut DeviceObservation, unseen: u64) {
    let markers = unseen.min(device.function.rule_drops);
    device.function.rule_drops -= markers;
    if let Some(first) = device.function.queues.first_mut() {
        first.rx_frames = first.rx_frames.saturating_sub(markers);
    }
    device.interface.rx_frames = device.interface.rx_frames.saturating_sub(markers);
}

/// Balances the counters, and holds those of the interface against those of the function.
pub(crate) fn balance_interface(
    observation: &mut LoadObservation,
    interface: InterfaceCounts,
    sink_missed: u64,
) {
    let Some(device) = &mut observation.device else {
        return;
    };
    // Of the whole trial: those of the warm-up are no loss of the measured part.
    let rx_missed = observation.rx_missed + interface.rx_missed;
    observation.rx_missed = rx_missed.min(observation.lost);
    device.rx_missed += interface.rx_missed;
    // The interface also counts what the function's rings had no room for, but not what the wire
    // refused.
    let rings_missed = device.rx_missed - interface.rx_missed - observation.generator.rx_missed;
    let function = device.total();
    observation.balance(sink_missed);
    judge_refused(observation);
    let pairs = [
        ("received", interface.rx_frames, function.rx_frames + rings_missed),
        ("sent", interface.tx_frames, function.tx_frames),
    ];
    for (what, by_interface, by_function) in pairs {
        if by_interface != by_function {
            observation.honesty.balanced = false;
            observation.honesty.reasons.push(format!(
                "the interface {what} {by_interface} frames, the function {by_function}"
            ));
        }
    }
    if rings_missed > 0 {
        let reason = format!(
            "{rings_missed} frames found no room in the function's rings, {} in the interface",
            interface.rx_missed
        );
        observation.honesty.reasons.push(reason);
    }
}
