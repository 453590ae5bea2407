//! Lanes of an inbox, with workers that die.

use proptest::prelude::*;

use super::*;

fn entry(key: u64, pane: u64) -> Entry {
    Entry { key, pane, stream: 0 }
}

/// Counts the entries as a worker does, which dies after `dies_after` tuples.
fn work(inbox: &Inbox, dies_after: usize) {
    inbox.attach();
    let (mut entries, mut left) = (Vec::new(), dies_after);
    loop {
        let taken = inbox.take(3, &mut entries);
        if entries.is_empty() || left == 0 {
            return;
        }
        let counted = &entries[..left.min(entries.len())];
        inbox.counts().count(taken.lane, counted, |_| {});
        left -= counted.len();
        inbox.release();
    }
}

proptest! {
    #[test]
    fn each_tuple_is_counted_once_however_often_workers_die(
        keys in prop::collection::vec(0_u64..5, 0..60),
        deaths in prop::collection::vec(0_usize..7, 0..30),
    ) {
        let (inbox, mut deaths) = (Inbox::new(1, 8), deaths.into_iter());
        for keys in keys.chunks(4) {
            while inbox.room(0) < keys.len() {
                work(&inbox, deaths.next().unwrap_or(usize::MAX));
            }
            let mut entries = keys.iter().map(|key| entry(*key, 0)).collect();
            inbox.hand_over(0, &mut entries, 0);
            work(&inbox, deaths.next().unwrap_or(usize::MAX));
        }
        work(&inbox, usize::MAX);
        let counts = inbox.counts();
        for key in 0..5 {
            let expected = keys.iter().filter(|of| **of == key).count() as u64;
            let counted = counts.panes().get(&0).and_then(|of| of.get(&key)).copied();
            prop_assert_eq!(counted.unwrap_or(0), expected);
        }
        prop_assert!(inbox.waiting() == 0);
    }
}

#[test]
fn a_mark_is_passed_behind_the_entries_before_it() {
    let (inbox, mut entries) = (Inbox::new(1, 8), Vec::new());
    inbox.attach();
    inbox.hand_over(0, &mut vec![entry(1, 3), entry(2, 4)], 3);
    inbox.hand_over(0, &mut vec![entry(3, 7)], 5);
    inbox.hand_over(0, &mut Vec::new(), 4);
    assert_eq!(inbox.take(1, &mut entries).pane, 0);
    assert_eq!(inbox.take(1, &mut entries).pane, 3);
    assert_eq!(inbox.take(9, &mut entries).pane, 5);
    inbox.close();
    let last = inbox.take(9, &mut entries);
    assert_eq!((last.pane, last.is_end, entries.len()), (5, true, 0));
    assert_eq!(inbox.room(0), 5, "what was read is not counted yet");
}

#[test]
fn a_worker_that_reads_entries_again_has_not_passed_the_marks_behind_them() {
    let (inbox, mut entries) = (Inbox::new(1, 8), Vec::new());
    inbox.attach();
    inbox.hand_over(0, &mut vec![entry(1, 3), entry(2, 4)], 3);
    inbox.hand_over(0, &mut Vec::new(), 9);
    assert_eq!(inbox.take(9, &mut entries).pane, 9);
    inbox.counts().count(0, &[(0, entry(1, 3))], |_| {});
    inbox.release();
    inbox.attach();
    assert_eq!(inbox.take(0, &mut entries).pane, 0, "entry 1 is of pane 4");
    let again = inbox.take(9, &mut entries);
    assert_eq!((again.begin, again.pane, &entries[..]), (1, 9, &[(1, entry(2, 4))][..]));
}

#[test]
fn forgotten_panes_are_gone() {
    let mut counts = WorkerCounts::new(1);
    let entries: Vec<(u64, Entry)> = (0..6).map(|at| (at, entry(at % 2, at / 2))).collect();
    counts.count(0, &entries, |_| {});
    counts.count(0, &entries[2..4], |_| {});
    assert_eq!((counts.pairs(), counts.panes()[&1][&0]), (6, 1));
    counts.forget(2);
    assert_eq!((counts.pairs(), counts.panes().len()), (2, 1));
}
