//! Writes a sequence of files.

use std::io::{self, Write};
use std::sync::Arc;

use fathometer_model::ExchangeRow;
use parquet::data_type::ByteArray;

use crate::writer::names;
use crate::{Error, ExchangeWriter};

/// Returns the name of a part, counted from 1: `exchanges-0001.parquet`. Names sort in the order of their numbers, and
/// `exchanges-*.parquet` matches all of them.
pub fn part_name(part: u32) -> String {
    format!("exchanges-{part:04}.parquet")
}

/// The number of files and rows written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of files, all finished.
    pub parts: u32,
    /// The number of rows in the files.
    pub rows: u64,
}

/// Writes exchanges to a sequence of Parquet files. Each file is finished before the next one starts, so only the last
/// part is lost if the program is killed.
pub struct PartsWriter<W: Write + Send, O: FnMut(u32) -> io::Result<W>> {
    open: O,
    metadata: Vec<(String, String)>,
    targets: Arc<[ByteArray]>,
    rows_per_part: u64,
    part: Option<ExchangeWriter<W>>,
    written: Written,
}

impl<W: Write + Send, O: FnMut(u32) -> io::Result<W>> PartsWriter<W, O> {
    /// Creates a writer that calls `open` for each part when its first row arrives. Parts count from 1 and have
    /// at most `rows_per_part` rows (at least one). To distinguish incomplete files from complete ones, `open`
    /// should use a temporary file name.
    ///
    /// `metadata` and `targets` are as in [`ExchangeWriter::create`], in every part.
    pub fn new(
        rows_per_part: u64,
        metadata: Vec<(String, String)>,
        targets: &[String],
        open: O,
    ) -> PartsWriter<W, O> {
        PartsWriter {
            open,
            metadata,
            targets: names(targets),
            rows_per_part: rows_per_part.max(1),
            part: None,
            written: Written::default(),
        }
    }

    /// Adds rows; finishes each full part and starts a new one.
    ///
    /// # Errors If a row refers to a target that is not in the list, or a part cannot be opened or written.
    pub fn write(&mut self, rows: &[ExchangeRow]) -> Result<(), Error> {
        let mut rows = rows;
        while !rows.is_empty() {
            let held = self.part.as_ref().map_or(0, ExchangeWriter::rows);
            let room = usize::try_from(self.rows_per_part - held).unwrap_or(usize::MAX);
            let (now, later) = rows.split_at(rows.len().min(room));
            self.begun()?.write(now)?;
            rows = later;
            if now.len() == room {
                self.end_part()?;
            }
        }
        Ok(())
    }

    /// Finishes the current part, if there is one, so that all rows written until now can be read.
    ///
    /// # Errors
    /// If the part cannot be written.
    pub fn end_part(&mut self) -> Result<(), Error> {
        if let Some(part) = self.part.take() {
            let rows = part.rows();
            let number = self.written.parts + 1;
            let flushed = part.finish()?.flush();
            flushed.map_err(|source| Error::Part {
                part: number,
                source,
            })?;
            self.written.parts = number;
            self.written.rows += rows;
        }
        Ok(())
    }

    /// Finishes the last part. If there are no rows, writes one part without rows, so that the columns exist.
    ///
    /// # Errors
    /// If the part cannot be opened or written.
    pub fn finish(mut self) -> Result<Written, Error> {
        if self.written.parts == 0 {
            self.begun()?;
        }
        self.end_part()?;
        Ok(self.written)
    }

    fn begun(&mut self) -> Result<&mut ExchangeWriter<W>, Error> {
        let part = match self.part.take() {
            Some(part) => part,
            None => {
                let number = self.written.parts + 1;
                let file = (self.open)(number).map_err(|source| Error::Part {
                    part: number,
                    source,
                })?;
                ExchangeWriter::with_targets(file, &self.metadata, Arc::clone(&self.targets))?
            }
        };
        Ok(self.part.insert(part))
    }
}
