//! Result directories are written, killed, torn, filled and read back.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Command, Stdio};

use super::tests_support::sample;
use super::*;
use crate::Torn;

/// When the runs of these tests began.
const BEGAN: Duration = Duration::from_secs(1_700_000_000);

const RUN_TEXT: &str = "schema = 1\nprogram = \"niclab 0.1.0\"\n";

fn histogram(ns: u64) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    histogram.record(ns).unwrap();
    histogram
}

fn append(directory: &mut Directory, order: u64) {
    let mut sample = sample(order);
    sample.latency_tag = Some(format!("s{order}"));
    directory.append(&sample, Some(&histogram(order + 1))).unwrap();
}

/// A directory with `count` samples.
fn filled(path: &Path, count: u64) -> Directory {
    let mut directory = Directory::create(path, BEGAN).unwrap();
    directory.write_run(RUN_TEXT).unwrap();
    (0..count).for_each(|order| append(&mut directory, order));
    directory
}

#[test]
fn what_is_written_is_read_back() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b");
    let directory = filled(&path, 3);
    let environment = Environment { schema: 1, noise: vec!["steal".into()], ..Default::default() };
    directory.write_environment(&environment).unwrap();
    let summary = Summary { schema: 1, program: "niclab".into(), ..Default::default() };
    drop(directory);
    let writer = ReportWriter::open(&path).unwrap();
    writer.write_summary(&summary).unwrap();
    writer.write_report("<html>").unwrap();
    let stored = Stored::open(&path).unwrap();
    let orders: Vec<u64> = stored.samples.iter().map(|s| s.order).collect();
    assert_eq!((orders, &stored.torn), (vec![0, 1, 2], &None));
    assert_eq!(stored.run_toml().unwrap(), RUN_TEXT);
    assert_eq!(stored.environment().unwrap(), Some(environment));
    assert_eq!(stored.summary().unwrap(), Some(summary));
    let latencies = stored.latencies().unwrap();
    assert_eq!(latencies.tags().collect::<Vec<_>>(), ["s0", "s1", "s2"]);
    assert_eq!(latencies.histogram("s2"), Some(histogram(3)));
    let names = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name());
    let hidden = names.filter(|n| n.to_string_lossy().starts_with('.')).count();
    assert_eq!(hidden, 0, "nothing is left behind");
}

#[test]
fn an_existing_directory_is_refused_and_untouched() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(filled(&path, 1));
    let error = Directory::create(&path, BEGAN).unwrap_err();
    assert!(matches!(error, ResultError::Exists { .. }), "{error}");
    let words = "exists already: choose another directory";
    assert!(error.to_string().ends_with(words), "{error}");
    assert_eq!(Stored::open(&path).unwrap().samples.len(), 1);
}

#[test]
fn what_is_no_result_directory_is_not_offered_to_be_gone_on_with() {
    let parent = tempfile::tempdir().unwrap();
    let [empty, foreign, file] = ["empty", "foreign", "file"].map(|name| parent.path().join(name));
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join(RUN), RUN_TEXT).unwrap();
    fs::write(&file, "").unwrap();
    for path in [&empty, &foreign, &file, &file.join("below")] {
        let error = Directory::create(path, BEGAN).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ResultError::Occupied { .. }), "{text}");
        assert!(text.contains("is not a result directory"), "{text}");
    }
}

#[test]
fn a_read_only_parent_is_an_error_of_its_own() {
    // sysfs refuses directories even to root.
    let error = Directory::create(Path::new("/sys/niclab"), BEGAN).unwrap_err();
    assert!(matches!(error, ResultError::ReadOnly { .. }), "{error}");
    let other = ResultError::of(Path::new("x"), std::io::ErrorKind::ReadOnlyFilesystem.into());
    assert!(matches!(other, ResultError::ReadOnly { .. }));
}

