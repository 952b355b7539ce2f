//! `fathometer pack` and `fathometer unpack`: unpacked files must equal the packed ones byte for byte, and nothing
//! may be written anywhere else. Archives are compared with tar, zip and Python.

mod archives;
mod endings;
mod hostile;
mod place;
mod round_trips;
