//! Tuples from a seed: keys by Zipf's law, event times at a fixed rate.

use niclab_packet::flow::{FlowError, FlowSet, FlowSpec, Picker, Popularity};

use super::LocalTuple;

/// Tuples alternate between the streams below this one.
pub const GENERATED_STREAMS: u16 = 2;

/// The settings of the generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneratorSpec {
    /// Tuples.
    pub tuples: u64,
    /// Keys, from 0 on: at least 1.
    pub keys: u32,
    /// Key `i` occurs in proportion to `1 / (i + 1)^exponent`; 0: all equally often.
    pub exponent: f64,
    /// Event time of the first tuple, nanoseconds.
    pub start_ns: u64,
    /// Event time between two tuples, nanoseconds.
    pub interval_ns: u64,
    /// Equal specifications give equal tuples.
    pub seed: u64,
}

/// A specification that gives no tuples.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// A number of keys, or an exponent, that cannot be.
    #[error("{0}")]
    Keys(#[from] FlowError),
    /// Event times that lead beyond what a tuple can have.
    #[error("{tuples} tuples every {interval_ns} ns: the last event time is 2^63 ns or more")]
    Time {
        /// Tuples.
        tuples: u64,
        /// Event time between two of them, nanoseconds.
        interval_ns: u64,
    },
}

/// Makes the tuples one by one.
#[derive(Debug)]
pub struct Generator {
    picker: Picker,
    spec: GeneratorSpec,
    made: u64,
}

impl Generator {
    /// The tuples of a specification.
    ///
    /// # Errors
    /// [`GeneratorError`].
    pub fn new(spec: GeneratorSpec) -> Result<Generator, GeneratorError> {
        let popularity = match spec.exponent {
            0.0 => Popularity::Uniform,
            exponent => Popularity::Zipf { exponent },
        };
        let GeneratorSpec { tuples, interval_ns, start_ns, .. } = spec;
        let last_ns = tuples.checked_mul(interval_ns).and_then(|ns| ns.checked_add(start_ns));
        if last_ns.is_none_or(|last_ns| last_ns > crate::tuple::TIME_NS_MAX) {
            return Err(GeneratorError::Time { tuples, interval_ns });
        }
        let keys = FlowSet::new(&FlowSpec { count: spec.keys, popularity, ..FlowSpec::default() })?;
        Ok(Generator { picker: keys.picker(spec.seed), spec, made: 0 })
    }
}

impl Iterator for Generator {
    type Item = LocalTuple;

    fn next(&mut self) -> Option<LocalTuple> {
        let GeneratorSpec { tuples, start_ns, interval_ns, .. } = self.spec;
        let made = self.made;
        (made < tuples).then(|| {
            self.made += 1;
            LocalTuple {
                stream: (made % u64::from(GENERATED_STREAMS)) as u16,
                key: self.picker.next().into(),
                time_ns: start_ns + made * interval_ns,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: GeneratorSpec = GeneratorSpec {
        tuples: 10_000,
        keys: 100,
        exponent: 1.0,
        start_ns: 7,
        interval_ns: 1_000,
        seed: 3,
    };

    #[test]
    fn equal_seeds_give_equal_tuples() {
        let all = |seed| Generator::new(GeneratorSpec { seed, ..SPEC }).unwrap();
        let tuples: Vec<LocalTuple> = all(3).collect();
        assert!(tuples.iter().copied().eq(all(3)) && !tuples.iter().copied().eq(all(4)));
        assert_eq!((tuples.len(), tuples[9_999].time_ns), (10_000, 7 + 9_999_000));
        let of = |key| tuples.iter().filter(|tuple| tuple.key == key).count();
        assert!(of(0) > 3 * of(9) && of(9) > 0, "{} {}", of(0), of(9));
        assert_eq!(tuples.iter().filter(|tuple| tuple.stream == 1).count(), 5_000);
    }

    #[test]
    fn impossible_specifications_are_refused() {
        let refused = |spec| Generator::new(spec).err().unwrap().to_string();
        assert!(refused(GeneratorSpec { keys: 0, ..SPEC }).contains('0'));
        assert!(!refused(GeneratorSpec { exponent: f64::NAN, ..SPEC }).is_empty());
        let late = refused(GeneratorSpec { interval_ns: u64::MAX, ..SPEC });
        assert!(late.ends_with("the last event time is 2^63 ns or more"), "{late}");
    }
}
