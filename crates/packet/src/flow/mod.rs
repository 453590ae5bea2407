//! Flow sets: many distinct 5-tuples from a few lines of specification, without memory per flow.
//!
//! [`FlowSet::tuple`] maps a flow number to its 5-tuple through a seeded bijection of all tuples
//! the ranges allow, so tuples are pseudo-random, distinct, and do not change when the count
//! grows. A [`Picker`] says which flow the next packet belongs to.

mod permutation;
mod picker;
mod range;
mod zipf;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use picker::Picker;
pub use range::{AddressRange, PortRange, RangeError};
pub use zipf::EXPONENT_MAX;

use crate::limits::FLOWS_MAX;
use crate::wire::IpProtocol;
use permutation::Permutation;
use zipf::Zipf;

/// IP version of a set's tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// Transport protocol of a set's tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    #[default]
    Udp,
}

impl Transport {
    /// Its IP protocol number.
    pub const fn protocol(self) -> IpProtocol {
        match self {
            Self::Tcp => IpProtocol::TCP,
            Self::Udp => IpProtocol::UDP,
        }
    }
}

/// How often the flows of a set are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Popularity {
    /// All equally often.
    #[default]
    Uniform,
    /// Flow `i` in proportion to `1 / (i + 1)^exponent`.
    Zipf {
        /// Above 0, at most [`EXPONENT_MAX`]; traffic is often near 1.
        exponent: f64,
    },
}

/// What was asked for. Every field has a default: IPv4, UDP, from 10.0.0.0/8 to the benchmark
/// range 198.18.0.0/15 (RFC 2544 C.2.2), unprivileged ports; for IPv6 from fd00::/8 to the
/// benchmark range 2001:2::/48 (RFC 5180).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowSpec {
    /// Number of flows, `1..=`[`FLOWS_MAX`].
    pub count: u32,
    /// IP version.
    pub version: IpVersion,
    /// Transport protocol.
    pub proto: Transport,
    /// Source addresses: `"10.0.0.0/8"`, `"10.0.0.1-10.0.0.99"` or one address; none means the
    /// default of the version.
    pub src: Option<AddressRange>,
    /// Destination addresses, likewise.
    pub dst: Option<AddressRange>,
    /// Source ports: `"1024-65535"` or one number.
    pub sport: PortRange,
    /// Destination ports, likewise.
    pub dport: PortRange,
    /// How often each flow is picked.
    pub popularity: Popularity,
    /// Chooses the tuples. Equal specifications make equal sets, on every machine.
    pub seed: u64,
}

impl Default for FlowSpec {
    fn default() -> Self {
        Self {
            count: 1,
            version: IpVersion::V4,
            proto: Transport::Udp,
            src: None,
            dst: None,
            sport: PortRange::UNPRIVILEGED,
            dport: PortRange::UNPRIVILEGED,
            popularity: Popularity::Uniform,
            seed: 0,
        }
    }
}

impl FlowSpec {
    fn src_or_default(&self) -> AddressRange {
        self.src.unwrap_or(match self.version {
            IpVersion::V4 => AddressRange::prefix(Ipv4Addr::new(10, 0, 0, 0).into(), 8),
            IpVersion::V6 => AddressRange::prefix(Ipv6Addr::from_bits(0xfd << 120).into(), 8),
        })
    }

    fn dst_or_default(&self) -> AddressRange {
        self.dst.unwrap_or(match self.version {
            IpVersion::V4 => AddressRange::prefix(Ipv4Addr::new(198, 18, 0, 0).into(), 15),
            IpVersion::V6 => {
                AddressRange::prefix(Ipv6Addr::from_bits(0x2001_0002 << 96).into(), 48)
            }
        })
    }
}

/// Why a specification makes no flow set.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// `count` is 0 or too large.
    #[error("count = {count}: must be 1 to {FLOWS_MAX}")]
    Count {
        /// What was asked for.
        count: u32,
    },
    /// The exponent is no number a Zipf distribution can have.
    #[error(
        "popularity.zipf.exponent = {exponent}: must be above 0 and at most {EXPONENT_MAX}; \
             for 0 write popularity = \"uniform\""
    )]
    Exponent {
        /// What was asked for.
        exponent: f64,
    },
    /// The ranges hold fewer tuples than there are flows.
    #[error(
        "count = {count}: src, dst, sport and dport together hold only {space} tuples; \
             widen one of them or ask for fewer flows"
    )]
    Space {
        /// What was asked for.
        count: u32,
        /// Distinct tuples the ranges hold.
        space: u128,
    },
    /// An address range of the other IP version.
    #[error("{field} = \"{range}\": not IP{version}; change it or `version`")]
    Version {
        /// `src` or `dst`.
        field: &'static str,
        /// The range.
        range: AddressRange,
        /// What `version` asks for, `v4` or `v6`.
        version: &'static str,
    },
}

