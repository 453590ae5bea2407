//! The ports, queues and memory that an application may use.

use std::collections::BTreeMap;

use niclab_program::Program;

use super::{Application, ApplicationError, SHARE_MAX};

/// Memory that an application's program may take, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// For each window.
    pub windows: BTreeMap<String, u64>,
    /// For the rings of each name.
    pub rings: BTreeMap<String, u64>,
    /// For registers, meters, counters, learners and digests, on all cores together.
    pub memory: u64,
}

impl Default for Grant {
    /// No windows and rings, and arrays of some size.
    fn default() -> Grant {
        Grant { windows: BTreeMap::new(), rings: BTreeMap::new(), memory: 64 << 20 }
    }
}

impl Grant {
    /// Checks that a program needs no more memory than this on `cores` cores.
    ///
    /// # Errors
    /// [`ApplicationError::Memory`], of the application of this name.
    pub fn check(
        &self,
        name: &str,
        program: &Program,
        cores: usize,
    ) -> Result<(), ApplicationError> {
        let of = |what: &'static str, of: &str, bytes: usize, most: Option<&u64>| {
            (what, of.to_owned(), bytes as u64, most.copied().unwrap_or(0))
        };
        let windows = program.windows.iter();
        let windows = windows.map(|at| of("window", &at.name, at.len, self.windows.get(&at.name)));
        let rings = program.rings.iter().map(|at| {
            let bytes = at.shape.bytes().saturating_mul(at.count);
            of("ring", &at.name, bytes, self.rings.get(&at.name))
        });
        let arrays = format!("of arrays, learners and digests (cores: {cores})");
        let arrays = of("memory", &arrays, program.room().of(cores), Some(&self.memory));
        let mut takes = windows.chain(rings).chain([arrays]);
        match takes.find(|(_, _, bytes, most)| bytes > most) {
            None => Ok(()),
            Some((what, memory, bytes, most)) => {
                Err(ApplicationError::Memory { name: name.to_owned(), what, memory, bytes, most })
            }
        }
    }
}

/// The ports and queues that an application may send by.
#[derive(Clone, Debug)]
pub(crate) struct OwnedOutputs {
    ports: Vec<bool>,
    queues: Vec<bool>,
}

impl OwnedOutputs {
    /// All ports and queues of a card.
    pub(crate) fn all(ports: usize, queues: u16) -> OwnedOutputs {
        OwnedOutputs { ports: vec![true; ports], queues: vec![true; queues.into()] }
    }

    /// The ports and queues of an application, on a card with `ports` ports and `queues` queues.
    pub(super) fn of(
        of: &Application,
        ports: usize,
        queues: u16,
    ) -> Result<OwnedOutputs, ApplicationError> {
        let name = || of.name.clone();
        if of.flows.is_empty() || of.ports.is_empty() || !(1..=SHARE_MAX).contains(&of.share) {
            return Err(ApplicationError::Nothing { name: name() });
        }
        let mut owned =
            OwnedOutputs { ports: vec![false; ports], queues: vec![false; queues.into()] };
        for (what, numbers, has) in
            [("port", &of.ports, &mut owned.ports), ("queue", &of.queues, &mut owned.queues)]
        {
            for &number in numbers {
                let place = has.get_mut(usize::from(number));
                *place.ok_or(ApplicationError::Missing { name: name(), what, number })? = true;
            }
        }
        Ok(owned)
    }

    /// The numbers of its ports, and of its queues.
    pub(super) fn numbers(&self) -> (Vec<u16>, Vec<u16>) {
        let of = |has: &[bool]| (0..).zip(has).filter_map(|(at, has)| has.then_some(at)).collect();
        (of(&self.ports), of(&self.queues))
    }

    /// How many ports the card has.
    pub(crate) fn ports(&self) -> usize {
        self.ports.len()
    }

    #[inline]
    pub(crate) fn has_port(&self, port: u64) -> bool {
        usize::try_from(port).ok().and_then(|port| self.ports.get(port)) == Some(&true)
    }

    #[inline]
    pub(crate) fn has_queue(&self, queue: u64) -> bool {
        usize::try_from(queue).ok().and_then(|queue| self.queues.get(queue)) == Some(&true)
    }
}
