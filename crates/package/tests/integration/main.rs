//! Tests object packages through the public interface: the examples and rules of the specification
//! (`docs/object-package.md`), arbitrary files, hostile packages, and memory.

mod heap;
mod memory;
mod properties;
mod support;
mod vectors;
