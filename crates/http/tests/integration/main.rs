//! The protocol machines, the client drivers and the origin through the public interface, in virtual time.

mod allocations;
mod h2_client;
mod heap;
mod hpack_vectors;
mod pair;
mod qpack_vectors;
