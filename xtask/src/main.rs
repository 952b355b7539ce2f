//! Chores of this workspace.
fn main() {}
