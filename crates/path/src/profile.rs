//! Path profiles in TOML. The repository's folder `paths` contains the shipped profiles.
//!
//! ```toml
//! name = "example"
//! source = "where the figures come from"
//! mtu = 1500
//!
//! [both]                      # keys of both directions; [up] and [down] override single keys
//! propagation = "45ms"        # one way
//! framing = "ethernet"        # none, ethernet, ppp, atm-aal5 or { fixed = 4 }
//! # With framing = "ppp", modems may compress the bytes before serialisation:
//! # compression = { v42bis = { codewords = 2048, longest-string = 32 } }
//! queue = { packets = 100 }   # or { bytes = 64000 }, or
//!                             # { codel = { target = "5ms", interval = "100ms", packets = 1000 } }
//! [up]
//! rate = "1Mbit/s"            # absent: no serialisation at all
//!
//! [down]
//! rate = "5Mbit/s"
//! loss = { independent = 0.01 }   # or { gilbert-elliott = { p = 0.01, r = 0.3, h = 0, k = 1 } }
//! drop-list = [3, "10-14"]        # packet numbers from 0, ranges with both ends
//! jitter = { distribution = "normal", amount = "2ms", reorders = false }
//! reorder = { probability = 0.01, extra = "5ms" }
//! duplicate = 0.001
//! ```
//!
//! Unknown keys are rejected; every error has a line number.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use fathometer_model::{Bandwidth, Probability};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::duration::DurationText;
use crate::{Compression, DropList, Framing};

/// The default queue length, in packets.
const DEFAULT_QUEUE_PACKETS: u32 = 1000;

/// A path between a client and a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// The profile's name: one word.
    pub name: String,
    /// Where the figures come from, and which of them are assumed.
    pub source: String,
    /// The largest IP packet, in bytes; the hosts' devices are set to it.
    pub mtu: u32,
    /// From the client to the server.
    pub up: DirectionProfile,
    /// From the server to the client.
    pub down: DirectionProfile,
}

/// One direction of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DirectionProfile {
    /// The link's rate, framing included; `None` for a link without serialisation delay.
    pub rate: Option<Bandwidth>,
    /// One-way delay after the last bit has been serialised.
    #[serde(with = "crate::duration")]
    pub propagation: Duration,
    /// The bytes that the link adds to each packet.
    pub framing: Framing,
    /// Compression by the link's modems, before serialisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// The queue before the link.
    pub queue: Queue,
    /// Random loss.
    pub loss: Option<LossModel>,
    /// Packets to drop, by packet number.
    pub drop_list: DropList,
    /// Variation of the propagation delay.
    pub jitter: Option<Jitter>,
    /// Packets that are held back so that later packets overtake them.
    pub reorder: Option<Reorder>,
    /// The probability that a packet is delivered twice.
    pub duplicate: Probability,
}

/// The queue before the link. It excludes the packet being serialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Drop-tail: a packet is dropped when this many others are waiting.
    Packets(u32),
    /// Drop-tail: a packet is dropped when it would raise the waiting IP bytes above this.
    Bytes(u64),
    /// CoDel, controlled delay (RFC 8289).
    Codel(Codel),
}

/// CoDel's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// The target for the standing delay.
    #[serde(with = "crate::duration", default = "codel_target")]
    #[schemars(with = "DurationText")]
    pub target: Duration,
    /// How long the delay must stay above the target before CoDel drops a packet.
    #[serde(with = "crate::duration", default = "codel_interval")]
    #[schemars(with = "DurationText")]
    pub interval: Duration,
    /// The capacity of the queue, in packets; more packets are dropped on arrival.
    pub packets: u32,
}

fn codel_target() -> Duration {
    Duration::from_millis(5)
}

fn codel_interval() -> Duration {
    Duration::from_millis(100)
}

/// Random loss, before the queue: a lost packet takes no link time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossModel {
    /// Each packet is lost with the same probability, independently of other packets.
    Independent(#[schemars(range(min = 0, max = 1), with = "f64")] Probability),
    /// Loss in bursts.
    GilbertElliott(GilbertElliott),
}

