//! The alerts of N Suricatas with a part of the rules each are those of one with all rules, and the
//! alerts of the engine are those of Suricata.

mod engine;
mod random;
mod run;
mod traffic;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use niclab_ids::partition::{Partition, Traffic};
use niclab_ids::rule::{Rule, Transport, read};
use niclab_ids::{FlowEnds, Variables, flow_of};
use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, Writer};

const RULES: &str = r#"
alert http any any -> any any (msg:"any port"; http.uri; content:"evil"; sid:1;)
alert tcp any any -> any 80 (msg:"a port"; content:"evil.php"; sid:2;)
alert tcp any any -> any [80,8080] \
(msg:"ports"; flow:to_server,established; content:"id=1"; sid:3;)
alert tcp any [80,8080] -> any any \
(msg:"from a server"; flow:to_client,established; content:"SECRET"; sid:4;)
alert tcp any any -> any 21 (msg:"ftp"; flow:established,to_server; content:"root"; sid:5;)
alert tcp any any -> any 445 (msg:"smb"; content:"SMBEVIL"; sid:6;)
alert tls any any -> any any (msg:"sni"; tls.sni; content:"bad.example"; sid:7;)
alert tcp any any -> any 25 (msg:"mail"; content:"EVIL"; sid:8;)
alert tcp any any -> any 12345 \
(msg:"sets"; content:"backdoor"; flowbits:set,door; flowbits:noalert; sid:9;)
alert tcp any [12345,31337] -> any any (msg:"asks"; flowbits:isset,door; content:"SECRET"; sid:10;)
alert dns any any -> any any (msg:"a name"; dns.query; content:"bad.example"; sid:11;)
alert udp any any -> any 161 (msg:"snmp"; content:"EVIL"; sid:12;)
alert icmp any any -> any any (msg:"ping"; itype:8; sid:13;)
alert udp 203.0.113.66 any -> $HOME_NET any (msg:"a list"; sid:14;)
alert tcp any any -> any any \
(msg:"first of a connection"; flags:S; threshold:type limit, track by_src, count 2, seconds 60; \
sid:15;)
alert tcp any any -> any 443 \
(msg:"no bit"; flow:established,to_server; flowbits:isnotset,seen; sid:16;)
alert http any any -> any any \
(msg:"sets for all"; http.method; content:"GET"; flowbits:set,seen; flowbits:noalert; sid:17;)
alert http any any -> any any \
(msg:"answer"; flow:to_client; flowbits:isset,seen; file.data; content:"SECRET"; sid:18;)
alert ip any any -> any any (msg:"a tunnel"; ip_proto:47; sid:19;)
pass tcp any any -> any 9999 (msg:"passed"; flow:to_server; content:"evil"; sid:20;)
alert tcp any any -> any 9999 (msg:"never"; flow:to_server; content:"evil"; sid:21;)
alert tcp any any -> any 9999 (msg:"sets a bit of a host"; \
xbits:set,seen,track ip_src; noalert; sid:23;)
alert tcp any any -> any 25 (msg:"asks for it"; flags:S; xbits:isset,seen,track ip_src; sid:24;)
alert tcp any any -> any [80,9999] (msg:"counts"; flow:to_server,established; content:"evil"; \
flowint:seen_evil,+,1; noalert; sid:25;)
alert tcp any [80,8080] -> any any (msg:"has counted"; flow:to_client,established; \
content:"SECRET"; flowint:seen_evil,>,0; sid:26;)
drop tcp any any -> any [25,80] (msg:"dropped"; content:"EHLO"; sid:27;)
alert tcp any any -> any 25 (msg:"behind it"; content:"QUIT"; sid:28;)
alert icmp any any -> any any (msg:"unreachable"; itype:3; sid:29;)
alert udp 2001:db8::/64 any <> any any (msg:"IPv6"; content:"EVIL"; sid:30;)
alert tcp-pkt any any -> any 445 (msg:"bad header"; sid:31;)
alert ip any any -> any any (msg:"pieces overlap"; decode-event:ipv4.frag_overlap; sid:22;)
"#;

