//! Other rules for engines at work, in four steps: engines load them, the card changes to their
//! partition, packets of the old partition are inspected, engines drop the old rules.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_card::Card;
use niclab_program::Pipeline;

use super::error::{EngineError, RunError};
use super::settings::RULES;
use super::setup::Setup;
use super::start::pipeline;
use super::{IdsRun, RunEvent, failed, now_ns, place};
use crate::partition::Partition;
use crate::rule::Rule;

/// How long the engines may take to load rules: 50,000 take some ten seconds.
const LOADING_MAX: Duration = Duration::from_secs(600);

/// How long packets of the old partition may take until they are inspected: in a pipe or a ring of
/// the kernel is some mebibyte of them.
const SETTLING: Duration = Duration::from_secs(10);

/// The pause after which rules are written again, if the disk was full.
const RETRY: Duration = Duration::from_secs(1);

/// How long to wait in place for the cores of the card, which take milliseconds.
const SWITCHING: Duration = Duration::from_millis(10);

/// Other rules on their way.
pub(super) struct Reload {
    /// The generation of the files that the engines have to load.
    generation: u64,
    since: Instant,
    step: ReloadStep,
}

enum ReloadStep {
    /// Every engine loads the new rules beside the old ones.
    Loading { setup: Arc<Setup>, pipeline: Box<Pipeline> },
    /// The cores of the card take the new partition.
    Switching { setup: Arc<Setup>, from_ns: i128, since: Instant },
    /// Packets of the old partition may be on their way; whether files could not be written.
    Settling { until: Instant, is_retry: bool },
    /// Every engine drops the rules that do not hold.
    Dropping,
}

impl IdsRun {
    /// Replaces the rules, while packets flow. [`IdsRun::turn`] says when they hold, or why not.
    ///
    /// # Errors
    /// [`RunError`]; the old rules hold. [`RunError::Reloading`] while [`IdsRun::is_reloading`].
    pub fn reload(&mut self, rules: Vec<Rule>, partition: Partition) -> Result<(), RunError> {
        if self.is_reloading() {
            return Err(RunError::Reloading);
        }
        let pipeline = Box::new(pipeline(&partition)?);
        let setup = Arc::new(Setup::new(rules, partition, Some(&self.setup)));
        let both = |core| self.setup.text(core, None) + &setup.text(core, Some(&self.setup));
        self.write_rules(both)?;
        let generation = self.load();
        let step = ReloadStep::Loading { setup, pipeline };
        self.reload = Some(Reload { generation, since: Instant::now(), step });
        Ok(())
    }

    /// Whether rules are being replaced, or the engines still have the old ones.
    pub fn is_reloading(&self) -> bool {
        self.reload.is_some()
    }

    /// Writes the rules of each engine: of all, or of none.
    pub(super) fn write_rules(&self, text: impl Fn(usize) -> String) -> Result<(), RunError> {
        let paths = (0..self.config.engine_cpus.len()).map(|core| {
            let directory = place(&self.config.directory, core);
            (directory.join(RULES), directory.join(format!("{RULES}.new")))
        });
        let paths: Vec<_> = paths.collect();
        let written = paths
            .iter()
            .enumerate()
            .try_for_each(|(core, (_, new))| fs::write(new, text(core)).map_err(failed(new)));
        if written.is_err() {
            paths.iter().for_each(|(_, new)| drop(fs::remove_file(new)));
            return written;
        }
        paths.iter().try_for_each(|(path, new)| fs::rename(new, path).map_err(failed(path)))
    }

    /// Has every engine load the rules of its directory; their generation.
    fn load(&mut self) -> u64 {
        self.generation += 1;
        let generation = self.generation;
        self.engines.iter_mut().for_each(|engine| engine.reload(generation));
        generation
    }

    /// Takes the next step, if it is time for it.
    pub(super) fn look_at_reload(&mut self) {
        let (Some(Reload { generation, since, step }), Some(card)) =
            (self.reload.take(), self.card.as_mut())
        else {
            return;
        };
        let has_loaded = || self.engines.iter().all(|engine| engine.has_loaded(generation));
        let step = match step {
            ReloadStep::Loading { .. } if since.elapsed() > LOADING_MAX => {
                return self.refuse_reload(RunError::Slow(LOADING_MAX));
            }
            ReloadStep::Loading { setup, pipeline }
                if has_loaded() && card.core_without_program().is_none() =>
            {
                let (from_ns, now) = (now_ns(), Instant::now());
                // No core is without its program, so that none is refused.
                let _ = card.set_program(Some(*pipeline));
                wait_for_cores(card);
                self.loading = since.elapsed();
                ReloadStep::Switching { setup, from_ns, since: now }
            }
            ReloadStep::Switching { setup, from_ns, since: change }
                if card.core_without_program().is_none() =>
            {
                self.merge.change(Arc::clone(&setup), from_ns, now_ns());
                self.setup = setup;
                let (loading, switching) = (self.loading, change.elapsed());
                self.events.push(RunEvent::Reloaded { loading, switching });
                ReloadStep::Settling { until: Instant::now() + SETTLING, is_retry: false }
            }
            ReloadStep::Settling { until, is_retry } if Instant::now() >= until => {
                return self.drop_others(is_retry);
            }
            ReloadStep::Dropping if has_loaded() => {
                self.merge.settle();
                return;
            }
            step => step,
        };
        let is_switching = matches!(step, ReloadStep::Switching { .. });
        self.reload = Some(Reload { generation, since, step });
        // The change is seen at once where the cores were quick.
        if is_switching && card.core_without_program().is_none() {
            self.look_at_reload();
        }
    }

    /// An engine does not take the rules of a generation.
    pub(super) fn refused(&mut self, engine: usize, generation: u64, error: EngineError) {
        let error = RunError::Engine { engine, error };
        match &self.reload {
            // Another engine may have refused the same rules before.
            Some(reload) if reload.generation != generation => {}
            Some(Reload { step: ReloadStep::Loading { .. }, .. }) => self.refuse_reload(error),
            _ => {
                self.merge.settle();
                self.reload = None;
                self.events.push(RunEvent::NotDropped(error));
            }
        }
    }

    /// An engine died: if it was loading rules, they may be the reason.
    pub(super) fn refuse_rules_of_the_dead(&mut self, engine: usize) {
        if let Some(Reload { step: ReloadStep::Loading { .. }, .. }) = &self.reload {
            self.refuse_reload(RunError::DiedLoading { engine });
        }
    }

    /// Goes on with the rules that hold.
    fn refuse_reload(&mut self, error: RunError) {
        self.events.push(RunEvent::NotReloaded(error));
        self.drop_others(false);
    }

    /// Has every engine drop the rules that do not hold.
    fn drop_others(&mut self, is_retry: bool) {
        let written = self.write_rules(|core| self.setup.text(core, None));
        let step = match written {
            Ok(()) => ReloadStep::Dropping,
            Err(error) => {
                if !is_retry {
                    self.events.push(RunEvent::NotDropped(error));
                }
                ReloadStep::Settling { until: Instant::now() + RETRY, is_retry: true }
            }
        };
        let generation = match &step {
            ReloadStep::Dropping => self.load(),
            _ => self.generation,
        };
        self.reload = Some(Reload { generation, since: Instant::now(), step });
    }
}

/// Waits a moment for the cores to take a program.
fn wait_for_cores(card: &mut Card) {
    let since = Instant::now();
    while card.core_without_program().is_some() && since.elapsed() < SWITCHING {
        std::thread::sleep(Duration::from_micros(100));
    }
}
