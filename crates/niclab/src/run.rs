//! `niclab run`: opens the devices, resolves the run, measures, reports.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use niclab_device::DeviceInfo;
use niclab_device::linux::tune::Tuned;
use niclab_device::soft::rules_hit;
use niclab_files::FileError;
use niclab_lab::experiments;
use niclab_lab::placement::Placement;
use niclab_lab::remaining::{RemainingWork, remaining};
use niclab_lab::run::{ExperimentRun, Run, RunDevice, Trial, resolve};
use niclab_lab::runner::{OpenedDevice, RunEnd, execute};
use niclab_lab::spec::{Assignment, GridName, Overrides, RulesFile, Spec, Trace};
use niclab_lab::variants::{TIMEOUT_S_DEFAULT, Variants};
use niclab_load::TraceFrames;
use niclab_packet::trace::{self, TraceLimits};
use niclab_result::{Directory, ENVIRONMENT, Outcome, ResultError, Sample, Stored, Summary};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::arguments::{GridChoice, RunArguments};
use crate::baseline::EarlierRun;
use crate::devices::{self, OpenBed};
use crate::failure::{Failure, STOPPED};
use crate::output::{one_line, quoted, say, stdout};
use crate::progress::{Screen, duration, variant_words};
use crate::rules::plural;
use crate::{baseline, environment, files, preflight, report, rules, stored, trust, tune};

/// Name and version of the program, as results carry it.
pub const PROGRAM: &str = concat!("niclab ", env!("CARGO_PKG_VERSION"));

/// Seconds from which on a run is worth a preflight of two.
const PREFLIGHT_FROM_S: f64 = 20.0;

/// Runs what was asked for, or goes on with a run that was cut short.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    measure(arguments).map_err(|failure| match failure {
        Failure::Result(error) => Failure::RunDirectory(error),
        other => other,
    })
}

fn measure(arguments: &RunArguments) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let Prepared { run, mut beds, tuned, mut directory, done, earlier } = match &arguments.resume {
        Some(path) => resumed(path, arguments)?,
        None => match started(arguments)? {
            Some(prepared) => prepared,
            None => return Ok(()),
        },
    };
    let mut borrowed: Vec<OpenedDevice<'_>> = beds.iter_mut().map(bed_of).collect();
    let mut screen = Screen::new(&run, &directory, done.len(), earlier.clone(), stop)?;
    if arguments.resume.is_some() {
        say(&remaining_words(remaining(&run, &borrowed, &done)));
    }
    let ended = execute(&run, &mut borrowed, &done, &mut directory, &mut screen);
    screen.finish();
    // Devices close before the report: what they made on this machine is gone even if that fails.
    drop(borrowed);
    drop(beds);
    tune::end(tuned);
    if !run.variants.is_none() {
        say("the commands of the variants are not undone: the machine is as the last one left it");
    }
    let path = directory.path().to_path_buf();
    drop(directory);
    let ended = ended?;
    let written = report::write(&path, earlier.as_deref())?;
    report::announce(&written, &path)?;
    match ended {
        RunEnd::Complete => {}
        RunEnd::OutOfTime => say(&format!(
            "the time for this experiment is used up: the last repeats are missing; go on with: {}",
            trust::command(&path, &run)
        )),
        RunEnd::Nothing => return Err(nothing(&run, &written, path)?),
        RunEnd::Stopped => return Err(Failure::Stopped { command: trust::command(&path, &run) }),
    }
    Ok(())
}

/// The remaining work of a resumed run.
fn remaining_words(remaining: RemainingWork) -> String {
    if remaining.is_nothing() {
        return "nothing is left to measure".into();
    }
    let failed = match remaining.failed {
        0 => String::new(),
        failed => format!(", {failed} of which failed before"),
    };
    let searches = match remaining.searches {
        0 => String::new(),
        1 => ", and 1 search".into(),
        searches => format!(", and {searches} searches"),
    };
    let s = if remaining.trials == 1 { "" } else { "s" };
    format!("left to measure: {} trial{s}{failed}{searches}", remaining.trials)
}

/// Why nothing was measured: of each device its last failure, or else what it lacks.
fn nothing(run: &Run, summary: &Summary, directory: PathBuf) -> Result<Failure, Failure> {
    let samples = Stored::open(&directory)?.samples;
    let mut reasons = Vec::new();
    for device in &summary.devices {
        let mut last = samples.iter().rev().filter(|sample| sample.device == device.device);
        let failure = last.find_map(|sample| match &sample.outcome {
            Outcome::Failed { reason, .. } => Some(reason),
            _ => None,
        });
        let lacks = &device.not_supported;
        match failure {
            Some(reason) => reasons.push(format!("{}: {reason}", device.device)),
            // Under variants, a device that was measured once may lack something too.
            None if run.variants.is_none() && !lacks.is_empty() => {
                reasons.push(format!("{}: not supported: {}", device.device, lacks.join(", ")));
            }
            None => {}
        }
    }
    let reasons = reasons.iter().map(|reason| one_line(reason)).collect();
    let lacks_pair = !run.variants.is_none();
    Ok(Failure::Nothing { directory, lacks_pair, reasons })
}

