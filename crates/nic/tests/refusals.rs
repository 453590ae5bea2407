//! Rules that are refused, and that a refusal changes nothing.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError};

const QUEUES: u16 = 4;

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    let queue = [Action::Queue(0)];
    let rule =
        |group, priority, actions| Rule { group, priority, pattern: Pattern::any(), actions };
    let mut refused = |rule: &Rule<'_>| nic.create(rule).unwrap_err();
    let (queues, too_many) = (QUEUES, [Action::Count; 9]);
    assert_eq!(refused(&rule(0, 0, &[])), RuleError::FateMissing);
    assert_eq!(refused(&rule(0, 0, &[Action::Count])), RuleError::FateMissing);
    assert_eq!(refused(&rule(0, 65_536, &queue)), RuleError::Priority { priority: 65_536 });
    assert_eq!(refused(&rule(2, 0, &[Action::Jump(2)])), RuleError::JumpBack { from: 2, to: 2 });
    assert_eq!(
        refused(&rule(0, 0, &[Action::Queue(4)])),
        RuleError::QueueUnknown { queue: 4, queues }
    );
    assert_eq!(refused(&rule(0, 0, &too_many)), RuleError::ActionsTooMany { count: 9 });
    let two = [Action::Drop, Action::Queue(1)];
    let (first, second) = (two[0], two[1]);
    assert_eq!(refused(&rule(0, 0, &two)), RuleError::FatesTwo { first, second });
    assert!(nic.is_empty());
}

#[test]
fn the_root_group_holds_65_536_rules_and_refuses_the_next() {
    let mut nic = Nic::new(&NicConfig::default()).unwrap();
    let actions = [Action::Queue(0)];
    let mut ids = HashMap::new();
    let create = |nic: &mut Nic, group, n: u32| {
        let pattern = Pattern::any().src(IpAddr::V4(Ipv4Addr::from(n)));
        nic.create(&Rule { group, priority: 0, pattern, actions: &actions })
    };
    for n in 0..65_536 {
        ids.insert(n, create(&mut nic, 0, n).unwrap());
    }
    let full = RuleError::GroupFull { group: 0, rules_max: 65_536 };
    assert_eq!(create(&mut nic, 0, 65_536), Err(full));
    create(&mut nic, 1, 65_536).unwrap();
    nic.destroy(ids[&7]).unwrap();
    create(&mut nic, 0, 65_536).unwrap();
    assert_eq!(nic.len(), 65_537);
}
