//! The card's program routes every frame as the partition does.

#[path = "suricata/traffic.rs"]
mod traffic;

use niclab_ids::partition::{Partition, Traffic};
use niclab_ids::rule::read;
use niclab_ids::{STEERING_PROGRAM, SteeringError, SteeringTables, Variables, flow_of};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{ethernet, icmpv6, ipv6, tcp, udp, vlan};
use niclab_program::definition::Definition;
use niclab_program::{Command, Program, Single, read_tables};
use proptest::collection::vec;
use proptest::prelude::*;

/// Rules whose ports and addresses the frames have, and some that they lack.
fn some_rules() -> impl Strategy<Value = String> {
    let header = prop_oneof![
        Just("tcp any any -> any 80"),
        Just("tcp any [445,12345] -> any any"),
        Just("udp any any -> any [53,161]"),
        Just("dns any any -> any 53"),
        Just("tcp 192.168.0.0/23 any -> any any"),
        Just("ip [203.0.113.64/29,2001:db8::/64] any -> any any"),
        Just("udp any any -> 2001:db8::2 any"),
        Just("ip [192.168.1.11,192.168.1.13-192.168.2.14] any -> any any"),
        Just("icmp any any -> any any"),
        Just("http any any -> any any"),
        Just("tcp any any -> any any (threshold:type limit, track by_src, count 1, seconds 1;"),
    ];
    vec(header, 1..10).prop_map(|headers| {
        let rule = |(sid, header): (usize, &str)| {
            let open = if header.contains('(') { "" } else { " (" };
            format!("alert {header}{open} sid:{};)\n", sid + 1)
        };
        headers.into_iter().enumerate().map(rule).collect()
    })
}

/// Frames of IPv6 and behind tags, beside those of `traffic`.
fn frames() -> Vec<Vec<u8>> {
    let [src, dst] = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse().unwrap());
    let six: Layer = ipv6::Repr { src, dst, ..Default::default() }.into();
    let far = ipv6::Repr { src: "2001:db9::7".parse().unwrap(), dst, ..Default::default() };
    let segment: Layer = tcp::Repr { src_port: 9, dst_port: 80, ..Default::default() }.into();
    let datagram: Layer = udp::Repr { src_port: 9, dst_port: 7, ..Default::default() }.into();
    let tag: Layer = vlan::Repr::default().into();
    let error = icmpv6::Repr { message_type: icmpv6::MessageType(1), code: 0, rest: 0 };
    let more: [&[Layer]; 5] = [
        &[six.clone(), segment],
        &[tag.clone(), six.clone(), datagram.clone()],
        &[tag.clone(), tag, far.into(), datagram],
        &[six.clone(), icmpv6::Repr::default().into()],
        &[six, error.into()],
    ];
    let more =
        more.map(|layers| build(&[&[ethernet::Repr::default().into()], layers].concat()).unwrap());
    let cut = |frame: &Vec<u8>| (0..60).map(|len| frame[..len.min(frame.len())].to_vec()).collect();
    let cut: Vec<Vec<u8>> = cut(&more[0]);
    traffic::all(3).into_iter().chain(more).chain(cut).collect()
}

/// The program with the tables of a partition.
fn card(partition: &Partition) -> Definition {
    let program = Program::read(STEERING_PROGRAM).unwrap_or_else(|error| panic!("{error}"));
    let tables = serde_json::to_string(&SteeringTables::of(partition).unwrap()).unwrap();
    let commands = read_tables(&program, &tables).unwrap_or_else(|error| panic!("{error}"));
    let mut card = Definition::new(program);
    for command in commands {
        match command {
            Command::Change(change) => card.change(&[change]).unwrap(),
            Command::Register { array, index, value } => card.set_register(array, index, value),
            Command::Ports { group, ports } => card.set_ports(group, ports),
            other => panic!("{other:?}"),
        }
    }
    card
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_card_routes_each_frame_as_the_partition_does(text in some_rules(), cores in 1..6usize) {
        let rules = read(&text, &Variables::default()).unwrap();
        let partition = Partition::new(&rules, &Traffic::default(), cores).unwrap();
        let mut card = card(&partition);
        for frame in frames() {
            let expected = match flow_of(&frame) {
                Some(flow) => partition.route(&flow).cores,
                None => partition.route_of_others().cores,
            };
            let outcome = card.run(0, &frame);
            // A frame without a byte makes no copy.
            let expected = if frame.is_empty() { 0 } else { expected };
            let to = outcome.copies.iter().fold(0, |bits, copy| bits | 1u64 << (copy.port - 1));
            prop_assert_eq!(to, expected, "{:02x?}\n{}", frame, text);
            prop_assert!(outcome.copies.iter().all(|copy| copy.frame == frame));
        }
    }
}

#[test]
fn the_fast_path_reads_the_tables_too() {
    let rules = read("alert tcp any any -> any 80 (sid:1;)\n", &Variables::default()).unwrap();
    let partition = Partition::new(&rules, &Traffic::default(), 8).unwrap();
    let program = Program::read(STEERING_PROGRAM).unwrap();
    let tables = serde_json::to_string(&SteeringTables::of(&partition).unwrap()).unwrap();
    assert!(!read_tables(&program, &tables).unwrap().is_empty());
    assert!(Single::new(program).is_ok());
    let partition = Partition::new(&rules, &Traffic::default(), 13).unwrap();
    assert_eq!(SteeringTables::of(&partition), Err(SteeringError::Cores(13)));
}
