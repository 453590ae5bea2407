//! A device tried cell by cell.

use std::collections::BTreeMap;
use std::time::Instant;

use niclab_device::rule_case::{
    FrameObservation, RuleCase, RuleCaseObservation, RuleCases, RuleDenial, RuleStep, StepResult,
    WrittenRule,
};
use niclab_device::{DeviceError, Function, Receive, Setup, Testbed};
use niclab_nic::rule::Action;
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_result::conform::{
    CellState, ConformCell, ConformFault, ConformLimit, ConformPart, DeviceConformance,
};

use crate::cells::{
    Combinable, FORMS, PlannedCase, PlannedCell, action_cells, behaviour_cells, combination_cell,
    passing_case, pattern_cells,
};
use crate::fault;
use crate::predict::{CaseVerdict, Difference, hex, judge, with_expected};
use crate::sample::mask_of;
use crate::shrink::shrink;

/// Queues that rules have to choose from, the most first.
const QUEUES: [u16; 3] = [4, 2, 1];

/// How long an effect may take: when a case is tried first, when it is tried once more because it
/// differed, and while it is made smaller. Nanoseconds.
const EFFECT_FIRST_NS: u64 = 100_000_000;
const EFFECT_AGAIN_NS: u64 = 1_000_000_000;
const EFFECT_SHRINK_NS: u64 = 40_000_000;

/// How often a case is tried before the device is said to be wrong: it has to be every time.
const ATTEMPTS: usize = 3;

/// Smaller cases that are tried for a fault.
const SHRINK_TRIES: u32 = 60;

/// Faults whose cases are made smaller.
const SHRUNK_MAX: usize = 64;

/// Cases of an explanation after which the next ones are not tried for as long.
const KNOWN: usize = 3;

/// Longest frame, bytes with FCS.
const FRAME_LEN_MAX: u16 = 1_518;

/// Rules that are created at most to find out how many there can be.
const RULES_TRIED: u32 = 4_096;

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConformOptions {
    /// Of rules and frames.
    pub seed: u64,
    /// Items of patterns; behaviours are tried whatever these are.
    pub items: Vec<Item>,
    /// Random combinations.
    pub combinations: u32,
}

