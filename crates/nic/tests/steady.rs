//! Memory of a card whose rules change by text for a long time: it is that of the rules there are.
//! One test, for it looks at the memory of the whole process.

use std::fs;

use niclab_nic::rule::session::Session;
use niclab_nic::{Nic, NicConfig};

/// Memory of this process, bytes.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap();
    pages * 4_096
}

/// Creates so many rules, each beside the one before it, which is then destroyed: the number of the
/// newest rule grows and grows.
fn change(nic: &mut Nic, session: &mut Session, changes: u32) {
    let newest = session.len();
    assert_eq!(newest, 1);
    let mut number = (0..).find(|number| session.id(*number).is_some()).unwrap();
    for _ in 0..changes {
        let [a, b] = (number as u16).to_be_bytes();
        let text = format!(
            "flow create 0 ingress pattern ipv4 src is 10.0.{a}.{b} / end actions drop / end\n\
             flow destroy 0 rule {number}\n"
        );
        session.apply(nic, text.as_bytes()).unwrap();
        number += 1;
    }
    assert!(session.id(number).is_some());
}

#[test]
fn rules_that_come_and_go_by_text_leave_nothing_behind() {
    if !fs::exists("/proc/self/statm").unwrap() {
        return println!("SKIP rules_that_come_and_go_by_text_leave_nothing_behind: no /proc");
    }
    // `CHANGES=10000000 cargo test --release` for a long look.
    let changes = std::env::var("CHANGES").ok().and_then(|count| count.parse().ok());
    let changes: u32 = changes.unwrap_or(200_000);
    let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
    let mut session = Session::new(0);
    let first = "flow create 0 ingress pattern eth / ipv4 / end actions drop / end\n";
    session.apply(&mut nic, first.as_bytes()).unwrap();
    change(&mut nic, &mut session, 10_000);
    let (before, rules_before) = (resident(), nic.rule_bytes());
    change(&mut nic, &mut session, changes);
    let (after, rules_after) = (resident(), nic.rule_bytes());
    println!("{changes} changes: {before} B before, {after} B after");
    assert_eq!(rules_after, rules_before);
    // A word for each change would be 1.6 MB.
    assert!(after < before + (1 << 20), "{before} B before, {after} B after");
}
