//! Clients that keep to nothing: what each does, and what that does to the card.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use niclab_nic::memory::Desc;
use niclab_port::Burst;
use niclab_port::external_queue::{ExternalQueue, ExternalQueueRefusals, ExternalQueueSize};
use niclab_port::queue_pair::QueuePair;
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::io::{Errno, pwrite};

use crate::card::{Card, FRAMES, SMALL, until};
use crate::peer::{Peer, RingAt};
use niclab_nic::shared_memory::SharedMemory;

#[test]
fn a_client_has_no_byte_that_was_not_given_to_it() {
    let mut card = Card::new(SMALL);
    let (mut queue_pair, peer) = card.peer();
    let (mut other, beside) = card.peer();
    let secret = [0xa5; 1_500];
    // Every frame of the card's memory had other bytes before.
    let all: Vec<Desc> = (0..FRAMES).map(|_| card.frame(&secret)).collect();
    all.into_iter().for_each(|desc| card.pools[0].give(desc));
    beside.lend(0..96 / 2);
    for round in 0..20_u32 {
        peer.lend((0..40).map(|at| (at + round) % 96));
        let own = vec![round as u8; 14 + round as usize * 3];
        card.send(&mut queue_pair, std::iter::repeat_n(&own[..], 40));
        card.send(&mut other, std::iter::repeat_n(&secret[..], 2));
        let received = peer.received();
        assert_eq!(received.len(), 40);
        assert!(received.iter().all(|(_, bytes)| *bytes == own));
        // And it sends from there.
        let entries = received.iter().map(|(slot, bytes)| peer.write(*slot, 0, bytes));
        peer.put(peer.layout.transmit, &entries.collect::<Vec<_>>());
        assert_eq!(card.receive(&mut queue_pair), vec![own; 40]);
        peer.take::<1>(peer.layout.completion);
    }
    assert!(peer.all().iter().all(|byte| *byte != 0xa5));
    assert_eq!(beside.received(), (0..40).map(|slot| (slot, secret.to_vec())).collect::<Vec<_>>());
    card.end([queue_pair, other]);
}

#[test]
fn a_frame_that_headers_have_made_longer_stays_within_its_slot() {
    let mut card = Card::new(SMALL);
    let (mut queue_pair, peer) = card.peer();
    peer.lend(0..8);
    let mut burst = Burst::new();
    for number in 0..8_u8 {
        let mut desc = card.frame(&[]);
        let (slot, len) = (u64::from(desc.address()) & !2_047, 2_048 - u32::from(number) * 10);
        assert!(card.region.set_extent(&mut desc, slot, len));
        card.region.frame_mut(&mut desc).fill(number + 1);
        burst.push(desc);
    }
    queue_pair.send(&mut card.pools[0], &mut burst).unwrap();
    let frames = peer.received().into_iter().map(|(slot, bytes)| (slot as u8, bytes));
    assert!(
        frames.eq((0..8).map(|number| (number, vec![number + 1; 2_048 - number as usize * 10])))
    );
    card.end([queue_pair]);
}

