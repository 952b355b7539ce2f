//! Protocols of `fathometer serve`: versions of HTTP, TLS, and the options of each.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::persona::{FieldValue, Persona, PersonaField, Responses};
use fathometer_http::{h1, h2};
use fathometer_model::Instant;
use fathometer_sys::Clock;
use fathometer_tls::{
    ClientCertificates, Identity, KeyLogSink, Roots, ServerOptions, ServerSettings, Tickets,
    Version,
};

use crate::command::Failure;
use fathometer_files::key_log::KeyLogFile;
use fathometer_lab::server::definition::Generation;
use fathometer_lab::server::{self, Credentials};
use fathometer_origin::{Protocols, ports};
use fathometer_quic_sockets::UdpOffload;

/// Limit of early data per connection, in bytes: enough for any realistic burst of requests.
const EARLY_DATA: u32 = 64 * 1024;
/// Number of sessions stored for resumption.
const SESSIONS: usize = 16 * 1024;
/// Number of tickets issued per connection.
const TICKETS: usize = 2;

/// Arguments of `serve` about protocols.
#[derive(Debug, Args)]
#[command(next_help_heading = "Protocols")]
pub struct ProtocolArguments {
    /// Enable TLS, with a certificate generated at start for localhost, the listening addresses and the names of
    /// --host
    #[arg(long)]
    tls: bool,
    /// Enable TLS with the certificate chain in this PEM file, server certificate first; requires --key. If given
    /// several times, the first chain that matches the client's server name (SNI) is used, otherwise the first chain
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with_all = ["hosts", "ca_out"])]
    certificate: Vec<PathBuf>,
    /// Private key of the certificate, a PEM file; once per --certificate, in the same order
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Vec<PathBuf>,
    /// Additional name for the generated certificate; may be given several times
    #[arg(long = "host", value_name = "NAME", requires = "tls")]
    hosts: Vec<String>,
    /// Write the root certificate that clients must trust to this PEM file, as for curl --cacert
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca_out: Option<PathBuf>,
    /// HTTP versions to serve: h1, h2, h3. Without TLS, h2 starts by prior knowledge or by Upgrade. h3 requires
    /// TLS 1.3 and uses the same port over UDP [default: h1,h2]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    protocols: Vec<Generation>,
    /// TLS versions to accept: 1.2, 1.3 [default: 1.2,1.3]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tls_versions: Vec<Version>,
    /// Resumption of TLS sessions: stateless (a ticket contains the session), stateful (the server stores the session,
    /// for a single use) or off [default: stateless, and stateful with --early-data]
    #[arg(long, value_name = "HOW")]
    tickets: Option<TicketKind>,
    /// Accept requests in the first flight of a resumed session (0-RTT)
    #[arg(long)]
    early_data: bool,
    /// Request client certificates issued by an authority in this PEM file, and refuse clients without one
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Append the TLS secrets of connections to this file, for Wireshark [default: the file that SSLKEYLOGFILE names]
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
    /// HTTP/2: flow-control window of each stream for request content, in bytes [default: 262144]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=MOST_WINDOW))]
    h2_window: Option<u32>,
    /// HTTP/2: flow-control window of each connection for request content, in bytes; at least 65535 [default:
    /// 1048576]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(65_535..=MOST_WINDOW))]
    h2_connection_window: Option<u32>,
    /// HTTP/2: maximum number of concurrent streams per connection [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    h2_streams: Option<u32>,
    /// HTTP/2: push files with a page; each line of the plan lists a page and the files to push, as in
    /// `/index.html /style.css /logo.png`
    #[arg(long, value_name = "PLAN")]
    push: Option<PathBuf>,
    /// Send 103 Early Hints with the files of a page before its response; PLAN has the format of --push
    #[arg(long, value_name = "PLAN")]
    early_hints: Option<PathBuf>,
    /// Also serve HTTP/3
    #[arg(long)]
    http3: bool,
    /// UDP offloads that HTTP/3 uses: on (both), send (GSO), receive (GRO) or off
    #[arg(long, value_name = "WHICH", default_value_t = UdpOffload::On)]
    pub udp_offload: UdpOffload,
    /// Send this Alt-Svc field with every response [default with HTTP/3: h3 on its port]
    #[arg(long, value_name = "VALUE")]
    alt_svc: Option<String>,
}

