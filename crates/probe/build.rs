//! Compiles the programs for the kernel and writes the Rust types of their maps.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use libbpf_cargo::SkeletonBuilder;

const PACKAGES: &str = "apt-get install clang libelf-dev zlib1g-dev pkg-config make gcc";

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").map_or_else(|| PathBuf::from("clang"), PathBuf::from);
    if let Err(e) = build(&clang) {
        eprintln!("{e}");
        exit(1);
    }
}

fn build(clang: &Path) -> Result<(), String> {
    let name = clang.display();
    match Command::new(clang).arg("--version").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(format!("`{name} --version` failed with {}", output.status)),
        Err(e) => {
            return Err(format!(
                "the programs for the kernel need the compiler clang, and `{name}` does not \
                 start ({e}). On Debian: {PACKAGES}; or say by the variable CLANG where it is"
            ));
        }
    }
    let out = env::var_os("OUT_DIR").ok_or("no OUT_DIR: cargo sets it")?;
    SkeletonBuilder::new()
        .source("bpf/stamps.bpf.c")
        .clang(clang)
        // The kernel's own C: one word may be looked at as two halves.
        .clang_args(["-Wall", "-Wextra", "-Werror", "-fno-strict-aliasing"])
        .build_and_generate(Path::new(&out).join("stamps.skel.rs"))
        .map_err(|e| format!("bpf/stamps.bpf.c was not built by `{name}`: {e:#}"))
}
