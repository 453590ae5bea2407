//! Rows from a directory, as CSV and as Parquet, and files that are wrong.

use std::time::Duration;

use super::*;
use crate::directory::tests_support::sample;
use crate::{Coordinate, Directory, Mark, Quantity};

fn origins(host: &str) -> BTreeMap<String, DeviceOrigin> {
    let origin = DeviceOrigin {
        host: host.into(),
        firmware: "16.35".into(),
        driver: "ice".into(),
        pci_id: "8086:1592".into(),
    };
    BTreeMap::from([("soft".to_owned(), origin)])
}

/// A directory with two samples, of which one was measured twice.
fn directory(path: &Path) {
    let mut directory = Directory::create(path, Duration::ZERO).unwrap();
    directory.write_run("schema = 1\n").unwrap();
    let metric = |value| Quantity { value, unit: "pps".into() };
    for (order, repeat, value) in [(0, 0, 1.0), (1, 1, 2.5), (2, 0, 3.0)] {
        let mut one = sample(order);
        one.repeat = repeat;
        one.point.insert("rules".into(), Coordinate::Number(1000.0));
        one.point.insert("frame".into(), Coordinate::Word("imix".into()));
        one.metrics.insert("throughput_pps".into(), metric(value));
        one.metrics.insert("loss_ratio".into(), Quantity { value: -0.25, unit: "1".into() });
        one.marks = vec![Mark::Disturbed, Mark::Unbalanced];
        directory.append(&one, None).unwrap();
    }
}

fn csv(path: &Path, host: &str) -> String {
    let mut out = Vec::new();
    let mut rows = CsvRows::new(&mut out).unwrap();
    let source = RowSource::open(path).unwrap();
    let torn = source.rows::<ResultError>(&origins(host), &mut |row| {
        rows.write(row).unwrap();
        Ok(())
    });
    assert_eq!(torn.unwrap(), None);
    rows.finish().unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_row_has_one_metric_and_the_later_sample_counts() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    directory(&path);
    let point = r#""{""frame"":""imix"",""rules"":1000}""#;
    let row = |repeat, metric: &str, value: &str, unit: &str| {
        format!(
            "dut,soft,16.35,ice,8086:1592,1000,occupancy,{point},saturate,{repeat},{metric},\
             {value},{unit},disturbed unbalanced\n"
        )
    };
    let expected = [
        COLUMNS.join(",") + "\n",
        row(1, "loss_ratio", "-0.25", "1"),
        row(1, "throughput_pps", "2.5", "pps"),
        row(0, "loss_ratio", "-0.25", "1"),
        row(0, "throughput_pps", "3", "pps"),
    ];
    assert_eq!(csv(&path, "dut"), expected.concat());
}

#[test]
fn a_host_that_is_a_formula_is_text_in_a_spreadsheet() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    directory(&path);
    let out = csv(&path, "=cmd|' /C calc'!A0");
    assert!(out.lines().nth(1).unwrap().starts_with("'=cmd|' /C calc'!A0,soft,"), "{out}");
}

#[cfg(feature = "parquet")]
mod files {
    use std::fs;

    use super::super::parquet::*;
    use super::*;

