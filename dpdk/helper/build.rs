//! Compiles the shim with DPDK's own flags and links libdpdk, as `pkg-config` says.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../shim");
    let missing = "libdpdk is missing: apt-get install libdpdk-dev";
    let flags = Command::new("pkg-config").args(["--cflags", "libdpdk"]).output().expect(missing);
    assert!(flags.status.success(), "{missing}");
    let flags = String::from_utf8(flags.stdout).expect("pkg-config speaks UTF-8");
    let mut build = cc::Build::new();
    // Templates and operation queues of rte_flow are experimental in 22.11.
    build.define("ALLOW_EXPERIMENTAL_API", None);
    build
        .files(["../shim/shim.c", "../shim/flow.c"])
        .extra_warnings(true)
        .warnings(true)
        .warnings_into_errors(true);
    for flag in flags.split_whitespace() {
        build.flag(flag);
    }
    build.compile("niclab_shim");
    pkg_config::Config::new().atleast_version("22.11").probe("libdpdk").expect(missing);
    // The one driver that is called by name (rte_eth_from_rings); the others load themselves.
    println!("cargo::rustc-link-lib=rte_net_ring");
}
