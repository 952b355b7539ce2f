//! Builds the path of a cell from its profile and the cell's own factors.
//!
//! `rtt` (milliseconds), `rate` (Mbit/s), `loss` (percent of the packets of each direction) and `queue` (packets, or
//! `bdp`) replace the values of the profile in both directions. The level `path` leaves the value of the profile
//! unchanged. A study can thus vary one quantity of a path without a file for each value, and plot its results over
//! this quantity.

use std::time::Duration;

use fathometer_model::Probability;
use fathometer_path::{DirectionProfile, LossModel, Profile, Queue};

use super::factors::{self, QueueLevel};
use crate::factor::LevelError;
use crate::spec::Cell;

/// The minimum queue of `queue=bdp`, in packets. It has space for a burst that is larger than an initial window.
const SMALLEST_QUEUE: u64 = 32;

/// Returns the profile with the cell's changes.
pub(super) fn profile(cell: &Cell, profile: &Profile) -> Result<Profile, LevelError> {
    let mut path = profile.clone();
    let round_trip = factors::RTT.of(cell)?;
    let rate = factors::RATE.of(cell)?;
    let loss = factors::LOSS.of(cell)?;
    let queue = factors::QUEUE.of(cell)?;
    for direction in [&mut path.up, &mut path.down] {
        if let Some(round_trip) = round_trip {
            direction.propagation = round_trip / 2;
        }
        if let Some(rate) = rate {
            direction.rate = Some(rate);
        }
        if let Some(loss) = loss {
            direction.loss = (loss != Probability::ZERO).then_some(LossModel::Independent(loss));
        }
    }
    let round_trip = path.round_trip();
    for direction in [&mut path.up, &mut path.down] {
        let packets = match queue {
            QueueLevel::Path => continue,
            QueueLevel::BandwidthDelayProduct => packets_of(direction, round_trip, path.mtu),
            QueueLevel::Packets(packets) => packets,
        };
        direction.queue = Queue::Packets(packets);
    }
    Ok(path)
}

/// Returns the bandwidth-delay product in packets of maximum size, a rule of thumb for a router's buffer.
fn packets_of(direction: &DirectionProfile, round_trip: Duration, mtu: u32) -> u32 {
    let product = direction.rate.map_or(0, |rate| (rate * round_trip).0);
    let packets = product.div_ceil(u64::from(mtu));
    u32::try_from(packets.max(SMALLEST_QUEUE)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fathometer_model::{Bandwidth, CellKey};

    use super::*;

    const BASE: &str = r#"
        name = "base"
        source = "a test"
        mtu = 1500
        [both]
        rate = "1Mbit/s"
        propagation = "5ms"
        queue = { packets = 7 }
    "#;

    fn cell(levels: &[(&str, &str)]) -> Cell {
        let words = levels.iter().map(|&(f, l)| (f.to_owned(), l.to_owned()));
        Cell {
            block: "main".to_owned(),
            key: CellKey::default(),
            levels: words.collect::<BTreeMap<_, _>>(),
            replicates: 1,
        }
    }

    #[test]
    fn factors_replace_what_the_profile_has_and_path_leaves_it() {
        let base = Profile::from_toml(BASE, "base").unwrap();
        let kept = profile(&cell(&[("rtt", "path"), ("loss", "path")]), &base).unwrap();
        assert_eq!(kept, base);
        let levels = [
            ("rtt", "100"),
            ("rate", "10"),
            ("loss", "0.1"),
            ("queue", "bdp"),
        ];
        let made = profile(&cell(&levels), &base).unwrap();
        assert_eq!(made.round_trip(), Duration::from_millis(100));
        assert_eq!(made.down.rate, Bandwidth::bits_per_second(10_000_000));
        let loss = Probability::new(0.001).unwrap();
        assert_eq!(made.up.loss, Some(LossModel::Independent(loss)));
        // The bandwidth-delay product is 125,000 bytes.
        assert_eq!(made.down.queue, Queue::Packets(84));
        let short = profile(&cell(&[("rtt", "1"), ("queue", "bdp")]), &base).unwrap();
        assert_eq!(short.down.queue, Queue::Packets(32));
        let none = profile(&cell(&[("loss", "0"), ("queue", "9")]), &base).unwrap();
        assert_eq!((none.up.loss, none.up.queue), (None, Queue::Packets(9)));
    }

    #[test]
    fn levels_that_are_no_numbers_are_refused_by_name() {
        let base = Profile::from_toml(BASE, "base").unwrap();
        for (factor, level) in [
            ("rtt", "long"),
            ("rtt", "-1"),
            ("rate", "0"),
            ("loss", "101"),
            ("loss", "NaN"),
            ("queue", "deep"),
        ] {
            let error = profile(&cell(&[(factor, level)]), &base)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("{factor}={level}")), "{error}");
        }
    }
}