/// The largest flow-control window.
const MOST_WINDOW: i64 = h2::flow::MAX_WINDOW as i64;

/// The kind of tickets for resumption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TicketKind {
    Off,
    Stateless,
    Stateful,
}

impl FromStr for TicketKind {
    type Err = String;

    fn from_str(text: &str) -> Result<TicketKind, String> {
        match text {
            "off" => Ok(TicketKind::Off),
            "stateless" => Ok(TicketKind::Stateless),
            "stateful" => Ok(TicketKind::Stateful),
            _ => Err("give off, stateless or stateful".to_owned()),
        }
    }
}

/// The protocol settings that result from the arguments.
pub struct Served {
    /// The protocols of the event loops.
    pub protocols: Protocols,
    /// Whether HTTP/3 is also served, with the same TLS settings.
    pub http3: bool,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Messages for the operator, one per line.
    pub notes: Vec<String>,
}

impl ProtocolArguments {
    /// Whether connections use TLS.
    pub fn is_tls(&self) -> bool {
        self.tls || !self.certificate.is_empty()
    }

    fn serves(&self, version: Generation) -> bool {
        match version {
            Generation::HTTP3 if self.http3 => true,
            Generation::HTTP3 => self.protocols.contains(&version),
            _ => self.protocols.is_empty() || self.protocols.contains(&version),
        }
    }

    /// Reads the plans of the files that belong to pages, for push and for early hints.
    pub fn plans(&self) -> Result<(Plan, Plan), Failure> {
        let read = |path: &Option<PathBuf>| match path {
            None => Ok(Plan::default()),
            Some(path) => text(path)?.parse().map_err(|error| {
                Failure::from(format!("failed to read {}: {error}", path.display()))
            }),
        };
        Ok((read(&self.push)?, read(&self.early_hints)?))
    }

    /// Returns the addresses to listen on. With HTTP/3, replaces port 0 by a free port in advance, because Alt-Svc
    /// announces the port.
    pub fn addresses(&self, asked: &[SocketAddr]) -> Result<Vec<SocketAddr>, Failure> {
        match self.serves(Generation::HTTP3) {
            true => Ok(ports::resolved(asked)?),
            false => Ok(asked.to_vec()),
        }
    }

    /// Returns the number of descriptors that an event loop needs to receive on this many addresses.
    pub fn sockets(&self, addresses: usize) -> usize {
        // HTTP/3 has two descriptors for each UDP socket, and its loop has a poller and a wake-up event.
        let over_udp = match self.serves(Generation::HTTP3) {
            true => 2 * addresses + 2,
            false => 0,
        };
        addresses + over_udp
    }

    /// Adds the response fields that these arguments set to a server persona.
    pub fn extended(&self, mut persona: Persona, addresses: &[SocketAddr]) -> Persona {
        let http3 = addresses
            .first()
            .filter(|_| self.serves(Generation::HTTP3))
            .map(|address| format!("h3=\":{}\"; ma=3600", address.port()));
        if let Some(value) = self.alt_svc.as_ref().or(http3.as_ref()) {
            persona.fields.push(PersonaField {
                name: "Alt-Svc".to_owned(),
                value: FieldValue::Static(value.clone()),
                on: Responses::ALL,
            });
        }
        persona
    }

