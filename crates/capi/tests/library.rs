//! The library gives C programs handles, indirect actions, operation queues, and errors that name
//! the faulty part.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use niclab::control::{Control, GivenActions, RulePosition};
use niclab::failure::{Failure, FailurePart};
use niclab::flow_queue::{EnqueuedRule, FlowQueue, SharedControl};
use niclab::port::Port;
use niclab::shapes::ItemBytes;
use niclab::templates::{ActionsTemplate, RuleTable};
use niclab_nic::memory::Region;
use niclab_nic::rss::RssAction;
use niclab_nic::rule::Action;
use niclab_nic::rule::item::ItemMatch;
use niclab_nic::rule::text::{Command, Parser};
use niclab_nic::{Nic, NicConfig};
use niclab_packet::stack::build;
use niclab_packet::wire::{ethernet, ipv4, udp};

const ROOT: RulePosition = RulePosition { group: 0, priority: 0 };
const SECOND_NS: u64 = 1_000_000_000;

fn control() -> Control {
    Control::new(Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap())
}

/// The items of a pattern's text. They live as long as the tests.
fn items(text: &str) -> Vec<ItemBytes<'static>> {
    let line = format!("flow create 0 ingress pattern {text} / end actions drop / end");
    let mut parser = Parser::default();
    let Command::Create { rule, .. } = parser.parse(1, &line).unwrap().command else {
        panic!("{line}")
    };
    let items: &'static [ItemMatch] = rule.items.to_vec().leak();
    items.iter().map(ItemBytes::from).collect()
}

fn given(actions: &[Action]) -> GivenActions {
    GivenActions { list: actions.iter().cloned().collect(), ..GivenActions::default() }
}

/// Actions that end with the indirect action of a handle.
fn with_indirect(actions: &[Action], handle: u64) -> GivenActions {
    let mut given = given(actions);
    given.indirect.push((given.list.len(), handle));
    given.list.push(Action::Drop);
    given
}

/// Sends datagrams to these ports through a worker; returns their queues.
fn send(worker: &mut niclab_nic::Worker, ports: &[u16]) -> Vec<u16> {
    let (region, mut descs) = Region::new(ports.len(), 100).unwrap();
    for (desc, &dst_port) in descs.iter_mut().zip(ports) {
        let frame = build(&[
            ethernet::Repr::default().into(),
            ipv4::Repr::default().into(),
            udp::Repr { dst_port, ..Default::default() }.into(),
        ])
        .unwrap();
        region.slot_mut(desc)[..frame.len()].copy_from_slice(&frame);
        region.set_len(desc, frame.len() as u16);
    }
    worker.classify(&region, &mut descs);
    descs.iter().map(|desc| desc.queue).collect()
}

fn port(port: u16) -> Vec<ItemBytes<'static>> {
    items(&format!("eth / ipv4 / udp dst is {port}"))
}

/// The items of a pattern template for ports.
fn matches(number: u16) -> Vec<ItemMatch> {
    port(number).into_iter().map(ItemBytes::to_match).collect()
}

#[test]
fn a_handle_names_its_rule_until_it_is_destroyed_and_never_another() {
    let mut control = control();
    let id = control.create(ROOT, &port(1), &mut given(&[Action::Queue(1)])).unwrap();
    let handle = id.to_bits();
    assert_eq!(control.rule_of(handle).unwrap(), id);
    control.destroy(id).unwrap();
    let next = control.create(ROOT, &port(1), &mut given(&[Action::Queue(2)])).unwrap();
    assert_ne!(next.to_bits(), handle);
    let error = control.destroy(control.rule_of(handle).unwrap()).unwrap_err();
    assert_eq!((error.errno, error.part), (libc::ENOENT, FailurePart::Handle));
    assert!(control.rule_of(0).is_err());
    assert!(control.rule_of(u64::MAX).is_err(), "a slot that was never given");
}

