//! Counts lost datagrams by their sequence numbers.

/// The numbers of the datagrams of one connection, of its measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// The first one, and the highest since, by how far it is from the first.
    first: Option<u32>,
    ahead: u64,
    /// Those that came from the first on.
    came: u64,
    /// Those that came behind a higher one.
    pub reordered: u64,
}

impl SequenceNumbers {
    /// One has come. Numbers wrap: what is less than 2^31 behind the highest is an earlier one.
    #[inline]
    pub fn add(&mut self, number: u32) {
        let Some(first) = self.first else {
            (self.first, self.came) = (Some(number), 1);
            return;
        };
        let highest = first.wrapping_add(self.ahead as u32);
        let step = number.wrapping_sub(highest) as i32;
        if step > 0 {
            self.ahead += step as u64;
            self.came += 1;
            return;
        }
        self.reordered += 1;
        // What came before the first one was counted was on its way before the measured part.
        if u64::from(step.unsigned_abs()) <= self.ahead {
            self.came += 1;
        }
    }

    /// Those between the first and the highest that did not come. One that came twice hides one
    /// that did not.
    pub fn lost(&self) -> u64 {
        match self.first {
            Some(_) => (self.ahead + 1).saturating_sub(self.came),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[u32]) -> (u64, u64) {
        let mut observed = SequenceNumbers::default();
        numbers.iter().for_each(|&number| observed.add(number));
        (observed.lost(), observed.reordered)
    }

    #[test]
    fn numbers_missing_between_the_first_and_the_highest_are_lost() {
        assert_eq!(of(&[]), (0, 0));
        assert_eq!(of(&[7]), (0, 0));
        assert_eq!(of(&[7, 8, 9]), (0, 0));
        assert_eq!(of(&[7, 10, 13]), (4, 0));
        assert_eq!(of(&[7, 9, 8, 10]), (0, 1));
        assert_eq!(of(&[7, 12, 9]), (3, 1));
        // Twice the same.
        assert_eq!(of(&[7, 8, 8]), (0, 1));
        // On its way before the measured part.
        assert_eq!(of(&[7, 5, 8]), (0, 1));
    }

    #[test]
    fn numbers_wrap() {
        assert_eq!(of(&[u32::MAX - 1, u32::MAX, 0, 1]), (0, 0));
        assert_eq!(of(&[u32::MAX - 1, 1]), (2, 0));
        assert_eq!(of(&[u32::MAX, 1, 0]), (0, 1));
    }
}
