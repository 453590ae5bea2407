//! Programs to be measured: their text, the initial content of their tables, and their packets.
//!
//! Most are written here, so that one thing grows and all else stays: headers, tables and their
//! entries, instructions. They keep to what DPDK's SWX pipeline takes, so that both get the same
//! text. The others are those of `programs/`, as they are, and a router that SWX takes too.

mod filled;
mod grown;
mod packets;

use niclab_nic::text::TextError;
use niclab_program::{ChangeError, Command, Program};
use serde::{Deserialize, Serialize};

pub use packets::PACKETS;

/// Most headers, and most tables in a row.
pub const COUNT_MAX: u32 = 8;

/// Most instructions of an action.
pub const INSTRUCTIONS_MAX: u32 = 64;

/// Most entries of a table.
pub const ENTRIES_MAX: u32 = 1 << 20;

/// The measured cases of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// `programs/l2-switch`: stations behind ports of one VLAN.
    L2Switch,
    /// `programs/l3-router`: IPv4 by prefixes.
    L3Router,
    /// `programs/acl`: rules of eight masks.
    Acl,
    /// `programs/vxlan-gateway`: frames into tunnels.
    VxlanGateway,
    /// `programs/load-balancer`: flows that it knows, to 64 services.
    LoadBalancer,
    /// `programs/rate-limiter`: customers by prefix, all within their rates.
    RateLimiter,
    /// `programs/kvs-steering`: gets of a key-value store, to sixteen owners.
    KvsSteering,
    /// `programs/kvs-items`: sets of a key-value store, into the logs of sixteen owners.
    KvsItems,
    /// IPv4 by prefixes, less thoroughly than `l3-router`, in words that SWX knows.
    Router,
    /// So many headers taken off and put on.
    Headers,
    /// So many tables in a row that are matched exactly.
    Exact,
    /// The same by the longest prefix.
    Lpm,
    /// The same under eight masks.
    Wildcard,
    /// So many moves between fields of metadata.
    Moves,
    /// So many additions of them.
    Adds,
    /// So many updates of a checksum.
    Checksums,
    /// So many additions to registers.
    Registers,
}

impl Case {
    /// All of them by name.
    pub const ALL: [(&'static str, Case); 17] = [
        ("l2-switch", Case::L2Switch),
        ("l3-router", Case::L3Router),
        ("acl", Case::Acl),
        ("vxlan-gateway", Case::VxlanGateway),
        ("load-balancer", Case::LoadBalancer),
        ("rate-limiter", Case::RateLimiter),
        ("kvs-steering", Case::KvsSteering),
        ("kvs-items", Case::KvsItems),
        ("router", Case::Router),
        ("headers", Case::Headers),
        ("exact", Case::Exact),
        ("lpm", Case::Lpm),
        ("wildcard", Case::Wildcard),
        ("moves", Case::Moves),
        ("adds", Case::Adds),
        ("checksums", Case::Checksums),
        ("registers", Case::Registers),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Case::ALL.iter().find(|(_, case)| *case == self).map_or("", |(name, _)| name)
    }

    /// Least and most of what grows, which there is one of where nothing does.
    pub fn counts(self) -> (u32, u32) {
        match self {
            Case::Headers | Case::Exact | Case::Lpm | Case::Wildcard => (1, COUNT_MAX),
            Case::Moves | Case::Adds | Case::Checksums | Case::Registers => (1, INSTRUCTIONS_MAX),
            _ => (1, 1),
        }
    }

    /// Most entries of the table that is filled; 0 where there is no such table.
    pub fn entries_max(self) -> u32 {
        match self {
            Case::L2Switch => 16_384,
            Case::Acl => 4_096,
            Case::VxlanGateway | Case::RateLimiter | Case::Router => 65_536,
            // It has an entry for each flow, and none comes that has no packet.
            Case::LoadBalancer => PACKETS as u32,
            Case::L3Router | Case::Exact | Case::Lpm | Case::Wildcard => ENTRIES_MAX,
            _ => 0,
        }
    }
}

/// A program with its tables filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Loaded {
    /// Which.
    pub case: Case,
    /// How many of what grows: [`Case::counts`].
    pub count: u32,
    /// Entries of the table that is filled, of each where there are several, from 1 to
    /// [`Case::entries_max`]; 0 where there is none.
    pub entries: u32,
}

