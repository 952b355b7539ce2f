//! Cycles in a graph of imports.

use std::collections::{HashMap, HashSet, VecDeque};

use super::modules::ModuleId;

/// An import, with the location of one occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub from: ModuleId,
    pub to: ModuleId,
    pub file: String,
    pub line: usize,
}

/// Whether an import is part of a cycle.
pub(super) fn is_in_cycle(imports: &[Import], import: &Import) -> bool {
    shortest(imports, import.to, import.from).is_some()
}

/// Returns the shortest cycles; no two of them share a module.
pub(super) fn circles(imports: &[Import]) -> Vec<Vec<Import>> {
    let mut all: Vec<Vec<Import>> = imports
        .iter()
        .filter_map(|import| {
            let back = shortest(imports, import.to, import.from)?;
            Some([vec![import.clone()], back].concat())
        })
        .collect();
    all.sort_by_key(Vec::len);
    let mut members = HashSet::new();
    all.retain(|circle| {
        let apart = circle.iter().all(|import| !members.contains(&import.from));
        if apart {
            members.extend(circle.iter().map(|import| import.from));
        }
        apart
    });
    all
}

/// Returns the shortest chain of imports from one module to another.
fn shortest(imports: &[Import], from: ModuleId, to: ModuleId) -> Option<Vec<Import>> {
    let mut reached_by: HashMap<ModuleId, &Import> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let mut chain = Vec::new();
            let mut at = to;
            while at != from {
                let import = reached_by[&at];
                chain.push(import.clone());
                at = import.from;
            }
            chain.reverse();
            return Some(chain);
        }
        for import in imports.iter().filter(|import| import.from == at) {
            if import.to != from && !reached_by.contains_key(&import.to) {
                reached_by.insert(import.to, import);
                queue.push_back(import.to);
            }
        }
    }
    None
}
