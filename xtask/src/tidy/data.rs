//! Data and root files: every path profile, era and server states the source of its figures, and the files that users
//! expect exist at the root.

use super::{Finding, Source};

/// Files at the root, each with a text that it must contain.
const ROOT_FILES: &[(&str, &str)] = &[
    ("README.md", "# "),
    ("ARCHITECTURE.md", "# "),
    ("CONTRIBUTING.md", "# "),
    ("CHANGELOG.md", "## [Unreleased]"),
    ("LICENSE-MIT", "MIT"),
    ("LICENSE-APACHE", "Apache License"),
];

/// Checks the data folders and the root.
pub(super) fn check(tree: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for &(path, needed) in ROOT_FILES {
        let present = tree
            .iter()
            .any(|source| source.path == path && source.text.contains(needed));
        if !present {
            findings.push(Finding {
                path: path.to_owned(),
                line: 1,
                what: format!("is missing, or has no `{}`", needed.trim()),
                why: "readers look for it at the root",
                remedy: "write it",
            });
        }
    }
    for source in tree {
        let has_figures = ["paths/", "eras/", "servers/"]
            .iter()
            .any(|folder| source.path.starts_with(folder));
        if has_figures
            && source.is("toml")
            && let Some(what) = source_fault(&source.text)
        {
            findings.push(Finding {
                path: source.path.clone(),
                line: 1,
                what,
                why: "a figure without a source cannot be verified",
                remedy: "add `source = \"...\"`: the document, measurement or reasoning",
            });
        }
    }
    findings
}

fn source_fault(text: &str) -> Option<String> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return Some(format!("is not TOML: {}", error.message())),
    };
    match table.get("source").and_then(toml::Value::as_str) {
        Some(source) if !source.trim().is_empty() => None,
        _ => Some("states no source".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(profile: &str) -> Vec<Source> {
        ROOT_FILES
            .iter()
            .map(|&(path, needed)| (path, needed.to_owned()))
            .chain([("paths/a.toml", profile.to_owned())])
            .map(|(path, text)| Source {
                path: path.to_owned(),
                text,
            })
            .collect()
    }

    #[test]
    fn a_profile_states_its_source() {
        assert_eq!(check(&tree("source = \"RFC 1\"\n")), []);
        for profile in [
            "",
            "source = \"\"\n",
            "[link]\nsource = \"RFC 1\"\n",
            "source =",
        ] {
            let findings = check(&tree(profile));
            assert_eq!(findings.len(), 1, "{profile}");
            assert_eq!(findings[0].path, "paths/a.toml");
        }
    }

    #[test]
    fn missing_root_files_are_found() {
        for &(path, _) in ROOT_FILES {
            let mut tree = tree("source = \"RFC 1\"\n");
            tree.retain(|source| source.path != path);
            let findings = check(&tree);
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].path, path);
        }
    }
}
