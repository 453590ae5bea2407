//! Frames over AF_XDP between the ends of a veth pair, in a network namespace of the test's own.

mod space;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use niclab_nic::memory::Region;
use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::frame_pool::{FramePool, count, frame_pools};
use niclab_port::queue_pair::QueuePair;
use niclab_port::xdp::{self, XdpQueuePair};
use space::{apart, ip};

/// A pair of interfaces with so many queues each, switched on, on which nobody else speaks.
fn pair(queues: u32) {
    let size = format!("numrxqueues {queues} numtxqueues {queues}");
    ip(&format!("link add va {size} type veth peer name vb {size}"));
    for name in ["va", "vb"] {
        // No kernel without IPv6 speaks by itself.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        ip(&format!("link set {name} up"));
    }
}

/// A frame of a made-up protocol that says its number.
fn frame(
    region: &Arc<Region>,
    pool: &mut FramePool,
    number: u32,
    len: u16,
) -> niclab_nic::memory::Desc {
    let mut desc = pool.take().unwrap();
    let bytes = region.slot_mut(&mut desc);
    for (at, byte) in bytes.iter_mut().enumerate().take(usize::from(len)) {
        *byte = (at as u32 + number) as u8;
    }
    bytes[..6].fill(0xff);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]); // IEEE 802: local experiments
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    region.set_len(&mut desc, len);
    desc
}

/// Number of a frame, whose bytes are looked at.
fn number(bytes: &[u8]) -> u32 {
    let number = u32::from_be_bytes(bytes[14..18].try_into().unwrap());
    assert!(bytes[18..].iter().zip(18_u32..).all(|(byte, at)| *byte == (at + number) as u8));
    number
}

/// Takes what comes until `done` says so, for five seconds at most.
fn receive(
    queue_pair: &mut XdpQueuePair,
    pool: &mut FramePool,
    region: &Region,
    mut done: impl FnMut(&[u8]) -> bool,
) {
    let until = Instant::now() + Duration::from_secs(5);
    let mut burst = Burst::new();
    let mut is_done = false;
    while !is_done && Instant::now() < until {
        queue_pair.receive(pool, &mut burst).unwrap();
        for desc in burst.drain(..) {
            is_done |= done(region.frame(&desc));
            pool.give(desc);
        }
    }
    assert!(is_done, "frames are missing");
}

fn end(queue_pairs: impl IntoIterator<Item = XdpQueuePair>, mut pools: Vec<FramePool>) {
    let frames = pools[0].region().frames();
    for queue_pair in queue_pairs {
        Box::new(queue_pair).close(&mut pools[0]).unwrap();
    }
    assert_eq!(count(pools), frames, "no frame is lost");
}