#[test]
fn a_refusal_says_which_item_or_action_is_wrong_and_changes_nothing() {
    let mut control = control();
    let place = |failure: Failure| (failure.errno, failure.part, failure.index);
    let mut create = |items: &[ItemBytes<'_>], actions: &[Action], group, priority| {
        let place_of_rule = RulePosition { group, priority };
        place(control.create(place_of_rule, items, &mut given(actions)).unwrap_err())
    };
    let drop = &[Action::Drop][..];
    let unordered = [port(1), items("eth")].concat();
    assert_eq!(create(&unordered, drop, 0, 0), (libc::EINVAL, FailurePart::Item, 3));
    let wrong = [Action::Count, Action::Queue(9)];
    assert_eq!(create(&port(1), &wrong, 0, 0), (libc::EINVAL, FailurePart::Action, 1));
    assert_eq!(create(&port(1), &[Action::Count], 0, 0), (libc::EINVAL, FailurePart::Actions, 0));
    assert_eq!(create(&port(1), drop, 0, 65_536), (libc::EINVAL, FailurePart::Priority, 0));
    let back = [Action::Jump(1)];
    assert_eq!(create(&port(1), &back, 2, 0), (libc::EINVAL, FailurePart::Action, 0));
    let unknown = control.create(ROOT, &port(1), &mut with_indirect(&[Action::Count], 77));
    assert_eq!(place(unknown.unwrap_err()), (libc::ENOENT, FailurePart::Action, 1));
    assert!(control.dump(None).unwrap().is_empty(), "no rule was created");
}

#[test]
fn counters_are_reset_by_themselves() {
    let nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() });
    let mut nic = nic.unwrap();
    let mut worker = nic.worker();
    let mut control = Control::new(nic);
    let id =
        control.create(ROOT, &port(1), &mut given(&[Action::Count, Action::Queue(1)])).unwrap();
    let plain = control.create(ROOT, &port(2), &mut given(&[Action::Queue(2)])).unwrap();
    assert_eq!(send(&mut worker, &[1, 1, 2]), [1, 1, 2]);
    assert_eq!(control.counts(id, true).unwrap().packets, 2);
    send(&mut worker, &[1]);
    assert_eq!(control.counts(id, false).unwrap().packets, 1);
    assert_eq!(control.counts(plain, false).unwrap_err().errno, libc::EINVAL);
    let text = control.dump(Some(id)).unwrap();
    assert!(text.contains("port_dst 0001 fate queue 1, 3 packets"), "{text}");
}

#[test]
fn an_indirect_counter_counts_for_all_its_rules_even_those_that_are_gone() {
    let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
    let mut worker = nic.worker();
    let shared: SharedControl = Arc::new(Mutex::new(Control::new(nic)));
    let mut control = shared.lock().unwrap();
    let handle = control_counter(&mut control);
    let rules: Vec<_> = (1..3)
        .map(|n| {
            let mut actions = with_indirect(&[Action::Queue(n)], handle);
            control.create(ROOT, &port(n), &mut actions).unwrap()
        })
        .collect();
    assert_eq!(send(&mut worker, &[1, 2, 2, 3])[..3], [1, 2, 2]);
    assert_eq!(counted(&mut control, handle), 3);
    control.destroy(rules[1]).unwrap();
    send(&mut worker, &[1, 2]);
    assert_eq!(counted(&mut control, handle), 4);
    drop(control);
    let mut queue = FlowQueue::new(&shared, 4).unwrap();
    queue.destroy(rules[0].to_bits(), 5, false).unwrap();
    assert!(queue.pull().unwrap().is_done);
    assert_eq!(counted(&mut shared.lock().unwrap(), handle), 4);
}

#[test]
fn an_updated_rule_goes_on_counting_and_no_packet_counts_twice() {
    let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
    let mut worker = nic.worker();
    let mut control = Control::new(nic);
    let handle = control_counter(&mut control);
    let mut actions = with_indirect(&[Action::Queue(1)], handle);
    let id = control.create(ROOT, &port(1), &mut actions).unwrap();
    send(&mut worker, &[1, 1]);
    control.update(id, &mut with_indirect(&[Action::Queue(2)], handle)).unwrap();
    assert_eq!(counted(&mut control, handle), 2);
    assert_eq!(send(&mut worker, &[1]), [2]);
    assert_eq!(counted(&mut control, handle), 3);
    // Without the counter the rule counts for nobody, and with it again from then on.
    control.update(id, &mut given(&[Action::Count, Action::Queue(2)])).unwrap();
    send(&mut worker, &[1, 1, 1]);
    assert_eq!(counted(&mut control, handle), 3);
    control.update(id, &mut with_indirect(&[Action::Queue(3)], handle)).unwrap();
    send(&mut worker, &[1]);
    control.destroy(id).unwrap();
    assert_eq!(counted(&mut control, handle), 4);
}

