//! Agents that are scripts of the shell: greetings, answers, ends.

use std::fs;

use super::protocol::VERSION;
use super::*;
use crate::face::Fact;
use crate::face::{Function, Receive};

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

/// A script that greets, passes a login's words before it, and answers each request with the next
/// of these lines.
fn answering(answers: &[&str]) -> String {
    let quote = |text: &str| text.replace('"', "\\\"");
    let mut script = format!(
        "echo Last login; echo '{}'",
        quote(&format!("{{\"niclab_agent\":\"{VERSION}\"}}"))
    );
    for answer in answers {
        script += &format!("; read line; echo '{}'", quote(answer));
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
    let setup = Setup {
        rules: Vec::new(),
        queues: 1,
        cores: 1,
        ports: 1,
        receive: Receive::default(),
        function: Function::default(),
        frame_len_max: 64,
    };
    for starts in [1, 2, 3] {
        let error = bed.setup(&setup).unwrap_err().to_string();
        assert!(error.contains("ended: exit status: 0"), "{error}");
        assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), starts);
    }
}