#[test]
fn an_absent_or_foreign_directory_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let absent = Stored::open(&parent.path().join("none")).unwrap_err();
    assert!(matches!(absent, ResultError::Absent { .. }), "{absent}");
    let foreign = Stored::open(parent.path()).unwrap_err();
    assert!(matches!(foreign, ResultError::NotResult { missing: "run.toml", .. }), "{foreign}");
    let resumed = Directory::resume(parent.path()).unwrap_err();
    assert!(matches!(resumed, ResultError::NotResult { .. }), "{resumed}");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_second_writer_is_kept_out_until_the_first_has_gone() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let first = filled(&path, 1);
    let error = Directory::resume(&path).unwrap_err();
    assert!(matches!(error, ResultError::Busy { .. }), "{error}");
    assert!(Stored::open(&path).is_ok(), "readers are welcome");
    drop(first);
    assert!(Directory::resume(&path).is_ok());
}

/// `bytes` without their last line.
fn without_last(bytes: &[u8]) -> usize {
    bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

#[test]
fn a_line_torn_anywhere_is_cut_off_by_whoever_goes_on_and_left_out_by_all_others() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(filled(&path, 3));
    let samples = fs::read(path.join(SAMPLES)).unwrap();
    let latency = fs::read(path.join(LATENCY)).unwrap();
    let (last, last_latency) = (without_last(&samples), without_last(&latency));
    for cut in last..=samples.len() {
        fs::write(path.join(SAMPLES), &samples[..cut]).unwrap();
        fs::write(path.join(LATENCY), &latency[..latency.len() - 7]).unwrap();
        let is_whole = cut + 1 >= samples.len();
        let whole = if is_whole { 3 } else { 2 };
        let stored = Stored::open(&path).unwrap();
        assert_eq!(stored.samples.len(), whole, "cut at {cut}");
        let torn = |name: &str, line| Torn { path: path.join(name), line };
        let of_samples = (cut != last && !is_whole).then(|| torn(SAMPLES, 3));
        assert_eq!(stored.torn, of_samples, "cut at {cut}");
        assert_eq!(stored.latencies().unwrap().torn, Some(torn(LATENCY, 8)));
        assert_eq!(fs::read(path.join(SAMPLES)).unwrap(), samples[..cut], "a reader wrote");
        let (mut directory, _, repairs) = Directory::resume(&path).unwrap();
        let mut expected = Vec::new();
        let (of_samples, of_latency) = (path.join(SAMPLES), path.join(LATENCY));
        if cut + 1 == samples.len() {
            expected.push(Repair::Ended { path: of_samples });
        } else if cut != last && cut != samples.len() {
            expected.push(Repair::Cut { path: of_samples, len: (cut - last) as u64 });
        }
        let len = (latency.len() - 7 - last_latency) as u64;
        expected.push(Repair::Cut { path: of_latency, len });
        assert_eq!(repairs, expected, "cut at {cut}");
        append(&mut directory, 7);
        let stored = Stored::open(&path).unwrap();
        assert_eq!(stored.samples.last().unwrap().order, 7);
        assert_eq!((stored.samples.len(), &stored.torn), (whole + 1, &None));
        assert_eq!(stored.latencies().unwrap().histogram("s7"), Some(histogram(8)));
    }
}

#[test]
fn a_whole_last_line_counts_whatever_its_end() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(filled(&path, 2));
    for name in [SAMPLES, LATENCY] {
        let text = fs::read_to_string(path.join(name)).unwrap();
        for end in ["", "\n", "\r\n", "\n\n", "\r"] {
            fs::write(path.join(name), text.trim_end().to_owned() + end).unwrap();
            let stored = Stored::open(&path).unwrap();
            assert_eq!((stored.samples.len(), &stored.torn), (2, &None), "{name} {end:?}");
            let latencies = stored.latencies().unwrap();
            assert_eq!(latencies.histogram("s1"), Some(histogram(2)), "{name} {end:?}");
            let (mut directory, _, repairs) = Directory::resume(&path).unwrap();
            let is_open = !end.ends_with('\n');
            let expected = is_open.then(|| Repair::Ended { path: path.join(name) });
            assert_eq!(repairs, Vec::from_iter(expected), "{name} {end:?}");
            append(&mut directory, 2);
            let stored = Stored::open(&path).unwrap();
            assert_eq!(stored.samples.len(), 3, "{name} {end:?}");
            assert_eq!(stored.latencies().unwrap().histogram("s2"), Some(histogram(3)));
            drop(directory);
            fs::remove_dir_all(&path).unwrap();
            drop(filled(&path, 2));
        }
    }
}