/// The two-state loss model of Gilbert (1960) and Elliott (1963). It starts in the good state and may change
/// state with each packet, before the fate of that packet is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// The probability of a change to the bad state.
    #[schemars(range(min = 0, max = 1), with = "f64")]
    pub p: Probability,
    /// The probability of a change back to the good state.
    #[schemars(range(min = 0, max = 1), with = "f64")]
    pub r: Probability,
    /// The probability that a packet survives the bad state; default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1), with = "f64")]
    pub h: Probability,
    /// The probability that a packet survives the good state; default 1.
    #[serde(default = "certain")]
    #[schemars(range(min = 0, max = 1), with = "f64")]
    pub k: Probability,
}

fn certain() -> Probability {
    Probability::new(1.0).expect("1 is a probability")
}

/// Variation of the propagation delay from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// The shape of the distribution.
    pub distribution: Distribution,
    /// The width of the uniform distribution, or the standard deviation of the normal distribution.
    #[serde(with = "crate::duration")]
    #[schemars(with = "DurationText")]
    pub amount: Duration,
    /// Whether a packet may overtake another packet. If not, it waits for the previous packet.
    #[serde(default)]
    pub reorders: bool,
}

/// The shape of the jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Uniform from 0 to the amount, added to the propagation delay.
    Uniform,
    /// Normal around the propagation delay: a sum of twelve uniform draws, whose tails end at six standard
    /// deviations. A delay never falls below 0.
    Normal,
}

/// Packets that are held back so that later packets overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// The share of packets held back.
    #[schemars(range(min = 0, max = 1), with = "f64")]
    pub probability: Probability,
    /// The additional delay of a packet that is held back; it delays no other packet.
    #[serde(with = "crate::duration")]
    #[schemars(with = "DurationText")]
    pub extra: Duration,
}

/// A direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Direction {
    /// Returns `up` or `down`.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// The reason why a profile is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not TOML, or not a profile; the message gives the line.
    #[error("{file} is not a path profile: {error}")]
    Malformed {
        /// The file, as named by the caller.
        file: String,
        /// The error and its position.
        error: toml::de::Error,
    },
    /// A value outside the supported range.
    #[error("{file} is not a path profile: {problem}")]
    Unusable {
        /// The file, as named by the caller.
        file: String,
        /// The problem.
        problem: String,
    },
}

impl Profile {
    /// Reads a profile. Errors name it as `file`.
    pub fn from_toml(text: &str, file: &str) -> Result<Profile, ProfileError> {
        let parsed: Text = toml::from_str(text).map_err(|error| ProfileError::Malformed {
            file: file.to_owned(),
            error,
        })?;
        parsed.resolve().map_err(|problem| ProfileError::Unusable {
            file: file.to_owned(),
            problem,
        })
    }

    /// Returns the profile of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionProfile {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Returns the round-trip time of an infinitely small packet: the sum of both propagation delays.
    pub fn round_trip(&self) -> Duration {
        self.up.propagation + self.down.propagation
    }
}

/// The schema of a profile's file.
impl JsonSchema for Profile {
    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Text::json_schema(generator);
        schema.insert(
            "description".to_owned(),
            "A path between a client and a server.".into(),
        );
        schema
    }
}

/// Writes one line: rates, one-way delays, and all settings that differ from the defaults.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.up == self.down {
            write!(f, "{}: both ways {}", self.name, self.up)
        } else {
            write!(f, "{}: up {}; down {}", self.name, self.up, self.down)
        }
    }
}

