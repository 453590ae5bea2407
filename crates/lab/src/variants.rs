//! Variants: commands that set the machine up in different ways, compared pair by pair.
//!
//! A run with variants measures each device once under each variant. Before each trial the command
//! of its variant runs and the device is set up anew, so the trials of a pair differ in the command
//! alone. A device under a variant is a device of the run with a name of its own: `soft [fast]`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::run::RunDevice;

/// Variants of a run.
pub const COUNT_MIN: usize = 2;
/// More take so long that a pair is far apart in time.
pub const COUNT_MAX: usize = 8;
/// Characters of a name: it stands in every table.
pub const NAME_LEN_MAX: usize = 32;
/// Bytes of a command.
pub const COMMAND_LEN_MAX: usize = 4096;
/// Time limit of a command where none is given, seconds.
pub const TIMEOUT_S_DEFAULT: u64 = 10;
/// Longest time limit of a command, seconds.
pub const TIMEOUT_S_MAX: u64 = 3600;
/// Repeats where none are given. Twelve pairs have an interval even where a hundred comparisons are
/// to hold together (see [`crate::statistics::repeats_for`]).
pub const REPEATS_DEFAULT: u32 = 12;
/// A variant whose command failed so often in a row is left out.
pub const FAILURES_MAX: u32 = 3;

/// A named command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The command that `sh -c` runs before each trial.
    pub command: String,
}

/// The variants of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variants {
    /// How long a command may take, seconds.
    pub timeout_s: u64,
    /// The variants in the order given; the first is the baseline. Empty: none were given.
    pub list: Vec<Variant>,
}

/// Why variants cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// Not `NAME=COMMAND`.
    #[error("{text}: write NAME='COMMAND', such as off='ethtool -C eth0 rx-usecs 0'")]
    NoCommand {
        /// The given text.
        text: String,
    },
    /// A name with other characters, or too long.
    #[error(
        "{name}: a name has 1 to {NAME_LEN_MAX} letters, digits, `-` and `_`; write \
         NAME='COMMAND'"
    )]
    Name {
        /// The given text.
        name: String,
    },
    /// A command that is too long or holds a zero byte.
    #[error(
        "{name}: a command has at most {COMMAND_LEN_MAX} bytes and no zero byte; call a script"
    )]
    Command {
        /// The variant.
        name: String,
    },
    /// A name that two variants have.
    #[error("{name} is given twice: each variant needs a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
    /// Too few or too many.
    #[error("{count} given: a comparison needs {COUNT_MIN} to {COUNT_MAX} variants")]
    Count {
        /// How many.
        count: usize,
    },
    /// A time limit out of range.
    #[error("a time limit of {timeout_s} s: use 1 to {TIMEOUT_S_MAX}")]
    Timeout {
        /// The given text.
        timeout_s: u64,
    },
    /// A device of the run that is none of its variants.
    #[error("device {device} names a variant that the run does not have")]
    Device {
        /// The device.
        device: String,
    },
}

impl Variant {
    /// The suffix of a device's name under this variant.
    fn suffix(name: &str) -> String {
        format!(" [{name}]")
    }

    fn check(&self) -> Result<(), VariantError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_name = (1..=NAME_LEN_MAX).contains(&self.name.len());
        if !is_name || !self.name.chars().all(is_plain) {
            return Err(VariantError::Name { name: self.name.clone() });
        }
        if self.command.len() > COMMAND_LEN_MAX || self.command.contains('\0') {
            return Err(VariantError::Command { name: self.name.clone() });
        }
        Ok(())
    }
}

impl FromStr for Variant {
    type Err = VariantError;

    fn from_str(text: &str) -> Result<Variant, VariantError> {
        let (name, command) = text
            .split_once('=')
            .filter(|(_, command)| !command.trim().is_empty())
            .ok_or_else(|| VariantError::NoCommand { text: text.to_owned() })?;
        let variant = Variant { name: name.to_owned(), command: command.to_owned() };
        variant.check().map(|()| variant)
    }
}

impl Variants {
    /// `true` where a run has none.
    pub fn is_none(&self) -> bool {
        self.list.is_empty()
    }

    /// Refuses what cannot be compared, of a command line or of a file.
    pub fn check(&self) -> Result<(), VariantError> {
        if self.is_none() {
            return Ok(());
        }
        let count = self.list.len();
        if !(COUNT_MIN..=COUNT_MAX).contains(&count) {
            return Err(VariantError::Count { count });
        }
        if !(1..=TIMEOUT_S_MAX).contains(&self.timeout_s) {
            return Err(VariantError::Timeout { timeout_s: self.timeout_s });
        }
        for (at, variant) in self.list.iter().enumerate() {
            variant.check()?;
            if self.list[..at].iter().any(|other| other.name == variant.name) {
                return Err(VariantError::Twice { name: variant.name.clone() });
            }
        }
        Ok(())
    }

    /// The variant of this name.
    pub fn named(&self, name: &str) -> Option<&Variant> {
        self.list.iter().find(|variant| variant.name == name)
    }

    /// Each device once under each variant; the devices themselves where there are none.
    pub(crate) fn under_each(&self, devices: Vec<RunDevice>) -> Vec<RunDevice> {
        if self.is_none() {
            return devices;
        }
        let under = |device: &RunDevice, variant: &Variant| {
            let (asked, name) = (device.name.clone(), variant.name.clone());
            RunDevice {
                name: asked.clone() + &Variant::suffix(&name),
                variant: Some(DeviceVariant { device: asked, name }),
                ..device.clone()
            }
        };
        let of = |device: &RunDevice| {
            self.list.iter().map(|variant| under(device, variant)).collect::<Vec<_>>()
        };
        devices.iter().flat_map(of).collect()
    }

    /// Refuses devices that are under none of these variants, or under one that is not there.
    pub(crate) fn check_devices(&self, devices: &[RunDevice]) -> Result<(), VariantError> {
        let is_right = |device: &RunDevice| match &device.variant {
            None => self.is_none(),
            Some(of) => {
                let named = of.device.clone() + &Variant::suffix(&of.name);
                self.named(&of.name).is_some() && named == device.name
            }
        };
        match devices.iter().find(|device| !is_right(device)) {
            None => Ok(()),
            Some(device) => Err(VariantError::Device { device: device.name.clone() }),
        }
    }
}

/// A device of a run under a variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceVariant {
    /// The device as it was asked for.
    pub device: String,
    /// The name of the variant.
    pub name: String,
}

/// `true` where two devices are the same one under different variants.
pub fn are_variants(one: &RunDevice, other: &RunDevice) -> bool {
    match (&one.variant, &other.variant) {
        (Some(one), Some(other)) => one.device == other.device && one.name != other.name,
        _ => false,
    }
}

/// Devices of a run by what is compared: those of one group are one device under its variants, in
/// their order. A device without variants is a group of its own.
pub fn groups(devices: &[RunDevice]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        let is_of = |group: &&mut Vec<usize>| are_variants(&devices[group[0]], device);
        match groups.iter_mut().find(is_of) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}

#[cfg(test)]
#[path = "variants_tests.rs"]
mod tests;
