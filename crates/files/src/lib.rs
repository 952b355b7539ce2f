//! The files that this program reads and writes: files written completely or not at all, temporary folders that
//! are removed even if the program is killed, sites as folders, and TLS key logs.

pub mod key_log;
pub mod scratch;
pub mod sha256;
pub mod site_cache;
pub mod site_folder;
pub mod whole_file;