#[test]
fn a_nic_that_succeeds_another_keeps_isolation_and_no_old_handle_names_a_new_rule() {
    let nic = |queues| Nic::new(&NicConfig { queues, ..NicConfig::default() }).unwrap();
    let shared: SharedControl = Arc::new(Mutex::new(Control::new(nic(2))));
    let mut queue = FlowQueue::new(&shared, 8).unwrap();
    let table = table(&[Action::Queue(0)], &[false]);
    let items = port(1);
    let rule =
        EnqueuedRule { table: &table, templates: (0, 0), items: &items, user: 0, postpone: false };
    let enqueued = queue.create(rule, &mut given(&[Action::Queue(1)])).unwrap();
    drop(queue);
    let (synchronous, counter) = {
        let mut control = shared.lock().unwrap();
        let of = |control: &mut Control, number| {
            control.create(ROOT, &port(number), &mut given(&[Action::Queue(1)])).unwrap()
        };
        // Its place has had other rules.
        for _ in 0..5 {
            let id = of(&mut control, 2);
            control.destroy(id).unwrap();
        }
        control.nic_mut().isolate(true).unwrap();
        (of(&mut control, 2), control_counter(&mut control))
    };
    shared.lock().unwrap().succeed(nic(4)).unwrap();
    let mut queue = FlowQueue::new(&shared, 8).unwrap();
    let mut handles = vec![enqueued, synchronous.to_bits()];
    // The template table works on.
    handles.push(queue.create(rule, &mut given(&[Action::Queue(3)])).unwrap());
    assert!(queue.pull().unwrap().is_done);
    let mut control = shared.lock().unwrap();
    assert!(control.nic_mut().is_isolated());
    for number in 2..40 {
        let id = control.create(ROOT, &port(number), &mut given(&[Action::Queue(3)])).unwrap();
        handles.push(id.to_bits());
    }
    for old in &handles[..2] {
        assert_eq!(control.destroy_handle(*old).unwrap_err().errno, libc::ENOENT, "{old:#x}");
    }
    assert_eq!(control.destroy_indirect(counter).unwrap_err().errno, libc::ENOENT);
    assert_ne!(control_counter(&mut control), counter);
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), 41);
}

#[test]
fn a_handle_of_a_queue_names_nothing_after_its_rule_and_its_place_is_used_again() {
    let shared: SharedControl = Arc::new(Mutex::new(control()));
    let table = table(&[Action::Queue(0)], &[false]);
    let items = port(1);
    let rule =
        EnqueuedRule { table: &table, templates: (0, 0), items: &items, user: 0, postpone: false };
    let mut handles = std::collections::HashSet::new();
    let mut places = std::collections::HashSet::new();
    for turn in 0..1_000 {
        let mut queue = FlowQueue::new(&shared, 8).unwrap();
        let handle = queue.create(rule, &mut given(&[Action::Queue(1)])).unwrap();
        assert!(handles.insert(handle), "{handle:#x} again in turn {turn}");
        places.insert(handle >> 32);
        match turn % 3 {
            0 => queue.destroy(handle, 0, false).unwrap(),
            1 => shared.lock().unwrap().destroy_handle(handle).unwrap(),
            _ => shared.lock().unwrap().flush().unwrap(),
        }
        let mut control = shared.lock().unwrap();
        assert_eq!(control.rule_of(handle).unwrap_err().errno, libc::ENOENT);
        assert_eq!(control.destroy_handle(handle).unwrap_err().errno, libc::ENOENT);
    }
    // A queue takes 256 at a time.
    assert!(places.len() <= 512, "{} places", places.len());
}

#[test]
fn an_updated_rule_of_a_queue_is_reported_aged_by_the_handle_that_the_program_has() {
    let shared: SharedControl = Arc::new(Mutex::new(control()));
    let mut queue = FlowQueue::new(&shared, 8).unwrap();
    let table = table(&[Action::Queue(0)], &[false]);
    let items = port(1);
    let rule =
        EnqueuedRule { table: &table, templates: (0, 0), items: &items, user: 0, postpone: false };
    let handle = queue.create(rule, &mut given(&[Action::Queue(1)])).unwrap();
    let mut control = shared.lock().unwrap();
    control.set_time_ns(SECOND_NS);
    let mut ages = given(&[Action::Age(2), Action::Queue(1)]);
    control.update_handle(handle, &mut ages).unwrap();
    control.set_time_ns(10 * SECOND_NS);
    assert_eq!(control.aged(), [handle]);
}

fn control_counter(control: &mut Control) -> u64 {
    control.create_indirect(Action::Count, None).unwrap()
}