/// Everything that reads or writes `path`, with what it answers.
fn all_of(path: &Path) -> Vec<Result<(), ResultError>> {
    let stored = |read: fn(Stored) -> Result<(), ResultError>| Stored::open(path).and_then(read);
    vec![
        stored(|_| Ok(())),
        stored(|stored| stored.latencies().map(drop)),
        stored(|stored| stored.environment().map(drop)),
        stored(|stored| stored.summary().map(drop)),
        stored(|stored| stored.rules().map(drop)),
        crate::write_csv(path, &mut Vec::new()).map(drop),
        ReportWriter::open(path).map(drop),
        Directory::resume(path).map(drop),
    ]
}

/// Puts something into the place of a document.
type Put = fn(&Path);

#[test]
fn no_reader_and_no_writer_follows_a_link_or_waits_at_a_pipe() {
    let parent = tempfile::tempdir().unwrap();
    let (path, victim) = (parent.path().join("run"), parent.path().join("victim"));
    let kinds: [(Put, &str); 4] = [
        (|of| std::os::unix::fs::symlink("../victim", of).unwrap(), "is a symbolic link"),
        (|of| std::os::unix::fs::symlink("../none", of).unwrap(), "is a symbolic link"),
        (
            |of| {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, of, fifo, mode, 0).unwrap();
            },
            "is a pipe",
        ),
        (|of| fs::create_dir(of).unwrap(), "is a directory"),
    ];
    for (name, least) in [(SAMPLES, 7), (LATENCY, 2), (RUN, 6), (ENVIRONMENT, 1), (RULES, 1)] {
        for (put, said) in kinds {
            let _ = fs::remove_dir_all(&path);
            drop(filled(&path, 2));
            fs::write(&victim, "precious\nlines").unwrap();
            let _ = fs::remove_file(path.join(name));
            put(&path.join(name));
            let refused: Vec<String> = all_of(&path)
                .into_iter()
                .filter_map(|done| Some(done.err()?.to_string()))
                .collect();
            assert!(refused.len() >= least, "{name} {said}: {refused:?}");
            let names_it = |text: &String| text.contains(name) && text.contains(said);
            assert!(refused.iter().all(names_it), "{name} {said}: {refused:?}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\nlines", "{name} {said}");
            assert!(!parent.path().join("none").exists(), "{name} {said}");
        }
    }
}

#[test]
fn what_is_written_whole_replaces_a_link_and_leaves_its_target_alone() {
    let parent = tempfile::tempdir().unwrap();
    let (path, victim) = (parent.path().join("run"), parent.path().join("victim"));
    drop(filled(&path, 1));
    fs::write(&victim, "precious").unwrap();
    let part = path.join(format!(".{REPORT}.part0"));
    for link in [path.join(REPORT), path.join(SUMMARY), part.clone()] {
        std::os::unix::fs::symlink(&victim, link).unwrap();
    }
    fs::create_dir(path.join(format!(".{REPORT}.part1"))).unwrap();
    let writer = ReportWriter::open(&path).unwrap();
    writer.write_report("<html>").unwrap();
    let summary = Summary { schema: 1, ..Default::default() };
    writer.write_summary(&summary).unwrap();
    fs::remove_file(path.join(REPORT)).unwrap();
    fs::hard_link(&victim, path.join(REPORT)).unwrap();
    writer.write_report("<html>").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(path.join(REPORT)).unwrap(), "<html>");
    assert!(!fs::symlink_metadata(path.join(SUMMARY)).unwrap().is_symlink());
    drop(writer);
    let others = [".part", ".party", ".part1.txt"].map(|end| path.join(format!(".{REPORT}{end}")));
    others.iter().for_each(|other| fs::write(other, "mine").unwrap());
    drop(Directory::resume(&path).unwrap());
    assert!(fs::symlink_metadata(part).is_err(), "what a killed writer left is gone");
    assert!(others.iter().all(|other| other.exists()), "niclab writes no part of these names");
}

