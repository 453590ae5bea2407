//! Suricata on several cores, as `niclab ids run` has it: the card reads a trace and gives each
//! engine its packets by a pipe.
//!
//! Suricata's time on CPUs counts, without that of its start and its end: from when a tenth of the
//! packets has come until the card has given the last one. A pipe holds less than a hundredth of
//! the packets.

use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use niclab_card::PortName;
use niclab_ids::flow_of;
use niclab_ids::partition::Partition;
use niclab_ids::run::{IdsRun, RunConfig, RunEvent, RunResult};
use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, TraceError, Writer};

use super::super::broken;
use super::DetectionLoad;
use super::alerts::{self, Alerts};
use crate::detecting::{Detecting, DetectionCore, DetectionObservation, InspectionEngine};
use crate::face::DeviceError;
use crate::program;
use crate::scratch::Scratch;

/// How often the run is looked after.
const TURN: Duration = Duration::from_millis(2);

/// How long a run may take after its start.
const PATIENCE: Duration = Duration::from_secs(300);

/// Nanoseconds of the measured time for a packet of the trace, and the fewest passes of a trace:
/// Suricata takes about half a second for them.
const PACKET_NS: u64 = 1_000;
const PASSES_MIN: u64 = 16;

/// The share of the packets that come before the time counts, one of so many.
const WARMING: u64 = 10;

/// Bytes of a frame's FCS.
const FCS_LEN: u64 = 4;

/// Files that a configuration names, which may be empty.
const EMPTY_FILES: [&str; 3] = ["classification.config", "reference.config", "threshold.config"];

/// Suricata.
///
/// # Errors
/// [`DeviceError::NotSupported`] if it is not installed.
pub(super) fn find() -> Result<PathBuf, DeviceError> {
    let lacks = || DeviceError::lacks("Suricata: install it (apt install suricata)");
    program::find_unpacked("suricata").ok_or_else(lacks)
}

/// Lets engines on the last of these CPUs inspect a trace.
pub(super) fn detect(
    of: &Detecting,
    load: DetectionLoad,
    partition: Partition,
    cpus: &[u32],
) -> Result<(DetectionObservation, u64), DeviceError> {
    let count = usize::from(of.cores);
    let passes = (of.duration_ns / PACKET_NS).div_ceil(load.frames.len() as u64).max(PASSES_MIN);
    let scratch = Scratch::create("ids").map_err(broken)?;
    let place = scratch.path();
    write_files(place, of.engine, &load.frames, passes)?;
    let config = RunConfig {
        port: port(place)?,
        card_cores: cpus[..1].to_vec(),
        engine_cpus: cpus.iter().rev().take(count).copied().collect(),
        suricata: place.join("suricata"),
        config: place.join("suricata.yaml"),
        directory: place.join("out"),
    };
    let expected = alerts::of_one_engine(&load);
    let shares = shares(&load, &partition);
    let run = IdsRun::start(config, (load.rules, partition), &|| false).map_err(broken)?;
    let packets = load.frames.len() as u64;
    let (times, result) = to_the_end(run, passes * packets)?;
    let expected: Alerts = expected.into_iter().map(|(sid, of)| (sid, passes * of)).collect();
    let found: Alerts = result.alerts.iter().map(|((_, sid), count)| (*sid, *count)).collect();
    // Of all packets of the trace the share of a pass.
    let pass_ns = |time: &Duration| {
        let counted = passes * packets - passes * packets / WARMING;
        (time.as_nanos() as f64 * packets as f64 / counted as f64) as u64
    };
    let lost = |engine: &niclab_ids::run::EngineResult| {
        engine.packets_dropped + engine.packets_missed.unwrap_or(0)
    };
    let core = |(at, share): (usize, &DetectionCore)| DetectionCore {
        worked_ns: pass_ns(&times[at]),
        memory_bytes: result.engines[at].resident_bytes,
        ..*share
    };
    let cores: Vec<DetectionCore> = shares.iter().enumerate().map(core).collect();
    let observed = DetectionObservation {
        packets,
        bytes: load.frames.iter().map(|frame| frame.len() as u64 + FCS_LEN).sum(),
        alerts: expected.values().sum(),
        wrong: alerts::difference(&found, &expected),
        lost: result.packets_missed + result.engines.iter().map(lost).sum::<u64>(),
        given_up: 0,
        passes_ns: cores.iter().map(|core| core.worked_ns).max().into_iter().collect(),
        worked_ns: vec![cores.iter().map(|core| core.worked_ns).sum()],
        cores,
        is_disturbed: false,
        card_ns: None,
        cache_misses: None,
    };
    Ok((observed, result.packets))
}

