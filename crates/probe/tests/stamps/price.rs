//! What the programs cost on real packets, as the kernel counts it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use niclab_probe::{Direction, Hook, ProgramRuns, Stamps};

use crate::system::count_runs;
use crate::udp::receive;
use crate::wire::{End, PORT, Wire, hooks, request};

fn runs(stamps: &Stamps) -> [ProgramRuns; 2] {
    [Direction::Egress, Direction::Ingress].map(|direction| stamps.runs(direction).unwrap())
}

#[test]
fn runs_are_counted_while_the_kernel_counts() {
    const NAME: &str = "runs_are_counted_while_the_kernel_counts";
    let Some(wire) = Wire::lay(NAME) else { return };
    for hook in hooks(&wire, NAME) {
        let stamps = wire.attach(End::Near, hook);
        let (client, server) = wire.udp_pair(false);
        let counting = count_runs().unwrap();
        let before = runs(&stamps);
        client.send(&request(128, 1)).unwrap();
        assert!(receive(&server).is_some());
        let after = runs(&stamps);
        drop(counting);
        assert!(after[0].count > before[0].count && after[0].time_ns > before[0].time_ns);
    }
}

/// No test: `cargo test -p niclab-probe --test stamps -- --ignored price --nocapture`.
#[test]
#[ignore = "a measurement: prints the price of a stamp on real packets"]
fn price_on_the_wire() {
    const MESSAGES: u32 = 200_000;
    let Some(wire) = Wire::lay("price_on_the_wire") else { return };
    let _counting = count_runs().unwrap();
    let print = |what: &str, stamps: &Stamps, before: [ProgramRuns; 2]| {
        for (name, (after, before)) in
            ["egress", "ingress"].iter().zip(runs(stamps).iter().zip(before))
        {
            let count = after.count - before.count;
            if count > 0 {
                let price = (after.time_ns - before.time_ns) as f64 / count as f64;
                println!("{what}, {name}: {price:.0} ns a packet, {count} packets");
            }
        }
    };
    for hook in hooks(&wire, "price_on_the_wire") {
        let (near, far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
        for len in [128, 1400, 64] {
            let (client, _server) = wire.udp_pair(false);
            let before = [runs(&near), runs(&far)];
            for number in 0..MESSAGES {
                client.send(&request(len, number)).unwrap();
            }
            print(&format!("{hook:?}, UDP, {len} bytes, near"), &near, before[0]);
            print(&format!("{hook:?}, UDP, {len} bytes, far"), &far, before[1]);
        }
        stream(&wire, hook, MESSAGES / 4, [&near, &far], &print);
    }
}

fn stream(
    wire: &Wire,
    hook: Hook,
    messages: u32,
    stamps: [&Stamps; 2],
    print: &dyn Fn(&str, &Stamps, [ProgramRuns; 2]),
) {
    let address = SocketAddr::new(End::Far.ip(false), PORT);
    let listener = wire.within(End::Far, || TcpListener::bind(address)).unwrap();
    let mut client = wire.within(End::Near, || TcpStream::connect(address)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let before = stamps.map(runs);
    for _ in 0..messages {
        client.write_all(&[1; 64]).unwrap();
        server.read_exact(&mut [0; 64]).unwrap();
    }
    for (at, name) in ["near", "far"].iter().enumerate() {
        print(&format!("{hook:?}, TCP, 64 bytes, {name}"), stamps[at], before[at]);
    }
}
