//! TLS of a load test, from the arguments, and the connection check before it: a server that does not listen,
//! is not trusted or uses another protocol is reported before the measurement.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fathometer_http::driver::{Policy, Protocol};
use fathometer_http::h2;
use fathometer_http::protocol::{Concurrency, Encryption};
use fathometer_sys::{Clock, socket};
use fathometer_tls::{
    Alert, ClientOptions, ClientSettings, Identity, Roots, Session, TlsFailure, Verification,
    Version as TlsVersion,
};

use super::super::{Failure, usage};
use super::quic;
use fathometer_files::key_log::KeyLogFile;
use fathometer_load::security::agreement;
use fathometer_load::url::Url;
use fathometer_load::without_port;

/// The list of authorities that this system trusts: first the path of Debian and its derivatives, then that of
/// Fedora.
const SYSTEM_ROOTS: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// Arguments about TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub struct SecurityArguments {
    /// Trust any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust the certificate authorities in this file (PEM) [default: this system's]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Client certificate chain (PEM), for a server that requests one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// TLS version to offer: 1.2 or 1.3 [default: both]
    #[arg(long, value_name = "VERSION")]
    tls_version: Option<TlsVersion>,
    /// Do not resume sessions: every handshake is a full one
    #[arg(long)]
    no_resume: bool,
    /// Send requests in the first flight of a resumed session (0-RTT), if the server allows it
    #[arg(long, conflicts_with = "no_resume")]
    early_data: bool,
    /// Write the TLS secrets of all connections to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

impl SecurityArguments {
    /// Trusts any certificate: that of a server which this program starts itself.
    pub fn trust_any(&mut self) {
        self.cacert = None;
        self.insecure = true;
    }

    /// Whether any of these arguments was given.
    pub fn are_given(&self) -> bool {
        self.insecure
            || self.cacert.is_some()
            || self.cert.is_some()
            || self.tls_version.is_some()
            || self.no_resume
            || self.early_data
            || self.key_log.is_some()
    }

    /// Every argument that was not given, with its default.
    pub fn defaults(&self) -> Vec<(&'static str, String)> {
        let mut defaults = Vec::new();
        if !self.insecure && self.cacert.is_none() {
            defaults.push(("trust", "this system's authorities".to_owned()));
        }
        if self.tls_version.is_none() {
            defaults.push(("TLS versions", "1.2, 1.3".to_owned()));
        }
        if !self.no_resume {
            defaults.push(("TLS sessions", "resumed".to_owned()));
        }
        if !self.early_data {
            defaults.push(("early data", "none".to_owned()));
        }
        defaults
    }

    /// The TLS options of the client, without its protocols.
    pub fn options(&self, clock: Clock) -> Result<ClientOptions, Failure> {
        let verification = match (self.insecure, &self.cacert) {
            (true, _) => Verification::Off,
            (false, Some(file)) => Verification::Roots(roots(file)?),
            (false, None) => Verification::Roots(system_roots()?),
        };
        let origin = clock.realtime_of(fathometer_model::Instant::ZERO);
        let mut options = ClientOptions::new(verification, origin);
        if let (Some(chain), Some(key)) = (&self.cert, &self.key) {
            let identity = Identity::from_pem(
                &read(chain)?,
                &chain.display().to_string(),
                &read(key)?,
                &key.display().to_string(),
            );
            options.identity = Some(identity.map_err(|error| error.to_string())?);
        }
        if let Some(version) = self.tls_version {
            options.versions = vec![version];
        }
        if self.no_resume {
            options.resumption = None;
        }
        options.early_data = self.early_data;
        if let Some(file) = &self.key_log {
            let log = KeyLogFile::open(file)
                .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
            options.key_log = Some(log);
        }
        Ok(options)
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("failed to read {}: {error}", file.display()))
}

fn roots(file: &Path) -> Result<Roots, Failure> {
    let roots = Roots::from_pem(&read(file)?, &file.display().to_string());
    Ok(roots.map_err(|error| error.to_string())?)
}

