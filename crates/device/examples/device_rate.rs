//! What a device forwards on this machine, rules apart:
//! `cargo run --release --example device_rate -- linux:veth`.

use niclab_device::{Arrivals, Function, Load, Observation, Placement, Plan, Rate, Setup};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "linux:veth".to_owned());
    let mut bed = niclab_device::open(&name)?;
    let places = bed.about().places.iter().map(|place| place.label.as_str());
    println!("{name}: {}", places.collect::<Vec<_>>().join(" > "));
    for (size, rate) in [
        (64, Rate::Saturate),
        (1518, Rate::Saturate),
        (64, Rate::Pps(200e3)),
        (64, Rate::Pps(20e3)),
    ] {
        bed.setup(&Setup {
            rules: Vec::new(),
            queues: 1,
            function: Function::Forward,
            placement: Placement::Inline,
            frame_len_max: size,
        })?;
        let load = Load {
            flows: FlowSpec { count: 10_000, ..FlowSpec::default() },
            sizes: FrameSizes::Fixed(size),
            rate,
            arrivals: Arrivals::Constant,
            duration_ns: 500_000_000,
            warmup_ns: 50_000_000,
            seed: 1,
            trace: None,
        };
        match bed.run(&load, &Plan::Rest) {
            Ok(seen) => tell(size, rate, &seen),
            Err(error) => println!("  {size} B {rate:?}: {error}"),
        }
    }
    Ok(())
}

fn tell(size: u16, rate: Rate, seen: &Observation) {
    let mpps = seen.received as f64 / seen.duration_ns as f64 * 1e3;
    let (lost, offered, missed) = (seen.lost, seen.offered, seen.rx_missed);
    println!("  {size} B {rate:?}: {mpps:.3} Mpps, lost {lost} of {offered}, missed {missed}");
    let h = &seen.honesty;
    let idle = h.device_idle_ratio.unwrap_or(0.0);
    println!("    {:?}, idle {idle:.3}, balanced {}", seen.latency, h.balanced);
    println!("    stalls {:?} and {:?}", h.generator_stalls, h.device_stalls);
    println!("    {:?}", h.reasons);
}
