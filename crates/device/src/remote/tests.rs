//! Agents that are scripts of the shell: greetings, answers, ends.

use std::fs;

use niclab_load::{Arrivals, Load, LoadObservation, Rate};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

use super::protocol::VERSION;
use super::*;
use crate::face::{Fact, Function, Receive};
use crate::plan::Plan;
use crate::two_hosts::{
    DeviceObservation, FarRequest, HalfObservation, MarkedTrips, ServeNotice, TesterObservation,
};

/// Agents that are installed.
fn here() -> AgentStart {
    AgentStart { program: "/nowhere/niclab".into(), deploy: false }
}

/// The error of opening `soft` at a script of the shell that stands for the agent.
fn refusal(script: &str, start: &AgentStart) -> String {
    let name = format!("exec:sh -c \"{script}\"=soft");
    let opened = open(&name, start).map(|bed| bed.about().clone());
    let error = opened.unwrap_err().to_string();
    let rest = error.strip_prefix(&name).unwrap_or_else(|| panic!("{error}"));
    let rest = rest.strip_prefix(" failed: ").or(rest.strip_prefix(" was interrupted: "));
    rest.unwrap_or_else(|| panic!("{error}")).to_owned()
}

/// The same without the words that name the agent.
fn of_agent(script: &str) -> String {
    let refusal = refusal(script, &here());
    refusal.strip_prefix("its agent ").unwrap_or_else(|| panic!("{refusal}")).to_owned()
}

#[test]
fn an_agent_that_cannot_be_started_has_a_remedy() {
    let installed = of_agent("echo niclab: not found >&2; exit 127");
    assert_eq!(
        installed,
        "ended: exit status: 127; its output: niclab: not found; install niclab there, in the PATH \
         of a command without a login, or copy this one with --deploy"
    );
    assert!(of_agent("exit 3").starts_with("ended: exit status: 3"));
    assert!(of_agent("kill -9 $$").starts_with("ended: signal: 9"));
    let absent = AgentStart { program: "/nowhere/niclab".into(), deploy: true };
    let error = refusal("exit 0", &absent);
    assert_eq!(error, "/nowhere/niclab: No such file or directory (os error 2)");
}

#[test]
fn an_agent_of_another_version_is_not_asked() {
    let error = of_agent("echo '{\\\"niclab_agent\\\":\\\"0.0.9\\\"}'; cat");
    assert!(error.starts_with("is niclab 0.0.9, this one is "), "{error}");
    assert!(error.ends_with("install the same there, or copy this one with --deploy"), "{error}");
}

#[test]
fn what_is_no_greeting_is_passed_over_up_to_a_limit() {
    let error = of_agent("yes welcome");
    assert_eq!(error, "does not greet as niclab's does");
    let error = of_agent("echo welcome; exit 4");
    assert!(error.starts_with("ended: exit status: 4"), "{error}");
}

/// Reads a request, and passes signs of life before it.
const NEXT_REQUEST: &str =
    "while read line; do case \\$line in '\\\"here\\\"') ;; *) break ;; esac; done";

/// A script that greets, passes a login's words before it, and answers each request with the next
/// of these lines.
fn answering(answers: &[&str]) -> String {
    let quote = |text: &str| text.replace('"', "\\\"");
    let mut script = format!(
        "echo Last login; echo '{}'",
        quote(&format!("{{\"niclab_agent\":\"{VERSION}\"}}"))
    );
    for answer in answers {
        script += &format!("; {NEXT_REQUEST}; echo '{}'", quote(answer));
    }
    script
}

const OPENED: &str = r#"{"opened":{"about":{"name":"soft","facts":[],"places":[],
    "not_supported":[]},"environment":{"place":"","facts":[],"noise":[]},"machine":"m"}}"#;

fn opened() -> String {
    OPENED.replace("\n    ", "")
}

#[test]
fn an_agent_that_works_is_waited_for_and_its_host_is_a_fact() {
    let working = format!("\"working\"'; echo '{}", opened());
    let script = answering(&[&working]);
    let name = format!("exec:sh -c \"{script}; cat\"=soft");
    let bed = open(&name, &here()).map_err(|error| error.to_string()).unwrap();
    assert_eq!(bed.about().name, name);
    assert_eq!(
        bed.about().facts,
        [Fact { name: "host".into(), value: format!("exec:sh -c \"{script}; cat\"") }]
    );
}

#[test]
fn answers_to_other_requests_and_garbage_end_the_agent() {
    let error = of_agent(&(answering(&["{\"refused\":7}"]) + "; cat"));
    assert_eq!(error, "gave an unreadable answer: {\"refused\":7}");
    let ready = r#"{"tried":{"cases":[]}}"#;
    let error = of_agent(&(answering(&[ready]) + "; cat"));
    assert_eq!(error, format!("gave the answer to another question: {ready}"));
}

#[test]
fn an_error_of_the_other_host_says_so() {
    let absent = r#"{"refused":{"absent":{"what":"interface eth9","remedy":"look"}}}"#;
    let name = format!("exec:sh -c \"{}; cat\"=soft", answering(&[absent]));
    let error = open(&name, &here()).map(|bed| bed.about().clone()).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("on exec:sh"), "{error}");
    assert!(error.ends_with(": interface eth9 not found: look"), "{error}");
}

#[test]
fn an_agent_that_dies_is_started_again_by_the_next_set_up() {
    let place = tempfile::tempdir().unwrap();
    let count = place.path().join("count");
    let script = format!("echo >>{}; {}", count.display(), answering(&[&opened()]));
    let name = format!("exec:sh -c \"{script}; read line\"=soft");
    let mut bed = open(&name, &here()).map_err(|e| e.to_string()).unwrap();
    for starts in [1, 2, 3] {
        let error = bed.setup(&setup()).unwrap_err().to_string();
        assert!(error.contains("ended: exit status: 0"), "{error}");
        assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), starts);
    }
}

