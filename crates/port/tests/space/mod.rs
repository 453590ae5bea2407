//! A network namespace of a test's own.

use std::env;
use std::process::Command;

/// Set in the process that carries a test out in a namespace of its own.
const INSIDE: &str = "NICLAB_INSIDE";

/// Carries a test out in a process of its own, in a network namespace that ends with it.
pub fn apart(test: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    if !rustix::process::geteuid().is_root() {
        return println!("SKIP {test}: network namespaces need root");
    }
    let ran = Command::new("unshare")
        .arg("--net")
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let message =
        [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(ran.status.success(), "{}", message.concat());
}

/// Carries out a command of `ip`.
pub fn ip(line: &str) {
    let status = Command::new("ip").args(line.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {line}");
}
