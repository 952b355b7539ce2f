//! Import cycles: inside a crate, no module imports a module that imports it, directly or through others.
//!
//! A module and the modules inside it may import each other. Therefore imports are compared between siblings: an import
//! of `a::x` in `b::y` counts as an import of `a` in `b`. A re-exported name counts as an import of the module that
//! defines it.

mod circle;
mod modules;
mod tokens;

use std::collections::HashMap;

use super::{Finding, Source};
use circle::{Import, circles, is_in_cycle};
use modules::{Crate, ModuleId};

const WHY: &str = "a module in a cycle cannot be understood, tested or moved without the others";
const REMEDY: &str =
    "move what both need to a module below them, or pass it in as an argument or a trait";

/// Known imports that close a cycle: module, imported module. The list may only get shorter.
const KNOWN: &[(&str, &str)] = &[];

/// Checks every crate of the tree.
pub(super) fn check(tree: &[Source]) -> Vec<Finding> {
    check_except(tree, KNOWN)
}

fn check_except(tree: &[Source], known: &[(&str, &str)]) -> Vec<Finding> {
    let texts: HashMap<&str, &str> = tree
        .iter()
        .filter(|source| source.is("rs"))
        .map(|source| (source.path.as_str(), source.text.as_str()))
        .collect();
    let text = |path: &str| texts.get(path).copied();
    let mut findings = Vec::new();
    let mut used = vec![false; known.len()];
    for source in tree {
        let Some(name) = crate_name(&source.path) else {
            continue;
        };
        let read = Crate::read(&source.path, &text);
        for (parent, mut imports) in imports(&read) {
            let full = |id: ModuleId| format!("{name}::{}", read.path(id));
            let place = |import: &Import| {
                known
                    .iter()
                    .position(|&(from, to)| from == full(import.from) && to == full(import.to))
            };
            for import in &imports {
                if let Some(n) = place(import).filter(|_| is_in_cycle(&imports, import)) {
                    used[n] = true;
                }
            }
            imports.retain(|import| place(import).is_none());
            findings.extend(
                circles(&imports)
                    .iter()
                    .map(|circle| finding(&read, parent, circle)),
            );
        }
    }
    findings.extend(
        known
            .iter()
            .zip(used)
            .filter(|(_, used)| !used)
            .map(|((from, to), _)| Finding {
                path: "xtask/src/tidy/imports/mod.rs".to_owned(),
                line: 1,
                what: format!("KNOWN lists {from} and {to}, which no longer closes a cycle"),
                why: "the list of known cycles only gets shorter",
                remedy: "delete the entry",
            }),
    );
    findings
}

/// Returns the name of the crate whose root is this file; `None` for other files.
fn crate_name(path: &str) -> Option<String> {
    let folder = path
        .strip_suffix("/src/lib.rs")
        .or_else(|| path.strip_suffix("/src/main.rs"))?;
    let name = folder.rsplit('/').next()?;
    Some(name.replace('-', "_"))
}

/// Returns the imports between the children of each module, by that module.
fn imports(read: &Crate) -> Vec<(ModuleId, Vec<Import>)> {
    let mut between: HashMap<ModuleId, Vec<Import>> = HashMap::new();
    for (id, module) in read.modules.iter().enumerate() {
        let line = read.with_ancestors(id);
        for path in &module.paths {
            let Some(target) = read.resolve(id, &path.segments) else {
                continue;
            };
            let other = read.with_ancestors(target);
            let shared = line.iter().zip(&other).take_while(|(a, b)| a == b).count();
            // One module is inside the other.
            let (Some(&from), Some(&to)) = (line.get(shared), other.get(shared)) else {
                continue;
            };
            let siblings = between.entry(line[shared - 1]).or_default();
            if !siblings
                .iter()
                .any(|known| (known.from, known.to) == (from, to))
            {
                siblings.push(Import {
                    from,
                    to,
                    file: module.file.clone(),
                    line: path.line,
                });
            }
        }
    }
    let mut between: Vec<_> = between.into_iter().collect();
    between.sort_by_key(|&(parent, _)| parent);
    between
}

/// Describes a cycle at the location of its first import.
fn finding(read: &Crate, parent: ModuleId, circle: &[Import]) -> Finding {
    let steps: Vec<String> = circle
        .iter()
        .map(|import| {
            format!(
                "{} imports {} ({}:{})",
                read.modules[import.from].name,
                read.modules[import.to].name,
                import.file,
                import.line
            )
        })
        .collect();
    let within = match read.path(parent) {
        path if path.is_empty() => String::new(),
        path => format!(" in {path}"),
    };
    Finding {
        path: circle[0].file.clone(),
        line: circle[0].line,
        what: format!("import cycle{within}: {}", steps.join(", ")),
        why: WHY,
        remedy: REMEDY,
    }
}

#[cfg(test)]
mod tests;
