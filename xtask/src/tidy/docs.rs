//! Documents: every relative link leads to a file of the tree, and to an existing heading if the link names a
//! heading.

use std::collections::BTreeSet;

use super::{Finding, Source};

/// A link in a document.
#[derive(Debug, PartialEq, Eq)]
struct Link<'a> {
    line: usize,
    target: &'a str,
}

/// Checks all Markdown files.
pub(super) fn check(tree: &[Source]) -> Vec<Finding> {
    let places = places(tree);
    let mut findings = Vec::new();
    for source in tree.iter().filter(|source| source.is("md")) {
        for link in links(&source.text) {
            if let Some(what) = fault(tree, &places, &source.path, link.target) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: link.line,
                    what,
                    why: "the target of a link must exist",
                    remedy: "correct the link or delete it",
                });
            }
        }
    }
    findings
}

/// Returns all files and folders.
fn places(tree: &[Source]) -> BTreeSet<&str> {
    tree.iter()
        .flat_map(|source| {
            let path = source.path.as_str();
            path.match_indices('/')
                .map(|(at, _)| &path[..at])
                .chain([path, ""])
        })
        .collect()
}

/// Returns the error in a link, if any.
fn fault(tree: &[Source], places: &BTreeSet<&str>, from: &str, target: &str) -> Option<String> {
    let outside = target.contains("://") || target.starts_with("mailto:");
    if outside || target.is_empty() {
        return None;
    }
    let (path, heading) = match target.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (target, None),
    };
    let path = if path.is_empty() {
        Some(from.to_owned())
    } else {
        resolve(from, path)
    };
    let Some(path) = path.filter(|path| places.contains(path.as_str())) else {
        return Some(format!("links to {target}, which does not exist"));
    };
    let heading = heading?;
    let document = tree.iter().find(|s| s.path == path && s.is("md"))?;
    (!anchors(&document.text).contains(heading))
        .then(|| format!("links to {target}, but {path} has no such heading"))
}

/// `target` resolved from the document `from`; `None` when it leaves the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns inline links and link definitions outside code.
fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (line, content) in prose_lines(text) {
        let is_code = |at: usize| content[..at].matches('`').count() % 2 == 1;
        for (at, _) in content.match_indices("](") {
            if let Some((target, _)) = content[at + 2..].split_once(')')
                && !is_code(at)
            {
                // A title may follow the target.
                let target = target.split_whitespace().next().unwrap_or_default();
                found.push(Link { line, target });
            }
        }
        if content.starts_with('[')
            && let Some((_, target)) = content.split_once("]: ")
        {
            let target = target.split_whitespace().next().unwrap_or_default();
            found.push(Link { line, target });
        }
    }
    found
}

/// Returns the lines outside fenced code, numbered from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(n, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((n + 1, line))
    })
}

/// Returns anchors of headings, as links name them: lower case, spaces as hyphens, punctuation dropped.
fn anchors(text: &str) -> BTreeSet<String> {
    prose_lines(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter_map(|letter| match letter {
                    ' ' => Some('-'),
                    '-' | '_' => Some(letter),
                    letter if letter.is_alphanumeric() => Some(letter),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let file = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check(&[
            file("docs/a.md", text),
            file("docs/b.md", "# A heading, with marks\n"),
            file("crates/model/src/lib.rs", ""),
        ])
        .into_iter()
        .map(|finding| (finding.line, finding.what))
        .collect()
    }

    #[test]
    fn valid_links_are_accepted() {
        for text in [
            "[b](b.md), [b](./b.md \"title\") and [model](../crates/model)",
            "[b](b.md#a-heading-with-marks)",
            "# Here\n[up](#here)",
            "[web](https://example.org/none.md) [mail](mailto:a@example.org)",
            "`[code](none.md)`\n```\n[code](none.md)\n```\n",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn broken_links_are_found() {
        for target in ["none.md", "../../b.md", "/docs/b.md", "b.md#none", "#none"] {
            let found = found(&format!("text\n[link]({target})"));
            assert_eq!(found.len(), 1, "{target}");
            assert_eq!(found[0].0, 2);
            assert!(found[0].1.contains(target), "{found:?}");
        }
        assert_eq!(found("[name]: none.md\n").len(), 1);
    }
}
