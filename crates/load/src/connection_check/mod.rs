//! The connection check before a load test: one connection without a request. It reports a server that does not listen,
//! is not trusted or uses another protocol before the test starts.

mod quic;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{Policy, Protocol};
use fathometer_http::h2;
use fathometer_http::protocol::{Concurrency, Encryption};
use fathometer_sys::{Clock, socket};
use fathometer_tls::{Alert, ClientOptions, ClientSettings, Session, SettingsError, TlsFailure};

use super::host_names::without_port;
use super::security::agreement;
use super::url::Url;

/// The reason for which a load test cannot start.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The policy does not fit the URL or the number of streams.
    #[error("{0}")]
    Policy(String),
    /// The TLS options contradict each other.
    #[error("{0}")]
    Settings(#[from] SettingsError),
    /// A system call failed.
    #[error("{0}")]
    System(#[from] fathometer_sys::Error),
    /// The server does not listen, is not trusted, or does not support the protocol.
    #[error("{0}")]
    Server(String),
}

impl CheckError {
    /// Returns whether the options are at fault, and not the machine or the server.
    pub fn is_usage(&self) -> bool {
        matches!(self, CheckError::Policy(_))
    }
}

/// The result of the connection check.
pub struct Checked {
    /// The connection policy.
    pub policy: Policy,
    /// Settings for all connections of the test, if TLS is used.
    pub tls: Option<Arc<ClientSettings>>,
    /// The negotiated parameters of the handshake, for display.
    pub agreement: Option<String>,
}

/// Determines the policy from the requested policy (`asked`) and the number of streams. The URL determines whether TLS
/// is used. Returns `None` if no policy was given and the server chooses the protocol over TLS.
///
/// # Errors
/// [`CheckError::Policy`].
pub fn policy(
    asked: Option<Policy>,
    streams: Option<u16>,
    url: &Url,
) -> Result<Option<Policy>, CheckError> {
    let Some(mut policy) = asked else {
        return Ok(match (url.secure, streams) {
            (true, None) => None,
            (tls, _) => with_streams(Policy::plain(Protocol::usual(tls)), streams)?,
        });
    };
    match (url.secure, policy.tls) {
        // If a policy works with and without TLS, the URL decides.
        (true, false) if policy.protocol.has_optional_tls() => policy.tls = true,
        (true, false) => {
            return Err(CheckError::Policy(format!(
                "{policy} is HTTP/2 without TLS, but the URL is https: use http, or --policy h2"
            )));
        }
        (false, true) => {
            let without = match policy.protocol.characteristics().encryption {
                Encryption::Optional => "the same policy without -tls".to_owned(),
                Encryption::Usual { cleartext } => format!("--policy {cleartext}"),
                Encryption::Required => "another policy".to_owned(),
            };
            return Err(CheckError::Policy(format!(
                "{policy} uses TLS, but the URL is http: use https, or {without}"
            )));
        }
        _ => {}
    }
    with_streams(policy, streams)
}

/// Applies `-m`: the number of concurrent streams of a connection, or of requests in a pipeline.
fn with_streams(mut policy: Policy, streams: Option<u16>) -> Result<Option<Policy>, CheckError> {
    let Some(streams) = streams else {
        return Ok(Some(policy));
    };
    match policy.protocol.characteristics().concurrency {
        Concurrency::Multiplexed => policy.streams = Some(streams),
        _ if streams == 1 => {}
        Concurrency::Pipelined => policy.pipeline = Some(streams),
        Concurrency::Single => {
            return Err(CheckError::Policy(format!(
                "--max-streams {streams} needs a protocol with several requests in flight on a connection, and \
                 {policy} allows only one"
            )));
        }
    }
    Ok(Some(policy))
}

/// A server to check.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// The URL of the server.
    pub url: &'a Url,
    /// The address of the server.
    pub address: SocketAddr,
    /// The time limit for each wait for the server.
    pub patience: Duration,
}

/// Connects once, completes the handshake if there are TLS options, and checks that the server supports the protocol of
/// `wanted`, which comes from [`policy`]. Sends no request.
///
/// # Errors If the server does not listen, is not trusted, or does not support the protocol.
pub fn check(
    wanted: Option<Policy>,
    tls: Option<ClientOptions>,
    server: Server<'_>,
    clock: Clock,
) -> Result<Checked, CheckError> {
    let Server {
        url,
        address,
        patience,
    } = server;
    if let (Some(policy), Some(tls)) = (wanted, &tls)
        && policy.protocol.is_over_quic()
    {
        return check_over_quic(policy, tls.clone(), server, clock);
    }
    let mut connection = connect(address, patience)?;
    let _ = connection.set_read_timeout(Some(patience.max(Duration::from_millis(1))));
    let _ = connection.set_write_timeout(Some(patience.max(Duration::from_millis(1))));
    let checked = match tls {
        Some(options) => secured(wanted, options, url, &mut connection, patience, clock)?,
        None => {
            let policy = wanted.unwrap_or(Policy::plain(Protocol::usual(false)));
            if policy.protocol == Protocol::Http2 {
                prior_knowledge(&mut connection, address, patience)?;
            }
            Checked {
                policy,
                tls: None,
                agreement: None,
            }
        }
    };
    // Reset the connection, so that no TIME_WAIT state remains here or at the server.
    let _ = socket::set_linger(&connection, Some(Duration::ZERO));
    Ok(checked)
}