impl fmt::Display for DirectionProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Some(rate) => write!(f, "{rate}")?,
            None => f.write_str("no rate limit")?,
        }
        write!(f, ", {} one way", crate::duration::format(self.propagation))?;
        if self.rate.is_some() {
            match self.framing {
                Framing::None => f.write_str(", no framing")?,
                Framing::Ethernet => f.write_str(", Ethernet framing")?,
                Framing::Ppp => f.write_str(", PPP framing")?,
                Framing::AtmAal5 => f.write_str(", ATM AAL5 framing")?,
                Framing::Fixed(extra) => write!(f, ", {extra} B framing")?,
            }
            if let Some(Compression::V42bis(parameters)) = self.compression {
                let (codewords, longest) = (parameters.codewords(), parameters.longest_string());
                write!(f, ", V.42bis {codewords} codewords of up to {longest} B")?;
            }
            match self.queue {
                Queue::Packets(packets) => write!(f, ", queue {packets} packets")?,
                Queue::Bytes(bytes) => write!(f, ", queue {bytes} B")?,
                Queue::Codel(codel) => write!(f, ", CoDel {} packets", codel.packets)?,
            }
        }
        match self.loss {
            Some(LossModel::Independent(p)) => write!(f, ", loss {} %", p.value() * 100.0)?,
            Some(LossModel::GilbertElliott(_)) => f.write_str(", burst loss")?,
            None => {}
        }
        for (present, what) in [
            (!self.drop_list.is_empty(), "drop list"),
            (self.jitter.is_some(), "jitter"),
            (self.reorder.is_some(), "reordering"),
            (self.duplicate != Probability::ZERO, "duplication"),
        ] {
            if present {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    /// The profile's name.
    #[schemars(regex(pattern = "^[a-z0-9-]+$"))]
    name: String,
    /// Where the figures come from, and which of them are assumed.
    #[schemars(length(min = 1))]
    source: String,
    /// The largest IP packet, in bytes.
    #[serde(default = "ethernet_mtu")]
    #[schemars(range(min = 1280, max = 65_535))]
    mtu: u32,
    /// The keys of both directions.
    #[serde(default)]
    both: DirectionText,
    /// From the client to the server. Its keys override those of `both`.
    #[serde(default)]
    up: DirectionText,
    /// From the server to the client. Its keys override those of `both`.
    #[serde(default)]
    down: DirectionText,
}

/// The schema of a bandwidth in a file.
struct BandwidthText;

impl JsonSchema for BandwidthText {
    fn schema_name() -> Cow<'static, str> {
        "Bandwidth".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number and a unit, as in \"28.8kbit/s\" or \"1Gbit/s\".",
            "type": "string",
            "pattern": "^[0-9.]+\\s*[kMG]?bit/s$",
        })
    }
}

fn ethernet_mtu() -> u32 {
    1500
}

#[derive(Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DirectionText {
    /// The link's rate, framing included; absent: no serialisation.
    #[schemars(with = "Option<BandwidthText>")]
    rate: Option<Bandwidth>,
    /// One-way delay.
    #[serde(default, deserialize_with = "crate::duration::optional::deserialize")]
    #[schemars(with = "Option<DurationText>")]
    propagation: Option<Duration>,
    /// The bytes that the link adds to each packet; absent: none.
    framing: Option<Framing>,
    /// Compression by the link's modems, which needs a rate and PPP's framing; absent: none.
    compression: Option<Compression>,
    /// The queue before the link; absent: 1000 packets.
    queue: Option<Queue>,
    /// Random loss before the queue.
    loss: Option<LossModel>,
    /// Packets to drop, by number from 0.
    drop_list: Option<DropList>,
    /// Variation of the delay from packet to packet.
    jitter: Option<Jitter>,
    /// Packets that are held back so that later packets overtake them.
    reorder: Option<Reorder>,
    /// The probability that a packet is delivered twice.
    #[schemars(range(min = 0, max = 1), with = "Option<f64>")]
    duplicate: Option<Probability>,
}

