//! A TAP interface, with the kernel's own stack on its other side.

mod space;

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::frame_pool::{FramePool, count, frame_pools};
use niclab_port::queue_pair::QueuePair;
use niclab_port::tap::{self, TapQueuePair};
use space::{apart, ip};

const ARP: [u8; 2] = [0x08, 0x06];
const IPV4: [u8; 2] = [0x08, 0x00];

/// Waits for a frame of this EtherType, on whichever queue pair.
fn await_type(
    queue_pairs: &mut [TapQueuePair],
    pool: &mut FramePool,
    region: &Region,
    kind: [u8; 2],
) -> Desc {
    let until = Instant::now() + Duration::from_secs(5);
    let mut burst = Burst::new();
    while Instant::now() < until {
        for queue_pair in &mut *queue_pairs {
            queue_pair.receive(pool, &mut burst).unwrap();
            while let Some(desc) = burst.pop() {
                if region.frame(&desc)[12..14] == kind {
                    pool.give_all(&mut burst);
                    return desc;
                }
                pool.give(desc);
            }
        }
    }
    panic!("no frame of type {kind:?} came");
}

/// Two fields of a frame change places.
fn swap(bytes: &mut [u8], [a, b]: [usize; 2], len: usize) {
    let (front, back) = bytes.split_at_mut(b);
    front[a..a + len].swap_with_slice(&mut back[..len]);
}

fn send(queue_pair: &mut TapQueuePair, pool: &mut FramePool, desc: Desc) {
    let mut burst: Burst = [desc].into_iter().collect();
    queue_pair.send(pool, &mut burst).unwrap();
    assert!(burst.is_empty());
}

fn talk(queue_pair_count: u32) {
    let mut pools = frame_pools(1, 512, 1_600).unwrap();
    let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
    let mut queue_pairs = tap::open("tp", queue_pair_count, &region).unwrap();
    ip("addr add 10.9.0.1/24 dev tp");
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for len in [1, 18, 1_400] {
        let message = vec![b'x'; len];
        socket.send_to(&message, "10.9.0.2:9").unwrap();
        if len == 1 {
            // Who has 10.9.0.2? We.
            let mut asked = await_type(&mut queue_pairs, pool, &region, ARP);
            let bytes = region.frame_mut(&mut asked);
            bytes.copy_within(6..12, 0);
            bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
            bytes[21] = 2;
            swap(bytes, [22, 32], 10);
            bytes[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
            send(&mut queue_pairs[0], pool, asked);
        }
        let mut received = await_type(&mut queue_pairs, pool, &region, IPV4);
        assert_eq!(usize::from(received.len()), 14 + 20 + 8 + len);
        let bytes = region.frame_mut(&mut received);
        assert_eq!(bytes[42..], message);
        // Back to where it came from: checksums do not mind.
        swap(bytes, [0, 6], 6);
        swap(bytes, [26, 30], 4);
        swap(bytes, [34, 36], 2);
        let mut again = vec![0; 2_000];
        let last = queue_pairs.len() - 1;
        send(&mut queue_pairs[last], pool, received);
        let (got, from) = socket.recv_from(&mut again).unwrap();
        assert_eq!((&again[..got], from.to_string().as_str()), (&message[..], "10.9.0.2:9"));
    }
    let counted = queue_pairs.iter().map(|queue_pair| queue_pair.counters());
    let sums = counted.fold([0; 4], |sum, one| {
        [
            sum[0] + one.rx_frames,
            sum[1] + one.tx_frames,
            sum[2] + one.tx_dropped,
            sum[3] + one.rx_missed,
        ]
    });
    assert!(sums[0] >= 4 && sums[1..] == [4, 0, 0], "{sums:?}");
    let frames = region.frames();
    for queue_pair in queue_pairs {
        Box::new(queue_pair).close(pool).unwrap();
    }
    assert_eq!(count(pools), frames, "no frame is lost");
}

#[test]
fn the_kernel_talks_to_who_sits_behind_the_interface() {
    apart("the_kernel_talks_to_who_sits_behind_the_interface", || talk(1));
}

#[test]
fn a_tap_interface_has_several_queues() {
    apart("a_tap_interface_has_several_queues", || talk(3));
}

#[test]
fn an_open_failure_has_its_reason_and_a_vanished_interface_is_an_error() {
    apart("an_open_failure_has_its_reason_and_a_vanished_interface_is_an_error", || {
        let mut pools = frame_pools(1, 64, 1_600).unwrap();
        let (region, pool) = (Arc::clone(pools[0].region()), &mut pools[0]);
        let refused = |name: &str, count| tap::open(name, count, &region).err().unwrap();
        assert!(matches!(refused("a-name-that-is-too-long", 1), PortError::Name { .. }));
        assert!(matches!(refused("a/b", 1), PortError::Name { .. }));
        assert!(matches!(refused("tp", 0), PortError::QueuePairs { count: 0, .. }));
        assert!(matches!(refused("lo", 1), PortError::NoTap { .. }), "another kind");
        for count in [1, 2] {
            let open = tap::open("tp", count, &region).unwrap();
            for wanted in [1, 2] {
                let taken = refused("tp", wanted);
                assert!(matches!(taken, PortError::TapTaken { .. }), "{count}, {wanted}: {taken}");
            }
            // The command in the message finds this process.
            let message = refused("tp", 1).to_string();
            let found =
                Command::new("sh").args(["-c", message.split('`').nth(1).unwrap()]).output();
            let found = String::from_utf8(found.unwrap().stdout).unwrap();
            let own = format!("/proc/{}/fdinfo/", std::process::id());
            assert!(found.contains(&own), "{message}: {found}");
            drop(open);
        }
        let mut queue_pair = tap::open("tp", 1, &region).unwrap().remove(0);
        let mut burst = Burst::new();
        ip("link set tp down");
        burst.push(pool.take().unwrap());
        region.set_len(&mut burst[0], 60);
        // The kernel may have said something by it while it was on.
        let mut received = Burst::new();
        queue_pair.receive(pool, &mut received).unwrap();
        pool.give_all(&mut received);
        queue_pair.send(pool, &mut burst).unwrap();
        assert_eq!((queue_pair.counters().tx_dropped, burst.len()), (1, 0), "it is off");
        ip("link del tp");
        assert!(queue_pair.receive(pool, &mut burst).is_err(), "it is gone");
        burst.push(pool.take().unwrap());
        region.set_len(&mut burst[0], 60);
        assert!(queue_pair.send(pool, &mut burst).is_err());
        pool.give_all(&mut burst);
        Box::new(queue_pair).close(pool).unwrap();
        let frames = region.frames();
        assert_eq!(count(pools), frames);
    });
}

#[test]
fn an_interface_of_another_number_of_queues_can_be_made_anew_as_it_is_said() {
    apart("an_interface_of_another_number_of_queues_can_be_made_anew_as_it_is_said", || {
        let pools = frame_pools(1, 64, 1_600).unwrap();
        for (made, count) in [(" multi_queue", 1), ("", 2)] {
            ip(&format!("tuntap add tp mode tap{made}"));
            let refused = tap::open("tp", count, pools[0].region()).err().unwrap();
            assert!(matches!(refused, PortError::NoTap { .. }), "{refused}");
            let message = refused.to_string();
            for command in message.split('`').nth(1).unwrap().split(" && ") {
                ip(command.strip_prefix("ip ").unwrap());
            }
            drop(tap::open("tp", count, pools[0].region()).unwrap());
            ip("link del tp");
        }
    });
}
