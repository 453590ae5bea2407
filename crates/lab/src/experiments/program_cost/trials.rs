//! The trials of `program-cost`: match+action programs with their tables filled.
//!
//! Packets lie in memory, and go through the program and nothing else. So a device that runs the
//! same text is comparable, whatever ports it has; its trials stand side by side with ours, program
//! by program.

use niclab_device::cases::{Case, CaseError, ENTRIES_MAX, INSTRUCTIONS_MAX, Loaded};
use niclab_device::{Processing, Task};
use niclab_result::{Coordinate, Point};

use super::metrics::PROCESS;
use super::spec::ProgramSweep;
use crate::axes::{at_axes, numbers, refused, words};
use crate::run::Resolver;
use crate::spec::SpecError;

/// All programs of a sweep, the product of its axes as far as they go together: of what does not
/// grow there is one, what has no table has no entries, and numbers that a program does not have
/// are left out: `--set` may leave a sweep without any.
pub fn programs(sweep: &ProgramSweep) -> Result<Vec<Loaded>, SpecError> {
    Ok(product(sweep)?.into_iter().filter(|of| of.check().is_ok()).collect())
}

/// The product of a sweep's axes, with what does not go together.
fn product(sweep: &ProgramSweep) -> Result<Vec<Loaded>, SpecError> {
    let counts = numbers("count", &sweep.count, 1, INSTRUCTIONS_MAX)?;
    let entries = numbers("entries", &sweep.entries, 0, ENTRIES_MAX)?;
    let mut all: Vec<Loaded> = Vec::new();
    for case in words("program", &sweep.program, &Case::ALL)? {
        let counts = if case.counts() == (1, 1) { &[1][..] } else { &counts };
        let entries = if case.entries_max() == 0 { &[0][..] } else { &entries };
        for &count in counts {
            all.extend(entries.iter().map(|&entries| Loaded { case, count, entries }));
        }
    }
    Ok(all)
}

/// A number that a program does not have.
#[derive(PartialEq)]
struct Excluded {
    axis: &'static str,
    value: u32,
    program: &'static str,
    /// What it has.
    range: String,
}

/// What of these sweeps does not go together, each once.
fn excluded(sweeps: &[ProgramSweep]) -> Result<Vec<Excluded>, SpecError> {
    let mut all: Vec<Excluded> = Vec::new();
    for sweep in sweeps {
        for of in product(sweep)? {
            if let Err(CaseError::Range { case, what: axis, value, min, max }) = of.check() {
                let range = format!("{min} to {max}");
                let one = Excluded { axis, value, program: case, range };
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
    }
    Ok(all)
}

fn point(of: Loaded) -> Point {
    let number = |number: u32| Coordinate::Number(number.into());
    at_axes([
        ("program", Coordinate::Word(of.case.name().to_owned())),
        ("count", number(of.count)),
        ("entries", number(of.entries)),
    ])
}

impl Resolver<'_> {
    /// A trial for each program. They have no set-up but that nothing is set up.
    pub fn add_programs(&mut self, sweeps: &[ProgramSweep]) -> Result<(), SpecError> {
        let ns = |ms: u64| ms * 1_000_000;
        for sweep in sweeps {
            for program in programs(sweep)? {
                let (duration_ns, warmup_ns) = (ns(self.grid.duration_ms), ns(self.grid.warmup_ms));
                let asked = Processing { program, duration_ns, warmup_ns };
                self.task(PROCESS, point(program), Task::Program(asked));
            }
        }
        let excluded = excluded(sweeps)?;
        if let (true, Some(first)) = (self.run.trials.is_empty(), excluded.first()) {
            let is_same = |of: &&Excluded| (of.axis, of.value) == (first.axis, first.value);
            let has = |of: &Excluded| format!("{} has {}", of.program, of.range);
            let remedy: Vec<String> = excluded.iter().filter(is_same).map(has).collect();
            let value = Coordinate::Number(first.value.into());
            return Err(refused(first.axis, &value, remedy.join(", ")));
        }
        // The grids of the file leave out on purpose; a number that was asked for is reported.
        let is_asked = |of: &Excluded| self.overrides.set.iter().any(|set| set.name == of.axis);
        let words = |of: Excluded| {
            let Excluded { axis, value, program, range } = of;
            format!("{axis}={value} is left out of {program}, which has {range}")
        };
        self.run.left_out.extend(excluded.into_iter().filter(is_asked).map(words));
        Ok(())
    }
}
