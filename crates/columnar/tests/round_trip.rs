//! Reads the written values back with the library's reader, and compares them one by one.

#![expect(clippy::disallowed_types, reason = "the reader reads files")]

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use fathometer_columnar::{Error, ExchangeWriter, PartsWriter, ROWS_PER_GROUP, Written, part_name};
use fathometer_model::{ExchangeRow, Failure, Outcome, Seed, TestPhase};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

const OUTCOMES: [Outcome; 5] = [
    Outcome::Complete,
    Outcome::Complete,
    Outcome::Failed(Failure::TimedOut),
    Outcome::Failed(Failure::LocalLimit),
    Outcome::Retried(Failure::ClosedEarly),
];

fn targets() -> Vec<String> {
    ["GET /", "GET /a.html?q=é", "POST /form"]
        .map(str::to_owned)
        .to_vec()
}

/// Returns row number `n` of a sequence in which each optional value is sometimes missing.
fn row(n: u64) -> ExchangeRow {
    let draws = Seed(5).child(n);
    let some = |k: u64| {
        if draws.draw(k).is_multiple_of(4) {
            0
        } else {
            draws.draw(k) >> 24
        }
    };
    ExchangeRow {
        planned: n * 1_000,
        due: some(1),
        sent: some(2),
        first_byte: some(3),
        last_byte: some(4),
        target: (draws.draw(5) % 3) as u32,
        page: draws.draw(6) as u32,
        user: u32::MAX - n as u32,
        connection: if n.is_multiple_of(7) {
            u32::MAX
        } else {
            n as u32
        },
        status: [0, 200, 404, 599, 999][(draws.draw(7) % 5) as usize],
        outcome: OUTCOMES[(draws.draw(8) % 5) as usize],
        request_head: draws.draw(9) as u32,
        request_body: draws.draw(10) >> 20,
        response_head: draws.draw(11) as u32,
        response_body: draws.draw(12) >> 20,
        phase: TestPhase::ALL[(draws.draw(13) % 3) as usize],
        measured_from: 5_000_000,
    }
}

fn written(rows: &[ExchangeRow]) -> Vec<u8> {
    let metadata = [("url".to_owned(), "http://localhost/".to_owned())];
    let mut writer = ExchangeWriter::create(Vec::new(), &metadata, &targets()).unwrap();
    // The pieces do not end at the boundaries of row groups.
    for piece in rows.chunks(99_991) {
        writer.write(piece).unwrap();
    }
    assert_eq!(writer.rows(), rows.len() as u64);
    writer.finish().unwrap()
}

fn reader(bytes: &[u8]) -> Result<SerializedFileReader<File>, ParquetError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    SerializedFileReader::new(file)
}

fn check(read: &Row, row: &ExchangeRow) {
    let time = |nanos: u64| match nanos {
        0 => Field::Null,
        nanos => Field::Long(nanos as i64),
    };
    let word = |word: &str| Field::Str(word.to_owned());
    let (outcome, failure) = match row.outcome {
        Outcome::Complete => ("complete", Field::Null),
        Outcome::Failed(Failure::TimedOut) => ("failed", word("timed-out")),
        Outcome::Failed(Failure::LocalLimit) => ("failed", word("local-limit")),
        Outcome::Retried(Failure::ClosedEarly) => ("retried", word("closed-early")),
        other => panic!("{other:?}"),
    };
    let due = match (row.due, row.sent) {
        (0, 0) => Field::Null,
        (due, _) => Field::Long(due as i64),
    };
    let expected = [
        ("planned_ns", Field::Long(row.planned as i64)),
        ("due_ns", due),
        ("sent_ns", time(row.sent)),
        ("first_byte_ns", time(row.first_byte)),
        ("last_byte_ns", time(row.last_byte)),
        ("target", word(&targets()[row.target as usize])),
        ("page", Field::UInt(row.page)),
        ("user", Field::UInt(row.user)),
        (
            "connection",
            match row.connection {
                u32::MAX => Field::Null,
                connection => Field::UInt(connection),
            },
        ),
        (
            "status",
            match row.status {
                0 => Field::Null,
                status => Field::UShort(status),
            },
        ),
        ("outcome", word(outcome)),
        ("failure", failure),
        ("request_head_bytes", Field::Long(row.request_head.into())),
        ("request_body_bytes", Field::Long(row.request_body as i64)),
        ("response_head_bytes", Field::Long(row.response_head.into())),
        ("response_body_bytes", Field::Long(row.response_body as i64)),
        ("phase", Field::Str(row.phase.name().to_owned())),
        (
            "since_measured_ns",
            Field::Long(row.planned as i64 - row.measured_from as i64),
        ),
    ];
    let columns: Vec<_> = read.get_column_iter().collect();
    assert_eq!(columns.len(), expected.len());
    for ((name, value), (wanted_name, wanted)) in columns.into_iter().zip(&expected) {
        assert_eq!((name.as_str(), value), (*wanted_name, wanted));
    }
}

