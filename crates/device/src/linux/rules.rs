//! The rules of a set-up, and of a plan, in the table of n-tuple rules of a card or in flower
//! filters.

use std::io;
use std::vec;

use niclab_nic::rule::Rule;

use super::ethtool::Card;
use super::ethtool::flow::{ANYWHERE, Flow};
use super::ethtool::rules::NtupleTable;
use super::{End, ntuple, refused};
use crate::Control;
use crate::control::{
    CallResult, Carrier, InstalledBlock, Patterns, PlacedResult, PlannedRule, RuleOperation,
    RuleTarget, Steps, threads,
};
use crate::cores;
use crate::face::{DeviceError, RuleBlock, SetupReport};
use crate::plan::{CallMode, RuleChangeKind, RuleWork, RulesPlan};

/// A table of rules, each with a number: its place, or its handle.
pub(super) trait RuleTable: Send + Sized {
    /// As messages call them.
    const WORDS: &str;
    /// Each has a priority of its own; where not, that of two that match is first whose place is.
    const HAVE_PRIORITIES: bool;
    /// Asks the kernel.
    type Socket: Send;

    /// Its content; `None` if there is no table.
    fn table(&mut self) -> io::Result<Option<NtupleTable>>;
    /// Puts a rule in; its place, or what is said against it.
    fn insert(&mut self, flow: &Flow, priority: u32) -> Result<u32, String>;
    /// Puts a rule in the stead of the one at a place, with one call; its place.
    fn replace(&mut self, place: u32, flow: &Flow, priority: u32) -> Result<u32, String>;
    /// Takes the rule at a place out.
    fn remove(&mut self, place: u32) -> Result<(), String>;
    /// A socket for the table of this interface of the calling thread's namespace.
    fn socket(interface: &str) -> io::Result<Self::Socket>;
    /// The same table for thread `at` of `count`, which has a socket of its own.
    fn share(&self, socket: Self::Socket, at: u32, count: u32) -> Self;
    /// Takes over the rules that a thread has left.
    fn join(&mut self, shared: Self);
}

impl RuleTable for Card {
    const WORDS: &str = "n-tuple rules";
    const HAVE_PRIORITIES: bool = false;
    type Socket = Card;

    fn table(&mut self) -> io::Result<Option<NtupleTable>> {
        self.rules()
    }

    fn insert(&mut self, flow: &Flow, _priority: u32) -> Result<u32, String> {
        Card::insert(self, flow).map_err(|e| refusal(flow, &e))
    }

    // A rule that is inserted at a place that is taken replaces the one there (`ethtool -N … loc`).
    fn replace(&mut self, place: u32, flow: &Flow, priority: u32) -> Result<u32, String> {
        RuleTable::insert(self, &Flow { location: place, ..*flow }, priority)
    }

    fn remove(&mut self, place: u32) -> Result<(), String> {
        Card::remove(self, place).map_err(|e| format!("removing the rule at place {place}: {e}"))
    }

    fn socket(interface: &str) -> io::Result<Card> {
        Card::open(interface)
    }

    fn share(&self, socket: Card, _at: u32, _count: u32) -> Card {
        socket
    }

    // The card knows them.
    fn join(&mut self, _shared: Card) {}
}

/// Places for rules that are to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// The driver or the kernel finds them.
    Found,
    /// These, one after the other.
    These(Vec<u32>),
}

impl Places {
    /// Every `count`-th place, from place `at` on.
    pub(super) fn share(&self, at: usize, count: usize) -> Places {
        match self {
            Places::Found => Places::Found,
            Places::These(all) => {
                Places::These(all.iter().copied().skip(at).step_by(count).collect())
            }
        }
    }
}

/// A table, as the carrier of a plan calls for it.
pub(super) struct TableRules<'t, P> {
    table: &'t mut P,
    /// Those of rules to come; `None` where they are found.
    places: Option<vec::IntoIter<u32>>,
}

/// An operation with its arguments.
pub(super) enum TableCall {
    Create(ReadyRule),
    Replace(u32, ReadyRule),
    Remove(u32),
    Renew(u32, ReadyRule),
}

