//! A card and its engines at work, on traces.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use niclab_ids::Variables;
use niclab_ids::partition::{Partition, Traffic};
use niclab_ids::rule::{Rule, read};
use niclab_ids::run::{EVE, EngineError, IdsRun, RunConfig, RunError, RunEvent, RunResult};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::ethernet;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::traffic::{self, ends};
use crate::{CONFIG, RULES, Suricata, count, write_trace};

/// No run may take longer.
const PATIENCE: Duration = Duration::from_secs(120);

fn divided(text: &str, cores: usize) -> (Vec<Rule>, Partition) {
    let rules = read(text, &Variables::from_config(CONFIG).unwrap()).unwrap();
    let partition = Partition::new(&rules, &Traffic::default(), cores).unwrap();
    (rules, partition)
}

impl Suricata {
    /// A directory with what a run of these frames needs.
    fn config(
        &self,
        place: &Path,
        frames: &[(u64, &[u8])],
        speed: &str,
        cores: usize,
    ) -> RunConfig {
        fs::create_dir_all(place.join("out")).unwrap();
        for file in ["classification.config", "reference.config", "threshold.config"] {
            fs::write(place.join(file), "").unwrap();
        }
        let mut config = CONFIG.to_owned();
        for key in ["classification-file: ", "reference-config-file: ", "threshold-file: "] {
            config = config.replace(key, &format!("{key}{}/", place.display()));
        }
        fs::write(place.join("suricata.yaml"), config).unwrap();
        write_trace(&place.join("in.pcap"), frames);
        let wrapper = place.join("suricata");
        let (libraries, program) = (self.libraries(), self.program.display());
        let text = format!(
            "#!/bin/sh\nLD_LIBRARY_PATH={} exec {program} -k none \"$@\"\n",
            libraries.display()
        );
        fs::write(&wrapper, text).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let port = format!("pcap:in={}/in.pcap,speed={speed}", place.display());
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let allowed = (0..1024).filter(|&cpu| allowed.is_set(cpu)).map(|cpu| cpu as u32);
        let allowed: Vec<u32> = allowed.collect();
        RunConfig {
            port: port.parse().unwrap(),
            card_cores: allowed[..1].to_vec(),
            engine_cpus: allowed.iter().rev().copied().cycle().take(cores).collect(),
            suricata: wrapper,
            config: place.join("suricata.yaml"),
            directory: place.join("out"),
        }
    }
}

/// Lets a run see its trace to the end.
fn to_the_end(mut run: IdsRun, mut on: impl FnMut(&mut IdsRun, RunEvent)) -> RunResult {
    let until = Instant::now() + PATIENCE;
    while !run.is_finished() {
        assert!(Instant::now() < until, "the trace has not ended");
        for event in run.turn(Duration::from_millis(20)) {
            on(&mut run, event);
        }
    }
    run.shut_down(&|| false).unwrap()
}

