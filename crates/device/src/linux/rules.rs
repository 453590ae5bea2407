//! The rules of a set-up, and of a plan, in the table of n-tuple rules of a card.

use std::io;
use std::time::Instant;

use niclab_load::{Control, Latency};
use niclab_nic::rule::Rule;

use super::ethtool::Card;
use super::ethtool::flow::{ANYWHERE, Flow};
use super::ethtool::rules::NtupleTable;
use super::{ntuple, refused};
use crate::control::Patterns;
use crate::face::{DeviceError, RuleBlock, SetupReport};
use crate::plan::{CallMode, RuleWork, RulesPlan};

/// A table of n-tuple rules.
pub(super) trait RuleTable {
    /// As messages call them.
    const WORDS: &str;
    /// Each has a priority of its own; where not, that of two that match is first whose place is.
    const HAVE_PRIORITIES: bool;
    /// Its content; `None` if there is no table.
    fn table(&mut self) -> io::Result<Option<NtupleTable>>;
    /// Puts a rule in; its place, or what is said against it.
    fn insert(&mut self, flow: &Flow, priority: u32) -> Result<u32, String>;
    /// Takes the rule at a place out.
    fn remove(&mut self, place: u32) -> io::Result<()>;
}

impl RuleTable for Card {
    const WORDS: &str = "n-tuple rules";
    const HAVE_PRIORITIES: bool = false;

    fn table(&mut self) -> io::Result<Option<NtupleTable>> {
        self.rules()
    }

    fn insert(&mut self, flow: &Flow, _priority: u32) -> Result<u32, String> {
        Card::insert(self, flow).map_err(|e| refusal(flow, &e))
    }

    fn remove(&mut self, place: u32) -> io::Result<()> {
        Card::remove(self, place)
    }
}

/// Creates the rules of a set-up's blocks, the highest priority first, each behind those that were
/// there. Of a block the first refusal ends it: the rest counts as refused too.
///
/// # Errors
/// [`DeviceError::NotSupported`] for rules of a file, and for several priorities where these go by
/// places and the driver finds the places.
pub(super) fn install<P: RuleTable>(
    card: &mut P,
    blocks: &[RuleBlock],
    report: &mut SetupReport,
) -> Result<(), DeviceError> {
    let mut blocks: Vec<&RuleBlock> = blocks.iter().filter(|block| block.count() > 0).collect();
    blocks.sort_by_key(|block| priority(block));
    let differ = blocks.windows(2).any(|pair| priority(pair[0]) != priority(pair[1]));
    if differ && !P::HAVE_PRIORITIES && table(card)?.finds_places {
        let capability =
            format!("several priorities (the driver finds the places of {} itself)", P::WORDS);
        return Err(DeviceError::lacks(capability));
    }
    for block in blocks {
        let flows = flows::<P>(block)?;
        let priority = priority(block);
        let mut places = places(card, flows.len())?.into_iter();
        let mut refusal = None;
        let mut installed = 0;
        for flow in flows {
            let begun = Instant::now();
            let made = put(card, flow, priority, places.next());
            report.install += begun.elapsed();
            match made {
                Ok(_) => installed += 1,
                Err(why) => {
                    refusal = Some(why);
                    break;
                }
            }
        }
        report.rules_installed += installed;
        if let Some(why) = refusal {
            report.rules_refused += u64::from(block.count()) - installed;
            report.refusal.get_or_insert(why);
        }
    }
    Ok(())
}

/// Carries a plan out without packets: creates the rules of a block, and takes them out again.
///
/// # Errors
/// [`DeviceError::NotSupported`] for other work, and for other calls than one a rule.
pub(super) fn operate<P: RuleTable>(
    card: &mut P,
    plan: &RulesPlan,
) -> Result<Control, DeviceError> {
    let lacks = |what: &str| Err(DeviceError::lacks(format!("{what} ({} have none)", P::WORDS)));
    let RuleWork::Create(block) = &plan.work else { return lacks("rules changed in place") };
    match plan.calls {
        CallMode::Single if plan.threads.is_none() => {}
        CallMode::Single | CallMode::Queue => return lacks("operation queues of rules"),
        CallMode::Transaction => return lacks("transactions of rules"),
    }
    let flows = flows::<P>(block)?;
    let mut places = places(card, flows.len())?.into_iter();
    let mut created = Vec::with_capacity(flows.len());
    let mut making = CallTimer::of(flows.len());
    for flow in flows {
        let place = places.next();
        created.extend(making.call(|| put(card, flow, priority(block), place)));
    }
    let mut removing = CallTimer::of(created.len());
    for place in created {
        removing.call(|| card.remove(place).map_err(|e| e.to_string()));
    }
    let mut control = making.end();
    control.destroyed = Some(Box::new(removing.end()));
    Ok(control)
}