/// A program as a device loads it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its text.
    pub text: String,
    /// The same, read.
    pub program: Program,
    /// Its commands before the first packet.
    pub commands: Vec<Command>,
    /// [`PACKETS`] frames without FCS, which all come by port 0 and are all forwarded.
    pub frames: Vec<Vec<u8>>,
}

/// Why a program cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// A number is out of its range.
    #[error("{case}: {what} = {value}: use {min} to {max}")]
    Range {
        /// The case's name.
        case: &'static str,
        /// `count` or `entries`.
        what: &'static str,
        /// As it was given.
        value: u32,
        /// Least.
        min: u32,
        /// Most.
        max: u32,
    },
    /// The program, or a command, is not understood.
    #[error("{case}: {error}")]
    Text {
        /// The case's name.
        case: &'static str,
        /// Why.
        error: TextError,
    },
    /// A table is not there.
    #[error("{case}: {error}")]
    Table {
        /// The case's name.
        case: &'static str,
        /// Why.
        error: ChangeError,
    },
    /// A frame cannot be built.
    #[error("{case}: {error}")]
    Frame {
        /// The case's name.
        case: &'static str,
        /// Why.
        error: niclab_packet::BuildError,
    },
}

impl Loaded {
    /// Checks that its numbers are in their ranges.
    ///
    /// # Errors
    /// [`CaseError::Range`].
    pub fn check(self) -> Result<(), CaseError> {
        let case = self.case.name();
        let (min, max) = self.case.counts();
        if !(min..=max).contains(&self.count) {
            return Err(CaseError::Range { case, what: "count", value: self.count, min, max });
        }
        let max = self.case.entries_max();
        let min = max.min(1);
        match (min..=max).contains(&self.entries) {
            true => Ok(()),
            false => Err(CaseError::Range { case, what: "entries", value: self.entries, min, max }),
        }
    }

    /// The text of its program.
    ///
    /// # Errors
    /// [`CaseError::Range`].
    pub fn text(self) -> Result<String, CaseError> {
        self.check()?;
        Ok(match self.case {
            Case::L2Switch => include_str!("../../../../programs/l2-switch/l2-switch.spec").into(),
            Case::L3Router => include_str!("../../../../programs/l3-router/l3-router.spec").into(),
            Case::Acl => include_str!("../../../../programs/acl/acl.spec").into(),
            Case::VxlanGateway => {
                include_str!("../../../../programs/vxlan-gateway/vxlan-gateway.spec").into()
            }
            Case::LoadBalancer => {
                include_str!("../../../../programs/load-balancer/load-balancer.spec").into()
            }
            Case::RateLimiter => {
                include_str!("../../../../programs/rate-limiter/rate-limiter.spec").into()
            }
            Case::KvsSteering => {
                include_str!("../../../../programs/kvs-steering/kvs-steering.spec").into()
            }
            Case::KvsItems => include_str!("../../../../programs/kvs-items/kvs-items.spec").into(),
            Case::Router => ROUTER.to_owned(),
            _ => grown::text(self),
        })
    }

    /// The program, its commands, and its packets.
    ///
    /// # Errors
    /// [`CaseError::Range`]; others where a program and what is said here of its tables do not fit.
    pub fn prepare(self) -> Result<Prepared, CaseError> {
        let case = self.case.name();
        let text = self.text()?;
        let program = Program::read(&text).map_err(|error| CaseError::Text { case, error })?;
        let commands = match self.case {
            Case::Exact | Case::Lpm | Case::Wildcard => {
                grown::entries(self, &program).map_err(|error| CaseError::Table { case, error })?
            }
            _ => {
                let lines = filled::lines(self);
                let read = |line: &String| Command::read(&program, line);
                lines
                    .iter()
                    .map(read)
                    .collect::<Result<_, _>>()
                    .map_err(|error| CaseError::Text { case, error })?
            }
        };
        let frames = packets::frames(self).map_err(|error| CaseError::Frame { case, error })?;
        Ok(Prepared { text, program, commands, frames })
    }
}

/// A router of IPv4 for both.
pub const ROUTER: &str = include_str!("router.spec");

/// A number that looks random, the same for the same number (the finaliser of `splitmix64`).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests;
