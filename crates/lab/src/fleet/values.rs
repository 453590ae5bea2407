//! The values of all hosts, by what they measure: eight bytes a value.

use std::collections::{HashMap, HashSet};

use niclab_device::remote::device_of;
use niclab_result::Mark;
use niclab_result::rows::MetricRow;

use crate::compare::metrics::Better;
use crate::experiments;
use crate::reference::REFERENCE;

/// Most values of a fleet: 10,000 runs with 6,700 of them. They take a gigabyte of memory at most.
const VALUES_MAX: u64 = 1 << 26;
/// Most figures: a run of all experiments has some ten thousand.
const FIGURES_MAX: usize = 1 << 20;
/// Most groups of equal cards.
const GROUPS_MAX: usize = 1000;
/// Most cards, and most names of them.
const CARDS_MAX: usize = 1 << 18;
/// Most runs: some of each card.
const RUNS_MAX: usize = 1 << 20;
/// Bits of the repeat in a [`RunRepeat`].
const REPEAT_BITS: u32 = 12;
/// Most repeats of a measurement: niclab makes at most 1000.
const REPEATS_MAX: u32 = 1 << REPEAT_BITS;
const _: () = assert!((RUNS_MAX as u64) << REPEAT_BITS <= 1 << 32);
/// Most pairs of a trial and a metric: niclab has some thousand.
const METRICS_MAX: usize = 1 << 16;
/// Versions of firmware of a card that are kept.
const FIRMWARE_MAX: usize = 16;
/// Most different texts, and bytes of them.
const TEXTS_MAX: (usize, usize) = (1 << 21, 128 << 20);

/// Why the values of a fleet cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// There are more values than fit.
    #[error("more than {VALUES_MAX} values to compare: give fewer directories or files at a time")]
    Values,
    /// There are more figures than any fleet has.
    #[error(
        "more than {FIGURES_MAX} metrics at different points: give fewer directories at a time"
    )]
    Figures,
    /// There are more groups of equal cards than any fleet has.
    #[error(
        "more than {GROUPS_MAX} kinds of device, driver and card: give fewer directories at a time"
    )]
    Groups,
    /// There are more cards than any fleet has.
    #[error("more than {CARDS_MAX} cards: give fewer directories or files at a time")]
    Cards,
    /// There are more runs than any fleet has.
    #[error("more than {RUNS_MAX} runs: give fewer directories or files at a time")]
    Runs,
    /// A row has a later repeat than any measurement.
    #[error(
        "a row has repeat {repeat}, and a measurement has at most {REPEATS_MAX}: leave out rows \
         that niclab did not write"
    )]
    Repeat {
        /// Its repeat.
        repeat: u32,
    },
    /// There are more metrics than niclab has.
    #[error(
        "more than {METRICS_MAX} different trials and metrics: give fewer directories or files at \
         a time, or leave out those that niclab did not write"
    )]
    Metrics,
    /// A row names no host.
    #[error(
        "a row of device {device} has no host: export its directory again with `niclab export \
         --rows`, which then names the host like the directory"
    )]
    NoHost {
        /// The device.
        device: String,
    },
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
    /// The last text of each column: most rows repeat those of the row before.
    last: [TextId; COLUMNS],
}

/// Columns of texts.
const COLUMNS: usize = 10;

