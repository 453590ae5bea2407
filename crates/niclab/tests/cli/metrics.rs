//! `--metrics`: what Prometheus gets of a card and of a store, and what others get.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{call, niclab, scratch, slow_capture};

/// A command that serves metrics at a free port; killed with its value.
struct Serving {
    child: Child,
    /// `127.0.0.1:PORT`
    address: String,
    /// Lines before that of the metrics, and the rest.
    _err: BufReader<std::process::ChildStderr>,
}

impl Serving {
    fn start(mut command: Command) -> Serving {
        command.args(["--metrics", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("metrics at http://") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "it ended without metrics");
        }
        let address = line.trim().rsplit("http://").next().unwrap();
        let address = address.strip_suffix("/metrics").unwrap().to_owned();
        Serving { child, address, _err: err }
    }

    /// The head and the content of an answer.
    fn answer(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, content) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), content.to_owned())
    }

    fn scrape(&self, accept: &str) -> String {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
        let (head, content) = self.answer(&request);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", content.len())), "{head}");
        content
    }

    /// Scrapes until a line is there.
    fn scrape_until(&self, line: &str) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let text = self.scrape("text/plain");
            if text.lines().any(|of| of == line) {
                return text;
            }
            assert!(Instant::now() < until, "{line} is missing in:\n{text}");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Units that Prometheus' naming rules forbid as a part of a name.
const FORBIDDEN: [&str; 12] = [
    "bits",
    "gauge",
    "counter_total",
    "kilobytes",
    "microseconds",
    "milliseconds",
    "minutes",
    "ms",
    "nanoseconds",
    "ns",
    "percent",
    "us",
];

fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_lowercase();
    let is_rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(is_first) && name.chars().all(is_rest)
}

/// The names and values of the labels of a series, which stand between braces.
fn labels(mut text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a name and a value in quotes");
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next().expect("a quote at the end") {
                (at, '"') => break at,
                (_, '\\') => value.push(chars.next().expect("an escaped character").1),
                (_, char) => value.push(char),
            }
        };
        labels.push((name.to_owned(), value));
        text = &rest[end + 1..];
        text = text.strip_prefix(',').unwrap_or(text);
    }
    labels
}

/// What `promtool check metrics` looks at, in Prometheus' text format: the order of the lines,
/// names, units, and that no series is there twice. The names of the families.
fn checked(text: &str) -> BTreeSet<String> {
    let (mut families, mut series) = (BTreeMap::new(), BTreeSet::new());
    let mut current = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && help.len() > 3 && help.ends_with('.'), "{line}");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            let kind = kind.and_then(|rest| rest.strip_prefix(name)).map(str::trim);
            let kind = kind.unwrap_or_else(|| panic!("no type behind: {line}"));
            assert!(matches!(kind, "counter" | "gauge"), "{line}: {kind}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            let parts: Vec<&str> = name.trim_end_matches("_total").split('_').collect();
            assert!(parts.iter().all(|part| !FORBIDDEN.contains(part)), "{name}");
            let suffix = parts[parts.len() - 1];
            assert!(!["bucket", "count", "sum"].contains(&suffix), "{name}");
            assert!(families.insert(name.to_owned(), kind).is_none(), "{name} is there twice");
            current = name.to_owned();
            continue;
        }
        let (of, value) = line.rsplit_once(' ').unwrap();
        let (name, inside) = of.split_once('{').unwrap_or((of, "}"));
        assert_eq!(name, current, "a series belongs to the family above it");
        let inside = inside.strip_suffix('}').unwrap();
        let mut names: Vec<String> = labels(inside).into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| is_name(name)), "{line}");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "a label is there twice: {line}");
        assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
        assert!(series.insert(of.to_owned()), "{of} is there twice");
    }
    assert!(series.len() > 10, "{text}");
    families.into_keys().collect()
}

/// A card that plays a frame at once and the next one hours later.
fn card(directory: &Path) -> Serving {
    fs::write(directory.join("slow.pcap"), slow_capture()).unwrap();
    let rule = "flow create 0 ingress pattern eth / ipv4 / end actions count / queue index 1 / end";
    fs::write(directory.join("rules"), rule).unwrap();
    let port = ["nic", "--port", "pcap:in=slow.pcap", "--port", "pcap:out=out.pcap"];
    let mut command = niclab(&port);
    command.args(["--queues", "2", "--rules", "rules", "--control", "card"]);
    command.current_dir(directory);
    Serving::start(command)
}

