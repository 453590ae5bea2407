//! What the helper says to whoever starts it: nothing where it is asked nothing, and what is wrong
//! where a line is no question.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

fn started() -> Child {
    Command::new(env!("CARGO_BIN_EXE_niclab-dpdk"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn it_ends_with_its_input_and_says_nothing() {
    let ended = started().wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stdout.is_empty() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn a_line_that_is_no_question_ends_it_with_the_reason() {
    let mut helper = started();
    // It stays open: its end is not what ends the helper.
    let mut input = helper.stdin.take().unwrap();
    input.write_all(b"no question\n").unwrap();
    assert!(!helper.wait().unwrap().success());
    let mut said = String::new();
    helper.stderr.unwrap().read_to_string(&mut said).unwrap();
    assert!(said.starts_with("niclab-dpdk: expected"), "{said}");
}
