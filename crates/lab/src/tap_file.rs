//! Extracts the capture of one tap from a capture of several taps. The file gets its final name when it is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use fathometer_packets::TapChoice;
use fathometer_packets::capture::Record;
use fathometer_packets::extract::TapWriter;

/// The file that is being written. If it is dropped before it is finished, it is removed.
#[derive(Debug)]
pub struct TapFile {
    file: PathBuf,
    partial: PathBuf,
    writer: Option<io::Result<TapWriter<BufWriter<File>>>>,
}

impl TapFile {
    /// Creates the file under a temporary name.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(file: &Path, taps: TapChoice) -> io::Result<TapFile> {
        let mut partial = file.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let out = BufWriter::new(File::create(&partial)?);
        Ok(TapFile {
            file: file.to_owned(),
            partial,
            writer: Some(TapWriter::new(out, taps)),
        })
    }

    /// Writes a packet of the source capture if it belongs to the tap. If writing fails, [`TapFile::finish`] returns
    /// the error.
    pub fn packet(&mut self, record: &Record<'_>) {
        if let Some(Ok(writer)) = &mut self.writer
            && let Err(error) = writer.packet(record)
        {
            self.writer = Some(Err(error));
        }
    }

    /// Renames the file to its final name, and returns its number of packets.
    ///
    /// # Errors
    /// When a part of the file could not be written.
    pub fn finish(mut self) -> io::Result<u64> {
        let packets = match self.writer.take() {
            Some(writer) => writer?.finish()?,
            None => 0,
        };
        fs::rename(&self.partial, &self.file)?;
        Ok(packets)
    }
}

impl Drop for TapFile {
    fn drop(&mut self) {
        // After a successful rename this file no longer exists.
        let _ = fs::remove_file(&self.partial);
    }
}
