//! The connection limits that a load study sets on a server ([`Throttle`]), and the support for these limits in the
//! definition of a program ([`Capabilities`]).
//!
//! Programs support different limits. For each limit, a definition contains the supported numbers and a placeholder in
//! the configuration, or the reason why the limit is not supported. Cells that need an unsupported limit are left out
//! with this reason. No limit is silently ignored.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// The connection limits of a server. `None` means the default of the server's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle {
    /// The listen backlog: the maximum number of connections that wait in the kernel for `accept`.
    pub backlog: Option<u32>,
    /// The number of connections served at a time; further connections are not accepted.
    pub connections: Option<u32>,
    /// The number of connections served at a time; further connections are reset.
    pub shed_above: Option<u32>,
    /// The server closes a connection after it was idle for this time.
    pub keep_alive: Option<Duration>,
    /// The server closes a connection after this number of requests; zero means no limit.
    pub keep_alive_requests: Option<u32>,
}

impl Throttle {
    /// Returns the limit that a level of a study's factor sets. The level of `workers`, `backlog` and
    /// `keep_alive_requests` is a number, of `keep_alive_s` a number of seconds, and of `shed` the word `on` or a
    /// number. Returns no limit for other factors and for levels that leave the server unchanged.
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

/// The number for a limit that a level sets without a number. It is within the bounds of all programs.
const ANY_NUMBER: u32 = 1024;

/// How a program supports each limit. A limit that is not listed is not supported.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// The listen backlog: `{backlog}`.
    pub backlog: Option<Capability>,
    /// Maximum number of connections; further connections are not accepted: `{connections}`.
    pub connections: Option<Capability>,
    /// Maximum number of connections; further connections are reset: `{shed_above}`.
    pub shed_above: Option<Capability>,
    /// Idle timeout of a connection in seconds: `{keep_alive_s}` and `{keep_alive_ms}`.
    pub keep_alive: Option<Capability>,
    /// Maximum number of requests per connection: `{keep_alive_requests}`.
    pub keep_alive_requests: Option<Capability>,
}

/// How a program supports one limit.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    /// The reason why the limit is not supported.
    pub cannot: Option<String>,
    /// The value in the configuration if no limit is set.
    pub default: Option<u64>,
    /// The value in the configuration for "no limit", which a requested 0 selects. Also set if the program
    /// has no such limit.
    pub unlimited: Option<u64>,
    /// The smallest supported value.
    pub least: Option<u64>,
    /// The largest supported value.
    pub most: Option<u64>,
    /// A number that is added to the value, if the program counts differently.
    #[serde(default)]
    pub plus: i64,
    /// Set if the limit is the product of a number of processes, `{processes}`, and a number of threads per process,
    /// `{threads}`. `{threads}` is as large as possible, up to this value.
    pub in_processes_of_at_most: Option<u64>,
    /// Whether only whole seconds are supported.
    #[serde(default)]
    pub whole_seconds: bool,
    /// Whether the kernel of the host applies the limit, because the program has no setting for it.
    #[serde(default)]
    pub by_kernel: bool,
}

/// One limit: its name in a definition, the requested number, and its support by the program.
struct Asked<'a> {
    name: &'static str,
    number: Option<f64>,
    capability: Option<&'a Capability>,
}

impl Capabilities {
    /// Returns the reason why the program does not support the limits; `None` if the program supports them.
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

    /// Returns the error in the definition, if there is one.
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

    /// Returns the placeholders of the configuration with their values for these limits. Unsupported limits have no
    /// placeholder.
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
        // Zero means no limit. It is supported if the definition states a value for it.
        if asked == 0.0 && self.unlimited.is_some() {
            return None;
        }
        if let Some(reason) = &self.cannot {
            return Some(reason.clone());
        }
        match (self.least, self.most) {
            (Some(least), _) if asked < least as f64 => Some(format!("must be at least {least}")),
            (_, Some(most)) if asked > most as f64 => Some(format!("must be at most {most}")),
            _ if self.whole_seconds && asked.fract() != 0.0 => {
                Some("must be in whole seconds".to_owned())
            }
            _ => None,
        }
    }

    /// Returns the value in the configuration.
    fn number(&self, asked: Option<f64>) -> Option<f64> {
        match (asked, self.unlimited) {
            _ if self.cannot.is_some() || self.by_kernel => None,
            (Some(0.0), Some(unlimited)) => Some(unlimited as f64),
            (Some(asked), _) => Some((asked + self.plus as f64).max(0.0)),
            (None, _) => self.default.map(|number| number as f64),
        }
    }
}

/// Returns the largest divisor of a number that is at most `most`; at least 1.
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
            shed_above = { cannot = "it resets no connection" }
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
    fn a_level_that_a_server_cannot_have_is_refused_with_the_reason() {
        let able = capabilities();
        for (factor, level, reason) in [
            ("shed", "on", "shed_above: it resets no connection"),
            ("workers", "20001", "connections: must be at most 20000"),
            ("keep_alive_s", "0.5", "keep_alive: must be at least 1"),
            (
                "keep_alive_s",
                "1.5",
                "keep_alive: must be in whole seconds",
            ),
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
    fn a_capability_with_two_meanings_is_refused() {
        assert_eq!(capabilities().nonsense(), None);
        let both: Capabilities =
            toml::from_str("backlog = { default = 1, cannot = \"no\" }").unwrap();
        assert!(both.nonsense().unwrap().contains("capabilities.backlog"));
        let neither: Capabilities = toml::from_str("backlog = { most = 1 }").unwrap();
        assert!(neither.nonsense().is_some());
    }
}
