//! Purity: which parts of the system a crate may use.
//!
//! Machines take time, randomness and bytes as arguments. The analysis and the packet accounting read files and
//! nothing else. Only `fathometer-sys` contains `unsafe` and reads clocks.

use super::{Finding, Source, rust};

/// A path that files may not name.
struct Ban {
    /// Folders of crates, below `crates/`.
    crates: &'static [&'static str],
    /// A path as code names it; everything below it is banned too.
    path: &'static str,
    /// Whether the ban includes tests. Tests may read the files of the tree.
    in_tests: bool,
    why: &'static str,
    remedy: &'static str,
}

const PURE: &[&str] = &[
    "model", "http", "path", "quic", "tls", "workload", "columnar",
];
const PURE_AND_READERS: &[&str] = &[
    "model", "http", "path", "quic", "tls", "workload", "columnar", "analysis", "packets",
];
const ALL_BUT_SYS: &[&str] = &[
    "model",
    "http",
    "path",
    "quic",
    "tls",
    "workload",
    "columnar",
    "analysis",
    "packets",
    "fathometer",
];

/// Files that may name a path banned in their crate, each with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    // The transport machine uses this type, whose values only come from the clock. One reading serves as our
    // origin and every other value is an offset from it, so the reading itself has no meaning.
    ("crates/quic/src/timeline.rs", "std::time::Instant"),
    // The type of the machine's token time stamps. It is computed from our instants.
    ("crates/quic/src/timeline.rs", "std::time::SystemTime"),
    // Two parts of a plan are computed side by side. Neither waits for anything, and the plan is the same whichever
    // ends first.
    ("crates/workload/src/surge/mod.rs", "std::thread::scope"),
];

const NO_CLOCK: &str = "there is one clock, so that every time in a run has one origin";
const TAKE_TIME: &str = "take a `fathometer_model::Instant`, or read `fathometer_sys`'s clock";
const SANS_IO: &str =
    "machines and analysis run alike on kernels, in virtual time and under fuzzers";
const TO_BINARY: &str = "move it to `fathometer-sys` or the binary and pass in what it gives";

const BANS: &[Ban] = &[
    Ban {
        crates: ALL_BUT_SYS,
        path: "std::time::Instant",
        in_tests: true,
        why: NO_CLOCK,
        remedy: TAKE_TIME,
    },
    // In other crates it is also the type of a file's modification time.
    Ban {
        crates: PURE_AND_READERS,
        path: "std::time::SystemTime",
        in_tests: true,
        why: NO_CLOCK,
        remedy: TAKE_TIME,
    },
    Ban {
        crates: ALL_BUT_SYS,
        path: "SystemTime::now",
        in_tests: true,
        why: NO_CLOCK,
        remedy: TAKE_TIME,
    },
    Ban {
        crates: ALL_BUT_SYS,
        path: "std::time::SystemTime::now",
        in_tests: true,
        why: NO_CLOCK,
        remedy: TAKE_TIME,
    },
    Ban {
        crates: PURE_AND_READERS,
        path: "std::net",
        in_tests: true,
        why: SANS_IO,
        remedy: TO_BINARY,
    },
    Ban {
        crates: PURE_AND_READERS,
        path: "std::thread",
        in_tests: true,
        why: SANS_IO,
        remedy: TO_BINARY,
    },
    Ban {
        crates: PURE_AND_READERS,
        path: "std::process",
        in_tests: true,
        why: SANS_IO,
        remedy: TO_BINARY,
    },
    Ban {
        crates: PURE,
        path: "std::fs",
        in_tests: false,
        why: SANS_IO,
        remedy: TO_BINARY,
    },
    Ban {
        crates: PURE,
        path: "std::env",
        in_tests: false,
        why: SANS_IO,
        remedy: TO_BINARY,
    },
];

/// Values of `std::net` that are numbers, not sockets.
const ADDRESSES: &[&str] = &[
    "IpAddr",
    "Ipv4Addr",
    "Ipv6Addr",
    "SocketAddr",
    "SocketAddrV4",
    "SocketAddrV6",
    "AddrParseError",
];

/// Checks all Rust files below `crates/`.
pub(super) fn check(tree: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree.iter().filter(|source| source.is("rs")) {
        let code = rust::code_only(&source.text);
        let folder = source
            .path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split_once("/src/"))
            .map(|(folder, _)| folder);
        if let Some(folder) = folder {
            findings.extend(bans(source, &code, folder));
        }
        // Tests may contain `unsafe`: a counting allocator needs it by its trait, and is part of no shipped
        // program.
        let is_test = source.path.starts_with("crates/") && source.path.contains("/tests/");
        if folder != Some("sys") && !is_test {
            findings.extend(
                rust::words(&code)
                    .filter(|&(_, word)| word == "unsafe")
                    .map(|(line, _)| Finding {
                        path: source.path.clone(),
                        line,
                        what: "contains `unsafe`".to_owned(),
                        why: "what can break memory safety is in one crate, where it is reviewed",
                        remedy: "use or write a safe wrapper in `fathometer-sys`",
                    }),
            );
        }
    }
    findings
}

