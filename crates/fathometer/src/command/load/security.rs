//! TLS arguments of clients.

use std::path::{Path, PathBuf};

use clap::Args;
use fathometer_files::key_log::KeyLogFile;
use fathometer_sys::Clock;
use fathometer_tls::{ClientOptions, Identity, Roots, Verification, Version as TlsVersion};

use super::super::Failure;

/// Files with the certificate authorities that the system trusts: on Debian and its derivatives, and on Fedora.
const SYSTEM_ROOTS: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// Arguments about TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub struct SecurityArguments {
    /// Do not verify the server's certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust the certificate authorities in this file (PEM) [default: the system's authorities]
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
    /// Write the TLS secrets of all connections to this file (SSLKEYLOGFILE format), for Wireshark
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

impl SecurityArguments {
    /// Trusts any certificate, for a server that this program itself starts.
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

    /// Returns the arguments that were not given, with their defaults.
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

    /// Returns the TLS options of the client, without its ALPN protocols.
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
