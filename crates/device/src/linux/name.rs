//! Device names of interfaces and their path: `linux:veth`, `linux-xdp:TESTER,DEVICE`,
//! `linux-tc:veth`.

use niclab_packet::timestamp::TimestampClock;

use crate::face::DeviceError;
use crate::two_hosts::Role;

/// Longest interface name, bytes (IFNAMSIZ without its end).
const NAME_LEN_MAX: usize = 15;

/// How the function under test gets its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// By rings of AF_PACKET, behind the driver: of every interface.
    Packet,
    /// By sockets of AF_XDP, in the driver where it has a place for that.
    Xdp,
    /// By rings of AF_PACKET behind the filters of the kernel's traffic control (tc).
    Tc,
}

impl Path {
    /// Each with what names begin with.
    const ALL: [(Path, &str); 3] =
        [(Path::Packet, "linux:"), (Path::Xdp, "linux-xdp:"), (Path::Tc, "linux-tc:")];
}

/// The content of a device name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The path of frames.
    pub path: Path,
    /// The interfaces.
    pub ends: Ends,
    /// The clock of the time stamps at the tester's interface, if there are to be any.
    pub stamps: Option<TimestampClock>,
}

impl Name {
    /// Whether a name is one of this device's.
    pub fn is_one(text: &str) -> bool {
        Path::ALL.iter().any(|(_, prefix)| text.starts_with(prefix))
    }

    /// Reads a name that starts with `linux:`, `linux-xdp:` or `linux-tc:`. Half a testbed has one
    /// interface.
    pub fn parse(text: &str, role: Role) -> Result<Name, DeviceError> {
        let bad = |reason: String| DeviceError::BadName { text: text.into(), reason };
        let mut paths = Path::ALL.iter();
        let found = paths.find_map(|(path, prefix)| Some((*path, text.strip_prefix(prefix)?)));
        let (path, rest) = found
            .ok_or_else(|| bad("must start with `linux:`, `linux-xdp:` or `linux-tc:`".into()))?;
        let (rest, stamps) = match rest.split_once(",stamps=") {
            Some((rest, clock)) => (rest, Some(clock_of(clock, role).map_err(bad)?)),
            None => (rest, None),
        };
        let ends = match role {
            Role::Whole => Ends::parse(rest),
            Role::Tester | Role::Device => Ends::parse_alone(rest),
        };
        Ok(Name { path, ends: ends.map_err(bad)?, stamps })
    }
}

/// The clock of time stamps by its word.
fn clock_of(word: &str, role: Role) -> Result<TimestampClock, String> {
    if role == Role::Device {
        return Err("time stamps are the tester's: give `stamps=` behind its interface".into());
    }
    match word {
        "card" => Ok(TimestampClock::Card),
        "kernel" => Ok(TimestampClock::Kernel),
        _ => Err(format!("`stamps={word}`: give `stamps=card` or `stamps=kernel`")),
    }
}

/// The two ends of the wire that a name asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// A veth pair that niclab makes and takes away again.
    Veth,
    /// Two interfaces of this machine that are cabled to each other.
    Named {
        /// The tester's interface.
        tester: String,
        /// The interface under test.
        device: String,
    },
    /// The interface of half a testbed; the other one is on another host.
    Alone(String),
}

impl Ends {
    fn parse_alone(text: &str) -> Result<Ends, String> {
        if let Some((name, rest)) = text.split_once(',') {
            let tester = "behind the tester's, `stamps=card` or `stamps=kernel`";
            return Err(format!(
                "a half has one interface, here `{name}`; `{rest}` is no option of it ({tester})"
            ));
        }
        check(text)
            .map_err(|reason| format!("`{text}` {reason}; give one, such as `linux:eth0`"))?;
        Ok(Ends::Alone(text.to_owned()))
    }

    fn parse(text: &str) -> Result<Ends, String> {
        if text == "veth" {
            return Ok(Ends::Veth);
        }
        let names: Vec<&str> = text.split(',').collect();
        let [tester, device] = names[..] else {
            return Err(
                "give `linux:veth`, or two interfaces: `linux:TESTER,DEVICE` (the second is \
                 measured); `linux-xdp:…` measures by AF_XDP, `linux-tc:…` behind tc's filters"
                    .into(),
            );
        };
        for name in [tester, device] {
            check(name).map_err(|reason| format!("`{name}` {reason}"))?;
        }
        if tester == device {
            return Err("the tester and the device need an interface each".into());
        }
        Ok(Ends::Named { tester: tester.into(), device: device.into() })
    }
}

