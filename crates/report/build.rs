//! Brings the drawing scripts into `OUT_DIR`: from npm, in the versions of the lock file.
//!
//! With `NICLAB_REPORT_SCRIPTS=DIR` they are copied from there and npm is not needed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The scripts, as paths below `node_modules`.
const SCRIPTS: [&str; 3] = [
    "vega/build/vega.min.js",
    "vega-lite/build/vega-lite.min.js",
    "vega-embed/build/vega-embed.min.js",
];
const LOCKED: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];
const REMEDY: &str = "install node and npm, or set NICLAB_REPORT_SCRIPTS to a directory that holds \
                      vega.min.js, vega-lite.min.js and vega-embed.min.js";

fn main() {
    println!("cargo::rerun-if-env-changed=NICLAB_REPORT_SCRIPTS");
    println!("cargo::rerun-if-changed=build.rs");
    for name in LOCKED {
        println!("cargo::rerun-if-changed=scripts/{name}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    match env::var_os("NICLAB_REPORT_SCRIPTS").map(PathBuf::from) {
        Some(given) => {
            for name in SCRIPTS.map(file_name) {
                println!("cargo::rerun-if-changed={}", given.join(name).display());
                place(&given.join(name), &out.join(name));
            }
        }
        None => fetch(&out),
    }
}

/// Installs what the lock names, once per lock, and keeps the three files.
fn fetch(out: &Path) {
    let lock = fs::read("scripts/package-lock.json").expect("scripts/package-lock.json is kept");
    let stamp = out.join("fetched-lock.json");
    let present = SCRIPTS
        .iter()
        .all(|script| out.join(file_name(script)).is_file());
    if present && fs::read(&stamp).is_ok_and(|fetched| fetched == lock) {
        return;
    }
    let _ = fs::remove_file(&stamp);
    let folder = out.join("npm");
    fs::create_dir_all(&folder).expect("OUT_DIR can be written");
    for name in LOCKED {
        place(&Path::new("scripts").join(name), &folder.join(name));
    }
    let status = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .status()
        .unwrap_or_else(|error| panic!("npm could not be started ({error}): {REMEDY}"));
    assert!(
        status.success(),
        "npm ci failed ({status}): look above for why, or {REMEDY}"
    );
    for script in SCRIPTS {
        place(
            &folder.join("node_modules").join(script),
            &out.join(file_name(script)),
        );
    }
    let _ = fs::remove_dir_all(&folder);
    fs::write(&stamp, lock).expect("OUT_DIR can be written");
}

/// Copies a text without its last line's `sourceMappingURL`, which names a file left behind.
fn place(from: &Path, to: &Path) {
    let text = fs::read_to_string(from)
        .unwrap_or_else(|error| panic!("{}: {error}: {REMEDY}", from.display()));
    let text = text
        .split("//# sourceMappingURL=")
        .next()
        .unwrap_or_default();
    fs::write(to, text).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
}

fn file_name(script: &'static str) -> &'static str {
    script.rsplit('/').next().unwrap_or(script)
}
