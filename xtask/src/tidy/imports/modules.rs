//! The modules of one crate: their items, their imports and the paths that they name.
//!
//! Code under `#[cfg(test)]` is left out: a test may use modules that its subject must not depend on.

use std::collections::{HashMap, HashSet};

use super::tokens::{Token, tokens};

/// The index of a module in [`Crate::modules`]; the root is 0.
pub(super) type ModuleId = usize;

/// A crate as a tree of modules.
#[derive(Debug, Default)]
pub(super) struct Crate {
    pub modules: Vec<Module>,
}

/// A module, in a separate file or inline.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub name: String,
    pub file: String,
    pub parent: Option<ModuleId>,
    pub children: HashMap<String, ModuleId>,
    /// Paths that the module names, absolute or relative to it.
    pub paths: Vec<NamedPath>,
    items: HashSet<String>,
    /// Names that the module imports, with their paths.
    aliases: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// A path as written in the source, without resolved renames.
#[derive(Debug)]
pub(super) struct NamedPath {
    pub segments: Vec<String>,
    pub line: usize,
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(ModuleId),
    /// An item, with the module that defines it.
    Item(ModuleId),
}

/// Imports can refer to each other's names; a chain longer than this is treated as a cycle of names.
const LONGEST_CHAIN: usize = 32;

impl Crate {
    /// Reads the crate whose root is the file `root`; `text` returns the text of a file of the tree.
    pub fn read<'t>(root: &str, text: &impl Fn(&str) -> Option<&'t str>) -> Self {
        let mut read = Self::default();
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        read.add_file(None, "crate", root, folder, text);
        read
    }

    /// Returns the module's path below the root, as written in code; empty for the root.
    pub fn path(&self, module: ModuleId) -> String {
        let names: Vec<&str> = self
            .with_ancestors(module)
            .into_iter()
            .skip(1)
            .map(|id| self.modules[id].name.as_str())
            .collect();
        names.join("::")
    }

    /// Returns the module and its ancestors, the root first.
    pub fn with_ancestors(&self, module: ModuleId) -> Vec<ModuleId> {
        let mut line = vec![module];
        let mut at = module;
        while let Some(parent) = self.modules[at].parent {
            line.push(parent);
            at = parent;
        }
        line.reverse();
        line
    }

    /// Returns the module that a path written in `module` leads to: the module of the definition, not of a re-export.
    /// `None` for paths into other crates.
    pub fn resolve(&self, module: ModuleId, segments: &[String]) -> Option<ModuleId> {
        match self.follow(module, segments, LONGEST_CHAIN)? {
            Target::Module(id) | Target::Item(id) => Some(id),
        }
    }

    fn follow(&self, module: ModuleId, segments: &[String], depth: usize) -> Option<Target> {
        let depth = depth.checked_sub(1)?;
        let mut at = module;
        for (n, segment) in segments.iter().enumerate() {
            at = match segment.as_str() {
                "crate" => 0,
                "self" => at,
                "super" => self.modules[at].parent?,
                name => match self.look_up(at, name, depth) {
                    Some(Target::Module(id)) => id,
                    Some(item) => return Some(item),
                    // If the module does not have the first name, the name is another crate's name.
                    None if n == 0 => return None,
                    None => return Some(Target::Item(at)),
                },
            };
        }
        Some(Target::Module(at))
    }

    fn look_up(&self, module: ModuleId, name: &str, depth: usize) -> Option<Target> {
        let depth = depth.checked_sub(1)?;
        let within = &self.modules[module];
        if let Some(&child) = within.children.get(name) {
            return Some(Target::Module(child));
        }
        if within.items.contains(name) {
            return Some(Target::Item(module));
        }
        if let Some(path) = within.aliases.get(name)
            // `use name;` and `use name::{self, …}` name the crate `name`.
            && path.first().is_none_or(|first| first != name)
        {
            return self.follow(module, path, depth);
        }
        within
            .globs
            .iter()
            .find_map(|glob| match self.follow(module, glob, depth)? {
                Target::Module(id) if id != module => self.look_up(id, name, depth),
                _ => None,
            })
    }

    /// Reads a file as a module whose children are in `folder`.
    fn add_file<'t>(
        &mut self,
        parent: Option<ModuleId>,
        name: &str,
        file: &str,
        folder: &str,
        text: &impl Fn(&str) -> Option<&'t str>,
    ) {
        let Some(source) = text(file) else { return };
        let id = self.add(parent, name, file);
        let tokens = tokens(source);
        let mut reader = Reader {
            tokens: &tokens,
            at: 0,
        };
        self.read_body(&mut reader, id, folder, text);
    }

    fn add(&mut self, parent: Option<ModuleId>, name: &str, file: &str) -> ModuleId {
        let id = self.modules.len();
        self.modules.push(Module {
            name: name.to_owned(),
            file: file.to_owned(),
            parent,
            ..Module::default()
        });
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name.to_owned(), id);
        }
        id
    }

    /// Reads up to the bracket that closes the module.
    fn read_body<'t>(
        &mut self,
        reader: &mut Reader<'_>,
        id: ModuleId,
        folder: &str,
        text: &impl Fn(&str) -> Option<&'t str>,
    ) {
        // The number of open brackets inside the module; 0 between its items.
        let mut depth = 0_usize;
        while let Some(token) = reader.next() {
            match token.text {
                "#" if reader.skip_test_attribute() => reader.skip_item(),
                "{" | "(" | "[" => depth += 1,
                "}" if depth == 0 => return,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                "mod" if depth == 0 => {
                    let Some(name) = reader.next() else { return };
                    let below = format!("{folder}/{}", name.text);
                    if reader.peek(0) == "{" {
                        reader.next();
                        let file = self.modules[id].file.clone();
                        let child = self.add(Some(id), name.text, &file);
                        self.read_body(reader, child, &below, text);
                    } else {
                        let beside = format!("{below}.rs");
                        let inside = format!("{below}/mod.rs");
                        let file = if text(&beside).is_some() {
                            beside
                        } else {
                            inside
                        };
                        self.add_file(Some(id), name.text, &file, &below, text);
                    }
                }
                // `use<'a>` is part of a type.
                "use" if reader.peek(0) != "<" => {
                    let line = token.line;
                    for import in reader.use_tree(&mut Vec::new()) {
                        self.import(id, import, line, depth == 0);
                    }
                }
                "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static"
                    if depth == 0 =>
                {
                    let name = reader.peek(0).to_owned();
                    self.modules[id].items.insert(name);
                }
                "macro_rules" if depth == 0 => {
                    let name = reader.peek(1).to_owned();
                    self.modules[id].items.insert(name);
                }
                _ if reader.peek(0) == "::" && is_name(token.text) => {
                    let mut segments = vec![token.text.to_owned()];
                    while reader.peek(0) == "::" && is_name(reader.peek(1)) {
                        reader.next();
                        segments.extend(reader.next().map(|name| name.text.to_owned()));
                    }
                    self.modules[id].paths.push(NamedPath {
                        segments,
                        line: token.line,
                    });
                }
                _ => {}
            }
        }
    }

    /// Records an import. An import inside a function gives the module no name.
    fn import(&mut self, id: ModuleId, import: Import, line: usize, of_the_module: bool) {
        let module = &mut self.modules[id];
        if of_the_module {
            match &import.name {
                Some(name) => {
                    module.aliases.insert(name.clone(), import.path.clone());
                }
                None => module.globs.push(import.path.clone()),
            }
        }
        module.paths.push(NamedPath {
            segments: import.path,
            line,
        });
    }
}

