//! Floors: a crate imports only crates of lower floors.
//!
//! Each manifest states `package.metadata.fathometer.floor`; the graph is cargo's own. Only certain crates may
//! use libraries that give access to the system.

use std::collections::HashMap;

use serde::Deserialize;

use super::{Finding, Source};

const WHY: &str = "a crate imports only crates of lower floors";
const REMEDY: &str = "move what both need to a lower floor, or pass it in from the binary";

/// Libraries that access the system and could therefore bypass the rules of `clippy.toml`.
const SYSTEM_LIBRARIES: &[&str] = &[
    "async-io", "libc", "mio", "nix", "rustix", "socket2", "tokio",
];
/// The crates on floors below [`HOSTS`] that may use these libraries.
const SYSTEM_CRATES: &[&str] = &["fathometer-sys"];
/// From this floor on, crates connect the state machines to the system and may use these libraries. The lowest such
/// crate is `fathometer-quic-sockets`.
const HOSTS: u32 = 3;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
    metadata: Option<PackageMetadata>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// The folder of a dependency in this tree; `None` for other dependencies.
    path: Option<String>,
}

#[derive(Deserialize)]
struct PackageMetadata {
    fathometer: Option<OurMetadata>,
}

#[derive(Deserialize)]
struct OurMetadata {
    floor: u32,
}

impl Package {
    fn floor(&self) -> Option<u32> {
        Some(self.metadata.as_ref()?.fathometer.as_ref()?.floor)
    }
}

/// Checks every dependency inside the workspace; `metadata` is the output of `cargo metadata`.
pub(super) fn check(metadata: &str, tree: &[Source]) -> Result<Vec<Finding>, String> {
    let metadata: Metadata = serde_json::from_str(metadata)
        .map_err(|error| format!("failed to read cargo's metadata: {error}"))?;
    let floors: HashMap<&str, Option<u32>> = metadata
        .packages
        .iter()
        .map(|package| (package.name.as_str(), package.floor()))
        .collect();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let path = package
            .manifest_path
            .strip_prefix(&metadata.workspace_root)
            .unwrap_or(&package.manifest_path)
            .trim_start_matches('/');
        let Some(floor) = package.floor() else {
            findings.push(Finding {
                path: path.to_owned(),
                line: 1,
                what: format!("{} states no floor", package.name),
                why: WHY,
                remedy: "write `floor = N` under [package.metadata.fathometer]",
            });
            continue;
        };
        let system_libraries = package.dependencies.iter().filter(|dependency| {
            let to_system = SYSTEM_LIBRARIES.contains(&dependency.name.as_str());
            to_system && floor < HOSTS && !SYSTEM_CRATES.contains(&package.name.as_str())
        });
        findings.extend(system_libraries.map(|dependency| Finding {
            path: path.to_owned(),
            line: line_naming(tree, path, &dependency.name),
            what: format!("{} depends on {}", package.name, dependency.name),
            why: "state machines and analysis do not use the system, not even through libraries",
            remedy: "move that code to `fathometer-sys` or to a crate of floor 3 or above",
        }));
        for dependency in package.dependencies.iter().filter(|d| d.path.is_some()) {
            let Some(&Some(below)) = floors.get(dependency.name.as_str()) else {
                continue;
            };
            if below >= floor {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: line_naming(tree, path, &dependency.name),
                    what: format!(
                        "{} (floor {floor}) depends on {} (floor {below})",
                        package.name, dependency.name
                    ),
                    why: WHY,
                    remedy: REMEDY,
                });
            }
        }
    }
    Ok(findings)
}

/// Returns the line of the manifest that names a dependency; the first line if no line does.
fn line_naming(tree: &[Source], manifest: &str, dependency: &str) -> usize {
    tree.iter()
        .find(|source| source.path == manifest)
        .and_then(|source| {
            source
                .text
                .lines()
                .position(|line| line.trim_start().starts_with(dependency))
        })
        .map_or(1, |n| n + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, floor: Option<u32>, dependencies: &[&str]) -> serde_json::Value {
        serde_json::json!({
            "name": name,
            "manifest_path": format!("/tree/crates/{name}/Cargo.toml"),
            "metadata": floor.map(|floor| serde_json::json!({"fathometer": {"floor": floor}})),
            "dependencies": dependencies
                .iter()
                .map(|name| serde_json::json!({"name": name, "path": format!("/tree/{name}")}))
                .collect::<Vec<_>>(),
        })
    }

    fn found(packages: &[serde_json::Value]) -> Vec<String> {
        let metadata =
            serde_json::json!({"packages": packages, "workspace_root": "/tree"}).to_string();
        let tree = [Source {
            path: "crates/http/Cargo.toml".to_owned(),
            text: "[package]\n\n[dependencies]\nmodel.workspace = true\npath.workspace = true\n"
                .to_owned(),
        }];
        check(&metadata, &tree)
            .unwrap()
            .into_iter()
            .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.what))
            .collect()
    }

    #[test]
    fn lower_floors_may_be_imported_and_no_others() {
        let model = || package("model", Some(0), &[]);
        let path = || package("path", Some(1), &["model"]);
        assert!(found(&[model(), path()]).is_empty());
        assert_eq!(
            found(&[
                model(),
                path(),
                package("http", Some(1), &["model", "path"])
            ]),
            ["crates/http/Cargo.toml:5: http (floor 1) depends on path (floor 1)"]
        );
        assert_eq!(
            found(&[package("model", Some(0), &["path"]), path()]),
            ["crates/model/Cargo.toml:1: model (floor 0) depends on path (floor 1)"]
        );
    }

    #[test]
    fn only_certain_crates_use_system_libraries() {
        assert_eq!(
            found(&[package("http", Some(1), &["mio", "memchr"])]),
            ["crates/http/Cargo.toml:1: http depends on mio"]
        );
        assert!(found(&[package("fathometer-sys", Some(1), &["libc", "rustix"])]).is_empty());
        assert!(found(&[package("origin", Some(3), &["mio"])]).is_empty());
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert_eq!(
            found(&[package("http", None, &[])]),
            ["crates/http/Cargo.toml:1: http states no floor"]
        );
    }
}
