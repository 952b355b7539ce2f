//! Rules for the text of any file: length, marks of unfinished work, paths that exist on one machine only, and
//! module documentation.

use super::{Finding, Source};

/// A file with more lines must state why it is not split.
const LONGEST: usize = 900;
/// The marker of that statement; the reason follows it.
const LONG_FILE: &str = "tidy: long-file:";

/// Words that mark unfinished work. Concatenated, so that this file does not contain them.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];
/// Macros that mark unfinished code, with their brackets. Clippy finds them in the workspace, but the fuzz targets
/// are not part of the workspace.
const LEFT_OVER: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
];

/// Top-level folders whose contents exist on one machine only.
const PRIVATE_FOLDERS: &[&str] = &["home", "work", "Users", "root"];
/// Lower folders whose contents exist on one machine only.
const BUILD_FOLDERS: &[&str] = &[concat!("/tmp/", "target")];

/// The registry of published crates; any other registry belongs to one site.
const PUBLIC_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every file.
pub(super) fn check(tree: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree {
        if source.is("rs") {
            findings.extend(length(source));
            findings.extend(module_docs(source));
            if source.path.starts_with("fuzz/") {
                findings.extend(left_over(source));
            }
        }
        findings.extend(marks(source));
        findings.extend(private_places(source));
        findings.extend(registries(source));
    }
    findings
}

fn length(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    let explained = source
        .text
        .lines()
        .filter_map(|line| line.split_once(LONG_FILE))
        .any(|(_, reason)| !reason.trim().is_empty());
    (lines > LONGEST && !explained).then(|| Finding {
        path: source.path.clone(),
        line: LONGEST + 1,
        what: format!("is {lines} lines long"),
        why: "a file of more than 900 lines often has more than one purpose",
        remedy: "split it, or write `// tidy: long-file:` and the reason",
    })
}

fn marks(source: &Source) -> Vec<Finding> {
    find(&source.text, |line| {
        MARKS
            .iter()
            .find(|mark| {
                line.split(|letter: char| !letter.is_ascii_alphanumeric())
                    .any(|word| word == **mark)
            })
            .map(|mark| format!("says {mark}"))
    })
    .map(|(line, what)| Finding {
        path: source.path.clone(),
        line,
        what,
        why: "unfinished work is recorded in an issue",
        remedy: "do it, or open an issue and delete the mark",
    })
    .collect()
}

fn left_over(source: &Source) -> Vec<Finding> {
    find(&source.text, |line| {
        LEFT_OVER
            .iter()
            .find(|name| {
                line.match_indices(**name)
                    .any(|(at, _)| !line[..at].ends_with(|c: char| c == '_' || c.is_alphanumeric()))
            })
            .map(|name| format!("calls {}", name.trim_end_matches('(')))
    })
    .map(|(line, what)| Finding {
        path: source.path.clone(),
        line,
        what,
        why: "merged code contains no stubs",
        remedy: "write the code, or return an error that says what is not supported",
    })
    .collect()
}

fn private_places(source: &Source) -> Vec<Finding> {
    find(&source.text, |line| {
        PRIVATE_FOLDERS
            .iter()
            .find_map(|folder| {
                let prefix = format!("/{folder}/");
                line.match_indices(&prefix)
                    .find(|&(at, _)| {
                        starts_path(&line[..at])
                            // A path of one machine has more parts: a user or project, then a file.
                            && line[at + prefix.len()..]
                                .split_once('/')
                                .is_some_and(|(name, _)| is_name(name))
                    })
                    .map(|_| prefix)
            })
            .or_else(|| {
                BUILD_FOLDERS
                    .iter()
                    .find(|folder| line.contains(**folder))
                    .map(|folder| (*folder).to_owned())
            })
            .map(|prefix| format!("contains a path below {prefix}"))
    })
    .map(|(line, what)| Finding {
        path: source.path.clone(),
        line,
        what,
        why: "absolute paths of one machine do not exist on another",
        remedy: "write a path relative to the workspace, or take it as an argument",
    })
    .collect()
}

fn registries(source: &Source) -> Vec<Finding> {
    let is_lock = source.path.ends_with("Cargo.lock");
    let is_config = source.path.ends_with(".cargo/config.toml");
    if !is_lock && !is_config {
        return Vec::new();
    }
    find(&source.text, |line| {
        let foreign = is_lock && line.starts_with("source = ") && !line.contains(PUBLIC_REGISTRY);
        let redirected = is_config
            && ["[source", "[registr", "replace-with", "registry ="]
                .iter()
                .any(|start| line.trim_start().starts_with(start));
        (foreign || redirected).then(|| format!("names a registry: {}", line.trim()))
    })
    .map(|(line, what)| Finding {
        path: source.path.clone(),
        line,
        what,
        why: "the workspace builds wherever the public registry can be reached",
        remedy: "keep a machine's own registry in that machine's cargo home",
    })
    .collect()
}

