//! What a searched throughput says beside the saturating one.

use niclab_result::{Finding, Mark};

use super::{Sentence, Subject, rules, rules_words};
use crate::findings::number::Number;
use crate::mlr::Regularity;
use crate::summary::frames::frame_words;
use crate::summary::throughput::{FoundGoal, FoundThroughput, found, frame};
use crate::throughput::Mode;
use crate::words;

/// From this share of the saturating throughput on a goal costs nothing worth naming.
const SHARE_CLOSE: f64 = 0.95;

/// The search with the fewest rules in group 0, small frames where there are any.
pub(super) fn searched(s: &Subject<'_>) -> Option<Finding> {
    let all = found(s.results);
    let here = all.iter().filter(|of| {
        of.cell.device == s.device && of.mode == Mode::Mlrsearch && frame(of.cell) == s.frame()
    });
    let of = here
        .filter(|of| of.cell.number("groups") == Some(0.0))
        .min_by(|a, b| f64::total_cmp(&rules(a.cell), &rules(b.cell)))?;
    let goals: Vec<FoundGoal<'_>> = of.goals().collect();
    let is_stopped = goals.iter().any(|goal| goal.found.regularity == Regularity::Stopped);
    // What stalls may have set is no finding, nor what counters contradict: the table shows it with
    // its mark.
    let is_doubtful = |mark: &Mark| matches!(mark, Mark::Disturbed | Mark::Unbalanced);
    let is_contradicted = goals.iter().any(|goal| of.contradicts_saturating(goal));
    if is_stopped || is_contradicted || of.marks.iter().any(is_doubtful) {
        return None;
    }
    // The goal that allows most loss is the headline.
    let headline = goals.iter().max_by(|a, b| a.goal.loss_ratio.total_cmp(&b.goal.loss_ratio))?;
    let pps = headline.found.conditional_pps?;
    let said: Vec<String> = goals.iter().map(goal_words).collect();
    let (shares, implication) = against_saturating(of, &goals);
    Some(s.finding(Sentence {
        id: "searched-throughput",
        sentence: format!(
            "{} forwards {} in {} with {}, by {}{shares}.",
            s.device,
            said.join(" and "),
            frame_words(&s.frame()),
            rules_words(of.cell),
            of.mode.words()
        ),
        // The bounds of a search are no interval of confidence: they stand in its table.
        number: Number::known(pps, "pps"),
        implication,
        figure: None,
    }))
}

fn goal_words(goal: &FoundGoal<'_>) -> String {
    let loss = match goal.goal.loss_ratio {
        0.0 => "without loss".into(),
        loss => format!("at {} loss", words::percent_asked(loss)),
    };
    let name = &goal.goal.name;
    let Some(pps) = goal.found.conditional_pps else {
        return format!("nothing {loss} ({name})");
    };
    let is_bound = goal.found.regularity == Regularity::MaxLoad || goal.is_generator_limited;
    let at_least = if is_bound { "at least " } else { "" };
    format!("{at_least}{} {loss} ({name})", words::pps(pps))
}

/// The goals' shares of the saturating throughput, where the device set all of them; and what
/// follows.
fn against_saturating(of: &FoundThroughput<'_>, goals: &[FoundGoal<'_>]) -> (String, String) {
    let is_limited = of.is_saturating_limited || goals.iter().any(|goal| goal.is_generator_limited);
    let saturating = of.saturating.map(|of| of.median);
    let Some(saturating) = saturating.filter(|pps| *pps > 0.0 && !is_limited) else {
        let implication = "The generator was the limit of a trial: do not compare this with other \
                           devices.";
        return (String::new(), implication.into());
    };
    let shares: Vec<f64> =
        goals.iter().map(|goal| goal.found.conditional_pps.unwrap_or(0.0) / saturating).collect();
    // Within the interval of the saturating throughput, a search may end above its median.
    let worded = |share: &f64| if *share < 1.0 { words::percent(*share) } else { "all".to_owned() };
    let said: Vec<String> = shares.iter().map(worded).collect();
    let lowest = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let implication = match (lowest >= SHARE_CLOSE, goals.iter().any(|g| g.goal.loss_ratio == 0.0))
    {
        (true, true) => "The device reaches its saturating throughput without loss too.",
        (true, false) => "The device reaches its saturating throughput at this loss too.",
        (false, _) => "Plan with these figures: the saturating throughput is higher.",
    };
    let sentence = format!(
        ". This is {} of the {} at saturating load",
        said.join(" and "),
        words::pps(saturating)
    );
    (sentence, implication.into())
}