/// A rule and its priority, or why the table has no words for it.
type ReadyRule = Result<(Flow, u32), String>;

impl<'t, P: RuleTable> TableRules<'t, P> {
    pub(super) fn new(table: &'t mut P, places: Places) -> TableRules<'t, P> {
        let places = match places {
            Places::Found => None,
            Places::These(all) => Some(all.into_iter()),
        };
        TableRules { table, places }
    }

    /// A rule at a place.
    fn ready(rule: PlannedRule<'_>, place: Option<u32>) -> ReadyRule {
        let PlannedRule { group, priority, actions, .. } = rule;
        let rule = Rule { group, priority, pattern: rule.pattern(), actions };
        Ok((flow_at::<P>(&rule, place)?, priority))
    }

    fn insert(&mut self, ready: ReadyRule) -> Result<Option<u32>, String> {
        let (flow, priority) = ready?;
        self.table.insert(&flow, priority).map(Some)
    }

    fn replace(&mut self, place: u32, ready: ReadyRule) -> Result<Option<u32>, String> {
        let (flow, priority) = ready?;
        self.table.replace(place, &flow, priority).map(Some)
    }

    /// A rule that is refused before it is asked for leaves the old one where it is.
    fn renew(&mut self, place: u32, ready: ReadyRule) -> CallResult<u32, String> {
        if let Err(why) = ready {
            return CallResult::of(Err(why));
        }
        if let Err(why) = self.table.remove(place) {
            return CallResult::of(Err(why));
        }
        CallResult { stands: self.insert(ready), is_gone: true }
    }
}

impl<'a, P: RuleTable> RuleTarget<'a> for TableRules<'_, P> {
    type Id = u32;
    type Call = TableCall;
    type Error = String;

    fn prepare(&mut self, operation: RuleOperation<'a, u32>) -> TableCall {
        let is_found = self.places.is_none();
        match operation {
            RuleOperation::Create(rule) => {
                let place = self.places.as_mut().map_or(Some(ANYWHERE), Iterator::next);
                TableCall::Create(Self::ready(rule, place))
            }
            RuleOperation::Update(place, rule) | RuleOperation::Modify(place, rule) => {
                TableCall::Replace(place, Self::ready(rule, Some(place)))
            }
            RuleOperation::Destroy(place) => TableCall::Remove(place),
            RuleOperation::Renew(place, rule) => {
                let new = if is_found { ANYWHERE } else { place };
                TableCall::Renew(place, Self::ready(rule, Some(new)))
            }
        }
    }

    fn call(&mut self, call: TableCall) -> CallResult<u32, String> {
        match call {
            TableCall::Create(ready) => CallResult::of(self.insert(ready)),
            TableCall::Replace(place, ready) => CallResult::of(self.replace(place, ready)),
            TableCall::Remove(place) => CallResult::of(self.table.remove(place).map(|()| None)),
            TableCall::Renew(place, ready) => self.renew(place, ready),
        }
    }

    // There are no operation queues: plans that ask for them are refused.
    fn batch(
        &mut self,
        calls: &mut Vec<(usize, TableCall)>,
        results: &mut Vec<PlacedResult<u32, String>>,
    ) {
        results.extend(calls.drain(..).map(|(at, call)| (at, self.call(call))));
    }

    fn end(self) -> bool {
        true
    }
}

