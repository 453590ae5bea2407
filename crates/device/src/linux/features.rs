//! Puts the requested features into the path between two hosts.
//!
//! The kernel's own tools do it: `nft`, `ip` and `tc`, in the namespace of each host. What a kernel
//! or a machine lacks is "not supported", in the words of the tool.

use std::fmt::Write;
use std::io;
use std::process::{Command, Output, Stdio};
use std::thread;

use super::hosts::{End, Wire};
use crate::face::DeviceError;
use crate::feature::Feature;

/// The tunnel's interface.
pub const TUNNEL: &str = "niclab-vx";

/// Frames of the tunnel are packets of its path with 50 bytes less (RFC 7348, §4.3: 54 with VLAN).
const TUNNEL_MTU: u32 = super::hosts::MTU - 50;

/// The port of VXLAN (RFC 7348, §5).
const VXLAN_PORT: u16 = 4789;

/// Puts it at a host's end of the wire, whose other end has this number.
///
/// # Errors
/// [`DeviceError::NotSupported`] with what the tool said; [`DeviceError::Rights`];
/// [`DeviceError::Broken`].
pub fn put(feature: &Feature, end: &End, other: &End) -> Result<(), DeviceError> {
    match feature {
        Feature::None => Ok(()),
        Feature::Nft { rules } => run(end, feature, "nft", &["-f", "-"], &table(*rules)),
        Feature::Vxlan => {
            let [local, remote] = [end, other].map(|end| end.address(Wire::Plain).to_string());
            let (mtu, port) = (TUNNEL_MTU.to_string(), VXLAN_PORT.to_string());
            let made = [
                "link", "add", TUNNEL, "mtu", &mtu, "type", "vxlan", "id", "42", "local", &local,
                "remote", &remote, "dstport", &port, "dev", end.name,
            ];
            run(end, feature, "ip", &made, "")?;
            let address = format!("{}/24", end.address(Wire::Tunnel));
            run(end, feature, "ip", &["address", "add", &address, "dev", TUNNEL], "")?;
            run(end, feature, "ip", &["link", "set", TUNNEL, "up"], "")
        }
        Feature::Qdisc { name } => {
            let mut put = vec!["qdisc", "replace", "dev", end.name, "root"];
            // A discipline that counts bytes gets more of them than a machine can copy.
            match name.as_str() {
                "tbf" => put.extend(["tbf", "rate", "400gbit", "burst", "64m", "latency", "1s"]),
                "htb" => put.extend(["handle", "1:", "htb", "default", "1"]),
                name => put.push(name),
            }
            run(end, feature, "tc", &put, "")?;
            if name != "htb" {
                return Ok(());
            }
            let class = ["class", "add", "dev", end.name, "parent", "1:", "classid", "1:1"];
            let rate = ["htb", "rate", "400gbit", "burst", "64m", "cburst", "64m"];
            run(end, feature, "tc", &[&class[..], &rate].concat(), "")
        }
    }
}

/// A table with a chain of rules, none of which matches: their addresses are private ones.
fn table(rules: u32) -> String {
    let mut text = String::from(
        "table inet niclab { chain input { type filter hook input priority 0; policy accept;\n",
    );
    for rule in 0..rules {
        let (high, low) = (rule >> 8, rule & 255);
        let _ = writeln!(text, "ip saddr 10.{}.{}.{low} drop", high >> 8, high & 255);
    }
    text.push_str("}\n}\n");
    text
}

/// Runs a tool in a host's namespace.
fn run(
    end: &End,
    feature: &Feature,
    tool: &str,
    arguments: &[&str],
    input: &str,
) -> Result<(), DeviceError> {
    let path = crate::program::find(tool)
        .ok_or_else(|| DeviceError::lacks(format!("{feature}: `{tool}` is not installed")))?;
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = end.netns.within(|| fed(command, input)).and_then(|output| output);
    let output = output.map_err(|e| super::refused(&format!("running {tool}"), &e))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message =
        message.lines().find(|line| !line.is_empty()).unwrap_or("it failed without a word");
    let message = message.trim().trim_start_matches("Error: ").trim_end_matches('.');
    let reason = format!("{feature}: {tool}: {message}");
    Err(DeviceError::lacks(reason))
}

/// Runs a command to its end with this input.
fn fed(mut command: Command, input: &str) -> io::Result<Output> {
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        // What it says and what it reads may both be longer than a pipe: neither waits for the
        // other.
        scope.spawn(move || {
            stdin.map(|mut stdin| io::Write::write_all(&mut stdin, input.as_bytes()))
        });
        child.wait_with_output()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_rule_of_its_own_for_every_address() {
        assert!(!table(0).contains("saddr"));
        let text = table(70_000);
        let mut rules: Vec<&str> = text.lines().filter(|line| line.contains("saddr")).collect();
        assert_eq!(
            (rules[0], rules[69_999]),
            ("ip saddr 10.0.0.0 drop", "ip saddr 10.1.17.111 drop")
        );
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules.len(), 70_000);
    }
}
