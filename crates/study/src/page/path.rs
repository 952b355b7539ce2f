//! The path of a cell: its profile, with the changes of the cell's own factors.
//!
//! `rtt` (milliseconds), `rate` (Mbit/s), `loss` (percent of the packets of each direction) and `queue`
//! (packets, or `bdp`) replace the values of the profile in both directions; the level `path` keeps the
//! profile's value. A study can thus vary one quantity of a path without a file for each value, and its curves
//! have a number on their axis.

use std::time::Duration;

use fathometer_model::quantity::TimeSpan;
use fathometer_model::{Bandwidth, Probability};
use fathometer_path::{DirectionProfile, LossModel, Profile, Queue};

use super::super::replicate::ReplicateError;
use super::super::spec::Cell;

/// The smallest queue of `queue=bdp`, in packets: room for a burst of an initial window and some more.
const SMALLEST_QUEUE: u64 = 32;

/// The fastest path, in Mbit/s.
const MOST_MEGABITS: f64 = 1e6;

/// The profile with the cell's changes.
pub(super) fn profile(cell: &Cell, profile: &Profile) -> Result<Profile, ReplicateError> {
    let mut path = profile.clone();
    let round_trip = number(cell, "rtt")?
        .map(|ms| {
            let time = TimeSpan::from_milliseconds(ms);
            time.map_err(|error| refused(cell, "rtt", &error.to_string()))
        })
        .transpose()?
        .map(Duration::from);
    let rate = number(cell, "rate")?
        .map(|megabits| {
            let rate = (megabits <= MOST_MEGABITS)
                .then(|| Bandwidth::bits_per_second((megabits * 1e6) as u64))
                .flatten();
            let range = "it must be a number of Mbit/s above 0, up to 1000000";
            rate.ok_or_else(|| refused(cell, "rate", range))
        })
        .transpose()?;
    let loss = number(cell, "loss")?
        .map(|percent| {
            let probability = Probability::new(percent / 100.0);
            probability.ok_or_else(|| refused(cell, "loss", "it must be 0 to 100 percent"))
        })
        .transpose()?;
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
        match cell.level("queue") {
            "" | "path" => {}
            "bdp" => direction.queue = Queue::Packets(packets_of(direction, round_trip, path.mtu)),
            packets => {
                let wrong = || refused(cell, "queue", "it can be path, bdp or a number of packets");
                direction.queue = Queue::Packets(packets.parse().map_err(|_| wrong())?);
            }
        }
    }
    Ok(path)
}

/// The bandwidth-delay product in full packets: the rule of thumb for a router's buffer.
fn packets_of(direction: &DirectionProfile, round_trip: Duration, mtu: u32) -> u32 {
    let product = direction.rate.map_or(0, |rate| (rate * round_trip).0);
    let packets = product.div_ceil(u64::from(mtu));
    u32::try_from(packets.max(SMALLEST_QUEUE)).unwrap_or(u32::MAX)
}

/// The level of a factor as a number; `None` if the profile's value is kept.
fn number(cell: &Cell, factor: &'static str) -> Result<Option<f64>, ReplicateError> {
    match cell.level(factor) {
        "" | "path" => Ok(None),
        level => match level.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            _ => Err(refused(cell, factor, "it can be path or a number")),
        },
    }
}

fn refused(cell: &Cell, factor: &'static str, reason: &str) -> ReplicateError {
    ReplicateError::Level {
        factor,
        level: cell.level(factor).to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fathometer_model::CellKey;

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
        // 125,000 bytes per round trip.
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
