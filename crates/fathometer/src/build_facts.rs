//! The build of the program: its version, and the commit that it was built from.
//!
//! `build.rs` gets the commit from `git`. A program built without git, or from a source archive, has no commit. The
//! hash of the program's file always identifies a build.

use std::sync::OnceLock;

use fathometer_analysis::run::Build;

use fathometer_files::sha256;

/// The version, and the commit if known: `0.1.0 (0123456789ab, modified)`.
pub const VERSION: &str = env!("FATHOMETER_VERSION");

/// Returns the build facts that a run records.
pub fn facts() -> Build {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: filled(env!("FATHOMETER_COMMIT")),
        modified: match env!("FATHOMETER_MODIFIED") {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        },
        sha256: program_hash().to_owned(),
    }
}

/// Returns the SHA-256 of the program's file; empty if the file cannot be read.
fn program_hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    // This link leads to the running program, even if the program's path now leads to another file.
    HASH.get_or_init(|| sha256::of_file("/proc/self/exe".as_ref()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_commit_where_there_is_one() {
        let build = facts();
        assert_eq!(build.sha256.len(), 64);
        assert!(VERSION.starts_with(&build.version));
        match &build.commit {
            Some(commit) => {
                assert!(commit.len() >= 12 && commit.chars().all(|c| c.is_ascii_hexdigit()));
                assert!(VERSION.contains(commit), "{VERSION}");
                assert_eq!(VERSION.contains("modified"), build.modified == Some(true));
            }
            None => assert_eq!(VERSION, build.version),
        }
        assert_eq!(build.to_string(), {
            let rest = &build.sha256[..12];
            format!("{VERSION}, program {rest}")
        });
    }
}
