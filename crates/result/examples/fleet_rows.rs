//! Writes made-up rows of a fleet, to see how large files are read:
//! `fleet_rows HOSTS ROWS FILE.parquet`, with so many rows of each host. One host in 500 has 20 %
//! less throughput.

use std::fs::File;
use std::io::BufWriter;

use niclab_result::rows::MetricRow;
use niclab_result::rows::parquet::ParquetRows;

/// Trial, metric and typical value.
const METRICS: [(&str, &str, f64); 4] = [
    ("saturate", "throughput_pps", 2e7),
    ("saturate", "device_ns_per_frame", 50.0),
    ("latency", "latency_ns_p50", 8e3),
    ("latency", "latency_ns_p99", 2e4),
];
/// Repeats of a figure.
const REPEATS: u32 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [hosts, rows, path] = &arguments[..] else {
        return Err("give HOSTS ROWS FILE.parquet".into());
    };
    let (hosts, rows): (u64, u32) = (hosts.parse()?, rows.parse()?);
    let points = rows / REPEATS / METRICS.len() as u32;
    let mut out = ParquetRows::new(BufWriter::new(File::create(path)?))?;
    let mut state = 1;
    for number in 0..hosts {
        let host = format!("dut-{number:05}");
        let mut figure = |metric: (&str, &str, f64), point: u32| {
            let point = format!(r#"{{"frame":64,"rules":{}}}"#, point * 16);
            let faulty = number % 500 == 77 && metric.1 == "throughput_pps";
            let of_host = 1.0 + 0.01 * noise(&mut state) - if faulty { 0.2 } else { 0.0 };
            (0..REPEATS).try_for_each(|repeat| {
                let value = metric.2 * of_host * (1.0 + 0.01 * noise(&mut state));
                out.write(&row(&host, metric, &point, repeat, value))
            })
        };
        for metric in METRICS {
            (0..points).try_for_each(|point| figure(metric, point))?;
        }
    }
    out.finish()?;
    Ok(())
}

fn row<'a>(
    host: &'a str,
    (trial, metric, _): (&'a str, &'a str, f64),
    point: &'a str,
    repeat: u32,
    value: f64,
) -> MetricRow<'a> {
    MetricRow {
        host,
        device: "linux:eth0,eth1",
        firmware: "16.35.2000 (MT_0000000012)",
        driver: "mlx5_core",
        pci_id: "15b3:1017 (subsystem 15b3:0020)",
        started_unix_ns: 1_700_000_000_000_000_000,
        experiment: "occupancy",
        point,
        trial,
        repeat,
        metric,
        value,
        unit: if metric.ends_with("pps") { "pps" } else { "ns" },
        marks: "",
    }
}

/// About normal: the sum of twelve numbers of an xorshift generator.
fn noise(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as f64 / u64::MAX as f64
    };
    (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}