fn system_roots() -> Result<Roots, Failure> {
    let file = SYSTEM_ROOTS
        .iter()
        .map(Path::new)
        .find(|file| file.exists());
    let Some(file) = file else {
        return Err(
            "this system has no list of trusted authorities: give one with --cacert, or trust any certificate with \
             --insecure"
                .into(),
        );
    };
    roots(file)
}

/// The result of the connection check.
pub struct ConnectionCheck {
    /// The connection policy.
    pub policy: Policy,
    /// Settings for all connections of the test, if TLS is used.
    pub tls: Option<Arc<ClientSettings>>,
}

/// Determines the policy. The URL decides whether TLS is used. Returns `None` if no policy was given and the
/// server chooses over TLS.
fn meant(
    asked: Option<Policy>,
    streams: Option<u16>,
    url: &Url,
) -> Result<Option<Policy>, Failure> {
    let Some(mut policy) = asked else {
        return Ok(match (url.secure, streams) {
            (true, None) => None,
            (tls, _) => with_streams(Policy::plain(Protocol::usual(tls)), streams)?,
        });
    };
    match (url.secure, policy.tls) {
        // For a policy that works with and without TLS, the URL decides.
        (true, false) if policy.protocol.has_optional_tls() => policy.tls = true,
        (true, false) => {
            return Err(usage(format!(
                "{policy} is HTTP/2 without TLS, and the URL is https: write http, or --policy h2"
            )));
        }
        (false, true) => {
            let without = match policy.protocol.characteristics().encryption {
                Encryption::Optional => "the same policy without -tls".to_owned(),
                Encryption::Usual { cleartext } => format!("--policy {cleartext}"),
                Encryption::Required => "another policy".to_owned(),
            };
            return Err(usage(format!(
                "{policy} is over TLS, and the URL is http: write https, or {without}"
            )));
        }
        _ => {}
    }
    with_streams(policy, streams)
}

/// Applies `-m`: the number of streams per connection, or of requests in a pipeline.
fn with_streams(mut policy: Policy, streams: Option<u16>) -> Result<Option<Policy>, Failure> {
    let Some(streams) = streams else {
        return Ok(Some(policy));
    };
    match policy.protocol.characteristics().concurrency {
        Concurrency::Multiplexed => policy.streams = Some(streams),
        _ if streams == 1 => {}
        Concurrency::Pipelined => policy.pipeline = Some(streams),
        Concurrency::Single => {
            return Err(usage(format!(
                "--max-streams {streams} needs a protocol with several requests in flight on a connection, and \
                 {policy} has one"
            )));
        }
    }
    Ok(Some(policy))
}

/// Connects once, completes the handshake if TLS is used, and checks that the server supports the requested
/// protocol. Sends no request.
pub fn check_connection(
    asked: (Option<Policy>, Option<u16>),
    arguments: &SecurityArguments,
    url: &Url,
    address: SocketAddr,
    patience: Duration,
    clock: Clock,
) -> Result<ConnectionCheck, Failure> {
    let wanted = meant(asked.0, asked.1, url)?;
    if !url.secure && arguments.are_given() {
        return Err(usage("TLS options need an https URL"));
    }
    if let Some(policy) = wanted.filter(|policy| policy.protocol.is_over_quic()) {
        return check_over_quic(policy, arguments, url, address, patience, clock);
    }
    let mut connection = connect(address, patience)?;
    let _ = connection.set_read_timeout(Some(patience.max(Duration::from_millis(1))));
    let _ = connection.set_write_timeout(Some(patience.max(Duration::from_millis(1))));
    let checked = if url.secure {
        secured(wanted, arguments, url, &mut connection, patience, clock)?
    } else {
        let policy = wanted.unwrap_or(Policy::plain(Protocol::usual(false)));
        if policy.protocol == Protocol::Http2 {
            prior_knowledge(&mut connection, address, patience)?;
        }
        ConnectionCheck { policy, tls: None }
    };
    // Reset the connection, so that no TIME_WAIT state remains here or at the server.
    let _ = socket::set_linger(&connection, Some(Duration::ZERO));
    Ok(checked)
}