/// What tells a flow from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// Source address, of the same version as `dst`.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Transport protocol.
    pub proto: Transport,
}

/// A set of distinct flows, numbered from 0. Cheap to clone: pickers share its tables.
#[derive(Clone, Debug)]
pub struct FlowSet {
    count: u32,
    proto: Transport,
    src: AddressRange,
    dst: AddressRange,
    sport: PortRange,
    dport: PortRange,
    permutation: Permutation,
    zipf: Option<Zipf>,
}

impl FlowSet {
    /// Checks a specification and prepares its set.
    ///
    /// # Errors
    /// [`FlowError`], which names the field and the remedy.
    pub fn new(spec: &FlowSpec) -> Result<Self, FlowError> {
        let FlowSpec { count, proto, sport, dport, .. } = *spec;
        if count == 0 || count > FLOWS_MAX {
            return Err(FlowError::Count { count });
        }
        let (src, dst) = (spec.src_or_default(), spec.dst_or_default());
        check_version("src", src, spec.version)?;
        check_version("dst", dst, spec.version)?;
        // At most 47 + 47 + 16 + 16 bits: address ranges are used up to 2^47 slots.
        let space = u128::from(src.slots()) * u128::from(dst.slots());
        let space = space * u128::from(sport.count()) * u128::from(dport.count());
        if space < count.into() {
            return Err(FlowError::Space { count, space });
        }
        let zipf = match spec.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf { exponent } if exponent > 0.0 && exponent <= EXPONENT_MAX => {
                Some(Zipf::new(count, exponent))
            }
            Popularity::Zipf { exponent } => return Err(FlowError::Exponent { exponent }),
        };
        let permutation = Permutation::new(space, spec.seed);
        Ok(Self { count, proto, src, dst, sport, dport, permutation, zipf })
    }

    /// Number of flows.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The tuple of flow `index`. Distinct for distinct numbers below [`FlowSet::count`], and
    /// the same whatever the count. Numbers beyond the count wrap around it.
    pub fn tuple(&self, index: u32) -> FiveTuple {
        let mut slot = self.permutation.apply(index % self.count);
        let mut take = |count: u64| {
            let digit = slot % u128::from(count);
            slot /= u128::from(count);
            digit as u64
        };
        FiveTuple {
            sport: self.sport.nth(take(self.sport.count())),
            dport: self.dport.nth(take(self.dport.count())),
            src: self.src.nth(take(self.src.slots())),
            dst: self.dst.nth(take(self.dst.slots())),
            proto: self.proto,
        }
    }

    /// All tuples, in order of their numbers.
    pub fn tuples(&self) -> impl Iterator<Item = FiveTuple> + '_ {
        (0..self.count).map(|index| self.tuple(index))
    }

    /// Share of the packets that flow `index` gets in the long run; 0 beyond the count.
    pub fn share(&self, index: u32) -> f64 {
        match &self.zipf {
            _ if index >= self.count => 0.0,
            None => 1.0 / f64::from(self.count),
            Some(zipf) => zipf.share(index),
        }
    }

    /// A stream of flow numbers of the set's popularity; equal seeds make equal streams.
    pub fn picker(&self, seed: u64) -> Picker {
        Picker::new(self.count, self.zipf.clone(), seed)
    }
}

fn check_version(
    field: &'static str,
    range: AddressRange,
    version: IpVersion,
) -> Result<(), FlowError> {
    match (range.is_v4(), version) {
        (true, IpVersion::V4) | (false, IpVersion::V6) => Ok(()),
        (_, IpVersion::V4) => Err(FlowError::Version { field, range, version: "v4" }),
        (_, IpVersion::V6) => Err(FlowError::Version { field, range, version: "v6" }),
    }
}

#[cfg(test)]
mod tests;
