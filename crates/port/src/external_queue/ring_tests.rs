//! The rings of external queues between two mappings of one memory, in two threads.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::layout::{ExternalQueueSize, Layout};
use super::ring::{Consumer, Jump, Producer, found_asleep};
use super::shared::{SharedMemory, fence};

const ENTRIES: u32 = 64;

/// Memory, and a second mapping of it, as another process would have it.
fn twice(len: usize) -> (SharedMemory, SharedMemory) {
    let (here, file) = SharedMemory::create(len).unwrap();
    let there = SharedMemory::map(file.as_fd(), len).unwrap();
    (here, there)
}

fn layout() -> Layout {
    Layout::new(ExternalQueueSize { entries: ENTRIES, slots: ENTRIES }, 2_048, 1_536)
}

/// Both ends of the transmit ring, whose indices have come as far as `start`.
fn ends(shared: &SharedMemory, layout: &Layout, start: u32) -> (Producer<2>, Consumer<2>) {
    let at = layout.transmit;
    for index in [at.producer, at.consumer] {
        shared.set_index(index, start, Ordering::Relaxed);
    }
    (Producer::new(at, start), Consumer::new(at, start))
}

#[test]
fn entries_and_frames_cross_between_two_mappings_while_both_ends_work() {
    const COUNT: u64 = 200_000;
    let layout = layout();
    let (here, there) = twice(layout.memory_len);
    // Indices wrap on the way.
    let (mut producer, mut consumer) = ends(&here, &layout, u32::MAX - 1_000);
    let frame = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes();
    let slot = move |number: u64| layout.slots + (number % u64::from(ENTRIES)) as usize * 2_048;
    let sending = thread::spawn(move || {
        let mut number = 0;
        while number < COUNT {
            let want = number % 37 + 1;
            let room = u64::from(producer.room(&there, want as u32).unwrap());
            for _ in 0..room.min(want).min(COUNT - number) {
                // Its slot is free, for the entry before of the same place is taken.
                there.copy_in(slot(number), &[frame(number); 9].concat());
                producer.put(&there, [number, !number]);
                number += 1;
            }
            producer.publish(&there);
            if room == 0 {
                thread::yield_now();
            }
        }
    });
    let (mut number, mut bytes) = (0, [0; 72]);
    while number < COUNT {
        let available = consumer.available(&here, ENTRIES).unwrap().min(29);
        for _ in 0..available {
            assert_eq!(consumer.take(&here), [number, !number]);
            here.copy_out(slot(number), &mut bytes);
            assert_eq!(bytes, *[frame(number); 9].concat(), "frame {number}");
            number += 1;
        }
        consumer.release(&here);
        if available == 0 {
            thread::yield_now();
        }
    }
    sending.join().unwrap();
}

#[test]
fn an_index_moves_forward_and_no_further_than_there_are_entries() {
    let layout = layout();
    let (here, there) = twice(layout.memory_len);
    let at = layout.transmit;
    for start in [0, 1_000, u32::MAX - 20] {
        let move_to = |index: usize, by: i64| {
            there.set_index(index, (i64::from(start) + by) as u32, Ordering::Release);
        };
        for (by, room) in [(0, Some(44)), (7, Some(51)), (20, Some(64)), (21, None), (-1, None)] {
            let (mut producer, _) = ends(&here, &layout, start);
            (0..20).for_each(|number| producer.put(&here, [number, 0]));
            move_to(at.consumer, by);
            let got = producer.room(&here, ENTRIES);
            assert_eq!(got.ok(), room, "{start} {by}");
            assert_eq!(producer.room(&here, ENTRIES).ok(), room, "it stays so");
        }
        for (by, known) in [(0, Some(0)), (9, Some(9)), (64, Some(64)), (65, None), (-1, None)] {
            let (_, mut consumer) = ends(&here, &layout, start);
            move_to(at.producer, by);
            assert_eq!(consumer.available(&here, ENTRIES).ok(), known, "{start} {by}");
        }
        let (_, mut consumer) = ends(&here, &layout, start);
        move_to(at.producer, 40);
        assert_eq!(consumer.available(&here, ENTRIES), Ok(40));
        (0..10).for_each(|_| _ = consumer.take(&here));
        for (by, known) in [(40, Some(30)), (74, Some(64)), (39, None), (75, None)] {
            move_to(at.producer, by);
            let mut looking = consumer.clone();
            assert_eq!(looking.available(&here, ENTRIES).ok(), known, "{start} {by}");
        }
        let (from, to) = (start.wrapping_add(40), start.wrapping_add(75));
        let jump = Jump { ring: "transmit", from, to, most: start.wrapping_add(74) };
        assert_eq!(consumer.available(&here, ENTRIES), Err(jump));
    }
}

#[test]
fn a_polling_client_is_woken_or_finds_the_entry() {
    let layout = layout();
    let (here, there) = twice(layout.memory_len);
    let (mut producer, mut consumer) = ends(&here, &layout, 0);
    let turns = 20_000;
    let (ring, doorbell) = mpsc::channel();
    let asleep = layout.asleep;
    let client = thread::spawn(move || {
        let mut slept = 0;
        for _ in 0..turns {
            while consumer.available(&there, 1).unwrap() == 0 {
                there.set_index(asleep, 1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if consumer.available(&there, 1).unwrap() == 0 {
                    let rung = doorbell.recv_timeout(Duration::from_secs(10));
                    rung.expect("a lost wake-up");
                    slept += 1;
                }
            }
            consumer.take(&there);
            consumer.release(&there);
        }
        slept
    });
    for number in 0..turns {
        while producer.room(&here, 1).unwrap() == 0 {
            thread::yield_now();
        }
        producer.put(&here, [number, 0]);
        producer.publish(&here);
        if found_asleep(&here, asleep) {
            ring.send(()).unwrap();
        }
        if number % 3 == 0 {
            (0..number % 200).for_each(|_| std::hint::spin_loop());
        }
    }
    assert!(client.join().unwrap() > 0, "it never slept");
}