/// Signals that come together are one: a terminal and a program that started this one may both
/// hand on the same Ctrl-C.
const TOGETHER: Duration = Duration::from_millis(100);

/// A flag that Ctrl-C and SIGTERM raise; a second one, which does not come together with the first,
/// ends the process at once.
///
/// SIGHUP is left alone: under nohup it is ignored, and the samples are safe in any case.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let [stop, is_next_last] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, STOPPED, Arc::clone(&is_next_last))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.forever().next();
        thread::sleep(TOGETHER);
        is_next_last.store(true, Ordering::Relaxed);
    })?;
    Ok(stop)
}

fn bed_of(bed: &mut OpenBed) -> OpenedDevice<'_> {
    match bed {
        Ok(bed) => Ok(bed.as_mut()),
        Err(reason) => Err(reason.clone()),
    }
}

/// A run with what it needs.
struct Prepared {
    run: Run,
    /// Testbeds in the order of its devices.
    beds: Vec<OpenBed>,
    /// Interfaces that are not as they were.
    tuned: Vec<Tuned>,
    /// The directory it writes to.
    directory: Directory,
    /// The samples it has.
    done: Vec<Sample>,
    /// The run that its report is compared with.
    earlier: Option<Rc<EarlierRun>>,
}

/// Everything that a new run needs; `None` where it was only to be shown.
fn started(arguments: &RunArguments) -> Result<Option<Prepared>, Failure> {
    // Everything that can be refused without touching the machine comes first.
    let grid = grid(arguments);
    let specs = specs(&arguments.experiments, grid)?;
    if let Some(path) = arguments.output.as_ref().filter(|path| path.symlink_metadata().is_ok()) {
        return Err(Failure::Result(ResultError::existing(path)));
    }
    let earlier = baseline::of_new_run(arguments)?;
    let overrides = overrides(arguments, grid)?;
    let names = match (arguments.device.is_empty(), grid) {
        (true, GridName::Short) => {
            devices::DEFAULT[..devices::SHORT_COUNT].iter().map(|name| name.to_string()).collect()
        }
        (true, _) => devices::DEFAULT.map(str::to_owned).to_vec(),
        (false, _) => devices::names(arguments.tester.as_deref(), &arguments.device)?,
    };
    devices::check(&names)?;
    let agents = devices::agents(arguments.deploy)?;
    let unopened = names.iter().map(|name| unopened(name)).collect();
    let planned = resolve(PROGRAM, &specs, &overrides, unopened)?;
    if let Some(earlier) = &earlier {
        earlier.check_plan(&planned)?;
    }
    let tuned = if arguments.tune { tune::devices(&names)? } else { Vec::new() };
    let (mut described, beds): (Vec<RunDevice>, Vec<_>) =
        devices::open(&names, &agents)?.into_iter().unzip();
    tune::note(&tuned, &mut described);
    let mut run = resolve(PROGRAM, &specs, &overrides, described)?;
    run.baseline = earlier.as_ref().map(|earlier| earlier.path());
    if arguments.dry_run {
        drop(beds);
        tune::end(tuned);
        return shown(&run).map(|()| None);
    }
    meet(&mut run);
    let mut directory = directory(arguments)?;
    let mut environment = environment::read();
    environment::add_hosts(&mut environment, &run.devices);
    if run.estimate_s() > PREFLIGHT_FROM_S {
        preflight::watch_cores(&mut environment);
    }
    directory.write_environment(&environment)?;
    if let Some(file) = &run.rules {
        directory.write_rules(&rules::read(&file.path)?)?;
    }
    // The last of them: where it is, the run can be gone on with.
    directory.write_run(&run.to_toml()?)?;
    let (done, earlier) = (Vec::new(), earlier.map(Rc::new));
    Ok(Some(Prepared { run, beds, tuned, directory, done, earlier }))
}

