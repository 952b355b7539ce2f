//! Certificates: an authority that issues certificates on the fly, and certificates that users provide.
//!
//! An [`Authority`] signs with a new key that is never written to a file. To trust the authority, other programs import
//! its certificate ([`pem`](Authority::pem); `curl --cacert`, a browser's store). Other servers can use the chain and
//! the key of an [`Identity`]. The default key is ECDSA on P-256, as in most of today's servers. `ring` does not
//! generate RSA keys; an identity with an RSA key is read from PEM ([`Identity::from_pem`]).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Bytes;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};

use crate::settings_error::SettingsError;

/// The object identifier (in a private arc) of an extension that has no meaning and only adds size.
const PADDING: [u64; 9] = [1, 3, 6, 1, 4, 1, 61_157, 1, 1];

/// The validity of a certificate, as times since the Unix epoch, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// The start of validity.
    pub not_before: Duration,
    /// The end of validity.
    pub not_after: Duration,
}

impl Lifetime {
    /// Creates a lifetime from `margin` before `time` to `margin` after `time`. The margin is needed because clocks
    /// differ.
    pub fn around(time: Duration, margin: Duration) -> Lifetime {
        Lifetime {
            not_before: time.saturating_sub(margin),
            not_after: time + margin,
        }
    }

    fn apply(self, params: &mut CertificateParams) {
        let seconds = |time: Duration| Duration::from_secs(time.as_secs());
        params.not_before = date_time_ymd(1970, 1, 1) + seconds(self.not_before);
        params.not_after = date_time_ymd(1970, 1, 1) + seconds(self.not_after);
    }
}

/// The certificate authority of a laboratory.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    lifetime: Lifetime,
}

impl Authority {
    /// Creates an authority with a new key. Its certificates have the authority's lifetime, unless [`Issue::lifetime`]
    /// is set.
    ///
    /// # Errors
    ///
    /// If the system's random number generator fails.
    pub fn new(lifetime: Lifetime) -> Result<Authority, SettingsError> {
        let (params, key) = authority_params("Fathometer laboratory root", lifetime)?;
        let certificate = params.self_signed(&key).map_err(making)?;
        Ok(Authority {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            lifetime,
        })
    }

    /// The authority's certificate in PEM, which other programs import to trust the authority.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns roots that contain only this authority.
    pub fn roots(&self) -> Roots {
        let mut store = RootCertStore::empty();
        store
            .add(self.certificate.clone())
            .expect("a certificate made here is well-formed");
        Roots(Arc::new(store))
    }

    /// Issues a certificate.
    ///
    /// # Errors
    ///
    /// If a name is neither a host name nor an address, or the padding is larger than 48 KiB.
    pub fn issue(&self, request: &Issue) -> Result<Identity, SettingsError> {
        let lifetime = request.lifetime.unwrap_or(self.lifetime);
        // In order from the root to the leaf: each certificate is signed with the key of the previous one.
        let mut intermediates: Vec<(Issuer<'static, KeyPair>, CertificateDer<'static>)> =
            Vec::new();
        for place in 1..=request.intermediates {
            let name = format!("Fathometer laboratory intermediate {place}");
            let (params, key) = authority_params(&name, self.lifetime)?;
            let issuer = intermediates.last().map_or(&self.issuer, |(last, _)| last);
            let certificate = params.signed_by(&key, issuer).map_err(making)?;
            let certificate = certificate.der().clone();
            intermediates.push((Issuer::new(params, key), certificate));
        }
        let key = KeyPair::generate_for(request.key.algorithm()).map_err(making)?;
        let params = leaf_params(request, lifetime)?;
        let issuer = intermediates.last().map_or(&self.issuer, |(last, _)| last);
        let leaf = params.signed_by(&key, issuer).map_err(making)?;
        let mut chain = vec![leaf.der().clone()];
        chain.extend(intermediates.into_iter().rev().map(|(_, der)| der));
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Identity { chain, key })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// The properties of a certificate to issue.
#[derive(Debug, Clone)]
pub struct Issue {
    /// The host names and IP addresses for which the certificate is valid.
    pub names: Vec<String>,
    /// The kind of the certificate's key.
    pub key: KeyKind,
    /// The number of intermediate certificates between the root and the certificate. They are sent together with the
    /// certificate.
    pub intermediates: usize,
    /// The size in bytes of a meaningless extension that enlarges the certificate.
    pub padding: usize,
    /// The certificate's lifetime; `None`: the authority's lifetime.
    pub lifetime: Option<Lifetime>,
}

impl Issue {
    /// Describes a certificate for these names: a P-256 key, signed by the root.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Issue {
        Issue {
            names: names.into_iter().map(Into::into).collect(),
            key: KeyKind::P256,
            intermediates: 0,
            padding: 0,
            lifetime: None,
        }
    }
}

/// A kind of key that can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519. Browsers do not accept this kind.
    Ed25519,
}