impl Texts {
    /// The number of a text of this column.
    fn of_column(&mut self, column: usize, text: &str) -> Result<TextId, FleetError> {
        let last = self.last[column];
        if self.texts.get(last as usize).is_some_and(|of| of == text) {
            return Ok(last);
        }
        self.last[column] = self.id(text)?;
        Ok(self.last[column])
    }

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

/// The number of a card.
pub(super) type CardId = u32;

/// The number of a run of a card, and a repeat of it in the lowest [`REPEAT_BITS`]: a figure has
/// one value of it.
type RunRepeat = u32;

/// A figure, and the card of each value. Single precision tells a hundred-thousandth apart, and
/// differences that are named are two hundredths.
pub(super) type FigureValues = (FigureKey, Vec<(CardId, f32)>);

/// A run of a card.
#[derive(Debug)]
struct CardRun {
    card: CardId,
    /// The first source that has it.
    source: u32,
}

/// A device of a host.
#[derive(Debug)]
pub(super) struct Card {
    pub host: TextId,
    /// The device without the place that it was reached at.
    pub device: TextId,
    /// Its group of equal cards.
    pub group: TextId,
    pub firmware: Vec<TextId>,
}

/// The values that are compared, and how many rows are left out.
pub(super) struct DistinctValues {
    pub values: Vec<FigureValues>,
    /// Values that a mark puts in doubt.
    pub marked: u64,
    /// Rows that repeat an earlier one.
    pub repeated: u64,
}

/// All values of a fleet.
#[derive(Debug, Default)]
pub struct FleetValues {
    pub(super) texts: Texts,
    pub(super) cards: Vec<Card>,
    /// Cards by host, device and group.
    card_ids: HashMap<[TextId; 3], CardId>,
    /// Cards by host, device, driver and PCI id in the words of a row: many rows have the same.
    card_names: HashMap<[TextId; 4], CardId>,
    /// All groups.
    groups: HashSet<TextId>,
    figures: HashMap<FigureKey, usize>,
    /// Figures, each with its values in the order of their rows. Not a number: a value that a mark
    /// puts in doubt.
    values: Vec<(FigureKey, Vec<(RunRepeat, f32)>)>,
    count: u64,
    /// The number of the source that rows come from.
    source: u32,
    runs: Vec<CardRun>,
    /// Runs by the card, the device in the words of a row, and when the run began.
    run_ids: HashMap<(CardId, TextId, u64), u32>,
    /// Rows that were left out because an earlier source has their run.
    repeated: u64,
    /// What a trial and a metric of these texts are.
    known: HashMap<(TextId, TextId), Option<Better>>,
}

impl FleetValues {
    /// Begins another source: rows of a run that an earlier source has are left out.
    pub fn begin_source(&mut self) {
        self.source += 1;
    }

    /// Takes in a row. Reference trials, metrics without a better direction, and those that no
    /// trial is made for, are not compared; values that a mark puts in doubt are left out.
    ///
    /// # Errors
    /// [`FleetError`]
    pub fn add(&mut self, row: &MetricRow<'_>) -> Result<(), FleetError> {
        if row.experiment == REFERENCE {
            return Ok(());
        }
        let run = self.run(row)?;
        let CardRun { card, source } = self.runs[run as usize];
        if source != self.source {
            self.repeated += 1;
            return Ok(());
        }
        let texts = &mut self.texts;
        let (trial, metric) = (texts.of_column(0, row.trial)?, texts.of_column(1, row.metric)?);
        let better = self.better(row, (trial, metric))?;
        if better.is_none() || !(row.value as f32).is_finite() {
            return Ok(());
        }
        if row.repeat >= REPEATS_MAX {
            return Err(FleetError::Repeat { repeat: row.repeat });
        }
        if self.count >= VALUES_MAX {
            return Err(FleetError::Values);
        }
        self.count += 1;
        let key = FigureKey {
            group: self.cards[card as usize].group,
            experiment: self.texts.of_column(4, row.experiment)?,
            trial,
            metric,
            point: self.texts.of_column(5, row.point)?,
            unit: self.texts.of_column(6, row.unit)?,
        };
        let next = self.values.len();
        let at = *self.figures.entry(key).or_insert(next);
        if at == next {
            if next >= FIGURES_MAX {
                return Err(FleetError::Figures);
            }
            self.values.push((key, Vec::new()));
        }
        let value = if is_in_doubt(row) { f32::NAN } else { row.value as f32 };
        self.values[at].1.push(((run << REPEAT_BITS) | row.repeat, value));
        Ok(())
    }

    /// The number of the run that a row is of.
    fn run(&mut self, row: &MetricRow<'_>) -> Result<u32, FleetError> {
        let card = self.card(row)?;
        let device = self.texts.of_column(7, row.device)?;
        let next = self.runs.len();
        let key = (card, device, row.started_unix_ns);
        let run = *self.run_ids.entry(key).or_insert(next as u32);
        if run as usize == next {
            if next >= RUNS_MAX {
                return Err(FleetError::Runs);
            }
            self.runs.push(CardRun { card, source: self.source });
        }
        Ok(run)
    }