#[test]
fn a_log_that_has_another_name_is_not_gone_on_with() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(filled(&path, 1));
    fs::hard_link(path.join(SAMPLES), parent.path().join("other")).unwrap();
    assert!(Stored::open(&path).is_ok(), "to read it does no harm");
    let error = Directory::resume(&path).unwrap_err();
    assert!(matches!(error, ResultError::Shared { .. }), "{error}");
}

#[test]
fn a_line_that_is_too_long_is_refused_after_no_more_than_its_limit() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(filled(&path, 1));
    // A file of holes: a tebibyte that takes no room on the disk.
    for (name, said) in [
        (SAMPLES, "samples.jsonl, line 2: longer than 16 MiB"),
        (LATENCY, "latency.hlog, line 7: longer than 1 MiB"),
        (RUN, "run.toml may not be longer than 16 MiB"),
        (ENVIRONMENT, "environment.json may not be longer than 1 MiB"),
        (SUMMARY, "summary.json may not be longer than 64 MiB"),
        (RULES, "rules.flow may not be longer than 256 MiB"),
    ] {
        let file = path.join(name);
        let before = fs::read(&file).ok();
        let options = OpenOptions::new().append(true).create(true).open(&file);
        options.unwrap().set_len(1 << 40).unwrap();
        let refused: Vec<String> =
            all_of(&path).into_iter().filter_map(|done| Some(done.err()?.to_string())).collect();
        assert!(
            !refused.is_empty() && refused.iter().all(|text| text.contains(said)),
            "{refused:?}"
        );
        match before {
            Some(before) => fs::write(&file, before).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
    }
}

#[test]
fn what_no_reader_would_take_is_not_written() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut directory = filled(&path, 1);
    let before = [SAMPLES, LATENCY].map(|name| fs::read(path.join(name)).unwrap());
    let mut long = sample(1);
    long.device = "x".repeat(16 << 20);
    let error = directory.append(&long, None).unwrap_err();
    assert!(matches!(error, ResultError::LongLine { .. }), "{error}");
    directory.samples.len = crate::limits::SAMPLES_LEN_MAX - 10;
    let error = directory.append(&sample(1), None).unwrap_err();
    assert!(matches!(error, ResultError::Grown { .. }), "{error}");
    assert_eq!([SAMPLES, LATENCY].map(|name| fs::read(path.join(name)).unwrap()), before);
    let refused = |written: Result<(), ResultError>, name: &str| {
        let error = written.unwrap_err();
        let said = format!("{name} may not be longer than");
        assert!(error.to_string().contains(&said), "{error}");
    };
    let run = fs::read(path.join(RUN)).unwrap();
    refused(directory.write_run(&"#".repeat((16 << 20) + 1)), RUN);
    assert_eq!(fs::read(path.join(RUN)).unwrap(), run);
    refused(directory.write_rules(&vec![b'#'; (256 << 20) + 1]), RULES);
    let noise = vec!["x".repeat(1 << 20)];
    refused(
        directory.write_environment(&Environment { noise, ..Environment::default() }),
        ENVIRONMENT,
    );
    drop(directory);
    let program = "x".repeat(64 << 20);
    let writer = ReportWriter::open(&path).unwrap();
    refused(writer.write_summary(&Summary { program, ..Summary::default() }), SUMMARY);
    for name in [RULES, ENVIRONMENT, SUMMARY] {
        assert!(!path.join(name).exists(), "{name} is there");
    }
}

#[test]
fn a_directory_without_its_run_goes_with_its_writer() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let directory = Directory::create(&path, BEGAN).unwrap();
    directory.write_environment(&Environment::default()).unwrap();
    drop(directory);
    assert!(!path.exists());
    // Where its writer was killed it says what it is.
    std::mem::forget(Directory::create(&path, BEGAN).unwrap());
    for error in [
        Stored::open(&path).unwrap_err(),
        Directory::resume(&path).unwrap_err(),
        Directory::create(&path, BEGAN).unwrap_err(),
    ] {
        assert!(matches!(error, ResultError::NotBegun { .. }), "{error}");
        assert!(error.to_string().contains("remove the directory and begin anew"), "{error}");
    }
}

