//! The dictionary of strings: a tree with one node for each codeword.

use super::{CONTROL_CODEWORDS, FIRST_STRING, Parameters};

/// No node: the number of a control codeword, which never has a node.
pub(super) const NONE: u16 = 0;

/// The last character of a string. The parent nodes contain the earlier characters.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    parent: u16,
    /// The first child, a string that is one character longer; [`NONE`] for a leaf.
    child: u16,
    /// The next child of the same parent.
    sibling: u16,
    character: u8,
    /// The length of the string in characters; 0 for an unused entry.
    length: u8,
}

/// The strings of one direction, by codeword. Its size is fixed.
#[derive(Debug, Clone)]
pub(super) struct Dictionary {
    nodes: Vec<Node>,
    longest: u8,
    /// The unused entry that the next string gets (C1).
    next: u16,
}

impl Dictionary {
    /// Creates the dictionary with the strings of one character.
    pub(super) fn new(parameters: Parameters) -> Dictionary {
        let mut nodes = vec![Node::default(); usize::from(parameters.codewords)];
        for character in 0..=u8::MAX {
            let root = &mut nodes[usize::from(Dictionary::root(character))];
            (root.character, root.length) = (character, 1);
        }
        Dictionary {
            nodes,
            longest: parameters.longest_string,
            next: FIRST_STRING,
        }
    }

    /// Returns the codeword of a string of one character.
    pub(super) fn root(character: u8) -> u16 {
        u16::from(character) + CONTROL_CODEWORDS
    }

    /// Whether the dictionary has a string for a codeword.
    pub(super) fn contains(&self, codeword: u16) -> bool {
        self.nodes
            .get(usize::from(codeword))
            .is_some_and(|node| node.length > 0)
    }

    /// Returns the codeword of the string plus `character`, if the dictionary has that string.
    pub(super) fn longer(&self, codeword: u16, character: u8) -> Option<u16> {
        let mut child = self.node(codeword).child;
        while child != NONE {
            let node = self.node(child);
            if node.character == character {
                return Some(child);
            }
            child = node.sibling;
        }
        None
    }

    /// Appends the characters of a string to `output`, in order.
    pub(super) fn spell(&self, codeword: u16, output: &mut Vec<u8>) {
        let start = output.len();
        let mut at = codeword;
        while at != NONE {
            let node = self.node(at);
            output.push(node.character);
            at = node.parent;
        }
        output[start..].reverse();
    }

    /// Adds the string plus one character (section 6.4). Returns the new codeword; `None` if the new string exists or
    /// would be too long.
    pub(super) fn add(&mut self, codeword: u16, character: u8) -> Option<u16> {
        let length = self.node(codeword).length;
        if length >= self.longest || self.longer(codeword, character).is_some() {
            return None;
        }
        let added = self.next;
        self.nodes[usize::from(added)] = Node {
            parent: codeword,
            child: NONE,
            sibling: self.node(codeword).child,
            character,
            length: length + 1,
        };
        self.node_mut(codeword).child = added;
        self.recover();
        Some(added)
    }

    /// Finds the entry for the next string (section 6.5): the next unused entry, or the next leaf, which is deleted. A
    /// leaf other than the string just added always exists, because 253 entries or more cannot form a single chain of
    /// at most 250 characters.
    fn recover(&mut self) {
        loop {
            self.next += 1;
            if usize::from(self.next) == self.nodes.len() {
                self.next = FIRST_STRING;
            }
            if self.node(self.next).child == NONE {
                break;
            }
        }
        if self.node(self.next).length > 0 {
            self.delete_leaf(self.next);
        }
    }

    fn delete_leaf(&mut self, leaf: u16) {
        let Node {
            parent, sibling, ..
        } = *self.node(leaf);
        if self.node(parent).child == leaf {
            self.node_mut(parent).child = sibling;
        } else {
            let mut before = self.node(parent).child;
            while self.node(before).sibling != leaf {
                before = self.node(before).sibling;
            }
            self.node_mut(before).sibling = sibling;
        }
        *self.node_mut(leaf) = Node::default();
    }

    fn node(&self, codeword: u16) -> &Node {
        &self.nodes[usize::from(codeword)]
    }

    fn node_mut(&mut self, codeword: u16) -> &mut Node {
        &mut self.nodes[usize::from(codeword)]
    }
}