/// Prints what a run would do on the devices that are here. Points that a device turns out to lack
/// are counted too: the numbers are the most there can be.
fn shown(run: &Run) -> Result<(), Failure> {
    let mut out = stdout();
    let is_present = |device: &RunDevice| device.absent.is_none();
    for experiment in &run.experiments {
        let visits = experiment.order.iter();
        let visits = visits.filter(|visit| run.devices.get(visit.device).is_some_and(is_present));
        let trials = visits.map(|visit| visit.trials.len()).sum::<usize>();
        let trials = plural(trials, "trial", "trials");
        let ExperimentRun { name, repeats, .. } = experiment;
        let repeats = plural(*repeats as usize, "repeat", "repeats");
        let text = format!("{name}: at most {trials}, {repeats}, {:.0} s", experiment.estimate_s);
        writeln!(out, "{}", one_line(&text))?;
        for words in experiment.plan_words() {
            writeln!(out, "{}", one_line(&format!("{name}: {words}")))?;
        }
    }
    writeln!(out, "all experiments: at most {}", duration(run.estimate_s()))?;
    let devices = run.devices.iter().filter(|device| is_present(device));
    let devices: Vec<&str> = devices.map(|device| device.name.as_str()).collect();
    writeln!(out, "{}", one_line(&format!("devices: {}", devices.join(", "))))?;
    variant_words(run).iter().try_for_each(|words| writeln!(out, "{words}"))?;
    if let Some(path) = &run.baseline {
        writeln!(out, "{}", one_line(&format!("baseline: {}", path.display())))?;
    }
    writeln!(out, "nothing was measured, and no command was run")?;
    Ok(())
}

/// Sees which rules of a file the traffic meets, that with most flows: a card says nothing of what
/// rules cost that no frame has reached. Asked of the software card, where it is measured; what it
/// cannot carry out the run will tell.
fn meet(run: &mut Run) {
    let is_soft = |device: &RunDevice| device.asked() == "soft" && device.absent.is_none();
    let Some(rules) = run.rules.as_mut().filter(|_| run.devices.iter().any(is_soft)) else {
        return;
    };
    let of_all = run.experiments.iter().flat_map(|experiment| {
        let of = |trial: &'_ Trial| {
            Some((&experiment.setups[trial.setup], &experiment.loads[trial.load()?]))
        };
        experiment.trials.iter().filter_map(of)
    });
    if let Some((setup, load)) = of_all.max_by_key(|(_, load)| load.flows.count) {
        rules.rules_met = rules_hit(setup, load).ok();
    }
}

/// A device before it is opened: enough to see whether the rest of the run makes sense.
fn unopened(name: &str) -> RunDevice {
    let (name, about) = (name.to_owned(), DeviceInfo::default());
    RunDevice { name, variant: None, absent: None, about }
}

/// Refuses a merged run, one with other variants than were typed, and one that names more than
/// niclab's own unless it is trusted.
fn check_resumable(path: &Path, run: &Run, arguments: &RunArguments) -> Result<(), Failure> {
    if !run.parts.is_empty() {
        let of = run.parts.iter().map(|part| part.name.clone()).collect();
        return Err(Failure::Merged { directory: path.to_path_buf(), of });
    }
    if !arguments.variant.is_empty() && arguments.variant != run.variants.list {
        let has = run.variants.list.iter();
        let has = has.map(|of| format!("--variant {}={}", of.name, quoted(&of.command))).collect();
        return Err(Failure::OtherVariants { directory: path.to_path_buf(), has });
    }
    trust::check(path, run, arguments)
}

fn resumed(path: &Path, arguments: &RunArguments) -> Result<Prepared, Failure> {
    // Before anything is changed, and again of what is there behind the lock.
    check_resumable(path, &stored::run(path, &Stored::open(path)?.run_toml()?)?, arguments)?;
    let (mut directory, stored, repairs) = Directory::resume(path)?;
    repairs.iter().for_each(|repair| say(&repair.to_string()));
    let mut run = stored::run(path, &stored.run_toml()?)?;
    check_resumable(path, &run, arguments)?;
    let earlier = baseline::of_resumed_run(path, &mut run, arguments)?;
    let traces = run.experiments.iter().flat_map(|experiment| &experiment.loads);
    if let Some(path) = traces.filter_map(|load| load.trace.as_deref()).next() {
        trace(path)?;
    }
    if let Some(before) = &run.rules {
        let now = RulesFile { rules_met: before.rules_met, ..rules::file(&before.path)? };
        let (kept, text) = (stored.rules()?, rules::read(&before.path)?);
        if now != *before || kept.as_ref().is_some_and(|kept| *kept != text) {
            return Err(Failure::RulesChanged { path: now.path });
        }
        if kept.is_none() {
            directory.write_rules(&text)?;
        }
    }
    if !directory.has(ENVIRONMENT) {
        // The directory of somebody who has the run alone.
        directory.write_environment(&environment::read())?;
    }
    let names: Vec<String> = run.asked().into_iter().map(str::to_owned).collect();
    let tuned = if run.tune { tune::devices(&names)? } else { Vec::new() };
    let agents = devices::agents(arguments.deploy)?;
    let (opened, beds): (Vec<RunDevice>, Vec<_>) =
        devices::open(&names, &agents)?.into_iter().unzip();
    if run.rejoin(&opened) || arguments.baseline.is_some() {
        directory.write_run(&run.to_toml()?)?;
    }
    let (done, earlier) = (stored.samples, earlier.map(Rc::new));
    Ok(Prepared { run, beds, tuned, directory, done, earlier })
}

