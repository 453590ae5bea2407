//! Buses that cards sit on.

use std::fmt;

/// A bus of PCI Express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciExpress {
    generation: u8,
    lanes: u8,
}

/// Rate of a lane, GT/s, and bits of data in so many on the line, by generation from 1 (PCI Express
/// Base Specification: 8b/10b to 2.0, 128b/130b from 3.0 on).
const LANES: [(f64, f64, f64); 5] = [
    (2.5, 8.0, 10.0),
    (5.0, 8.0, 10.0),
    (8.0, 128.0, 130.0),
    (16.0, 128.0, 130.0),
    (32.0, 128.0, 130.0),
];

impl PciExpress {
    /// A bus of a generation from 1 to 5 with so many lanes; `None` where there is none.
    pub fn new(generation: u8, lanes: u8) -> Option<PciExpress> {
        let is_one = (1..=LANES.len() as u8).contains(&generation) && lanes.is_power_of_two();
        is_one.then_some(PciExpress { generation, lanes })
    }

    /// Its generation.
    pub fn generation(self) -> u8 {
        self.generation
    }

    /// Its lanes.
    pub fn lanes(self) -> u8 {
        self.lanes
    }

    /// What it carries each way, Gbps: headers of transactions included, line code not.
    pub fn gbps(self) -> f64 {
        let (rate, data, line) = LANES[usize::from(self.generation) - 1];
        f64::from(self.lanes) * rate * data / line
    }
}

/// `PCIe 2.0 x8`.
impl fmt::Display for PciExpress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCIe {}.0 x{}", self.generation, self.lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buses_carry_what_is_said_of_them() {
        let known = [(1, 4, 8.0), (2, 8, 32.0), (3, 8, 63.0), (4, 16, 252.0), (5, 16, 504.0)];
        for (generation, lanes, gbps) in known {
            let bus = PciExpress::new(generation, lanes).unwrap();
            assert_eq!(bus.gbps().round(), gbps, "{bus}");
        }
        assert_eq!(PciExpress::new(2, 8).unwrap().to_string(), "PCIe 2.0 x8");
        let none = [(0, 8), (6, 8), (3, 0), (3, 12)].map(|(of, lanes)| PciExpress::new(of, lanes));
        assert_eq!(none, [None; 4]);
    }
}
