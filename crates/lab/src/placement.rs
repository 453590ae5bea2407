//! Placement labels: where the programs of a measurement ran. The user gives them. They are stored
//! and reported, and do not change the measurement.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The CPU that a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cpu {
    /// The CPU of the host that the card is in.
    Host,
    /// The card's own.
    Snic,
    /// The CPU of the machine at the other end of the wire.
    Peer,
}

/// Whether the card's CPU stands in the packets' way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuPath {
    /// Every packet of the host passes it.
    On,
    /// Packets of the host go past it.
    Off,
    /// The card has no CPU.
    None,
}

/// The placement labels of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The CPU of this side: of the client, unless a point has `there`.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub here: Option<Cpu>,
    /// The CPU of the other side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<Cpu>,
    /// Whether the card's CPU stood in the packets' way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<CpuPath>,
}

/// A label that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use {0}")]
pub struct UnknownLabel(&'static str);

impl Cpu {
    /// All of them by their names.
    pub const NAMES: [(&'static str, Cpu); 3] =
        [("host", Cpu::Host), ("snic", Cpu::Snic), ("peer", Cpu::Peer)];
}

impl CpuPath {
    /// All of them by their names.
    pub const NAMES: [(&'static str, CpuPath); 3] =
        [("on", CpuPath::On), ("off", CpuPath::Off), ("none", CpuPath::None)];
}

impl FromStr for Cpu {
    type Err = UnknownLabel;

    fn from_str(name: &str) -> Result<Cpu, UnknownLabel> {
        let found = Cpu::NAMES.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, cpu)| cpu).ok_or(UnknownLabel("host, snic or peer"))
    }
}

impl FromStr for CpuPath {
    type Err = UnknownLabel;

    fn from_str(name: &str) -> Result<CpuPath, UnknownLabel> {
        let found = CpuPath::NAMES.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, way)| way).ok_or(UnknownLabel("on, off or none"))
    }
}

/// As the study's tables name it.
impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cpu::Host => "host",
            Cpu::Snic => "SNIC",
            Cpu::Peer => "peer",
        })
    }
}

/// In the words of a label.
impl fmt::Display for CpuPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CpuPath::On => "on-path",
            CpuPath::Off => "off-path",
            CpuPath::None => "no SNIC",
        })
    }
}

impl Placement {
    /// `true` where nothing is said.
    pub fn is_unsaid(&self) -> bool {
        *self == Placement::default()
    }

    /// What is said, in the words of a label: `SNIC`, `on-path`. That the other side is the peer
    /// goes without saying.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let here = self.here.map(|cpu| cpu.to_string());
        let there = self.there.filter(|cpu| *cpu != Cpu::Peer).map(|cpu| format!("to {cpu}"));
        let path = self.path.map(|way| way.to_string());
        [here, there, path].into_iter().flatten()
    }

    /// A sentence for the head of a report; empty without labels.
    pub fn sentence(&self) -> String {
        let of = |cpu: Cpu| match cpu {
            Cpu::Host => "the host's CPU",
            Cpu::Snic => "the SmartNIC's CPU",
            Cpu::Peer => "the peer",
        };
        let here = self.here.map(|cpu| format!("this side on {}", of(cpu)));
        let there = self.there.map(|cpu| format!("the other side on {}", of(cpu)));
        let path = self.path.map(|way| match way {
            CpuPath::On => "the SmartNIC's CPU in the packets' way".to_owned(),
            CpuPath::Off => "the SmartNIC's CPU not in the packets' way".to_owned(),
            CpuPath::None => "no SmartNIC in the packets' way".to_owned(),
        });
        [here, there, path].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_survives_its_text_and_an_empty_one_stays_empty() {
        let all =
            Placement { here: Some(Cpu::Snic), there: Some(Cpu::Peer), path: Some(CpuPath::On) };
        let text = toml::to_string(&all).unwrap();
        assert_eq!(text, "where = \"snic\"\nthere = \"peer\"\npath = \"on\"\n");
        assert_eq!(toml::from_str::<Placement>(&text).unwrap(), all);
        assert_eq!(all.words().collect::<Vec<_>>(), ["SNIC", "on-path"]);
        let inside = Placement { there: Some(Cpu::Host), path: None, ..all };
        assert_eq!(inside.words().collect::<Vec<_>>(), ["SNIC", "to host"]);
        assert_eq!(
            all.sentence(),
            "this side on the SmartNIC's CPU, the other side on the peer, the SmartNIC's CPU in \
             the packets' way"
        );
        assert!(toml::from_str::<Placement>("").unwrap().is_unsaid());
        assert_eq!(Placement::default().sentence(), "");
    }

    #[test]
    fn a_name_that_is_no_label_is_refused_with_those_that_are() {
        for (name, cpu) in Cpu::NAMES {
            assert_eq!(name.parse(), Ok(cpu));
        }
        assert_eq!("arm".parse::<Cpu>().unwrap_err().to_string(), "use host, snic or peer");
        assert_eq!("".parse::<CpuPath>().unwrap_err().to_string(), "use on, off or none");
    }
}
