//! The published points to which the profiles of published cards are fitted. All others are
//! predicted.

use niclab_device::model::profile::{Basis, Profile};

use super::{CardMeasurements, Created, fit};
use crate::published::{PublishedCard, Row, rows};

/// Bits of a frame of 1500 B: the figures' throughput is of such frames.
pub(crate) const FRAME_BITS: f64 = 12_000.0;

/// Rules of group 0 at which the FIFO is full, and its latency and throughput are both published.
const FULL_RULES: f64 = 57_000.0;

/// Points that are fitted to: figure, series, where; of all cards that have them. Where nothing is
/// said, all of a series.
const INPUTS: &[(&str, &str, &[f64])] = &[
    ("2a", "Table 0", &[16_000.0, 32_000.0, 56_000.0, 57_000.0, 59_000.0]),
    ("2b", "Table 1", &[3_000_000.0, 4_000_000.0]),
    ("2b", "Tables 1-16", &[]),
    ("2c", "Table 0", &[1.0, FULL_RULES]),
    ("4a", "Same Core", &[5_000.0]),
    ("4b", "Same Core", &[200_000.0]),
    ("4c", "Distinct Cores", &[10_000.0]),
    ("5a", "Match=ETH", &[1.0, 16_000.0, 65_536.0]),
    ("5a", "Match=ETH/IPv4", &[56_000.0, 65_536.0]),
    ("5b", "Match=ETH", &[1.0, 16_000.0, 65_536.0]),
];

/// Points that only the card is fitted to from which others inherit.
const INPUTS_OF_DRIVER: &[(&str, &str, &[f64])] = &[
    ("5b", "Match=ETH/IPv4", &[65_536.0]),
    ("5b", "Match=ETH/IPv6", &[65_536.0]),
    ("5c", "Match=ETH/VLAN/IPv4/TCP", &[65_536.0]),
    ("5c", "Match=ETH/IPv4/TCP (GRE)", &[65_536.0]),
    ("5d", "Matches=1 - Actions=2", &[65_536.0]),
    ("5d", "Matches=1 - Actions=3", &[65_536.0]),
    ("6", "Update - In-memory", &[100_000.0, 500_000.0, 1_000_000.0, 4_000_000.0]),
    ("6", "Update - Delete + Insert", &[100_000.0]),
];

/// A published card with the driver that others inherit.
const DRIVER: PublishedCard = PublishedCard::Cx5;

fn inputs(
    card: PublishedCard,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static [f64])> {
    let of_driver = if card == DRIVER { INPUTS_OF_DRIVER } else { &[] };
    INPUTS.iter().chain(of_driver)
}

/// `true` where a card's profile is fitted to a point.
pub(crate) fn is_input(card: PublishedCard, figure: &str, series: &str, x: f64) -> bool {
    inputs(card).any(|(of, name, at)| {
        *of == figure && *name == series && (at.is_empty() || at.contains(&x))
    })
}

/// What is called which.
fn title(card: PublishedCard) -> &'static str {
    match card {
        PublishedCard::Bf1 => "BlueField, 100 GbE",
        PublishedCard::Cx4 => "ConnectX-4, 100 GbE",
        PublishedCard::Cx5 => "ConnectX-5, 100 GbE",
        PublishedCard::Cx6 => "ConnectX-6, 100 GbE",
    }
}

/// The profile of a published card, fitted to its share of the figures.
pub fn fitted(card: PublishedCard) -> Profile {
    let driver = (card != DRIVER).then(|| fitted(DRIVER));
    let all: Vec<Row<'_>> =
        rows(card).filter(|row| is_input(card, row.figure, row.series, row.x)).collect();
    let of_card = |figure: &str, series: &str| {
        all.iter().any(|row| row.figure == figure && row.series == series)
    };
    let named = inputs(card).filter(|(figure, series, _)| of_card(figure, series));
    let fitted_to = named.map(|(figure, series, at)| {
        let at: Vec<String> = at.iter().map(f64::to_string).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        format!("PAM 2021 {figure}: {series}{at}")
    });
    fit(
        title(card),
        &measurements(&all),
        fitted_to.collect(),
        card == PublishedCard::Cx4,
        driver.as_ref(),
    )
}

