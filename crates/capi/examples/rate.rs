//! How fast the NIC itself creates and destroys rules, for comparison with the C interface and the
//! DPDK driver: `cargo run --release -p niclab-capi --example rate -- RULES`
//!
//! The rules are those of `dpdk/driver/tests/rules.c`: `eth / ipv4 src is N / end`, group 1, to a
//! queue. They are created one by one, and in batches of 64 from a template table.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Operation, RuleId, Template, TemplateAction};

const BATCH: u32 = 64;

fn pattern(source: u32) -> Pattern {
    Pattern::ipv4().src(IpAddr::V4(Ipv4Addr::from_bits(source)))
}

fn report(what: &str, rules: u32, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    println!("{what}: {rules}, {:.3} M/s", f64::from(rules) / seconds / 1e6);
}

fn one_by_one(nic: &mut Nic, rules: u32) -> Result<(), Box<dyn Error>> {
    let mut ids: Vec<RuleId> = Vec::with_capacity(rules as usize);
    let begin = Instant::now();
    for source in 0..rules {
        let actions = [Action::Queue(1)];
        let rule = Rule { group: 1, priority: 0, pattern: pattern(source), actions: &actions };
        ids.push(nic.create(&rule)?);
    }
    report("created one by one", rules, begin);
    let begin = Instant::now();
    ids.into_iter().try_for_each(|id| nic.destroy(id))?;
    report("destroyed one by one", rules, begin);
    Ok(())
}

fn in_batches(nic: &mut Nic, rules: u32) -> Result<(), Box<dyn Error>> {
    let actions = &[TemplateAction::Queue];
    let template = Template { group: 1, priority: 0, pattern: pattern(0), actions };
    let table = nic.template_table(&template)?;
    let mut ids: Vec<RuleId> = Vec::with_capacity(rules as usize);
    let mut operations = Vec::new();
    let begin = Instant::now();
    for first in (0..rules).step_by(BATCH as usize) {
        operations.clear();
        for source in first..rules.min(first + BATCH) {
            operations.push(Operation::CreateIn(table.rule(pattern(source).value(), &[1])?));
        }
        nic.run(&operations, |result| ids.extend(result));
    }
    report("created in batches", rules, begin);
    let begin = Instant::now();
    for some in ids.chunks(BATCH as usize) {
        operations.clear();
        operations.extend(some.iter().copied().map(Operation::Destroy));
        nic.run(&operations, |_| {});
    }
    report("destroyed in batches", rules, begin);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let rules = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    let nic = || Nic::new(&NicConfig { queues: 2, ..NicConfig::default() });
    one_by_one(&mut nic()?, rules)?;
    in_batches(&mut nic()?, rules)
}