fn bans(source: &Source, code: &str, folder: &str) -> Vec<Finding> {
    let named = rust::paths(code);
    let tests_from = first_line_of_tests(source, code);
    BANS.iter()
        .filter(|ban| ban.crates.contains(&folder))
        .flat_map(|ban| {
            named
                .iter()
                .filter(move |(line, path)| {
                    is_below(path, ban.path)
                        && !is_address(path)
                        && !is_excepted(&source.path, path)
                        && (ban.in_tests || *line < tests_from)
                })
                .map(|(line, path)| Finding {
                    path: source.path.clone(),
                    line: *line,
                    what: format!("names `{path}`"),
                    why: ban.why,
                    remedy: ban.remedy,
                })
        })
        .collect()
}

/// The first line of a file's tests: by convention they come last.
fn first_line_of_tests(source: &Source, code: &str) -> usize {
    if source.path.ends_with("/tests.rs") || source.path.contains("/tests/") {
        return 0;
    }
    let mut lines = code.lines().zip(code.lines().skip(1));
    lines
        .position(|(line, next)| line == "#[cfg(test)]" && next.starts_with("mod "))
        .map_or(usize::MAX, |n| n + 1)
}

/// Whether `path` is `banned` or an item in it. A module's `self` and `*` count as the module.
fn is_below(path: &str, banned: &str) -> bool {
    path.strip_prefix(banned)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_excepted(file: &str, path: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|&(excepted, allowed)| excepted == file && is_below(path, allowed))
}

fn is_address(path: &str) -> bool {
    path.strip_prefix("std::net::")
        .and_then(|rest| rest.split("::").next())
        .is_some_and(|item| ADDRESSES.contains(&item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let mut findings = check(&[Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }]);
        findings.sort();
        findings
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect()
    }

    #[test]
    fn a_pure_crate_may_not_reach_the_system() {
        for (text, name) in [
            ("use std::fs;", "std::fs"),
            ("use std::{io::Read, fs::File};", "std::fs::File"),
            ("use std::net::*;", "std::net::"),
            (
                "use std::net::{SocketAddr, TcpStream};",
                "std::net::TcpStream",
            ),
            (
                "fn f() { std::thread::yield_now(); }",
                "std::thread::yield_now",
            ),
            (
                "fn f() { std::time::Instant::now(); }",
                "std::time::Instant::now",
            ),
            (
                "use std::time::{Duration, SystemTime};",
                "std::time::SystemTime",
            ),
        ] {
            for folder in PURE {
                let found = found(&format!("crates/{folder}/src/a.rs"), text);
                assert_eq!(found.len(), 1, "{folder}: {text}: {found:?}");
                assert!(found[0].1.contains(name), "{folder}: {text}: {found:?}");
            }
        }
    }

    #[test]
    fn what_is_allowed_is_not_found() {
        for (path, text) in [
            ("crates/analysis/src/run.rs", "use std::fs;"),
            (
                "crates/http/src/a.rs",
                "use std::time::Duration; use std::net::IpAddr;",
            ),
            (
                "crates/http/src/a.rs",
                "// std::fs and unsafe\nlet s = \"std::net::TcpStream\";",
            ),
            (
                "crates/sys/src/clock.rs",
                "use std::time::Instant; unsafe fn f() {}",
            ),
            (
                "crates/fathometer/src/a.rs",
                "use std::thread; use std::fs;",
            ),
        ] {
            assert_eq!(found(path, text), [], "{path}: {text}");
        }
    }

    #[test]
    fn an_exception_is_for_one_file_and_one_name() {
        let text = "use std::time::Instant;\nuse std::thread;\n";
        let thread = || (2, "names `std::thread`".to_owned());
        let clock = (1, "names `std::time::Instant`".to_owned());
        assert_eq!(found("crates/quic/src/timeline.rs", text), [thread()]);
        assert_eq!(found("crates/quic/src/a.rs", text), [clock, thread()]);
    }

    #[test]
    fn tests_may_read_files_and_nothing_else() {
        let text =
            "use std::fs;\n#[cfg(test)]\nmod tests {\n    use std::fs;\n    use std::thread;\n}\n";
        assert_eq!(
            found("crates/path/src/profile.rs", text),
            [
                (1, "names `std::fs`".to_owned()),
                (5, "names `std::thread`".to_owned())
            ]
        );
        assert_eq!(found("crates/path/src/tests.rs", "use std::fs;"), []);
    }

    #[test]
    fn clocks_and_unsafe_are_of_sys_alone() {
        assert_eq!(
            found(
                "crates/fathometer/src/a.rs",
                "fn f() {}\nuse std::time::Instant;\nunsafe fn g() {}\n"
            ),
            [
                (2, "names `std::time::Instant`".to_owned()),
                (3, "contains `unsafe`".to_owned())
            ]
        );
        assert_eq!(found("xtask/src/a.rs", "unsafe fn g() {}").len(), 1);
        let wall = "use std::time::SystemTime;\nfn f() { SystemTime::now(); }\n";
        assert_eq!(
            found("crates/fathometer/src/a.rs", wall),
            [(2, "names `SystemTime::now`".to_owned())]
        );
    }
}