    const ROW: MetricRow<'static> = MetricRow {
        host: "dut",
        device: "linux:eth0,eth1",
        firmware: "16.35",
        driver: "mlx5_core",
        pci_id: "15b3:1017",
        started_unix_ns: 1_700_000_000_000_000_000,
        experiment: "occupancy",
        point: r#"{"rules":1000}"#,
        trial: "saturate",
        repeat: 3,
        metric: "throughput_pps",
        value: 1.25e7,
        unit: "pps",
        marks: "disturbed",
    };

    fn file(rows: &[MetricRow<'_>]) -> Vec<u8> {
        let mut out = ParquetRows::new(Vec::new()).unwrap();
        rows.iter().for_each(|row| out.write(row).unwrap());
        out.finish().unwrap()
    }

    /// A file with rows that the writer refuses.
    fn unchecked(rows: &[MetricRow<'_>]) -> Vec<u8> {
        let mut out = ParquetRows::new(Vec::new()).unwrap();
        rows.iter().for_each(|row| out.write_unchecked(row).unwrap());
        out.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<String>, RowsFileError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        fs::write(&path, bytes).unwrap();
        let mut rows = Vec::new();
        read_rows::<RowsFileError>(&path, &mut |row| {
            rows.push(format!("{row:?}"));
            Ok(())
        })?;
        Ok(rows)
    }

    fn refusal(bytes: &[u8]) -> String {
        read(bytes).unwrap_err().to_string()
    }

    #[test]
    fn rows_come_back_over_several_row_groups() {
        let hosts: Vec<String> = (0..300_000).map(|at| format!("h{}", at / 1000)).collect();
        let row = |(at, host): (usize, &'_ String)| {
            format!("{:?}", MetricRow { host, repeat: at as u32, value: at as f64, ..ROW })
        };
        let mut out = ParquetRows::new(Vec::new()).unwrap();
        for (at, host) in hosts.iter().enumerate() {
            out.write(&MetricRow { host, repeat: at as u32, value: at as f64, ..ROW }).unwrap();
        }
        let bytes = out.finish().unwrap();
        let expected: Vec<String> = hosts.iter().enumerate().map(row).collect();
        assert!(read(&bytes).unwrap() == expected);
        assert_eq!(read(&file(&[])).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn wrong_files_are_refused_by_name_and_reason() {
        let whole = file(&[ROW; 3]);
        assert!(refusal(b"").contains("too short for a Parquet file"));
        assert!(refusal(b"host,device\n1,2\n3,4\n").contains("no Parquet file, or cut short"));
        for len in [8, 20, whole.len() / 2, whole.len() - 1] {
            let message = refusal(&whole[..len]);
            assert!(message.contains("rows.parquet: "), "{len}: {message}");
        }
        for value in [f64::NAN, f64::INFINITY] {
            let message = refusal(&unchecked(&[ROW, MetricRow { value, ..ROW }]));
            assert!(
                message.contains("row 2: value ") && message.contains("no finite"),
                "{message}"
            );
        }
        let long = "x".repeat(TEXT_LEN_MAX + 1);
        let message = refusal(&unchecked(&[MetricRow { host: &long, ..ROW }]));
        assert!(message.contains("4097 bytes"), "{message}");
    }

    #[test]
    fn a_page_of_more_bytes_than_a_row_has_is_refused_before_it_is_unpacked() {
        let whole = file(&[ROW; 3]);
        // The first page: a dictionary, fields 1 to 3 of its header, and the dictionary's own.
        let start = [0x15, 4, 0x15];
        assert_eq!(whole[4..7], start);
        let most = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        let forged = |at: usize| [&whole[..at], &most[..], &whole[at + 1..]].concat();
        let message = refusal(&forged(7));
        assert!(
            message.contains("rows.parquet: ")
                && message.contains("page at byte 4: 2147483647 bytes are more than 8388608")
                && message.contains("write it again with `niclab export --rows`"),
            "{message}"
        );
        // Its compressed size, and the number of its entries.
        assert!(refusal(&forged(9)).contains("2147483647 bytes are more"));
        assert_eq!(whole[10..12], [0x4c, 0x15]);
        let message = refusal(&forged(12));
        assert!(message.contains("2147483647 entries are more than 262144"), "{message}");
        // A page of one text may not have the length of two.
        let message = refusal(&[&whole[..7], &[0x90, 0x7f], &whole[8..]].concat());
        assert!(message.contains("8136 bytes are too many for 1 value;"), "{message}");
    }

    #[test]
    fn a_file_that_is_written_can_be_read() {
        let texts: Vec<String> =
            (0..6000).map(|at| format!("{at:0>width$}", width = TEXT_LEN_MAX)).collect();
        let rows: Vec<_> = texts.iter().map(|point| MetricRow { point, ..ROW }).collect();
        assert_eq!(read(&file(&rows)).unwrap().len(), rows.len());
        let refused = |row: MetricRow<'_>| {
            ParquetRows::new(Vec::new()).unwrap().write(&row).unwrap_err().to_string()
        };
        let long = "x".repeat(TEXT_LEN_MAX + 1);
        let message = refused(MetricRow { firmware: &long, ..ROW });
        assert!(
            message.contains("firmware: a text of 4097 bytes") && message.contains("at most 4096"),
            "{message}"
        );
        let message = refused(MetricRow { repeat: 1 << 31, ..ROW });
        assert!(message.contains("repeat: 2147483648; ") && message.contains("CSV"), "{message}");
    }

    #[test]
    fn a_file_with_any_byte_changed_is_read_or_refused() {
        let whole = file(&[ROW; 3]);
        for at in 0..whole.len() {
            for change in [0x01, 0x04, 0x10, 0x40, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                // Either is right: a changed value is a value.
                let _ = read(&bytes);
            }
        }
    }
}