impl Default for ConformOptions {
    fn default() -> ConformOptions {
        ConformOptions { seed: 1, items: Item::ALL.to_vec(), combinations: 64 }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConformProgress<'a> {
    /// The row that is tried now.
    pub row: &'a str,
    /// Cells that have been tried.
    pub done: usize,
    /// All cells.
    pub all: usize,
    /// Cases so far that were wrong in every attempt.
    pub wrong: usize,
}

/// Tries a device. What it lacks as a whole is in the result, and so is the end of a device that
/// fails meanwhile, behind what was tried until then.
pub fn conform(
    bed: &mut dyn Testbed,
    options: &ConformOptions,
    progress: &mut dyn FnMut(ConformProgress<'_>),
) -> DeviceConformance {
    let begun = Instant::now();
    let about = bed.about();
    let facts = about.facts.iter().map(|fact| (fact.name.clone(), fact.value.clone())).collect();
    let result =
        DeviceConformance { device: about.name.clone(), facts, ..DeviceConformance::default() };
    let mut trial = DeviceTrial {
        bed,
        queues: 0,
        result,
        wrong: Vec::new(),
        seen: BTreeMap::new(),
        lost: Vec::new(),
        has_failed: false,
    };
    if let Err(error) = trial.run(options, progress) {
        trial.end(&error);
    }
    trial.result.seconds = begun.elapsed().as_secs_f64();
    trial.result
}

/// A device while it is tried.
struct DeviceTrial<'b> {
    bed: &'b mut dyn Testbed,
    queues: u16,
    result: DeviceConformance,
    /// Cases that were wrong in every attempt.
    wrong: Vec<WrongCase>,
    /// Cases by the first explanation of each.
    seen: BTreeMap<String, usize>,
    /// Items whose frames do not come out.
    lost: Vec<&'static str>,
    /// The device is not asked any more.
    has_failed: bool,
}

/// A case that was wrong in every attempt.
#[derive(Clone)]
struct WrongCase {
    /// The place of its cell.
    cell: usize,
    case: RuleCase,
    observation: RuleCaseObservation,
    difference: Difference,
    /// What explains it, the narrowest first.
    explanations: Vec<String>,
}

/// What a case of a cell has shown.
enum CaseState {
    Right,
    Late(u64),
    Denied {
        is_own: bool,
        denial: RuleDenial,
    },
    /// Frames such as these do not come out, whatever rules there are.
    Lost,
    Unsent,
    Unsteady(String),
    Wrong,
}

impl DeviceTrial<'_> {
    fn run(
        &mut self,
        options: &ConformOptions,
        progress: &mut dyn FnMut(ConformProgress<'_>),
    ) -> Result<(), DeviceError> {
        self.queues = self.choose_queues()?;
        self.result.queues = self.queues;
        let (queues, seed) = (self.queues, options.seed);
        self.find_lost(&options.items, seed)?;
        let items = options.items.iter();
        let mut cells: Vec<PlannedCell> = Vec::new();
        cells.extend(items.clone().flat_map(|item| pattern_cells(*item, queues, seed)));
        cells.extend(items.flat_map(|item| action_cells(*item, queues, seed)));
        cells.extend(behaviour_cells(queues, seed));
        let all = cells.len() + 1;
        for (done, cell) in cells.iter().enumerate() {
            let wrong = self.wrong.len();
            progress(ConformProgress { row: &cell.row, done, all, wrong });
            self.try_cell(cell)?;
        }
        let combinable = self.combinable();
        if let Some(cell) = combination_cell(&combinable, queues, seed, options.combinations) {
            let wrong = self.wrong.len();
            progress(ConformProgress { row: &cell.row, done: all - 1, all, wrong });
            self.try_cell(&cell)?;
        }
        self.find_limits()?;
        self.name_faults()
    }

    /// Keeps what was tried until the device failed.
    fn end(&mut self, error: &DeviceError) {
        self.has_failed = true;
        if self.result.cells.is_empty() {
            self.result.not_tried = Some(error.to_string());
            return;
        }
        self.result.failed = Some(error.to_string());
        // A case whose cell did not come to its end has none.
        let cells = self.result.cells.len();
        self.wrong.retain(|wrong| wrong.cell < cells);
        // Nothing is asked of the device, so nothing can fail.
        let _ = self.name_faults();
    }

    /// Finds the items whose frames do not come out even below a rule of every frame: what rules do
    /// with them cannot be seen.
    fn find_lost(&mut self, items: &[Item], seed: u64) -> Result<(), DeviceError> {
        // Cells of behaviours need frames of IPv4.
        let ipv4 = [Item::Ipv4].into_iter().filter(|item| !items.contains(item));
        let tried: Vec<(Item, PlannedCase)> = items
            .iter()
            .copied()
            .chain(ipv4)
            .filter_map(|item| Some((item, passing_case(item, seed)?)))
            .collect();
        let asked = tried.iter().map(|(_, planned)| RuleCase {
            effect_max_ns: EFFECT_FIRST_NS,
            ..with_expected(&planned.case, self.queues)
        });
        let seen = self.observe(asked.collect())?;
        for ((item, _), seen) in tried.iter().zip(&seen) {
            let is_lost = seen
                .steps
                .iter()
                .any(|step| matches!(step, StepResult::Frame(frame) if frame.fitting == 0));
            if is_lost {
                self.lost.push(item.name());
            }
        }
        if self.lost.len() == tried.len() {
            let remedy = "none comes out unchanged, even by a rule of every frame: check the cable \
                          and the tester's port";
            return Err(DeviceError::lacks(format!("frames: {remedy}")));
        }
        Ok(())
    }

    /// The most queues that the device has. A driver may say only when the port is set up that it
    /// cannot have so many beside one that sends (`net_tap`).
    fn choose_queues(&mut self) -> Result<u16, DeviceError> {
        let mut last = DeviceError::lacks("queues");
        for queues in QUEUES {
            match self.bed.setup(&setup_of(queues)) {
                Ok(_) => return Ok(queues),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Carries out cases.
    fn observe(&mut self, cases: Vec<RuleCase>) -> Result<Vec<RuleCaseObservation>, DeviceError> {
        self.bed.setup(&setup_of(self.queues))?;
        Ok(self.bed.try_rules(&RuleCases { cases })?.cases)
    }

    fn observe_one(
        &mut self,
        case: &RuleCase,
        effect_max_ns: u64,
    ) -> Result<(RuleCaseObservation, CaseVerdict), DeviceError> {
        let case = RuleCase { effect_max_ns, ..with_expected(case, self.queues) };
        let mut seen = self.observe(vec![case.clone()])?;
        let seen = seen.pop().unwrap_or_default();
        let verdict = judge(&case, self.queues, &seen);
        Ok((seen, verdict))
    }

    fn try_cell(&mut self, cell: &PlannedCell) -> Result<(), DeviceError> {
        if self.lost.contains(&&cell.row[..]) {
            let states = cell.cases.iter().map(|_| CaseState::Lost).collect();
            self.result.cells.push(summary(cell, states));
            return Ok(());
        }
        let expected = cell.cases.iter().map(|planned| with_expected(&planned.case, self.queues));
        let asked: Vec<RuleCase> =
            expected.map(|case| RuleCase { effect_max_ns: EFFECT_FIRST_NS, ..case }).collect();
        let seen = self.observe(asked.clone())?;
        let mut states = Vec::with_capacity(asked.len());
        for ((planned, case), seen) in cell.cases.iter().zip(&asked).zip(&seen) {
            self.result.cases += 1;
            self.result.frames += frames(seen);
            states.push(self.state(planned, case, seen)?);
        }
        self.result.cells.push(summary(cell, states));
        Ok(())
    }

    /// The state of a case; one that differs is tried again.
    fn state(
        &mut self,
        planned: &PlannedCase,
        case: &RuleCase,
        seen: &RuleCaseObservation,
    ) -> Result<CaseState, DeviceError> {
        let queues = self.queues;
        let (mut observation, mut difference) = match judge(case, queues, seen) {
            CaseVerdict::Right => return Ok(CaseState::Right),
            CaseVerdict::Late(late_ns) => return Ok(CaseState::Late(late_ns)),
            CaseVerdict::Denied { step, denial } => {
                return Ok(CaseState::Denied { is_own: step >= planned.under_test, denial });
            }
            CaseVerdict::Unsent => return Ok(CaseState::Unsent),
            CaseVerdict::Wrong(difference) => (seen.clone(), difference),
        };
        let mut explanations = fault::explanations(case, queues, &observation, &difference);
        let is_known = |name: &String| self.seen.get(name).is_some_and(|count| *count >= KNOWN);
        let is_known = explanations.first().is_some_and(is_known);
        for attempt in 1..ATTEMPTS {
            // The last attempt waits in any case: what is late is not wrong.
            let is_long = attempt + 1 == ATTEMPTS || attempt == 1 && !is_known;
            let effect_max_ns = if is_long { EFFECT_AGAIN_NS } else { EFFECT_FIRST_NS };
            match self.observe_one(case, effect_max_ns)? {
                (again, CaseVerdict::Wrong(last)) => {
                    explanations = fault::explanations(case, queues, &again, &last);
                    (observation, difference) = (again, last);
                }
                (_, CaseVerdict::Late(late_ns)) => return Ok(CaseState::Late(late_ns)),
                (_, CaseVerdict::Denied { denial, .. }) => {
                    let words = format!("refused in a later attempt: {denial}");
                    return Ok(CaseState::Unsteady(words));
                }
                (_, CaseVerdict::Unsent) => return Ok(CaseState::Unsent),
                (_, CaseVerdict::Right) => {
                    let words = &difference.words;
                    return Ok(CaseState::Unsteady(format!("frames do not agree: {words}")));
                }
            }
        }
        if let Some(first) = explanations.first() {
            *self.seen.entry(first.clone()).or_default() += 1;
        }
        let (cell, case) = (self.result.cells.len(), case.clone());
        self.wrong.push(WrongCase { cell, case, observation, difference, explanations });
        Ok(CaseState::Wrong)
    }

    /// Names the faults: as few as explain all cases that were wrong.
    fn name_faults(&mut self) -> Result<(), DeviceError> {
        // They stay until all have a name: the device may fail while one is made smaller.
        let mut rest = self.wrong.clone();
        while let Some(first) = rest.first() {
            let name = match best_explanation(&rest) {
                Some(name) => name,
                // Nothing explains what is left: the smallest case tells best what differs.
                None => {
                    let shown = self.smallest(first, |_| true)?;
                    let name = fault::unexplained(
                        &shown.case,
                        self.queues,
                        &shown.observation,
                        &shown.difference,
                    );
                    let cell = first.cell;
                    rest.remove(0);
                    self.enter_fault(name, &shown, &[cell]);
                    continue;
                }
            };
            let explains = |wrong: &WrongCase| wrong.explanations.contains(&name);
            let (explained, others): (Vec<WrongCase>, Vec<WrongCase>) =
                rest.into_iter().partition(explains);
            rest = others;
            let Some(first) = explained.first() else { break };
            let shown = self.smallest(first, |all| all.contains(&name))?;
            let cells: Vec<usize> = explained.iter().map(|wrong| wrong.cell).collect();
            self.enter_fault(name, &shown, &cells);
        }
        Ok(())
    }

    /// The smallest case that is still wrong, and whose explanations are still accepted.
    fn smallest(
        &mut self,
        wrong: &WrongCase,
        accepts: impl Fn(&[String]) -> bool,
    ) -> Result<WrongCase, DeviceError> {
        if self.has_failed {
            return Ok(wrong.clone());
        }
        let tries = if self.result.faults.len() < SHRUNK_MAX { SHRINK_TRIES } else { 0 };
        let mut newest = None;
        let queues = self.queues;
        shrink(wrong.case.clone(), tries, |candidate| {
            let (observation, verdict) = self.observe_one(candidate, EFFECT_SHRINK_NS)?;
            let CaseVerdict::Wrong(difference) = verdict else {
                return Ok::<_, DeviceError>(false);
            };
            let case = with_expected(candidate, queues);
            let explanations = fault::explanations(&case, queues, &observation, &difference);
            let is_accepted = accepts(&explanations);
            if is_accepted {
                let cell = wrong.cell;
                newest = Some(WrongCase { cell, case, observation, difference, explanations });
            }
            Ok(is_accepted)
        })?;
        let Some(newest) = newest else { return Ok(wrong.clone()) };
        // It was wrong once, within a short time: it has to be every time, as the whole one.
        for _ in 1..ATTEMPTS {
            let (_, verdict) = self.observe_one(&newest.case, EFFECT_AGAIN_NS)?;
            if !matches!(verdict, CaseVerdict::Wrong(_)) {
                return Ok(wrong.clone());
            }
        }
        Ok(newest)
    }

    /// Enters a fault into the result, and its name into its cells.
    fn enter_fault(&mut self, name: String, shown: &WrongCase, cells: &[usize]) {
        let mut places = Vec::new();
        for cell in cells {
            let Some(cell) = self.result.cells.get_mut(*cell) else { continue };
            cell.words.get_or_insert_with(|| name.clone());
            let place = (cell.row.clone(), cell.column.clone());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        match self.result.faults.iter_mut().find(|fault| fault.name == name) {
            Some(fault) => {
                let new = places.into_iter().filter(|place| !fault.cells.contains(place));
                let new: Vec<(String, String)> = new.collect();
                fault.cells.extend(new);
            }
            None => {
                let fault = evidence(&name, &shown.case, &shown.difference);
                self.result.faults.push(ConformFault { cells: places, ..fault });
            }
        }
    }

    /// Items with forms and actions that the device does right.
    fn combinable(&self) -> Combinable {
        let mut combinable = Combinable::default();
        let right = self.result.cells.iter().filter(|cell| cell.state == CellState::Right);
        for cell in right {
            let Some(item) = Item::from_name(&cell.row).filter(|item| item.is_header()) else {
                continue;
            };
            let known =
                |names: &[&'static str]| names.iter().copied().find(|name| *name == cell.column);
            match cell.part {
                ConformPart::Patterns => {
                    combinable.patterns.extend(known(&FORMS).map(|form| (item, form)));
                }
                ConformPart::Actions => {
                    combinable
                        .actions
                        .extend(known(&crate::cells::COLUMNS).map(|action| (item, action)));
                }
                ConformPart::Behaviours => {}
            }
        }
        combinable
    }

    /// Finds out how many rules, and which groups and priorities there can be.
    fn find_limits(&mut self) -> Result<(), DeviceError> {
        let Some(field) = Item::Ipv4.field("src") else { return Ok(()) };
        let mut named = ItemMatch::any(Item::Ipv4);
        named.mask = mask_of(field, field.ones());
        field.put(&mut named.spec, 10 << 24);
        let items = vec![ItemMatch::any(Item::Eth), named];
        let rule = WrittenRule { group: 0, priority: 1, items, actions: vec![Action::Queue(0)] };
        // The last byte of the source address.
        let fill = RuleStep::Fill { rule: rule.clone(), byte: 15, count: RULES_TRIED };
        let seen = self.observe(vec![RuleCase { steps: vec![fill], effect_max_ns: 0 }])?;
        if let Some(StepResult::Filled { created, refusal }) =
            seen.first().and_then(|seen| seen.steps.first())
        {
            self.result.limits.push(ConformLimit {
                name: "rules of ipv4 src".to_owned(),
                value: Some(u64::from(*created)),
                at_least: refusal.is_none(),
                words: refusal.as_ref().map(RuleDenial::to_string),
            });
        }
        let priority = self.greatest(|value| WrittenRule { priority: value, ..rule.clone() })?;
        let group = self.greatest(|value| WrittenRule { group: value, ..rule.clone() })?;
        let limits = [("priority", priority), ("group", group)];
        self.result.limits.extend(limits.map(|(name, (value, words))| ConformLimit {
            name: name.to_owned(),
            value: value.map(u64::from),
            at_least: words.is_none(),
            words,
        }));
        Ok(())
    }

    /// The greatest number that makes a rule that the device accepts, and its words against a
    /// greater one: first by its bits, then between.
    fn greatest(
        &mut self,
        rule: impl Fn(u32) -> WrittenRule,
    ) -> Result<(Option<u32>, Option<String>), DeviceError> {
        let powers: Vec<u32> = (0..=32).map(|bits| ((1_u64 << bits) - 1) as u32).collect();
        let of = |value: u32| {
            let steps = vec![RuleStep::Create { rule: rule(value), may_fail: true }];
            RuleCase { steps, effect_max_ns: 0 }
        };
        let refusal = |seen: &RuleCaseObservation| match seen.steps.first() {
            Some(StepResult::Denied(denial)) => Some(denial.to_string()),
            _ => None,
        };
        let seen = self.observe(powers.iter().map(|value| of(*value)).collect())?;
        let refused = seen.iter().position(|seen| refusal(seen).is_some());
        let Some(first_refused) = refused else { return Ok((powers.last().copied(), None)) };
        let mut words = refusal(&seen[first_refused]);
        let Some(before) = first_refused.checked_sub(1) else { return Ok((None, words)) };
        let (mut accepted, mut too_great) = (powers[before], powers[first_refused]);
        while too_great - accepted > 1 {
            let middle = accepted + (too_great - accepted) / 2;
            let seen = self.observe(vec![of(middle)])?;
            match seen.first().and_then(refusal) {
                None => accepted = middle,
                Some(other) => (too_great, words) = (middle, Some(other)),
            }
        }
        Ok((Some(accepted), words))
    }
}

/// A set-up without rules.
fn setup_of(queues: u16) -> Setup {
    Setup {
        rules: Vec::new(),
        queues,
        cores: 1,
        ports: 1,
        receive: Receive::default(),
        function: Function::default(),
        frame_len_max: FRAME_LEN_MAX,
    }
}

/// The explanation of most cases; of several the narrowest of the first case.
fn best_explanation(rest: &[WrongCase]) -> Option<String> {
    let mut best: Option<(&String, usize)> = None;
    for name in rest.iter().flat_map(|wrong| &wrong.explanations) {
        let count = rest.iter().filter(|wrong| wrong.explanations.contains(name)).count();
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((name, count));
        }
    }
    best.map(|(name, _)| name.clone())
}

/// Frames that were sent for a case.
fn frames(seen: &RuleCaseObservation) -> u64 {
    let sent = seen.steps.iter().map(|step| match step {
        StepResult::Frame(FrameObservation { sent, .. }) => u64::from(*sent),
        StepResult::Traffic { before, after, .. } => (before.len() + after.len()) as u64,
        _ => 0,
    });
    sent.sum()
}

/// The cell of its cases: the worst of them says its state.
fn summary(cell: &PlannedCell, states: Vec<CaseState>) -> ConformCell {
    let cases = states.len() as u32;
    let (mut state, mut words, mut late_ns) = (CellState::Right, None, None);
    let mut is_any_right = false;
    for of_case in states {
        let (of_case, said) = match of_case {
            CaseState::Right => {
                is_any_right = true;
                (CellState::Right, None)
            }
            CaseState::Late(ns) => {
                is_any_right = true;
                late_ns = late_ns.max(Some(ns));
                (CellState::Late, None)
            }
            CaseState::Denied { is_own: true, denial: RuleDenial::Device(said) } => {
                (CellState::Refused, Some(said))
            }
            CaseState::Denied { is_own: true, denial: RuleDenial::Niclab(said) } => {
                (CellState::Unsaid, Some(said))
            }
            CaseState::Denied { is_own: false, denial } => {
                (CellState::NotTried, Some(format!("a rule that it needs is refused: {denial}")))
            }
            CaseState::Lost => {
                let said = "its frames do not come out unchanged, even by a rule of every frame";
                (CellState::NotTried, Some(said.to_owned()))
            }
            CaseState::Unsent => {
                (CellState::NotTried, Some("the tester's port does not send".to_owned()))
            }
            CaseState::Unsteady(said) => (CellState::Unsteady, Some(said)),
            CaseState::Wrong => (CellState::Wrong, None),
        };
        if of_case > state {
            (state, words) = (of_case, said);
        }
    }
    if is_any_right && matches!(state, CellState::Refused | CellState::Unsaid) {
        state = CellState::PartlyRefused;
    }
    let (part, row, column) = (cell.part, cell.row.clone(), cell.column.clone());
    ConformCell { part, row, column, state, cases, words, late_ns }
}

/// A fault as the document has it.
fn evidence(name: &str, case: &RuleCase, difference: &Difference) -> ConformFault {
    let frame = match case.steps.get(difference.step) {
        Some(RuleStep::Send { frame, .. } | RuleStep::Traffic { frame, .. }) => Some(hex(frame)),
        _ => None,
    };
    ConformFault {
        name: name.to_owned(),
        cells: Vec::new(),
        steps: case.steps.iter().map(step_words).collect(),
        frame,
        difference: difference.words.clone(),
    }
}

fn step_words(step: &RuleStep) -> String {
    match step {
        RuleStep::Create { rule, .. } => format!("flow create 0 {rule}"),
        RuleStep::Replace { rule, with } => format!("replace the actions of rule {rule}: {with}"),
        RuleStep::Destroy { rule } => format!("flow destroy 0 rule {rule}"),
        RuleStep::Send { frame, .. } => format!("send {} bytes", frame.len()),
        RuleStep::Traffic { frames, rule, with, .. } => {
            format!("send {frames} frames, replace the actions of rule {rule} meanwhile: {with}")
        }
        RuleStep::Count { rule, .. } => format!("flow query 0 {rule} count"),
        RuleStep::Aged => "flow aged 0".to_owned(),
        RuleStep::Wait { ns } => format!("wait {} ms", ns / 1_000_000),
        RuleStep::Fill { rule, count, .. } => format!("create up to {count} rules like: {rule}"),
    }
}
