//! What searches for knees say: how many rules group 0 takes, and how many at full throughput.

use niclab_result::Finding;

use super::{Sentence, Subject};
use crate::experiments::occupancy::analysis::knee_figure;
use crate::findings::number::Number;
use crate::knee::SearchResult;
use crate::spec::KneeKind;
use crate::summary::FoundKnee;
use crate::{knee, words};

/// The knee of group 0 of this kind, searched with traffic of misses or of hits.
fn knee_group0<'a>(s: &Subject<'a>, kind: KneeKind, is_of_misses: bool) -> Option<&'a FoundKnee> {
    s.results.knees.iter().filter(|knee| knee.device == s.device).find(|knee| {
        let spec = &knee.knee.spec;
        spec.kind == kind && spec.groups == 0 && knee.is_of_misses() == is_of_misses
    })
}

/// Throughput knee of group 0, as a share of what it holds.
pub(super) fn usable_share(s: &Subject<'_>) -> Option<Finding> {
    let knee = knee_group0(s, KneeKind::Throughput, true).filter(|knee| knee.doubt.is_none())?;
    let share = words::percent(knee.knee.spec.share);
    let figure = Some(knee_figure(knee));
    match knee.found {
        SearchResult::Bracket { .. } => {
            let (middle, width) = knee.found.middle_and_width()?;
            let x = if knee.is_generator_limited { middle + width } else { middle };
            let capacity =
                knee_group0(s, KneeKind::Capacity, true).and_then(|knee| match knee.found {
                    SearchResult::Bracket { low, .. } => Some(f64::from(low)),
                    _ => None,
                });
            let usable = capacity.map_or(String::new(), |capacity| {
                format!(
                    ", {} of the {} it holds",
                    words::percent(x / capacity),
                    words::whole(capacity)
                )
            });
            Some(s.finding(Sentence {
                id: "knee-group0",
                sentence: format!(
                    "{} falls below {share} of its throughput at {} rules in group 0{usable}.",
                    s.device,
                    place(knee, x, width)
                ),
                // The width of a bisection is no interval of confidence: it stands in the sentence.
                number: Number::known(x.round(), "rules"),
                implication:
                    "Keep group 0 below this number, or move rules into other groups.".into(),
                figure,
            }))
        }
        // Where the generator was the limit a knee may hide behind it.
        SearchResult::None { high } if !knee.is_generator_limited => Some(s.finding(Sentence {
            id: "knee-group0",
            sentence: format!(
                "{} keeps more than {share} of its throughput up to {} in group 0: no knee.",
                s.device,
                words::rules(high.into())
            ),
            number: Number::known(high.into(), "rules"),
            implication: "All of group 0 can be used.".into(),
            figure,
        })),
        _ => None,
    }
}

/// `30,000 ± 200`. Where the generator set the plateau, the device's own is higher and its knee
/// earlier: `at most 30,200`, the upper end of the bracket.
fn place(knee: &FoundKnee, x: f64, width: f64) -> String {
    match knee.is_generator_limited {
        true => format!("at most {}", words::whole(x)),
        false => format!("{} ± {}", words::whole(x), words::significant(width)),
    }
}

/// Throughput knee of group 0 whose rules the traffic hits, against the fewest rules of its search.
pub(super) fn usable_share_hit(s: &Subject<'_>) -> Option<Finding> {
    let knee = knee_group0(s, KneeKind::Throughput, false).filter(|knee| knee.doubt.is_none())?;
    let (spec, limited) = (&knee.knee.spec, knee.is_generator_limited);
    let (share, plateau) = (words::percent(spec.share), knee::rules_min(spec));
    let of = format!("{share} of its throughput with {}", words::rules(plateau.into()));
    let (said, value, implication) = match knee.found {
        SearchResult::Bracket { .. } => {
            let (middle, width) = knee.found.middle_and_width()?;
            let x = if limited { middle + width } else { middle };
            let said = format!("falls below {of} at {} rules in group 0", place(knee, x, width));
            (
                said,
                x,
                "Traffic that hits more rules than this is slower: keep fewer of them in use.",
            )
        }
        // Where the generator was the limit a knee may hide behind it.
        SearchResult::None { high } if !limited => {
            let high_words = words::rules(high.into());
            let said = format!("keeps more than {of} up to {high_words} in group 0 (no knee)");
            (said, high.into(), "All rules of group 0 can be in use.")
        }
        _ => return None,
    };
    let percent = spec.match_percent;
    Some(s.finding(Sentence {
        id: "knee-group0-hits",
        sentence: format!("{} {said}, with {percent} % of the traffic on rules.", s.device),
        number: Number::known(value.round(), "rules"),
        implication: implication.into(),
        figure: None,
    }))
}

/// How many rules group 0 takes.
pub(super) fn capacity(s: &Subject<'_>) -> Option<Finding> {
    let knee = knee_group0(s, KneeKind::Capacity, true)?;
    let (low, words) = match knee.found {
        SearchResult::Bracket { low, high } if high - low == 1 => {
            (low, format!("holds {}", words::rules(low.into())))
        }
        SearchResult::Bracket { low, high } => {
            let (low_words, high_words) = (words::rules(low.into()), words::whole(high.into()));
            (low, format!("accepts {low_words} and refuses {high_words}"))
        }
        SearchResult::None { high } => {
            (high, format!("accepts all {} of the search", words::rules(high.into())))
        }
        SearchResult::Below { .. } | SearchResult::Stopped => return None,
    };
    Some(s.finding(Sentence {
        id: "capacity-group0",
        sentence: format!("Group 0 of {} {words}.", s.device),
        number: Number::known(low.into(), "rules"),
        implication: "Put rules that do not fit into non-root groups.".into(),
        figure: Some(knee_figure(knee)),
    }))
}
