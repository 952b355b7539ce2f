//! Scenarios.

use proptest::prelude::*;

use super::fuzz;

proptest! {
    #[test]
    fn anything_is_borne(input in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz(&input);
    }
}