/// Checks the connection to an HTTP/3 server.
fn check_over_quic(
    policy: Policy,
    options: ClientOptions,
    server: Server<'_>,
    clock: Clock,
) -> Result<Checked, CheckError> {
    let options = ClientOptions {
        alpn: alpn_names(&[policy.protocol]),
        ..options
    };
    let first = ClientOptions {
        resumption: None,
        ..options.clone()
    };
    let agreement = quic::handshake(&ClientSettings::new(first)?, server, clock)?;
    Ok(Checked {
        policy,
        tls: Some(ClientSettings::new(options)?),
        agreement: Some(agreement),
    })
}

fn connect(address: SocketAddr, patience: Duration) -> Result<TcpStream, CheckError> {
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
        CheckError::Server(format!(
            "failed to connect to {address}: {error}{advice}"
        ))
    })
}

fn secured(
    wanted: Option<Policy>,
    mut options: ClientOptions,
    url: &Url,
    connection: &mut TcpStream,
    patience: Duration,
    clock: Clock,
) -> Result<Checked, CheckError> {
    options.alpn = match wanted {
        Some(policy) => alpn_names(&[policy.protocol]),
        None => alpn_names(&Protocol::USUAL),
    };
    // These settings are separate, so that the test does not resume the session of this connection.
    let first = ClientOptions {
        resumption: None,
        early_data: false,
        ..options.clone()
    };
    let first = ClientSettings::new(first)?;
    let name = without_port(&url.authority);
    let session = shake_hands(&first, name, connection, clock)
        .map_err(|failure| failure.explained(&url.authority, patience))?;
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
            return Err(CheckError::Server(format!(
                "{} negotiated {agreed}, which --policy {policy} does not use: it {advice} on this port",
                url.authority
            )));
        }
        None => Policy {
            tls: true,
            ..Policy::plain(Protocol::selected(agreed))
        },
    };
    options.alpn = alpn_names(&[policy.protocol]);
    Ok(Checked {
        policy,
        tls: Some(ClientSettings::new(options)?),
        agreement: session.handshake().map(agreement),
    })
}

/// Returns the ALPN names to offer for these protocols.
fn alpn_names(protocols: &[Protocol]) -> Vec<Vec<u8>> {
    let names = protocols
        .iter()
        .flat_map(|protocol| protocol.characteristics().alpn_names);
    names.map(|name| name.as_bytes().to_vec()).collect()
}

/// Describes an error on a connection whose waits have a time limit.
fn waited(error: &std::io::Error, patience: Duration) -> String {
    match error.kind() {
        // The kernel reports these errors when SO_RCVTIMEO has expired.
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => format!(
            "timed out: no response within {patience:?} (--connect-timeout sets the time limit)"
        ),
        _ => error.to_string(),
    }
}

/// The alert of a server that supports no offered protocol: no_application_protocol (RFC 7301 section 3.2).
const NO_PROTOCOL: Alert = Alert(120);

/// Returns whether other options could make the client trust the server.
fn is_about_trust(failure: &TlsFailure) -> bool {
    matches!(
        failure,
        TlsFailure::NotTrusted
            | TlsFailure::NameMismatch(_)
            | TlsFailure::Expired(_)
            | TlsFailure::BadCertificate(_)
    )
}

/// The reason for which the handshake failed.
enum Unsecured {
    Tls(TlsFailure),
    Transport(std::io::Error),
}

impl Unsecured {
    fn explained(self, host: &str, patience: Duration) -> CheckError {
        CheckError::Server(match self {
            Unsecured::Tls(
                failure @ (TlsFailure::NoCommonProtocol | TlsFailure::Alert(NO_PROTOCOL)),
            ) => format!(
                "{host} refuses the protocol of this policy: {failure}; choose another policy with --policy"
            ),
            Unsecured::Tls(failure) if is_about_trust(&failure) => format!(
                "failed to establish TLS with {host}: {failure}: trust its certificate authority with --cacert, or any \
                 certificate with --insecure"
            ),
            Unsecured::Tls(failure) => format!("failed to establish TLS with {host}: {failure}"),
            Unsecured::Transport(error) => format!(
                "failed to establish TLS with {host}: {}: does the server support TLS on this port?",
                waited(&error, patience)
            ),
        })
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

/// Checks whether the server of an `http` URL accepts HTTP/2 with prior knowledge (RFC 9113 section 3.3).
fn prior_knowledge(
    connection: &mut TcpStream,
    address: SocketAddr,
    patience: Duration,
) -> Result<(), CheckError> {
    let wrong = |what: String| {
        CheckError::Server(format!(
            "{address} does not support HTTP/2 without TLS: {what}; does it use HTTP/1.1 (--policy h1.1), or https?"
        ))
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
    let sent = String::from_utf8_lossy(&header).into_owned();
    Err(wrong(format!("it sent {sent:?}")))
}
