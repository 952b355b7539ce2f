//! Object packages from outside: what the specification (`docs/object-package.md`) shows and says, any
//! files, hostile packages, memory.

mod memory;
mod properties;
mod support;
mod vectors;
