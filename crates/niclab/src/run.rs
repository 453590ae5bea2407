//! `niclab run`: open the devices, resolve what was typed, measure, report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use niclab_device::Testbed;
use niclab_lab::experiment;
use niclab_lab::run::{Run, RunDevice, resolve};
use niclab_lab::runner::{Bed, Ended, execute};
use niclab_lab::spec::{Assignment, GridName, Overrides, Spec, Trace};
use niclab_packet::size::FCS_LEN;
use niclab_packet::trace::{self, TraceLimits};
use niclab_result::{Directory, Sample};

use crate::arguments::{Grid, RunArguments};
use crate::failure::Failure;
use crate::progress::Screen;
use crate::{devices, environment, report};

/// Name and version of the program, as results carry it.
pub const PROGRAM: &str = concat!("niclab ", env!("CARGO_PKG_VERSION"));

/// Runs what was asked for, or goes on with a run that was cut short.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (run, mut beds, mut directory, done) = match &arguments.resume {
        Some(path) => resumed(path)?,
        None => started(arguments)?,
    };
    let mut screen = Screen::new(&run, directory.path(), stop);
    let mut borrowed: Vec<Bed<'_>> = beds.iter_mut().map(|bed| bed_of(bed)).collect();
    let ended = execute(&run, &mut borrowed, &done, &mut directory, &mut screen);
    screen.finish();
    // Devices close before the report: what they made on this machine is gone even if that fails.
    drop(borrowed);
    drop(beds);
    let path = directory.path().to_path_buf();
    drop(directory);
    let ended = ended?;
    let written = report::write(&path)?;
    if ended == Ended::Stopped {
        return Err(Failure::Stopped { directory: path });
    }
    report::announce(&written, &path)
}

fn bed_of(bed: &mut Option<Box<dyn Testbed>>) -> Bed<'_> {
    match bed {
        Some(bed) => Some(bed.as_mut()),
        None => None,
    }
}

/// A run with what it needs: testbeds in the order of its devices, the directory it writes to, the
/// samples it has.
type Prepared = (Run, Vec<Option<Box<dyn Testbed>>>, Directory, Vec<Sample>);

fn started(arguments: &RunArguments) -> Result<Prepared, Failure> {
    // Everything that can be refused without touching the machine comes first.
    let specs = specs(&arguments.experiments)?;
    let overrides = overrides(arguments)?;
    let names = match arguments.device.is_empty() {
        true => devices::DEFAULT.map(str::to_owned).to_vec(),
        false => arguments.device.clone(),
    };
    let (described, beds): (Vec<RunDevice>, Vec<_>) = devices::open(&names)?.into_iter().unzip();
    let run = resolve(PROGRAM, &specs, &overrides, described)?;
    let directory = Directory::create(&output(arguments)?)?;
    directory.write_run(&run.to_toml()?)?;
    directory.write_environment(&environment::read())?;
    Ok((run, beds, directory, Vec::new()))
}

fn resumed(path: &Path) -> Result<Prepared, Failure> {
    let (directory, stored) = Directory::resume(path)?;
    let run = Run::from_toml(&stored.run_toml()?)?;
    let names: Vec<String> = run.devices.iter().map(|device| device.name.clone()).collect();
    let (_, beds): (Vec<RunDevice>, Vec<_>) = devices::open(&names)?.into_iter().unzip();
    Ok((run, beds, directory, stored.samples))
}

fn specs(names: &[String]) -> Result<Vec<Spec>, Failure> {
    let default = || experiment::DEFAULT.map(str::to_owned).to_vec();
    let names = if names.is_empty() { default() } else { names.to_vec() };
    Ok(names.iter().map(|name| experiment::spec(name)).collect::<Result<_, _>>()?)
}

fn overrides(arguments: &RunArguments) -> Result<Overrides, Failure> {
    let assignments = arguments.set.iter().map(|text| text.parse::<Assignment>());
    let grid = match (arguments.full, arguments.grid) {
        (true, _) | (_, Some(Grid::Full)) => GridName::Full,
        (_, Some(Grid::Published)) => GridName::Published,
        (_, Some(Grid::Reduced) | None) => GridName::Reduced,
    };
    Ok(Overrides {
        set: assignments.collect::<Result<_, _>>()?,
        repeats: arguments.repeats,
        seed: arguments.seed,
        grid,
        trace: arguments.trace.as_deref().map(trace).transpose()?,
        card: arguments.card.parse().map_err(card)?,
    })
}

fn card(error: niclab_lab::published::UnknownCard) -> niclab_lab::spec::SpecError {
    niclab_lab::spec::SpecError::OutOfRange {
        axis: "--card",
        value: String::new(),
        remedy: error.to_string(),
    }
}

/// Looks a capture through before anything is measured with it.
fn trace(path: &Path) -> Result<Trace, Failure> {
    let bad = |reason: String| Failure::Trace { path: path.to_path_buf(), reason };
    let file = std::fs::File::open(path).map_err(|error| bad(error.to_string()))?;
    let trace = trace::Trace::load(std::io::BufReader::new(file), TraceLimits::default())
        .map_err(|incomplete| bad(incomplete.to_string()))?;
    let longest = trace.records().map(|record| record.data.len()).max();
    let longest = longest.ok_or_else(|| bad("it has no frame; give another".to_owned()))?;
    let frame_len_max = u16::try_from(longest + usize::from(FCS_LEN))
        .map_err(|_| bad(format!("a frame of {longest} B; the longest that can be sent is 65 kB")))?;
    Ok(Trace { path: path.to_path_buf(), frame_len_max })
}

/// Where the results go: as asked for, or a new directory named after the time.
fn output(arguments: &RunArguments) -> Result<PathBuf, Failure> {
    if let Some(path) = &arguments.output {
        return Ok(path.clone());
    }
    let now = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
    Ok(Path::new("results").join(now))
}
