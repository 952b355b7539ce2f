//! What a load study asks of a server about its connections ([`Throttle`]), and what the definition of
//! a program says about meeting it ([`Capabilities`]).
//!
//! A program differs in how it bounds connections and in what it cannot bound at all. Its definition
//! says for each demand which numbers it takes, and the configuration has a word for it; or it says why
//! not, and a cell that asks is left out with that reason. Nothing is asked of a program in vain.

use std::time::Duration;

use serde::Deserialize;

/// What limits the connections of a server. `None` leaves it to the server's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle {
    /// Connections that may wait to be accepted.
    pub backlog: Option<u32>,
    /// Connections served at a time; the others are not accepted.
    pub connections: Option<u32>,
    /// Connections served at a time; the others are reset.
    pub shed_above: Option<u32>,
    /// How long a connection may be idle before it is closed.
    pub keep_alive: Option<Duration>,
    /// Requests after which a connection is closed; zero: there is no limit.
    pub keep_alive_requests: Option<u32>,
}

impl Throttle {
    /// What the level of a study's factor asks: of `workers`, `backlog`, `keep_alive_requests` a number,
    /// of `keep_alive_s` seconds, of `shed` the word `on` or a number. Nothing for other factors, and
    /// for levels that leave the server alone.
    pub fn of_level(factor: &str, level: &str) -> Throttle {
        let mut asked = Throttle::default();
        let number = level.parse().ok();
        match factor {
            "backlog" => asked.backlog = number,
            "workers" => asked.connections = number,
            "shed" if level == "on" => asked.shed_above = Some(ANY_NUMBER),
            "shed" => asked.shed_above = number,
            "keep_alive_s" => {
                asked.keep_alive = level
                    .parse()
                    .ok()
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            }
            "keep_alive_requests" => asked.keep_alive_requests = number,
            _ => {}
        }
        asked
    }
}

/// A number within every bound, where a demand comes without one.
const ANY_NUMBER: u32 = 1024;

/// What a program does about each demand. One that is not named it cannot meet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Connections that wait to be accepted: `{backlog}`.
    pub backlog: Option<Capability>,
    /// Connections at a time, the others not accepted: `{connections}`.
    pub connections: Option<Capability>,
    /// Connections at a time, the others reset: `{shed_above}`.
    pub shed_above: Option<Capability>,
    /// Seconds that a connection may be idle: `{keep_alive_s}` and `{keep_alive_ms}`.
    pub keep_alive: Option<Capability>,
    /// Requests of a connection: `{keep_alive_requests}`.
    pub keep_alive_requests: Option<Capability>,
}

/// What a program does about one demand.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    /// Why it cannot meet it.
    pub cannot: Option<String>,
    /// What the configuration says when nothing is asked.
    pub default: Option<u64>,
    /// What the configuration says for "no limit", which a demand for zero is then. Also where the program
    /// has no such limit in the first place.
    pub unlimited: Option<u64>,
    /// The least that may be asked.
    pub least: Option<u64>,
    /// The most that may be asked.
    pub most: Option<u64>,
    /// Added to what is asked, where the program counts more than what was meant, or less.
    #[serde(default)]
    pub plus: i64,
    /// The number is made up of `{processes}` processes of `{threads}` threads each, which are to be as
    /// large as this allows.
    pub in_processes_of_at_most: Option<u64>,
    /// It knows no parts of a second.
    #[serde(default)]
    pub whole_seconds: bool,
    /// It has no setting for it; the kernel of its host sees to it.
    #[serde(default)]
    pub by_kernel: bool,
}

/// One demand: what it is called in a definition, what is asked, what the program says about it.
struct Asked<'a> {
    name: &'static str,
    number: Option<f64>,
    capability: Option<&'a Capability>,
}

impl Capabilities {
    /// Why the program cannot do what is asked; `None`: it can.
    pub fn refusal(&self, throttle: &Throttle) -> Option<String> {
        self.asked(throttle).iter().find_map(|asked| {
            let number = asked.number?;
            match asked.capability {
                None => Some(format!("it has no setting for {}", asked.name)),
                Some(capability) => capability
                    .refusal(number)
                    .map(|reason| format!("{}: {reason}", asked.name)),
            }
        })
    }

    /// What is wrong with the definition itself.
    pub fn nonsense(&self) -> Option<String> {
        self.asked(&Throttle::default()).iter().find_map(|asked| {
            let capability = asked.capability?;
            let ways = [
                capability.cannot.is_some(),
                capability.default.is_some(),
                capability.by_kernel,
            ];
            (ways.iter().filter(|way| **way).count() != 1).then(|| {
                format!(
                    "capabilities.{} needs one of default, by_kernel and cannot",
                    asked.name
                )
            })
        })
    }

    /// The words of the configuration and what stands for them, when this is asked. What the program
    /// cannot do has no word.
    pub fn words(&self, throttle: &Throttle) -> Vec<(String, String)> {
        let mut words = Vec::new();
        let mut put = |name: &str, number: u64| words.push((name.to_owned(), number.to_string()));
        for asked in self.asked(throttle) {
            let Some(capability) = asked.capability else {
                continue;
            };
            let Some(number) = capability.number(asked.number) else {
                continue;
            };
            if asked.name == KEEP_ALIVE {
                put("keep_alive_s", number.ceil() as u64);
                put("keep_alive_ms", (number * 1e3).round() as u64);
                continue;
            }
            let number = number as u64;
            put(asked.name, number);
            if let Some(most) = capability.in_processes_of_at_most {
                let threads = largest_divisor(number, most);
                put("threads", threads);
                put("processes", number / threads);
            }
        }
        words
    }

