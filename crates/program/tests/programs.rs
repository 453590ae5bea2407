//! The programs of this project: every packet test of each holds, in both executions, and what is
//! written of a program is read as the same program.

use std::fs;
use std::path::{Path, PathBuf};

use niclab_program::definition::Definition;
use niclab_program::{Program, Single, Stf, carry_out};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs");

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

#[test]
fn every_packet_test_of_every_program_holds() {
    let (mut programs, mut tests) = (0, 0);
    for directory in entries(Path::new(PROGRAMS)).into_iter().filter(|path| path.is_dir()) {
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(directory.join(format!("{name}.spec"))).unwrap();
        let read = Program::read_with_warnings(&text);
        let (program, warnings) = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(warnings, [], "{name}");
        assert_eq!(Program::read(&program.to_string()).as_ref(), Ok(&program), "{name}");
        assert!(directory.join("README.md").exists(), "{name} has no README.md");
        programs += 1;
        let mut own = 0;
        for path in entries(&directory) {
            if path.extension().is_none_or(|extension| extension != "stf") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let stf = Stf::read(&program, &text);
            let stf = stf.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let defined = carry_out(&stf, &mut Definition::new(program.clone()));
            let fast = carry_out(&stf, &mut Single::new(program.clone()).unwrap());
            assert!(defined.failures.is_empty(), "{}: {:?}", path.display(), defined.failures);
            assert_eq!(defined, fast, "{}", path.display());
            assert!(defined.met > 0, "{} expects nothing", path.display());
            own += 1;
        }
        assert!(own > 0, "{name} has no packet test");
        tests += own;
    }
    assert!(programs >= 6, "{programs} programs");
    println!("{programs} programs, {tests} packet tests");
}