impl KeyKind {
    fn algorithm(self) -> &'static rcgen::SignatureAlgorithm {
        match self {
            KeyKind::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            KeyKind::P384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            KeyKind::Ed25519 => &rcgen::PKCS_ED25519,
        }
    }
}

/// A certificate chain, which starts with the owner's certificate, and the owner's key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads a chain and a key in PEM. `chain_file` and `key_file` are file names for error messages.
    ///
    /// # Errors
    ///
    /// If a file contains no certificate or key, or an unusable certificate or key. Whether the key matches the
    /// certificate is checked when settings are created.
    pub fn from_pem(
        chain: &[u8],
        chain_file: &str,
        key: &[u8],
        key_file: &str,
    ) -> Result<Identity, SettingsError> {
        let chain = certificates(chain, chain_file)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            let encrypted = contains(key, b"ENCRYPTED");
            file_error(
                key_file,
                match error {
                    _ if encrypted => "the key is encrypted: decrypt it first".to_owned(),
                    pem::Error::NoItemsFound => "contains no private key".to_owned(),
                    error => error.to_string(),
                },
            )
        })?;
        rustls::crypto::ring::sign::any_supported_type(&key)
            .map_err(|error| file_error(key_file, format!("the key cannot be used: {error}")))?;
        Ok(Identity { chain, key })
    }

    /// The size of all certificates as they are sent.
    pub fn chain_size(&self) -> Bytes {
        self.chain.iter().map(|der| Bytes(der.len() as u64)).sum()
    }

    /// The certificates in PEM. The owner's certificate is first.
    pub fn chain_pem(&self) -> String {
        self.chain
            .iter()
            .map(|der| armour("CERTIFICATE", der))
            .collect()
    }

    /// The private key in PEM. Anyone with this key can impersonate its owner.
    pub fn key_pem(&self) -> String {
        let label = match &self.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        armour(label, self.key.secret_der())
    }

    pub(crate) fn into_parts(self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (self.chain, self.key)
    }
}

impl Clone for Identity {
    fn clone(&self) -> Identity {
        Identity {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificates", &self.chain.len())
            .field("chain_size", &self.chain_size())
            .finish_non_exhaustive()
    }
}

/// The trusted authorities.
#[derive(Debug, Clone)]
pub struct Roots(Arc<RootCertStore>);

impl Roots {
    /// Reads certificates of authorities in PEM, such as the system's certificate store. `file` is the file name for
    /// error messages.
    ///
    /// # Errors
    ///
    /// If the file contains no usable certificate, or is not valid PEM.
    pub fn from_pem(pem: &[u8], file: &str) -> Result<Roots, SettingsError> {
        let mut store = RootCertStore::empty();
        let (good, bad) = store.add_parsable_certificates(certificates(pem, file)?);
        // A certificate store may contain some unusable certificates. It is an error only if all are unusable.
        if good == 0 {
            return Err(file_error(
                file,
                format!("none of the {bad} certificates is usable"),
            ));
        }
        Ok(Roots(Arc::new(store)))
    }

    pub(crate) fn store(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.0)
    }
}

/// Parses a server's host name or IP address.
pub(crate) fn server_name(name: &str) -> Option<ServerName<'static>> {
    let address = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match address.unwrap_or(name).parse::<IpAddr>() {
        Ok(address) => Some(ServerName::IpAddress(address.into())),
        Err(_) => ServerName::try_from(name.to_owned()).ok(),
    }
}

fn authority_params(
    name: &str,
    lifetime: Lifetime,
) -> Result<(CertificateParams, KeyPair), SettingsError> {
    let mut params = CertificateParams::default();
    let key = KeyPair::generate().map_err(making)?;
    // Each root needs a unique name. Otherwise, a client that trusts a different root with the same name would verify
    // certificates with the wrong key.
    let identifier: String = params.key_identifier(&key)[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = format!("{name} {identifier}");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    lifetime.apply(&mut params);
    Ok((params, key))
}

fn leaf_params(request: &Issue, lifetime: Lifetime) -> Result<CertificateParams, SettingsError> {
    let mut params = CertificateParams::new(request.names.clone()).map_err(making)?;
    let name = request.names.first().map_or("", String::as_str);
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    if request.padding > LARGEST_PADDING {
        return Err(SettingsError::Making(format!(
            "padding of {} bytes is too large: use at most {LARGEST_PADDING} bytes",
            request.padding
        )));
    }
    if request.padding > 0 {
        let padding = octet_string(request.padding);
        params
            .custom_extensions
            .push(CustomExtension::from_oid_content(&PADDING, padding));
    }
    lifetime.apply(&mut params);
    Ok(params)
}

/// The maximum padding in bytes. Peers refuse handshake messages of 64 KiB or more.
const LARGEST_PADDING: usize = 48 * 1024;

/// Returns a DER OCTET STRING of `length` zero bytes.
fn octet_string(length: usize) -> Vec<u8> {
    let digits = length.to_be_bytes();
    let significant = &digits[(length.leading_zeros() / 8) as usize..];
    let mut der = vec![4];
    if length >= 0x80 {
        der.push(0x80 | significant.len() as u8);
    }
    der.extend_from_slice(significant);
    der.resize(der.len() + length, 0);
    der
}

fn certificates(pem: &[u8], file: &str) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| file_error(file, error.to_string()))?;
    if chain.is_empty() {
        return Err(file_error(file, "contains no certificate".to_owned()));
    }
    Ok(chain)
}

