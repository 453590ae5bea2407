//! `swx`: DPDK's SWX pipeline beside ours, where its program was built (`benches/peers/build`).
//!
//! It gets the same text, entries and packets. Each of its programs is generated as C, compiled and
//! loaded once, into a process of its own that stays: all that it does between two trials is to
//! wait. Nothing else of a device is to be had of it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, Writer};
use niclab_peer::{Peer, PeerError};
use niclab_program::{Change, Command, Entry, Invocation, Kind, Match, Member, Part, Program};

use crate::cases::{Loaded, Prepared};
use crate::face::{
    DeviceError, DeviceInfo, Fact, Observation, Processing, ProgramObservation, Setup, SetupReport,
    Task, Testbed,
};
use crate::processing::{self, COMPARED, Digest, STRETCH};
use crate::scratch::Scratch;

/// Its program.
const PROGRAM: &str = "spec";

/// Most entries of a program: it looks through all that wait for a new one, so that the time to add
/// them grows with their square (65,536: 5 to 20 s).
const ENTRIES_MAX: u32 = 65_536;

/// Processes that stay: as many programs as a run has, if it has not too many.
const PROCESSES_MAX: usize = 64;

/// Time to generate C, compile and load it, milliseconds.
const LOAD_MS: u32 = 500;

/// The pipeline.
struct Swx {
    about: DeviceInfo,
    program: PathBuf,
    core: u32,
    /// Those that were loaded, the last one behind.
    loaded: Vec<(Loaded, LoadedProgram)>,
}

/// A program that was loaded.
struct LoadedProgram {
    peer: Peer,
    /// What is known without a pass.
    begun: ProgramObservation,
}

/// Opens the pipeline that a name stands for: `swx`, or `swx:DIRECTORY`.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    let named = name.strip_prefix("swx:").map(PathBuf::from);
    let program = named.unwrap_or_else(niclab_peer::peers).join(PROGRAM);
    if !program.is_file() {
        return Err(DeviceError::Absent {
            what: program.display().to_string(),
            remedy: "benches/peers/build builds DPDK's SWX pipeline, which runs the same programs"
                .to_owned(),
        });
    }
    let core = processing::core().ok_or_else(|| broken("no core that this process may use"))?;
    let greeting = spawn(&program, core)?.greeting().to_owned();
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let about = DeviceInfo {
        name: name.to_owned(),
        facts: vec![
            fact("driver", greeting),
            fact("programs", "generated as C, compiled, one process each".to_owned()),
        ],
        programmed: processing::places("SWX pipeline, generated as C"),
        program_load_ms: LOAD_MS,
        not_supported: ["rules", "queues", "frames"].map(String::from).into(),
        lacking: "niclab has SWX run programs over packets in memory, and nothing else".into(),
        ..DeviceInfo::default()
    };
    Ok(Box::new(Swx { about, program, core, loaded: Vec::new() }))
}

fn broken(reason: impl ToString) -> DeviceError {
    DeviceError::Broken { device: "swx".to_owned(), reason: reason.to_string() }
}

fn spawn(program: &Path, core: u32) -> Result<Peer, DeviceError> {
    Peer::spawn(program, &[&core.to_string()]).map_err(broken)
}

impl Testbed for Swx {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        setup.check_no_rules().map(|()| SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Program(processing) = task else { return Err(task.not_supported()) };
        let at = self.loaded.iter().position(|(loaded, _)| *loaded == processing.program);
        let at = match at {
            Some(at) => at,
            None => {
                let running = self.load(processing.program)?;
                if self.loaded.len() == PROCESSES_MAX {
                    self.loaded.remove(0);
                }
                self.loaded.push((processing.program, running));
                self.loaded.len() - 1
            }
        };
        let LoadedProgram { peer, begun } = &mut self.loaded[at].1;
        measure(peer, begun.clone(), processing).map(Observation::Program).map_err(broken)
    }
}

/// Passes for as long as was asked for.
fn measure(
    peer: &mut Peer,
    mut observation: ProgramObservation,
    processing: &Processing,
) -> Result<ProgramObservation, PeerError> {
    let pass = format!("pass {STRETCH}");
    let mut warm_ns = 0;
    while warm_ns < processing.warmup_ns {
        warm_ns += peer.ask(&pass)?.ns;
    }
    let mut measured_ns = 0;
    while measured_ns < processing.duration_ns || observation.stretches_ns.is_empty() {
        let answer = peer.ask(&pass)?;
        observation.stretches_ns.extend(answer.rest.iter().skip(STRETCHES_AT));
        measured_ns += answer.ns.max(1);
    }
    Ok(observation)
}

/// Output ports of its program; in an answer what each sent comes first.
const PORTS: usize = 4;

/// Then what was dropped, then what was cloned, then the stretches.
const STRETCHES_AT: usize = PORTS + 2;

