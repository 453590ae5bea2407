//! Template tables: their rules are those a user would have written, and their place stays.

use super::*;
use crate::NicConfig;
use crate::batch::Operation;
use crate::memory::Region;
use crate::rule::Rule;
use crate::rule::text::{Command, Parser};
use crate::worker::Worker;

fn nic() -> Nic {
    Nic::new(&NicConfig { queues: 8, seed: 3, ..NicConfig::default() }).unwrap()
}

/// A UDP datagram over IPv4 to this port.
fn frame(dport: u16) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[23] = 17;
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0, 9, (dport >> 8) as u8, dport as u8]);
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

fn pattern(dport: u16) -> Pattern {
    let address = |last| format!("10.0.0.{last}").parse().unwrap();
    Pattern::any().src(address(1)).dst(address(2)).udp().sport(9).dport(dport)
}

/// Where a datagram to this port goes: the queue and the mark, or `None` if it is dropped.
fn fate(worker: &mut Worker, dport: u16) -> Option<(u16, Option<u32>)> {
    let (region, mut descs) = Region::new(1, 100).unwrap();
    region.slot_mut(&mut descs[0])[..60].copy_from_slice(&frame(dport));
    region.set_len(&mut descs[0], 60);
    let dropped = worker.classify(&region, &mut descs);
    (dropped == 0).then(|| (descs[0].queue, region.mark(&descs[0])))
}

fn template(group: u32, actions: &[TemplateAction]) -> Template<'_> {
    Template { group, priority: 1, pattern: pattern(0), actions }
}

const QUEUE: [TemplateAction; 1] = [TemplateAction::Queue];

