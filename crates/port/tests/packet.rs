//! Frames over AF_PACKET between the ends of a veth pair, in a network namespace of the test's own.

mod space;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_nic::memory::{Desc, Region};
use niclab_port::lane::Lane;
use niclab_port::packet::{self, PacketLane};
use niclab_port::stock::{Stock, count, stocks};
use niclab_port::wire::Burst;
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
fn frame(region: &Region, stock: &mut Stock, number: u32, len: u16) -> Desc {
    let mut desc = stock.take().unwrap();
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
fn numbers(lane: &mut PacketLane, stock: &mut Stock, region: &Region, wanted: usize) -> Vec<u32> {
    let (mut numbers, mut burst) = (Vec::new(), Burst::new());
    let until = Instant::now() + Duration::from_secs(5);
    while numbers.len() < wanted && Instant::now() < until {
        lane.receive(stock, &mut burst).unwrap();
        numbers.extend(burst.iter().map(|desc| number(region.frame(desc))));
        stock.give_all(&mut burst);
    }
    numbers
}

fn open(name: &str, region: &Arc<Region>) -> PacketLane {
    packet::open(name, 1, region).unwrap().remove(0)
}

fn end(lanes: impl IntoIterator<Item = PacketLane>, mut stocks: Vec<Stock>) {
    let frames = stocks[0].region().frames();
    lanes.into_iter().for_each(|lane| Box::new(lane).close(&mut stocks[0]).unwrap());
    assert_eq!(count(stocks), frames, "no frame is lost");
}

#[test]
fn frames_that_are_too_long_are_dropped_and_hold_up_no_other() {
    apart("frames_that_are_too_long_are_dropped_and_hold_up_no_other", || {
        pair();
        ip("link set va mtu 1000");
        let mut stocks = stocks(1, 256, 1_514).unwrap();
        let (region, stock) = (Arc::clone(stocks[0].region()), &mut stocks[0]);
        let (mut here, mut there) = (open("va", &region), open("vb", &region));
        let mut burst = Burst::new();
        let lens = [1_400, 60, 1_014, 1_400, 1_400, 100, 1_400];
        // More often than the transmit ring has slots.
        for round in 0..400 {
            let make = |(i, len): (u32, &u16)| frame(&region, stock, round * 10 + i, *len);
            burst.extend((0..).zip(&lens).map(make).collect::<Vec<_>>());
            here.send(stock, &mut burst).unwrap();
            assert!(burst.is_empty(), "none stays");
            let came = numbers(&mut there, stock, &region, 3);
            assert_eq!(came, [1, 2, 5].map(|i| round * 10 + i));
        }
        let counters = here.counters();
        assert_eq!((counters.tx_frames, counters.tx_dropped), (3 * 400, 4 * 400));
        assert_eq!(counters.tx_bytes, 400 * (60 + 1_014 + 100));
        end([here, there], stocks);
    });
}

#[test]
fn who_does_not_take_misses_and_every_frame_is_counted() {
    apart("who_does_not_take_misses_and_every_frame_is_counted", || {
        pair();
        let mut stocks = stocks(1, 256, 1_514).unwrap();
        let (region, stock) = (Arc::clone(stocks[0].region()), &mut stocks[0]);
        let (mut here, mut there) = (open("va", &region), open("vb", &region));
        // More than the ring holds.
        let (mut sent, mut burst) = (0, Burst::new());
        while sent < 2 * packet::RX_SLOTS as u32 {
            while !burst.is_full() {
                burst.push(frame(&region, stock, sent, 60));
                sent += 1;
            }
            while !burst.is_empty() {
                here.send(stock, &mut burst).unwrap();
            }
        }
        let missed = there.counters().rx_missed;
        assert!(missed > 0, "seen while frames still wait");
        let came = numbers(&mut there, stock, &region, sent as usize - missed as usize);
        let counters = there.counters();
        assert_eq!(counters.rx_frames, came.len() as u64);
        assert_eq!((counters.rx_frames + counters.rx_missed, counters.rx_missed), (
            u64::from(sent),
            missed,
        ));
        end([here, there], stocks);
    });
}