/// Test files need no module documentation: their parent names them.
fn module_docs(source: &Source) -> Option<Finding> {
    let in_crate = source.path.starts_with("crates/") || source.path.starts_with("xtask/src/");
    let is_test = source.path.ends_with("/tests.rs") || source.path.contains("/tests/");
    let first = source
        .text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    (in_crate && !is_test && !first.starts_with("//!")).then(|| Finding {
        path: source.path.clone(),
        line: 1,
        what: "does not begin with its purpose".to_owned(),
        why: "the first sentence of a file states what it is for",
        remedy: "begin with `//!`: what it is for, what it does not do, its RFC or paper",
    })
}

/// Whether a path may begin after `before`: not inside another path or a URL.
fn starts_path(before: &str) -> bool {
    !before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || "._-/}$".contains(letter))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
}

/// Returns the lines of `text` for which `look` returns a finding.
fn find<'a>(
    text: &'a str,
    look: impl Fn(&str) -> Option<String> + 'a,
) -> impl Iterator<Item = (usize, String)> + 'a {
    text.lines()
        .enumerate()
        .filter_map(move |(n, line)| Some((n + 1, look(line)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&[Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }])
        .into_iter()
        .map(|finding| (finding.line, finding.what))
        .collect()
    }

    #[test]
    fn long_files_need_a_reason() {
        let long = format!("//! Purpose.\n{}", "fn f() {}\n".repeat(900));
        assert_eq!(
            found("crates/a/src/b.rs", &long),
            [(901, "is 901 lines long".to_owned())]
        );
        let explained = format!("//! Purpose.\n// {LONG_FILE} one table\n{long}");
        assert_eq!(found("crates/a/src/b.rs", &explained), []);
        let unexplained = format!("//! Purpose.\n// {LONG_FILE}\n{long}");
        assert_eq!(found("crates/a/src/b.rs", &unexplained).len(), 1);
    }

    #[test]
    fn marks_of_unfinished_work_are_found() {
        for mark in MARKS {
            assert_eq!(
                found("docs/a.md", &format!("text\n{mark}: more")),
                [(2, format!("says {mark}"))]
            );
            assert_eq!(found("docs/a.md", &format!("{mark}S")), []);
        }
        for name in LEFT_OVER {
            let text = format!("//! Purpose.\nfn f() {{ {name}1) }}\n");
            let what = format!("calls {}", name.trim_end_matches('('));
            assert_eq!(found("fuzz/targets/b.rs", &text), [(2, what)]);
            let another = format!("//! Purpose.\nfn f() {{ my_{name}1) }}\n");
            assert_eq!(found("fuzz/targets/b.rs", &another), []);
        }
    }

    #[test]
    fn places_of_one_machine_are_found() {
        for place in [
            concat!("/ho", "me/ann/fathometer/x.rs"),
            concat!("/wo", "rk/main/x.rs"),
            concat!("/tmp/", "target-ann"),
        ] {
            let found = found("docs/a.md", &format!("see\n`{place}`\n"));
            assert_eq!(found.len(), 1, "{place}");
            assert_eq!(found[0].0, 2);
        }
        for fine in [
            "/home/index.html",
            "https://example.org/work/a/b",
            "a/work/b/c",
            "$HOME/work/b/c",
            "/tmp/x",
        ] {
            assert_eq!(found("docs/a.md", fine), [], "{fine}");
        }
    }

    #[test]
    fn other_registries_are_found() {
        let lock = "[[package]]\nname = \"a\"\nsource = \"registry+https://example.org/index\"\n";
        assert_eq!(found("Cargo.lock", lock)[0].0, 3);
        assert_eq!(
            found("Cargo.lock", &format!("source = \"{PUBLIC_REGISTRY}\"\n")),
            []
        );
        let config = "[alias]\n[source.crates-io]\nreplace-with = \"mirror\"\n";
        assert_eq!(found(".cargo/config.toml", config).len(), 2);
    }

    #[test]
    fn a_module_begins_with_its_purpose() {
        assert_eq!(found("crates/a/src/b.rs", "use a;\n").len(), 1);
        assert_eq!(found("crates/a/src/b.rs", "//! Purpose.\n"), []);
        assert_eq!(found("crates/a/src/tests.rs", "use a;\n"), []);
        assert_eq!(found("crates/a/tests/lab/main.rs", "use a;\n"), []);
    }
}
