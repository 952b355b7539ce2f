//! `fathometer pack` and `fathometer unpack`: what goes in comes out, octet by octet, and nothing goes
//! anywhere else; archives against tar, zip and Python.

mod archives;
mod endings;
mod hostile;
mod place;
mod round_trips;
mod sources;
#[path = "../support/waiting.rs"]
mod waiting;
