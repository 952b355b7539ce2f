//! Writes one file.

use std::io::Write;
use std::sync::Arc;

use fathometer_model::ExchangeRow;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::ColumnPath;

use crate::Error;
use crate::columns::{COLUMNS, Column, Source, schema};

/// The version of the row format, stored in the file's metadata as `fathometer.format`. It changes when a
/// column changes its meaning or is removed.
pub const FORMAT: u32 = 1;

/// The number of rows in a row group. They are in memory (28 MiB) until the group is full. Readers process groups in
/// parallel, and DuckDB's own groups have about half as many rows.
pub const ROWS_PER_GROUP: usize = 1 << 18;

/// Writes exchanges to one Parquet file.
///
/// The file can be read only after [`ExchangeWriter::finish`] has returned.
pub struct ExchangeWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    targets: Arc<[ByteArray]>,
    held: Vec<ExchangeRow>,
    rows: u64,
}

impl<W: Write + Send> ExchangeWriter<W> {
    /// Starts a file. `metadata` is stored in its footer, next to `fathometer.format`; `targets` contains the
    /// names that [`ExchangeRow::target`] indexes, such as `GET /a.html`.
    ///
    /// # Errors
    /// If the first bytes cannot be written to `file`.
    pub fn create(
        file: W,
        metadata: &[(String, String)],
        targets: &[String],
    ) -> Result<ExchangeWriter<W>, Error> {
        ExchangeWriter::with_targets(file, metadata, names(targets))
    }

    pub(crate) fn with_targets(
        file: W,
        metadata: &[(String, String)],
        targets: Arc<[ByteArray]>,
    ) -> Result<ExchangeWriter<W>, Error> {
        let file =
            SerializedFileWriter::new(file, Arc::new(schema()?), Arc::new(properties(metadata)))?;
        Ok(ExchangeWriter {
            file,
            targets,
            held: Vec::new(),
            rows: 0,
        })
    }

    /// Adds rows.
    ///
    /// # Errors If a row refers to a target that is not in the list (then no row is added), or the file cannot be
    /// written.
    pub fn write(&mut self, rows: &[ExchangeRow]) -> Result<(), Error> {
        let targets = self.targets.len();
        if let Some(row) = rows.iter().find(|row| row.target as usize >= targets) {
            let target = row.target;
            return Err(Error::UnknownTarget { target, targets });
        }
        let mut rows = rows;
        while !rows.is_empty() {
            let (now, later) = rows.split_at(rows.len().min(ROWS_PER_GROUP - self.held.len()));
            self.held.extend_from_slice(now);
            rows = later;
            if self.held.len() == ROWS_PER_GROUP {
                self.write_group()?;
            }
        }
        Ok(())
    }

    /// Returns the number of rows added until now.
    pub fn rows(&self) -> u64 {
        self.rows + self.held.len() as u64
    }

    /// Writes the buffered rows and the footer, and returns the underlying writer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<W, Error> {
        if !self.held.is_empty() {
            self.write_group()?;
        }
        Ok(self.file.into_inner()?)
    }

    fn write_group(&mut self) -> Result<(), Error> {
        let mut group = self.file.next_row_group()?;
        for column in COLUMNS {
            let mut writer = group.next_column()?.expect("the schema has these columns");
            write_column(column, &mut writer, &self.held, &self.targets)?;
            writer.close()?;
        }
        group.close()?;
        self.rows += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }
}

/// Converts target names to byte arrays, which all files share.
pub(crate) fn names(targets: &[String]) -> Arc<[ByteArray]> {
    targets
        .iter()
        .map(|target| ByteArray::from(target.as_str()))
        .collect()
}

fn properties(metadata: &[(String, String)]) -> WriterProperties {
    let mut pairs = vec![KeyValue::new(
        "fathometer.format".to_owned(),
        FORMAT.to_string(),
    )];
    pairs.extend(
        metadata
            .iter()
            .map(|(key, value)| KeyValue::new(key.clone(), value.clone())),
    );
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("fathometer {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(pairs));
    // Times increase and are all different. Their differences are short, but a dictionary would be as long as the
    // column.
    for column in COLUMNS.iter().filter(|c| c.name.ends_with("_ns")) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

fn write_column(
    column: &Column,
    writer: &mut SerializedColumnWriter<'_>,
    rows: &[ExchangeRow],
    targets: &[ByteArray],
) -> Result<(), Error> {
    match column.source {
        Source::Long(of) => {
            let (values, levels) = gather(column, rows, |row| of(row).map(u64::cast_signed));
            writer
                .typed::<Int64Type>()
                .write_batch(&values, levels.as_deref(), None)?;
        }
        Source::Int(of) => {
            let (values, levels) = gather(column, rows, |row| of(row).map(u32::cast_signed));
            writer
                .typed::<Int32Type>()
                .write_batch(&values, levels.as_deref(), None)?;
        }
        Source::Word(of) => {
            let (values, levels) = gather(column, rows, |row| of(row).map(ByteArray::from));
            writer
                .typed::<ByteArrayType>()
                .write_batch(&values, levels.as_deref(), None)?;
        }
        Source::Target => {
            let name = |row: &ExchangeRow| Some(targets[row.target as usize].clone());
            let (values, levels) = gather(column, rows, name);
            writer
                .typed::<ByteArrayType>()
                .write_batch(&values, levels.as_deref(), None)?;
        }
    }
    Ok(())
}

/// Returns the non-null values of a column and, if the column permits nulls, whether each row has a value.
fn gather<T>(
    column: &Column,
    rows: &[ExchangeRow],
    of: impl Fn(&ExchangeRow) -> Option<T>,
) -> (Vec<T>, Option<Vec<i16>>) {
    if !column.is_nullable() {
        return (rows.iter().filter_map(of).collect(), None);
    }
    let mut values = Vec::with_capacity(rows.len());
    let mut levels = Vec::with_capacity(rows.len());
    for row in rows {
        let value = of(row);
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    (values, Some(levels))
}