/// One name of a `use`, or a glob.
struct Import {
    path: Vec<String>,
    /// `None` for a glob.
    name: Option<String>,
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens
            .get(self.at + ahead)
            .map_or("", |token| token.text)
    }

    /// After `#`: skips the attribute `[cfg(test)]`, if it follows. Returns whether an attribute was skipped.
    fn skip_test_attribute(&mut self) -> bool {
        let test = ["[", "cfg", "(", "test", ")", "]"];
        let found = (0..test.len()).all(|n| self.peek(n) == test[n]);
        if found {
            self.at += test.len();
        }
        found
    }

    /// Skips an item: to its last bracket, or to its semicolon.
    fn skip_item(&mut self) {
        let by_semicolon = ["use", "const", "static", "type"].contains(&self.first_word());
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token.text {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && token.text == "}" && !by_semicolon {
                        return;
                    }
                }
                ";" if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// The keyword of the item, without attributes and visibility.
    fn first_word(&self) -> &'a str {
        let mut depth = 0_usize;
        for token in self.tokens.iter().skip(self.at) {
            match token.text {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                "#" | "pub" => {}
                word if depth == 0 => return word,
                _ => {}
            }
        }
        ""
    }

    /// Returns the names of a `use`, from its first segment to its semicolon, comma or closing bracket.
    fn use_tree(&mut self, prefix: &mut Vec<String>) -> Vec<Import> {
        let before = prefix.len();
        let mut imports = Vec::new();
        let mut name = None;
        // Whether the path ends in a name, not in a list or a glob.
        let mut ends_in_name = false;
        loop {
            match self.peek(0) {
                "" | ";" | "," | "}" => break,
                "::" => {}
                "{" => {
                    self.next();
                    ends_in_name = false;
                    loop {
                        imports.extend(self.use_tree(prefix));
                        if self.peek(0) != "," {
                            break;
                        }
                        self.next();
                    }
                }
                "*" => {
                    ends_in_name = false;
                    imports.push(Import {
                        path: prefix.clone(),
                        name: None,
                    });
                }
                "as" => {
                    self.next();
                    name = Some(self.peek(0).to_owned());
                }
                // At the end of a path, `self` means the path before it.
                "self" if !prefix.is_empty() => ends_in_name = true,
                segment => {
                    ends_in_name = true;
                    prefix.push(segment.to_owned());
                }
            }
            self.next();
        }
        if ends_in_name {
            imports.push(Import {
                path: prefix.clone(),
                name: name.or_else(|| prefix.last().cloned()),
            });
        }
        prefix.truncate(before);
        imports
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
}