fn priority(block: &RuleBlock) -> u32 {
    block.place().map_or(0, |(_, priority, _)| priority)
}

/// The rules of a block as the card would have them, or why it cannot.
fn flows<P: RuleTable>(block: &RuleBlock) -> Result<Vec<Result<Flow, String>>, DeviceError> {
    let Some((group, priority, actions)) = block.place() else {
        let capability = format!("rules of a file ({} are made one by one)", P::WORDS);
        return Err(DeviceError::lacks(capability));
    };
    let patterns = Patterns::of(block)?;
    let flow = |at| ntuple::flow(&Rule { group, priority, pattern: patterns.get(at), actions });
    Ok((0..patterns.len()).map(flow).collect())
}

fn table<P: RuleTable>(card: &mut P) -> Result<NtupleTable, DeviceError> {
    let table = card.table();
    let table = table.map_err(|e| refused(&format!("reading the table of {}", P::WORDS), &e))?;
    Ok(table.unwrap_or_default())
}

/// Places for so many rules, behind those that are there; fewer where the table is full.
fn places(card: &mut impl RuleTable, count: usize) -> Result<Vec<u32>, DeviceError> {
    let table = table(card)?;
    if table.finds_places {
        return Ok(vec![ANYWHERE; count]);
    }
    let behind = table.taken.last().map_or(0, |last| last + 1);
    let mut places: Vec<u32> = (behind..table.places).take(count).collect();
    if places.len() < count {
        // The order of rules that overlap others' is not ours to keep.
        places = table.free(count);
    }
    Ok(places)
}

/// Puts a rule in, or says what is said against it.
fn put<P: RuleTable>(
    card: &mut P,
    flow: Result<Flow, String>,
    priority: u32,
    place: Option<u32>,
) -> Result<u32, String> {
    let no_words = |what| format!("not supported: {what}: {} have no words for that", P::WORDS);
    let flow = flow.map_err(no_words)?;
    let location = place.ok_or_else(|| full(P::WORDS))?;
    card.insert(&Flow { location, ..flow }, priority)
}