fn counted(control: &mut Control, handle: u64) -> u64 {
    control.indirect_counts(handle, false).unwrap().packets
}

#[test]
fn an_indirect_rss_changes_in_all_rules_at_once_and_stays_while_they_have_it() {
    let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
    let mut worker = nic.worker();
    let mut control = Control::new(nic);
    let rss =
        |queue| Action::Rss(Box::new(RssAction { queues: vec![queue], ..RssAction::default() }));
    let handle = control.create_indirect(rss(1), None).unwrap();
    for n in 1..3 {
        control.create(ROOT, &port(n), &mut with_indirect(&[Action::Count], handle)).unwrap();
    }
    assert_eq!(send(&mut worker, &[1, 2]), [1, 1]);
    control.update_indirect(handle, rss(3)).unwrap();
    assert_eq!(send(&mut worker, &[1, 2]), [3, 3]);
    let error = control.update_indirect(handle, rss(9)).unwrap_err();
    assert_eq!(error.errno, libc::EINVAL);
    assert_eq!(send(&mut worker, &[1, 2]), [3, 3], "nothing was changed");
    assert_eq!(control.update_indirect(handle, Action::Count).unwrap_err().errno, libc::EINVAL);
    assert_eq!(control.destroy_indirect(handle).unwrap_err().errno, libc::EBUSY);
    control.flush().unwrap();
    control.destroy_indirect(handle).unwrap();
}

#[test]
fn aged_rules_are_reported_by_the_programs_word_or_their_handle() {
    let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
    let mut worker = nic.worker();
    nic.set_time_ns(SECOND_NS);
    let mut control = Control::new(nic);
    let ages = [Action::Age(5), Action::Queue(1)];
    let mut named = GivenActions { age_context: Some(0xabc), ..given(&ages) };
    control.create(ROOT, &port(1), &mut named).unwrap();
    let id = control.create(ROOT, &port(2), &mut given(&ages)).unwrap();
    let handle = control.create_indirect(Action::Age(5), Some(0xdef)).unwrap();
    let counter = control_counter(&mut control);
    for n in 3..5 {
        let mut actions = with_indirect(&[Action::Queue(2), Action::Count], handle);
        actions.indirect.push((1, counter));
        control.create(ROOT, &port(n), &mut actions).unwrap();
    }
    worker.set_age_time_ns(5 * SECOND_NS);
    send(&mut worker, &[4]);
    control.set_time_ns(7 * SECOND_NS);
    let mut aged = control.aged();
    aged.sort_unstable();
    let mut expected = vec![0xabc, id.to_bits()];
    expected.sort_unstable();
    assert_eq!(aged, expected, "the indirect age was hit 2 s ago");
    control.set_time_ns(20 * SECOND_NS);
    let mut aged = control.aged();
    aged.sort_unstable();
    expected.push(0xdef);
    expected.sort_unstable();
    assert_eq!(aged, expected, "a counter of the same rules has no age");
}

fn table(actions: &[Action], fixed: &[bool]) -> RuleTable {
    let template =
        ActionsTemplate { given: given(actions), fixed: fixed.iter().copied().collect() };
    RuleTable::new(ROOT, vec![matches(0)], vec![template])
}

#[test]
fn rules_of_a_queue_have_handles_at_once_and_appear_when_they_are_pushed() {
    let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
    let mut worker = nic.worker();
    let shared: SharedControl = Arc::new(Mutex::new(Control::new(nic)));
    let mut queue = FlowQueue::new(&shared, 8).unwrap();
    let table = table(&[Action::Count, Action::Queue(0)], &[true, false]);
    let rule = |items, user| EnqueuedRule {
        table: &table,
        templates: (0, 0),
        items,
        user,
        postpone: true,
    };
    let first = port(1);
    let actions = [Action::Count, Action::Queue(3)];
    let handle = queue.create(rule(&first, 10), &mut given(&actions)).unwrap();
    let twin = queue.create(rule(&first, 11), &mut given(&actions)).unwrap();
    assert_ne!(handle, twin);
    assert_eq!(queue.pull(), None, "nothing was pushed");
    assert!(shared.lock().unwrap().rule_of(handle).is_err());
    // Destroyed by the push that creates it, and created again.
    queue.destroy(handle, 12, true).unwrap();
    let second = queue.create(rule(&first, 13), &mut given(&actions)).unwrap();
    queue.push();
    let results: Vec<_> =
        std::iter::from_fn(|| queue.pull()).map(|c| (c.user, c.is_done)).collect();
    assert_eq!(results, [(10, true), (11, false), (12, true), (13, true)]);
    assert_eq!(send(&mut worker, &[1]), [3]);
    let mut control = shared.lock().unwrap();
    let id = control.rule_of(second).unwrap();
    assert_eq!(control.counts(id, false).unwrap().packets, 1);
    assert!(control.rule_of(handle).is_err() && control.rule_of(twin).is_err());
    drop(control);
    table.close(&shared);
}

