//! Frames over AF_PACKET between the ends of a veth pair, in a network namespace of the test's own.

mod space;

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use niclab_nic::memory::{Desc, Region};
use niclab_packet::checksum;
use niclab_packet::wire::IpProtocol;
use niclab_port::Burst;
use niclab_port::frame_pool::{FramePool, count, frame_pools};
use niclab_port::link;
use niclab_port::packet::{self, PacketQueuePair, RxRing};
use niclab_port::queue_pair::QueuePair;
use niclab_port::xdp;
use space::{apart, ip};

/// A pair of interfaces, switched on, on which nobody else speaks.
fn pair() {
    ip("link add va type veth peer name vb");
    for name in ["va", "vb"] {
        // No kernel without IPv6 speaks by itself.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        ip(&format!("link set {name} up"));
    }
}

/// A frame of a made-up protocol that says its number.
fn frame(region: &Region, pool: &mut FramePool, number: u32, len: u16) -> Desc {
    let mut desc = pool.take().unwrap();
    let bytes = region.slot_mut(&mut desc);
    bytes[..usize::from(len)].fill(0);
    bytes[..6].fill(0xff);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]); // IEEE 802: local experiments
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    region.set_len(&mut desc, len);
    desc
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[14..18].try_into().unwrap())
}

/// Numbers of the frames that come until there are so many, for five seconds at most.
fn numbers(
    queue_pair: &mut PacketQueuePair,
    pool: &mut FramePool,
    region: &Region,
    wanted: usize,
) -> Vec<u32> {
    let (mut numbers, mut burst) = (Vec::new(), Burst::new());
    let until = Instant::now() + Duration::from_secs(5);
    while numbers.len() < wanted && Instant::now() < until {
        queue_pair.receive(pool, &mut burst).unwrap();
        numbers.extend(burst.iter().map(|desc| number(region.frame(desc))));
        pool.give_all(&mut burst);
    }
    numbers
}

fn open(name: &str, region: &Arc<Region>) -> PacketQueuePair {
    packet::open(name, 1, region).unwrap().remove(0)
}

fn end(queue_pairs: impl IntoIterator<Item = PacketQueuePair>, mut pools: Vec<FramePool>) {
    let frames = pools[0].region().frames();
    for queue_pair in queue_pairs {
        Box::new(queue_pair).close(&mut pools[0]).unwrap();
    }
    assert_eq!(count(pools), frames, "no frame is lost");
}