#[test]
fn forbidden_requests_of_a_client_are_counted_and_ignored() {
    let mut card = Card::new(SMALL);
    let (mut queue_pair, peer) = card.peer();
    let refusals = queue_pair.refusals();
    assert_eq!((peer.layout.slots, peer.layout.frame_len_max), (96, 1_536));
    let (fill, transmit) = (peer.layout.fill, peer.layout.transmit);
    let end = 96 * 2_048_u64;
    // The card holds two slots, one of them twice, and from within.
    peer.put(fill, &[[0], [2_048], [2_048 + 77], [end], [u64::MAX], [1 << 40]]);
    card.send(&mut queue_pair, (0..4).map(|_| &[1_u8; 60][..]));
    assert_eq!(refusals.counters(), ExternalQueueRefusals { addresses: 3, held: 1, lens: 0 });
    assert_eq!(peer.received().iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((queue_pair.counters().tx_frames, queue_pair.counters().tx_dropped), (2, 2));
    // Slot 5 is held and waits; 6 is sent twice at once.
    peer.lend([3, 5]);
    card.send(&mut queue_pair, [&[1_u8; 60][..]]);
    let sent = |slot: u64, inside: u64, len: u64| [slot * 2_048 + inside, len];
    let good = [sent(6, 0, 60), sent(7, 2_000, 48), sent(8, 1, 14), sent(95, 512, 1_536)];
    let not_its_own = [sent(5, 0, 60), sent(6, 0, 60), sent(96, 0, 60), [u64::MAX, 60]];
    let no_frames = [
        sent(10, 0, 0),
        sent(11, 0, 13),
        sent(12, 0, 1_537),
        sent(13, 2_000, 49),
        sent(14, 0, 0xffff_ffff),
        sent(15, 0, 1 << 32 | 60),
    ];
    peer.put(transmit, &[&good[..], &not_its_own, &no_frames].concat());
    let lens: Vec<usize> = card.receive(&mut queue_pair).iter().map(Vec::len).collect();
    assert_eq!(lens, [60, 48, 14, 1_536]);
    assert_eq!(refusals.counters(), ExternalQueueRefusals { addresses: 5, held: 3, lens: 6 });
    let back = peer.take::<1>(peer.layout.completion);
    let slots = [6_u64, 7, 8, 95, 10, 11, 12, 13, 14, 15];
    assert_eq!(back, slots.map(|slot| [slot * 2_048]), "and each comes back once");
    assert_eq!(
        (queue_pair.counters().rx_frames, queue_pair.counters().rx_bytes),
        (4, 60 + 48 + 14 + 1_536)
    );
    card.end([queue_pair]);
}

/// A burst of frames for the client, then one of its own; what went wrong.
fn turn(card: &mut Card, queue_pair: &mut ExternalQueue) -> Option<String> {
    let mut burst: Burst = (0..64).map(|_| card.frame(&[1; 60])).collect();
    let pool = &mut card.pools[0];
    let sent = queue_pair.send(pool, &mut burst);
    pool.give_all(&mut burst);
    let result = sent.and_then(|()| queue_pair.receive(pool, &mut burst));
    pool.give_all(&mut burst);
    result.err().map(|error| error.to_string())
}

/// Where an index is.
type Index = fn(&Peer) -> u64;

#[test]
fn an_index_that_cannot_be_ends_the_client_and_says_why() {
    let cases: [(&str, Index, u32, &str); 8] = [
        ("fill", |peer| peer.layout.fill.producer, 69, "from 4 to 69: there it may be 68"),
        ("fill", |peer| peer.layout.fill.producer, 3, "from 4 to 3: there it may be 68"),
        ("receive", |peer| peer.layout.receive.consumer, 5, "from 2 to 5: there it may be 4"),
        ("receive", |peer| peer.layout.receive.consumer, 1, "from 2 to 1: there it may be 4"),
        (
            "transmit",
            |peer| peer.layout.transmit.producer,
            130,
            "from 65 to 130: there it may be 129",
        ),
        (
            "transmit",
            |peer| peer.layout.transmit.producer,
            64,
            "from 65 to 64: there it may be 129",
        ),
        (
            "completion",
            |peer| peer.layout.completion.consumer,
            66,
            "from 1 to 66: there it may be 65",
        ),
        (
            "completion",
            |peer| peer.layout.completion.consumer,
            0,
            "from 1 to 0: there it may be 65",
        ),
    ];
    for (ring, at, to, why) in cases {
        let mut card = Card::new(SMALL);
        let (mut queue_pair, peer) = card.peer();
        let frame = [1_u8; 60];
        let send = |slots: std::ops::Range<u32>| {
            let entries: Vec<_> = slots.map(|slot| peer.write(slot, 0, &frame)).collect();
            peer.put(peer.layout.transmit, &entries);
        };
        // Of four frames there two are looked at, and of three slots back one.
        peer.lend(0..4);
        card.send(&mut queue_pair, [&frame[..]; 4]);
        peer.set_index(peer.layout.receive.consumer, 2);
        send(10..13);
        assert_eq!(card.receive(&mut queue_pair).len(), 3);
        peer.set_index(peer.layout.completion.consumer, 1);
        // Rings as full as they can be, so that the card looks.
        send(20..82);
        assert_eq!(card.receive(&mut queue_pair).len(), 62);
        assert_eq!(turn(&mut card, &mut queue_pair), None, "all is well so far");
        if ring == "completion" {
            send(90..91);
        }
        peer.set_index(at(&peer), to);
        let message = turn(&mut card, &mut queue_pair).unwrap_or_default();
        let expected =
            format!("the client was disconnected: its index of the {ring} ring went {why} at most");
        assert_eq!(message, expected);
        let reported = peer.message().unwrap();
        assert_eq!((reported[0], &reported[1..]), (b'e', message.as_bytes()));
        assert_eq!(turn(&mut card, &mut queue_pair), Some(message), "and it stays so");
        card.end([queue_pair]);
    }
}

#[test]
fn a_call_looks_at_a_burst_of_entries_whatever_they_are() {
    let shape = ExternalQueueSize::new(1_024, 96).unwrap();
    let mut card = Card::new(shape);
    let (mut queue_pair, peer) = card.peer();
    let nonsense: Vec<[u64; 1]> = (0..1_024).map(|at| [u64::MAX - at]).collect();
    peer.put(peer.layout.fill, &nonsense);
    let nonsense: Vec<[u64; 2]> = (0..1_024).map(|at| [u64::MAX - at, at]).collect();
    peer.put(peer.layout.transmit, &nonsense);
    for calls in 1..=16 {
        card.send(&mut queue_pair, [&[1_u8; 60][..]; 64]);
        assert!(card.receive(&mut queue_pair).is_empty());
        let looked = [peer.layout.fill, peer.layout.transmit].map(|ring| peer.index(ring.consumer));
        assert_eq!(looked, [64 * calls; 2]);
    }
    let refused = ExternalQueueRefusals { addresses: 2_048, held: 0, lens: 0 };
    assert_eq!(queue_pair.refusals().counters(), refused);
    assert_eq!((queue_pair.counters().tx_dropped, queue_pair.counters().rx_frames), (1_024, 0));
    assert_eq!(turn(&mut card, &mut queue_pair), None);
    card.end([queue_pair]);
}

/// Numbers that look random, the same for the same seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Writes something somewhere: entries that may be good, an index that may be, or any bytes.
fn harm(peer: &Peer, random: &mut Random) {
    let layout = &peer.layout;
    let rings = [layout.fill, layout.receive, layout.transmit, layout.completion];
    let RingAt { producer, consumer, entries } = rings[random.below(4) as usize];
    match random.below(100) {
        0 => peer.set_index([producer, consumer][random.below(2) as usize], random.next() as u32),
        1 => {
            let bytes: Vec<u8> = (0..random.below(600)).map(|_| random.next() as u8).collect();
            // Anywhere before the last slots, the indices too.
            let at = random.below(layout.memory_len - 600);
            peer.scribble(at, &bytes);
        }
        2..30 => {
            let bytes: Vec<u8> = (0..16).map(|_| random.next() as u8).collect();
            let at = entries + random.below(64) * 8;
            peer.scribble(at, &bytes);
        }
        30..60 => {
            let slots = random.below(90) as u32;
            peer.lend(slots..slots + random.below(6) as u32);
        }
        60..90 => {
            let mut entry = |_| {
                let inside = random.below(2_048);
                let len = random.below(1_700) << (random.below(20) / 19 * 16);
                [random.below(100) * 2_048 + inside, len]
            };
            let some: Vec<[u64; 2]> = (0..5).map(&mut entry).collect();
            peer.put(layout.transmit, &some);
        }
        _ => {
            peer.take::<2>(layout.receive);
            peer.take::<1>(layout.completion);
        }
    }
}

#[test]
fn garbage_everywhere_for_many_rounds_harms_nobody_else() {
    for seed in 0..4 {
        let mut card = Card::new(SMALL);
        let mut random = Random(seed);
        // Frames that are held meanwhile keep their bytes.
        let held: Vec<Desc> = (0..FRAMES / 2).map(|at| card.frame(&[at as u8; 1_500])).collect();
        let (mut clients, mut taken) = (0, 0);
        for _ in 0..25 {
            let (mut queue_pair, peer) = card.peer();
            clients += 1;
            let longest = card.region.frame_len_max();
            for _ in 0..2_000 {
                harm(&peer, &mut random);
                let mut burst = Burst::new();
                let count = random.below(64);
                burst.extend((0..count).map(|_| card.frame(&[0x5a; 200])));
                let pool = &mut card.pools[0];
                let sent = queue_pair.send(pool, &mut burst);
                assert!(sent.is_err() || burst.is_empty());
                pool.give_all(&mut burst);
                let result = sent.and_then(|()| queue_pair.receive(pool, &mut burst));
                for desc in burst.drain(..) {
                    let len = card.region.frame(&desc).len();
                    assert!((14..=longest).contains(&len), "{len}");
                    taken += 1;
                    pool.give(desc);
                }
                if let Err(error) = result {
                    assert!(
                        error.to_string().contains("was disconnected: its index of the"),
                        "{error}"
                    );
                    break;
                }
            }
            Box::new(queue_pair).close(&mut card.pools[0]).unwrap();
        }
        assert!(clients == 25 && taken > 100, "{taken} frames of {clients} clients");
        for (at, desc) in held.into_iter().enumerate() {
            assert_eq!(card.region.frame(&desc), [at as u8; 1_500]);
            card.pools[0].give(desc);
        }
        card.end([]);
    }
}

#[test]
fn garbage_at_any_moment_harms_nobody_else() {
    let mut card = Card::new(SMALL);
    let held: Vec<Desc> = (0..FRAMES / 2).map(|at| card.frame(&[at as u8; 1_500])).collect();
    let (mut sent, mut turns, mut seed) = (0, 0, 0);
    // A client is ended soon, by an index of its own.
    while turns < 500 || sent < 500 {
        seed += 1;
        assert!(seed < 5_000, "{sent} frames in {turns} turns");
        let (mut queue_pair, peer) = card.peer();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(seed);
                while !is_over.load(Ordering::Relaxed) {
                    harm(&peer, &mut random);
                }
            });
            let until = Instant::now() + Duration::from_millis(100);
            while Instant::now() < until && turn(&mut card, &mut queue_pair).is_none() {
                turns += 1;
            }
            is_over.store(true, Ordering::Relaxed);
        });
        sent += queue_pair.counters().rx_frames + queue_pair.counters().tx_frames;
        Box::new(queue_pair).close(&mut card.pools[0]).unwrap();
    }
    for (at, desc) in held.into_iter().enumerate() {
        assert_eq!(card.region.frame(&desc), [at as u8; 1_500]);
        card.pools[0].give(desc);
    }
    card.end([]);
}

