//! niclab's DPDK driver, for tests that need it.

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Builds it unless it is there; says why that cannot be.
pub fn build() -> Result<(), String> {
    let target = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().parent().unwrap();
    if target.join("dpdk-driver/librte_net_niclab.so").is_file() {
        return Ok(());
    }
    let deps = std::env::current_exe().unwrap();
    let library = deps.parent().unwrap().join("libniclab.a");
    if !library.is_file() {
        return Err("no libniclab.a beside the test: cargo build -p niclab-capi".into());
    }
    let mut build = Command::new("dpdk/driver/build");
    build.current_dir(ROOT).env("NICLAB_LIBRARY", library).env("CARGO_TARGET_DIR", target);
    let built = build.output().unwrap();
    if built.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    Err(said.lines().last().unwrap_or("no driver").to_owned())
}
