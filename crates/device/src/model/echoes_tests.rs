//! Round trips of modelled cards: their terms, and unsupported ones.

use niclab_load::echo::Echo;

use super::*;
use crate::face::Testbed;
use crate::face::measured::{breakdown, round_trips};
use crate::feature::Feature;
use crate::model::{Model, read};

fn card(name: &str) -> Model {
    let mut profile = read(name).unwrap();
    profile.inject("noise_ratio", 0.0);
    Model::new(&format!("model:{name}"), profile, 1)
}

fn asked(client: Host, size: u16) -> RoundTrips {
    let (duration_ns, warmup_ns) = (100_000_000, 0);
    let (transport, receive, pace) = (Transport::Udp, Receive::Blocking, Pace::Closed);
    let echo = Echo { transport, size, batch: 1, receive, pace, duration_ns, warmup_ns };
    RoundTrips {
        client,
        family: Family::V4,
        fifo: None,
        feature: Feature::None,
        deep: false,
        sockets: false,
        echo,
    }
}

fn rtt_ns(card: &mut Model, client: Host, size: u16) -> u64 {
    round_trips(card, &asked(client, size)).unwrap().echoed.rtt.0.value_at_quantile(0.5)
}

#[test]
fn a_round_trip_is_the_sum_of_its_parts_by_the_side_that_the_client_is_on() {
    let mut card = card("bluefield2-snic");
    let number = |key| card.profile.number(ECHO, key).unwrap();
    let here = number("client_ns") + number("peer_server_ns") + number("hardware_ns");
    let there = number("peer_client_ns") + number("server_ns") + number("hardware_ns");
    let byte_ps = number("byte_ps");
    let is_it = |observed: u64, expected: f64| (observed as f64 / expected - 1.0).abs() < 1e-3;
    assert!(is_it(rtt_ns(&mut card, Host::Here, 1024), here));
    assert!(is_it(rtt_ns(&mut card, Host::There, 1024), there));
    assert!(is_it(rtt_ns(&mut card, Host::Here, 64), here - 960.0 * byte_ps / 1e3));
}

#[test]
fn its_breakdown_has_the_terms_that_are_published_and_they_add_up() {
    let mut card = card("stingray-snic");
    let observed = breakdown(&mut card, &asked(Host::There, 1024), 6).unwrap();
    let names: Vec<&str> = observed.terms.iter().map(|term| term.name.as_str()).collect();
    assert_eq!(names, ["client_software", "server_software", "hardware"]);
    let sum: f64 = observed.terms.iter().map(|term| term.mean_ns).sum();
    assert!((sum - observed.rtt_ns).abs() < 1e-6);
    assert_eq!(observed.terms[1].mean_ns, 7_700.0);
    assert!(observed.pairs.is_empty() && observed.stamps == 0, "nobody stamps a computed message");
}

#[test]
fn messages_balance_and_are_as_many_as_there_is_time_for() {
    let observed = round_trips(&mut card("connectx-4lx"), &asked(Host::Here, 1024)).unwrap().echoed;
    assert_eq!(
        (observed.planned, observed.sent, observed.answered),
        (observed.sent, observed.answered, observed.planned)
    );
    let rtt_ns = observed.rtt.0.value_at_quantile(0.5) as f64;
    assert!((observed.answered as f64 * rtt_ns / 1e8 - 1.0).abs() < 1e-2, "{observed:?}");
}

#[test]
fn an_unpublished_figure_is_not_supported_and_named() {
    let mut card = card("stingray");
    let mut check = |change: &dyn Fn(&mut RoundTrips), message: &str| {
        let mut trips = asked(Host::Here, 1024);
        change(&mut trips);
        for error in [
            round_trips(&mut card, &trips).map(drop).unwrap_err(),
            breakdown(&mut card, &trips, 6).map(drop).unwrap_err(),
        ] {
            assert!(error.to_string().contains(message), "{error}");
        }
    };
    check(&|e| e.echo.transport = Transport::Tcp, "not supported: round trips over TCP");
    check(&|e| e.family = Family::V6, "not supported: round trips over IPv6");
    check(&|e| e.echo.receive = Receive::Epoll, "not supported: programs that do not sleep");
    check(&|e| e.echo.pace = Pace::Open { per_s: 1e3 }, "not supported: messages at a rate");
    check(&|e| e.feature = Feature::Vxlan, "not supported: features in the path");
    check(&|e| e.echo.batch = 2, "not supported: messages sent together");
    check(&|e| e.echo.size = 1473, "not supported: messages longer than a frame");
    check(&|e| e.echo.size = 15, "use 16 to 65507 bytes");
}

#[test]
fn a_card_of_which_no_round_trip_is_published_has_none() {
    let mut card = card("connectx-5");
    assert!(card.about().hosts.is_empty());
    let error = round_trips(&mut card, &asked(Host::Here, 64)).unwrap_err();
    assert!(error.to_string().contains("echo.hardware_ns, which is unknown"), "{error}");
}
