//! Known answers: a card that does what rules mean, and cards with one fault each, which is found
//! and named.

use std::time::Duration;

use niclab_conform::{ConformOptions, conform};
use niclab_device::rule_case::{
    FrameExit, FrameMark, RuleCases, RuleCasesObservation, RuleDenial, WrittenRule,
};
use niclab_device::rule_port::{RulePort, TakeFrame, carry_out};
use niclab_device::soft::NicPort;
use niclab_device::{DeviceError, DeviceInfo, Observation, Setup, SetupReport, Task, Testbed};
use niclab_nic::rule::Action;
use niclab_nic::rule::item::{IMAGE_LEN, Item};
use niclab_nic::{Nic, NicConfig, RuleId};
use niclab_packet::LayerKind;
use niclab_packet::stack::walk;
use niclab_result::conform::{CellState, DeviceConformance};

/// What a card does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    AgeEarly,
    AgeNever,
    /// The bytes of a checksum stay as they were.
    Checksum(LayerKind, usize),
    CountsHalf,
    CountsNothing,
    CountsTwice,
    DestroysTwins,
    DestroyStays,
    FirstWins,
    /// A field does not count.
    Field(Item, &'static str),
    /// A field does not count, and the device fails after this number of cases.
    FieldAndBreak(Item, &'static str, u32),
    /// The lower half of a field does not count.
    HalfField(Item, &'static str),
    /// A rule of a later group acts at once.
    GroupsAtOnce,
    /// An item does not count.
    ItemIgnored(Item),
    /// A rule has its effect two frames after the call.
    Late,
    /// New actions of a rule have their effect two frames after the call.
    LateReplace,
    /// Masks count as if they were whole.
    Mask(Item, &'static str),
    MarkLost,
    MarkWithoutNumber,
    /// An action does nothing.
    NoAction(&'static str),
    Priority,
    /// Frames of this queue come to queue 0.
    Queue(u16),
    RangeAsValue,
    RangeWithoutEnd,
    RefusesRanges,
    ReplaceIgnored,
    ReplaceLosesFrames,
    ReversesActions,
    /// Wrong in every other attempt only.
    Sometimes,
}

/// The software card with a fault in front of it.
struct FaultyPort {
    inner: NicPort,
    planted: Planted,
    /// The frame that was sent last, and where it came out.
    out: Vec<(FrameExit, Vec<u8>, FrameMark)>,
    /// Rules that were accepted and wait, and the frames until they count.
    pending: Vec<(usize, WrittenRule)>,
    /// The same of new actions.
    replacing: Vec<(usize, WrittenRule)>,
    /// By the number of a rule here: its name on the card; none for one that waits.
    ids: Vec<Option<RuleId>>,
    written: Vec<WrittenRule>,
    alive: Vec<bool>,
    aging: Vec<bool>,
    lose: u32,
    cases: u32,
}

impl FaultyPort {
    fn new(queues: u16, planted: Planted, cases: u32) -> FaultyPort {
        let nic = Nic::new(&NicConfig { queues, ..NicConfig::default() }).unwrap();
        FaultyPort {
            inner: NicPort::new(nic).unwrap(),
            planted,
            out: Vec::new(),
            pending: Vec::new(),
            replacing: Vec::new(),
            ids: Vec::new(),
            written: Vec::new(),
            alive: Vec::new(),
            aging: Vec::new(),
            lose: 0,
            cases,
        }
    }

    /// The rule that the card makes of a written one.
    fn bent(&self, rule: &WrittenRule) -> WrittenRule {
        let mut rule = rule.clone();
        match self.planted {
            Planted::Field(item, field) | Planted::FieldAndBreak(item, field, _) => {
                for_field(&mut rule, item, field, |_, _| 0)
            }
            Planted::HalfField(item, field) => {
                for_field(&mut rule, item, field, |mask, bits| mask >> (bits / 2) << (bits / 2));
            }
            Planted::Mask(item, field) => for_field(&mut rule, item, field, |mask, bits| {
                if mask == 0 { 0 } else { u128::MAX >> (128 - bits) }
            }),
            Planted::ItemIgnored(item) => rule.items.retain(|one| one.item != item),
            Planted::RangeAsValue => rule.items.iter_mut().for_each(|item| item.last = None),
            Planted::RangeWithoutEnd => {
                for item in &mut rule.items {
                    let Some(mut last) = item.last else { continue };
                    for field in item.item.fields().iter().filter(|field| item.has_range(field)) {
                        field.put(&mut last, u128::MAX);
                    }
                    item.last = Some(last);
                }
            }
            Planted::Priority => rule.priority = 10_000_u32.saturating_sub(rule.priority),
            Planted::FirstWins => rule.priority = 0,
            Planted::GroupsAtOnce => rule.group = 0,
            Planted::NoAction(name) => {
                rule.actions.retain(|action| !action.to_string().starts_with(name));
            }
            Planted::ReversesActions => rule.actions.reverse(),
            Planted::Queue(queue) => {
                for action in &mut rule.actions {
                    if *action == Action::Queue(queue) {
                        *action = Action::Queue(0);
                    }
                }
            }
            Planted::Sometimes if self.cases.is_multiple_of(2) => {
                for_field(&mut rule, Item::Udp, "dst", |_, _| 0);
            }
            _ => {}
        }
        if self.planted == Planted::GroupsAtOnce {
            rule.actions.retain(|action| !matches!(action, Action::Jump(_)));
            if rule.actions.iter().all(|action| matches!(action, Action::Mark(_))) {
                rule.actions.push(Action::Queue(0));
            }
        }
        rule
    }

    fn put(&mut self, rule: &WrittenRule) -> Result<RuleId, RuleDenial> {
        let bent = self.bent(rule);
        self.inner.create(&bent)
    }
}

/// Changes the mask of a field, which has so many bits.
fn for_field(rule: &mut WrittenRule, item: Item, name: &str, change: impl Fn(u128, usize) -> u128) {
    let field = item.field(name).unwrap();
    for one in rule.items.iter_mut().filter(|one| one.item == item) {
        let mask = change(field.value(&one.mask), field.bits);
        field.put(&mut one.mask, mask);
        let spec = field.value(&one.spec);
        field.put(&mut one.spec, spec & mask);
    }
}

impl RulePort for FaultyPort {
    type Id = usize;

    fn create(&mut self, rule: &WrittenRule) -> Result<usize, RuleDenial> {
        if self.planted == Planted::RefusesRanges && rule.items.iter().any(|i| i.last.is_some()) {
            return Err(RuleDenial::Device("no ranges".to_owned()));
        }
        let number = self.ids.len();
        let twin =
            self.written.iter().zip(&self.alive).position(|(one, alive)| *alive && one == rule);
        let id = match (self.planted, twin) {
            (Planted::Late, Some(_)) => {
                return Err(RuleDenial::Device("there is one".to_owned()));
            }
            (Planted::Late, None) if rule.items.iter().any(|item| item.mask != [0; IMAGE_LEN]) => {
                self.pending.push((number, rule.clone()));
                self.lose = 2;
                None
            }
            (Planted::DestroysTwins, Some(twin)) => self.ids[twin],
            _ => Some(self.put(rule)?),
        };
        self.ids.push(id);
        self.written.push(rule.clone());
        self.alive.push(true);
        self.aging.push(rule.actions.iter().any(|action| matches!(action, Action::Age(_))));
        Ok(number)
    }

    fn replace(&mut self, id: usize, with: &WrittenRule) -> Result<usize, RuleDenial> {
        if self.planted == Planted::ReplaceLosesFrames {
            self.lose = 3;
        }
        if self.planted == Planted::LateReplace {
            self.replacing.push((id, with.clone()));
            self.lose = 2;
            return Ok(id);
        }
        if self.planted != Planted::ReplaceIgnored
            && let Some(of_card) = self.ids[id]
        {
            let bent = self.bent(with);
            self.inner.replace(of_card, &bent)?;
        }
        Ok(id)
    }

    fn destroy(&mut self, id: usize) -> Result<(), RuleDenial> {
        self.alive[id] = false;
        self.pending.retain(|(number, _)| *number != id);
        self.replacing.retain(|(number, _)| *number != id);
        if self.planted == Planted::DestroyStays && self.alive.contains(&true) {
            return Ok(());
        }
        if self.planted == Planted::DestroyStays {
            for of_card in self.ids.drain(..).flatten() {
                self.inner.destroy(of_card)?;
            }
            self.alive.clear();
            self.written.clear();
            self.aging.clear();
            return Ok(());
        }
        if let Some(of_card) = self.ids[id].take() {
            // A twin has the same rule on the card.
            self.ids.iter_mut().filter(|other| **other == Some(of_card)).for_each(|id| *id = None);
            self.inner.destroy(of_card)?;
        }
        Ok(())
    }

    fn counted(&mut self, id: usize) -> Result<(u64, u64), RuleDenial> {
        let Some(of_card) = self.ids[id] else { return Ok((0, 0)) };
        let (frames, bytes) = self.inner.counted(of_card)?;
        Ok(match self.planted {
            Planted::CountsHalf => (frames.div_ceil(2), bytes / 2),
            Planted::CountsNothing => (0, 0),
            Planted::CountsTwice => (2 * frames, 2 * bytes),
            _ => (frames, bytes),
        })
    }

    fn aged(&mut self) -> Result<Vec<usize>, RuleDenial> {
        let aged = self.inner.aged()?;
        let is_aged = |at: &usize| match self.planted {
            Planted::AgeNever => false,
            Planted::AgeEarly => self.aging[*at],
            _ => self.ids[*at].is_some_and(|id| aged.contains(&id)),
        };
        Ok((0..self.ids.len()).filter(is_aged).collect())
    }

    fn send(&mut self, frame: &[u8]) -> Result<bool, DeviceError> {
        if self.planted == Planted::ReplaceLosesFrames && self.lose > 0 {
            self.lose -= 1;
            return Ok(true);
        }
        if matches!(self.planted, Planted::Late | Planted::LateReplace) {
            if self.lose == 0 {
                for (number, with) in std::mem::take(&mut self.replacing) {
                    self.ids[number] = self.inner.replace(self.ids[number].unwrap(), &with).ok();
                }
                for (number, rule) in std::mem::take(&mut self.pending) {
                    self.ids[number] = self.put(&rule).ok();
                }
            }
            self.lose = self.lose.saturating_sub(1);
        }
        self.inner.send(frame)?;
        let (planted, out) = (self.planted, &mut self.out);
        self.inner.receive(&mut |exit, bytes, mark| {
            let mut bytes = bytes.to_vec();
            if let Planted::Checksum(kind, offset) = planted {
                restore(&mut bytes, frame, kind, offset);
            }
            let mark = match (planted, mark) {
                (Planted::MarkLost, FrameMark::Id(_) | FrameMark::Flagged) => FrameMark::None,
                (Planted::MarkWithoutNumber, FrameMark::Id(_)) => FrameMark::Flagged,
                (_, mark) => mark,
            };
            out.push((exit, bytes, mark));
        })?;
        Ok(true)
    }

    fn receive(&mut self, take: &mut TakeFrame<'_>) -> Result<(), DeviceError> {
        self.out.drain(..).for_each(|(exit, frame, mark)| take(exit, &frame, mark));
        Ok(())
    }

    fn look(&self) -> Duration {
        Duration::ZERO
    }

    fn effect_max(&self) -> Duration {
        Duration::ZERO
    }

    fn wait(&mut self, time: Duration) {
        self.inner.wait(time);
    }
}

/// Puts back the checksum that a frame came with, where it kept its headers.
fn restore(bytes: &mut [u8], came: &[u8], kind: LayerKind, offset: usize) {
    let place = |frame: &[u8]| {
        let stack = walk(frame);
        stack.spans().iter().find(|span| span.kind == kind).map(|span| span.start + offset)
    };
    if let (Some(to), Some(from)) = (place(bytes), place(came))
        && bytes.len() == came.len()
    {
        bytes[to..to + 2].copy_from_slice(&came[from..from + 2]);
    }
}

struct FaultyCard {
    about: DeviceInfo,
    planted: Planted,
    queues: u16,
    cases: u32,
}

impl Testbed for FaultyCard {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.queues = setup.queues;
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        Err(task.not_supported())
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        let mut next = 1;
        let observed = cases.cases.iter().map(|case| {
            self.cases += 1;
            if let Planted::FieldAndBreak(_, _, most) = self.planted
                && self.cases > most
            {
                let (device, reason) = (self.about.name.clone(), "it is gone".to_owned());
                return Err(DeviceError::Broken { device, reason });
            }
            let mut port = FaultyPort::new(self.queues, self.planted, self.cases);
            carry_out(&mut port, case, &mut next)
        });
        Ok(RuleCasesObservation { cases: observed.collect::<Result<_, _>>()? })
    }
}

fn tried(planted: Planted, items: &[Item]) -> DeviceConformance {
    let about = DeviceInfo { name: "faulty".to_owned(), ..DeviceInfo::default() };
    let mut card = FaultyCard { about, planted, queues: 1, cases: 0 };
    let options =
        ConformOptions { items: items.to_vec(), combinations: 16, ..ConformOptions::default() };
    conform(&mut card, &options, &mut |_| {})
}

fn names(result: &DeviceConformance) -> Vec<&str> {
    result.faults.iter().map(|fault| &fault.name[..]).collect()
}

const ITEMS: [Item; 6] = [Item::Eth, Item::Vlan, Item::Ipv4, Item::Ipv6, Item::Tcp, Item::Udp];

/// Faults, and the names that they have to get.
const KNOWN: [(Planted, &str); 25] = [
    (Planted::Mask(Item::Ipv4, "src"), "ignores the mask of ipv4 src"),
    (Planted::Mask(Item::Eth, "dst"), "ignores the mask of eth dst"),
    (Planted::Field(Item::Udp, "src"), "ignores udp src"),
    (Planted::Field(Item::Vlan, "pcp"), "ignores vlan pcp"),
    (Planted::HalfField(Item::Ipv6, "dst"), "ignores the lower half of ipv6 dst"),
    (Planted::ItemIgnored(Item::Vlan), "ignores the item vlan"),
    (Planted::RangeAsValue, "takes a range of udp dst as its first value"),
    (Planted::RangeWithoutEnd, "takes a range of tcp src without its end"),
    (Planted::Priority, "the rule of lower priority wins"),
    (Planted::FirstWins, "priorities do not count: the rule that was created first wins"),
    (Planted::GroupsAtOnce, "a rule acts on frames that did not jump to its group"),
    (Planted::Queue(2), "sends frames of `queue index 2` to queue 0"),
    (Planted::NoAction("dec_ttl"), "ignores the action dec_ttl"),
    (Planted::NoAction("set_mac_src"), "ignores the action set_mac_src"),
    (Planted::ReversesActions, "carries the actions of a rule out in another order"),
    (Planted::Checksum(LayerKind::Ipv4, 10), "the IPv4 checksum is stale after set_ttl"),
    (Planted::Checksum(LayerKind::Udp, 6), "the UDP checksum is stale after set_tp_dst"),
    (Planted::Checksum(LayerKind::Tcp, 16), "the TCP checksum is stale after set_ipv4_src"),
    (Planted::MarkLost, "ignores the action mark"),
    (Planted::MarkWithoutNumber, "delivers a mark without its number"),
    (Planted::CountsHalf, "a counter misses frames"),
    (Planted::CountsNothing, "a counter stays 0"),
    (Planted::CountsTwice, "a counter counts frames twice"),
    (Planted::ReplaceLosesFrames, "frames are lost while a rule is replaced"),
    (Planted::ReplaceIgnored, "a rule keeps its actions when they are replaced"),
];

#[test]
fn planted_faults_are_found_and_named() {
    let mut missing = Vec::new();
    for (planted, name) in KNOWN {
        let result = tried(planted, &ITEMS);
        let found = names(&result);
        println!("{planted:?}: {found:?}");
        if !found.contains(&name) {
            missing.push((planted, name));
        }
        for fault in &result.faults {
            assert!(!fault.cells.is_empty(), "{planted:?}: {fault:?} has no cell");
            assert!(fault.steps.len() <= 9, "{planted:?}: a smaller case would do: {fault:#?}");
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn faults_of_rules_in_time_are_found_and_named() {
    for (planted, name) in [
        (Planted::AgeNever, "an idle rule is not reported as aged"),
        (Planted::AgeEarly, "a rule in use is reported as aged"),
        (Planted::DestroyStays, "a destroyed rule still acts"),
        (Planted::DestroysTwins, "destroying one of two equal rules removes both"),
    ] {
        let found = tried(planted, &[Item::Ipv4]);
        assert!(names(&found).contains(&name), "{planted:?}: {:#?}", found.faults);
    }
}

#[test]
fn a_rule_that_takes_effect_late_is_late_and_not_wrong() {
    let result = tried(Planted::Late, &[Item::Udp]);
    let late = result.cells.iter().filter(|cell| cell.state == CellState::Late);
    assert!(late.clone().all(|cell| cell.late_ns.is_some()));
    assert!(late.count() > 10, "{:#?}", result.cells);
    assert_eq!(names(&result), [""; 0], "{:#?}", result.faults);
}

#[test]
fn new_actions_that_take_effect_late_are_late_and_not_wrong() {
    let result = tried(Planted::LateReplace, &[Item::Udp]);
    let late = result.cells.iter().filter(|cell| cell.state == CellState::Late);
    let rows: Vec<&str> = late.map(|cell| &cell.row[..]).collect();
    assert!(rows.contains(&"replace under traffic"), "{rows:?}");
    assert_eq!(names(&result), [""; 0], "{:#?}", result.faults);
}

#[test]
fn a_card_that_is_wrong_now_and_then_is_not_accused() {
    let result = tried(Planted::Sometimes, &[Item::Udp]);
    assert_eq!(names(&result), [""; 0]);
    let unsteady = result.cells.iter().find(|cell| cell.state == CellState::Unsteady).unwrap();
    let words = unsteady.words.as_ref().unwrap();
    assert!(words.starts_with("frames do not agree: the frame has to go to queue"), "{words}");
}

/// Whenever it fails, the faults that were seen until then have their names.
#[test]
fn a_device_that_fails_keeps_what_was_tried_until_then() {
    let whole = tried(Planted::Field(Item::Udp, "dst"), &[Item::Udp]);
    let mut last = 0;
    for most in [0, 1, 5, 20, 40, 80, 160] {
        let result = tried(Planted::FieldAndBreak(Item::Udp, "dst", most), &[Item::Udp]);
        let why = result.failed.as_deref().or(result.not_tried.as_deref());
        assert_eq!(why, Some("faulty failed: it is gone"), "{most}");
        assert_eq!(result.not_tried.is_some(), result.cells.is_empty(), "{most}");
        assert!(result.cells.len() >= last, "{most}");
        last = result.cells.len();
        for (cell, of_whole) in result.cells.iter().zip(&whole.cells) {
            assert_eq!((&cell.column, cell.state), (&of_whole.column, of_whole.state), "{most}");
        }
        if result.count(CellState::Wrong) > 0 {
            assert_eq!(names(&result), ["ignores udp dst"], "{most}");
        }
    }
    assert!(last > 10, "{last}");
}

#[test]
fn a_refusal_is_in_the_drivers_words_and_no_fault() {
    let result = tried(Planted::RefusesRanges, &[Item::Udp]);
    let refused: Vec<(&str, Option<&str>)> = result
        .cells
        .iter()
        .filter(|cell| cell.state == CellState::Refused)
        .map(|cell| (&cell.column[..], cell.words.as_deref()))
        .collect();
    assert_eq!(refused, [("range", Some("no ranges"))]);
    assert_eq!(names(&result), [""; 0]);
}

#[test]
fn the_smallest_case_has_one_rule_and_one_field() {
    let result = tried(Planted::Field(Item::Udp, "dst"), &[Item::Udp]);
    let [fault] = &result.faults[..] else { panic!("{:#?}", result.faults) };
    let created: Vec<&String> =
        fault.steps.iter().filter(|step| step.starts_with("flow create")).collect();
    let named: Vec<&&String> = created.iter().filter(|step| step.contains("dst")).collect();
    assert_eq!(named.len(), 1, "{fault:#?}");
    assert!(created.len() <= 2 && !named[0].contains("src"), "{fault:#?}");
    assert!(fault.frame.is_some() && fault.cells.len() > 3, "{fault:#?}");
}

#[test]
fn the_software_card_is_right_in_every_cell() {
    let mut bed = niclab_device::open("soft").unwrap();
    for seed in 1..4 {
        let options = ConformOptions { seed, ..ConformOptions::default() };
        let result = conform(&mut *bed, &options, &mut |_| {});
        let other: Vec<_> =
            result.cells.iter().filter(|cell| cell.state != CellState::Right).collect();
        assert!(other.is_empty(), "{other:#?}\n{:#?}", result.faults);
        assert!(result.cells.len() > 700 && result.frames > 3_000, "{}", result.frames);
        let value = |name| result.limits.iter().find(|limit| limit.name == name).unwrap().value;
        assert_eq!(value("priority"), Some(65_535));
    }
}

#[test]
fn a_device_without_rules_says_so() {
    let mut bed = niclab_device::open("model:connectx-5").unwrap();
    let result = conform(&mut *bed, &ConformOptions::default(), &mut |_| {});
    assert_eq!(result.not_tried.as_deref(), Some("not supported: rules frame by frame"));
}