/// Encodes bytes as PEM: base 64 between two label lines (RFC 7468).
fn armour(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes become a line of 64 characters.
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let mut bytes = [0; 3];
            bytes[..group.len()].copy_from_slice(group);
            let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
            for place in 0..4 {
                let letter = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
                text.push(if place <= group.len() {
                    char::from(letter)
                } else {
                    '='
                });
            }
        }
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn file_error(file: &str, problem: String) -> SettingsError {
    SettingsError::File {
        file: file.to_owned(),
        problem,
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "map_err passes the error by value"
)]
fn making(error: rcgen::Error) -> SettingsError {
    SettingsError::Making(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: Duration = Duration::from_secs(1_790_000_000);

    fn authority() -> Authority {
        Authority::new(Lifetime::around(TODAY, Duration::from_secs(86_400))).unwrap()
    }

    #[test]
    fn what_is_written_as_pem_is_read_back() {
        let authority = authority();
        for (key, intermediates) in [
            (KeyKind::P256, 0),
            (KeyKind::P384, 2),
            (KeyKind::Ed25519, 1),
        ] {
            let request = Issue {
                key,
                intermediates,
                ..Issue::new(["origin.test", "127.0.0.1", "::1"])
            };
            let identity = authority.issue(&request).unwrap();
            assert_eq!(identity.chain.len(), 1 + intermediates);
            let (chain, key) = (identity.chain_pem(), identity.key_pem());
            let read = Identity::from_pem(chain.as_bytes(), "c", key.as_bytes(), "k").unwrap();
            assert_eq!(read.chain, identity.chain);
            assert_eq!(read.key, identity.key);
        }
        let roots = Roots::from_pem(authority.pem().as_bytes(), "root.pem").unwrap();
        assert_eq!(roots.0.roots, authority.roots().0.roots);
    }

    #[test]
    fn padding_makes_a_chain_as_large_as_wanted() {
        let authority = authority();
        let plain = authority
            .issue(&Issue::new(["a.test"]))
            .unwrap()
            .chain_size();
        for padding in [1, 100, 200, 10_000, LARGEST_PADDING] {
            let request = Issue {
                padding,
                ..Issue::new(["a.test"])
            };
            let padded = authority.issue(&request).unwrap().chain_size();
            // The padding also adds the DER header of the extension; the lengths of the two signatures may differ.
            let added = (padded.0 - plain.0) as usize - padding;
            assert!((14..50).contains(&added), "{padding}: {added}");
        }
        let request = Issue {
            padding: LARGEST_PADDING + 1,
            ..Issue::new(["a.test"])
        };
        assert!(authority.issue(&request).is_err());
    }

    #[test]
    fn errors_name_the_file_and_the_problem() {
        let identity = authority().issue(&Issue::new(["a.test"])).unwrap();
        let (chain, key) = (identity.chain_pem(), identity.key_pem());
        let read = |chain: &str, key: &str| {
            Identity::from_pem(chain.as_bytes(), "c.pem", key.as_bytes(), "k.pem")
                .unwrap_err()
                .to_string()
        };
        assert_eq!(read("", &key), "c.pem: contains no certificate");
        assert_eq!(read(&chain, &chain), "k.pem: contains no private key");
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        assert_eq!(
            read(&chain, &encrypted),
            "k.pem: the key is encrypted: decrypt it first"
        );
        let cut = &chain[..chain.len() / 2];
        assert!(read(cut, &key).starts_with("c.pem: "));
        let broken = key.replacen("M", "!", 1);
        assert!(read(&chain, &broken).starts_with("k.pem: "), "{broken}");
        assert!(Issue::new(["not a name"]).names.len() == 1);
        assert!(authority().issue(&Issue::new(["nöt äscii"])).is_err());
    }

    #[test]
    fn names_and_addresses_are_distinguished() {
        for (text, address) in [
            ("origin.test", false),
            ("localhost", false),
            ("127.0.0.1", true),
            ("::1", true),
            ("[::1]", true),
        ] {
            let name = server_name(text).unwrap();
            assert_eq!(matches!(name, ServerName::IpAddress(_)), address, "{text}");
        }
        for text in ["", "a b", "[origin.test]"] {
            assert_eq!(server_name(text), None, "{text}");
        }
    }
}
