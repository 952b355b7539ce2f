//! Tests whether this machine allows laboratories.

use fathometer_sys::{Namespace, Tun};

/// Whether network namespaces and TUN devices are available, tested by creating them. If not, prints to stderr
/// that `test` is skipped, or fails if `FATHOMETER_REQUIRE_LAB` is 1.
pub fn possible(test: &str) -> bool {
    let tried = Namespace::new()
        .and_then(|namespace| namespace.run(|| Tun::create("probe0", 1500, 100).map(drop))?);
    match tried {
        Ok(()) => true,
        Err(error) if std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1") => {
            panic!("{test}: a lab is required, but not available: {error}");
        }
        Err(error) => {
            eprintln!("SKIPPED {test}: a lab is not available: {error}");
            false
        }
    }
}
