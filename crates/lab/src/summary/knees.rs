//! Knees, found again in the samples by asking them the questions of the search.

use niclab_result::{Knee as Drawn, Mark, Sample};

use crate::cells::{Cell, Cells};
use crate::device_samples::DeviceSamples;
use crate::knee::{self, SearchResult};
use crate::run::{ExperimentRun, Knee, Run};
use crate::runner::search::{PLATEAU, PROBE, answer, bracket, knee_frame};
use crate::spec::KneeKind;
use crate::words;

/// A knee of a device.
#[derive(Clone, Debug)]
pub(crate) struct FoundKnee {
    /// Device.
    pub device: String,
    /// The searched knee.
    pub knee: Knee,
    /// The frames of its trials.
    pub frame: String,
    /// The result.
    pub found: SearchResult,
    /// The generator may have hidden it: some of its trials show the generator's limit.
    pub is_generator_limited: bool,
    /// Why it is not to be trusted: counters of its trials do not add up, or stalls may have made
    /// it.
    pub doubt: Option<Mark>,
}

impl FoundKnee {
    /// `true` where it belongs into the figures of traffic that hits no rule.
    pub fn is_of_misses(&self) -> bool {
        self.knee.spec.match_percent == 0
    }

    /// As it is drawn; `None` where there is nothing to draw.
    pub fn drawn(&self) -> Option<Drawn> {
        let (x, width) = self.found.middle_and_width()?;
        let spec = &self.knee.spec;
        let label = format!("{}: {}", words::groups(spec.groups.into()), knee::label(spec));
        Some(Drawn { device: self.device.clone(), x, width, label })
    }
}

/// All knees that were searched to their end.
pub(crate) fn found(
    run: &Run,
    experiment: &ExperimentRun,
    cells: &Cells<'_>,
    samples: &[Sample],
) -> Vec<FoundKnee> {
    let mut all = Vec::new();
    for device in &run.devices {
        let known = DeviceSamples::of(experiment, device, samples);
        for knee in &experiment.knees {
            let found = bracket(knee, |rules| answer(&known, knee, rules));
            if found != SearchResult::Stopped {
                let any = |is: fn(&Cell<'_>) -> bool| is_any(cells, &device.name, knee, is);
                all.push(FoundKnee {
                    is_generator_limited: any(|cell| cell.is_generator_limited()),
                    doubt: [
                        (Mark::Unbalanced, any(|cell| cell.is_unbalanced())),
                        (Mark::Disturbed, any(|cell| cell.is_disturbed())),
                    ]
                    .into_iter()
                    .find_map(|(mark, is_seen)| is_seen.then_some(mark)),
                    frame: knee_frame(experiment, knee).to_string(),
                    device: device.name.clone(),
                    knee: knee.clone(),
                    found,
                });
            }
        }
    }
    all
}

/// `true` where one of the cells that a throughput was judged by is so.
fn is_any(cells: &Cells<'_>, device: &str, knee: &Knee, is: fn(&Cell<'_>) -> bool) -> bool {
    let place = [
        ("groups", f64::from(knee.spec.groups)),
        ("match_percent", f64::from(knee.spec.match_percent)),
    ];
    let mut of = cells.of(device, PROBE).chain(cells.of(device, PLATEAU));
    knee.spec.kind == KneeKind::Throughput && of.any(|cell| cell.is_at(&place) && is(cell))
}