/// Which grid is asked for: without names, the short ones.
fn grid(arguments: &RunArguments) -> GridName {
    match (arguments.full, arguments.grid) {
        (true, _) | (_, Some(GridChoice::Full)) => GridName::Full,
        (_, Some(GridChoice::Published)) => GridName::Published,
        (_, Some(GridChoice::Short)) => GridName::Short,
        (_, Some(GridChoice::Reduced)) => GridName::Reduced,
        (_, None) if arguments.all || !arguments.experiments.is_empty() => GridName::Reduced,
        (_, None) => GridName::Short,
    }
}

/// The experiments of these names; without any, all that have the grid.
fn specs(names: &[String], grid: GridName) -> Result<Vec<Spec>, Failure> {
    if names.is_empty() {
        let all = experiments::names().map(experiments::spec);
        let mut all: Vec<Spec> = all.collect::<Result<_, _>>()?;
        all.retain(|spec| spec.grid(grid).is_ok());
        return Ok(all);
    }
    let specs: Vec<Spec> =
        names.iter().map(|name| experiments::spec(name)).collect::<Result<_, _>>()?;
    let twice = |at: &usize| specs[..*at].iter().any(|spec| spec.name == specs[*at].name);
    match (0..specs.len()).find(twice) {
        Some(at) => Err(Failure::Twice { name: specs[at].name.clone() }),
        None => Ok(specs),
    }
}

fn overrides(arguments: &RunArguments, grid: GridName) -> Result<Overrides, Failure> {
    let deep = arguments.deep.then_some("deep=yes");
    let texts = arguments.set.iter().map(String::as_str).chain(deep);
    let assignments = texts.map(str::parse::<Assignment>);
    Ok(Overrides {
        set: assignments.collect::<Result<_, _>>()?,
        repeats: arguments.repeats,
        seed: arguments.seed,
        grid,
        trace: arguments.trace.as_deref().map(trace).transpose()?,
        rules: arguments.rules.as_deref().map(rules::file).transpose()?,
        card: arguments.card,
        placement: Placement { here: arguments.here, there: arguments.there, path: arguments.path },
        tune: arguments.tune,
        variants: variants(arguments),
    })
}

/// The variants of the command line.
fn variants(arguments: &RunArguments) -> Variants {
    let list = arguments.variant.clone();
    match list.is_empty() {
        true => Variants::default(),
        false => {
            Variants { timeout_s: arguments.variant_timeout.unwrap_or(TIMEOUT_S_DEFAULT), list }
        }
    }
}

/// Looks a capture through before anything is measured with it.
fn trace(path: &Path) -> Result<Trace, Failure> {
    let bad = |reason: String| Failure::Trace { path: path.to_path_buf(), reason };
    let unreadable =
        |error: FileError| bad(files::reason(path, &error, "give a pcap or pcapng file"));
    let file = trace::open(path).map_err(unreadable)?;
    if file.get_ref().metadata().map_err(|error| unreadable(error.into()))?.len() == 0 {
        return Err(bad("the file is empty; give a pcap or pcapng file".to_owned()));
    }
    let trace = trace::Trace::load_whole(file, TraceLimits::default())
        .map_err(|incomplete| bad(incomplete.to_string()))?;
    if trace.is_empty() {
        return Err(bad("it has no frame; give another".to_owned()));
    }
    let frames = TraceFrames::of(path).map_err(|error| bad(error.to_string()))?;
    // As `run --resume` from another directory will look for it.
    let path = path.canonicalize().map_err(|error| unreadable(error.into()))?;
    Ok(Trace { path, frames })
}

/// Makes the directory that the results go to: as asked for, or a new one named after the time.
fn directory(arguments: &RunArguments) -> Result<Directory, ResultError> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match &arguments.output {
        Some(path) => Directory::create(path, began),
        None => {
            let now = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
            Directory::create_fresh(Path::new("results"), &now, began)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_readable() {
        let words =
            |trials, failed, searches| remaining_words(RemainingWork { trials, failed, searches });
        assert_eq!(words(0, 0, 0), "nothing is left to measure");
        assert_eq!(words(1, 0, 0), "left to measure: 1 trial");
        let expected = "left to measure: 12 trials, 3 of which failed before";
        assert_eq!(words(12, 3, 0), expected);
        let expected = "left to measure: 0 trials, and 2 searches";
        assert_eq!(words(0, 0, 2), expected);
    }
}