/// Rules and packets of each core in a pass.
fn shares(load: &DetectionLoad, partition: &Partition) -> Vec<DetectionCore> {
    let rules = |core| (0..load.rules.len()).filter(|rule| partition.has(core, *rule)).count();
    let share = |core| DetectionCore { rules: rules(core) as u64, ..DetectionCore::default() };
    let mut shares: Vec<DetectionCore> = (0..partition.cores_count()).map(share).collect();
    for frame in &load.frames {
        let flow = flow_of(frame);
        let route = flow.map_or(partition.route_of_others(), |flow| partition.route(&flow));
        for (core, share) in shares.iter_mut().enumerate() {
            if route.cores >> core & 1 == 1 {
                share.packets += 1;
                share.bytes += frame.len() as u64 + FCS_LEN;
            }
        }
    }
    shares
}

/// Lets a run see its trace to the end. Returns the time of each engine, too.
fn to_the_end(mut run: IdsRun, packets: u64) -> Result<(Vec<Duration>, RunResult), DeviceError> {
    let gone = || broken("an engine is gone");
    let cpu = |run: &IdsRun| run.cpu().into_iter().collect::<Option<Vec<_>>>().ok_or_else(gone);
    let (until, mut before) = (Instant::now() + PATIENCE, None);
    loop {
        if before.is_none() && run.progress().0 >= packets / WARMING {
            before = Some((cpu(&run)?, run.progress().0));
        }
        if run.is_finished() {
            break;
        }
        for event in run.turn(TURN) {
            if let RunEvent::Died { error, .. } = event {
                return Err(broken(format!("Suricata: {error}")));
            }
        }
        if Instant::now() > until {
            return Err(broken(format!("Suricata did not end in {} s", PATIENCE.as_secs())));
        }
    }
    let (before, from) = before.ok_or_else(gone)?;
    // As many packets as are counted, wherever the first of them was.
    let counted = packets - packets / WARMING;
    let scale = counted as f64 / (packets - from).max(1) as f64;
    let times = cpu(&run)?.into_iter().zip(before);
    let times = times.map(|(now, before)| now.saturating_sub(before).mul_f64(scale)).collect();
    Ok((times, run.shut_down(&|| false).map_err(broken)?))
}

fn port(place: &Path) -> Result<PortName, DeviceError> {
    let name = format!("pcap:in={},speed=max", place.join("in.pcap").display());
    name.parse().map_err(broken)
}

/// Writes the trace, the configuration, and a script that starts Suricata with the libraries that
/// lie beside it.
fn write_files(
    place: &Path,
    engine: InspectionEngine,
    frames: &[Vec<u8>],
    passes: u64,
) -> Result<(), DeviceError> {
    fs::create_dir(place.join("out")).map_err(broken)?;
    let empty = EMPTY_FILES.iter().try_for_each(|name| fs::write(place.join(name), ""));
    empty.map_err(broken)?;
    let matcher = match engine {
        InspectionEngine::SuricataAhoCorasick => "ac",
        InspectionEngine::Suricata | InspectionEngine::Niclab => "auto",
    };
    let [classes, references, thresholds] =
        EMPTY_FILES.map(|name| place.join(name).display().to_string());
    let config = format!(
        "%YAML 1.1\n---\nclassification-file: {classes}\nreference-config-file: {references}\n\
         threshold-file: {thresholds}\nmpm-algo: {matcher}\n"
    );
    fs::write(place.join("suricata.yaml"), config).map_err(broken)?;
    let program = find()?;
    let libraries = program.with_file_name(format!("../lib/{}-linux-gnu", std::env::consts::ARCH));
    let script = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' -k none \"$@\"\n",
        libraries.display(),
        program.display()
    );
    let path = place.join("suricata");
    fs::write(&path, script).map_err(broken)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(broken)?;
    let file = File::create(place.join("in.pcap")).map_err(broken)?;
    write_trace(file, frames, passes).map_err(broken)
}

/// Writes the frames of all passes.
fn write_trace(file: File, frames: &[Vec<u8>], passes: u64) -> Result<(), TraceError> {
    let file = BufWriter::new(file);
    let mut writer = Writer::new(file, Format::Pcap(Endian::Little, Resolution::Micro))?;
    let all = (0..passes).flat_map(|_| frames);
    for (timestamp_ns, data) in (0..).step_by(1_000).zip(all) {
        let original_len = data.len() as u32;
        writer.write(&Record { timestamp_ns, original_len, link_type: LINK_ETHERNET, data })?;
    }
    writer.finish()?;
    Ok(())
}
