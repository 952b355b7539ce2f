//! Client policies.
