//! Random numbers that follow from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::requests::numbering::Draw;

/// A source of random numbers.
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// Makes the source of a case: other cases of the same seed have other numbers.
    pub fn new(seed: u64, case: u32) -> Self {
        Chance(Draw::new(seed, case.into()).random)
    }

    /// Returns a number from 0 to below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    /// Returns random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed_and_the_case() {
        let drawn = |seed, case| Chance::new(seed, case).bytes(32);
        assert_eq!(drawn(1, 2), drawn(1, 2));
        assert!(drawn(1, 2) != drawn(2, 2) && drawn(1, 2) != drawn(1, 3));
        let mut chance = Chance::new(1, 1);
        assert!((0..1000).map(|_| chance.below(3)).all(|number| number < 3));
    }
}