/// Creates the rules of a set-up's blocks, the highest priority first, each behind those that were
/// there. A rule of every frame gets the last place if it has the lowest priority, so that a plan
/// has room before it.
///
/// # Errors
/// [`DeviceError::NotSupported`] for rules of a file, and for several priorities where these go by
/// places and the driver finds the places.
pub(super) fn install<P: RuleTable>(
    card: &mut P,
    blocks: &[RuleBlock],
    report: &mut SetupReport,
) -> Result<Vec<InstalledBlock<u32>>, DeviceError> {
    let mut order: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].count() > 0).collect();
    order.sort_by_key(|at| priority(&blocks[*at]));
    let of = |at: usize| priority(&blocks[at]);
    let differ = order.windows(2).any(|pair| of(pair[0]) != of(pair[1]));
    if differ && !P::HAVE_PRIORITIES && table(card)?.finds_places {
        let capability =
            format!("several priorities (the driver finds the places of {} itself)", P::WORDS);
        return Err(DeviceError::lacks(capability));
    }
    let mut installed: Vec<InstalledBlock<u32>> = Vec::new();
    installed.resize_with(blocks.len(), InstalledBlock::default);
    let last = order.last().copied();
    for at in order {
        let block = &blocks[at];
        let places = match block {
            RuleBlock::File { .. } => {
                let capability = format!("rules of a file ({} are made one by one)", P::WORDS);
                return Err(DeviceError::lacks(capability));
            }
            // Only the lowest priority may be behind all others.
            RuleBlock::Any { .. } if Some(at) == last => last_place(card)?,
            _ => places(card, block.count() as usize, None)?,
        };
        installed[at] = InstalledBlock::install(block, TableRules::new(card, places), report)?;
    }
    Ok(installed)
}

fn priority(block: &RuleBlock) -> u32 {
    block.place().map_or(0, |(_, priority, _)| priority)
}

/// Refuses a plan whose operations the kernel has no calls for.
///
/// # Errors
/// [`DeviceError::NotSupported`]; [`DeviceError::BadPlan`] for churn without a load.
pub(super) fn check_plan<P: RuleTable>(
    plan: &RulesPlan,
    has_load: bool,
) -> Result<(), DeviceError> {
    let lacks = |what: &str| Err(DeviceError::lacks(format!("{what} ({} have none)", P::WORDS)));
    match (&plan.work, plan.calls) {
        (_, CallMode::Queue) => lacks("operation queues of rules"),
        (_, CallMode::Transaction) => lacks("transactions of rules"),
        (RuleWork::Change { change: RuleChangeKind::Priority(_), .. }, _) => {
            lacks("changes of a rule's priority in place")
        }
        (RuleWork::Renew { .. }, _) if !has_load => {
            let reason = "rules are renewed as long as a load lasts, and there is none".to_owned();
            Err(DeviceError::BadPlan { reason })
        }
        _ => Ok(()),
    }
}

/// The table for the operations of a plan, of which there are so many.
///
/// # Errors
/// [`DeviceError::NotSupported`] where rules go by places and there are too few before those of a
/// lower priority.
pub(super) fn target<'t, P: RuleTable>(
    card: &'t mut P,
    plan: &RulesPlan,
    blocks: &[InstalledBlock<u32>],
    count: usize,
) -> Result<TableRules<'t, P>, DeviceError> {
    let places = places_of_plan(card, plan, blocks, count)?;
    Ok(TableRules::new(card, places))
}

/// Places for the rules that a plan creates.
pub(super) fn places_of_plan<P: RuleTable>(
    card: &mut P,
    plan: &RulesPlan,
    blocks: &[InstalledBlock<u32>],
    count: usize,
) -> Result<Places, DeviceError> {
    // All others keep their places.
    let RuleWork::Create(block) = &plan.work else { return places(card, 0, None) };
    if P::HAVE_PRIORITIES {
        return places(card, count, None);
    }
    let lower = blocks.iter().filter(|of| of.place().1 > priority(block));
    let before = lower.flat_map(|of| of.ids()).copied().min();
    let places = places(card, count, before)?;
    match (&places, before) {
        (Places::Found, Some(_)) => Err(DeviceError::lacks(format!(
            "several priorities (the driver finds the places of {} itself)",
            P::WORDS
        ))),
        (Places::These(some), Some(before)) if some.len() < count => {
            Err(DeviceError::lacks(format!(
                "{count} {} before place {before}, which has a lower priority: {} are free",
                P::WORDS,
                some.len()
            )))
        }
        _ => Ok(places),
    }
}

