//! `niclab.h` is what cbindgen makes of the code.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

#[test]
fn the_header_is_what_cbindgen_makes_of_the_code() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let version = Command::new("cbindgen").arg("--version").output();
    // Releases differ in blanks and order.
    match version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()) {
        Ok(version) if version.starts_with("cbindgen 0.29.") => {}
        Ok(version) => {
            let version = version.trim();
            println!("SKIP the_header_is_what_cbindgen_makes_of_the_code: {version}, not 0.29");
            return;
        }
        Err(error) => {
            println!("SKIP the_header_is_what_cbindgen_makes_of_the_code: no cbindgen ({error})");
            return;
        }
    }
    let made = Command::new("cbindgen")
        .args(["--quiet", "--config", "cbindgen.toml", "."])
        .current_dir(home)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let kept = std::fs::read_to_string(home.join("niclab.h")).unwrap();
    assert!(
        kept == String::from_utf8_lossy(&made.stdout),
        "niclab.h is old; in crates/capi: cbindgen -q --config cbindgen.toml -o niclab.h ."
    );
}
