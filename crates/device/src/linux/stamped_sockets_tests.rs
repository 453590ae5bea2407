//! The stamps of sockets beside those of probes.

use niclab_load::echo::{Echo, Pace, Receive, Transport};
use niclab_probe::breakdown::TermKind;

use super::*;
use crate::cores::Cores;
use crate::face::{Family, Host};
use crate::feature::Feature;
use crate::linux::veth_tests::cores;

fn messages(size: u16, receive: Receive) -> RoundTrips {
    let echo = Echo {
        transport: Transport::Udp,
        size,
        batch: 1,
        receive,
        pace: Pace::Closed,
        duration_ns: 50_000_000,
        warmup_ns: 10_000_000,
    };
    let (client, family, feature) = (Host::Here, Family::V4, Feature::None);
    RoundTrips { client, family, fifo: None, feature, deep: false, sockets: true, echo }
}

#[test]
fn the_terms_of_sockets_add_up_and_are_those_of_probes() {
    let test = "the_terms_of_sockets_add_up_and_are_those_of_probes";
    let Some(_cores) = cores(test) else { return };
    let hosts = Hosts::with(Cores::choose("test").unwrap(), &Feature::None).unwrap();
    let mut run = 0;
    for (client, family) in [(Host::Here, Family::V4), (Host::There, Family::V6)] {
        let asked = RoundTrips { client, family, ..messages(1024, Receive::BusyPoll) };
        let observed = hosts.breakdown(&asked, 3, &mut run).unwrap();
        assert!(
            observed.messages > 100 && observed.messages > 20 * observed.incomplete,
            "{observed:#?}"
        );
        assert!(observed.residue_ratio.abs() < 0.05, "{observed:#?}");
        assert!(observed.terms[..5].iter().all(|term| term.mean_ns > 0.0), "{observed:#?}");
        assert_eq!(observed.by_sockets.as_deref(), Some("they were asked for"));
        assert_eq!((observed.stamps, observed.in_payload, observed.pairs.len()), (6, true, 3));
        let probed = match hosts.breakdown(&RoundTrips { sockets: false, ..asked }, 3, &mut run) {
            Err(error) => panic!("where probes cannot be had there are those of sockets: {error}"),
            Ok(probed) if probed.by_sockets.is_some() => {
                println!("SKIP {test}: no probes to compare with: {:?}", probed.by_sockets);
                continue;
            }
            Ok(probed) => probed,
        };
        // What is sent is stamped at one place by both, however much this machine scatters.
        for at in [TermKind::ClientTransmit, TermKind::Application, TermKind::ServerTransmit] {
            let [one, other] = [&observed, &probed].map(|observed| &observed.terms[at as usize]);
            assert_eq!(one.name, other.name);
            let apart_ns = (one.median_ns - other.median_ns).abs();
            let most_ns = 1_000.0 + one.median_ns.min(other.median_ns);
            assert!(apart_ns < most_ns, "{}: {observed:#?} {probed:#?}", one.name);
        }
        // What comes is stamped sooner for a socket: before its core is interrupted.
        for at in [TermKind::ServerReceive, TermKind::ClientReceive] {
            let [one, other] =
                [&observed, &probed].map(|observed| observed.terms[at as usize].median_ns);
            assert!(one > other, "{observed:#?} {probed:#?}");
        }
    }
}

#[test]
fn sockets_stamp_messages_if_probes_are_refused() {
    let Some(_cores) = cores("sockets_stamp_messages_if_probes_are_refused") else {
        return;
    };
    let hosts = Hosts::with(Cores::choose("test").unwrap(), &Feature::None).unwrap();
    let refused = DeviceError::lacks("stamps: no BPF");
    let broken = DeviceError::Broken { device: "echo".into(), reason: "it broke".into() };
    let measured = |by_probes: &DeviceError, size| {
        let asked = RoundTrips { sockets: false, ..messages(size, Receive::Blocking) };
        hosts.or_by_sockets(Err(by_probes.clone()), &asked, 1, &mut 0)
    };
    let observed = measured(&refused, 1024).unwrap();
    assert_eq!(observed.by_sockets.as_deref(), Some("stamps: no BPF"));
    assert!(observed.messages > 0, "{observed:#?}");
    assert_eq!(measured(&refused, 64), Err(refused.clone()), "what they cannot stamp");
    assert_eq!(measured(&broken, 1024), Err(broken.clone()), "a broken device is reported");
}

#[test]
fn messages_that_sockets_cannot_stamp_are_refused() {
    let Some(_cores) = cores("messages_that_sockets_cannot_stamp_are_refused") else { return };
    let hosts = Hosts::with(Cores::choose("test").unwrap(), &Feature::None).unwrap();
    let short = messages(64, Receive::Blocking);
    let mut stream = messages(1024, Receive::Blocking);
    stream.echo.transport = Transport::Tcp;
    let mut batch = messages(1024, Receive::Blocking);
    batch.echo.batch = 2;
    let deep = RoundTrips { deep: true, ..messages(1024, Receive::Blocking) };
    for asked in [short, stream, batch, deep, messages(1024, Receive::IoUring)] {
        let error = hosts.breakdown(&asked, 1, &mut 0).unwrap_err();
        let reply = error.to_string();
        assert!(reply.contains("not supported: stamps of sockets but"), "{reply}");
    }
}
