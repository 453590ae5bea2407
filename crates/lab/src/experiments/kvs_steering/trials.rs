//! The trials of `kvs-steering`: a key-value store with and without help of the card.
//!
//! Requests lie in memory, the card's stage is over, and the application alone is timed, on all of
//! its cores at once. So the builds of the store are comparable whatever card there is; trials of
//! all of them at one place stand one behind the other.

use niclab_device::soft::kvs::{Build, CORES_MAX, KEYS_MAX, KeyPopularity, KeyWorkload};
use niclab_device::{Serving, Task};
use niclab_result::{Coordinate, Point};

use super::metrics::SERVE;
use super::spec::ServingSweep;
use crate::axes::{at_axes, name_of, numbers, words};
use crate::run::Resolver;
use crate::spec::SpecError;

/// What the card does, as it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It spreads clients over the cores.
    Rss,
    /// It gives each core the requests for its own keys.
    Steer,
    /// It writes items and answers for them, and tells each core what it is asked for.
    Dma,
}

/// The mode without the card's help.
pub(crate) const PLAIN: &str = "rss";

/// The modes by name.
pub(crate) const MODES: [(&str, Mode); 3] =
    [(PLAIN, Mode::Rss), ("steer", Mode::Steer), ("dma", Mode::Dma)];

/// Keys that are asked for equally often, as the study's are taken to be.
pub(crate) const UNIFORM: &str = "uniform";

/// How often keys are asked for, by name.
pub(crate) const KEYS: [(&str, KeyPopularity); 2] =
    [(UNIFORM, KeyPopularity::Uniform), ("zipf", KeyPopularity::Zipf)];

impl Mode {
    /// As `niclab kvs` builds the store on so many cores.
    fn build(self, cores: u32) -> Build {
        match self {
            Mode::Rss => Build::Rss { partitions: 2 * cores as usize },
            Mode::Steer => Build::Steer,
            Mode::Dma => Build::Dma,
        }
    }
}

/// What is asked, and who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingPoint {
    /// What the card does.
    pub mode: Mode,
    /// The requests.
    pub asked: KeyWorkload,
    /// Cores that serve.
    pub cores: u32,
    /// Requests that are served together.
    pub burst: u32,
}

/// All places of a sweep: the product of its axes, all modes at each.
pub fn places(sweep: &ServingSweep) -> Result<Vec<ServingPoint>, SpecError> {
    let modes = words("mode", &sweep.mode, &MODES)?;
    let all_gets = numbers("gets", &sweep.gets, 0, 100)?;
    let all_cores = numbers("cores", &sweep.cores, 1, CORES_MAX as u32)?;
    let bursts = numbers("burst", &sweep.burst, 1, 64)?;
    let mut all = Vec::new();
    for keys in words("keys", &sweep.keys, &KEYS)? {
        for count in numbers("count", &sweep.count, 1, KEYS_MAX)? {
            for &gets_percent in &all_gets {
                let asked = KeyWorkload { keys, count, gets_percent };
                for &cores in &all_cores {
                    for &burst in &bursts {
                        let of = |mode: &Mode| ServingPoint { mode: *mode, asked, cores, burst };
                        all.extend(modes.iter().map(of));
                    }
                }
            }
        }
    }
    Ok(all)
}

impl ServingPoint {
    fn point(&self) -> Point {
        let number = |number: u32| Coordinate::Number(number.into());
        at_axes([
            ("mode", Coordinate::Word(name_of(&MODES, self.mode).to_owned())),
            ("keys", Coordinate::Word(name_of(&KEYS, self.asked.keys).to_owned())),
            ("count", number(self.asked.count)),
            ("gets", number(self.asked.gets_percent)),
            ("cores", number(self.cores)),
            ("burst", number(self.burst)),
        ])
    }
}

impl Resolver<'_> {
    /// A trial at each place. They have no set-up but that nothing is set up.
    pub fn add_servings(&mut self, sweeps: &[ServingSweep]) -> Result<(), SpecError> {
        let ns = |ms: u64| ms * 1_000_000;
        let (duration_ns, warmup_ns) = (ns(self.grid.duration_ms), ns(self.grid.warmup_ms));
        for sweep in sweeps {
            for of in places(sweep)? {
                let asked = Serving {
                    build: of.mode.build(of.cores),
                    asked: of.asked,
                    cores: of.cores as u16,
                    burst: of.burst as u16,
                    duration_ns,
                    warmup_ns,
                };
                self.task(SERVE, of.point(), Task::Store(asked));
            }
        }
        Ok(())
    }
}
