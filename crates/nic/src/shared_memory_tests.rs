//! Shared memory between two mappings of it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::{Errno, pwrite};

use crate::shared_memory::{SharedMemory, WORD, change, seal};

/// The same memory mapped once more, at another place, as another process would have it.
fn twice(len: usize) -> (SharedMemory, SharedMemory) {
    let (here, file) = SharedMemory::create(len).unwrap();
    let there = SharedMemory::map(file.as_fd(), len).unwrap();
    (here, there)
}

#[test]
fn bytes_go_in_and_come_out_at_every_offset_and_touch_no_others() {
    let (here, there) = twice(4_096);
    let bytes: Vec<u8> = (0..64).map(|at| 0x80 + at).collect();
    for len in 0..=64 {
        (0..512).for_each(|word| here.word(word * WORD).store(u64::MAX, Ordering::Relaxed));
        here.copy_in(1_024, &bytes[..len]);
        for skip in 0..=24 {
            let mut got = [0; 88];
            there.copy_out(1_024 - skip, &mut got[..skip + len]);
            assert_eq!(got[..skip], vec![0xff; skip]);
            assert_eq!(got[skip..skip + len], bytes[..len], "{skip} {len}");
            assert!(got[skip + len..].iter().all(|byte| *byte == 0));
            let from = skip.min(len);
            there.copy_out(1_024 + from, &mut got[..len - from]);
            assert_eq!(got[..len - from], bytes[from..len], "{skip} {len}");
        }
        let mut behind = [0; 8];
        there.copy_out(1_024 + len.next_multiple_of(WORD), &mut behind);
        assert_eq!(behind, [0xff; 8], "{len}");
    }
    let mut last = [0; 3];
    there.copy_out(4_093, &mut last);
    assert_eq!(last, [0xff; 3]);
}

#[test]
fn bytes_are_written_at_every_offset_and_no_others() {
    let (here, there) = twice(4_096);
    let bytes: Vec<u8> = (0..64).collect();
    for at in 0..20 {
        for len in 0..=40 {
            here.copy_in(0, &[0xff; 128]);
            assert!(here.write(64 + at, &bytes[..len]));
            let mut got = [0; 128];
            there.copy_out(0, &mut got);
            assert_eq!(got[64 + at..][..len], bytes[..len], "{at} {len}");
            let others = got[..64 + at].iter().chain(&got[64 + at + len..]);
            assert!(others.into_iter().all(|byte| *byte == 0xff), "{at} {len}");
        }
    }
}

#[test]
fn cores_that_write_beside_each_other_lose_nothing() {
    let (here, there) = twice(4_096);
    std::thread::scope(|scope| {
        for core in 0..2_u8 {
            let here = &here;
            scope.spawn(move || {
                for round in 0..100_000_u32 {
                    let bytes = (round as u16).to_ne_bytes();
                    assert!(here.write(3 + 2 * usize::from(core), &bytes));
                }
            });
        }
    });
    let mut got = [0; 8];
    there.copy_out(0, &mut got);
    let last = (99_999_u32 as u16).to_ne_bytes();
    assert_eq!(got, [0, 0, 0, last[0], last[1], last[0], last[1], 0]);
}

#[test]
fn who_changes_a_word_without_end_holds_nobody_up() {
    let (here, there) = twice(4_096);
    let mut tries = 0;
    let is_done = change(here.word(8), |old| {
        tries += 1;
        // The other process is faster each time.
        there.word(8).store(old + 1, Ordering::Relaxed);
        0
    });
    assert!(!is_done && tries > 100, "{tries}");
    assert_eq!(here.word(8).load(Ordering::Relaxed), tries);
    assert!(change(here.word(8), |old| old + 1));
}

#[test]
fn the_other_process_cannot_change_its_length() {
    let (shared, file) = SharedMemory::create(8_192).unwrap();
    for len in [0, 4_096, 8_191, 8_193, 1 << 20] {
        assert_eq!(ftruncate(&file, len), Err(Errno::PERM), "{len}");
    }
    let there = SharedMemory::map(file.as_fd(), 8_192).unwrap();
    seal(file.as_fd()).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&file, punch, 0, 4_096), Err(Errno::PERM), "its pages stay");
    assert_eq!(pwrite(&file, &[1], 0), Err(Errno::PERM));
    assert!(SharedMemory::map(file.as_fd(), 8_192).is_err(), "too late");
    assert_eq!(fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
    there.word(0).store(7, Ordering::Relaxed);
    assert_eq!(shared.word(0).load(Ordering::Relaxed), 7, "who has it may write");
    assert!(SharedMemory::map(file.as_fd(), 8_200).is_err(), "longer than it is");
    let loose = memfd_create("loose", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&loose, 4_096).unwrap();
    assert!(SharedMemory::map(loose.as_fd(), 4_096).is_err(), "without seals");
}

#[test]
#[should_panic(expected = "range end index")]
fn nothing_is_read_behind_the_end() {
    let (shared, _file) = SharedMemory::create(4_096).unwrap();
    shared.copy_out(4_090, &mut [0; 7]);
}

#[test]
#[should_panic(expected = "range end index")]
fn nothing_is_written_behind_the_end() {
    let (shared, _file) = SharedMemory::create(4_096).unwrap();
    shared.copy_in(4_088, &[0; 9]);
}
