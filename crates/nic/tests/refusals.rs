//! Rules that are refused, and that a refusal changes nothing.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use niclab_nic::limits::ACTIONS_MAX;
use niclab_nic::rule::{Action, Pattern, Rule, Set};
use niclab_nic::{Meter, Nic, NicConfig, NicError, RuleError};

const QUEUES: u16 = 4;

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    let queue = [Action::Queue(0)];
    let rule =
        |group, priority, actions| Rule { group, priority, pattern: Pattern::any(), actions };
    let mut refused = |rule: &Rule<'_>| nic.create(rule).unwrap_err();
    let (queues, too_many) = (QUEUES, vec![Action::Count; ACTIONS_MAX + 1]);
    assert_eq!(refused(&rule(0, 0, &[])), RuleError::FateMissing);
    assert_eq!(refused(&rule(0, 0, &[Action::Count])), RuleError::FateMissing);
    assert_eq!(refused(&rule(0, 65_536, &queue)), RuleError::Priority { priority: 65_536 });
    assert_eq!(refused(&rule(2, 0, &[Action::Jump(2)])), RuleError::JumpBack { from: 2, to: 2 });
    assert_eq!(
        refused(&rule(0, 0, &[Action::Queue(4)])),
        RuleError::QueueUnknown { queue: 4, queues }
    );
    assert_eq!(
        refused(&rule(0, 0, &too_many)),
        RuleError::ActionsTooMany { count: ACTIONS_MAX + 1 }
    );
    for (action, reason) in [
        (Action::Age(0), "a timeout is 1 to 16777215 seconds"),
        (Action::Age(1 << 24), "a timeout is 1 to 16777215 seconds"),
        (
            Action::NvgreEncap(vec![0; 42].into()),
            "headers of NVGRE come: Ethernet, IP, and GRE with a key alone",
        ),
        (
            Action::VxlanEncap(vec![0; 50].into()),
            "headers of VXLAN come: Ethernet, IP, UDP and VXLAN",
        ),
        (Action::PushVlan(0x0800), "a tag has type 0x8100 or 0x88a8"),
        (Action::RawDecap(0), "1 to 128 bytes go"),
        (Action::RawDecap(129), "1 to 128 bytes go"),
        (Action::RawEncap(Box::default()), "1 to 128 bytes come"),
        (Action::RawEncap(vec![0; 129].into()), "1 to 128 bytes come"),
        (Action::Set(Set::Ipv4Dscp(64)), "a DSCP is 0 to 63"),
        (Action::Set(Set::Ipv6Dscp(64)), "a DSCP is 0 to 63"),
        (Action::Set(Set::VlanPcp(8)), "a priority is 0 to 7"),
        (Action::Set(Set::VlanVid(4_096)), "an id is 0 to 4095"),
    ] {
        let unfit = RuleError::ActionUnfit { action: action.clone(), reason };
        let pattern = Pattern::any();
        let rule = Rule { group: 0, priority: 0, pattern, actions: &[action, Action::Drop] };
        assert_eq!(refused(&rule), unfit);
    }
    let two = [Action::Drop, Action::Queue(1)];
    let fates = RuleError::FatesTwo { first: Action::Drop, second: Action::Queue(1) };
    assert_eq!(refused(&rule(0, 0, &two)), fates);
    let unknown = RuleError::PortUnknown { port: 1, ports: 1 };
    assert_eq!(refused(&rule(0, 0, &[Action::Port(1)])), unknown);
    for ports in [0, 257] {
        let error = Nic::new(&NicConfig { ports, ..NicConfig::default() }).err();
        assert_eq!(error, Some(NicError::Ports { ports }));
    }
    let unknown = RuleError::MeterUnknown { number: 7 };
    assert_eq!(refused(&rule(0, 0, &[Action::Meter(7), Action::Drop])), unknown);
    let (action, reason) = (Action::Age(2), "a rule has one age");
    let ages = [Action::Age(1), action.clone(), Action::Drop];
    assert_eq!(refused(&rule(0, 0, &ages)), RuleError::ActionUnfit { action, reason });
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

#[test]
fn a_meter_that_cannot_be_is_refused_and_one_that_a_rule_names_stays() {
    let mut nic = Nic::new(&NicConfig::default()).unwrap();
    let single = |cir_bytes_per_s, cbs_bytes, ebs_bytes| Meter::SingleRate {
        cir_bytes_per_s,
        cbs_bytes,
        ebs_bytes,
    };
    let two = |pir_bytes_per_s, cbs_bytes, pbs_bytes| {
        let cir_bytes_per_s = 5;
        Meter::TwoRate { cir_bytes_per_s, pir_bytes_per_s, cbs_bytes, pbs_bytes }
    };
    for (meter, reason) in [
        (single(5, 0, 0), "one of the sizes is not 0"),
        (single(5, (1 << 40) + 1, 0), "rates and sizes are at most 2^40"),
        (two(4, 1, 1), "the peak rate is not below the committed rate"),
        (two(6, 0, 1), "no size is 0"),
        (two(1 << 41, 1, 1), "rates and sizes are at most 2^40"),
    ] {
        let unfit = RuleError::MeterUnfit { number: 3, reason };
        assert_eq!(nic.create_meter(3, &meter), Err(unfit));
    }
    let reason = "meters have numbers 0 to 65535";
    let number = 65_536;
    assert_eq!(
        nic.create_meter(number, &single(1, 1, 1)),
        Err(RuleError::MeterUnfit { number, reason })
    );
    let number = 3;
    nic.create_meter(number, &single(1, 1, 0)).unwrap();
    assert_eq!(nic.create_meter(number, &single(1, 1, 0)), Err(RuleError::MeterKnown { number }));
    assert_eq!(nic.destroy_meter(4), Err(RuleError::MeterUnknown { number: 4 }));
    // Its number stands behind bytes that are no steps.
    let actions = [Action::RawEncap(vec![0; 20].into()), Action::Meter(number), Action::Queue(0)];
    let rule = Rule { group: 0, priority: 0, pattern: Pattern::any(), actions: &actions };
    let id = nic.create(&rule).unwrap();
    assert_eq!(nic.destroy_meter(number), Err(RuleError::MeterUsed { number }));
    nic.update(id, &actions[2..]).unwrap();
    nic.destroy_meter(number).unwrap();
    assert_eq!(nic.update(id, &actions), Err(RuleError::MeterUnknown { number }));
}
