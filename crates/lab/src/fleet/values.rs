//! The values of all hosts, by what they measure: eight bytes a value.

use std::collections::HashMap;

use niclab_result::Mark;
use niclab_result::rows::MetricRow;

use crate::compare::metrics::Better;
use crate::experiments;

/// Most values of a fleet: a gigabyte of memory.
const VALUES_MAX: u64 = 1 << 27;
/// Most different texts, and bytes of them.
const TEXTS_MAX: (usize, usize) = (1 << 21, 128 << 20);

/// Why the values of a fleet cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// There are more values than fit.
    #[error("more than {VALUES_MAX} values to compare: give fewer directories or files at a time")]
    Values,
    /// There are more names than any fleet has.
    #[error(
        "more than {} different names and points, or {} MiB of them: give fewer directories or \
         files at a time",
        TEXTS_MAX.0, TEXTS_MAX.1 >> 20
    )]
    Texts,
}

/// The number of a text.
pub(super) type TextId = u32;

/// Texts, each once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    ids: HashMap<String, TextId>,
    pub(super) texts: Vec<String>,
    len: usize,
}

impl Texts {
    fn id(&mut self, text: &str) -> Result<TextId, FleetError> {
        if let Some(id) = self.ids.get(text) {
            return Ok(*id);
        }
        self.len += text.len();
        if self.texts.len() >= TEXTS_MAX.0 || self.len > TEXTS_MAX.1 {
            return Err(FleetError::Texts);
        }
        let id = self.texts.len() as TextId;
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// What is compared: the same metric of the same trial at the same point, of equal cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FigureKey {
    pub group: TextId,
    pub experiment: TextId,
    pub trial: TextId,
    pub metric: TextId,
    pub point: TextId,
    pub unit: TextId,
}

/// A figure, and the host of each value. Single precision tells a hundred-thousandth apart, and
/// differences that are named are two hundredths.
pub(super) type FigureValues = (FigureKey, Vec<(TextId, f32)>);

/// A host in a group.
#[derive(Debug, Default)]
pub(super) struct HostFacts {
    pub groups: Vec<TextId>,
    /// Firmware by group.
    pub firmware: Vec<(TextId, TextId)>,
}

/// All values of a fleet.
#[derive(Debug, Default)]
pub struct FleetValues {
    pub(super) texts: Texts,
    /// Hosts by the number of their name.
    pub(super) hosts: HashMap<TextId, HostFacts>,
    figures: HashMap<FigureKey, usize>,
    pub(super) values: Vec<FigureValues>,
    count: u64,
    pub(super) marked: u64,
    /// What a trial and a metric of these texts are.
    known: HashMap<(TextId, TextId), Option<Better>>,
}

impl FleetValues {
    /// Takes in a row. Metrics without a better direction, and those that no trial is made for, are
    /// not compared; values that a mark puts in doubt are left out.
    ///
    /// # Errors
    /// [`FleetError`]
    pub fn add(&mut self, row: &MetricRow<'_>) -> Result<(), FleetError> {
        let (trial, metric) = (self.texts.id(row.trial)?, self.texts.id(row.metric)?);
        let better = *self
            .known
            .entry((trial, metric))
            .or_insert_with(|| experiments::headline(row.trial, row.metric));
        let group = self.texts.id(&group_name(row.device, row.driver))?;
        let (host, firmware) = (self.texts.id(row.host)?, self.texts.id(row.firmware)?);
        let facts = self.hosts.entry(host).or_default();
        if !facts.groups.contains(&group) {
            facts.groups.push(group);
        }
        if !row.firmware.is_empty() && !facts.firmware.contains(&(group, firmware)) {
            facts.firmware.push((group, firmware));
        }
        if better.is_none() || !row.value.is_finite() {
            return Ok(());
        }
        if is_in_doubt(row) {
            self.marked += 1;
            return Ok(());
        }
        if self.count >= VALUES_MAX {
            return Err(FleetError::Values);
        }
        self.count += 1;
        let key = FigureKey {
            group,
            experiment: self.texts.id(row.experiment)?,
            trial,
            metric,
            point: self.texts.id(row.point)?,
            unit: self.texts.id(row.unit)?,
        };
        let next = self.values.len();
        let at = *self.figures.entry(key).or_insert(next);
        if at == next {
            self.values.push((key, Vec::new()));
        }
        self.values[at].1.push((host, row.value as f32));
        Ok(())
    }

    /// `true` if there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether more of a metric of this trial is better.
    pub(super) fn is_higher_better(&self, key: &FigureKey) -> bool {
        self.known.get(&(key.trial, key.metric)) == Some(&Some(Better::Higher))
    }
}

/// Whether a mark of the trial says that not the device set this value.
fn is_in_doubt(row: &MetricRow<'_>) -> bool {
    let of_load = experiments::trial(row.trial)
        .and_then(|of| of.metric(row.metric))
        .is_none_or(|known| known.hangs_on_load);
    row.marks.split(' ').any(|mark| {
        let is = |of: Mark| of.to_string() == mark;
        is(Mark::Unbalanced) || of_load && (is(Mark::Disturbed) || is(Mark::GeneratorLimited))
    })
}

/// Hosts of one group have equal cards: the same kind of device with the same driver.
fn group_name(device: &str, driver: &str) -> String {
    let kind = card_kind(device);
    if driver.is_empty() { kind } else { format!("{kind}, {driver}") }
}

/// A device without what differs from host to host: the host that has it, and the names of its
/// interfaces, its PCI addresses or its peer. The name of a variant stays.
pub fn card_kind(device: &str) -> String {
    let is_elsewhere = device.starts_with("ssh://") || device.starts_with("exec:");
    let device = match device.split_once('=').filter(|_| is_elsewhere) {
        Some((_, device)) => device,
        None => device,
    };
    let (name, variant) = match device.rfind(" [").filter(|_| device.ends_with(']')) {
        Some(at) => device.split_at(at),
        None => (device, ""),
    };
    let (kind, arguments) = name.split_once(':').unwrap_or((name, ""));
    let is_of_host = match kind {
        "linux" | "linux-xdp" | "linux-tc" => arguments != "veth",
        "dpdk" => !arguments.starts_with("--vdev"),
        "peer" => true,
        _ => false,
    };
    if is_of_host { format!("{kind}{variant}") } else { format!("{name}{variant}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cards_have_one_kind_whatever_their_interfaces_are_called() {
        for (device, kind) in [
            ("soft", "soft"),
            ("linux:veth", "linux:veth"),
            ("linux:eth0,eth1", "linux"),
            ("ssh://dut=linux-xdp:eth0,eth1", "linux-xdp"),
            ("exec:ip netns exec a niclab agent=linux:b,c [slow]", "linux [slow]"),
            ("dpdk:--vdev=net_ring0", "dpdk:--vdev=net_ring0"),
            ("dpdk:-a 0000:41:00.0 -a 0000:41:00.1", "dpdk"),
            ("model:connectx-5", "model:connectx-5"),
            ("peer:192.0.2.7", "peer"),
        ] {
            assert_eq!(card_kind(device), kind, "{device}");
        }
    }
}
