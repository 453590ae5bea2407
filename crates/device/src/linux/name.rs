//! Which interfaces a name means: `linux:veth` or `linux:TESTER,DEVICE`.

use crate::face::DeviceError;

/// Longest interface name, bytes (IFNAMSIZ without its end).
const NAME_LEN_MAX: usize = 15;

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
}

impl Ends {
    /// Reads a name that starts with `linux:`.
    pub fn parse(text: &str) -> Result<Ends, DeviceError> {
        let bad = |reason: String| DeviceError::BadName { text: text.into(), reason };
        let rest =
            text.strip_prefix("linux:").ok_or_else(|| bad("must start with `linux:`".into()))?;
        if rest == "veth" {
            return Ok(Ends::Veth);
        }
        let names: Vec<&str> = rest.split(',').collect();
        let [tester, device] = names[..] else {
            return Err(bad(
                "give `linux:veth`, or two interfaces: `linux:TESTER,DEVICE` (the second is \
                 measured)"
                    .into(),
            ));
        };
        for name in [tester, device] {
            check(name).map_err(|reason| bad(format!("`{name}` {reason}")))?;
        }
        if tester == device {
            return Err(bad("the tester and the device need an interface each".into()));
        }
        Ok(Ends::Named { tester: tester.into(), device: device.into() })
    }
}

/// What the kernel accepts as a name (dev_valid_name in net/core/dev.c).
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

    #[test]
    fn a_pair_of_our_own_and_two_named_interfaces_are_read() {
        assert_eq!(Ends::parse("linux:veth").unwrap(), Ends::Veth);
        let named = Ends::Named { tester: "eth0".into(), device: "enp1s0f0".into() };
        assert_eq!(Ends::parse("linux:eth0,enp1s0f0").unwrap(), named);
    }

    #[test]
    fn bad_names_say_what_would_be_right() {
        for (text, reason) in [
            (
                "linux:",
                "give `linux:veth`, or two interfaces: `linux:TESTER,DEVICE` (the second is \
                measured)",
            ),
            (
                "linux:eth0",
                "give `linux:veth`, or two interfaces: `linux:TESTER,DEVICE` (the second \
                is measured)",
            ),
            (
                "linux:a,b,c",
                "give `linux:veth`, or two interfaces: `linux:TESTER,DEVICE` (the \
                second is measured)",
            ),
            ("linux:eth0,", "`` is no interface name: it is empty"),
            (
                "linux:eth0,sixteen-bytes-xx",
                "`sixteen-bytes-xx` is no interface name: more than 15 \
                bytes",
            ),
            ("linux:../x,b", "`../x` is no interface name"),
            ("linux:a,a", "the tester and the device need an interface each"),
            ("veth", "must start with `linux:`"),
        ] {
            let bad = DeviceError::BadName { text: text.into(), reason: reason.into() };
            assert_eq!(Ends::parse(text), Err(bad));
        }
    }
}
