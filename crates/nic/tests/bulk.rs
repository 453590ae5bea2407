//! Operations in bulk do what single calls do, one after the other: same answers, same rules.

use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{
    Nic, NicConfig, Operation, RuleError, RuleId, Template, TemplateAction, TemplateTable,
};
use proptest::prelude::*;

const QUEUES: u16 = 16;
const ADDRESSES: u8 = 8;

fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

/// A pattern of one of five masks, of none to eight words.
fn pattern(kind: u8, one: u8, other: u8) -> Pattern {
    let v6 = |last| format!("2001:db8::{last}").parse().unwrap();
    match kind % 5 {
        0 => Pattern::any(),
        1 => Pattern::any().eth_dst(mac(one)),
        2 => Pattern::any().eth_src(mac(other)),
        3 => Pattern::any().eth_dst(mac(one)).eth_src(mac(other)),
        _ => Pattern::any().eth_dst(mac(one)).src(v6(one)).dst(v6(other)).udp().sport(1),
    }
}

/// An operation in numbers: which one, on which of the rules so far, and the new rule.
type Drawn = (u8, usize, u32, u32, (u8, u8, u8), u16);

fn drawn() -> impl Strategy<Value = Drawn> {
    let pattern = (0..5u8, 0..ADDRESSES, 0..ADDRESSES);
    (0..11u8, any::<usize>(), 0..3u32, 0..3u32, pattern, 0..QUEUES)
}

fn nic() -> Nic {
    Nic::new(&NicConfig { queues: QUEUES, seed: 1, ..NicConfig::default() }).unwrap()
}

/// Where a frame of each pair of addresses goes.
fn answers(nic: &mut Nic) -> Vec<(u16, bool)> {
    let mut worker = nic.worker();
    let count = usize::from(ADDRESSES) * usize::from(ADDRESSES);
    let (region, mut descs) = Region::new(count, 100).unwrap();
    for (i, desc) in descs.iter_mut().enumerate() {
        let frame = &mut region.slot_mut(desc)[..60];
        frame.fill(0);
        frame[..6].copy_from_slice(&mac(i as u8 % ADDRESSES));
        frame[6..12].copy_from_slice(&mac(i as u8 / ADDRESSES));
        region.set_len(desc, 60);
    }
    let dropped = worker.classify(&region, &mut descs);
    let answer = |(i, desc): (usize, &Desc)| (desc.queue, dropped >> i & 1 == 1);
    descs.iter().enumerate().map(answer).collect()
}

/// Tables for rules of one destination, and a queue each, in three groups.
fn tables(nic: &mut Nic) -> Vec<TemplateTable> {
    let actions = &[TemplateAction::Queue];
    let table = |group| {
        let pattern = pattern(1, 0, 0);
        nic.template_table(&Template { group, priority: 1, pattern, actions }).unwrap()
    };
    (0..3).map(table).collect()
}

/// The rule in its numbers.
fn rule<'a>(
    &(_, _, group, priority, (mask, one, other), _): &Drawn,
    actions: &'a [Action],
) -> Rule<'a> {
    Rule { group, priority, pattern: pattern(mask, one, other), actions }
}

/// The operation in its numbers, for a NIC with these tables.
fn operation<'a>(
    &(kind, which, group, _, (_, one, _), queue): &Drawn,
    ids: &[RuleId],
    rule: &'a Rule<'a>,
    tables: &[TemplateTable],
) -> Operation<'a> {
    let table = &tables[group as usize];
    // The last queue is none of the NIC's.
    let given = [u32::from(queue) + 1];
    match kind {
        8 | 9 => {
            let key = *pattern(1, one, 0).value();
            return Operation::CreateIn(table.rule(&key, &given).unwrap());
        }
        10 if !ids.is_empty() => {
            return Operation::UpdateIn(ids[which % ids.len()], table.actions(&given).unwrap());
        }
        _ => {}
    }
    match (kind, ids.is_empty()) {
        (0..=3, _) | (_, true) => Operation::Create(rule),
        (4, _) => Operation::Update(ids[which % ids.len()], rule.actions),
        (5, _) => Operation::Modify(ids[which % ids.len()], rule),
        _ => Operation::Destroy(ids[which % ids.len()]),
    }
}

fn singly(nic: &mut Nic, operation: &Operation<'_>) -> Result<RuleId, RuleError> {
    match *operation {
        Operation::Create(rule) => nic.create(rule),
        Operation::CreateIn(ref rule) => nic.create_in(rule),
        Operation::Destroy(id) => nic.destroy(id).map(|()| id),
        Operation::Modify(id, rule) => nic.modify(id, rule).map(|()| id),
        Operation::Update(id, actions) => nic.update(id, actions).map(|()| id),
        Operation::UpdateIn(id, ref actions) => nic.update_in(id, actions).map(|()| id),
    }
}

proptest! {
    #[test]
    fn bulk_is_one_after_the_other(
        rounds in prop::collection::vec(prop::collection::vec(drawn(), 0..120), 1..6),
    ) {
        let (mut bulk, mut single) = (nic(), nic());
        let (bulk_tables, single_tables) = (tables(&mut bulk), tables(&mut single));
        // Ids of rules that are gone stay in the list.
        let mut ids = Vec::new();
        for drawn in &rounds {
            let act = |drawn: &Drawn| match drawn.5 {
                0 => [Action::Drop],
                1 => [Action::Jump(drawn.2 + 1)],
                queue => [Action::Queue(queue)],
            };
            let actions: Vec<[Action; 1]> = drawn.iter().map(act).collect();
            let both = drawn.iter().zip(&actions);
            let rules: Vec<Rule<'_>> = both.map(|(drawn, actions)| rule(drawn, actions)).collect();
            let operations = |tables: &[TemplateTable]| -> Vec<Operation<'_>> {
                let each = drawn.iter().zip(&rules);
                each.map(|(drawn, rule)| operation(drawn, &ids, rule, tables)).collect()
            };
            let mut seen = Vec::new();
            bulk.run(&operations(&bulk_tables), |result| seen.push(result));
            let operations = operations(&single_tables);
            let expected: Vec<_> =
                operations.iter().map(|operation| singly(&mut single, operation)).collect();
            prop_assert_eq!(&seen, &expected);
            ids.extend(seen.into_iter().flatten());
            prop_assert_eq!(bulk.len(), single.len());
            prop_assert_eq!(answers(&mut bulk), answers(&mut single));
        }
    }
}
