//! Suggestions for mistyped names.

use niclab_device::model;
use niclab_lab::experiments;

use crate::output::one_line;

/// Devices whose names are words.
const DEVICES: [&str; 6] =
    ["soft", "linux:veth", "linux-xdp:veth", "linux-tc:veth", "dpdk:--vdev=net_ring0", "swx"];

/// Kinds of devices whose names go on after a colon.
const KINDS: [&str; 8] = ["model", "linux", "linux-xdp", "linux-tc", "dpdk", "peer", "swx", "exec"];

/// The experiment that was meant, in words behind a message; empty where none is near.
pub fn experiment(name: &str) -> String {
    suggestion(name, experiments::names().map(str::to_owned))
}

/// The axis that was meant of those that are `known`, between commas; as [`experiment`].
pub fn axis(name: &str, known: &str) -> String {
    suggestion(name, known.split(", ").map(str::to_owned))
}

/// The device that was meant, as [`experiment`]: its whole name, or its kind before the colon.
pub fn device(name: &str) -> String {
    let modelled = model::names().map(|profile| format!("model:{profile}"));
    let whole = near(name, DEVICES.map(str::to_owned).into_iter().chain(modelled));
    let of_kind = || {
        let (kind, rest) = name.split_once(':')?;
        let known = near(kind, KINDS.map(str::to_owned).into_iter())?;
        Some(format!("{known}:{rest}"))
    };
    words(whole.or_else(of_kind))
}

/// The profile of a modelled card that was meant, as [`experiment`].
pub fn profile(name: &str) -> String {
    suggestion(name, model::names().map(str::to_owned))
}

fn suggestion(name: &str, known: impl Iterator<Item = String>) -> String {
    words(near(name, known))
}

fn words(meant: Option<String>) -> String {
    meant.map_or(String::new(), |known| format!("; did you mean `{}`?", one_line(&known)))
}

fn near(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let near = known.map(|known| (strsim::damerau_levenshtein(name, &known), known)).min();
    // A letter in three may be wrong: `sfot`, `ocupancy`.
    // A name that is known is no slip: it is wrong for another reason.
    let near = near.filter(|(changes, known)| *changes > 0 && 3 * changes <= known.len() + 2);
    near.map(|(_, known)| known)
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
        assert_eq!(device("dpkd:--vdev=x"), "; did you mean `dpdk:--vdev=x`?");
        assert_eq!(device("dpdk:--vdev=x"), "");
        assert_eq!(device("soft") + &device("linux:veth"), "", "it is what was typed");
        assert_eq!(axis("rule", "groups, rules, frame"), "; did you mean `rules`?");
        assert_eq!(axis("nothing", "groups, rules, frame"), "");
        assert_eq!(experiment("nonsense") + &device("eth0"), "");
    }
}
