//! The way in which clients connect to a server under test, and the server's certificate.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_tls::{Identity, Roots, SettingsError};

/// The validity of a certificate before and after its creation.
const MARGIN: Duration = Duration::from_secs(30 * 24 * 3600);

/// The way in which clients connect to a server.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// Without TLS, on port 80.
    Clear,
    /// With TLS, on port 443.
    Tls(&'a Credentials),
}

impl<'a> Access<'a> {
    /// The port on which servers under test listen.
    pub const fn port(self) -> u16 {
        match self {
            Access::Clear => 80,
            Access::Tls(_) => 443,
        }
    }

    /// The port of the server in the first or the second slot of the host.
    pub const fn port_at(self, slot: ServerSlot) -> u16 {
        match slot {
            ServerSlot::First => self.port(),
            ServerSlot::Second => 8000 + self.port(),
        }
    }

    /// Whether TLS is used.
    pub const fn is_tls(self) -> bool {
        matches!(self, Access::Tls(_))
    }

    /// The certificate; `None` without TLS.
    pub const fn credentials(self) -> Option<&'a Credentials> {
        match self {
            Access::Clear => None,
            Access::Tls(credentials) => Some(credentials),
        }
    }
}

/// The slot of a server on its host: two servers can run at a time, each on its own ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerSlot {
    /// The first server.
    #[default]
    First,
    /// The second server. Its port number is larger by 8000.
    Second,
}

/// A certificate for a server, and the root certificate that its clients must trust. Both are generated for one run and
/// deleted after it.
#[derive(Debug)]
pub struct Credentials {
    authority: Authority,
    identity: Identity,
    early_data: bool,
}

impl Credentials {
    /// Generates a certificate for these names and addresses; `now` is the Unix time.
    pub fn make(names: &[String], now: Duration) -> Result<Credentials, SettingsError> {
        let authority = Authority::new(Lifetime::around(now, MARGIN))?;
        let identity = authority.issue(&Issue::new(names))?;
        Ok(Credentials {
            authority,
            identity,
            early_data: false,
        })
    }

    /// Returns the same credentials for a server that accepts early data (0-RTT). Only the embedded origin accepts
    /// early data.
    #[must_use]
    pub fn with_early_data(self) -> Credentials {
        Credentials {
            early_data: true,
            ..self
        }
    }

    /// Whether early data is accepted.
    pub fn takes_early_data(&self) -> bool {
        self.early_data
    }

    /// The root certificates that clients must trust.
    pub fn roots(&self) -> Roots {
        self.authority.roots()
    }

    /// The root certificate as PEM, for other programs.
    pub fn root_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The certificate with its key.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Writes the certificate and its key to files in a folder. The files have the default permissions, because the
    /// server may run as any user. The folder and the key exist for one run only.
    pub(super) fn write(&self, folder: &Path) -> io::Result<Files> {
        let files = Files {
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
            both: folder.join("certificate-and-key.pem"),
        };
        let (chain, key) = (self.identity.chain_pem(), self.identity.key_pem());
        fs::write(&files.certificate, &chain)?;
        fs::write(&files.key, &key)?;
        fs::write(&files.both, chain + &key)?;
        Ok(files)
    }
}

/// The files of a certificate.
#[derive(Debug)]
pub(super) struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    both: PathBuf,
}

impl Files {
    /// The placeholders of a configuration with their values.
    pub fn words(&self) -> [(String, String); 3] {
        [
            ("certificate", &self.certificate),
            ("key", &self.key),
            ("certificate_and_key", &self.both),
        ]
        .map(|(word, path)| (word.to_owned(), path.display().to_string()))
    }
}
