//! The tests of flower filters on Debian's kernel, in the virtual machine of `scripts/guest`: the
//! kernel of this host may lack the classifier.

use std::env;
use std::process::Command;

use crate::pair::tests::alone;

/// The tests that are carried out there.
const TESTS: [&str; 2] = ["linux::flower::tests::", "linux::tc_tests::"];

#[test]
fn rules_work_on_debians_kernel() {
    let test = "rules_work_on_debians_kernel";
    let _cores = alone();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/guest");
    let mut command = Command::new(script);
    command
        .arg(env::current_exe().unwrap())
        .args(TESTS)
        .args(["--test-threads=1", "--show-output"]);
    let ended = command.output().unwrap();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    if ended.status.code() == Some(77) {
        return println!("SKIP {test}: {}", err.trim());
    }
    assert!(ended.status.success(), "{out}{err}");
    let skipped = out.lines().find(|line| line.starts_with("SKIP "));
    assert_eq!(skipped, None, "that kernel has what this one lacks");
    assert!(out.contains("test linux::flower::tests::a_filter_in_the_kernel_drops"), "{out}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