/// Checks the connection to an HTTP/3 server.
fn check_over_quic(
    policy: Policy,
    arguments: &SecurityArguments,
    url: &Url,
    address: SocketAddr,
    patience: Duration,
    clock: Clock,
) -> Result<ConnectionCheck, Failure> {
    let options = ClientOptions {
        alpn: alpn_names(&[policy.protocol]),
        ..arguments.options(clock)?
    };
    let first = ClientOptions {
        resumption: None,
        ..options.clone()
    };
    let first = ClientSettings::new(first).map_err(|error| error.to_string())?;
    let name = without_port(&url.authority);
    let agreed = quic::handshake(&first, &url.authority, name, address, patience, clock)?;
    eprintln!("{}: {agreed}", url.authority);
    let tls = ClientSettings::new(options).map_err(|error| error.to_string())?;
    Ok(ConnectionCheck {
        policy,
        tls: Some(tls),
    })
}

fn connect(address: SocketAddr, patience: Duration) -> Result<TcpStream, Failure> {
    TcpStream::connect_timeout(&address, patience.max(Duration::from_millis(1))).map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                ": no process listens there; is the server running on this port?"
            }
            std::io::ErrorKind::TimedOut => {
                ": no response; is the address correct, and does a firewall block it? (--connect-timeout sets the \
                 time limit)"
            }
            _ => "",
        };
        format!("failed to connect to {address}: {error}{advice}").into()
    })
}

fn secured(
    wanted: Option<Policy>,
    arguments: &SecurityArguments,
    url: &Url,
    connection: &mut TcpStream,
    patience: Duration,
    clock: Clock,
) -> Result<ConnectionCheck, Failure> {
    let mut options = arguments.options(clock)?;
    options.alpn = match wanted {
        Some(policy) => alpn_names(&[policy.protocol]),
        None => alpn_names(&Protocol::USUAL),
    };
    // These settings are separate, so that the test does not start with a ticket of this connection.
    let first = ClientOptions {
        resumption: None,
        early_data: false,
        ..options.clone()
    };
    let first = ClientSettings::new(first).map_err(|error| error.to_string())?;
    let name = without_port(&url.authority);
    let session = shake_hands(&first, name, connection, clock)
        .map_err(|failure| failure.told(&url.authority, patience))?;
    let agreed = session.alpn();
    let policy = match wanted {
        Some(policy) if policy.protocol.is_selected_by(agreed) => policy,
        Some(policy) => {
            let (agreed, advice) = match agreed {
                None => ("no protocol (no ALPN)".to_owned(), "supports only HTTP/1.x"),
                Some(other) => (
                    format!("on {}", String::from_utf8_lossy(other)),
                    "does not support it",
                ),
            };
            return Err(format!(
                "{} negotiated {agreed}, which --policy {policy} does not use: it {advice} on this port",
                url.authority
            )
            .into());
        }
        None => Policy {
            tls: true,
            ..Policy::plain(Protocol::selected(agreed))
        },
    };
    if let Some(handshake) = session.handshake() {
        eprintln!("{}: {}", url.authority, agreement(handshake));
    }
    options.alpn = alpn_names(&[policy.protocol]);
    let tls = ClientSettings::new(options).map_err(|error| error.to_string())?;
    Ok(ConnectionCheck {
        policy,
        tls: Some(tls),
    })
}

/// The ALPN names to offer for these protocols.
fn alpn_names(protocols: &[Protocol]) -> Vec<Vec<u8>> {
    let names = protocols
        .iter()
        .flat_map(|protocol| protocol.characteristics().alpn_names);
    names.map(|name| name.as_bytes().to_vec()).collect()
}