#[test]
fn a_full_queue_refuses_operations_until_results_are_pulled() {
    let shared: SharedControl = Arc::new(Mutex::new(control()));
    let mut queue = FlowQueue::new(&shared, 2).unwrap();
    queue.destroy(1, 1, true).unwrap();
    queue.destroy(2, 2, false).unwrap();
    assert_eq!(queue.destroy(3, 3, true).unwrap_err().errno, libc::EAGAIN);
    assert!(queue.pull().is_some_and(|done| !done.is_done), "no such rule");
    queue.destroy(3, 3, true).unwrap();
    assert!(FlowQueue::new(&shared, 0).is_err());
}

#[test]
fn rules_that_the_nics_tables_do_not_hold_are_created_whole() {
    let shared: SharedControl = Arc::new(Mutex::new(control()));
    let counter = control_counter(&mut shared.lock().unwrap());
    let mut queue = FlowQueue::new(&shared, 64).unwrap();
    let ages = table(&[Action::Age(9), Action::Queue(1)], &[true, false]);
    let mut own = given(&[Action::Age(1), Action::Queue(2)]);
    let first = port(1);
    let rule =
        EnqueuedRule { table: &ages, templates: (0, 0), items: &first, user: 1, postpone: true };
    let handle = queue.create(rule, &mut own).unwrap();
    let mut of_template = given(&[Action::Drop, Action::Queue(1)]);
    of_template.indirect.push((0, counter));
    let fixed = [false, true].into_iter().collect();
    let template = ActionsTemplate { given: of_template, fixed };
    let shares = RuleTable::new(ROOT, vec![matches(0)], vec![template]);
    let second = port(2);
    let rule = EnqueuedRule { table: &shares, items: &second, user: 2, ..rule };
    let mut own = given(&[Action::Drop, Action::Queue(1)]);
    own.indirect.push((0, counter));
    queue.create(rule, &mut own).unwrap();
    let other = queue.create(rule, &mut given(&[Action::Count, Action::Queue(1)])).unwrap_err();
    assert_eq!((other.errno, other.part), (libc::EINVAL, FailurePart::Action));
    let done = std::iter::from_fn(|| queue.pull()).filter(|done| done.is_done).count();
    assert_eq!(done, 2);
    let mut control = shared.lock().unwrap();
    let id = control.rule_of(handle).unwrap();
    assert_eq!(control.age(id).unwrap().timeout_s, 9, "the template's, not the rule's");
    assert!(control.dump(Some(id)).unwrap().contains("queue 2"));
    control.set_time_ns(100 * SECOND_NS);
    assert_eq!(control.aged(), [handle], "the handle that the program knows");
}

#[test]
fn frames_with_two_tags_pass_a_port_whole_and_longer_ones_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.pcap");
    let trace = trace.to_str().unwrap();
    let port = Port::open(&format!("pcap:out={trace}"), 1).unwrap();
    let frames = [vec![1; 1_522], vec![2; 1_523], vec![3; 60]];
    assert_eq!(port.send(0, frames.iter().map(|frame| &frame[..])).unwrap(), 3);
    assert_eq!(port.counters(0).unwrap().tx_dropped, 1);
    port.close().unwrap();
    let port = Port::open(&format!("pcap:in={trace},speed=max"), 1).unwrap();
    let (mut small, mut large) = ([0; 1_000], [0; 2_000]);
    let mut lens = Vec::new();
    let begun = std::time::Instant::now();
    while lens.is_empty() && begun.elapsed().as_secs() < 10 {
        let buffers = [&mut small[..], &mut large[..]].into_iter();
        port.receive(0, buffers, |len| lens.push(len)).unwrap();
    }
    // The long frame does not fit the first buffer; the short one does.
    assert_eq!(lens, [60]);
    assert_eq!(port.counters(0).unwrap().rx_missed, 1);
    port.close().unwrap();
}
