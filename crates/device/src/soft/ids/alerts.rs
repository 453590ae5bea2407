//! Alerts by rule, and how far they are from those of one engine with all rules.

use std::collections::BTreeMap;

use niclab_ids::engine::RuleEngine;

use super::DetectionLoad;

/// Alerts by `sid`.
pub(super) type Alerts = BTreeMap<u32, u64>;

/// The alerts of one engine with all rules.
pub(super) fn of_one_engine(load: &DetectionLoad) -> Alerts {
    let engine = RuleEngine::new(load.signatures.iter().cloned());
    let (mut scratch, mut alerts) = (engine.scratch(), Alerts::new());
    for frame in &load.frames {
        let report = |alert: niclab_ids::engine::Alert| *alerts.entry(alert.sid).or_default() += 1;
        // A frame that is not inspected has no alert on any core.
        let _ = engine.inspect(frame, &mut scratch, report);
    }
    alerts
}

/// Alerts that are too few or too many.
pub(super) fn difference(found: &Alerts, expected: &Alerts) -> u64 {
    let of = |alerts: &Alerts, sid: &u32| alerts.get(sid).copied().unwrap_or(0);
    let missing = expected.iter().map(|(sid, count)| count.abs_diff(of(found, sid))).sum::<u64>();
    let unknown = found.iter().filter(|(sid, _)| !expected.contains_key(sid));
    missing + unknown.map(|(_, count)| count).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_additional_alerts_are_counted() {
        let alerts = |of: &[(u32, u64)]| of.iter().copied().collect::<Alerts>();
        let expected = alerts(&[(1, 5), (2, 3)]);
        assert_eq!(difference(&expected, &expected), 0);
        assert_eq!(difference(&alerts(&[(1, 4), (3, 2)]), &expected), 1 + 3 + 2);
        assert_eq!(difference(&alerts(&[(1, 7), (2, 3)]), &expected), 2);
    }
}
