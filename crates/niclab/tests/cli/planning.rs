//! `niclab advise`, and the examples of the book.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{call, scratch};

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

fn advise(device: &str, workload: &Path) -> crate::command::Ended {
    call(&["advise", "--device", device, "--workload", workload.to_str().unwrap()])
}

#[test]
fn the_examples_of_the_book_are_what_advise_says() {
    let page = fs::read_to_string(docs("planning.md")).unwrap();
    let blocks = page.split("```console\n$ niclab advise ").skip(1);
    let mut observed = 0;
    for block in blocks {
        let (command, rest) = block.split_once('\n').unwrap();
        let (shown, _) = rest.split_once("```").unwrap();
        let [_, device, _, file] = command.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{command}")
        };
        let ended = advise(device, &docs(file.strip_prefix("docs/").unwrap()));
        ended.with(0, &[]);
        assert_eq!(ended.out, shown, "copy what it says into docs/planning.md");
        observed += 1;
    }
    assert_eq!(observed, 3);
}

#[test]
fn a_workload_that_cannot_be_is_refused_with_its_file_line_and_key() {
    let scratch = scratch();
    let path = scratch.path().join("bad.toml");
    let good = fs::read_to_string(docs("workloads/nat.toml")).unwrap();
    let line = 1 + good.lines().position(|line| line.starts_with("cores")).unwrap();
    fs::write(&path, good.replace("cores = 2", "cores = 0")).unwrap();
    let message = format!("bad.toml:{line}: cores: 0: use 1 to 1024");
    advise("model:connectx-5", &path).with(3, &[&message]);
    fs::write(&path, good.replace("cores = 2", "kores = 2")).unwrap();
    advise("model:connectx-5", &path).with(3, &[&format!("bad.toml:{line}: kores: unknown field")]);
    fs::write(&path, good.replace("rate_mpps = 6.0", "rate_mpps = 90.0")).unwrap();
    advise("model:connectx-5", &path).with(3, &["rate_mpps: the card's link carries"]);
    advise("model:connectx-5", &scratch.path().join("none.toml"))
        .with(3, &["none.toml: ", "give a file that declares a workload"]);
}

#[test]
fn there_is_nothing_to_advise_of_a_device_that_is_no_model() {
    let nat = docs("workloads/nat.toml");
    advise("soft", &nat).with(2, &["--device soft", "model:connectx-5"]);
    advise("model:nosuch", &nat).with(3, &["profile `nosuch`", "connectx-5"]);
    // What nobody has published is said, and no guess made.
    let ended = advise("model:xl710", &nat);
    ended.with(0, &[]);
    assert!(ended.out.contains("offload: not known"), "{ended:?}");
    assert!(ended.out.contains("groups.table_ns, which is unknown"), "{ended:?}");
}