fn measurements(rows: &[Row<'_>]) -> CardMeasurements {
    let of = |figure: &str, is: &dyn Fn(&Row<'_>) -> bool| -> Vec<(f64, f64)> {
        let found = rows.iter().filter(|row| row.figure == figure && row.statistic == "median");
        found.filter(|row| is(row)).map(|row| (row.x, row.y)).collect()
    };
    let frame_ns = |(x, gbps): (f64, f64)| (x, FRAME_BITS / gbps);
    let all = |_: &Row<'_>| true;
    let same = |row: &Row<'_>| row.series == "Same Core";
    let groups = rows.iter().filter(|row| row.figure == "2b" && row.statistic == "median");
    let groups = groups.map(|row| {
        let count = row.series.rsplit('-').next().and_then(|count| count.parse().ok());
        (count.unwrap_or(1.0), row.x, FRAME_BITS / row.y)
    });
    let latency = |x: f64, statistic: &str| {
        let is = |row: &&Row<'_>| row.figure == "2c" && row.x == x && row.statistic == statistic;
        rows.iter().find(is).map(|row| 1e3 * row.y)
    };
    let root: Vec<(f64, f64)> = of("2a", &all).into_iter().map(frame_ns).collect();
    let full = root.iter().find(|(rules, _)| *rules == FULL_RULES).map(|(_, ns)| *ns);
    let rates = |figure| of(figure, &same).into_iter().map(frame_ns).collect();
    CardMeasurements {
        source: "Katsikas et al., PAM 2021".to_owned(),
        forwarder: "FastClick on DPDK, with which the study forwards: its default".to_owned(),
        is_study: true,
        rate_gbps: Some((100.0, Basis::Stated)),
        line_ns: (FRAME_BITS + 160.0) / 100.0,
        capacity: Some((65_536.0, Basis::Stated)),
        root,
        groups: groups.collect(),
        idle_ns: latency(1.0, "p1").zip(latency(1.0, "p99")),
        full_ns: latency(FULL_RULES, "median").zip(full),
        churn: [rates("4a"), rates("4b")],
        rest_ns: of("4c", &all).last().map(|(_, us)| 1e3 * us),
        created: created(rows),
        updated: ["Update - In-memory", "Update - Delete + Insert"].map(|series| {
            let rates = of("6", &|row| row.series == series).into_iter();
            rates.map(|(rules, k_per_s)| (rules, 1e3 * k_per_s)).collect()
        }),
        destroyed: [Vec::new(), Vec::new()],
    }
}

/// The stack of an experiment that a series of figure 5 is of, and its number of actions.
pub(crate) fn stack_of(series: &str) -> Option<(&'static str, usize)> {
    let (stack, actions) = match series {
        "Matches=1 - Actions=1" => ("eth", 1),
        "Matches=1 - Actions=2" => ("eth", 2),
        "Matches=1 - Actions=3" => ("eth", 3),
        "Matches=1 - Actions=4" => ("eth", 4),
        "Match=ETH" => ("eth", 1),
        "Match=ETH/IPv4" => ("eth/ipv4", 1),
        "Match=ETH/IPv6" => ("eth/ipv6", 1),
        "Match=ETH/IPv4/TCP" => ("eth/ipv4/tcp", 1),
        "Match=ETH/IPv6/TCP" => ("eth/ipv6/tcp", 1),
        "Match=ETH/VLAN/IPv4/TCP" => ("eth/vlan/ipv4/tcp", 1),
        "Match=ETH/VLAN/IPv6/TCP" => ("eth/vlan/ipv6/tcp", 1),
        "Match=ETH/IPv4/TCP (GRE)" => ("gre/ipv4/tcp", 1),
        "Match=ETH/IPv4/UDP (VXLAN)" => ("vxlan/ipv4/udp", 1),
        "Match=ETH/IPv4/UDP (GENEVE)" => ("geneve/ipv4/udp", 1),
        _ => return None,
    };
    Some((stack, actions))
}

fn created(rows: &[Row<'_>]) -> Vec<Created> {
    let of_figure =
        rows.iter().filter(|row| row.figure.starts_with('5') && row.statistic == "median");
    let one = |row: &Row<'_>| {
        let (stack, actions) = stack_of(row.series)?;
        let group = usize::from(row.figure != "5a");
        Some(Created { group, stack, actions, rules: row.x, per_s: 1e3 * row.y })
    };
    of_figure.filter_map(one).collect()
}