/// Suricata and the arguments that all its runs have.
struct Suricata {
    program: PathBuf,
    place: tempfile::TempDir,
}

impl Suricata {
    fn find(test: &str) -> Option<Suricata> {
        // Where ./test unpacks it.
        let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/suricata/usr/bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::env::split_paths(&path).chain([PathBuf::from(unpacked)]);
        let program = directories.map(|place| place.join("suricata")).find(|path| path.exists());
        if program.is_none() {
            println!("SKIP {test}: Suricata is missing (./test unpacks it on Debian)");
        }
        Some(Suricata { program: program?, place: tempfile::tempdir().unwrap() })
    }

    /// Where an unpacked Suricata has its libraries.
    fn libraries(&self) -> PathBuf {
        let place = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
        self.program.parent().unwrap().join(place)
    }

    /// Makes a directory with a configuration and rules.
    fn place(&self, name: &str, rules: &str) -> PathBuf {
        let place = self.place.path().join(name);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("suricata.yaml"), CONFIG).unwrap();
        fs::write(place.join("all.rules"), rules).unwrap();
        for file in ["classification.config", "reference.config", "threshold.config"] {
            fs::write(place.join(file), "").unwrap();
        }
        place
    }

    /// Runs it in such a directory, and returns what it said, and whether it succeeded.
    fn run(&self, place: &Path, arguments: &[&str]) -> (String, bool) {
        let output = Command::new(&self.program)
            .env("LD_LIBRARY_PATH", self.libraries())
            .current_dir(place)
            .args(["-c", "suricata.yaml", "-S", "all.rules", "-l", "."])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        (said, output.status.success())
    }

    /// How many of these rules it refuses.
    fn refused(&self, name: &str, rules: &str) -> usize {
        let (said, _) = self.run(&self.place(name, rules), &["-T"]);
        said.matches("error parsing signature").count()
    }

    /// The alerts of these rules on these frames, with how often each came.
    fn alerts(&self, name: &str, rules: &str, frames: &[(u64, &[u8])]) -> Vec<serde_json::Value> {
        let place = self.place(name, rules);
        write_trace(&place.join("in.pcap"), frames);
        let arguments = ["-r", "in.pcap", "-k", "none", "--runmode", "single"];
        let (said, succeeded) = self.run(&place, &arguments);
        assert!(succeeded && !said.contains("Error"), "{said}");
        let events = fs::read_to_string(place.join("eve.json")).unwrap();
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn write_trace(path: &Path, frames: &[(u64, &[u8])]) {
    let format = Format::Pcap(Endian::Little, Resolution::Micro);
    let mut writer = Writer::new(fs::File::create(path).unwrap(), format).unwrap();
    for &(timestamp_ns, data) in frames {
        let original_len = data.len() as u32;
        let record = Record { timestamp_ns, original_len, link_type: LINK_ETHERNET, data };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
}

const CONFIG: &str = r#"%YAML 1.1
---
vars:
  address-groups:
    HOME_NET: "[192.168.0.0/16]"
    EXTERNAL_NET: "!$HOME_NET"
default-log-dir: .
classification-file: classification.config
reference-config-file: reference.config
threshold-file: threshold.config
# Hyperscan refuses all rules if one has contents that cannot be where it wants them.
mpm-algo: ac
outputs:
  - eve-log:
      enabled: yes
      filetype: regular
      filename: eve.json
      types:
        - alert
app-layer:
  protocols:
    http:
      enabled: yes
    tls:
      enabled: yes
    dns:
      udp:
        enabled: yes
      tcp:
        enabled: yes
    ftp:
      enabled: yes
    smtp:
      enabled: yes
    smb:
      enabled: yes
"#;

/// An alert, as far as it does not depend on which engine reported it: the time, the ends and the
/// rule.
fn key(alert: &serde_json::Value) -> String {
    let text = |name: &str| alert.get(name).map(ToString::to_string).unwrap_or_default();
    let names = ["timestamp", "proto", "src_ip", "src_port", "dest_ip", "dest_port", "tx_id"];
    let ends: Vec<String> = names.iter().map(|name| text(name)).collect();
    format!("{} {}", ends.join(" "), alert["alert"]["signature_id"])
}

fn count(alerts: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    alerts.for_each(|alert| *counts.entry(alert).or_default() += 1);
    counts
}

/// The flow that an alert names.
fn flow(alert: &serde_json::Value) -> Option<FlowEnds> {
    let transport = match alert["proto"].as_str()? {
        "TCP" => Transport::Tcp,
        "UDP" => Transport::Udp,
        "SCTP" => Transport::Sctp,
        "ICMP" | "IPv6-ICMP" => Transport::Icmp,
        _ => Transport::Other,
    };
    let end = |address: &str, port: &str| -> Option<(IpAddr, u16)> {
        let port = alert.get(port).and_then(serde_json::Value::as_u64).unwrap_or(0);
        Some((alert.get(address)?.as_str()?.parse().ok()?, port as u16))
    };
    let [source, destination] = [end("src_ip", "src_port")?, end("dest_ip", "dest_port")?];
    Some(FlowEnds { transport, source, destination })
}

/// The alerts of all cores that count.
fn merged(
    suricata: &Suricata,
    rules: &[Rule],
    frames: &[(u64, &[u8])],
    cores: usize,
) -> BTreeMap<String, usize> {
    let partition = Partition::new(rules, &Traffic::default(), cores).unwrap();
    let route = |flow: Option<FlowEnds>| match flow {
        Some(flow) => partition.route(&flow),
        None => partition.route_of_others(),
    };
    let mut kept = Vec::new();
    for core in 0..cores {
        let own = (0..rules.len()).filter(|&rule| partition.has(core, rule));
        let text: String = own.map(|rule| rules[rule].text.clone() + "\n").collect();
        let goes = |(_, data): &&(u64, &[u8])| route(flow_of(data)).cores >> core & 1 == 1;
        let frames: Vec<(u64, &[u8])> = frames.iter().filter(goes).copied().collect();
        let name = format!("{cores}-{core}");
        for alert in suricata.alerts(&name, &text, &frames) {
            let sid = alert["alert"]["signature_id"].as_u64().unwrap();
            let rule = rules.iter().position(|rule| u64::from(rule.sid) == sid).unwrap();
            if partition.counts(core, rule, &route(flow(&alert))) {
                kept.push(key(&alert));
            }
        }
    }
    count(kept.into_iter())
}

#[test]
fn the_alerts_of_all_parts_are_those_of_the_whole() {
    let test = "the_alerts_of_all_parts_are_those_of_the_whole";
    let Some(suricata) = Suricata::find(test) else { return };
    let frames = traffic::all(7);
    let at = |index: usize| 1_700_000_000_000_000_000 + index as u64 * 1_000_000;
    let frames: Vec<(u64, &[u8])> =
        frames.iter().enumerate().map(|(index, frame)| (at(index), &frame[..])).collect();
    let rules = read(RULES, &Variables::from_config(CONFIG).unwrap()).unwrap();
    let whole = count(suricata.alerts("whole", RULES, &frames).iter().map(key));
    let by_rule = count(whole.keys().map(|key| key.rsplit(' ').next().unwrap().to_owned()));
    println!("{} alerts: {by_rule:?}", whole.values().sum::<usize>());
    for rule in &rules {
        let silent = [9, 17, 20, 21, 23, 25].contains(&rule.sid);
        assert_eq!(by_rule.contains_key(&rule.sid.to_string()), !silent, "rule {}", rule.sid);
    }
    for cores in 1..=8 {
        let parts = merged(&suricata, &rules, &frames, cores);
        let missing: Vec<_> = whole.iter().filter(|(key, n)| parts.get(*key) != Some(n)).collect();
        let added: Vec<_> = parts.iter().filter(|(key, n)| whole.get(*key) != Some(n)).collect();
        assert!(missing.is_empty() && added.is_empty(), "{cores} cores: {missing:?} {added:?}");
    }
}