#[test]
fn frames_that_are_too_long_are_dropped_and_hold_up_no_other() {
    apart("frames_that_are_too_long_are_dropped_and_hold_up_no_other", || {
        pair();
        ip("link set va mtu 1000");
        let mut pools = frame_pools(1, 256, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let (mut here, mut there) = (open("va", &region), open("vb", &region));
        let mut burst = Burst::new();
        let lens = [1_400, 60, 1_014, 1_400, 1_400, 100, 1_400];
        // More often than the transmit ring has slots.
        for round in 0..400 {
            let make = |(i, len): (u32, &u16)| frame(&region, pool, round * 10 + i, *len);
            burst.extend((0..).zip(&lens).map(make).collect::<Vec<_>>());
            here.send(pool, &mut burst).unwrap();
            assert!(burst.is_empty(), "none stays");
            let received = numbers(&mut there, pool, &region, 3);
            assert_eq!(received, [1, 2, 5].map(|i| round * 10 + i));
        }
        let counters = here.counters();
        assert_eq!((counters.tx_frames, counters.tx_dropped), (3 * 400, 4 * 400));
        assert_eq!(counters.tx_bytes, 400 * (60 + 1_014 + 100));
        end([here, there], pools);
    });
}

#[test]
fn a_receiver_that_does_not_poll_misses_frames_and_all_are_counted() {
    apart("a_receiver_that_does_not_poll_misses_frames_and_all_are_counted", || {
        pair();
        let mut pools = frame_pools(1, 256, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let (mut here, mut there) = (open("va", &region), open("vb", &region));
        // More than the ring holds.
        let (mut sent, mut burst) = (0, Burst::new());
        while sent < 2 * packet::RX_SLOTS as u32 {
            while !burst.is_full() {
                burst.push(frame(&region, pool, sent, 60));
                sent += 1;
            }
            while !burst.is_empty() {
                here.send(pool, &mut burst).unwrap();
            }
        }
        let missed = there.counters().rx_missed;
        assert!(missed > 0, "seen while frames still wait");
        let received = numbers(&mut there, pool, &region, sent as usize - missed as usize);
        let counters = there.counters();
        assert_eq!(counters.rx_frames, received.len() as u64);
        assert_eq!(
            (counters.rx_frames + counters.rx_missed, counters.rx_missed),
            (u64::from(sent), missed,)
        );
        end([here, there], pools);
    });
}

/// A frame of UDP over IPv4 that says its number, from as many ports as there are.
fn datagram(region: &Region, pool: &mut FramePool, number: u32) -> Desc {
    let mut desc = frame(region, pool, number, 60);
    let bytes = region.slot_mut(&mut desc);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 9, 1, 10, 9, 9, 2];
    bytes[14..34].copy_from_slice(&header);
    bytes[34..36].copy_from_slice(&(number as u16).to_be_bytes());
    bytes[42..46].copy_from_slice(&number.to_be_bytes());
    desc
}

/// By queue pair, the numbers of the datagrams that have come.
fn datagrams(
    queue_pairs: &mut [PacketQueuePair],
    pool: &mut FramePool,
    region: &Region,
) -> Vec<Vec<u32>> {
    let mut burst = Burst::new();
    let take = |queue_pair: &mut PacketQueuePair| {
        let mut numbers = Vec::new();
        loop {
            queue_pair.receive(pool, &mut burst).unwrap();
            if burst.is_empty() {
                return numbers;
            }
            let number = |bytes: &[u8]| u32::from_be_bytes(bytes[42..46].try_into().unwrap());
            numbers.extend(burst.iter().map(|desc| number(region.frame(desc))));
            pool.give_all(&mut burst);
        }
    };
    queue_pairs.iter_mut().map(take).collect()
}

#[test]
fn queue_pairs_share_what_arrives_with_each_other_and_with_nobody_else() {
    apart("queue_pairs_share_what_arrives_with_each_other_and_with_nobody_else", || {
        pair();
        let mut pools = frame_pools(1, 256, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        // Other programs have numbers like that of this process, at this interface and another.
        let other = |(number, name): (u16, &str)| {
            let ring = RxRing::open(&link::find(name).unwrap().unwrap(), 1_514, 64).unwrap();
            ring.share(Some((std::process::id() as u16).wrapping_add(number))).unwrap();
            ring
        };
        let others: Vec<RxRing> =
            (0..16).zip(["vb", "vb", "va", "va"].into_iter().cycle()).map(other).collect();
        let mut here = open("va", &region);
        let (mut queue_pairs, mut burst) = (packet::open("vb", 3, &region).unwrap(), Burst::new());
        for number in 0..1_000 {
            burst.push(datagram(&region, pool, number));
            here.send(pool, &mut burst).unwrap();
        }
        let received = datagrams(&mut queue_pairs, pool, &region);
        assert!(received.iter().all(|numbers| numbers.len() > 100), "every queue pair has some");
        let mut all = received.concat();
        all.sort_unstable();
        assert_eq!(all, (0..1_000).collect::<Vec<u32>>(), "each came once");
        drop(others);
        end(queue_pairs.into_iter().chain([here]), pools);
    });
}

#[test]
fn frames_that_come_while_queue_pairs_are_opened_come_once() {
    apart("frames_that_come_while_queue_pairs_are_opened_come_once", || {
        pair();
        let mut pools = frame_pools(2, 512, 1_514).unwrap();
        let region = Arc::clone(pools[0].region());
        let [pool, theirs] = &mut pools[..] else { panic!("two") };
        let mut here = open("va", &region);
        let stop = AtomicBool::new(false);
        let sent = AtomicU32::new(0);
        let received = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut number, mut burst) = (0, Burst::new());
                while !stop.load(Ordering::Relaxed) {
                    burst.push(datagram(&region, theirs, number));
                    here.send(theirs, &mut burst).unwrap();
                    theirs.give_all(&mut burst);
                    number += 1;
                    sent.store(number, Ordering::Relaxed);
                }
            });
            let mut queue_pairs = packet::open("vb", 4, &region).unwrap();
            let before = sent.load(Ordering::Relaxed);
            while sent.load(Ordering::Relaxed) < before + 100 {
                thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            datagrams(&mut queue_pairs, pool, &region)
        });
        let mut all = received.concat();
        all.sort_unstable();
        assert!(!all.is_empty());
        assert!(all.windows(2).all(|two| two[0] < two[1]), "none comes twice");
    });
}