/// Carries a plan out without packets, and takes back what it did: what it created goes in the same
/// way.
///
/// # Errors
/// Those of [`check_plan`], [`Carrier::new`] and [`undo`].
pub(super) fn operate<P: RuleTable>(
    card: &mut P,
    plan: &RulesPlan,
    blocks: &mut [InstalledBlock<u32>],
) -> Result<Control, DeviceError> {
    check_plan::<P>(plan, false)?;
    let patterns = Patterns::of_plan(plan)?;
    let plan = &RulesPlan { start_ns: 0, per_s: None, ..plan.clone() };
    let mut carrier = Carrier::new(plan, (patterns.as_ref(), &*blocks), u64::MAX, |steps| {
        target(card, plan, blocks, steps.len())
    })?;
    carrier.alone();
    let (mut record, mut ids) = carrier.end();
    if let RuleWork::Create(_) = plan.work {
        let created = std::mem::take(&mut ids);
        let mut carrier = Carrier::destroying(plan, created, |_| target(card, plan, blocks, 0))?;
        carrier.alone();
        let (destroyed, left) = carrier.end();
        (record.destroyed, ids) = (Some(Box::new(destroyed)), left);
    }
    undo(card, plan, blocks, &ids)?;
    Ok(record)
}

/// Creates the rules of a plan with several threads, each with a socket of its own, and destroys
/// them in the same way.
///
/// # Errors
/// Those of [`check_plan`]; [`DeviceError::NotSupported`] for other work than creates, and for more
/// threads than cores; [`DeviceError::Broken`] where a rule could not be taken out again.
pub(super) fn operate_by_threads<P: RuleTable>(
    card: &mut P,
    plan: &RulesPlan,
    blocks: &[InstalledBlock<u32>],
    (threads, end): (u32, &End),
) -> Result<Control, DeviceError> {
    check_plan::<P>(plan, false)?;
    let RuleWork::Create(_) = plan.work else {
        return Err(DeviceError::lacks("control threads but for creates"));
    };
    let cores = cores::allowed();
    let count = threads as usize;
    if count == 0 || count > cores.len() {
        let there = cores.len();
        return Err(DeviceError::lacks(format!("{threads} control threads on {there} cores")));
    }
    let patterns = Patterns::of_plan(plan)?;
    let plan = &RulesPlan { start_ns: 0, per_s: None, threads: None, ..plan.clone() };
    let steps = Steps::of(plan, patterns.as_ref(), &[], u64::MAX)?;
    let places = places_of_plan(card, plan, blocks, steps.len())?;
    let mut shared = Vec::with_capacity(count);
    for at in 0..threads {
        let socket = end.within("opening a socket for", |link| P::socket(&link.name))?;
        shared.push(card.share(socket, at, threads));
    }
    let of = |(at, table)| TableRules::new(table, places.share(at, count));
    let targets = shared.iter_mut().enumerate().map(of).collect();
    let record = threads::operate(targets, &steps, plan.calls, &cores);
    shared.into_iter().for_each(|table| card.join(table));
    let record = record?;
    match record.destroyed.as_ref().and_then(|destroyed| destroyed.refusal.as_ref()) {
        Some(why) => Err(left_behind::<P>(why)),
        None => Ok(record),
    }
}

/// Leaves the rules of the set-up, as they were; `ids` are those that stand where the plan worked.
///
/// # Errors
/// [`DeviceError::Broken`] where a rule is refused: the table has not what it is to have.
pub(super) fn undo<P: RuleTable>(
    card: &mut P,
    plan: &RulesPlan,
    blocks: &mut [InstalledBlock<u32>],
    ids: &[Option<u32>],
) -> Result<(), DeviceError> {
    let undone = match &plan.work {
        RuleWork::Create(_) => ids.iter().flatten().try_for_each(|id| card.remove(*id)),
        RuleWork::Change { block, .. } | RuleWork::Renew { block, .. } => {
            let Some(block) = blocks.get_mut(*block) else { return Ok(()) };
            let moved = block.ids().iter().zip(ids).filter(|(own, now)| Some(**own) != **now);
            let moved: Vec<u32> = moved.map(|(own, _)| *own).collect();
            let places =
                if table(card)?.finds_places { Places::Found } else { Places::These(moved) };
            block.restore(&mut TableRules::new(card, places), ids)
        }
    };
    undone.map_err(|why| left_behind::<P>(&why))
}

