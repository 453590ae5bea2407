//! Compiles the programs for the kernel and writes the Rust types of their maps.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use libbpf_cargo::SkeletonBuilder;

const PACKAGES: &str = "apt-get install clang libelf-dev zlib1g-dev pkg-config make gcc";

/// A program at a function of the kernel takes all its arguments, of which it needs few.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"];

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
    for part in ["stamps", "deep"] {
        let source = format!("bpf/{part}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .clang(clang)
            .clang_args(WARNINGS)
            // The kernel's own C: one word may be looked at as two halves.
            .clang_args(["-fno-strict-aliasing"])
            .build_and_generate(Path::new(&out).join(format!("{part}.skel.rs")))
            .map_err(|e| format!("{source} was not built by `{name}`: {e:#}"))?;
    }
    Ok(())
}
