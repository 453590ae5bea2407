//! What a place costs against another: a share of the throughput, or time of the device's core.

use niclab_result::Finding;

use super::{Sentence, Subject};
use crate::cells::{Cell, paired};
use crate::findings::number::{MUCH, Number, comparison};
use crate::findings::{REPEATS_MIN, RatioVerdict, verdict};
use crate::measure::DEVICE_TIME;
use crate::statistics::Estimate;
use crate::summary::frames::a_frame;
use crate::{statistics, words};

/// A throughput as a share of another one; nothing where a limit of the generator, or stalls, could
/// have made the share what it is.
pub(crate) fn share(cell: &Cell<'_>, base: &Cell<'_>) -> Option<(Estimate, RatioVerdict)> {
    if [cell, base].iter().any(|cell| cell.is_generator_limited() || cell.is_disturbed()) {
        return None;
    }
    let ratio = paired(cell, base, "throughput_pps")?;
    let verdict = verdict(&ratio)?;
    Some((ratio, verdict))
}

/// A share of a throughput in a sentence.
pub(crate) struct ShareOf {
    pub id: &'static str,
    /// What stands in front of the share, and behind it.
    pub around: (String, String),
    /// What follows where there is no cost, a cost, a gain.
    pub follows: [&'static str; 3],
    pub figure: Option<String>,
}

impl ShareOf {
    pub(super) fn finding(
        self,
        s: &Subject<'_>,
        (cell, base): (&Cell<'_>, &Cell<'_>),
    ) -> Option<Finding> {
        let (ratio, verdict) = share(cell, base)?;
        let [none, cost, gain] = self.follows;
        let implication = match verdict {
            RatioVerdict::NoCost => none,
            RatioVerdict::Differs if ratio.median < 1.0 => cost,
            RatioVerdict::Differs => gain,
        };
        let (number, few) = (Number::percent(&ratio), words::few(&ratio));
        Some(s.finding(Sentence {
            id: self.id,
            sentence: format!("{} {number} of {}{few}.", self.around.0, self.around.1),
            number,
            implication: implication.into(),
            figure: self.figure,
        }))
    }
}

/// What a frame costs the device's core, against another place.
pub(crate) struct Cost {
    here_ns: f64,
    /// By the time at the other place, pair by pair.
    ratio: Estimate,
}

impl Cost {
    /// `None` where the throughput itself tells, and where there is too little of the time.
    pub(super) fn of(cell: &Cell<'_>, base: &Cell<'_>) -> Option<Cost> {
        if !cell.is_generator_limited() && !base.is_generator_limited() {
            return None;
        }
        let ratio = paired(cell, base, DEVICE_TIME)?;
        if ratio.repeats < REPEATS_MIN {
            return None;
        }
        // Of the same repeats as the ratio.
        let (here, _) = cell.paired(base, DEVICE_TIME);
        Some(Cost { here_ns: statistics::median(&here)?, ratio })
    }

    /// The time and its change against `base`; nothing where the interval allows both a change and
    /// none. Pairs stand side by side in time, so the median of their changes differs from the
    /// change of the medians where the machine's speed changed.
    pub(super) fn finding(&self, s: &Subject<'_>, about: &CostOf<'_>) -> Option<Finding> {
        verdict(&self.ratio)?;
        let (number, is_more) = comparison(&self.ratio, MUCH);
        Some(s.finding(Sentence {
            id: about.id,
            sentence: format!(
                "{} spends {} of core time on {} {}, {is_more} {} (median of pairs){}.",
                s.device,
                words::time(self.here_ns),
                a_frame(&s.frame()),
                about.place,
                about.base,
                words::few(&self.ratio)
            ),
            number,
            implication: format!(
                "One fully busy core would forward about {} or more: a partly idle core has \
                 smaller bursts, which cost more per frame.",
                words::pps(1e9 / self.here_ns)
            ),
            figure: about.figure.map(Into::into),
        }))
    }
}

/// What a [`Cost`] is of.
pub(crate) struct CostOf<'a> {
    pub id: &'static str,
    /// Where, such as `with 65,536 rules in group 0`.
    pub place: String,
    /// Against what, such as `with no rule`.
    pub base: &'a str,
    pub figure: Option<&'static str>,
}