/// Rules that could not be taken out or put back.
pub(super) fn left_behind<P: RuleTable>(why: &str) -> DeviceError {
    let reason = format!("putting its {} back: {why}", P::WORDS);
    DeviceError::Broken { device: "linux".into(), reason }
}

/// The content of a table.
pub(super) fn table<P: RuleTable>(card: &mut P) -> Result<NtupleTable, DeviceError> {
    let table = card.table();
    let table = table.map_err(|e| refused(&format!("reading the table of {}", P::WORDS), &e))?;
    Ok(table.unwrap_or_default())
}

/// Places for so many rules, behind those that are there and before this one, if any; fewer where
/// there are not so many.
fn places<P: RuleTable>(
    card: &mut P,
    count: usize,
    before: Option<u32>,
) -> Result<Places, DeviceError> {
    let table = table(card)?;
    if table.finds_places {
        return Ok(Places::Found);
    }
    let end = before.unwrap_or(table.places);
    // A rule of every frame has the last place: others come before it.
    let last = table.places.saturating_sub(1);
    let taken = table.taken.iter().rev().copied();
    let behind = taken.filter(|place| *place < end.min(last)).max().map_or(0, |last| last + 1);
    let free = || table.free().filter(|place| *place < end);
    let mut places: Vec<u32> = free().filter(|place| *place >= behind).take(count).collect();
    if places.len() < count {
        // The order of rules that overlap others' is not ours to keep.
        places = free().take(count).collect();
    }
    Ok(Places::These(places))
}

/// The last place that is free.
fn last_place<P: RuleTable>(card: &mut P) -> Result<Places, DeviceError> {
    let table = table(card)?;
    if table.finds_places {
        return Ok(Places::Found);
    }
    let last = table.free().next_back();
    Ok(Places::These(last.into_iter().collect()))
}

/// A rule at a place, or why the table has no words for it or no place.
pub(super) fn flow_at<P: RuleTable>(rule: &Rule<'_>, place: Option<u32>) -> Result<Flow, String> {
    let no_words = |what| format!("not supported: {what}: {} have no words for that", P::WORDS);
    let flow = ntuple::flow(rule).map_err(no_words)?;
    let location = place.ok_or_else(|| full(P::WORDS))?;
    Ok(Flow { location, ..flow })
}

/// What is said of a table without a place.
pub(super) fn full(words: &str) -> String {
    format!("the table of {words} is full")
}

