//! Knees: where a curve breaks, by bisection.
//!
//! A search knows nothing of devices: it asks whether a number of rules is still in front of the
//! knee. Its answer is a bracket, the largest number seen in front and the smallest behind.

use crate::spec::{KneeKind, KneeSpec};

/// Most questions a search asks.
const PROBES_MAX: u32 = 40;

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResult {
    /// Even the smallest number is behind the knee.
    Below {
        /// That number.
        low: u32,
    },
    /// The knee lies above `low` and not above `high`.
    Bracket {
        /// Largest number in front of the knee.
        low: u32,
        /// Smallest number behind it.
        high: u32,
    },
    /// Not even the largest number is behind a knee.
    None {
        /// That number.
        high: u32,
    },
    /// The search could not be finished.
    Stopped,
}

impl SearchResult {
    /// Middle and half width of the bracket.
    pub fn middle_and_width(&self) -> Option<(f64, f64)> {
        match self {
            SearchResult::Bracket { low, high } => {
                let (low, high) = (f64::from(*low), f64::from(*high));
                Some(((low + high) / 2.0, (high - low) / 2.0))
            }
            _ => None,
        }
    }
}

/// Bisects `low..=high` until the bracket is at most `width` of its middle, or two neighbours.
///
/// `is_in_front` says whether a number is in front of the knee; `None` ends the search. The middle
/// is taken by ratio, so that a knee at a thousand of a million costs no more than one at half.
pub fn bisect(
    low: u32,
    high: u32,
    width: f64,
    mut is_in_front: impl FnMut(u32) -> Option<bool>,
) -> SearchResult {
    match is_in_front(high) {
        None => return SearchResult::Stopped,
        Some(true) => return SearchResult::None { high },
        Some(false) => {}
    }
    match is_in_front(low) {
        None => return SearchResult::Stopped,
        Some(false) => return SearchResult::Below { low },
        Some(true) => {}
    }
    let (mut front, mut behind) = (low, high);
    while !is_narrow(front, behind, width) {
        let middle = middle(front, behind);
        match is_in_front(middle) {
            None => return SearchResult::Stopped,
            Some(true) => front = middle,
            Some(false) => behind = middle,
        }
    }
    SearchResult::Bracket { low: front, high: behind }
}

fn is_narrow(front: u32, behind: u32, width: f64) -> bool {
    let gap = f64::from(behind - front);
    gap <= 1.0 || gap <= width * (f64::from(front) + f64::from(behind)) / 2.0
}

/// By ratio while the bracket is wide, by difference when it is less than a factor of two.
fn middle(front: u32, behind: u32) -> u32 {
    let (low, high) = (f64::from(front.max(1)), f64::from(behind));
    let middle = if high > 2.0 * low { (low * high).sqrt() } else { (low + high) / 2.0 };
    (middle as u32).clamp(front + 1, behind - 1)
}

/// Most questions that a search for this knee asks.
pub fn probes_max(spec: &KneeSpec) -> u32 {
    let low = rules_min(spec);
    let at_worst = |answer: bool| {
        let mut asked = 0;
        bisect(low, spec.rules_max.max(low + 1), spec.width, |rules| {
            asked += 1;
            Some(if rules == low || rules == spec.rules_max { rules == low } else { answer })
        });
        asked
    };
    // All answers alike reach the ends; any other row of answers is in between by construction.
    at_worst(true).max(at_worst(false)).min(PROBES_MAX)
}

/// The smallest number of rules that a search asks for: the default rules, where not more.
pub fn rules_min(spec: &KneeSpec) -> u32 {
    spec.rules_min.max(rules_default(spec))
}

fn rules_default(spec: &KneeSpec) -> u32 {
    spec.groups.max(1)
}

/// What breaks: `refused`, `throughput below 80 %`.
///
/// Where the plateau has default rules only the knee may be the cost of a first table in each
/// group, not of the number of rules: the words say so. They also say what part of the traffic hits
/// rules, where any does.
pub fn label(spec: &KneeSpec) -> String {
    let has_tables = rules_min(spec) > rules_default(spec);
    let of = if has_tables { "" } else { " of that with default rules only" };
    match spec.kind {
        KneeKind::Capacity => "refused".into(),
        KneeKind::Throughput => {
            let hits = match spec.match_percent {
                0 => String::new(),
                percent => format!(", {percent} % of the traffic on rules"),
            };
            format!("throughput below {:.0} %{of}{hits}", spec.share * 100.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(knee: u32, high: u32, width: f64) -> (SearchResult, u32) {
        let mut asked = 0;
        let found = bisect(1, high, width, |rules| {
            asked += 1;
            Some(rules <= knee)
        });
        (found, asked)
    }

    #[test]
    fn a_bracket_holds_the_knee_wherever_it_is() {
        for knee in [1, 2, 3, 17, 1_000, 55_705, 65_535] {
            let (found, asked) = search(knee, 65_536, 0.0);
            assert_eq!(found, SearchResult::Bracket { low: knee, high: knee + 1 }, "exact");
            assert!(asked <= 24, "{asked} questions for {knee}");
            let (found, asked) = search(knee, 65_536, 0.05);
            let SearchResult::Bracket { low, high } = found else { panic!("{found:?}") };
            assert!(low <= knee && knee < high, "{low}..{high} misses {knee}");
            let (middle, width) = found.middle_and_width().unwrap();
            assert!(width <= 0.025 * middle || high - low == 1, "{middle} +- {width}");
            assert!(asked <= 13, "{asked} questions for {knee}");
        }
    }

    #[test]
    fn a_plateau_without_tables_is_reported() {
        let spec = |rules_min| KneeSpec {
            kind: KneeKind::Throughput,
            groups: 16,
            rules_max: 100,
            rules_min,
            width: 0.0,
            match_percent: 0,
            share: 0.8,
            pairs: 3,
        };
        let of = |rules| (rules_min(&spec(rules)), label(&spec(rules)));
        let hits = KneeSpec { match_percent: 100, ..spec(32) };
        assert_eq!(label(&hits), "throughput below 80 %, 100 % of the traffic on rules");
        assert_eq!(of(32), (32, "throughput below 80 %".into()));
        let message = "throughput below 80 % of that with default rules only".to_string();
        assert_eq!(of(0), (16, message.clone()));
        assert_eq!(of(16), (16, message));
    }

    #[test]
    fn a_knee_outside_the_range_is_not_found() {
        assert_eq!(search(65_536, 65_536, 0.05), (SearchResult::None { high: 65_536 }, 1));
        assert_eq!(search(0, 65_536, 0.05), (SearchResult::Below { low: 1 }, 2));
        assert_eq!(bisect(1, 100, 0.05, |_| None), SearchResult::Stopped);
        let stops = bisect(1, 100, 0.0, |rules| (rules == 100 || rules == 1).then_some(rules == 1));
        assert_eq!(stops, SearchResult::Stopped);
    }
}