#[test]
fn directories_of_one_name_get_one_each() {
    let parent = tempfile::tempdir().unwrap();
    let made = std::thread::scope(|scope| {
        let make = || Directory::create_fresh(parent.path(), "now", BEGAN).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let mut names: Vec<PathBuf> = made.iter().map(|one| one.path().to_path_buf()).collect();
    names.sort();
    let expected = ["now", "now-2", "now-3", "now-4", "now-5", "now-6", "now-7", "now-8"];
    assert_eq!(names, expected.map(|name| parent.path().join(name)));
}

#[test]
fn damage_in_the_middle_is_named_with_its_line() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(filled(&path, 2));
    let text = fs::read_to_string(path.join(SAMPLES)).unwrap();
    fs::write(path.join(SAMPLES), format!("{text}{{\"schema\":1}}\n{text}")).unwrap();
    let error = Stored::open(&path).unwrap_err();
    assert!(matches!(error, ResultError::Damaged { line: 3, .. }), "{error}");
}

#[test]
fn another_schema_is_refused_with_the_program_it_needs() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut directory = filled(&path, 1);
    let mut newer = sample(1);
    newer.schema = 2;
    directory.append(&newer, None).unwrap();
    directory.write_run("schema = 1\nprogram = \"niclab 0.9.0\"\n").unwrap();
    let error = Stored::open(&path).unwrap_err();
    assert!(matches!(error, ResultError::OtherSchema { found: 2, .. }), "{error}");
    directory.write_run("schema = 2\nprogram = \"niclab 0.9.0\"\n").unwrap();
    let error = Directory::resume(&path).unwrap_err().to_string();
    assert!(error.contains("use niclab 0.9.0 or newer"), "{error}");
    directory.write_run("schema = 0\nprogram = \"niclab 0.0.9\"\n").unwrap();
    let error = Directory::resume(&path).unwrap_err().to_string();
    assert!(error.ends_with("has schema 0, this program reads 1: use niclab 0.0.9"), "{error}");
}

#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut directory = filled(&path, 2);
    let samples = std::mem::replace(
        &mut directory.samples.file,
        OpenOptions::new().write(true).open("/dev/full").unwrap(),
    );
    let files = || [SAMPLES, LATENCY].map(|name| fs::read(path.join(name)).unwrap());
    let before = files();
    let mut third = sample(2);
    third.latency_tag = Some("s2".into());
    let error = directory.append(&third, Some(&histogram(3))).unwrap_err();
    assert!(matches!(&error, ResultError::Full { path } if path.ends_with(SAMPLES)), "{error}");
    assert!(files() == before, "a histogram without its sample was left behind");
    directory.samples.file = samples;
    append(&mut directory, 2);
    assert_eq!(Stored::open(&path).unwrap().samples.len(), 3);
}

/// The body of the process that the next test kills.
#[test]
#[ignore = "run by a_killed_writer_loses_nothing_finished"]
fn write_until_killed() {
    let Some(path) = std::env::var_os("NICLAB_TEST_DIRECTORY") else {
        return;
    };
    let mut directory = filled(Path::new(&path), 0);
    for order in 0..u64::MAX {
        append(&mut directory, order);
        writeln!(std::io::stdout(), "wrote {order}").unwrap();
    }
}

#[test]
fn a_killed_writer_loses_nothing_finished() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "directory::tests::write_until_killed"])
        .env("NICLAB_TEST_DIRECTORY", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = writer.stdout.take().unwrap();
    let (mut text, mut buffer) = (String::new(), [0; 256]);
    while !text.contains("wrote 20\n") {
        let count = out.read(&mut buffer).unwrap();
        assert!(count > 0, "the writer ended by itself: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    out.read_to_string(&mut text).unwrap();
    let said = text.lines().filter(|l| l.starts_with("wrote")).count();
    let (mut directory, stored, _) = Directory::resume(&path).unwrap();
    assert!(stored.samples.len() + 1 >= said && said > 20, "{} of {said}", stored.samples.len());
    let next = stored.samples.len() as u64;
    append(&mut directory, next);
    let stored = Stored::open(&path).unwrap();
    assert!(stored.samples.iter().enumerate().all(|(i, s)| s.order == i as u64));
    let latencies = stored.latencies().unwrap();
    assert_eq!(latencies.histogram(&format!("s{next}")), Some(histogram(next + 1)));
}