fn events(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join(EVE)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An alert, as far as it does not depend on when and by which engine it was reported.
fn key(alert: &Value) -> String {
    crate::key(alert).split_once(' ').unwrap().1.to_owned()
}

#[test]
fn a_card_with_engines_reports_what_one_engine_does() {
    let test = "a_card_with_engines_reports_what_one_engine_does";
    let Some(suricata) = Suricata::find(test) else { return };
    let frames = traffic::all(7);
    let at = |index: usize| 1_700_000_000_000_000_000 + index as u64 * 1_000_000;
    let frames: Vec<(u64, &[u8])> =
        frames.iter().enumerate().map(|(index, frame)| (at(index), &frame[..])).collect();
    let whole = count(suricata.alerts("whole", RULES, &frames).iter().map(key));
    for cores in 1..=8 {
        let place = suricata.place.path().join(format!("run-{cores}"));
        let config = suricata.config(&place, &frames, "max", cores);
        let run = IdsRun::start(config, divided(RULES, cores), &|| false).unwrap();
        let result = to_the_end(run, |_, event| panic!("{event:?}"));
        let events = events(&place.join("out"));
        let parts = count(events.iter().map(key));
        let missing: Vec<_> = whole.iter().filter(|(key, n)| parts.get(*key) != Some(n)).collect();
        let added: Vec<_> = parts.iter().filter(|(key, n)| whole.get(*key) != Some(n)).collect();
        assert!(missing.is_empty() && added.is_empty(), "{cores} cores: {missing:?} {added:?}");
        let lost = |of: &niclab_ids::run::EngineResult| {
            of.packets_dropped + of.packets_missed.unwrap() + of.deaths + of.events.damaged
        };
        let lost: u64 = result.engines.iter().map(lost).sum();
        assert_eq!(lost, 0, "{cores} cores: {:?}", result.engines);
        assert_eq!(result.packets, frames.len() as u64);
        let alerts: u64 = result.alerts.values().sum();
        assert_eq!(alerts, events.len() as u64);
        let times: Vec<&str> = events.iter().map(|of| of["timestamp"].as_str().unwrap()).collect();
        assert!(times.is_sorted() && result.late == 0, "{cores} cores");
    }
}

/// Datagrams whose source port is their number, to these ports in turn, one each millisecond.
fn numbered(count: u16, ports: &[u16], payload: &[u8]) -> Vec<Vec<u8>> {
    let datagram = |number: u16| {
        let to = ports[usize::from(number) % ports.len()];
        let packet = traffic::datagram(ends("192.168.1.2", number, "203.0.113.9", to), payload);
        let ethernet: Layer = ethernet::Repr::default().into();
        build(&[vec![ethernet], packet].concat()).unwrap()
    };
    (1..=count).map(datagram).collect()
}

fn timed(frames: &[Vec<u8>]) -> Vec<(u64, &[u8])> {
    let at = |index: usize| 1_700_000_000_000_000_000 + index as u64 * 1_000_000;
    frames.iter().enumerate().map(|(index, frame)| (at(index), &frame[..])).collect()
}

#[test]
fn other_rules_hold_from_one_packet_on() {
    let test = "other_rules_hold_from_one_packet_on";
    let Some(suricata) = Suricata::find(test) else { return };
    let place = suricata.place.path().join("reload");
    let frames = numbered(12_000, &[5001, 5002, 5003], b"EVIL");
    let config = suricata.config(&place, &timed(&frames), "1", 3);
    let rule = |port: u16, sid: u32, rev: u32| {
        format!("alert udp any any -> any {port} (content:\"EVIL\"; sid:{sid}; rev:{rev};)\n")
    };
    let before = rule(5001, 1, 1) + &rule(5002, 2, 1) + &rule(5003, 3, 1);
    // Another port for each number, so that their cores change, too.
    let after = rule(5003, 1, 2) + &rule(5001, 2, 2) + &rule(5002, 3, 2);
    let mut run = IdsRun::start(config, divided(&before, 3), &|| false).unwrap();
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(2) {
        let happened = run.turn(Duration::from_millis(20));
        assert!(happened.is_empty(), "{happened:?}");
    }
    let (rules, partition) = divided(&after, 3);
    run.reload(rules, partition).unwrap();
    let (rules, partition) = divided(&after, 3);
    assert!(matches!(run.reload(rules, partition), Err(RunError::Reloading)));
    let mut reloaded = 0;
    let result = to_the_end(run, |_, event| match event {
        RunEvent::Reloaded { .. } => reloaded += 1,
        event => panic!("{event:?}"),
    });
    assert_eq!(reloaded, 1);
    let events = events(&place.join("out"));
    let mut by_packet = BTreeMap::new();
    for event in &events {
        let [number, rev] =
            [&event["src_port"], &event["alert"]["rev"]].map(|of| of.as_u64().unwrap());
        assert_eq!(event["alert"]["gid"], 1, "its own again");
        assert!(by_packet.insert(number, rev).is_none(), "packet {number} was reported twice");
    }
    assert_eq!(by_packet.len(), frames.len(), "each packet has an alert");
    let revs: Vec<u64> = by_packet.into_values().collect();
    assert!(revs.is_sorted() && revs[0] == 1 && revs.ends_with(&[2]), "at one packet");
    assert_eq!(result.alerts.keys().map(|(gid, _)| *gid).max(), Some(1));
}

#[test]
fn an_engine_without_packets_takes_other_rules() {
    let test = "an_engine_without_packets_takes_other_rules";
    let Some(suricata) = Suricata::find(test) else { return };
    let place = suricata.place.path().join("idle");
    let frames = numbered(5_000, &[5001], b"EVIL");
    let config = suricata.config(&place, &timed(&frames), "1", 2);
    let rules = "alert udp any any -> any 5001 (content:\"EVIL\"; sid:1;)\n\
                 alert udp any any -> any 5002 (content:\"EVIL\"; sid:2;)\n";
    let mut run = IdsRun::start(config, divided(rules, 2), &|| false).unwrap();
    let (rules, partition) = divided(&rules.replace("any 5002", "any 5003"), 2);
    run.reload(rules, partition).unwrap();
    let mut reloaded = 0;
    let result = to_the_end(run, |_, event| match event {
        RunEvent::Reloaded { .. } => reloaded += 1,
        event => panic!("{event:?}"),
    });
    assert_eq!(reloaded, 1);
    assert_eq!(result.alerts.get(&(1, 1)), Some(&(frames.len() as u64)), "{:?}", result.alerts);
    let missed: Vec<_> = result.engines.iter().map(|engine| engine.packets_missed).collect();
    assert_eq!(missed, [Some(0), Some(0)]);
}

#[test]
fn rules_that_an_engine_refuses_change_nothing() {
    let test = "rules_that_an_engine_refuses_change_nothing";
    let Some(suricata) = Suricata::find(test) else { return };
    let place = suricata.place.path().join("refused");
    let frames = numbered(6_000, &[5001, 5002], b"EVIL");
    let config = suricata.config(&place, &timed(&frames), "1", 2);
    let good = "alert udp any any -> any 5001 (content:\"EVIL\"; sid:1;)\n\
                alert udp any any -> any 5002 (content:\"EVIL\"; sid:2;)\n";
    // Every engine has the last one.
    let bad = "alert udp any any -> any 5001 (content:\"EVIL\"; sid:1;)\n\
               alert udp any any -> any 5002 (content:\"EVIL\"; sid:2;)\n\
               alert udp any any -> any any (pcre:\"/(/\"; sid:3;)\n";
    let refused = IdsRun::start(
        suricata.config(&suricata.place.path().join("bad"), &timed(&frames[..1]), "1", 2),
        divided(bad, 2),
        &|| false,
    );
    let error = refused.err().unwrap();
    let is_of_rules = matches!(
        &error,
        RunError::Engine { error: EngineError::Rules { count: 1, .. } | EngineError::Ended(_), .. }
    );
    assert!(is_of_rules, "{error}");
    let mut run = IdsRun::start(config, divided(good, 2), &|| false).unwrap();
    let (rules, partition) = divided(bad, 2);
    run.reload(rules, partition).unwrap();
    let mut refusals = 0;
    let result = to_the_end(run, |_, event| match event {
        RunEvent::NotReloaded(error) => {
            refusals += 1;
            assert!(error.to_string().contains("sid:3"), "{error}");
        }
        event => panic!("{event:?}"),
    });
    assert_eq!(refusals, 1);
    assert_eq!(result.alerts.values().sum::<u64>(), frames.len() as u64);
}

#[test]
fn an_engine_that_dies_is_started_again() {
    let test = "an_engine_that_dies_is_started_again";
    let Some(suricata) = Suricata::find(test) else { return };
    let place = suricata.place.path().join("dies");
    let frames = numbered(12_000, &[5001, 5002], b"EVIL");
    let config = suricata.config(&place, &timed(&frames), "1", 2);
    let rules = "alert udp any any -> any 5001 (content:\"EVIL\"; sid:1;)\n\
                 alert udp any any -> any 5002 (content:\"EVIL\"; sid:2;)\n";
    let mut run = IdsRun::start(config, divided(rules, 2), &|| false).unwrap();
    run.turn(Duration::from_secs(1));
    let pid = Pid::from_raw(run.pids()[1].unwrap() as i32).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let mut happened = Vec::new();
    let result = to_the_end(run, |_, event| match event {
        RunEvent::Died { engine: 1, error: EngineError::Ended(how) } => {
            happened.push("died");
            assert!(how.starts_with("signal 9"), "{how}");
        }
        RunEvent::Restarted { engine: 1 } => happened.push("ready"),
        event => panic!("{event:?}"),
    });
    assert_eq!(happened, ["died", "ready"]);
    assert_eq!(result.engines[1].deaths, 1);
    assert!(result.engines.iter().all(|engine| engine.resident_bytes > 10_000_000));
    assert!(result.engines[1].packets_dropped > 0, "while it was not there");
    let numbers = |port: u64| -> Vec<u64> {
        let of = events(&place.join("out"));
        let of = of.iter().filter(|event| event["dest_port"] == port);
        of.map(|event| event["src_port"].as_u64().unwrap()).collect()
    };
    // The engine of the other port has seen all.
    let [first, second] = [numbers(5001), numbers(5002)].map(|numbers| numbers.len());
    assert_eq!(first.max(second), frames.len() / 2);
    let of_the_dead = if first < second { numbers(5001) } else { numbers(5002) };
    assert!(of_the_dead.first() < Some(&1_000) && of_the_dead.last() > Some(&11_000));
}
