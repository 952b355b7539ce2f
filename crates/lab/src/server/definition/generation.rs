//! Generations of HTTP, with the names that definitions use.

use std::borrow::Cow;
use std::str::FromStr;

use fathometer_http::driver::Protocol;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// A generation of HTTP that a server supports: all versions of HTTP/1 are one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Generation(Protocol);

impl Generation {
    /// HTTP/1.0 and HTTP/1.1.
    pub const HTTP1: Generation = Generation(Protocol::usual(false));
    /// HTTP/2.
    pub const HTTP2: Generation = Generation(Protocol::Http2);
    /// HTTP/3, on the same port number over UDP.
    pub const HTTP3: Generation = Generation(Protocol::Http3);

    /// Returns the generation of a protocol.
    pub(super) fn of(protocol: Protocol) -> Generation {
        let name = protocol.characteristics().generation;
        Generation(Protocol::of_generation(name).unwrap_or(protocol))
    }

    pub(super) fn title(self) -> &'static str {
        self.0.characteristics().title
    }
}

impl FromStr for Generation {
    type Err = String;

    fn from_str(text: &str) -> Result<Generation, String> {
        Protocol::of_generation(text)
            .map(Generation)
            .ok_or_else(|| "give h1, h2 or h3".to_owned())
    }
}

/// The schema of the generation's name.
impl JsonSchema for Generation {
    fn schema_name() -> Cow<'static, str> {
        "Generation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut names: Vec<&str> = Protocol::ALL
            .iter()
            .map(|protocol| protocol.characteristics().generation)
            .collect();
        names.dedup();
        json_schema!({
            "description": "A generation of HTTP: all versions of HTTP/1 are one generation.",
            "enum": names,
        })
    }
}

impl TryFrom<String> for Generation {
    type Error = String;

    fn try_from(text: String) -> Result<Generation, String> {
        let unknown = |advice| format!("unknown protocol {text:?}: {advice}");
        text.parse().map_err(unknown)
    }
}
