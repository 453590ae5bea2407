//! The built command on Debian's kernel, in the virtual machine of `scripts/guest`. It has a card
//! with RSS, and the classifier and the actions that the kernel of this host may lack.
//!
//! The machine boots once. The first test that asks for it starts this program there, which carries
//! out all tests; each test then reports its own result. `linux` has the tests of `linux:` devices;
//! `dpdk` those of DPDK's port on a TAP interface, to which tests of `dpdk:--vdev=net_tap0` with
//! rules belong, too. `script` tests the script itself, on this host.
#![forbid(unsafe_code)]

mod dpdk;
mod linux;
mod script;

use std::env;
use std::process::{Command, Output};
use std::sync::OnceLock;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/guest");

/// Set in the guest.
const INSIDE: &str = "NICLAB_IN_GUEST";

/// The exit code of `scripts/guest` if this host lacks something that it needs.
const MISSING: i32 = 77;

/// `true` in the guest. Elsewhere it takes the result of the test from the guest.
fn is_inside(test: &str) -> bool {
    static ENDED: OnceLock<Output> = OnceLock::new();
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    if env::var_os("NICLAB_TEST_ALL").is_none() {
        println!("SKIP {test}: takes more than ten seconds: ./test --all");
        return false;
    }
    let ended = ENDED.get_or_init(run_in_guest);
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    if ended.status.code() == Some(MISSING) {
        println!("SKIP {test}: {}", err.trim());
        return false;
    }
    let is_of_it = |line: &&str| line.contains(&format!("::{test} ... "));
    let result = out.lines().find(is_of_it).unwrap_or_else(|| panic!("no result: {out}{err}"));
    assert!(result.ends_with(" ok"), "{out}{err}");
    let skip = format!("SKIP {test}: ");
    out.lines().filter(|line| line.starts_with(&skip)).for_each(|line| println!("{line}"));
    false
}

fn run_in_guest() -> Output {
    let program = env::current_exe().unwrap();
    let mut command = Command::new(SCRIPT);
    command.args(["--nic", "rss", "env", &format!("{INSIDE}=1")]).arg(program);
    command.args(["--test-threads=1", "--show-output", "--skip", "script::"]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command says; it must end well.
#[track_caller]
fn said(program: &str, arguments: &[&str]) -> String {
    let ended = Command::new(program).args(arguments).output();
    let ended = ended.unwrap_or_else(|error| panic!("{program}: {error}"));
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{program} {}: {out}{err}", arguments.join(" "));
    out
}