#[test]
fn a_client_that_stops_costs_frames_of_its_own_alone() {
    let mut card = Card::new(SMALL);
    let (mut queue_pair, peer) = card.peer();
    let (mut other, beside) = card.peer();
    peer.lend(0..64);
    for round in 0..50 {
        beside.lend(0..10);
        card.send(&mut queue_pair, [&[2_u8; 60][..]; 10]);
        card.send(&mut other, [&[3_u8; 60][..]; 10]);
        assert_eq!(beside.received().len(), 10, "{round}");
    }
    assert_eq!((queue_pair.counters().tx_frames, queue_pair.counters().tx_dropped), (64, 500 - 64));
    assert_eq!((other.counters().tx_frames, other.counters().tx_dropped), (500, 0));
    // It goes on: what waited is there, and new frames come.
    assert_eq!(peer.received().len(), 64);
    peer.lend(0..2);
    card.send(&mut queue_pair, [&[4_u8; 60][..]; 3]);
    assert_eq!(peer.received(), [(0, vec![4; 60]), (1, vec![4; 60])]);
    // One that has its frames back and does not look there may send no more until it does.
    let entries: Vec<_> = (0..64).map(|slot| peer.write(slot, 0, &[5; 60])).collect();
    peer.put(peer.layout.transmit, &entries);
    assert_eq!(card.receive(&mut queue_pair).len(), 64);
    peer.put(peer.layout.transmit, &entries[..7]);
    assert!(card.receive(&mut queue_pair).is_empty());
    assert_eq!(peer.take::<1>(peer.layout.completion).len(), 64);
    assert_eq!(card.receive(&mut queue_pair).len(), 7);
    // One of the two goes, and the other does not mind.
    drop(peer);
    let ended = until("its end", || turn(&mut card, &mut queue_pair));
    assert_eq!(ended, "the client is gone");
    beside.lend(0..10);
    card.send(&mut other, [&[3_u8; 60][..]; 10]);
    assert_eq!(beside.received().len(), 10);
    card.end([queue_pair, other]);
}

#[test]
fn a_client_cannot_take_the_memory_from_under_the_card() {
    let mut card = Card::new(SMALL);
    let (queue_pair, peer) = card.peer();
    let (file, len) = (&peer.file, peer.layout.memory_len);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let done = [
        ftruncate(file, 0),
        ftruncate(file, len + 4_096),
        fallocate(file, punch, 0, len),
        pwrite(file, &[1], 0).map(drop),
        fcntl_add_seals(file, SealFlags::WRITE),
    ];
    assert_eq!(done, [Err(Errno::PERM); 5]);
    assert!(SharedMemory::map(file.as_fd(), len as usize).is_err(), "a second time");
    card.end([queue_pair]);
}