    /// Takes the values, each repeat of a run once: the first one of a figure counts.
    pub(super) fn take_distinct(&mut self) -> DistinctValues {
        let mut values = std::mem::take(&mut self.values);
        let (mut marked, mut repeated) = (0, self.repeated);
        for (_, values) in &mut values {
            let all = values.len();
            values.sort_by_key(|(of, _)| *of);
            values.dedup_by_key(|(of, _)| *of);
            let distinct = values.len();
            values.retain(|(_, value)| !value.is_nan());
            repeated += (all - distinct) as u64;
            marked += (distinct - values.len()) as u64;
            for (of, _) in values {
                *of = self.runs[(*of >> REPEAT_BITS) as usize].card;
            }
        }
        DistinctValues { values, marked, repeated }
    }

    /// The card of a row, with the firmware that the row names.
    fn card(&mut self, row: &MetricRow<'_>) -> Result<CardId, FleetError> {
        if row.host.is_empty() {
            return Err(FleetError::NoHost { device: row.device.to_owned() });
        }
        let texts = &mut self.texts;
        let host = texts.of_column(2, row.host)?;
        let name = [
            host,
            texts.of_column(7, row.device)?,
            texts.of_column(8, row.driver)?,
            texts.of_column(9, row.pci_id)?,
        ];
        let firmware = texts.of_column(3, row.firmware)?;
        let card = match self.card_names.get(&name) {
            Some(card) => *card,
            None => self.new_card(row, name)?,
        };
        let known = &mut self.cards[card as usize].firmware;
        if !row.firmware.is_empty() && known.len() < FIRMWARE_MAX && !known.contains(&firmware) {
            known.push(firmware);
        }
        Ok(card)
    }

    /// The card of a name that is new. A card may have several names: `ssh://a=soft` and `soft`.
    fn new_card(&mut self, row: &MetricRow<'_>, name: [TextId; 4]) -> Result<CardId, FleetError> {
        let group = self.texts.id(&group_name(row))?;
        self.groups.insert(group);
        if self.groups.len() > GROUPS_MAX {
            return Err(FleetError::Groups);
        }
        if self.card_names.len() >= CARDS_MAX {
            return Err(FleetError::Cards);
        }
        let (host, device) = (name[0], self.texts.id(&device_of(row.device))?);
        let next = self.cards.len() as CardId;
        let card = *self.card_ids.entry([host, device, group]).or_insert(next);
        if card == next {
            self.cards.push(Card { host, device, group, firmware: Vec::new() });
        }
        self.card_names.insert(name, card);
        Ok(card)
    }

    /// Whether more or less of a metric is better; none if no trial is made for it.
    fn better(
        &mut self,
        row: &MetricRow<'_>,
        of: (TextId, TextId),
    ) -> Result<Option<Better>, FleetError> {
        if let Some(better) = self.known.get(&of) {
            return Ok(*better);
        }
        if self.known.len() >= METRICS_MAX {
            return Err(FleetError::Metrics);
        }
        let better = experiments::headline(row.trial, row.metric);
        self.known.insert(of, better);
        Ok(better)
    }

    /// `true` if no row has a metric that is compared.
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

/// Equal cards are one group: the same kind of device with the same driver and PCI id.
fn group_name(row: &MetricRow<'_>) -> String {
    let mut name = card_kind(row.device);
    for known in [row.driver, row.pci_id].into_iter().filter(|known| !known.is_empty()) {
        name = format!("{name}, {known}");
    }
    name
}

/// A device without what differs from host to host: the host that has it, and the names of its
/// interfaces, its PCI addresses or its peer. The name of a variant stays.
pub fn card_kind(device: &str) -> String {
    let device = device_of(device);
    let (name, variant) = match device.rfind(" [").filter(|_| device.ends_with(']')) {
        Some(at) => device.split_at(at),
        None => (&device[..], ""),
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
            ("exec:srun --cpu-bind=none -w node2=soft", "soft"),
            ("exec:env A=b ip netns exec c=linux:d,e", "linux"),
            ("local=linux:eth0 -> ssh://dut7=linux-xdp:eth1", "linux-xdp"),
            ("ssh://t=dpdk:-a 0000:41:00.0 -> local=linux:eth1", "linux"),
            ("dpdk:--vdev=net_ring0", "dpdk:--vdev=net_ring0"),
            ("dpdk:-a 0000:41:00.0 -a 0000:41:00.1", "dpdk"),
            ("model:connectx-5", "model:connectx-5"),
            ("peer:192.0.2.7", "peer"),
        ] {
            assert_eq!(card_kind(device), kind, "{device}");
        }
    }
}
