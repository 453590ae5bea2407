//! Compiles the program that hands frames to AF_XDP sockets, and writes the Rust types around it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::exit;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "bpf/redirect.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").map_or_else(|| PathBuf::from("clang"), PathBuf::from);
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let built = SkeletonBuilder::new()
        .source(SOURCE)
        .clang(&clang)
        .clang_args(["-Wall", "-Wextra", "-Werror"])
        .build_and_generate(Path::new(&out).join("redirect.skel.rs"));
    if let Err(error) = built {
        eprintln!(
            "{SOURCE} was not built by `{}`: {error:#}. It takes clang (on Debian: apt-get install \
             clang libelf-dev zlib1g-dev pkg-config make gcc); the variable CLANG says where it is",
            clang.display()
        );
        exit(1);
    }
}