    fn asked(&self, throttle: &Throttle) -> [Asked<'_>; 5] {
        let demand = |name, number: Option<f64>, capability| Asked {
            name,
            number,
            capability,
        };
        [
            demand(
                "backlog",
                throttle.backlog.map(f64::from),
                self.backlog.as_ref(),
            ),
            demand(
                "connections",
                throttle.connections.map(f64::from),
                self.connections.as_ref(),
            ),
            demand(
                "shed_above",
                throttle.shed_above.map(f64::from),
                self.shed_above.as_ref(),
            ),
            demand(
                KEEP_ALIVE,
                throttle.keep_alive.map(|time| time.as_secs_f64()),
                self.keep_alive.as_ref(),
            ),
            demand(
                "keep_alive_requests",
                throttle.keep_alive_requests.map(f64::from),
                self.keep_alive_requests.as_ref(),
            ),
        ]
    }
}

const KEEP_ALIVE: &str = "keep_alive";

impl Capability {
    fn refusal(&self, asked: f64) -> Option<String> {
        // Zero is the demand for no limit where there is a way to say that, or no limit at all.
        if asked == 0.0 && self.unlimited.is_some() {
            return None;
        }
        if let Some(reason) = &self.cannot {
            return Some(reason.clone());
        }
        match (self.least, self.most) {
            (Some(least), _) if asked < least as f64 => Some(format!("at least {least}")),
            (_, Some(most)) if asked > most as f64 => Some(format!("at most {most}")),
            _ if self.whole_seconds && asked.fract() != 0.0 => {
                Some("whole seconds alone".to_owned())
            }
            _ => None,
        }
    }

    /// What the configuration says.
    fn number(&self, asked: Option<f64>) -> Option<f64> {
        match (asked, self.unlimited) {
            _ if self.cannot.is_some() || self.by_kernel => None,
            (Some(0.0), Some(unlimited)) => Some(unlimited as f64),
            (Some(asked), _) => Some((asked + self.plus as f64).max(0.0)),
            (None, _) => self.default.map(|number| number as f64),
        }
    }
}

/// The largest divisor of a number that is not larger than `most`; 1 at least.
fn largest_divisor(number: u64, most: u64) -> u64 {
    (1..=most.min(number))
        .rev()
        .find(|divisor| number.is_multiple_of(*divisor))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities() -> Capabilities {
        toml::from_str(
            r#"
            backlog = { by_kernel = true }
            connections = { default = 900, most = 20000, in_processes_of_at_most = 64 }
            shed_above = { cannot = "it resets nobody" }
            keep_alive = { default = 15, whole_seconds = true, least = 1 }
            keep_alive_requests = { default = 150, unlimited = 0, plus = 2 }
            "#,
        )
        .unwrap()
    }

    fn word(words: &[(String, String)], name: &str) -> Option<String> {
        let found = words.iter().find(|(word, _)| word == name);
        found.map(|(_, value)| value.clone())
    }

    #[test]
    fn what_is_not_asked_is_the_definitions_and_what_is_asked_is_kept_to() {
        let able = capabilities();
        let words = able.words(&Throttle::default());
        for (name, value) in [
            ("connections", "900"),
            ("threads", "60"),
            ("processes", "15"),
            ("keep_alive_s", "15"),
            ("keep_alive_ms", "15000"),
            ("keep_alive_requests", "150"),
        ] {
            assert_eq!(word(&words, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(word(&words, "backlog"), None);
        assert_eq!(word(&words, "shed_above"), None);

        let asked = Throttle {
            connections: Some(97),
            keep_alive_requests: Some(5),
            ..Throttle::default()
        };
        let words = able.words(&asked);
        assert_eq!(word(&words, "connections").as_deref(), Some("97"));
        assert_eq!(word(&words, "threads").as_deref(), Some("1"));
        assert_eq!(word(&words, "keep_alive_requests").as_deref(), Some("7"));
        let unlimited = Throttle {
            keep_alive_requests: Some(0),
            ..Throttle::default()
        };
        let words = able.words(&unlimited);
        assert_eq!(word(&words, "keep_alive_requests").as_deref(), Some("0"));
    }

    #[test]
    fn a_demand_that_cannot_be_met_is_refused_with_its_reason() {
        let able = capabilities();
        for (factor, level, reason) in [
            ("shed", "on", "shed_above: it resets nobody"),
            ("workers", "20001", "connections: at most 20000"),
            ("keep_alive_s", "0.5", "keep_alive: at least 1"),
            ("keep_alive_s", "1.5", "keep_alive: whole seconds alone"),
        ] {
            let refused = able.refusal(&Throttle::of_level(factor, level));
            assert_eq!(refused.as_deref(), Some(reason), "{factor}={level}");
        }
        for (factor, level) in [
            ("shed", "off"),
            ("workers", "none"),
            ("workers", "4"),
            ("backlog", "16"),
            ("keep_alive_s", "2"),
            ("keep_alive_requests", "0"),
            ("policy", "h1.1"),
        ] {
            let refused = able.refusal(&Throttle::of_level(factor, level));
            assert_eq!(refused, None, "{factor}={level}");
        }
        let unable = Capabilities::default();
        let refused = unable.refusal(&Throttle::of_level("backlog", "16"));
        assert_eq!(refused.as_deref(), Some("it has no setting for backlog"));
    }

    #[test]
    fn a_capability_that_says_two_things_makes_no_sense() {
        assert_eq!(capabilities().nonsense(), None);
        let both: Capabilities =
            toml::from_str("backlog = { default = 1, cannot = \"no\" }").unwrap();
        assert!(both.nonsense().unwrap().contains("capabilities.backlog"));
        let neither: Capabilities = toml::from_str("backlog = { most = 1 }").unwrap();
        assert!(neither.nonsense().is_some());
    }
}
