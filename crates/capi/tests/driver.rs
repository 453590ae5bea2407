//! The scripts of `dpdk/driver/tests`: DPDK's own programs run on the driver `net_niclab`.
//!
//! Each script prints a line for each check, and ends with how many passed. The driver is built
//! once, with the library of this build.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// The exit code of a script that cannot run here.
const SKIPPED: i32 = 77;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The static library that this build made, beside the test.
fn library() -> Option<PathBuf> {
    let library = std::env::current_exe().ok()?.parent()?.join("libniclab.a");
    library.exists().then_some(library)
}

/// The driver; or why there is none.
fn driver() -> Result<&'static (PathBuf, PathBuf), &'static String> {
    static DRIVER: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
    let build = || {
        let has_dpdk = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
        if !has_dpdk.is_ok_and(|status| status.success()) {
            return Err("libdpdk is missing".to_owned());
        }
        let library = library().ok_or("no libniclab.a beside the test")?;
        let built = Command::new("dpdk/driver/build")
            .current_dir(root())
            .env("NICLAB_LIBRARY", &library)
            .output()
            .map_err(|error| error.to_string())?;
        let (out, err) =
            (String::from_utf8_lossy(&built.stdout), String::from_utf8_lossy(&built.stderr));
        let is_offline = err.contains("no source package");
        assert!(built.status.success() || is_offline, "the driver does not build: {out}{err}");
        let driver = out.lines().last().map(|path| root().join(path));
        match driver {
            Some(driver) if built.status.success() => Ok((driver, library)),
            _ => Err(err.lines().last().unwrap_or("no driver").to_owned()),
        }
    };
    DRIVER.get_or_init(build).as_ref()
}

/// Runs a script, one at a time: each uses all the cores that there are.
fn run(script: &str) {
    static RUNNING: Mutex<()> = Mutex::new(());
    let (driver, library) = match driver() {
        Ok(built) => built,
        Err(reason) => {
            println!("SKIP {script}: {reason}");
            return;
        }
    };
    let _alone = RUNNING.lock();
    let output = Command::new(root().join("dpdk/driver/tests").join(script))
        .env("NICLAB_DRIVER", driver)
        .env("NICLAB_LIBRARY", library)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(SKIPPED) {
        return;
    }
    assert!(output.status.success(), "{script} failed");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.ends_with(" passed, 0 failed") && !last.starts_with("0 "), "{script}: {last}");
}

/// [`run`] for a script that takes more than ten seconds.
fn run_long(script: &str) {
    match std::env::var_os("NICLAB_TEST_ALL") {
        Some(_) => run(script),
        None => println!("SKIP {script}: takes more than ten seconds: ./test --all"),
    }
}

#[test]
fn testpmd_forwards_and_changes_rules() {
    run_long("testpmd");
}

#[test]
fn flow_perf_creates_and_deletes_every_kind_of_rule() {
    run_long("flow-perf");
}

#[test]
fn rules_are_created_one_by_one_and_asynchronously() {
    run("rules");
}

#[test]
fn every_item_and_action_that_testpmd_has_no_frame_for_matches_and_misses() {
    run("items");
}

#[test]
fn handles_counters_and_templates_are_right_in_seldom_used_cases() {
    run("faults");
}

#[test]
fn a_port_with_a_profile_has_the_times_and_limits_of_the_card() {
    run_long("profile");
}

#[test]
fn l2fwd_and_l3fwd_forward_a_trace() {
    run_long("forwarding");
}

#[test]
fn the_kernel_talks_to_a_tap_port() {
    run("tap");
}

#[test]
fn ports_open_and_close_under_address_sanitizer() {
    run_long("cycles");
}