#[test]
fn every_value_comes_back_and_nulls_stay_nulls() {
    let rows: Vec<_> = (0..2_000).map(row).collect();
    let reader = reader(&written(&rows)).unwrap();
    let pairs = reader
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap();
    let of = |key: &str| pairs.iter().find(|pair| pair.key == key)?.value.clone();
    assert_eq!(of("fathometer.format").as_deref(), Some("1"));
    assert_eq!(of("url").as_deref(), Some("http://localhost/"));
    let read: Vec<Row> = reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read.len(), rows.len());
    for (read, row) in read.iter().zip(&rows) {
        check(read, row);
    }
}

#[test]
fn row_groups_are_bounded_and_lose_nothing_at_their_borders() {
    let count = 2 * ROWS_PER_GROUP + 17;
    let rows: Vec<_> = (0..count as u64).map(row).collect();
    let reader = reader(&written(&rows)).unwrap();
    let groups: Vec<_> = reader
        .metadata()
        .row_groups()
        .iter()
        .map(|g| g.num_rows())
        .collect();
    assert_eq!(groups, [ROWS_PER_GROUP as i64, ROWS_PER_GROUP as i64, 17]);
    for (group, first) in [(1, ROWS_PER_GROUP), (2, 2 * ROWS_PER_GROUP)] {
        let group = reader.get_row_group(group).unwrap();
        let mut read = group.get_row_iter(None).unwrap();
        check(&read.next().unwrap().unwrap(), &rows[first]);
        check(
            &read.last().unwrap().unwrap(),
            &rows[(first + ROWS_PER_GROUP).min(count) - 1],
        );
    }
    let plan = reader.metadata().row_group(0).column(5);
    assert_eq!(plan.column_path().string(), "target");
    assert!(
        plan.dictionary_page_offset().is_some(),
        "names are stored once"
    );
    assert!(plan.compressed_size() < ROWS_PER_GROUP as i64 / 2);
}

/// A writer that outlives the `ExchangeWriter`.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn rows_of(part: &Shared) -> Result<i64, ParquetError> {
    let bytes = part.0.lock().unwrap().clone();
    let reader = reader(&bytes)?;
    Ok(reader.metadata().file_metadata().num_rows())
}

#[test]
fn parts_are_finished_one_by_one() {
    let opened = RefCell::new(Vec::new());
    let open = |part: u32| {
        let file = Shared::default();
        opened.borrow_mut().push((part_name(part), file.clone()));
        Ok(file)
    };
    let mut writer = PartsWriter::new(1_000, Vec::new(), &targets(), open);
    let rows: Vec<_> = (0..2_500).map(row).collect();
    for piece in rows.chunks(301) {
        writer.write(piece).unwrap();
    }
    let so_far: Vec<_> = opened
        .borrow()
        .iter()
        .map(|(_, f)| rows_of(f).ok())
        .collect();
    assert_eq!(
        so_far,
        [Some(1_000), Some(1_000), None],
        "the third would be lost"
    );
    writer.end_part().unwrap();
    assert_eq!(rows_of(&opened.borrow()[2].1).unwrap(), 500);
    writer.write(&rows[..3]).unwrap();
    assert_eq!(
        writer.finish().unwrap(),
        Written {
            parts: 4,
            rows: 2_503
        }
    );
    let opened = opened.borrow();
    assert_eq!(opened[3].0, "exchanges-0004.parquet");
    assert_eq!(rows_of(&opened[3].1).unwrap(), 3);
}

#[test]
fn an_empty_table_has_columns() {
    let file = Shared::default();
    let writer = PartsWriter::new(9, Vec::new(), &[], |_| Ok(file.clone()));
    assert_eq!(writer.finish().unwrap(), Written { parts: 1, rows: 0 });
    let bytes = file.0.lock().unwrap().clone();
    let reader = reader(&bytes).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    assert_eq!((schema.num_columns(), rows_of(&file).unwrap()), (18, 0));
}

#[test]
fn faults_are_reported() {
    let mut writer = ExchangeWriter::create(Vec::new(), &[], &targets()).unwrap();
    let foreign = ExchangeRow {
        target: 3,
        ..row(1)
    };
    let error = writer.write(&[row(1), foreign]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a row has target 3, but there are only 3 targets"
    );
    assert_eq!(writer.rows(), 0);

    let refuse = |_| Err::<Vec<u8>, _>(io::Error::other("no room"));
    let mut writer = PartsWriter::new(9, Vec::new(), &targets(), refuse);
    let error = writer.write(&[row(1)]).unwrap_err();
    assert!(matches!(error, Error::Part { part: 1, .. }));
    assert_eq!(error.to_string(), "cannot write part 1: no room");
}
