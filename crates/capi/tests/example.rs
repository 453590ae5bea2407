//! The example in C builds with the library, and classifies its frames.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The static library that this build made, beside the test.
fn library() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let library = test.parent()?.join("libniclab.a");
    library.exists().then_some(library)
}

#[test]
fn the_example_in_c_builds_and_runs() {
    let name = "the_example_in_c_builds_and_runs";
    let Some(library) = library() else {
        println!("SKIP {name}: no libniclab.a beside the test");
        return;
    };
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = library.with_file_name("niclab-example");
    let built = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(home)
        .arg(home.join("example.c"))
        .arg(&library)
        .args(["-lelf", "-lz", "-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .output();
    let built = match built {
        Ok(built) => built,
        Err(error) => {
            println!("SKIP {name}: no C compiler ({error})");
            return;
        }
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = Command::new(&program).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "frame 0: queue 3 by a rule");
    assert!(lines[1].starts_with("frame 1: queue ") && lines[1].ends_with(" by RSS"), "{text}");
    assert_eq!(lines[2], "counted 1 packets, 46 bytes");
}