    /// Builds the settings that all connections share, based on the configuration of HTTP/1.
    pub fn setup(
        &self,
        http1: &h1::server::ServerConfig,
        addresses: &[SocketAddr],
        clock: Clock,
    ) -> Result<Served, Failure> {
        let has_http3 = self.serves(Generation::HTTP3);
        if has_http3 && !(self.is_tls() && self.versions().contains(&Version::Tls13)) {
            return Err("HTTP/3 needs TLS 1.3: add --tls, or --certificate and --key".into());
        }
        self.check_tls_arguments()?;
        let (has_http1, has_http2) = (
            self.serves(Generation::HTTP1),
            self.serves(Generation::HTTP2),
        );
        if !has_http1 && !has_http2 {
            return Err("h3 alone is not supported: clients find it by Alt-Svc over h1 or h2; add one of them".into());
        }
        let mut notes = vec![self.summary(has_http1, has_http2, has_http3)];
        let tls = match self.is_tls() {
            false => None,
            true => Some(self.tls(has_http1, has_http2, addresses, clock, &mut notes)?),
        };
        let http2 = has_http2.then(|| Arc::new(self.http2(http1)));
        let upgrade = has_http1 && has_http2 && tls.is_none();
        let http1 = has_http1.then(|| {
            Arc::new(h1::server::ServerConfig {
                upgrade,
                ..http1.clone()
            })
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        Ok(Served {
            protocols: Protocols { http1, http2, tls },
            http3: has_http3,
            scheme,
            notes,
        })
    }

    /// Rejects TLS options if TLS is not enabled.
    fn check_tls_arguments(&self) -> Result<(), Failure> {
        let asked = [
            ("--tls-versions", !self.tls_versions.is_empty()),
            ("--tickets", self.tickets.is_some()),
            ("--early-data", self.early_data),
            ("--client-ca", self.client_ca.is_some()),
            ("--key-log", self.key_log.is_some()),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            Some((name, _)) if !self.is_tls() => {
                Err(format!("{name} needs TLS: add --tls, or --certificate and --key").into())
            }
            _ => Ok(()),
        }
    }

    fn http2(&self, http1: &h1::server::ServerConfig) -> h2::server::ServerConfig {
        let mut config = server::http2_config(http1);
        if let Some(window) = self.h2_window {
            config.receive.stream = window;
        }
        if let Some(window) = self.h2_connection_window {
            config.receive.connection = window;
        }
        if let Some(streams) = self.h2_streams {
            config.limits.streams = streams;
        }
        config
    }

    fn versions(&self) -> Vec<Version> {
        match self.tls_versions.is_empty() {
            true => Version::ALL.to_vec(),
            false => self.tls_versions.clone(),
        }
    }

    fn summary(&self, http1: bool, http2: bool, http3: bool) -> String {
        let versions = [(http1, "HTTP/1.1"), (http2, "HTTP/2"), (http3, "HTTP/3")];
        let served: Vec<&str> = versions
            .iter()
            .filter(|(served, _)| *served)
            .map(|(_, name)| *name)
            .collect();
        let served = served.join(" and ");
        if !self.is_tls() {
            return format!("{served} without TLS");
        }
        let mut versions = self.versions();
        versions.sort_unstable();
        versions.dedup();
        let versions: Vec<&str> = versions.iter().map(|version| version.name()).collect();
        format!("{served} over TLS {}", versions.join(" and "))
    }

    fn tls(
        &self,
        http1: bool,
        http2: bool,
        addresses: &[SocketAddr],
        clock: Clock,
        notes: &mut Vec<String>,
    ) -> Result<Arc<ServerSettings>, Failure> {
        let unix_time = clock.realtime_of(Instant::ZERO);
        let mut identities = self.identities(addresses, unix_time, notes)?.into_iter();
        let Some(first) = identities.next() else {
            return Err("there is no server certificate".into());
        };
        let mut options = ServerOptions::new(first, unix_time);
        options.further = identities.collect();
        options.versions = self.versions();
        options.alpn = server::alpn(http1, http2);
        options.tickets = match (self.tickets, self.early_data) {
            (Some(TicketKind::Off), false) => Tickets::Off,
            (Some(TicketKind::Stateful), _) | (None, true) => Tickets::Stateful {
                count: TICKETS,
                capacity: SESSIONS,
            },
            (Some(TicketKind::Stateless) | None, false) => Tickets::Stateless { count: TICKETS },
            (Some(_), true) => {
                return Err(
                    "--early-data needs --tickets stateful: each ticket is then accepted once, so that \
                     early data cannot be replayed"
                        .into(),
                );
            }
        };
        options.early_data = self.early_data.then_some(EARLY_DATA);
        if let Some(path) = &self.client_ca {
            let roots = Roots::from_pem(&bytes(path)?, &path.display().to_string())?;
            options.client_certificates = ClientCertificates::Required(roots);
        }
        options.key_log = self.key_log()?;
        Ok(ServerSettings::new(options).map_err(|error| self.tls_failure(&error))?)
    }

    fn tls_failure(&self, error: &dyn std::fmt::Display) -> String {
        let pairs = self.certificate.iter().zip(&self.key);
        let pairs: Vec<String> = pairs
            .map(|(certificate, key)| format!("{} with {}", certificate.display(), key.display()))
            .collect();
        match pairs.is_empty() {
            true => format!("failed to set up TLS: {error}"),
            false => format!("failed to use {}: {error}", pairs.join(", ")),
        }
    }

    /// Reads or generates the server's certificates with their keys: at least one.
    fn identities(
        &self,
        addresses: &[SocketAddr],
        unix_time: Duration,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Identity>, Failure> {
        if self.certificate.len() != self.key.len() {
            return Err(format!(
                "{} certificates and {} keys: give one --key for each --certificate",
                self.certificate.len(),
                self.key.len()
            )
            .into());
        }
        if !self.certificate.is_empty() {
            let pairs = self.certificate.iter().zip(&self.key);
            return pairs
                .map(|(certificate, key)| {
                    Ok(Identity::from_pem(
                        &bytes(certificate)?,
                        &certificate.display().to_string(),
                        &bytes(key)?,
                        &key.display().to_string(),
                    )?)
                })
                .collect();
        }
        let names = names(&self.hosts, addresses);
        let credentials = Credentials::make(&names, unix_time)
            .map_err(|error| format!("failed to generate a certificate: {error}"))?;
        notes.push(match &self.ca_out {
            None => {
                "clients do not trust the generated certificate: write the root with --ca-out FILE, or use curl --insecure"
                    .to_owned()
            }
            Some(path) => {
                fs::write(path, credentials.root_pem())
                    .map_err(|error| format!("failed to write {}: {error}", path.display()))?;
                format!("the root certificate is in {0}: use curl --cacert {0}", path.display())
            }
        });
        Ok(vec![credentials.identity().clone()])
    }

    fn key_log(&self) -> Result<Option<Arc<dyn KeyLogSink>>, Failure> {
        let (opened, name) = match &self.key_log {
            Some(path) => (Some(KeyLogFile::open(path)), path.display().to_string()),
            None => (
                KeyLogFile::of_environment(),
                "the file that SSLKEYLOGFILE names".to_owned(),
            ),
        };
        match opened {
            None => Ok(None),
            Some(Ok(file)) => Ok(Some(file)),
            Some(Err(error)) => Err(format!("failed to open {name}: {error}").into()),
        }
    }
}

/// Returns all names and addresses that the certificate must cover.
fn names(hosts: &[String], addresses: &[SocketAddr]) -> Vec<String> {
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let specified = addresses
        .iter()
        .map(SocketAddr::ip)
        .filter(|address: &IpAddr| !address.is_unspecified())
        .map(|address| address.to_string());
    let mut names: Vec<String> = Vec::new();
    for name in hosts.iter().cloned().chain(loopback).chain(specified) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| format!("failed to read {}: {error}", path.display()).into())
}

fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| format!("failed to read {}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_covers_all_names_of_the_server() {
        let addresses = ["0.0.0.0:1", "[::1]:2", "10.0.0.1:3", "10.0.0.1:4"];
        let addresses = addresses.map(|address| address.parse().unwrap());
        let names = names(&["a.test".to_owned(), "localhost".to_owned()], &addresses);
        assert_eq!(
            names,
            ["a.test", "localhost", "127.0.0.1", "::1", "10.0.0.1"]
        );
    }
}