/// Converts an error of the kernel.
fn refusal(flow: &Flow, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => format!("the driver does not know rules such as `{flow}`"),
        Some(libc::ENOSPC) => full(Card::WORDS),
        _ => format!("`{flow}`: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::slice::from_ref;

    use niclab_nic::rule::Action;
    use niclab_packet::flow::FlowSpec;

    use super::super::ethtool::flow::Fate;
    use super::*;
    use crate::plan::ControlCore;
    use crate::stack::Stack;

    /// A card with a table of eight places, which knows TCP and UDP alone.
    #[derive(Default)]
    struct Eight {
        rules: BTreeMap<u32, Flow>,
        finds_places: bool,
        inserted: u32,
        replaced: u32,
    }

    impl RuleTable for Eight {
        const WORDS: &str = "n-tuple rules";
        const HAVE_PRIORITIES: bool = false;
        type Socket = ();

        fn table(&mut self) -> io::Result<Option<NtupleTable>> {
            let taken = self.rules.keys().copied().collect();
            Ok(Some(NtupleTable { places: 8, finds_places: self.finds_places, taken }))
        }

        fn insert(&mut self, flow: &Flow, _: u32) -> Result<u32, String> {
            self.inserted += 1;
            let error = |number| refusal(flow, &io::Error::from_raw_os_error(number));
            if !flow.to_string().contains("tcp") && !flow.to_string().contains("udp") {
                return Err(error(libc::EOPNOTSUPP));
            }
            let free = (0..8).rev().find(|place| !self.rules.contains_key(place));
            let place = if flow.location == ANYWHERE { free } else { Some(flow.location) };
            let place = place.ok_or_else(|| error(libc::ENOSPC))?;
            let there = self.rules.insert(place, Flow { location: place, ..*flow });
            assert!(place < 8 && there.is_none(), "place {place}");
            Ok(place)
        }

        fn replace(&mut self, place: u32, flow: &Flow, _: u32) -> Result<u32, String> {
            self.replaced += 1;
            let rule = self.rules.get_mut(&place).ok_or("there is none")?;
            *rule = Flow { location: place, ..*flow };
            Ok(place)
        }

        fn remove(&mut self, place: u32) -> Result<(), String> {
            self.rules.remove(&place).map(|_| ()).ok_or("there is none".into())
        }

        fn socket(_: &str) -> io::Result<()> {
            Ok(())
        }

        fn share(&self, (): (), _: u32, _: u32) -> Eight {
            Eight::default()
        }

        fn join(&mut self, _: Eight) {}
    }

    /// Filters, each with its priority.
    #[derive(Default)]
    struct Filters(Eight);

    impl RuleTable for Filters {
        const WORDS: &str = "flower filters";
        const HAVE_PRIORITIES: bool = true;
        type Socket = ();

        fn table(&mut self) -> io::Result<Option<NtupleTable>> {
            self.0.table()
        }

        fn insert(&mut self, flow: &Flow, priority: u32) -> Result<u32, String> {
            self.0.insert(flow, priority)
        }

        fn replace(&mut self, place: u32, flow: &Flow, priority: u32) -> Result<u32, String> {
            self.0.replace(place, flow, priority)
        }

        fn remove(&mut self, place: u32) -> Result<(), String> {
            self.0.remove(place)
        }

        fn socket(_: &str) -> io::Result<()> {
            Ok(())
        }

        fn share(&self, (): (), _: u32, _: u32) -> Filters {
            Filters::default()
        }

        fn join(&mut self, _: Filters) {}
    }

    fn tuples(priority: u32, count: u32, action: Action) -> RuleBlock {
        let flows = FlowSpec { count, ..FlowSpec::default() };
        RuleBlock::FiveTuples { group: 0, priority, flows, first: 0, count, actions: vec![action] }
    }

    fn installed(card: &mut Eight, blocks: &[RuleBlock]) -> (u64, u64, Option<String>) {
        let mut report = SetupReport::default();
        install(card, blocks, &mut report).unwrap();
        (report.rules_installed, report.rules_refused, report.refusal)
    }

    #[test]
    fn the_highest_priority_has_the_lowest_places() {
        let mut card = Eight::default();
        let blocks = [tuples(5, 2, Action::Queue(1)), tuples(0, 3, Action::Drop)];
        assert_eq!(installed(&mut card, &blocks), (5, 0, None));
        let fates: Vec<Fate> = card.rules.values().map(|flow| flow.fate).collect();
        let (drop, queue) = (Fate::Drop, Fate::Queue(1));
        assert_eq!(fates, [drop, drop, drop, queue, queue]);
        assert!(card.rules.keys().copied().eq(0..5));
    }

    #[test]
    fn rules_of_others_stay_and_a_full_table_refuses() {
        let mut card = Eight::default();
        installed(&mut card, &[tuples(0, 1, Action::Drop)]);
        let other = Flow { location: 2, ..card.rules.remove(&0).unwrap() };
        card.insert(&other, 0).unwrap();
        let full = Some("the table of n-tuple rules is full".to_owned());
        let (count, queue) = (10, Action::Queue(0));
        assert_eq!(installed(&mut card, &[tuples(0, count, queue)]), (7, 3, full.clone()));
        assert_eq!(card.rules[&2], other);
        // Where the card finds the places, it finds that out itself.
        let mut card = Eight { finds_places: true, ..Eight::default() };
        assert_eq!(installed(&mut card, &[tuples(0, 10, Action::Drop)]), (8, 2, full));
    }

    #[test]
    fn an_inexpressible_setting_or_rule_is_refused_with_the_reason() {
        let mut card = Eight::default();
        let any = RuleBlock::Any { group: 0, priority: 9, actions: vec![Action::Queue(0)] };
        let why = "the driver does not know rules such as `flow-type ether action 0 loc 7`";
        let blocks = [any, tuples(0, 2, Action::Drop)];
        assert_eq!(installed(&mut card, &blocks), (2, 1, Some(why.into())));
        let before = card.inserted;
        let group = RuleBlock::Any { group: 1, priority: 0, actions: vec![Action::Drop] };
        let why = "not supported: group 1: n-tuple rules have no words for that";
        assert_eq!(installed(&mut card, &[group]), (0, 1, Some(why.into())));
        assert_eq!(card.inserted, before, "the card was not asked");
        let file = RuleBlock::File { path: "rules".into(), rules_count: 3 };
        let error = install(&mut card, &[file], &mut SetupReport::default()).map(drop).unwrap_err();
        assert!(matches!(error, DeviceError::NotSupported { .. }), "{error}");
    }

    #[test]
    fn priorities_are_not_lost_where_the_driver_finds_the_places() {
        let eight = || Eight { finds_places: true, ..Eight::default() };
        let blocks = [tuples(5, 2, Action::Queue(1)), tuples(0, 3, Action::Drop)];
        let mut report = SetupReport::default();
        let error = install(&mut eight(), &blocks, &mut report).map(drop).unwrap_err();
        let capability = "several priorities (the driver finds the places of n-tuple rules itself)";
        assert_eq!(error, DeviceError::lacks(capability));
        assert_eq!(report, SetupReport::default(), "none was put in");
        let same = [tuples(5, 2, Action::Queue(1)), tuples(5, 3, Action::Drop)];
        assert_eq!(installed(&mut eight(), &same), (5, 0, None));
        install(&mut Filters(eight()), &blocks, &mut report).unwrap();
        assert_eq!(report.rules_installed, 5);
    }

    #[test]
    fn filters_are_called_filters() {
        let mut filters = Filters::default();
        let mut report = SetupReport::default();
        let file = RuleBlock::File { path: "rules".into(), rules_count: 3 };
        let error = install(&mut filters, &[file], &mut report).map(drop).unwrap_err().to_string();
        assert!(error.contains("rules of a file (flower filters are made one by one)"), "{error}");
        install(&mut filters, &[tuples(0, 9, Action::Drop)], &mut report).unwrap();
        assert_eq!(report.refusal.as_deref(), Some("the table of flower filters is full"));
    }

    fn plan(work: RuleWork, calls: CallMode) -> RulesPlan {
        RulesPlan {
            core: ControlCore::Distinct,
            start_ns: 0,
            work,
            calls,
            slice: None,
            threads: None,
            per_s: None,
            pause_ns: None,
        }
    }

    fn stack(priority: u32, count: u32) -> RuleBlock {
        let (stack, actions) = (Stack::Ipv6Tcp, vec![Action::Queue(0)]);
        RuleBlock::Stack { group: 0, priority, stack, first: 0, count, actions }
    }

    #[test]
    fn a_plan_creates_its_rules_and_takes_them_out_again() {
        let mut card = Eight::default();
        let work = || RuleWork::Create(stack(0, 10));
        let made = operate(&mut card, &plan(work(), CallMode::Single), &mut []).unwrap();
        assert_eq!((made.planned, made.done, made.refused), (10, 8, 2));
        assert_eq!(made.refusal.as_deref(), Some("the table of n-tuple rules is full"));
        assert_eq!(made.calls.unwrap().0.len(), 9, "the first is apart");
        assert!(made.calls_ns >= made.first_call_ns.unwrap());
        let gone = made.destroyed.unwrap();
        assert_eq!((gone.planned, gone.done, gone.refused), (8, 8, 0));
        assert!(card.rules.is_empty());
        for (work, calls) in [(work(), CallMode::Queue), (work(), CallMode::Transaction)] {
            let error = operate(&mut card, &plan(work, calls), &mut []).unwrap_err();
            assert!(matches!(error, DeviceError::NotSupported { .. }), "{error}");
        }
        let churn = plan(RuleWork::Renew { block: 0 }, CallMode::Single);
        let error = operate(&mut card, &churn, &mut []).unwrap_err();
        assert!(matches!(error, DeviceError::BadPlan { .. }), "{error}");
    }

    #[test]
    fn changed_rules_are_replaced_at_their_places_and_put_back() {
        let flows = FlowSpec { count: 8, ..FlowSpec::default() };
        let actions = vec![Action::Queue(1)];
        let block =
            RuleBlock::FiveTuples { group: 0, priority: 1, flows, first: 0, count: 4, actions };
        for finds_places in [false, true] {
            let mut card = Eight { finds_places, ..Eight::default() };
            let mut blocks =
                install(&mut card, from_ref(&block), &mut SetupReport::default()).unwrap();
            let before = card.rules.clone();
            let queue = vec![Action::Queue(2)];
            for (change, replaced) in [
                (RuleChangeKind::Actions(queue.clone()), 8),
                (RuleChangeKind::Values, 8),
                (RuleChangeKind::Mask, 8),
                (RuleChangeKind::Anew(queue), 4),
            ] {
                card.replaced = 0;
                let changing =
                    plan(RuleWork::Change { block: 0, change: change.clone() }, CallMode::Single);
                let made = operate(&mut card, &changing, &mut blocks).unwrap();
                assert_eq!((made.planned, made.done, made.refused), (4, 4, 0), "{change:?}");
                assert_eq!(card.replaced, replaced, "{change:?}");
                assert_eq!(card.rules, before, "{change:?}");
            }
            let change = RuleChangeKind::Priority(0);
            let changing = plan(RuleWork::Change { block: 0, change }, CallMode::Single);
            let error = operate(&mut card, &changing, &mut blocks).unwrap_err();
            let capability = "changes of a rule's priority in place (n-tuple rules have none)";
            assert_eq!(error, DeviceError::lacks(capability));
        }
    }

    #[test]
    fn rules_of_a_plan_come_before_those_of_a_lower_priority_or_not_at_all() {
        let plan = |count| plan(RuleWork::Create(stack(1, count)), CallMode::Single);
        let mut card = Eight::default();
        let before = [tuples(0, 2, Action::Drop), tuples(2, 2, Action::Queue(0))];
        let blocks = install(&mut card, &before, &mut SetupReport::default()).unwrap();
        let capability = "1 n-tuple rules before place 2, which has a lower priority: 0 are free";
        let places = places_of_plan(&mut card, &plan(1), &blocks, 1);
        assert_eq!(places, Err(DeviceError::lacks(capability)));
        let mut card = Eight::default();
        let blocks = install(&mut card, &before[..1], &mut SetupReport::default()).unwrap();
        let places = places_of_plan(&mut card, &plan(3), &blocks, 3);
        assert_eq!(places, Ok(Places::These(vec![2, 3, 4])), "behind the higher priority");
        let mut card = Eight { finds_places: true, ..Eight::default() };
        let blocks = install(&mut card, &before[1..], &mut SetupReport::default()).unwrap();
        let error = places_of_plan(&mut card, &plan(1), &blocks, 1).unwrap_err();
        let capability = "several priorities (the driver finds the places of n-tuple rules itself)";
        assert_eq!(error, DeviceError::lacks(capability));
    }

    #[test]
    fn threads_share_the_places() {
        let places = Places::These(vec![3, 4, 6, 7, 9]);
        assert_eq!(places.share(0, 2), Places::These(vec![3, 6, 9]));
        assert_eq!(places.share(1, 2), Places::These(vec![4, 7]));
        assert_eq!(Places::Found.share(1, 2), Places::Found);
    }
}
