//! How a server under test is reached, and what it proves itself with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_tls::{Identity, Roots, SettingsError};

/// How long before and after it is made a certificate is good.
const MARGIN: Duration = Duration::from_secs(30 * 24 * 3600);

/// How a server is reached.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// In the clear, on port 80.
    Clear,
    /// With TLS, on port 443.
    Tls(&'a Credentials),
}

impl<'a> Access<'a> {
    /// The port that servers under test listen on then.
    pub const fn port(self) -> u16 {
        match self {
            Access::Clear => 80,
            Access::Tls(_) => 443,
        }
    }

    /// The port behind a door of the host.
    pub const fn port_at(self, door: Door) -> u16 {
        match door {
            Door::Usual => self.port(),
            Door::Beside => 8000 + self.port(),
        }
    }

    /// Whether it is with TLS.
    pub const fn is_tls(self) -> bool {
        matches!(self, Access::Tls(_))
    }

    /// What is proven, with TLS.
    pub const fn credentials(self) -> Option<&'a Credentials> {
        match self {
            Access::Clear => None,
            Access::Tls(credentials) => Some(credentials),
        }
    }
}

/// Which of a host's servers: two of them can be at work at a time, each on a port of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Door {
    /// The one that is always there.
    #[default]
    Usual,
    /// Another beside it, 8000 ports further on.
    Beside,
}

/// A certificate for a server, and the root that its clients are to trust. Made on the fly, and gone with
/// the program.
#[derive(Debug)]
pub struct Credentials {
    authority: Authority,
    identity: Identity,
    early_data: bool,
}

impl Credentials {
    /// A certificate for these names and addresses; `now` is the time since 1970.
    pub fn make(names: &[String], now: Duration) -> Result<Credentials, SettingsError> {
        let authority = Authority::new(Lifetime::around(now, MARGIN))?;
        let identity = authority.issue(&Issue::new(names))?;
        Ok(Credentials {
            authority,
            identity,
            early_data: false,
        })
    }

    /// The same for a server that takes requests along with resumed handshakes; our origin alone does.
    #[must_use]
    pub fn with_early_data(self) -> Credentials {
        Credentials {
            early_data: true,
            ..self
        }
    }

    /// Whether requests are taken along with resumed handshakes.
    pub fn takes_early_data(&self) -> bool {
        self.early_data
    }

    /// What clients are to trust.
    pub fn roots(&self) -> Roots {
        self.authority.roots()
    }

    /// The same as PEM, for other programs.
    pub fn root_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The certificate with its key.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Writes the certificate and its key to files of a folder. The server may read them as whichever user it
    /// runs: the folder and the key are for one run.
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

/// Where a certificate is.
#[derive(Debug)]
pub(super) struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    both: PathBuf,
}

impl Files {
    /// The words of a configuration.
    pub fn words(&self) -> [(String, String); 3] {
        [
            ("certificate", &self.certificate),
            ("key", &self.key),
            ("certificate_and_key", &self.both),
        ]
        .map(|(word, path)| (word.to_owned(), path.display().to_string()))
    }
}
