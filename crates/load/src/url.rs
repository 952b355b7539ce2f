//! The parts of an `http` or `https` URL that a client needs.

use std::net::{SocketAddr, ToSocketAddrs as _};

use crate::secrets;

/// The parts of `http://host[:port]/target` or `https://host[:port]/target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the URL is requested over TLS (`https`).
    pub secure: bool,
    /// Host and port as written in the URL; the value of the `Host` field.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

/// The reason why a URL, or its host, is invalid.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// The scheme is missing, or is not HTTP.
    #[error("{0:?} is not an HTTP URL: use http://host[:port]/path or https://host[:port]/path")]
    Scheme(String),
    /// The host is missing.
    #[error("{0:?} has no host: use http://host[:port]/path")]
    Authority(String),
    /// The URL has a user name or a password before the host.
    #[error(
        "{0:?} contains credentials, which are not sent: write http://host[:port]/path, and give them as a request \
         field where the command has an option for it (-H 'Authorization: Basic ...')"
    )]
    Credentials(String),
    /// The target contains a character that is invalid in a request line.
    #[error("{text:?} has {found:?} in its path, which must be percent-encoded")]
    Target {
        /// The URL.
        text: String,
        /// The first invalid character.
        found: char,
    },
    /// The host name could not be resolved.
    #[error("failed to resolve {host}: {error}: check the name, or give an address")]
    LookUp {
        /// The host name.
        host: String,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The name has no address.
    #[error("{0} has no address")]
    NoAddress(String),
}

impl UrlError {
    /// Returns whether the text itself is invalid, and not the resolution of its host.
    pub fn is_usage(&self) -> bool {
        !matches!(self, UrlError::LookUp { .. } | UrlError::NoAddress(_))
    }
}

impl Url {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        let (secure, rest) = [(false, "http://"), (true, "https://")]
            .into_iter()
            .find_map(|(secure, scheme)| Some((secure, text.strip_prefix(scheme)?)))
            .ok_or_else(|| UrlError::Scheme(secrets::redact_url(text)))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::Credentials(secrets::redact_url(text)));
        }
        if authority.is_empty() {
            return Err(UrlError::Authority(text.to_owned()));
        }
        let path = path.split('#').next().unwrap_or("");
        let target = match path {
            "" => "/".to_owned(),
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        };
        if let Some(found) = target.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(UrlError::Target {
                text: text.to_owned(),
                found,
            });
        }
        Ok(Url {
            secure,
            authority: authority.to_owned(),
            target,
        })
    }

    /// Resolves the host. If the URL has no port, the port is 80, or 443 over TLS.
    pub fn resolve(&self) -> Result<SocketAddr, UrlError> {
        resolve(&self.authority, self.default_port())
    }

    /// Returns the port of a URL that does not state one.
    pub fn default_port(&self) -> u16 {
        match self.secure {
            true => 443,
            false => 80,
        }
    }
}

/// Resolves `host[:port]` to its first address; `default_port` is used if `authority` has no port.
pub fn resolve(authority: &str, default_port: u16) -> Result<SocketAddr, UrlError> {
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    // The address itself contains colons if it is an IPv6 address in brackets.
    let has_port = has_port && !authority.ends_with(']');
    let named = match has_port {
        true => authority.to_owned(),
        false => format!("{authority}:{default_port}"),
    };
    named
        .to_socket_addrs()
        .map_err(|error| UrlError::LookUp {
            host: authority.to_owned(),
            error,
        })?
        .next()
        .ok_or_else(|| UrlError::NoAddress(authority.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let url = Url::parse("http://127.0.0.1:8080/a/b?c#d").unwrap();
        assert_eq!(
            (url.authority.as_str(), url.target.as_str()),
            ("127.0.0.1:8080", "/a/b?c")
        );
        assert_eq!(url.resolve().unwrap().port(), 8080);
        let bare = Url::parse("http://[::1]").unwrap();
        assert_eq!(
            (bare.target.as_str(), bare.resolve().unwrap().port()),
            ("/", 80)
        );
        assert_eq!(Url::parse("http://h?q=1").unwrap().target, "/?q=1");
        let secure = Url::parse("https://127.0.0.1/x").unwrap();
        assert!(secure.secure && !url.secure);
        assert_eq!(secure.resolve().unwrap().port(), 443);
        for bad in ["ftp://x/", "x", "http:///y", "http://u@h/", "http://h/a b"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