/// Whether the UDP checksum of an IPv4 frame without options is whole.
fn is_whole(frame: &[u8]) -> bool {
    let udp = &frame[34..14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]))];
    let [src, dst] = [26, 30].map(|at| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into());
    let sum = checksum::pseudo_ipv4(src, dst, IpProtocol::UDP, udp.len() as u16);
    checksum::finish(sum + checksum::sum(udp)) == 0
}

/// Lets the kernel send datagrams by `va`; how many came by `vb`, of which how many had no whole
/// checksum, and how many the queue pair says had none.
fn partial(
    queue_pair: &mut PacketQueuePair,
    pool: &mut FramePool,
    region: &Region,
) -> (u32, u32, u64) {
    let before = queue_pair.counters().rx_partial_checksums;
    let socket = UdpSocket::bind("10.5.0.1:0").unwrap();
    for number in 0..10 {
        socket.send_to(&[number; 40], "10.5.0.2:9").unwrap();
    }
    let (mut received, mut partial, mut burst) = (0, 0, Burst::new());
    let until = Instant::now() + Duration::from_secs(5);
    while received < 10 && Instant::now() < until {
        queue_pair.receive(pool, &mut burst).unwrap();
        for desc in burst.iter() {
            let frame = region.frame(desc);
            if frame[12..14] == [8, 0] && frame[23] == 17 {
                received += 1;
                partial += u32::from(!is_whole(frame));
            }
        }
        pool.give_all(&mut burst);
    }
    (received, partial, queue_pair.counters().rx_partial_checksums - before)
}

#[test]
fn frames_without_whole_checksums_are_counted() {
    apart("frames_without_whole_checksums_are_counted", || {
        pair();
        ip("addr add 10.5.0.1/24 dev va");
        ip("neigh add 10.5.0.2 lladdr 02:00:00:00:00:02 dev va");
        let mut pools = frame_pools(1, 256, 1_514).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let mut queue_pair = open("vb", &region);
        assert_eq!(
            partial(&mut queue_pair, pool, &region),
            (10, 10, 10),
            "a veth pair leaves them"
        );
        // AF_XDP does not mark them: the other end is asked.
        let hides = || xdp::has_partial_checksums(&link::find("vb").unwrap().unwrap());
        assert!(hides());
        let off = Command::new("ethtool").args(["-K", "va", "tx", "off"]).output();
        if off.is_ok_and(|ended| ended.status.success()) {
            assert_eq!(partial(&mut queue_pair, pool, &region), (10, 0, 0), "tx off");
            assert!(!hides());
            // Out of sight it may leave them again.
            let mut away = Command::new("unshare").args(["--net", "sleep", "60"]).spawn().unwrap();
            let own = fs::read_link("/proc/self/ns/net").unwrap();
            let theirs = || fs::read_link(format!("/proc/{}/ns/net", away.id())).unwrap();
            while theirs() == own {
                thread::sleep(Duration::from_millis(1));
            }
            ip(&format!("link set va netns {}", away.id()));
            assert!(hides());
            away.kill().unwrap();
            away.wait().unwrap();
        } else {
            println!("SKIP frames_without_whole_checksums_are_counted: no ethtool for its remedy");
        }
        end([queue_pair], pools);
    });
}
