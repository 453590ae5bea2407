//! What the software NIC forwards on this machine: `cargo run --release --example soft_rate`.

use niclab_device::soft::Soft;
use niclab_device::{Arrivals, Function, Load, Placement, Plan, Rate, RuleBlock, Setup, Testbed};
use niclab_nic::rule::Action;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut soft = Soft::open()?;
    let any = RuleBlock::Any { group: 0, priority: 1, actions: vec![Action::Queue(0)] };
    let flows = FlowSpec { count: 10_000, ..FlowSpec::default() };
    for rules in [0, 1_000, 65_535] {
        let tuples = RuleBlock::FiveTuples {
            group: 0,
            priority: 0,
            flows: FlowSpec { count: rules.max(1), seed: 9, ..FlowSpec::default() },
            first: 0,
            count: rules,
            actions: vec![Action::Queue(0)],
        };
        let report = soft.setup(&Setup {
            rules: vec![any.clone(), tuples],
            queues: 1,
            function: Function::Forward,
            placement: Placement::Inline,
            frame_len_max: 1_518,
        })?;
        println!("{rules} rules: {report:?}");
        for (size, rate) in [(64, Rate::Saturate), (1_518, Rate::Saturate), (64, Rate::Pps(10e6))] {
            let load = Load {
                flows: flows.clone(),
                sizes: FrameSizes::Fixed(size),
                rate,
                arrivals: Arrivals::Constant,
                duration_ns: 300_000_000,
                warmup_ns: 50_000_000,
                seed: 1,
                trace: None,
            };
            let seen = soft.run(&load, &Plan::Rest)?;
            let mpps = seen.received as f64 / seen.duration_ns as f64 * 1e3;
            let h = &seen.honesty;
            println!(
                "  {size} B {rate:?}: {mpps:.2} Mpps, lost {} of {}, missed {}, {:?}, idle {:.3}, balanced {}, {:?} {:?} {:?}",
                seen.lost,
                seen.offered,
                seen.rx_missed,
                seen.latency,
                h.device_idle_ratio.unwrap_or(0.0),
                h.balanced,
                h.reasons,
                h.generator_stalls,
                h.device_stalls
            );
        }
    }
    Ok(())
}
