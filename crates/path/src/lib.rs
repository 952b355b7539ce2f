//! The network path as a machine: serialisation, propagation, queues, impairments, profiles.
