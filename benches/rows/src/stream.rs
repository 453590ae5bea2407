//! Bulk data over the kernel's stack, ours and iperf3's in turn between the same two hosts.

use std::net::IpAddr;
use std::time::Duration;

use niclab_device::linux::{Hosts, Wire};
use niclab_device::program::{Program, Sockets};
use niclab_device::stream::{Stream, Transport};
use niclab_device::{DeviceError, Host, Streaming};
use niclab_pairing::alternate;
use niclab_peer::Answer;
use serde::Deserialize;

use crate::echo::{command, hosts, or_not_supported};
use crate::{Bench, BenchError, Measured, Slices};

/// Where iperf3's server listens.
const PORT: u16 = 5_201;

/// Measured part of a turn; iperf3 knows whole seconds alone.
const RUN: Duration = Duration::from_secs(1);

/// What is left out before it, of both.
const WARMUP: Duration = Duration::from_secs(1);

/// How long a program may take beyond its run.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bits over one TCP connection by writes of `size` bytes; both receivers count.
///
/// # Errors
/// [`BenchError::Device`]; [`BenchError::Said`] where iperf3 says something else than expected.
/// What is missing here is no error but [`Slices::NotSupported`].
pub fn carried(bench: &Bench, size: u32) -> Result<Measured, BenchError> {
    or_not_supported(compare(bench, size))
}

fn compare(bench: &Bench, size: u32) -> Result<Measured, BenchError> {
    command("iperf3")?;
    let hosts = hosts(bench)?;
    let server = Iperf3::start(&hosts)?;
    let mut run = 0;
    let ours = || {
        run += 1;
        ours(&hosts, size, run)
    };
    let pairs = alternate(bench.pairs, ours, || server.carried(&hosts, size))?;
    Ok(Measured::of(Slices::Paired(pairs)))
}

/// Bits of a turn of ours.
fn ours(hosts: &Hosts, size: u32, run: u32) -> Result<Answer, BenchError> {
    let stream = Stream {
        transport: Transport::Tcp,
        size,
        batch: 1,
        connections: 1,
        threads: 1,
        per_s: None,
        duration_ns: RUN.as_nanos() as u64,
        warmup_ns: WARMUP.as_nanos() as u64,
    };
    let seen = hosts.stream(&Streaming { client: Host::Here, stream }, run)?;
    match seen.received.ended.or(seen.sent.ended) {
        Some(reason) => Err(DeviceError::Broken { device: "our stream".into(), reason }.into()),
        None => {
            let (ops, ns) = (seen.received.bytes * 8, seen.received.duration_ns);
            Ok(Answer { ops, ns, rest: Vec::new() })
        }
    }
}

/// The peer's server; the client of each turn is a program of its own.
struct Iperf3 {
    address: IpAddr,
    _server: Program,
}

impl Iperf3 {
    fn start(hosts: &Hosts) -> Result<Iperf3, BenchError> {
        let address = hosts.address(Host::There, Wire::Plain);
        let mut server = command("iperf3")?;
        server.args(["--server", "--bind", &address.to_string(), "--port", &PORT.to_string()]);
        let _server = hosts.serve(Host::There, server, Sockets::Tcp, PORT)?;
        Ok(Iperf3 { address, _server })
    }

    fn carried(&self, hosts: &Hosts, size: u32) -> Result<Answer, BenchError> {
        let mut client = command("iperf3")?;
        client.args(["--client", &self.address.to_string(), "--port", &PORT.to_string()]);
        client.args(["--json", "--length", &size.to_string()]);
        client.args(["--time", &RUN.as_secs().to_string()]);
        client.args(["--omit", &WARMUP.as_secs().to_string()]);
        let text = hosts.start(Host::Here, client)?.wait(RUN + WARMUP + PATIENCE)?;
        read(&text).map_err(|reason| BenchError::Said { program: "iperf3", reason })
    }
}

/// What `iperf3 --json` says, as far as it is needed.
#[derive(Deserialize)]
struct IperfResult {
    end: StreamEnd,
}

#[derive(Deserialize)]
struct StreamEnd {
    sum_received: Sum,
}

#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bytes: u64,
    bits_per_second: f64,
}

/// Reads what the receiver got: its bits by its seconds, which have to be its bits a second.
fn read(text: &str) -> Result<Answer, String> {
    let IperfResult { end } = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let Sum { seconds, bytes, bits_per_second } = end.sum_received;
    let bits = bytes as f64 * 8.0;
    let is_one = seconds > 0.0 && (bits / seconds / bits_per_second - 1.0).abs() < 0.01;
    if bytes == 0 || !is_one {
        return Err(format!("{bytes} bytes in {seconds} s are {bits_per_second} bit/s"));
    }
    Ok(Answer { ops: bytes * 8, ns: (seconds * 1e9) as u64, rest: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_receiver_got_is_read_and_another_format_is_an_error() {
        let said = |seconds: f64, bytes: u64, rate: f64| {
            let sum = format!(
                "{{\"start\":0,\"end\":{seconds},\"seconds\":{seconds},\"bytes\":{bytes},\
                 \"bits_per_second\":{rate},\"sender\":true}}"
            );
            read(&format!("{{\"start\":{{}},\"end\":{{\"streams\":[],\"sum_received\":{sum}}}}}"))
        };
        let answer = said(2.0, 1_000_000, 4e6).unwrap();
        assert_eq!((answer.ops, answer.ns), (8_000_000, 2_000_000_000));
        let words = said(2.0, 1_000_000, 8e6).unwrap_err();
        assert_eq!(words, "1000000 bytes in 2 s are 8000000 bit/s");
        assert!(said(1.0, 0, 0.0).is_err() && said(0.0, 5, 40.0).is_err());
        // What it writes where it has failed.
        let failed = "{\"start\":{},\"end\":{},\"error\":\"unable to connect to server\"}";
        assert!(read(failed).unwrap_err().contains("sum_received"));
        assert!(read("iperf3: error").is_err());
    }
}
