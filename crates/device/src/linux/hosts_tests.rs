//! Two hosts in this machine: messages go both ways over both protocols, and nothing is left.

use niclab_load::echo::{Echo, Pace, Receive, Transport};

use crate::face::{DeviceError, Exchange, Family, Host, Testbed};
use crate::linux;
use crate::linux::veth_tests::cores;

fn exchange(transport: Transport, family: Family, client: Host) -> Exchange {
    let echo = Echo {
        transport,
        size: 1024,
        batch: 4,
        receive: Receive::Blocking,
        pace: Pace::Closed,
        duration_ns: 50_000_000,
        warmup_ns: 20_000_000,
    };
    Exchange { client, family, fifo: None, echo }
}

fn open(test: &str) -> Option<(impl Drop, Box<dyn Testbed>)> {
    let alone = cores(test)?;
    Some((alone, linux::open("linux:veth").unwrap()))
}

#[test]
fn messages_come_back_over_both_protocols_both_families_both_ways() {
    let Some((_alone, mut bed)) =
        open("messages_come_back_over_both_protocols_both_families_both_ways")
    else {
        return;
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        for family in [Family::V4, Family::V6] {
            for client in [Host::Here, Host::There] {
                let asked = exchange(transport, family, client);
                let seen = bed.exchange(&asked).unwrap();
                let (echoed, served) = (&seen.echoed, seen.served.unwrap());
                assert!(echoed.answered > 0, "{asked:?}: {seen:?}");
                let clean = (echoed.lost, echoed.foreign, echoed.ended.clone());
                assert_eq!(clean, (0, 0, None), "{asked:?}: {seen:?}");
                assert_eq!(served.received, served.answered, "{asked:?}: {seen:?}");
                assert!(served.received >= echoed.sent, "{asked:?}: {seen:?}");
            }
        }
    }
}

#[test]
fn messages_longer_than_a_frame_come_back_whole() {
    let Some((_alone, mut bed)) = open("messages_longer_than_a_frame_come_back_whole") else {
        return;
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut asked = exchange(transport, Family::V4, Host::Here);
        (asked.echo.size, asked.echo.batch) = (65_507, 1);
        let seen = bed.exchange(&asked).unwrap().echoed;
        assert!(seen.answered > 0 && seen.lost == 0 && seen.foreign == 0, "{seen:?}");
    }
}

#[test]
fn what_cannot_be_sent_is_refused_and_the_hosts_go_on() {
    let Some((_alone, mut bed)) = open("what_cannot_be_sent_is_refused_and_the_hosts_go_on") else {
        return;
    };
    let good = exchange(Transport::Udp, Family::V4, Host::Here);
    let mut bad = good.clone();
    bad.echo.size = 15;
    let error = bed.exchange(&bad).unwrap_err();
    assert!(matches!(&error, DeviceError::BadLoad { reason } if reason.contains("size = 15")));
    assert!(bed.exchange(&good).unwrap().echoed.answered > 0);
}
