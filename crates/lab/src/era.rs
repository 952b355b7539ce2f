//! Eras: TCP profiles as data (`eras/*.toml`), one set of settings for each host.

use std::borrow::Cow;

use fathometer_path::DelayedAckClock;
use fathometer_sys::TcpSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use crate::data::{self, DataError};
use crate::hosts::Side;
use crate::nearest::with_suggestion;

/// A TCP profile.
#[derive(Debug, Clone)]
pub struct Era {
    /// The name of the era.
    pub name: String,
    /// The description of the era.
    pub title: String,
    /// The source of the settings.
    pub source: String,
    /// Properties of that time that the kernel cannot reproduce, and their effect on results.
    pub limits: Vec<String>,
    /// TCP_QUICKACK of the client's sockets. It is set after connecting and after every read. `None` for the kernel's
    /// default.
    pub client_quick_ack: Option<bool>,
    /// TCP_QUICKACK of the server's listening socket. The accepted connections inherit it. `None` for the kernel's
    /// default.
    pub server_quick_ack: Option<bool>,
    /// The clock that delays the client's acknowledgements outside the client's kernel.
    pub client_delayed_ack: Option<DelayedAckClock>,
    client: TcpSettings,
    server: TcpSettings,
}

/// Why an era cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EraError {
    /// The era is not available.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The era's file is malformed.
    #[error("failed to read the era {name:?}: {}", with_suggestion(.error))]
    Syntax {
        /// The name of the era.
        name: String,
        /// The cause, with the line.
        error: toml::de::Error,
    },
}

impl EraError {
    /// Whether this is a usage error: the given name is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, EraError::Data(error) if error.is_usage())
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EraFile {
    /// The name of the era.
    name: String,
    /// The description of the era.
    title: String,
    /// The source of the settings.
    source: String,
    /// Properties of that time that the kernel cannot reproduce, and their effect on results.
    #[serde(default)]
    limits: Vec<String>,
    /// TCP_QUICKACK of the client's sockets. Page studies only.
    client_quick_ack: Option<bool>,
    /// TCP_QUICKACK of the server's listening socket. Page studies only.
    server_quick_ack: Option<bool>,
    /// A clock that delays the client's acknowledgements outside its kernel.
    client_delayed_ack: Option<DelayedAckClock>,
    /// TCP settings of both hosts.
    #[serde(default)]
    both: TcpSettings,
    /// TCP settings of the client. They override those of `both`.
    #[serde(default)]
    client: TcpSettings,
    /// TCP settings of the server. They override those of `both`.
    #[serde(default)]
    server: TcpSettings,
}

/// The schema of an era's file.
impl JsonSchema for Era {
    fn schema_name() -> Cow<'static, str> {
        "Era".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = EraFile::json_schema(generator);
        schema.insert("description".to_owned(), "A TCP profile.".into());
        schema
    }
}

impl Era {
    /// Loads the built-in era of this name, or the era in this file.
    pub fn load(name: &str) -> Result<Era, EraError> {
        Era::parse(name, &data::load("eras", "era", name)?)
    }

    fn parse(name: &str, text: &str) -> Result<Era, EraError> {
        let file: EraFile = toml::from_str(text).map_err(|error| EraError::Syntax {
            name: name.to_owned(),
            error,
        })?;
        Ok(Era {
            name: file.name,
            title: file.title,
            source: file.source,
            limits: file.limits,
            client_quick_ack: file.client_quick_ack,
            server_quick_ack: file.server_quick_ack,
            client_delayed_ack: file.client_delayed_ack,
            client: file.client.overlaid_on(&file.both),
            server: file.server.overlaid_on(&file.both),
        })
    }

    /// Returns the settings of one host. `initial_window`, in segments, overrides the era's initial window.
    pub fn settings(&self, side: Side, initial_window: Option<u32>) -> TcpSettings {
        let mut settings = match side {
            Side::Client => self.client.clone(),
            Side::Server => self.server.clone(),
        };
        if initial_window.is_some() {
            settings.route.initial_window_segments = initial_window;
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_era_reads() {
        let names = data::names("eras");
        assert!(
            names.contains(&"1997") && names.contains(&"today"),
            "{names:?}"
        );
        for name in names {
            let era = Era::load(name).unwrap();
            assert_eq!(era.name, name);
            assert!(!era.source.is_empty());
        }
    }

    #[test]
    fn a_host_overrides_what_both_share() {
        let era = Era::parse(
            "test",
            r#"
            name = "test"
            title = "t"
            source = "s"
            [both.route]
            initial_window_segments = 1
            window_bytes = 8760
            [both.sysctl]
            "net.ipv4.tcp_sack" = "0"
            [server.route]
            initial_window_segments = 2
            [client.sysctl]
            "net.ipv4.tcp_sack" = "1"
            "#,
        )
        .unwrap();
        let server = era.settings(Side::Server, None);
        assert_eq!(server.route.initial_window_segments, Some(2));
        assert_eq!(server.route.window_bytes, Some(8760));
        assert_eq!(server.sysctl["net.ipv4.tcp_sack"], "0");
        assert_eq!(
            era.settings(Side::Client, None).sysctl["net.ipv4.tcp_sack"],
            "1"
        );
        let wide = era.settings(Side::Server, Some(10));
        assert_eq!(wide.route.initial_window_segments, Some(10));
    }

    #[test]
    fn an_unknown_setting_is_refused_with_its_line() {
        let error = Era::parse(
            "test",
            "name='t'\ntitle='t'\nsource='s'\n[both]\nmystery = 1\n",
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("mystery") && error.contains('5'), "{error}");
    }
}
