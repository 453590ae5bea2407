//! The sentences of the study's Table 1, computed alike from what was published and from a model.

use std::cell::RefCell;

use super::Basis;
use super::figures::Pair;
use crate::published::PublishedCard;

/// One sentence, with its number twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The meaning of the number.
    pub sentence: &'static str,
    /// In the published figures.
    pub published: f64,
    /// Of the model.
    pub model: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// The basis of the points that the model's number depends on.
    pub basis: Basis,
}

/// A sentence: what it is, its unit, and how its number comes from the figures.
type Finding = (&'static str, &'static str, fn(&CardFigures<'_>) -> Option<f64>);

/// Throughput below this share of that with few rules is no use.
const USABLE: f64 = 0.1;

const ROOT: &str = "Table 0";
const SAME: &str = "Same Core";
const DISTINCT: &str = "Distinct Cores";
const FULL: f64 = 65_536.0;

/// All sentences, in the order of the figures.
const FINDINGS: &[Finding] = &[
    (
        "rules of the root table up to which a tenth of the throughput is left, of 65,536",
        "%",
        |of| {
            let first = of.at("2a", ROOT, 1_000.0)?;
            let usable =
                of.series("2a", ROOT).into_iter().filter(|(_, gbps)| *gbps >= USABLE * first);
            usable.map(|(rules, _)| 100.0 * rules / FULL).reduce(f64::max)
        },
    ),
    ("throughput with 56,000 rules in the root table, of that with 1,000", "%", |of| {
        Some(100.0 * of.at("2a", ROOT, 56_000.0)? / of.at("2a", ROOT, 1_000.0)?)
    }),
    ("throughput with the root table full", "Mbps", |of| Some(1e3 * of.at("2a", ROOT, FULL)?)),
    ("loss with 4 tables of 4 M rules in all", "%", |of| of.loss("Tables 1-4")),
    ("loss with 8 tables", "%", |of| of.loss("Tables 1-8")),
    ("loss with 16 tables", "%", |of| of.loss("Tables 1-16")),
    ("latency with the root table full", "ms", |of| Some(of.at("2c", ROOT, FULL)? / 1e3)),
    ("latency with 56,000 rules in the root table, divided by that with one", "x", |of| {
        Some(of.at("2c", ROOT, 56_000.0)? / of.at("2c", ROOT, 1.0)?)
    }),
    ("latency with 16 tables of 1 M rules in all, divided by that with one table", "x", |of| {
        Some(of.at("2d", "Tables 1-16", 1e6)? / of.at("2d", "Table 1", 1e6)?)
    }),
    ("time without a frame: 1,000 rules into the root table, same core", "s", |of| {
        of.at("3a", "1k Rules", 1e3)
    }),
    ("time without a frame: 10,000 rules into the root table, same core", "s", |of| {
        of.at("3a", "10k Rules", 1e4)
    }),
    ("time without a frame: 10,000 rules into table 1, same core", "s", |of| {
        of.at("3b", "10k Rules", 1e4)
    }),
    ("time without a frame: 100,000 rules into table 1, same core", "s", |of| {
        of.at("3b", "100k Rules", 1e5)
    }),
    ("time without a frame: 10,000 rules into the root table, distinct core", "s", |of| {
        of.at("3c", "10k Rules", 1e4)
    }),
    ("time without a frame: 100,000 rules into table 1, distinct core", "s", |of| {
        of.at("3d", "100k Rules", 1e5)
    }),
    ("throughput under 10 k rules/s into the root table, same core", "Gbps", |of| {
        of.at("4a", SAME, 1e4)
    }),
    ("throughput under 10 k rules/s into the root table, distinct core", "Gbps", |of| {
        of.at("4a", DISTINCT, 1e4)
    }),
    ("throughput under 500 k rules/s into table 1, same core", "Gbps", |of| of.at("4b", SAME, 5e5)),
    ("throughput under 500 k rules/s into table 1, distinct core", "Gbps", |of| {
        of.at("4b", DISTINCT, 5e5)
    }),
    ("latency under 10 k rules/s into the root table, same core divided by distinct", "x", |of| {
        Some(of.at("4c", SAME, 1e4)? / of.at("4c", DISTINCT, 1e4)?)
    }),
    ("latency under 500 k rules/s into table 1, same core divided by distinct", "x", |of| {
        Some(of.at("4d", SAME, 5e5)? / of.at("4d", DISTINCT, 5e5)?)
    }),
    ("IPv6 rules a second divided by IPv4 rules, 16,000 into the root table", "x", |of| {
        Some(of.at("5a", "Match=ETH/IPv6", 16e3)? / of.at("5a", "Match=ETH/IPv4", 16e3)?)
    }),
    ("IPv6 rules a second divided by IPv4 rules, filling the root table", "x", |of| {
        Some(of.at("5a", "Match=ETH/IPv6", FULL)? / of.at("5a", "Match=ETH/IPv4", FULL)?)
    }),
    ("rules of IPv4 by those of IPv6, a second, 65,536 into table 1", "x", |of| {
        Some(of.at("5b", "Match=ETH/IPv4", FULL)? / of.at("5b", "Match=ETH/IPv6", FULL)?)
    }),
    ("rules of VLAN by those of VXLAN, a second, 65,536 into table 1", "x", |of| {
        let vxlan = of.at("5c", "Match=ETH/IPv4/UDP (VXLAN)", FULL)?;
        Some(of.at("5c", "Match=ETH/VLAN/IPv4/TCP", FULL)? / vxlan)
    }),
    ("rules with four actions by those with one, a second, 65,536 into table 1", "x", |of| {
        let one = of.at("5d", "Matches=1 - Actions=1", FULL)?;
        Some(of.at("5d", "Matches=1 - Actions=4", FULL)? / one)
    }),
    ("updates in memory by delete and insert, a second, 400,000 rules", "x", |of| {
        let anew = of.at("6", "Update - Delete + Insert", 4e5)?;
        Some(of.at("6", "Update - In-memory", 4e5)? / anew)
    }),
];

/// The figures of a card, and which points of them were looked at.
struct CardFigures<'a> {
    pairs: &'a [Pair],
    is_model: bool,
    looked: RefCell<Vec<&'a Pair>>,
}

impl<'a> CardFigures<'a> {
    fn look(&self, pair: &'a Pair) -> f64 {
        self.looked.borrow_mut().push(pair);
        if self.is_model { pair.model } else { pair.published }
    }

    fn at(&self, figure: &str, series: &str, x: f64) -> Option<f64> {
        let is = |pair: &&Pair| pair.figure == figure && pair.series == series && pair.x == x;
        self.pairs.iter().find(is).map(|pair| self.look(pair))
    }

    fn series(&self, figure: &str, series: &str) -> Vec<(f64, f64)> {
        let is = |pair: &&Pair| pair.figure == figure && pair.series == series;
        self.pairs.iter().filter(is).map(|pair| (pair.x, self.look(pair))).collect()
    }

    /// Share of the frames lost with 4 M rules in groups.
    fn loss(&self, series: &str) -> Option<f64> {
        let least = self.series("2b", series).into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?.0;
        Some(100.0 * (1.0 - self.at("2b", series, 4e6)? / self.at("2b", series, least)?))
    }
}

/// What the figures of a card say, as far as they were published.
pub fn told(card: PublishedCard, pairs: &[Pair]) -> Vec<Told> {
    let one = |(sentence, unit, number): &Finding| {
        let view = |is_model| CardFigures { pairs, is_model, looked: RefCell::default() };
        let published = number(&view(false))?;
        let of_model = view(true);
        let model = number(&of_model)?;
        let looked = of_model.looked.borrow();
        // The least of them says what the whole is worth.
        let basis = looked.iter().map(|pair| Basis::of(card, pair)).min()?;
        Some(Told { sentence, published, model, unit, basis })
    };
    FINDINGS.iter().filter_map(one).collect()
}
