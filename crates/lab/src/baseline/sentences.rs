//! These sentences say what changed since the baseline. The number comes first.

use niclab_result::{BASELINE_SENTENCES_MAX, Point, VerdictCounts};

use super::{DevicePair, TOLERANCE};
use crate::compare::{Group, Missing, MissingReason, Row, UndecidedReason, Verdict};
use crate::words;

/// The sum, then the devices that only the earlier run measured (`alone`), then what was lost, got
/// worse and got better, the largest changes first. Of more than [`BASELINE_SENTENCES_MAX`] the
/// last sentence counts the others.
pub(super) fn of(
    compared: &[DevicePair<'_>],
    counts: VerdictCounts,
    alone: &[&str],
) -> Vec<String> {
    let lost = alone.iter().map(|name| ChangeSentence {
        rank: 0,
        gain: 0.0,
        sentence: format!("Only the earlier run measured {name}."),
    });
    let mut changes: Vec<ChangeSentence> = lost.chain(compared.iter().flat_map(changes)).collect();
    changes.sort_by(|a, b| a.rank.cmp(&b.rank).then(a.gain.total_cmp(&b.gain)));
    let most = BASELINE_SENTENCES_MAX - 1;
    let more = match changes.len() > most {
        true => changes.split_off(most - 1).len(),
        false => 0,
    };
    let mut sentences = vec![sum(compared, counts)];
    sentences.extend(changes.into_iter().map(|change| change.sentence));
    if more > 0 {
        sentences.push(format!("{more} more changes: niclab compare lists them."));
    }
    sentences
}

/// A change in words, and its place among the others.
struct ChangeSentence {
    /// Losses, then what is worse, then what is better.
    rank: u8,
    /// The least first; of a gain its negative.
    gain: f64,
    sentence: String,
}

/// How many points changed, and why points are open.
fn sum(compared: &[DevicePair<'_>], counts: VerdictCounts) -> String {
    let VerdictCounts { worse, better, same, open } = counts;
    let all = counts.all();
    let tolerance = words::percent_asked(TOLERANCE);
    let why = open_words(compared);
    match (all, worse + better) {
        (0, _) => "No point was measured in both runs.".to_owned(),
        (_, 0) if open == all => format!("No verdict on {}: {why}.", points(all)),
        (_, 0) if open > 0 => format!(
            "{same} of {} {} the same within {tolerance}, {open} {} open: {why}.",
            points(all),
            is_or_are(same),
            is_or_are(open)
        ),
        (1, 0) => format!("The compared point is the same within {tolerance}."),
        (_, 0) => format!("All {} are the same within {tolerance}.", points(all)),
        _ => {
            let open = if open > 0 { format!("{open} open ({why})") } else { "none open".into() };
            format!(
                "{worse} of {} {} worse by more than {tolerance}, {better} better, {same} the \
                 same, {open}.",
                points(all),
                is_or_are(worse)
            )
        }
    }
}

fn is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn points(count: usize) -> String {
    format!(
        "{} compared {}",
        words::whole(count as f64),
        if count == 1 { "point" } else { "points" }
    )
}

/// The most frequent reason of open points, with its remedy.
fn open_words(compared: &[DevicePair<'_>]) -> String {
    let rows = compared.iter().flat_map(|pair| &pair.found.groups).flat_map(|group| &group.rows);
    let mut doubts: Vec<UndecidedReason> = rows
        .filter_map(|row| match row.verdict {
            Verdict::Undecided(doubt) => Some(doubt),
            Verdict::Worse | Verdict::Better | Verdict::Same => None,
        })
        .collect();
    doubts.sort_unstable();
    let [have, were, are] = match doubts.len() {
        1 => ["it has", "it was", "it is"],
        _ => ["most have", "most were", "most are"],
    };
    let most = doubts.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
    most.and_then(|same| same.first()).map_or(String::new(), |doubt| match doubt {
        UndecidedReason::FewRepeats => format!("{have} too few repeats, use --repeats 6"),
        UndecidedReason::Wide => format!("{have} an interval across a limit, use more repeats"),
        UndecidedReason::Load => format!("{were} offered another rate"),
        UndecidedReason::Marked(mark) => format!("{are} marked {mark}"),
    })
}

/// All changes of a device.
fn changes(pair: &DevicePair<'_>) -> Vec<ChangeSentence> {
    let device = pair.now.side.device;
    let lost = pair.found.lost(&pair.base.side, &pair.now.side).into_iter();
    let mut all: Vec<ChangeSentence> = lost
        .map(|missing| ChangeSentence { rank: 0, gain: 0.0, sentence: lost_words(device, missing) })
        .collect();
    for group in &pair.found.groups {
        for (rank, verdict) in [(1, Verdict::Worse), (2, Verdict::Better)] {
            let mut rows: Vec<&Row> =
                group.rows.iter().filter(|row| row.verdict == verdict).collect();
            let gain = |row: &Row| match verdict {
                Verdict::Better => -group.gain(row),
                _ => group.gain(row),
            };
            rows.sort_by(|a, b| gain(a).total_cmp(&gain(b)));
            if let Some(row) = rows.first() {
                let sentence = changed_words(device, group, row, rows.len());
                all.push(ChangeSentence { rank, gain: gain(row), sentence });
            }
        }
    }
    all
}

/// `20 % lower throughput_pps on soft: 8.00 Mpps instead of 10.0 Mpps at rules=16 in occupancy,
/// saturate; 12 of 14 points are worse.`
fn changed_words(device: &str, group: &Group, row: &Row, count: usize) -> String {
    let Group { experiment, trial, metric, rows, .. } = group;
    let interval = row.interval.filter(|(low, high)| low.is_finite() && high.is_finite());
    let interval = interval.map_or(String::new(), |(low, high)| {
        format!(" ({} to {} x)", words::significant(low), words::significant(high))
    });
    let at = place_words(rows, &row.point);
    let Row { base, other, verdict, .. } = row;
    let are = is_or_are(count);
    let all = rows.len();
    format!(
        "{} {metric} on {device}: {other} instead of {base}{interval}{at} in {experiment}, \
         {trial}; {count} of {all} {} {are} {verdict}.",
        ratio_words(row.ratio),
        if all == 1 { "point" } else { "points" },
    )
}

/// A ratio up to this is a fraction; above it, a decrease in percent.
const SMALL_RATIO: f64 = 0.1;

/// How far a value moved: `20 % lower`, `33 % higher`, `2.10 x the`, `1/1,000 of the`.
fn ratio_words(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "Higher".to_owned(),
        ratio if ratio >= 2.0 => format!("{} x the", words::significant(ratio)),
        ratio if ratio >= 1.0 => format!("{} higher", rounded_percent(ratio - 1.0)),
        ratio if ratio > 0.0 && ratio <= SMALL_RATIO => {
            format!("1/{} of the", words::whole(1.0 / ratio))
        }
        ratio => format!("{} lower", rounded_percent(1.0 - ratio)),
    }
}

/// A share in percent: whole from 10 % on, else with one decimal.
fn rounded_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// The axes that tell a point from the others of its metric; nothing for the only point.
fn place_words(rows: &[Row], point: &Point) -> String {
    let differs = |axis: &str| rows.iter().any(|row| row.point.get(axis) != point.get(axis));
    let axes = point.iter().filter(|(axis, _)| differs(axis));
    let axes: Vec<String> = axes.map(|(axis, at)| format!("{axis}={at}")).collect();
    if axes.is_empty() { String::new() } else { format!(" at {}", axes.join(" ")) }
}

/// The sentence about points that a device no longer measures.
fn lost_words(device: &str, missing: &Missing) -> String {
    let Missing { experiment, trial, metric, why, points, .. } = missing;
    let metric = metric.as_ref().map_or(String::new(), |metric| format!(" {metric}"));
    let why = match why {
        MissingReason::Broke(reason) => format!("it broke: {reason}"),
        MissingReason::NotSupported(lacking) => format!("not supported: {lacking}"),
        MissingReason::Refused(reason) | MissingReason::Failed(reason) => reason.clone(),
        MissingReason::NotReached => "its trials stopped before this point".to_owned(),
        MissingReason::NotMeasured | MissingReason::NotPlanned => "it was not measured".to_owned(),
    };
    let count = points.len();
    let points = if count == 1 { "point" } else { "points" };
    format!(
        "{device} no longer measures {count} {points} of {experiment}, {trial}{metric} ({why})."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(worse: usize, better: usize, same: usize, open: usize) -> String {
        sum(&[], VerdictCounts { worse, better, same, open })
    }

    #[test]
    fn one_point_is_and_more_are() {
        assert_eq!(sum_of(0, 0, 1, 0), "The compared point is the same within 5 %.");
        assert_eq!(sum_of(0, 0, 2, 0), "All 2 compared points are the same within 5 %.");
        let changed = |worse| sum_of(worse, 3, 10, 0);
        assert!(changed(1).starts_with("1 of 14 compared points is worse by more than 5 %, 3 "));
        assert!(changed(2).starts_with("2 of 15 compared points are worse by more than 5 %, 3 "));
        let open = |same, open| sum_of(0, 0, same, open);
        assert!(
            open(1, 2).starts_with("1 of 3 compared points is the same within 5 %, 2 are open")
        );
        assert!(
            open(2, 1).starts_with("2 of 3 compared points are the same within 5 %, 1 is open")
        );
    }

    #[test]
    fn a_ratio_is_in_percent_up_to_a_factor_of_two() {
        let ratios = [0.0, 0.001, 0.5, 0.501, 0.8, 0.97, 1.0, 1.33, 2.0, 2.1, f64::INFINITY];
        let expected = [
            "100 % lower",
            "1/1,000 of the",
            "50 % lower",
            "50 % lower",
            "20 % lower",
            "3.0 % lower",
            "0.0 % higher",
            "33 % higher",
            "2.00 x the",
            "2.10 x the",
            "Higher",
        ];
        assert_eq!(ratios.map(ratio_words), expected);
    }
}
