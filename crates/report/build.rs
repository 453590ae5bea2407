//! Brings the drawing scripts into `OUT_DIR`: from npm, in the versions of the lock file.
//!
//! With `NICLAB_REPORT_SCRIPTS=DIR` they are copied from there and npm is not needed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
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

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=NICLAB_REPORT_SCRIPTS");
    println!("cargo::rerun-if-changed=build.rs");
    for name in LOCKED {
        println!("cargo::rerun-if-changed=scripts/{name}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let done = match env::var_os("NICLAB_REPORT_SCRIPTS").map(PathBuf::from) {
        Some(given) => copy(&given, &out),
        None => fetch(&out),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={}; {REMEDY}", error.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// Where the lock that was last fetched is remembered.
fn stamp(out: &Path) -> PathBuf {
    out.join("fetched-lock.json")
}

/// Takes the scripts from a directory.
fn copy(given: &Path, out: &Path) -> Result<(), String> {
    let _ = fs::remove_file(stamp(out));
    for name in SCRIPTS.map(file_name) {
        println!("cargo::rerun-if-changed={}", given.join(name).display());
        place(&given.join(name), &out.join(name))?;
    }
    Ok(())
}

/// Installs what the lock names, once per lock, and keeps the three files.
fn fetch(out: &Path) -> Result<(), String> {
    let lock = fs::read("scripts/package-lock.json").map_err(|error| error.to_string())?;
    let present = SCRIPTS.iter().all(|script| out.join(file_name(script)).is_file());
    if present && fs::read(stamp(out)).is_ok_and(|fetched| fetched == lock) {
        return Ok(());
    }
    let folder = out.join("npm");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for name in LOCKED {
        place(&Path::new("scripts").join(name), &folder.join(name))?;
    }
    let npm = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(&folder)
        .output()
        .map_err(|error| format!("npm could not be started: {error}"))?;
    if !npm.status.success() {
        return Err(format!("npm ci failed: {}", String::from_utf8_lossy(&npm.stderr)));
    }
    for script in SCRIPTS {
        place(&folder.join("node_modules").join(script), &out.join(file_name(script)))?;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::write(stamp(out), lock).map_err(|error| error.to_string())
}

/// Copies a text without its last line's `sourceMappingURL`, which names a file left behind.
fn place(from: &Path, to: &Path) -> Result<(), String> {
    let text = fs::read_to_string(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let text = text.split("//# sourceMappingURL=").next().unwrap_or_default();
    fs::write(to, text).map_err(|error| format!("{}: {error}", to.display()))
}

fn file_name(script: &'static str) -> &'static str {
    script.rsplit('/').next().unwrap_or(script)
}
