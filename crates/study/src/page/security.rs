//! TLS in a laboratory: the server's certificate and the client's settings.

use std::path::Path;
use std::sync::Arc;

use fathometer_files::key_log::KeyLogFile;
use fathometer_lab::server::{Access, Credentials};
use fathometer_model::Instant;
use fathometer_sys::Clock;
use fathometer_tls::{ClientOptions, ClientSettings, Verification};

use super::levels::Levels;
use crate::experiment::ReplicateError;
use crate::run_folder::WriteError;

/// The maximum number of sessions that a client stores for resumption. One session per host of a page is enough.
const SESSIONS: usize = 64;

/// Returns the server's certificate and key, if the policy uses TLS. The certificate covers the study's host and the
/// host names over which a policy distributes its files.
pub(super) fn credentials(
    levels: &Levels<'_>,
    clock: Clock,
) -> Result<Option<Credentials>, ReplicateError> {
    if !levels.policy.tls {
        return Ok(None);
    }
    let names = levels.options.host_names(&levels.policy);
    let wall_clock = clock.realtime_of(Instant::ZERO);
    let credentials = Credentials::make(&names, wall_clock)?;
    Ok(Some(match levels.tls.early_data {
        true => credentials.with_early_data(),
        false => credentials,
    }))
}

/// Returns the client's TLS settings. The client trusts only the certificate authority of this server.
pub(super) fn client_tls(
    levels: &Levels<'_>,
    access: Access<'_>,
    folder: &Path,
    clock: Clock,
) -> Result<Option<Arc<ClientSettings>>, ReplicateError> {
    let Some(credentials) = access.credentials() else {
        return Ok(None);
    };
    // The secrets are written to the capture's folder, so that Wireshark can decrypt the capture.
    let path = folder.join("keys.log");
    let key_log = KeyLogFile::open(&path).map_err(|error| WriteError { path, error })?;
    let trusted = Verification::Roots(credentials.roots());
    let mut options = ClientOptions::new(trusted, clock.realtime_of(Instant::ZERO));
    options.versions = vec![levels.tls.version];
    options.alpn = vec![levels.policy.first_protocol().alpn().as_bytes().to_vec()];
    options.resumption = levels.tls.resumes.then_some(SESSIONS);
    options.early_data = levels.tls.early_data;
    options.key_log = Some(key_log);
    Ok(Some(ClientSettings::new(options)?))
}