fn setup() -> Setup {
    Setup {
        rules: Vec::new(),
        queues: 1,
        cores: 1,
        ports: 1,
        receive: Receive::default(),
        function: Function::default(),
        frame_len_max: 64,
    }
}

/// A trial between halves whose agents give these answers, behind those of the set-up.
fn trial(tester: &[AgentAnswer], device: &[AgentAnswer]) -> Result<Observation, String> {
    let ready = AgentAnswer::Ready(SetupReport::default());
    let names = [tester, device].map(|answers| {
        let text = |answer: &AgentAnswer| serde_json::to_string(answer).unwrap();
        let mut lines = vec![opened()];
        lines.extend([&ready].into_iter().chain(answers).map(text));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!("exec:sh -c \"{}; cat\"=linux:eth0", answering(&lines))
    });
    let [tester, device] = &names;
    let mut bed = open(&of_halves(tester, device), &here()).map_err(|e| e.to_string())?;
    bed.setup(&setup()).map_err(|e| e.to_string())?;
    let load = Load {
        flows: FlowSpec::default(),
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Pps(1000.0),
        arrivals: Arrivals::Constant,
        duration_ns: 1_000_000,
        warmup_ns: 0,
        seed: 1,
        trace: None,
    };
    bed.measure(&Task::Load { load, plan: Plan::Rest }).map_err(|error| {
        let error = error.to_string();
        let half = |name: &String, half: &str| error.replace(name, half);
        match error.starts_with(tester.as_str()) {
            true => half(tester, "TESTER"),
            false => half(device, "DEVICE"),
        }
    })
}

/// The answers of a tester and a device to one trial, up to the tester's load.
fn begun() -> (Vec<AgentAnswer>, Vec<AgentAnswer>) {
    let tester = vec![
        AgentAnswer::Half(HalfObservation::Marked(MarkedTrips::default())),
        AgentAnswer::Half(HalfObservation::Clock(1_000)),
    ];
    let device = vec![
        AgentAnswer::Notice(ServeNotice::Serving { now_ns: 1, depth: 64 }),
        AgentAnswer::Notice(ServeNotice::Markers { seen: Vec::new(), now_ns: 2 }),
        AgentAnswer::Notice(ServeNotice::Opening { now_ns: 3 }),
    ];
    (tester, device)
}

fn offered() -> AgentAnswer {
    AgentAnswer::Half(HalfObservation::Offered(Box::default()))
}

fn served(observation: DeviceObservation) -> AgentAnswer {
    AgentAnswer::Half(HalfObservation::Served(Box::new(observation)))
}

/// A tester that is not ready in time gets another beginning.
#[test]
fn a_trial_that_began_too_late_is_begun_again() {
    let (mut tester, mut device) = begun();
    tester.push(AgentAnswer::Refused(DeviceError::TooLate));
    device.push(served(DeviceObservation::default()));
    let (again, served_again) = begun();
    tester.extend(again);
    device.extend(served_again);
    let load = LoadObservation { offered: 7, received: 7, ..LoadObservation::default() };
    let offered = TesterObservation { load, ..TesterObservation::default() };
    tester.push(AgentAnswer::Half(HalfObservation::Offered(Box::new(offered))));
    device.push(served(DeviceObservation::default()));
    match trial(&tester, &device).unwrap() {
        Observation::Load(load) => assert_eq!(load.offered, 7),
        other => panic!("{other:?}"),
    }
}

/// The device hands an error of the tester on; it is reported as the tester's.
#[test]
fn an_error_of_the_tester_names_the_tester() {
    let broken = || DeviceError::Broken { device: "linux".into(), reason: "no ring".into() };
    let tester = [AgentAnswer::Refused(broken())];
    let device = [AgentAnswer::Ask(FarRequest::Receive), AgentAnswer::Refused(broken())];
    assert_eq!(trial(&tester, &device), Err("TESTER failed: no ring".into()));
    assert_eq!(trial(&[], &device[1..]), Err("DEVICE failed: no ring".into()));
}

#[test]
fn each_half_whose_link_is_down_is_named() {
    let names = ["it is down", "it has no carrier"].map(|reason| {
        let broken = DeviceError::Broken { device: "linux".into(), reason: reason.into() };
        let refused = serde_json::to_string(&AgentAnswer::Refused(broken)).unwrap();
        format!("exec:sh -c \"{}; cat\"=linux:eth0", answering(&[&refused]))
    });
    let [tester, device] = &names;
    let opened = open(&of_halves(tester, device), &here()).map(|bed| bed.about().clone());
    let both = format!("{tester} failed: it is down; {device} failed: it has no carrier");
    assert_eq!(opened.unwrap_err().to_string(), both);
}

/// Numbers that cannot be end the agent that gave them.
#[test]
fn observations_that_cannot_be_are_refused() {
    let (mut tester, mut device) = begun();
    tester.push(offered());
    let observation = DeviceObservation { idle_ratio: Some(7.0), ..DeviceObservation::default() };
    device.push(served(observation));
    let error = trial(&tester, &device).unwrap_err();
    assert_eq!(error, "DEVICE was interrupted: its agent gave counters that cannot be");
    let (_, mut device) = begun();
    let marked = MarkedTrips { sent: 1_000, trips: Vec::new() };
    let tester = [AgentAnswer::Half(HalfObservation::Marked(marked))];
    device.truncate(1);
    device.push(served(DeviceObservation::default()));
    let error = trial(&tester, &device).unwrap_err();
    assert_eq!(error, "TESTER was interrupted: its agent gave more markers than it was asked for");
}