/// Checks a name as the kernel does (dev_valid_name in net/core/dev.c).
fn check(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is no interface name: it is empty");
    }
    if name.len() > NAME_LEN_MAX {
        return Err("is no interface name: more than 15 bytes");
    }
    if name == "." || name == ".." || name.contains(|c: char| c == '/' || c.is_whitespace()) {
        return Err("is no interface name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "give `linux:veth`, or two interfaces: `linux:TESTER,DEVICE` (the second is \
        measured); `linux-xdp:…` measures by AF_XDP, `linux-tc:…` behind tc's filters";

    #[test]
    fn a_pair_of_our_own_and_two_named_interfaces_are_read() {
        let of = |path, ends| Name { path, ends, stamps: None };
        assert_eq!(Name::parse("linux:veth", Role::Whole).unwrap(), of(Path::Packet, Ends::Veth));
        assert_eq!(Name::parse("linux-xdp:veth", Role::Whole).unwrap(), of(Path::Xdp, Ends::Veth));
        assert_eq!(Name::parse("linux-tc:veth", Role::Whole).unwrap(), of(Path::Tc, Ends::Veth));
        let named = || Ends::Named { tester: "eth0".into(), device: "enp1s0f0".into() };
        assert_eq!(
            Name::parse("linux:eth0,enp1s0f0", Role::Whole).unwrap(),
            of(Path::Packet, named())
        );
        assert_eq!(
            Name::parse("linux-xdp:eth0,enp1s0f0", Role::Whole).unwrap(),
            of(Path::Xdp, named())
        );
        assert!(Name::is_one("linux-xdp:a,b") && !Name::is_one("linuxes:a,b"));
    }

    #[test]
    fn half_a_testbed_has_one_interface() {
        for role in [Role::Tester, Role::Device] {
            let ends = Ends::Alone("eth0".into());
            let alone = Name { path: Path::Xdp, ends, stamps: None };
            assert_eq!(Name::parse("linux-xdp:eth0", role).unwrap(), alone);
            for text in ["linux:a,b", "linux:a,stamps", "linux:a,stamp=kernel"] {
                let error = Name::parse(text, role).unwrap_err().to_string();
                assert!(error.contains("a half has one interface, here `a`"), "{error}");
            }
            for text in ["linux:", "linux:../x"] {
                let error = Name::parse(text, role).unwrap_err().to_string();
                assert!(error.ends_with("give one, such as `linux:eth0`"), "{error}");
            }
        }
    }

    #[test]
    fn the_tester_may_have_time_stamps() {
        let stamps = |text: &str, role| Name::parse(text, role).map(|name| name.stamps);
        let card = Ok(Some(TimestampClock::Card));
        assert_eq!(stamps("linux:eth0,stamps=card", Role::Tester), card);
        assert_eq!(stamps("linux:a,b,stamps=card", Role::Whole), card);
        let kernel = Ok(Some(TimestampClock::Kernel));
        assert_eq!(stamps("linux-tc:veth,stamps=kernel", Role::Whole), kernel);
        for (role, word, remedy) in [
            (Role::Device, "card", "give `stamps=` behind its interface"),
            (Role::Tester, "ptp", "give `stamps=card` or `stamps=kernel`"),
        ] {
            let text = format!("linux:eth0,stamps={word}");
            let refused = stamps(&text, role).unwrap_err();
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
    }

    #[test]
    fn bad_names_say_what_would_be_right() {
        for (text, reason) in [
            ("linux:", TWO),
            ("linux:eth0", TWO),
            ("linux-xdp:a,b,c", TWO),
            ("linux:eth0,", "`` is no interface name: it is empty"),
            (
                "linux:eth0,sixteen-bytes-xx",
                "`sixteen-bytes-xx` is no interface name: more than 15 \
                bytes",
            ),
            ("linux:../x,b", "`../x` is no interface name"),
            ("linux:a,a", "the tester and the device need an interface each"),
            ("veth", "must start with `linux:`, `linux-xdp:` or `linux-tc:`"),
        ] {
            let bad = DeviceError::BadName { text: text.into(), reason: reason.into() };
            assert_eq!(Name::parse(text, Role::Whole), Err(bad));
        }
    }
}
