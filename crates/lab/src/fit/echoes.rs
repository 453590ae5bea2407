//! Profiles of the cards whose round trips are published: fitted to table 3 of the study.
//!
//! Table 3 gives the software of client and server and the hardware between them, of 1,024 B in
//! both directions. The machine at the other end is the same for all cards, so that its two numbers
//! are means over all; the hardware is the same whichever way the first message went, so that it is
//! the mean of both directions. What a byte takes is computed from the stated rates of wires and
//! buses, for round trips of other lengths are what the profile is to predict.

use niclab_device::model::pcie::PciExpress;
use niclab_device::model::profile::{Basis, Entry, Part, Profile, rounded};
use niclab_device::model::schema::{INJECTED, Key, Section};

use crate::published::apsys22::{self, Breakdown, breakdowns};

/// A profile: its name, the card and CPU in the study's tables, its title, and those in whose row
/// of table 3 its numbers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoProfile {
    /// Name of the profile.
    pub profile: &'static str,
    /// Card and CPU as [`RoundTrips::name`](crate::published::apsys22::RoundTrips::name) has them.
    pub row: &'static str,
    title: &'static str,
    fitted: &'static str,
}

/// All profiles.
pub const ECHOING: [EchoProfile; 7] = [
    of("connectx-4lx", "CX-4Lx, host", "ConnectX-4 Lx, its host's CPU", "CX-4Lx, host"),
    of("stingray", "Stingray, host", "Stingray PS225, its host's CPU", "Stingray, host"),
    of("stingray-snic", "Stingray, SNIC", "Stingray PS225, its own CPU", "Stingray, SNIC"),
    of(
        "bluefield2",
        "BlueField2, host",
        "BlueField-2, its host's CPU, on-path",
        "BlueField2, host",
    ),
    of(
        "bluefield2-snic",
        "BlueField2, SNIC",
        "BlueField-2, its own CPU, on-path",
        "BlueField2, SNIC",
    ),
    of(
        "bluefield2-off-path",
        "BlueField2 (off-path mode), host",
        "BlueField-2, its host's CPU, off-path",
        "BlueField2, host",
    ),
    of(
        "bluefield2-off-path-snic",
        "BlueField2 (off-path mode), SNIC",
        "BlueField-2, its own CPU, off-path",
        "BlueField2, SNIC",
    ),
];

const fn of(
    profile: &'static str,
    row: &'static str,
    title: &'static str,
    fitted: &'static str,
) -> EchoProfile {
    EchoProfile { profile, row, title, fitted }
}

const SOURCE: &str = "Xing et al., APSys 2022";
/// The section of a profile.
const ECHO: &str = "echo";
/// The section of the bus.
const PCIE: &str = "pcie";

/// Wire: the greatest rate that all cards of table 1 have, picoseconds a byte.
const WIRE_BYTE_PS: f64 = 8e3 / 25.0;
/// Generation and lanes of the bus of the other side, and of a card that table 1 says nothing of.
const ASSUMED: (u8, u8) = (3, 8);

/// A byte over a bus, picoseconds.
fn bus_byte_ps(bus: PciExpress) -> f64 {
    8e3 / bus.gbps()
}

impl EchoProfile {
    /// `true` where table 3 has no row of it, and it has the numbers of another.
    pub fn is_inherited(&self) -> bool {
        self.fitted != self.row
    }

    /// The profile, fitted.
    pub fn fitted(&self) -> Profile {
        let fitted_to = match self.is_inherited() {
            true => Vec::new(),
            false => vec![format!("APSys 2022 table 3: {}", self.fitted)],
        };
        Profile::of(self.title.to_owned(), SOURCE.to_owned(), fitted_to, |section| {
            match section.name {
                ECHO => {
                    Part::Known(section.keys.iter().map(|key| (key, self.entry(key))).collect())
                }
                PCIE => self.pcie(section),
                INJECTED => Part::Lacking,
                _ => Part::Unknown,
            }
        })
    }

    /// The bus of the card, where table 1 has it.
    fn bus(&self) -> Option<PciExpress> {
        apsys22::bus(self.row.split([' ', ',']).next()?)
    }

    fn pcie(&self, section: &'static Section) -> Part {
        let Some(bus) = self.bus() else { return Part::Unknown };
        let entry = |key: &Key| {
            let value = match key.name {
                "generation" => bus.generation(),
                "lanes" => bus.lanes(),
                _ => return Entry::Unknown,
            };
            let source = format!("{SOURCE}: table 1");
            Entry::Known { value: value.into(), basis: Basis::Stated, source }
        };
        Part::Known(section.keys.iter().map(|key| (key, entry(key))).collect())
    }

    fn entry(&self, key: &Key) -> Entry {
        let rows = breakdowns();
        let mine: Vec<&Breakdown> = rows.iter().filter(|row| row.name == self.fitted).collect();
        let all: Vec<&Breakdown> = rows.iter().collect();
        let us = match key.name {
            "client_ns" => mean(&mine, Some(true), CLIENT),
            "server_ns" => mean(&mine, Some(false), SERVER),
            "peer_client_ns" => mean(&all, Some(false), CLIENT),
            "peer_server_ns" => mean(&all, Some(true), SERVER),
            "hardware_ns" => mean(&mine, None, HARDWARE),
            _ => return self.byte(),
        };
        let Some(us) = us else { return Entry::Unknown };
        let is_peer = key.name.starts_with("peer");
        let basis = match self.is_inherited() {
            // Past a CPU the way is not longer than through it.
            true if key.name == "hardware_ns" && self.row.ends_with("host") => Basis::AtMost,
            true if !is_peer => Basis::Inherited,
            _ => Basis::Fitted,
        };
        let of = if is_peer { "mean of all rows" } else { self.fitted };
        Entry::Known {
            value: rounded(1e3 * us, 4),
            basis,
            source: format!("{SOURCE}: table 3, {of}"),
        }
    }

    /// What a byte takes at least: twice the wire, and a bus in and out on both sides.
    fn byte(&self) -> Entry {
        let (generation, lanes) = ASSUMED;
        let Some(assumed) = PciExpress::new(generation, lanes) else { return Entry::Unknown };
        let bus = self.bus().unwrap_or(assumed);
        let byte_ps = 2.0 * (WIRE_BYTE_PS + bus_byte_ps(assumed) + bus_byte_ps(bus));
        let source = format!(
            "computed from {SOURCE}, table 1: 25 Gbps and {bus}, there and back; {assumed} on \
             the other side is assumed"
        );
        Entry::Known { value: rounded(byte_ps, 4), basis: Basis::AtLeast, source }
    }
}

/// Where a part stands in a row.
const CLIENT: usize = 0;
const SERVER: usize = 1;
const HARDWARE: usize = 2;

/// Mean of a part over the rows of one direction, or of both, microseconds.
fn mean(rows: &[&Breakdown], of_client: Option<bool>, part: usize) -> Option<f64> {
    let is_of = |row: &&&Breakdown| of_client.is_none_or(|of| row.of_client == of);
    let values: Vec<f64> = rows.iter().filter(is_of).filter_map(|row| row.us[part]).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
