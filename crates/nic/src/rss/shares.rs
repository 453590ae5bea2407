//! The shares of queues that RSS gives to a set of flows, computed flow by flow: the expected
//! values for a measurement. The hash function is the only code that this shares with the packet
//! path.

use std::net::IpAddr;

use niclab_packet::flow::{FiveTuple, FlowSet, Transport};

use super::{HashFunction, HashTypes, Rss};
use crate::toeplitz::{Toeplitz, ToeplitzError};

impl Rss {
    /// The share of a set of flows' packets that each of `queues` queues gets, 0 to 1, in the long
    /// run, with the popularity of each flow. The packets are whole packets outside tunnels.
    /// Packets that the indirection table sends to other queues are in no share.
    ///
    /// # Errors
    /// If the key is not valid.
    pub fn shares(&self, flows: &FlowSet, queues: u16) -> Result<Vec<f64>, ToeplitzError> {
        let queue_of = self.queues_of()?;
        let mut shares = vec![0.0; usize::from(queues)];
        for (flow, tuple) in (0..).zip(flows.tuples()) {
            if let Some(share) = shares.get_mut(usize::from(queue_of(&tuple))) {
                *share += flows.share(flow);
            }
        }
        Ok(shares)
    }

    /// A function from a flow to the queue of its packets, which are whole packets outside tunnels.
    ///
    /// # Errors
    /// If the key is not valid.
    pub fn queues_of(&self) -> Result<impl Fn(&FiveTuple) -> u16 + '_, ToeplitzError> {
        let toeplitz = Toeplitz::new(&self.key)?;
        Ok(move |tuple: &FiveTuple| {
            let hash = toeplitz.hash(&self.input(tuple));
            self.indirection[hash as usize % self.indirection.len()]
        })
    }

    /// The hash input of a flow's packets; empty if no type names them.
    fn input(&self, tuple: &FiveTuple) -> Vec<u8> {
        let is_tcp = tuple.proto == Transport::Tcp;
        let (any, own) = match (tuple.src.is_ipv4(), is_tcp) {
            (true, true) => (HashTypes::IPV4, HashTypes::IPV4_TCP),
            (true, false) => (HashTypes::IPV4, HashTypes::IPV4_UDP),
            (false, true) => (HashTypes::IPV6, HashTypes::IPV6_TCP),
            (false, false) => (HashTypes::IPV6, HashTypes::IPV6_UDP),
        };
        let has = |types| self.types.contains(types);
        let mut input = Vec::with_capacity(36);
        if has(any) || has(own) {
            let only = [HashTypes::L3_SRC_ONLY, HashTypes::L3_DST_ONLY].map(has);
            self.add_pair(&mut input, &octets(tuple.src), &octets(tuple.dst), only);
        }
        if has(own) {
            let only = [HashTypes::L4_SRC_ONLY, HashTypes::L4_DST_ONLY].map(has);
            let [src, dst] = [tuple.sport, tuple.dport].map(u16::to_be_bytes);
            self.add_pair(&mut input, &src, &dst, only);
        }
        input
    }

    /// Source and destination as they are hashed; `only` says which of them is the only one to
    /// hash.
    fn add_pair(&self, input: &mut Vec<u8>, src: &[u8], dst: &[u8], only: [bool; 2]) {
        let mask =
            |is_only, is_other_only: bool| if is_only || !is_other_only { u8::MAX } else { 0 };
        let (of_src, of_dst) = (mask(only[0], only[1]), mask(only[1], only[0]));
        let pairs = || src.iter().zip(dst).map(|(src, dst)| (src & of_src, dst & of_dst));
        match self.function {
            HashFunction::Toeplitz => {
                input.extend(pairs().map(|(src, _)| src));
                input.extend(pairs().map(|(_, dst)| dst));
            }
            HashFunction::SymmetricToeplitz => {
                input.extend(pairs().map(|(src, dst)| src ^ dst));
                input.extend(pairs().map(|(src, dst)| src ^ dst));
            }
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::flow::{FlowSpec, Popularity};

    use super::*;
    use crate::rss::evenly;

    #[test]
    fn shares_add_up_and_are_of_the_popular_flows() {
        let rss = Rss { indirection: evenly(0..8), ..Rss::default() };
        let shares = |popularity| {
            let spec = FlowSpec { count: 4_096, popularity, ..FlowSpec::default() };
            rss.shares(&FlowSet::new(&spec).unwrap(), 8).unwrap()
        };
        let most = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
        let even = shares(Popularity::Uniform);
        let skewed = shares(Popularity::Zipf { exponent: 2.0 });
        for shares in [&even, &skewed] {
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        }
        assert!(most(&even) < 0.15, "{even:?}");
        // The first flow has 6/pi^2 of the packets.
        assert!(most(&skewed) > 0.6, "{skewed:?}");
        // Queues that the caller did not ask for have no share.
        let spec = FlowSpec { count: 4_096, ..FlowSpec::default() };
        let few = rss.shares(&FlowSet::new(&spec).unwrap(), 2).unwrap();
        assert_eq!(few, even[..2]);
    }
}
