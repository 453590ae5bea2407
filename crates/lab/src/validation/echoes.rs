//! Round trips of modelled cards against those that were published: table 2 of the study, to none
//! of whose numbers a profile is fitted.

use std::fmt::Write as _;

use niclab_device::model::{self, Model};

use super::{ValidationError, measure, percent};
use crate::fit::echoes::ECHOING;
use crate::fit::results::{medians, metric, number, word};
use crate::hosts::RTT;
use crate::published::apsys22::{RoundTrips, round_trips};
use crate::spec::GridName;
use crate::statistics;

/// Repeats of a trial: models differ little from trial to trial.
const REPEATS: u32 = 3;

const HEAD: &str = "\
## Round trips

Round trips of one message at a time over UDP, microseconds, of the `echo-size` experiment against
table 2 of the study (Xing et al., APSys 2022, `reference/apsys22`). Software and hardware of
1,024 B come from table 3, which breaks the same round trips down. At that length the two tables
should agree. They differ by what the means over rows and directions hide. Nothing was fitted to
64 B: the time of a byte is computed from the rates of wires and buses. That is the least time it
can take, so these figures are upper bounds. Table 3 has no row of the off-path mode. There the
profile has the software of the on-path mode, and its hardware on the host's side as a bound.

For Stingray and for BlueField2's own CPU the two tables name the directions the other way round
(`reference/apsys22/README.md`). *Either way* compares the smaller with the smaller and the greater
with the greater, and shows the worse of the two.

| profile | message | client on it | model | error | server on it | model | error | either way |
|---|---|---|---|---|---|---|---|---|
";

/// A length of message on a modelled card, microseconds: of a client and of a server on its CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrip {
    /// Name of the profile.
    pub profile: &'static str,
    /// Its software is that of the on-path mode.
    pub is_inherited: bool,
    /// Length, bytes.
    pub size: f64,
    /// As published.
    pub published: [f64; 2],
    /// As the model has it.
    pub model: [f64; 2],
}

impl RoundTrip {
    /// Errors as shares of what was published: of each direction, and of the two as a set.
    pub fn errors(&self) -> [f64; 3] {
        let error = |(published, model): (f64, f64)| (model - published) / published;
        let [client, server] = [0, 1].map(|at| error((self.published[at], self.model[at])));
        let sorted = |[a, b]: [f64; 2]| [a.min(b), a.max(b)];
        let (published, model) = (sorted(self.published), sorted(self.model));
        let either = [0, 1].map(|at| error((published[at], model[at])));
        let worse = if either[0].abs() > either[1].abs() { either[0] } else { either[1] };
        [client, server, worse]
    }
}

/// Measures all modelled cards.
///
/// # Errors
/// What is wrong with the profiles or the experiment.
pub fn validate() -> Result<Vec<RoundTrip>, ValidationError> {
    let published = round_trips("udp_echo");
    let mut all = Vec::new();
    for one in ECHOING {
        let Some(card) = published.iter().find(|card| card.name == one.row) else { continue };
        let mut model = Model::new(&format!("model:{}", one.profile), model::read(one.profile)?, 1);
        all.extend(measured(&mut model, one.profile, one.is_inherited(), card)?);
    }
    Ok(all)
}

fn measured(
    model: &mut Model,
    profile: &'static str,
    is_inherited: bool,
    card: &RoundTrips,
) -> Result<Vec<RoundTrip>, ValidationError> {
    let set = ["size=64,1024"];
    let samples = measure(model, "echo-size", GridName::Published, &set, Some(REPEATS))?.samples;
    let samples: Vec<_> = samples.iter().collect();
    let rtt_us = |client: &str, size: f64| {
        let all = medians(&samples, |sample| {
            (word(sample, "client") == Some(client)).then_some(())?;
            Some((number(sample, "size")?, metric(sample, RTT)? / 1e3))
        });
        all.into_iter().find(|(at, _)| *at == size).map(|(_, us)| us)
    };
    let of = |&(size, client, server): &(f64, Option<f64>, Option<f64>)| {
        let published = [client?, server?];
        let model = [rtt_us("here", size)?, rtt_us("there", size)?];
        Some(RoundTrip { profile, is_inherited, size, published, model })
    };
    Ok(card.points.iter().filter_map(of).collect())
}

/// The part of the page, as it stands in the book.
pub fn page(all: &[RoundTrip]) -> String {
    let mut text = HEAD.to_owned();
    let signed = |error: f64| match error < 0.0 {
        true => format!("-{}", percent(-error)),
        false => format!("+{}", percent(error)),
    };
    for one in all {
        let [client, server, either] = one.errors().map(signed);
        let ([p0, p1], [m0, m1]) = (one.published, one.model);
        let _ = write!(text, "| {} | {} B | {p0:.2} | {m0:.2} | {client} ", one.profile, one.size);
        let _ = writeln!(text, "| {p1:.2} | {m1:.2} | {server} | {either} |");
    }
    text.push('\n');
    for (what, is_inherited, sizes) in [
        ("1,024 B of the rows of table 3", false, &[1024.0][..]),
        ("64 B of the same rows", false, &[64.0]),
        ("both lengths of the off-path mode", true, &[64.0, 1024.0]),
    ] {
        let is_of =
            |one: &&RoundTrip| one.is_inherited == is_inherited && sizes.contains(&one.size);
        let of: Vec<[f64; 3]> = all.iter().filter(is_of).map(RoundTrip::errors).collect();
        let median = |at: fn(&[f64; 3]) -> Vec<f64>| {
            statistics::median(&of.iter().flat_map(at).collect::<Vec<f64>>()).map(percent)
        };
        let plain = median(|errors| errors[..2].iter().map(|error| error.abs()).collect());
        let either = median(|errors| vec![errors[2].abs()]);
        let (Some(plain), Some(either)) = (plain, either) else { continue };
        let _ = writeln!(
            text,
            "- Median error of {what}: {plain} by the directions as printed, {either} either way."
        );
    }
    text
}
