//! Counts over time, as a sample keeps them.

use niclab_device::{LoadObservation, Slice};
use serde_json::{Value, json};

/// The counts over time as a sample keeps them: one list a count, the disturbed slices by their
/// place. `null` where the device counted none.
pub fn slices(observation: &LoadObservation) -> Value {
    let slices = &observation.slices;
    let Some(slice_ns) = slice_ns(observation) else {
        return Value::Null;
    };
    let of = |count: fn(&Slice) -> u64| slices.iter().map(count).collect::<Vec<u64>>();
    let disturbed = slices.iter().enumerate().filter(|(_, slice)| slice.disturbed);
    json!({
        "slice_ns": slice_ns,
        "offered": of(|slice| slice.offered),
        "received": of(|slice| slice.received),
        "rx_missed": of(|slice| slice.rx_missed),
        "unsent": of(|slice| slice.unsent),
        "disturbed": disturbed.map(|(at, _)| at).collect::<Vec<usize>>(),
    })
}

/// The slices that [`slices`] wrote; none of what it did not write.
pub fn slices_of(written: &Value) -> Vec<Slice> {
    let list = |name: &str| -> Vec<u64> {
        let list = written.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_u64).collect()
    };
    let [offered, received, missed, unsent, disturbed] =
        ["offered", "received", "rx_missed", "unsent", "disturbed"].map(list);
    let slice_ns = written.get("slice_ns").and_then(Value::as_u64).unwrap_or(0);
    let at = |list: &[u64], at: usize| list.get(at).copied().unwrap_or(0);
    let slice = |i: usize| Slice {
        start_ns: i as u64 * slice_ns,
        offered: at(&offered, i),
        received: at(&received, i),
        rx_missed: at(&missed, i),
        unsent: at(&unsent, i),
        disturbed: disturbed.contains(&(i as u64)),
    };
    (0..received.len()).map(slice).collect()
}

/// Length of a slice; `None` where there are none.
pub(super) fn slice_ns(o: &LoadObservation) -> Option<u64> {
    let length_ns = match o.slices.as_slice() {
        [] => return None,
        [_] => o.duration_ns,
        [first, second, ..] => second.start_ns.saturating_sub(first.start_ns),
    };
    (length_ns > 0).then_some(length_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tests::sliced;

    #[test]
    fn slices_are_kept_as_lists_of_equal_length() {
        let expected = json!({
            "slice_ns": 1_000,
            "offered": [100, 100, 100],
            "received": [100, 20, 98],
            "rx_missed": [0, 80, 2],
            "unsent": [0, 0, 0],
            "disturbed": [1],
        });
        assert_eq!(slices(&sliced(&[100, -20, 98])), expected);
        assert_eq!(slices_of(&expected), sliced(&[100, -20, 98]).slices);
        assert_eq!(slices_of(&Value::Null), []);
        assert_eq!(slices(&LoadObservation::default()), Value::Null);
    }
}
