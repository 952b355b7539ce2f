//! The files that this program leaves and reads: files written whole or not at all, temporary folders that are
//! removed even if the program is killed, and sites as folders.

pub mod scratch;
pub mod sha256;
pub mod site_cache;
pub mod site_folder;
pub mod whole_file;