#[test]
fn a_rule_of_a_table_is_the_rule_that_a_user_would_have_written() {
    let mut nic = nic();
    let mut worker = nic.worker();
    let actions =
        [TemplateAction::Same(Action::Count), TemplateAction::Mark, TemplateAction::Queue];
    let table = nic.template_table(&template(0, &actions)).unwrap();
    let rule = table.rule(&Key::parse(&frame(53)), &[77, 5]).unwrap();
    let id = nic.create_in(&rule).unwrap();
    assert_eq!(fate(&mut worker, 53), Some((5, Some(77))));
    assert_eq!(nic.query(id).unwrap().packets, 1);
    let written = Rule { group: 0, priority: 1, pattern: pattern(53), actions: &[Action::Drop] };
    let duplicate = RuleError::Duplicate { group: 0, priority: 1, of: id };
    assert_eq!(nic.create(&written), Err(duplicate.clone()));
    assert_eq!(nic.create_in(&rule), Err(duplicate));
    nic.update_in(id, &table.actions(&[78, 6]).unwrap()).unwrap();
    assert_eq!(fate(&mut worker, 53), Some((6, Some(78))));
    nic.destroy(id).unwrap();
    nic.create(&written).unwrap();
    assert_eq!(fate(&mut worker, 53), None);
    assert_eq!(nic.len(), 1);
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_made() {
    let mut nic = nic();
    let table = nic.template_table(&template(1, &QUEUE)).unwrap();
    let key = Key::parse(&frame(1));
    let count = RuleError::GivenCount { given: 2, wanted: 1 };
    assert_eq!(table.rule(&key, &[1, 2]).err(), Some(count.clone()));
    assert_eq!(table.actions(&[1, 2]).err(), Some(count));
    for queue in [8, 65_536 + 3] {
        let rule = table.rule(&key, &[queue]).unwrap();
        let refused = nic.create_in(&rule);
        assert!(matches!(refused, Err(RuleError::QueueUnknown { .. })), "{refused:?}");
    }
    let jumping = nic.template_table(&template(3, &[TemplateAction::Jump])).unwrap();
    let back = nic.create_in(&jumping.rule(&key, &[2]).unwrap());
    assert_eq!(back, Err(RuleError::JumpBack { from: 3, to: 2 }));
    let mut refused = |actions: &[TemplateAction]| nic.template_table(&template(1, actions)).err();
    assert_eq!(refused(&[TemplateAction::Mark]), Some(RuleError::FateMissing));
    let two = [TemplateAction::Queue, TemplateAction::Same(Action::Drop)];
    assert!(matches!(refused(&two), Some(RuleError::FatesTwo { .. })));
    let far = [TemplateAction::Same(Action::Queue(8))];
    assert!(matches!(refused(&far), Some(RuleError::QueueUnknown { .. })));
    let many = [vec![TemplateAction::Mark; 4], QUEUE.into()].concat();
    assert!(matches!(refused(&many), Some(RuleError::TemplateUnfit { .. })));
    assert_eq!(nic.len(), 0);
}

#[test]
fn a_table_whose_rules_a_key_does_not_say_is_refused() {
    let mut nic = nic();
    for items in ["raw pattern is ab", "ipv4 / udp / vxlan vni is 3", "ipv4 ttl is 3 ttl last 9"] {
        let line = format!("flow create 0 ingress pattern {items} / end actions drop / end");
        let mut parser = Parser::default();
        let parsed = parser.parse(1, &line).unwrap();
        let Command::Create { rule, .. } = parsed.command else { panic!("{line}") };
        let pattern = parsed.pattern(&rule).unwrap();
        let template = Template { pattern, ..template(1, &QUEUE) };
        let refused = nic.template_table(&template).err();
        assert!(matches!(refused, Some(RuleError::TemplateUnfit { .. })), "{items}: {refused:?}");
    }
}

#[test]
fn a_destroyed_or_foreign_table_creates_no_rule() {
    let (mut nic, mut other) = (nic(), nic());
    let mut worker = nic.worker();
    let table = nic.template_table(&template(0, &QUEUE)).unwrap();
    let theirs = other.template_table(&template(0, &QUEUE)).unwrap();
    let key = Key::parse(&frame(7));
    let rule = theirs.rule(&key, &[1]).unwrap();
    assert_eq!(nic.create_in(&rule), Err(RuleError::TemplateUnknown));
    assert_eq!(nic.destroy_template_table(&theirs), Err(RuleError::TemplateUnknown));
    let rule = table.rule(&key, &[1]).unwrap();
    let id = nic.create_in(&rule).unwrap();
    nic.destroy_template_table(&table).unwrap();
    assert_eq!(fate(&mut worker, 7), Some((1, None)), "its rules live on");
    let actions = table.actions(&[2]).unwrap();
    assert_eq!(nic.update_in(id, &actions), Err(RuleError::TemplateUnknown));
    assert_eq!(nic.destroy_template_table(&table), Err(RuleError::TemplateUnknown));
    // Another takes its slot, and is not taken for it.
    let another = nic.template_table(&template(2, &QUEUE)).unwrap();
    assert_eq!(another.common.table_id.slot, table.common.table_id.slot);
    let mut results = Vec::new();
    let operations = [Operation::CreateIn(rule), Operation::UpdateIn(id, actions)];
    nic.run(&operations, |result| results.push(result));
    assert_eq!(results, vec![Err(RuleError::TemplateUnknown); 2]);
    nic.destroy(id).unwrap();
    assert_ne!(fate(&mut worker, 7), Some((1, None)));
}

/// The group and the mask stay for the rules to come, and go with the table.
#[test]
fn a_table_keeps_its_place_while_rules_come_and_go() {
    let mut nic = nic();
    let mut worker = nic.worker();
    let table = nic.template_table(&template(4, &QUEUE)).unwrap();
    let jump = [Action::Jump(4)];
    let pattern = Pattern::any();
    let outer = nic.create(&Rule { group: 0, priority: 0, pattern, actions: &jump }).unwrap();
    for round in 0..100 {
        let rule = table.rule(&Key::parse(&frame(round)), &[u32::from(round) % 8]).unwrap();
        let id = nic.create_in(&rule).unwrap();
        assert_eq!(fate(&mut worker, round), Some((round % 8, None)));
        nic.destroy(id).unwrap();
    }
    nic.destroy(outer).unwrap();
    let bytes = nic.rule_bytes();
    nic.destroy_template_table(&table).unwrap();
    for _ in 0..3 {
        assert!(fate(&mut worker, 1).is_some());
        nic.run_housekeeping(100);
    }
    assert!(nic.rule_bytes() < bytes, "the table of the group is gone");
    assert!(nic.is_empty());
}

#[test]
fn a_rule_of_a_table_stands_in_a_transaction() {
    let mut nic = nic();
    let mut worker = nic.worker();
    let table = nic.template_table(&template(0, &QUEUE)).unwrap();
    let rule = |dport: u16| table.rule(&Key::parse(&frame(dport)), &[3]).unwrap();
    let before = fate(&mut worker, 1);
    let mut transaction = nic.transaction();
    let id = transaction.create_in(&rule(1)).unwrap();
    transaction.create_in(&rule(2)).unwrap();
    transaction.update_in(id, &table.actions(&[4]).unwrap()).unwrap();
    assert_eq!(fate(&mut worker, 1), before);
    transaction.commit().unwrap();
    assert_eq!(fate(&mut worker, 1), Some((4, None)));
    assert_eq!(fate(&mut worker, 2), Some((3, None)));
}

/// Ports in a range of which no bit is the same in all: the mask has no bits.
#[test]
fn a_pattern_of_a_range_alone_matches_ports_inside_alone() {
    let mut nic = nic();
    let mut worker = nic.worker();
    let pattern = Pattern::any().dport_range(1_000..=40_000);
    let rule = Rule { group: 0, priority: 0, pattern, actions: &[Action::Drop] };
    nic.create(&rule).unwrap();
    for (dport, dropped) in [(999, false), (1_000, true), (40_000, true), (40_001, false)] {
        assert_eq!(fate(&mut worker, dport).is_none(), dropped, "{dport}");
    }
}