#[test]
fn frames_of_all_lengths_cross_both_ways_whole_and_in_order() {
    apart("frames_of_all_lengths_cross_both_ways_whole_and_in_order", || {
        pair(1);
        let mut pools = frame_pools(1, 2 * xdp::FRAMES, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let mut queue_pairs: Vec<XdpQueuePair> = ["va", "vb"]
            .into_iter()
            .flat_map(|name| xdp::open(name, 1, &region).unwrap())
            .collect();
        let mut burst = Burst::new();
        for queue_pair in &mut queue_pairs {
            queue_pair.receive(pool, &mut burst).unwrap();
        }
        for _ in 0..2 {
            let [from, to] = &mut queue_pairs[..] else { panic!("two") };
            let lens: Vec<u16> = (60..=1_514).collect();
            for (at, lens) in (0_u32..).zip(lens.chunks(48)) {
                let make = |(i, len): (u32, &u16)| frame(&region, pool, at * 48 + i, *len);
                burst.extend((0..).zip(lens).map(make).collect::<Vec<_>>());
                from.send(pool, &mut burst).unwrap();
                assert!(burst.is_empty(), "there is room");
                let mut next = 0;
                receive(to, pool, &region, |bytes| {
                    assert_eq!(
                        (number(bytes), bytes.len()),
                        (at * 48 + next, 60 + number(bytes) as usize)
                    );
                    next += 1;
                    next as usize == lens.len()
                });
            }
            let (sent, received) = (from.counters(), to.counters());
            assert_eq!((sent.tx_frames, sent.tx_bytes), (received.rx_frames, received.rx_bytes));
            assert_eq!((sent.tx_frames, received.rx_missed, sent.tx_dropped), (1_455, 0, 0));
            queue_pairs.reverse();
        }
        end(queue_pairs, pools);
    });
}

#[test]
fn each_queue_has_its_queue_pair() {
    apart("each_queue_has_its_queue_pair", || {
        pair(2);
        let mut pools = frame_pools(1, 4 * xdp::FRAMES, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let mut here = xdp::open("va", 2, &region).unwrap();
        let mut there = xdp::open("vb", 2, &region).unwrap();
        let mut burst = Burst::new();
        for (queue, queue_pair) in (0..).zip(&mut here) {
            there[queue as usize].receive(pool, &mut burst).unwrap();
            burst.push(frame(&region, pool, queue, 100));
            queue_pair.send(pool, &mut burst).unwrap();
        }
        for (queue, queue_pair) in (0..).zip(&mut there) {
            receive(queue_pair, pool, &region, |bytes| number(bytes) == queue);
            assert_eq!(queue_pair.counters().rx_frames, 1);
        }
        end(here.into_iter().chain(there), pools);
    });
}

#[test]
fn a_receiver_that_does_not_poll_misses_frames_and_leaks_none() {
    apart("a_receiver_that_does_not_poll_misses_frames_and_leaks_none", || {
        pair(1);
        let mut pools = frame_pools(1, 2 * xdp::FRAMES, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let mut here = xdp::open("va", 1, &region).unwrap().remove(0);
        let mut there = xdp::open("vb", 1, &region).unwrap().remove(0);
        let mut burst = Burst::new();
        there.receive(pool, &mut burst).unwrap();
        // More than all rings hold.
        let (mut sent, until) = (0, Instant::now() + Duration::from_secs(20));
        while sent < 6_000 && Instant::now() < until {
            while !burst.is_full() {
                burst.push(frame(&region, pool, sent, 60));
                sent += 1;
            }
            while !burst.is_empty() && Instant::now() < until {
                here.send(pool, &mut burst).unwrap();
            }
        }
        let mut observed = BTreeMap::new();
        let settled = Instant::now() + Duration::from_millis(300);
        while Instant::now() < settled {
            there.receive(pool, &mut burst).unwrap();
            here.send(pool, &mut Burst::new()).unwrap();
            for desc in burst.drain(..) {
                *observed.entry(number(region.frame(&desc))).or_insert(0) += 1;
                pool.give(desc);
            }
        }
        assert!(observed.values().all(|count| *count == 1), "none comes twice");
        let counters = there.counters();
        assert_eq!(counters.rx_frames, observed.len() as u64);
        assert!(counters.rx_missed > 0 && counters.rx_frames < sent.into(), "{counters:?}");
        end([here, there], pools);
    });
}

#[test]
fn an_open_failure_has_its_reason() {
    apart("an_open_failure_has_its_reason", || {
        pair(1);
        let pools = frame_pools(1, xdp::FRAMES, 1_514).unwrap();
        let region = pools[0].region();
        let refused = |name: &str, count| xdp::open(name, count, region).err().unwrap();
        assert!(matches!(refused("none", 1), PortError::Absent { .. }));
        assert!(matches!(refused("va", 0), PortError::QueuePairs { count: 0, .. }));
        assert!(matches!(refused("va", 2), PortError::NoQueue { queue: 1, .. }), "it has one");
        let open = xdp::open("va", 1, region).unwrap();
        assert!(matches!(refused("va", 1), PortError::Taken { .. }));
        drop(open);
        for _ in 0..20 {
            drop(xdp::open("va", 1, region).unwrap());
        }
        // Longer slots than a page the kernel takes none.
        let long = niclab_port::frame_pool::frame_pools(1, xdp::FRAMES, 5_000).unwrap();
        let error = xdp::open("va", 1, long[0].region()).err().unwrap();
        assert!(matches!(error, PortError::System { .. }), "it has this queue: {error}");
        ip("link set va mtu 3000");
        let error = refused("va", 1);
        assert!(matches!(error, PortError::Mtu { mtu: 3_000, .. }), "{error}");
    });
}

#[test]
fn an_interface_that_goes_leaves_its_frames() {
    apart("an_interface_that_goes_leaves_its_frames", || {
        pair(2);
        let mut pools = frame_pools(1, 2 * xdp::FRAMES, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let mut queue_pairs = xdp::open("va", 2, &region).unwrap();
        let (mut burst, until) = (Burst::new(), Instant::now() + Duration::from_secs(5));
        let [first, second] = &mut queue_pairs[..] else { panic!("two") };
        first.receive(pool, &mut burst).unwrap();
        second.receive(pool, &mut burst).unwrap();
        ip("link del va");
        // Who only receives sees it too.
        while second.receive(pool, &mut burst).is_ok() && Instant::now() < until {}
        let queue_pair = first;
        burst.push(frame(&region, pool, 1, 60));
        while queue_pair.send(pool, &mut burst).is_ok() && Instant::now() < until {}
        assert!(queue_pair.send(pool, &mut burst).is_err(), "it is gone");
        pool.give_all(&mut burst);
        assert!(Instant::now() < until, "both have seen it");
        end(queue_pairs, pools);
    });
}

#[test]
fn a_rarely_polled_queue_pair_soon_notices_that_its_interface_is_gone() {
    apart("a_rarely_polled_queue_pair_soon_notices_that_its_interface_is_gone", || {
        pair(1);
        let mut pools = frame_pools(1, xdp::FRAMES, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let mut queue_pair = xdp::open("va", 1, &region).unwrap().remove(0);
        let mut burst = Burst::new();
        ip("link del va");
        // As often as a core that sleeps.
        let turns = (0..20).find(|_| {
            std::thread::sleep(Duration::from_millis(100));
            queue_pair.receive(pool, &mut burst).is_err()
        });
        assert!(turns.is_some_and(|turns| turns < 10), "{turns:?}");
        end([queue_pair], pools);
    });
}

#[test]
fn queues_whose_frames_would_not_come_are_refused() {
    apart("queues_whose_frames_would_not_come_are_refused", || {
        pair(4);
        let pools = frame_pools(1, 4 * xdp::FRAMES, 1_514).unwrap();
        let region = pools[0].region();
        let refused = xdp::open("va", 3, region).err().unwrap();
        assert!(matches!(refused, PortError::QueuesLeft { queues: 4, count: 3, .. }), "{refused}");
        let message = refused.to_string();
        let remedy = message.split('`').nth(1).unwrap();
        assert_eq!(remedy, "ethtool -L va rx 3");
        drop(xdp::open_first("va", 3, region).unwrap());
        drop(xdp::open("va", 4, region).unwrap());
        // The kernel lets go of sockets a moment after they were closed.
        let until = Instant::now() + Duration::from_secs(10);
        let is_done = || {
            let mut words = remedy.split(' ');
            Command::new(words.next().unwrap()).args(words).status().unwrap().success()
        };
        while !is_done() {
            assert!(Instant::now() < until, "`{remedy}` fails");
            sleep(Duration::from_millis(20));
        }
        drop(xdp::open("va", 3, region).unwrap());
    });
}

#[test]
fn an_open_interface_lets_in_what_is_addressed_to_others() {
    apart("an_open_interface_lets_in_what_is_addressed_to_others", || {
        pair(1);
        let pools = frame_pools(1, xdp::FRAMES, 1_514).unwrap();
        let is_promiscuous = || {
            let reported = Command::new("ip").args(["-details", "link", "show", "va"]).output();
            let reported = String::from_utf8(reported.unwrap().stdout).unwrap();
            assert!(reported.contains(" promiscuity "), "{reported}");
            reported.contains(" promiscuity 1 ")
        };
        let queue_pairs = xdp::open("va", 1, pools[0].region()).unwrap();
        assert!(is_promiscuous());
        drop(queue_pairs);
        assert!(!is_promiscuous(), "as it was");
    });
}

#[test]
fn frames_counted_as_sent_leave_before_the_end_or_are_dropped() {
    apart("frames_counted_as_sent_leave_before_the_end_or_are_dropped", || {
        pair(1);
        let mut pools = frame_pools(1, 2 * xdp::FRAMES, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let mut there = xdp::open("vb", 1, &region).unwrap().remove(0);
        let mut arrived = Burst::new();
        there.receive(pool, &mut arrived).unwrap();
        pool.give_all(&mut arrived);
        for goes in [true, false] {
            let mut here = xdp::open("va", 1, &region).unwrap().remove(0);
            // Nothing leaves an interface that is switched off.
            ip("link set va down");
            let mut burst: Burst = (0..40).map(|at| frame(&region, pool, at, 100)).collect();
            here.send(pool, &mut burst).unwrap();
            assert_eq!((here.counters().tx_frames, burst.len()), (40, 0), "all count as sent");
            if goes {
                ip("link set va up");
            }
            let counters = Box::new(here).close(pool).unwrap();
            let sent = if goes { 40 } else { 0 };
            assert_eq!((counters.tx_frames, counters.tx_bytes), (sent, sent * 100));
            assert_eq!(counters.tx_dropped, 40 - sent);
            if goes {
                let mut arrived = 0;
                receive(&mut there, pool, &region, |_| {
                    arrived += 1;
                    arrived == 40
                });
            }
        }
        end([there], pools);
    });
}
