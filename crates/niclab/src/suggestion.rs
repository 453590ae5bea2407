//! Suggestions for mistyped names.

use niclab_device::model;
use niclab_lab::experiments;

/// Devices whose names are words.
const DEVICES: [&str; 5] = ["soft", "linux:veth", "linux-xdp:veth", "dpdk:--vdev=net_ring0", "swx"];

/// The experiment that was meant, in words behind a message; empty where none is near.
pub fn experiment(name: &str) -> String {
    suggestion(name, experiments::names().map(str::to_owned))
}

/// The device that was meant, as [`experiment`].
pub fn device(name: &str) -> String {
    let modelled = model::names().map(|profile| format!("model:{profile}"));
    suggestion(name, DEVICES.map(str::to_owned).into_iter().chain(modelled))
}

fn suggestion(name: &str, known: impl Iterator<Item = String>) -> String {
    let near = known.map(|known| (strsim::damerau_levenshtein(name, &known), known)).min();
    // A letter in three may be wrong: `sfot`, `ocupancy`.
    let near = near.filter(|(changes, known)| 3 * changes <= known.len() + 2);
    near.map_or(String::new(), |(_, known)| format!("; did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slip_is_known_and_another_word_is_not() {
        assert_eq!(experiment("ocupancy"), "; did you mean `occupancy`?");
        assert_eq!(experiment("update_rate"), "; did you mean `update-rate`?");
        assert_eq!(device("sotf"), "; did you mean `soft`?");
        assert_eq!(device("model:connectx5"), "; did you mean `model:connectx-5`?");
        assert_eq!(device("linux-veth"), "; did you mean `linux:veth`?");
        assert_eq!(experiment("nonsense") + &device("eth0"), "");
    }
}