fn full(words: &str) -> String {
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

/// Calls that are timed, one after the other.
struct CallTimer(Control);

impl CallTimer {
    fn of(planned: usize) -> CallTimer {
        let (planned, calls) = (planned as u64, Some(Latency::new()));
        CallTimer(Control { planned, calls, begun_ns: Some(0), ..Control::default() })
    }

    fn call<T>(&mut self, call: impl FnOnce() -> Result<T, String>) -> Option<T> {
        let begun = Instant::now();
        let made = call();
        let took_ns = begun.elapsed().as_nanos() as u64;
        let control = &mut self.0;
        control.calls_ns += took_ns;
        match (control.first_call_ns, &mut control.calls) {
            (None, _) => control.first_call_ns = Some(took_ns),
            (Some(_), Some(calls)) => calls.record(took_ns),
            (Some(_), None) => {}
        }
        match made {
            Ok(made) => {
                control.done += 1;
                Some(made)
            }
            Err(why) => {
                control.refused += 1;
                control.refusal.get_or_insert(why);
                None
            }
        }
    }

    fn end(self) -> Control {
        let CallTimer(control) = self;
        let calls_ns = control.calls_ns;
        Control { busy_ns: calls_ns, ended_ns: Some(calls_ns), ..control }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    }

    impl RuleTable for Eight {
        const WORDS: &str = "n-tuple rules";
        const HAVE_PRIORITIES: bool = false;

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
            assert!(place < 8 && self.rules.insert(place, *flow).is_none(), "place {place}");
            Ok(place)
        }

        fn remove(&mut self, place: u32) -> io::Result<()> {
            let gone = self.rules.remove(&place);
            gone.map(|_| ()).ok_or(io::Error::from_raw_os_error(libc::ENOENT))
        }
    }

    /// Filters, each with its priority.
    #[derive(Default)]
    struct Filters(Eight);

    impl RuleTable for Filters {
        const WORDS: &str = "flower filters";
        const HAVE_PRIORITIES: bool = true;

        fn table(&mut self) -> io::Result<Option<NtupleTable>> {
            self.0.table()
        }

        fn insert(&mut self, flow: &Flow, priority: u32) -> Result<u32, String> {
            self.0.insert(flow, priority)
        }

        fn remove(&mut self, place: u32) -> io::Result<()> {
            self.0.remove(place)
        }
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
        let flows = flows::<Eight>(&tuples(0, 1, Action::Drop)).unwrap();
        let other = Flow { location: 2, ..flows[0].clone().unwrap() };
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
        let why = "the driver does not know rules such as `flow-type ether action 0 loc 2`";
        let blocks = [any, tuples(0, 2, Action::Drop)];
        assert_eq!(installed(&mut card, &blocks), (2, 1, Some(why.into())));
        let before = card.inserted;
        let group = RuleBlock::Any { group: 1, priority: 0, actions: vec![Action::Drop] };
        let why = "not supported: group 1: n-tuple rules have no words for that";
        assert_eq!(installed(&mut card, &[group]), (0, 1, Some(why.into())));
        assert_eq!(card.inserted, before, "the card was not asked");
        let file = RuleBlock::File { path: "rules".into(), rules_count: 3 };
        let error = install(&mut card, &[file], &mut SetupReport::default()).unwrap_err();
        assert!(matches!(error, DeviceError::NotSupported { .. }), "{error}");
    }

    #[test]
    fn priorities_are_not_lost_where_the_driver_finds_the_places() {
        let eight = || Eight { finds_places: true, ..Eight::default() };
        let blocks = [tuples(5, 2, Action::Queue(1)), tuples(0, 3, Action::Drop)];
        let mut report = SetupReport::default();
        let error = install(&mut eight(), &blocks, &mut report).unwrap_err();
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
        let error = install(&mut filters, &[file], &mut report).unwrap_err().to_string();
        assert!(error.contains("rules of a file (flower filters are made one by one)"), "{error}");
        install(&mut filters, &[tuples(0, 9, Action::Drop)], &mut report).unwrap();
        assert_eq!(report.refusal.as_deref(), Some("the table of flower filters is full"));
    }

    #[test]
    fn a_plan_creates_its_rules_and_takes_them_out_again() {
        let plan = |work, calls| RulesPlan {
            core: ControlCore::Distinct,
            start_ns: 0,
            work,
            calls,
            slice: None,
            threads: None,
            per_s: None,
            pause_ns: None,
        };
        let block = |count| RuleBlock::Stack {
            group: 0,
            priority: 0,
            stack: Stack::Ipv6Tcp,
            first: 0,
            count,
            actions: vec![Action::Queue(0)],
        };
        let mut card = Eight::default();
        let made =
            operate(&mut card, &plan(RuleWork::Create(block(10)), CallMode::Single)).unwrap();
        assert_eq!((made.planned, made.done, made.refused), (10, 8, 2));
        assert_eq!(made.refusal.as_deref(), Some("the table of n-tuple rules is full"));
        assert_eq!(made.calls.unwrap().0.len(), 9, "the first is apart");
        assert!(made.calls_ns >= made.first_call_ns.unwrap());
        let gone = made.destroyed.unwrap();
        assert_eq!((gone.planned, gone.done, gone.refused), (8, 8, 0));
        assert!(card.rules.is_empty());
        for (work, calls) in [
            (RuleWork::Renew { block: 0 }, CallMode::Single),
            (RuleWork::Create(block(1)), CallMode::Queue),
            (RuleWork::Create(block(1)), CallMode::Transaction),
        ] {
            let error = operate(&mut card, &plan(work, calls)).unwrap_err();
            assert!(matches!(error, DeviceError::NotSupported { .. }), "{error}");
        }
    }
}
