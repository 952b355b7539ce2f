//! The SHA-256 of the program and of the inputs of a run, in hexadecimal.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use ring::digest::{Context, Digest, SHA256, digest};

/// Returns the hash of a text.
pub fn of(bytes: &[u8]) -> String {
    text(&digest(&SHA256, bytes))
}

/// Returns the hash of a file, which is read in parts because it may be large.
///
/// # Errors
/// If the file cannot be read.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(text(&context.finish())),
            read => context.update(&buffer[..read]),
        }
    }
}

fn text(digest: &Digest) -> String {
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_content_have_the_hash_of_fips_180() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(b"abc"), abc);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(of_file(file.path()).unwrap(), abc);
    }
}
