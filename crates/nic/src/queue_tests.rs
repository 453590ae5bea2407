//! Operation queues: what is pushed and served, what is refused, and several threads at once.

use std::collections::HashMap;

use niclab_packet::key::Key;

use super::*;
use crate::control::NicConfig;
use crate::rule::Pattern;
use crate::template::{Template, TemplateAction, TemplateTable};

fn nic() -> (Nic, TemplateTable) {
    let mut nic = Nic::new(&NicConfig { queues: 8, ..NicConfig::default() }).unwrap();
    let actions = &[TemplateAction::Queue];
    let pattern = Pattern::any().eth_dst([0; 6]).eth_src([0; 6]);
    let template = Template { group: 1, priority: 0, pattern, actions };
    let table = nic.template_table(&template).unwrap();
    (nic, table)
}

fn key(number: u64) -> Key {
    let [_, _, bytes @ ..] = number.to_be_bytes();
    *Pattern::any().eth_dst(bytes).eth_src([2; 6]).value()
}

fn create(table: &TemplateTable, number: u64) -> Operation<'static> {
    Operation::CreateIn(table.rule(&key(number), &[number as u32 % 8]).unwrap())
}

#[test]
fn an_operation_takes_effect_when_it_was_pushed_and_served() {
    let (mut nic, table) = nic();
    let mut queue = nic.operation_queue(4).unwrap();
    queue.put(create(&table, 1), 11).unwrap();
    assert_eq!((nic.serve(10), nic.len()), (0, 0), "not pushed");
    queue.push();
    assert_eq!((queue.pull(), nic.len()), (Ok(None), 0), "not served");
    assert_eq!((nic.serve(10), nic.len()), (1, 1));
    let Ok(Some(OperationResult { user: 11, result: Ok(id) })) = queue.pull() else {
        panic!("no result")
    };
    queue.put(Operation::Destroy(id), 12).unwrap();
    queue.put(Operation::Destroy(id), 13).unwrap();
    queue.push();
    assert_eq!((nic.serve(1), nic.len()), (1, 0), "one at most");
    assert_eq!(nic.serve(1), 1);
    assert_eq!(queue.pull(), Ok(Some(OperationResult { user: 12, result: Ok(id) })));
    let refused = Err(RuleError::Unknown(id));
    assert_eq!(queue.pull(), Ok(Some(OperationResult { user: 13, result: refused })));
    assert_eq!((queue.pull(), queue.under_way()), (Ok(None), 0));
}

#[test]
fn a_full_queue_takes_no_more_until_results_are_pulled() {
    let (mut nic, table) = nic();
    let mut queue = nic.operation_queue(2).unwrap();
    queue.put(create(&table, 1), 1).unwrap();
    queue.push();
    queue.put(create(&table, 2), 2).unwrap();
    let full = Err(QueueError::Full { size: 2 });
    assert_eq!(queue.put(create(&table, 3), 3), full);
    queue.push();
    nic.serve(10);
    assert_eq!(queue.put(create(&table, 3), 3), full, "results are not pulled");
    assert_eq!(queue.pull().unwrap().map(|done| done.user), Some(1));
    queue.put(create(&table, 3), 3).unwrap();
    drop(nic);
    assert_eq!(queue.put(create(&table, 4), 4), Err(QueueError::Closed));
    assert_eq!(queue.pull().unwrap().map(|done| done.user), Some(2), "it was carried out");
    assert_eq!((queue.pull(), queue.under_way()), (Err(QueueError::Closed), 0));
    assert_eq!(queue.pull(), Ok(None));
}

#[test]
fn a_queue_without_room_or_with_more_than_there_is_is_refused() {
    let (mut nic, _) = nic();
    for size in [0, OPERATIONS_MAX + 1] {
        assert_eq!(nic.operation_queue(size).err(), Some(NicError::Operations { size }));
    }
}

#[test]
fn what_a_thread_pushed_before_it_left_is_carried_out() {
    let (mut nic, table) = nic();
    let mut queue = nic.operation_queue(8).unwrap();
    queue.put(create(&table, 0), 0).unwrap();
    queue.put(create(&table, 1), 1).unwrap();
    queue.push();
    queue.put(create(&table, 2), 2).unwrap();
    drop(queue);
    assert_eq!((nic.serve(1), nic.serve(10), nic.len()), (1, 1, 2), "the last was not pushed");
    assert_eq!((nic.serve(10), nic.served.len()), (0, 0), "the queue is given up");
}

/// Each thread creates rules of its own and destroys some of them; the results that it gets agree
/// with the rules of the NIC.
#[test]
fn several_threads_have_a_queue_each() {
    const EACH: u64 = 20_000;
    let (mut nic, table) = nic();
    let threads = 3;
    let queues: Vec<OperationQueue> =
        (0..threads).map(|_| nic.operation_queue(256).unwrap()).collect();
    let lives = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (thread, queue) in (0..).zip(queues) {
            let table = &table;
            handles.push(scope.spawn(move || control(queue, table, thread * EACH, EACH)));
        }
        while !handles.iter().all(|handle| handle.is_finished()) {
            if nic.serve(64) == 0 {
                std::thread::yield_now();
            }
        }
        handles.into_iter().map(|handle| handle.join().unwrap()).sum::<u64>()
    });
    assert_eq!(u64::from(nic.len()), lives);
    assert_eq!(lives, threads as u64 * (EACH - EACH.div_ceil(3)));
}

/// Creates rules and destroys every third as soon as it is there; how many live.
fn control(mut queue: OperationQueue, table: &TemplateTable, first: u64, count: u64) -> u64 {
    let (mut next, mut lives) = (first, 0);
    let mut destroyed = HashMap::new();
    while next < first + count || queue.under_way() > 0 {
        while next < first + count && queue.put(create(table, next), next).is_ok() {
            next += 1;
        }
        queue.push();
        while let Some(OperationResult { user, result }) = queue.pull().unwrap() {
            let id = result.unwrap();
            if destroyed.remove(&user).is_some() {
                lives -= 1;
                continue;
            }
            lives += 1;
            if (user - first).is_multiple_of(3) {
                destroyed.insert(user, id);
                queue.put(Operation::Destroy(id), user).unwrap();
            }
        }
        std::thread::yield_now();
    }
    lives
}