impl Swx {
    /// Has a process load a program, its tables and its packets, and compares what leaves.
    fn load(&self, of: Loaded) -> Result<LoadedProgram, DeviceError> {
        if of.count.saturating_mul(of.entries) > ENTRIES_MAX {
            let capability = format!("more than {ENTRIES_MAX} entries of a program");
            return Err(DeviceError::lacks(capability));
        }
        let prepared = of.prepare().map_err(|error| processing::refused("swx", of.case, error))?;
        let mut begun = processing::initial_observation(&prepared);
        let scratch = Scratch::create("swx").map_err(broken)?;
        let mut peer = spawn(&self.program, self.core)?;
        let spec = write(&scratch, "program.spec", prepared.text.as_bytes())?;
        peer.tell(&format!("load {spec}")).map_err(|error| refused(of, &scratch, error))?;
        for (number, table) in prepared.program.tables.iter().enumerate() {
            let lines = lines(&prepared, number)?;
            if lines.is_empty() {
                continue;
            }
            let path = write(&scratch, "entries", lines.as_bytes())?;
            let how = match table.kind {
                Kind::Selector { .. } => "members",
                _ => "entries",
            };
            peer.tell(&format!("{how} {} {path}", table.name)).map_err(broken)?;
        }
        peer.tell("commit").map_err(broken)?;
        begun.digest = self.digest(&mut peer, &scratch, &prepared)?;
        let frames = write(&scratch, "frames.pcap", &capture(&prepared.frames)?)?;
        peer.tell(&format!("frames {frames} 0")).map_err(broken)?;
        let first = peer.ask(&format!("pass {STRETCH}"));
        let first = first.map_err(|error| unknown_pass(&self.program, error))?;
        begun.lost = first.rest.get(PORTS).copied().unwrap_or(0);
        Ok(LoadedProgram { peer, begun })
    }

    /// Lets the first packets through, which find a program without a past.
    fn digest(
        &self,
        peer: &mut Peer,
        scratch: &Scratch,
        prepared: &Prepared,
    ) -> Result<String, DeviceError> {
        let first = &prepared.frames[..COMPARED.min(prepared.frames.len())];
        let frames = write(scratch, "first.pcap", &capture(first)?)?;
        let out = scratch.path().join("out");
        peer.tell(&format!("send {frames} {}", out.display())).map_err(broken)?;
        let mut digest = Digest::new();
        for line in fs::read_to_string(&out).map_err(broken)?.lines() {
            // The number of the frame stands before the rest.
            digest.line(line.split_once(' ').map_or(line, |(_, rest)| rest));
        }
        Ok(digest.text())
    }
}

/// What is said of a program that the pipeline does not take.
fn refused(of: Loaded, scratch: &Scratch, error: PeerError) -> DeviceError {
    let PeerError::Answer { answer, .. } = &error else { return broken(error) };
    let message = answer.trim_start_matches("error ");
    let message = message.replace(&scratch.path().join("program.spec").display().to_string(), "");
    let message = message.trim_start_matches([':', ' ', '0']);
    DeviceError::lacks(format!(
        "program {} (SWX says: {})",
        of.case.name(),
        message.trim_end_matches('.')
    ))
}

/// A peer that was built before it knew passes.
fn unknown_pass(program: &Path, error: PeerError) -> DeviceError {
    broken(format!("{}: {error}; build it again with benches/peers/build", program.display()))
}

fn write(scratch: &Scratch, name: &str, bytes: &[u8]) -> Result<String, DeviceError> {
    let path = scratch.path().join(name);
    fs::write(&path, bytes).map_err(broken)?;
    Ok(path.display().to_string())
}

/// Frames as a capture.
fn capture(frames: &[Vec<u8>]) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = Vec::new();
    let format = Format::Pcap(Endian::Little, Resolution::Micro);
    let mut writer = Writer::new(&mut bytes, format).map_err(broken)?;
    for data in frames {
        let original_len = data.len() as u32;
        let record = Record { timestamp_ns: 0, original_len, link_type: LINK_ETHERNET, data };
        writer.write(&record).map_err(broken)?;
    }
    writer.finish().map_err(broken)?;
    Ok(bytes)
}

/// The entries of a table, in the words of `examples/pipeline`.
fn lines(prepared: &Prepared, table: usize) -> Result<String, DeviceError> {
    let mut out = String::new();
    for command in &prepared.commands {
        match command {
            Command::Change(Change::Add { table: of, entry }) if *of == table => {
                out.push_str(&line(&prepared.program, table, entry)?);
            }
            Command::Change(Change::Group { table: of, group, members }) if *of == table => {
                for Member { id, weight } in members {
                    // A string takes whatever is written to it.
                    let _ = writeln!(out, "group {group} member {id} weight {weight}");
                }
            }
            Command::Change(Change::Add { .. } | Change::Group { .. }) => {}
            Command::Meter { .. } => return Err(DeviceError::lacks("rates of meters")),
            _ => {
                return Err(DeviceError::lacks(
                    "more than entries and groups before the first packet",
                ));
            }
        }
    }
    Ok(out)
}

/// An entry: `match KEY … action NAME ARGUMENT VALUE …`.
fn line(program: &Program, table: usize, entry: &Entry) -> Result<String, DeviceError> {
    let mut out = "match".to_owned();
    let Kind::Match { key, .. } = &program.tables[table].kind else {
        return Err(DeviceError::lacks("entries of a learner"));
    };
    for (Part { value, mask }, (_, how)) in entry.key.iter().zip(key) {
        let _ = match how {
            Match::Exact => write!(out, " {:#x}", number(value)?),
            _ => write!(out, " {:#x}/{:#x}", number(value)?, number(mask)?),
        };
    }
    if key.iter().any(|(_, how)| *how == Match::Wildcard) {
        let _ = write!(out, " priority {}", entry.priority);
    }
    let Invocation { action, arguments } = &entry.does;
    let _ = write!(out, " action {}", program.actions[*action].name);
    for (field, value) in program.arguments(*action).iter().zip(arguments) {
        let _ = write!(out, " {} {:#x}", field.name, number(value)?);
    }
    out.push('\n');
    Ok(out)
}

/// Bytes as a number, which the pipeline reads up to 64 bits of.
fn number(bytes: &[u8]) -> Result<u64, DeviceError> {
    match bytes.len() {
        0..=8 => Ok(bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))),
        _ => Err(DeviceError::lacks("values of more than 64 bits")),
    }
}

#[cfg(test)]
#[path = "swx_tests.rs"]
mod tests;