/// Describes an error of a connection with bounded waits.
fn waited(error: &std::io::Error, patience: Duration) -> String {
    match error.kind() {
        // The kernel reports these errors when the timeout of SO_RCVTIMEO has expired.
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => format!(
            "timed out: no response within {patience:?} (--connect-timeout sets the time limit)"
        ),
        _ => error.to_string(),
    }
}

/// The alert of a server that supports none of the offered protocols (RFC 7301 section 3.2).
const NO_PROTOCOL: Alert = Alert(120);

/// Whether other arguments would make the client trust the server.
fn is_about_trust(failure: &TlsFailure) -> bool {
    matches!(
        failure,
        TlsFailure::NotTrusted
            | TlsFailure::NameMismatch(_)
            | TlsFailure::Expired(_)
            | TlsFailure::BadCertificate(_)
    )
}

/// Why the handshake failed.
enum Unsecured {
    Tls(TlsFailure),
    Transport(std::io::Error),
}

impl Unsecured {
    fn told(self, host: &str, patience: Duration) -> Failure {
        let told = match self {
            Unsecured::Tls(
                failure @ (TlsFailure::NoCommonProtocol | TlsFailure::Alert(NO_PROTOCOL)),
            ) => format!(
                "{host} refuses the protocol of this policy: {failure}; choose another with --policy"
            ),
            Unsecured::Tls(failure) if is_about_trust(&failure) => format!(
                "failed to establish TLS with {host}: {failure}: trust its authority with --cacert, or any \
                 certificate with --insecure"
            ),
            Unsecured::Tls(failure) => format!("failed to establish TLS with {host}: {failure}"),
            Unsecured::Transport(error) => format!(
                "failed to establish TLS with {host}: {}: does the server support TLS on this port?",
                waited(&error, patience)
            ),
        };
        told.into()
    }
}

fn shake_hands(
    settings: &Arc<ClientSettings>,
    name: &str,
    connection: &mut TcpStream,
    clock: Clock,
) -> Result<Session, Unsecured> {
    let mut session = Session::client(settings, name, clock.now()).map_err(Unsecured::Tls)?;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let bytes = session.transmit();
        let length = bytes.len();
        connection.write_all(bytes).map_err(Unsecured::Transport)?;
        session.transmitted(length);
        if session.is_established() {
            return Ok(session);
        }
        let length = connection.read(&mut buffer).map_err(Unsecured::Transport)?;
        if length == 0 {
            let ended = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(session
                .handle_eof()
                .map_or_else(Unsecured::Tls, |()| Unsecured::Transport(ended)));
        }
        let received = session.receive(&buffer[..length], clock.now());
        if let Err(failure) = received {
            let _ = connection.write_all(session.transmit());
            return Err(Unsecured::Tls(failure));
        }
    }
}

/// Whether the server of an `http` URL answers HTTP/2 with prior knowledge.
fn prior_knowledge(
    connection: &mut TcpStream,
    address: SocketAddr,
    patience: Duration,
) -> Result<(), Failure> {
    let wrong = |what: String| -> Failure {
        format!(
            "{address} does not support HTTP/2 without TLS: {what}; is it HTTP/1.1 (--policy h1.1), or https?"
        )
        .into()
    };
    let mut words = h2::PREFACE.to_vec();
    h2::frame::write::settings(&mut words, std::iter::empty());
    connection
        .write_all(&words)
        .map_err(|error| wrong(waited(&error, patience)))?;
    let mut header = [0; h2::frame::HEADER_LENGTH];
    connection
        .read_exact(&mut header)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => wrong("it closed the connection".to_owned()),
            _ => wrong(waited(&error, patience)),
        })?;
    let parsed = h2::frame::Header::parse(&header);
    if parsed.kind == h2::frame::FrameType::SETTINGS && parsed.stream.is_connection() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&header).into_owned();
    Err(wrong(format!("it sent {said:?}")))
}
