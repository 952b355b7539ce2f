//! A capture of one tap, extracted from a capture of several, which has its name when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use fathometer_analysis::packets::TapChoice;
use fathometer_analysis::packets::capture::Record;
use fathometer_analysis::packets::extract::TapWriter;

/// The file that is being written. Dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct TapFile {
    file: PathBuf,
    partial: PathBuf,
    writer: Option<io::Result<TapWriter<BufWriter<File>>>>,
}

impl TapFile {
    /// Begins it, under another name.
    ///
    /// # Errors
    /// When the system refuses.
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

    /// Takes a packet of the capture that is read. What fails here is reported by [`TapFile::finish`].
    pub fn packet(&mut self, record: &Record<'_>) {
        if let Some(Ok(writer)) = &mut self.writer
            && let Err(error) = writer.packet(record)
        {
            self.writer = Some(Err(error));
        }
    }

    /// Gives it its name, and tells how many packets it has.
    ///
    /// # Errors
    /// When the system refused anything of it.
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
        // Renamed, it is there no more.
        let _ = fs::remove_file(&self.partial);
    }
}
