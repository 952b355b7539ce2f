//! The tree of dependencies and weights (RFC 7540 section 5.3, deprecated by RFC 9113).
//!
//! A stream is sent before the streams that depend on it. Streams with the same parent share the remaining capacity in
//! proportion to their weights, measured in bytes sent. Closed streams, and streams that are not yet open, stay in the
//! tree while there is room, because clients use such streams as groups.

use super::streams::Slot;
use crate::h2::StreamId;
use crate::h2::frame::Dependency;

/// The default weight of a stream.
const DEFAULT_WEIGHT: u32 = 16;
/// The cost of a turn in addition to its bytes, so that turns without bytes also have a cost.
const TURN_COST: u64 = 64;
/// The index of the root.
const ROOT: usize = 0;

#[derive(Debug)]
pub(super) struct Tree {
    /// The nodes; the root is first. Parents are indices into this list.
    nodes: Vec<Node>,
    most: usize,
}

#[derive(Debug, Clone)]
struct Node {
    id: StreamId,
    parent: usize,
    /// The weight, 1 to 256.
    weight: u32,
    /// The number of bytes sent by the stream, divided by its weight. The value is compared among siblings.
    spent: u64,
    /// The `spent` value of the child chosen last. New children start with this value.
    clock: u64,
    /// The stream's slot when it has something to send.
    ready: Option<Slot>,
    /// Whether the stream or any of its dependents has something to send.
    active: bool,
}

impl Tree {
    /// Creates a tree for at most `most` streams.
    pub fn new(most: usize) -> Tree {
        Tree {
            nodes: vec![Node::new(StreamId::CONNECTION)],
            most: most.max(1),
        }
    }

    /// Moves or adds a stream to the position that the client requests.
    pub fn place(&mut self, id: StreamId, dependency: Dependency) {
        if dependency.on == id {
            return;
        }
        let place = self.find_or_insert(id);
        // If the parent is not (or no longer) in the tree, the stream has the default priority (section 5.3.1).
        let known = self.find(dependency.on);
        let (parent, weight, exclusive) = match known {
            Some(parent) => (
                parent,
                u32::from(dependency.weight) + 1,
                dependency.exclusive,
            ),
            None => (ROOT, DEFAULT_WEIGHT, false),
        };
        if self.descends(parent, place) {
            self.move_to(parent, self.nodes[place].parent);
        }
        if exclusive {
            for child in 1..self.nodes.len() {
                if self.nodes[child].parent == parent && child != place {
                    self.move_to(child, place);
                }
            }
        }
        self.nodes[place].weight = weight;
        self.move_to(place, parent);
        self.mark_active();
    }

    /// Adds a pushed stream as a child of the stream on which it was promised.
    pub fn promise(&mut self, id: StreamId, on: StreamId) {
        self.find_or_insert(on);
        let dependency = Dependency {
            on,
            exclusive: false,
            weight: (DEFAULT_WEIGHT - 1) as u8,
        };
        self.place(id, dependency);
    }

    /// Adds a stream that has output to send.
    pub fn add(&mut self, id: StreamId, slot: Slot) {
        let place = self.find_or_insert(id);
        self.nodes[place].ready = Some(slot);
        // A stream gets no credit for the time in which it was inactive.
        let mut at = place;
        while at != ROOT && !self.nodes[at].active {
            let clock = self.nodes[self.nodes[at].parent].clock;
            let node = &mut self.nodes[at];
            node.spent = node.spent.max(clock);
            node.active = true;
            at = node.parent;
        }
    }

    /// Removes a stream that has no more output to send.
    pub fn remove(&mut self, id: StreamId) {
        if let Some(place) = self.find(id) {
            self.nodes[place].ready = None;
            self.mark_active();
        }
    }

    /// Selects the stream to send next.
    pub fn next(&mut self) -> Option<Slot> {
        let mut at = ROOT;
        loop {
            let children = self.nodes.iter().enumerate().skip(1);
            let (place, spent) = children
                .filter(|(_, node)| node.parent == at && node.active)
                .map(|(place, node)| (place, node.spent))
                .min_by_key(|&(place, spent)| (spent, self.nodes[place].id))?;
            self.nodes[at].clock = spent;
            if let Some(slot) = self.nodes[place].ready {
                return Some(slot);
            }
            at = place;
        }
    }

    /// Adds the cost of a turn of `bytes` bytes to the stream.
    pub fn charge(&mut self, id: StreamId, bytes: u64) {
        let mut at = self.find(id).unwrap_or(ROOT);
        while at != ROOT {
            let node = &mut self.nodes[at];
            node.spent += (bytes + TURN_COST) * 256 / u64::from(node.weight);
            at = node.parent;
        }
    }

    fn find(&self, id: StreamId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    fn find_or_insert(&mut self, id: StreamId) -> usize {
        if let Some(place) = self.find(id) {
            return place;
        }
        if self.nodes.len() > self.most {
            self.forget_one();
        }
        self.nodes.push(Node {
            spent: self.nodes[ROOT].clock,
            ..Node::new(id)
        });
        self.nodes.len() - 1
    }

    /// Makes room: removes the oldest stream that has no output, and moves its dependents to its parent. If all streams
    /// have output, the tree grows; the limits on streams and pushes bound its size.
    fn forget_one(&mut self) {
        let idle = self
            .nodes
            .iter()
            .skip(1)
            .position(|node| node.ready.is_none());
        let Some(place) = idle.map(|place| place + 1) else {
            return;
        };
        let parent = self.nodes[place].parent;
        for child in 1..self.nodes.len() {
            if self.nodes[child].parent == place {
                self.move_to(child, parent);
            }
        }
        self.nodes.remove(place);
        for node in &mut self.nodes {
            if node.parent > place {
                node.parent -= 1;
            }
        }
    }

    /// Whether a node is a descendant of another node.
    fn descends(&self, mut place: usize, ancestor: usize) -> bool {
        while place != ROOT {
            place = self.nodes[place].parent;
            if place == ancestor {
                return true;
            }
        }
        false
    }

    /// Moves a node to another parent.
    fn move_to(&mut self, place: usize, parent: usize) {
        if place == ROOT || self.nodes[place].parent == parent {
            return;
        }
        self.nodes[place].parent = parent;
        self.nodes[place].spent = self.nodes[parent].clock;
    }

    /// Recomputes for each node whether it or a descendant has output to send.
    fn mark_active(&mut self) {
        for node in &mut self.nodes {
            node.active = false;
        }
        for place in 1..self.nodes.len() {
            let mut at = match self.nodes[place].ready {
                Some(_) => place,
                None => ROOT,
            };
            while at != ROOT && !self.nodes[at].active {
                self.nodes[at].active = true;
                at = self.nodes[at].parent;
            }
        }
    }
}

impl Node {
    fn new(id: StreamId) -> Node {
        Node {
            id,
            parent: ROOT,
            weight: DEFAULT_WEIGHT,
            spent: 0,
            clock: 0,
            ready: None,
            active: false,
        }
    }
}
