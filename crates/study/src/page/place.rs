//! The environment in which a server is started.

use fathometer_model::Seed;
use fathometer_sys::Clock;

use super::levels::Levels;
use crate::experiment::Setup;
use fathometer_lab::hosts::Host;
use fathometer_lab::server::Access;

/// The host, the replicate and the settings of a server that is started.
pub(super) struct Place<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) levels: &'a Levels<'a>,
    pub(super) host: &'a Host,
    pub(super) access: Access<'a>,
    pub(super) seed: Seed,
    pub(super) clock: Clock,
}