impl Text {
    fn resolve(self) -> Result<Profile, String> {
        if self.name.is_empty() || !self.name.chars().all(is_name_char) {
            return Err(format!(
                "its name is {:?}: write lower-case letters, digits and hyphens",
                self.name
            ));
        }
        if self.source.trim().is_empty() {
            return Err("its source is empty: state where the figures come from".to_owned());
        }
        // IPv6 requires at least 1280 bytes; an IP packet has at most 65 535.
        if !(1280..=65_535).contains(&self.mtu) {
            return Err(format!("its mtu is {}: write 1280 to 65535", self.mtu));
        }
        let up = self.up.over(self.both.clone()).resolve("up", self.mtu)?;
        let down = self.down.over(self.both).resolve("down", self.mtu)?;
        Ok(Profile {
            name: self.name,
            source: self.source,
            mtu: self.mtu,
            up,
            down,
        })
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

impl DirectionText {
    fn over(self, base: DirectionText) -> DirectionText {
        DirectionText {
            rate: self.rate.or(base.rate),
            propagation: self.propagation.or(base.propagation),
            framing: self.framing.or(base.framing),
            compression: self.compression.or(base.compression),
            queue: self.queue.or(base.queue),
            loss: self.loss.or(base.loss),
            drop_list: self.drop_list.or(base.drop_list),
            jitter: self.jitter.or(base.jitter),
            reorder: self.reorder.or(base.reorder),
            duplicate: self.duplicate.or(base.duplicate),
        }
    }

    fn resolve(self, direction: &str, mtu: u32) -> Result<DirectionProfile, String> {
        let queue = self.queue.unwrap_or(Queue::Packets(DEFAULT_QUEUE_PACKETS));
        if let Queue::Bytes(bytes) = queue
            && bytes < u64::from(mtu)
        {
            return Err(format!(
                "{direction}: its queue of {bytes} B has no room for a packet of {mtu} B"
            ));
        }
        // One hour exceeds the delay of every real path, and keeps every sum of instants within its range.
        let longest = Duration::from_secs(3600);
        let propagation = self.propagation.unwrap_or_default();
        let jitter = self.jitter.map_or(Duration::ZERO, |jitter| jitter.amount);
        let extra = self.reorder.map_or(Duration::ZERO, |reorder| reorder.extra);
        let [target, interval] = match queue {
            Queue::Codel(codel) => [codel.target, codel.interval],
            Queue::Packets(_) | Queue::Bytes(_) => [Duration::ZERO; 2],
        };
        if [propagation, jitter, extra, target, interval]
            .into_iter()
            .any(|time| time > longest)
        {
            return Err(format!("{direction}: a delay is above an hour"));
        }
        if let Queue::Codel(codel) = queue
            && codel.interval.is_zero()
        {
            return Err(format!("{direction}: CoDel's interval is 0"));
        }
        if self.compression.is_some() && (self.rate.is_none() || self.framing != Some(Framing::Ppp))
        {
            return Err(format!(
                "{direction}: compression needs a rate and framing = \"ppp\": modems compress the bytes of a serial line"
            ));
        }
        Ok(DirectionProfile {
            rate: self.rate,
            propagation,
            framing: self.framing.unwrap_or_default(),
            compression: self.compression,
            queue,
            loss: self.loss,
            drop_list: self.drop_list.unwrap_or_default(),
            jitter: self.jitter,
            reorder: self.reorder,
            duplicate: self.duplicate.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a profile of the repository's folder `paths`.
    #[expect(clippy::disallowed_methods, reason = "the shipped profiles are files")]
    fn shipped(name: &str) -> Profile {
        let file = format!("{PATHS}/{name}.toml");
        Profile::from_toml(&std::fs::read_to_string(&file).unwrap(), &file).unwrap()
    }

    const PATHS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../paths");

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the shipped profiles are files")]
    fn profiles_are_whole_and_named_as_their_files() {
        for file in std::fs::read_dir(PATHS).unwrap() {
            let file = file.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap();
            let profile = shipped(name);
            assert_eq!(profile.name, name);
            assert!(profile.source.len() > 20, "{name}: the source is too short");
        }
        shipped("ideal");
    }

    #[test]
    fn published_figures_are_kept() {
        for (name, down, up, round_trip_ms) in [
            ("cable", 5_000, 1_000, 28),
            ("dsl", 1_500, 384, 50),
            ("3g", 1_600, 768, 300),
            ("3gfast", 1_600, 768, 150),
            ("3gslow", 400, 400, 400),
            ("4g", 9_000, 9_000, 170),
            ("lte", 12_000, 12_000, 70),
            ("2g", 280, 256, 800),
            ("edge", 240, 200, 840),
            ("dial", 49, 30, 120),
            ("fios", 20_000, 5_000, 4),
        ] {
            let profile = shipped(name);
            let kbits = |rate: Option<Bandwidth>| rate.unwrap().as_bits_per_second() / 1000;
            assert_eq!(kbits(profile.down.rate), down, "{name}");
            assert_eq!(kbits(profile.up.rate), up, "{name}");
            assert_eq!(
                profile.round_trip(),
                Duration::from_millis(round_trip_ms),
                "{name}"
            );
        }
        for (name, micros) in [
            ("wan", 90_000),
            ("ppp", 150_000),
            ("leucht15-amsterdam", 300),
            ("leucht15-frankfurt", 7_000),
            ("leucht15-north-carolina", 150_000),
            ("leucht15-tokyo", 280_000),
        ] {
            let profile = shipped(name);
            assert_eq!(
                profile.round_trip(),
                Duration::from_micros(micros),
                "{name}"
            );
        }
        assert!(shipped("lan").round_trip() < Duration::from_millis(1));
    }

    #[test]
    fn directions_override_what_they_share() {
        let profile = Profile::from_toml(
            r#"
            name = "example"
            source = "made up for this test"
            [both]
            propagation = "45ms"
            framing = { fixed = 4 }
            queue = { codel = { packets = 100 } }
            loss = { gilbert-elliott = { p = 0.01, r = 0.3 } }
            drop-list = [3, "10-14", 15, 4]
            jitter = { distribution = "normal", amount = "2ms" }
            [up]
            rate = "1Mbit/s"
            propagation = "5ms"
            loss = { independent = 0.5 }
            [down]
            rate = "5Mbit/s"
            "#,
            "example.toml",
        )
        .unwrap();
        assert_eq!(profile.up.propagation, Duration::from_millis(5));
        assert_eq!(profile.down.propagation, Duration::from_millis(45));
        assert_eq!(profile.up.drop_list, DropList::new(vec![(3, 4), (10, 15)]));
        assert!(matches!(profile.up.loss, Some(LossModel::Independent(p)) if p.value() == 0.5));
        assert!(
            matches!(profile.down.loss, Some(LossModel::GilbertElliott(g)) if g.k.value() == 1.0)
        );
        assert!(
            matches!(profile.up.queue, Queue::Codel(c) if c.target == Duration::from_millis(5))
        );
        assert_eq!(profile.mtu, 1500);
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let head = "name = \"x\"\nsource = \"a test\"\n[up]\n";
        for (line, what) in [
            ("bandwidth = \"1Mbit/s\"", "unknown field `bandwidth`"),
            ("rate = \"1MB\"", "bandwidth"),
            ("propagation = 45", "string"),
            ("propagation = \"45\"", "duration"),
            ("framing = \"token-ring\"", "unknown variant `token-ring`"),
            ("queue = { packets = -1 }", "-1"),
            ("loss = { independent = 1.5 }", "probability"),
            (
                "loss = { gilbert-elliott = { p = 0.1 } }",
                "missing field `r`",
            ),
            ("drop-list = [\"9-3\"]", "packet number"),
            (
                "jitter = { distribution = \"pareto\", amount = \"1ms\" }",
                "pareto",
            ),
            (
                "reorder = { probability = 0.1, extra = \"1ms\", more = 1 }",
                "more",
            ),
        ] {
            let error = Profile::from_toml(&format!("{head}{line}\n"), "x.toml")
                .expect_err(line)
                .to_string();
            assert!(error.contains("line 4"), "{line}: {error}");
            assert!(error.contains(what), "{line}: {error}");
        }
        for (text, what) in [
            ("name = \"x\"", "source"),
            ("name = \"X y\"\nsource = \"s\"", "name"),
            ("name = \"x\"\nsource = \" \"", "source"),
            ("name = \"x\"\nsource = \"s\"\nmtu = 576", "mtu"),
            (
                "name = \"x\"\nsource = \"s\"\nboth.queue = { bytes = 100 }",
                "queue",
            ),
            (
                "name = \"x\"\nsource = \"s\"\nboth.propagation = \"2000000s\"",
                "hour",
            ),
            (
                "name = \"x\"\nsource = \"s\"\nboth.queue = { codel = { packets = 9, interval = \"18000000000s\" } }",
                "hour",
            ),
            (
                "name = \"x\"\nsource = \"s\"\nboth.queue = { codel = { packets = 9, interval = \"0s\" } }",
                "interval is 0",
            ),
        ] {
            let error = Profile::from_toml(text, "x.toml")
                .expect_err(text)
                .to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
