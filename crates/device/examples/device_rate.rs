//! What a device forwards on this machine, with so many rules:
//! `cargo run --release --example device_rate -- soft 0 1000 65535`, `… -- linux:veth`.
//!
//! Beside the mean of a trial stands its best slice: what the device does while the
//! machine is left alone.

use std::error::Error;

use niclab_device::{
    Action, Arrivals, Function, Load, LoadObservation, Observation, Plan, Rate, RuleBlock, Setup,
    Task, Testbed,
};
use niclab_load::drive::SLICE_NS;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

/// Longest frame, bytes with FCS.
const FRAME_LEN_MAX: u16 = 1_518;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "soft".to_owned());
    let counts: Vec<u32> = arguments.map(|count| count.parse()).collect::<Result<_, _>>()?;
    let mut bed = niclab_device::open(&name)?;
    let places = bed.about().places.iter().map(|place| place.label.as_str());
    println!("{name}: {}", places.collect::<Vec<_>>().join(" > "));
    for &count in if counts.is_empty() { &[0] } else { counts.as_slice() } {
        let report = bed.setup(&setup(count))?;
        println!("  {count} rules: {report:?}");
        measure(&mut *bed, if name == "soft" { 10e6 } else { 20e3 });
    }
    Ok(())
}

/// `count` rules that no frame meets, and one for all frames behind them.
fn setup(count: u32) -> Setup {
    let to_queue = vec![Action::Queue(0)];
    let any = RuleBlock::Any { group: 0, priority: 1, actions: to_queue.clone() };
    let flows = FlowSpec { count: count.max(1), seed: 9, ..FlowSpec::default() };
    let tuples =
        RuleBlock::FiveTuples { group: 0, priority: 0, flows, first: 0, count, actions: to_queue };
    Setup {
        rules: if count == 0 { Vec::new() } else { vec![any, tuples] },
        queues: 1,
        cores: 1,
        ports: 1,
        receive: Default::default(),
        function: Function::Forward,
        frame_len_max: FRAME_LEN_MAX,
    }
}

fn measure(bed: &mut dyn Testbed, pps: f64) {
    for (size, rate) in
        [(64, Rate::Saturate), (FRAME_LEN_MAX, Rate::Saturate), (64, Rate::Pps(pps))]
    {
        let load = Load {
            flows: FlowSpec { count: 10_000, ..FlowSpec::default() },
            sizes: FrameSizes::Fixed(size),
            rate,
            arrivals: Arrivals::Constant,
            duration_ns: 300_000_000,
            warmup_ns: 50_000_000,
            seed: 1,
            trace: None,
        };
        let observation = bed.measure(&Task::Load { load, plan: Plan::Rest });
        match observation.and_then(Observation::into_load) {
            Ok(observation) => tell(size, rate, &observation),
            Err(error) => println!("    {size} B {rate:?}: {error}"),
        }
    }
}

fn tell(size: u16, rate: Rate, observation: &LoadObservation) {
    let mpps = |frames, span_ns| frames as f64 / span_ns as f64 * 1e3;
    let best = observation.slices.iter().map(|slice| slice.received).max().unwrap_or(0);
    let (mean, best) = (mpps(observation.received, observation.duration_ns), mpps(best, SLICE_NS));
    let (lost, offered, missed) = (observation.lost, observation.offered, observation.rx_missed);
    println!("    {size} B {rate:?}: {mean:.3} Mpps, best slice {best:.3}");
    println!("      lost {lost} of {offered}, missed {missed}, {:?}", observation.latency);
    let h = &observation.honesty;
    let idle = h.device_idle_ratio.unwrap_or(0.0);
    println!("      idle {idle:.3}, balanced {}, {:?}", h.balanced, h.reasons);
    println!("      stalls {:?} and {:?}", h.generator_stalls, h.device_stalls);
}
