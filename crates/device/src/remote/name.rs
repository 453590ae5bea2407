//! Names of devices on other hosts: `ssh://[USER@]HOST[:PORT]=DEVICE` and `exec:COMMAND=DEVICE`.

use std::fmt;

use crate::face::DeviceError;
use crate::halves_of;
use crate::two_hosts::Role;

/// How the agent is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AgentPlace {
    /// This host, for half a testbed.
    Here,
    /// By the system's ssh, which has this destination: `ssh://[USER@]HOST[:PORT]`.
    Ssh(String),
    /// By a command of the shell, such as `ip netns exec b`, behind which the agent's command is
    /// put.
    Exec(String),
}

/// A device on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Where it is.
    pub place: AgentPlace,
    /// Its name there.
    pub device: String,
}

/// Separates the halves in the name of a testbed, the tester first.
const HALVES: &str = " -> ";

/// This host, in the name of half a testbed.
const HERE: &str = "local=";

/// Prefixes of names that begin with a place.
const SSH: &str = "ssh://";
const EXEC: &str = "exec:";

/// Whether a name is that of a device on another host, or of a testbed of two hosts.
pub fn is_remote(name: &str) -> bool {
    name.starts_with(SSH) || name.starts_with(EXEC) || halves(name).is_some()
}

/// The halves of a testbed of two hosts: tester and device.
pub(super) fn halves(name: &str) -> Option<(&str, &str)> {
    name.split_once(HALVES)
}

/// The device in a name, without its place and its tester.
pub fn device_of(name: &str) -> String {
    let device = halves(name).map_or(name, |(_, device)| device);
    Name::parse_half(device, Role::Device).map_or_else(|_| device.to_owned(), |name| name.device)
}

/// The name of a testbed of two hosts.
pub fn of_halves(tester: &str, device: &str) -> String {
    format!("{tester}{HALVES}{device}")
}

impl Name {
    /// The name of half a testbed, which may be on this host.
    ///
    /// # Errors
    /// [`DeviceError::BadName`].
    pub(super) fn parse_half(name: &str, role: Role) -> Result<Name, DeviceError> {
        match name.strip_prefix(HERE) {
            Some(device) => Ok(Name { place: AgentPlace::Here, device: device.to_owned() }),
            None if name.starts_with(SSH) || name.starts_with(EXEC) => Name::parse(name),
            None => Err(DeviceError::BadName {
                text: name.to_owned(),
                reason: format!(
                    "give its host: `local=linux:eth0`, `ssh://dut=linux:eth0` or \
                     `exec:COMMAND=linux:eth0`; {}",
                    halves_of(role)
                ),
            }),
        }
    }

    /// # Errors
    /// [`DeviceError::BadName`].
    pub(super) fn parse(name: &str) -> Result<Name, DeviceError> {
        let bad = |reason: &str| DeviceError::BadName { text: name.into(), reason: reason.into() };
        if let Some(rest) = name.strip_prefix(SSH) {
            let usual = "give a host and its device, such as `ssh://root@dut=linux:veth`";
            let (host, device) = rest.split_once('=').ok_or_else(|| bad(usual))?;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "@.-_:[]%".contains(c);
            if host.is_empty() || device.is_empty() {
                return Err(bad(usual));
            }
            if !host.chars().all(is_plain) || host.starts_with('-') {
                return Err(bad("a host is written [USER@]HOST[:PORT]"));
            }
            return no_chain(AgentPlace::Ssh(format!("{SSH}{host}")), device, &bad);
        }
        let rest = name.strip_prefix(EXEC).unwrap_or(name);
        let usual = "give a command and the device behind it, such as \
                     `exec:ip netns exec b=linux:eth0,eth1`";
        // A command may have `=`, as a device may: the first that a device's name follows counts.
        let is_device = |text: &str| crate::is_device_name(text);
        let at = rest.match_indices('=').map(|(at, _)| at).find(|at| is_device(&rest[at + 1..]));
        let at = at.ok_or_else(|| bad(usual))?;
        let (command, device) = (rest[..at].trim(), &rest[at + 1..]);
        if command.is_empty() {
            return Err(bad(usual));
        }
        no_chain(AgentPlace::Exec(command.to_owned()), device, &bad)
    }
}

/// The name, unless its device is on yet another host.
fn no_chain(
    place: AgentPlace,
    device: &str,
    bad: &impl Fn(&str) -> DeviceError,
) -> Result<Name, DeviceError> {
    match is_remote(device) {
        true => Err(bad("an agent opens devices of its own host alone")),
        false => Ok(Name { place, device: device.to_owned() }),
    }
}

impl fmt::Display for AgentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentPlace::Here => f.write_str("local"),
            AgentPlace::Ssh(destination) => f.write_str(destination),
            AgentPlace::Exec(command) => write!(f, "{EXEC}{command}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Result<(String, String), String> {
        let name = Name::parse(name).map_err(|error| error.to_string())?;
        Ok((name.place.to_string(), name.device))
    }

    #[test]
    fn a_name_has_a_place_and_a_device() {
        for (name, place, device) in [
            ("ssh://dut=soft", "ssh://dut", "soft"),
            (
                "ssh://me@dut:2222=dpdk:--vdev=net_ring0",
                "ssh://me@dut:2222",
                "dpdk:--vdev=net_ring0",
            ),
            ("ssh://me@[fe80::1%eth0]:22=swx", "ssh://me@[fe80::1%eth0]:22", "swx"),
            ("exec:ip netns exec b=linux:eth0,eth1", "exec:ip netns exec b", "linux:eth0,eth1"),
            ("exec:env A=b C=dpdk sh -c =soft", "exec:env A=b C=dpdk sh -c", "soft"),
            ("exec:env A=b=dpdk:--vdev=x=soft", "exec:env A=b", "dpdk:--vdev=x=soft"),
            ("ssh://dut=nonsense", "ssh://dut", "nonsense"),
        ] {
            assert_eq!(parsed(name), Ok((place.to_owned(), device.to_owned())), "{name}");
        }
    }

    #[test]
    fn a_name_without_a_place_or_a_device_is_refused() {
        for (name, words) in [
            ("ssh://dut", "give a host and its device"),
            ("ssh://=soft", "give a host and its device"),
            ("ssh://dut=", "give a host and its device"),
            ("ssh://-oProxyCommand=soft", "a host is written"),
            ("ssh://a;reboot=soft", "a host is written"),
            ("ssh://a b=soft", "a host is written"),
            ("ssh://a=ssh://b=soft", "devices of its own host alone"),
            ("exec:=soft", "give a command"),
            ("exec:true", "give a command"),
            ("exec:true=", "give a command"),
            ("exec:true=nonsense", "give a command"),
        ] {
            let error = parsed(name).unwrap_err();
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}