#[test]
fn prometheus_gets_the_counters_of_a_card() {
    let scratch = scratch();
    let card = card(scratch.path());
    let text = card.scrape_until(r#"niclab_port_receive_packets_total{port="0"} 1"#);
    let socket = scratch.path().join("card");
    let words = "flow destroy 0 rule 9";
    let ctl = [&["nic", "ctl", "--control", socket.to_str().unwrap()][..]];
    let words: Vec<&str> = ctl.concat().into_iter().chain(words.split(' ')).collect();
    call(&words).with(3, &["no rule 9"]);
    checked(&text);
    for line in [
        r#"niclab_port_info{port="0",name="pcap:in=slow.pcap"} 1"#,
        r#"niclab_port_up{port="1"} 1"#,
        r#"niclab_rules{port="0"} 1"#,
        r#"niclab_rule_match_packets_total{port="0",rule="0",group="0",priority="0"} 1"#,
        r#"niclab_rule_operations_total{port="0",operation="create"} 1"#,
        "niclab_rule_requests_refused_total 1",
        "niclab_program_active 0",
    ] {
        card.scrape_until(line);
    }
    let open = card.scrape("application/openmetrics-text; version=1.0.0");
    assert!(open.contains("# UNIT niclab_port_receive_bytes bytes\n"), "{open}");
    assert!(open.contains("# TYPE niclab_port info\n") && open.ends_with("\n# EOF\n"), "{open}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("\u{16}\u{3}\u{1}\r\n\r\n", "400 Bad Request"),
    ] {
        assert!(card.answer(request).0.starts_with(&format!("HTTP/1.1 {status}")), "{request}");
    }
}

/// Names that dashboards for Prometheus' memcached_exporter use.
const EXPORTED: [&str; 22] = [
    "memcached_accepting_connections",
    "memcached_commands_total",
    "memcached_connections_listener_disabled_total",
    "memcached_connections_rejected_total",
    "memcached_connections_total",
    "memcached_connections_yielded_total",
    "memcached_current_bytes",
    "memcached_current_connections",
    "memcached_current_items",
    "memcached_items_evicted_total",
    "memcached_items_reclaimed_total",
    "memcached_items_total",
    "memcached_limit_bytes",
    "memcached_malloced_bytes",
    "memcached_max_connections",
    "memcached_process_system_cpu_seconds_total",
    "memcached_process_user_cpu_seconds_total",
    "memcached_read_bytes_total",
    "memcached_up",
    "memcached_uptime_seconds",
    "memcached_version",
    "memcached_written_bytes_total",
];

fn store() -> Serving {
    let store = Serving::start(niclab(&["kvs", "--listen", "127.0.0.1:0"]));
    assert!(!store.address.is_empty());
    store
}

#[test]
fn prometheus_gets_the_counters_of_a_store() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let store = Serving::start(niclab(&["kvs", "--listen", &free]));
    let start = Instant::now();
    let mut client = loop {
        match TcpStream::connect(&free) {
            Ok(client) => break client,
            Err(_) => assert!(start.elapsed() < Duration::from_secs(20), "nobody listens"),
        }
    };
    client.write_all(b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\nquit\r\n").unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    let text = store.scrape_until(r#"memcached_commands_total{command="get",status="hit"} 1"#);
    for line in [
        r#"memcached_commands_total{command="get",status="miss"} 1"#,
        r#"memcached_commands_total{command="set",status="hit"} 1"#,
        "memcached_current_items 1",
        "memcached_limit_bytes 67108864",
        r#"memcached_slab_current_items{slab="1"} 1"#,
        r#"memcached_slab_commands_total{slab="1",command="get",status="hit"} 1"#,
    ] {
        assert!(text.lines().any(|of| of == line), "{line} is missing in:\n{text}");
    }
    let families = checked(&text);
    assert!(EXPORTED.iter().all(|name| families.contains(*name)), "{families:?}");
}

/// Names of metrics in an expression of PromQL.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(move |c| !is_part(c));
    words.filter(|word| word.starts_with("niclab_") || word.starts_with("memcached_"))
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/grafana/niclab.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let scratch = scratch();
    let (card, store) = (card(scratch.path()), store());
    let text = card.scrape("text/plain") + &store.scrape("text/plain");
    // These are there once somebody runs a program or an application.
    let later = ["niclab_application_", "niclab_program_"];
    let mut observed = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            for name in names(target["expr"].as_str().unwrap()) {
                let is_there = text.contains(&format!("# HELP {name} "));
                assert!(is_there || later.iter().any(|of| name.starts_with(of)), "{name}");
                observed += 1;
            }
        }
    }
    assert!(observed > 20, "only {observed} names found: the dashboard was not read");
}

#[test]
fn an_address_that_cannot_be_had_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let message = format!("--metrics {address}: Address already in use");
    let port = ["nic", "--port", "pcap:out=/dev/null"];
    call(&[&port[..], &["--metrics", &address]].concat()).with(9, &[&message, "another port"]);
    call(&["kvs", "--listen", "127.0.0.1:0", "--metrics", &address]).with(9, &[&message]);
    call(&[&port[..], &["--metrics", "nowhere"]].concat()).with(2, &["write PORT or ADDRESS:PORT"]);
}
