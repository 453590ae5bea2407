//! The trials of `ids-partition`: engines with all rules, and engines with a part of them.
//!
//! Both divisions of a place are measured one behind the other.

use niclab_device::soft::ids::{CORES_MAX, RULES_MAX};
use niclab_device::{Detecting, DetectionWorkload, InspectionEngine, RuleDivision, RuleMix, Task};
use niclab_result::{Coordinate, Point};

use super::metrics::DETECT;
use super::spec::DetectionSweep;
use crate::axes::{at_axes, name_of, numbers, words};
use crate::run::Resolver;
use crate::spec::SpecError;

/// The engines by name.
pub(crate) const ENGINES: [(&str, InspectionEngine); 3] = [
    ("niclab", InspectionEngine::Niclab),
    ("suricata", InspectionEngine::Suricata),
    ("suricata-ac", InspectionEngine::SuricataAhoCorasick),
];

/// All rules on every core.
pub(crate) const COPIES: &str = "copies";

/// How cores have rules, by name.
pub(crate) const DIVISIONS: [(&str, RuleDivision); 2] =
    [(COPIES, RuleDivision::Copies), ("partitions", RuleDivision::Partitions)];

/// What rules name, by name.
pub(crate) const MIXES: [(&str, RuleMix); 3] =
    [("services", RuleMix::Services), ("servers", RuleMix::Servers), ("any", RuleMix::Any)];

/// A place of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectionPoint {
    /// What inspects.
    pub engine: InspectionEngine,
    /// The rules of a core.
    pub division: RuleDivision,
    /// What rules name.
    pub mix: RuleMix,
    /// Rules.
    pub rules: u32,
    /// Cores that inspect.
    pub cores: u32,
}

/// All places of a sweep: the product of its axes, all divisions at each.
pub fn places(sweep: &DetectionSweep) -> Result<Vec<DetectionPoint>, SpecError> {
    let divisions = words("mode", &sweep.mode, &DIVISIONS)?;
    let mixes = words("mix", &sweep.mix, &MIXES)?;
    let all_rules = numbers("rules", &sweep.rules, 1, RULES_MAX)?;
    let all_cores = numbers("cores", &sweep.cores, 1, CORES_MAX as u32)?;
    let mut all = Vec::new();
    for engine in words("engine", &sweep.engine, &ENGINES)? {
        for &mix in &mixes {
            for &rules in &all_rules {
                for &cores in &all_cores {
                    let of = |division: &RuleDivision| DetectionPoint {
                        engine,
                        division: *division,
                        mix,
                        rules,
                        cores,
                    };
                    all.extend(divisions.iter().map(of));
                }
            }
        }
    }
    Ok(all)
}

impl DetectionPoint {
    fn point(&self) -> Point {
        let word = |word: &str| Coordinate::Word(word.to_owned());
        let number = |number: u32| Coordinate::Number(number.into());
        at_axes([
            ("engine", word(name_of(&ENGINES, self.engine))),
            ("mode", word(name_of(&DIVISIONS, self.division))),
            ("mix", word(name_of(&MIXES, self.mix))),
            ("rules", number(self.rules)),
            ("cores", number(self.cores)),
        ])
    }
}

impl Resolver<'_> {
    /// A trial at each place. They have no set-up but that nothing is set up.
    pub fn add_detections(&mut self, sweeps: &[DetectionSweep]) -> Result<(), SpecError> {
        let ns = |ms: u64| ms * 1_000_000;
        let (duration_ns, warmup_ns) = (ns(self.grid.duration_ms), ns(self.grid.warmup_ms));
        for sweep in sweeps {
            for of in places(sweep)? {
                let DetectionPoint { engine, division, mix, rules, cores } = of;
                let workload = DetectionWorkload { mix, rules, seed: self.seed };
                let cores = cores as u16;
                let asked = Detecting { engine, division, workload, cores, duration_ns, warmup_ns };
                self.task(DETECT, of.point(), Task::Detection(asked));
            }
        }
        Ok(())
    }
}
