//! The columns of an exchange: names, types and sources.

use fathometer_model::{ExchangeRow, Outcome};
use parquet::errors::Result;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

/// A column of the file.
pub(crate) struct Column {
    /// The name of the column; its suffix is the unit.
    pub(crate) name: &'static str,
    /// The type of the column in Parquet's notation.
    kind: &'static str,
    pub(crate) source: Source,
}

/// The source of a column's values. The value `None` becomes null.
pub(crate) enum Source {
    /// A 64-bit column. It is signed, so that queries can subtract values without overflow.
    Long(fn(&ExchangeRow) -> Option<u64>),
    /// A 32-bit column with the bit pattern of the unsigned value.
    Int(fn(&ExchangeRow) -> Option<u32>),
    /// A column with one of a few words.
    Word(fn(&ExchangeRow) -> Option<&'static str>),
    /// The name of the target.
    Target,
}

use Source::{Int, Long, Target, Word};

const LONG: &str = "REQUIRED INT64";
const NULLABLE_LONG: &str = "OPTIONAL INT64";
const UNSIGNED: &str = "REQUIRED INT32";

pub(crate) const COLUMNS: &[Column] = &[
    column("planned_ns", LONG, Long(|row| Some(row.planned))),
    column("due_ns", NULLABLE_LONG, Long(due)),
    column("sent_ns", NULLABLE_LONG, Long(|row| time(row.sent))),
    column(
        "first_byte_ns",
        NULLABLE_LONG,
        Long(|row| time(row.first_byte)),
    ),
    column(
        "last_byte_ns",
        NULLABLE_LONG,
        Long(|row| time(row.last_byte)),
    ),
    column("target", "REQUIRED BYTE_ARRAY", Target),
    column("page", UNSIGNED, Int(|row| Some(row.page))),
    column("user", UNSIGNED, Int(|row| Some(row.user))),
    column("connection", "OPTIONAL INT32", Int(connection)),
    column("status", "OPTIONAL INT32", Int(status)),
    column("outcome", "REQUIRED BYTE_ARRAY", Word(outcome)),
    column("failure", "OPTIONAL BYTE_ARRAY", Word(failure)),
    column(
        "request_head_bytes",
        LONG,
        Long(|row| Some(row.request_head.into())),
    ),
    column(
        "request_body_bytes",
        LONG,
        Long(|row| Some(row.request_body)),
    ),
    column(
        "response_head_bytes",
        LONG,
        Long(|row| Some(row.response_head.into())),
    ),
    column(
        "response_body_bytes",
        LONG,
        Long(|row| Some(row.response_body)),
    ),
    column(
        "phase",
        "REQUIRED BYTE_ARRAY",
        Word(|row| Some(row.phase.name())),
    ),
    // The type is signed, because requests that are planned before the measured window have a negative value.
    column(
        "since_measured_ns",
        LONG,
        Long(|row| Some(row.planned.wrapping_sub(row.measured_from))),
    ),
];

impl Column {
    pub(crate) fn is_nullable(&self) -> bool {
        self.kind.starts_with("OPTIONAL")
    }

    fn logical(&self) -> &'static str {
        match (&self.source, self.name) {
            (Long(_), _) => "",
            (Int(_), "status") => " (INTEGER(16,false))",
            (Int(_), _) => " (INTEGER(32,false))",
            (Word(_) | Target, _) => " (STRING)",
        }
    }
}

/// Returns the schema of the file.
pub(crate) fn schema() -> Result<Type> {
    let mut message = String::from("message exchange {\n");
    for column in COLUMNS {
        let (kind, name, logical) = (column.kind, column.name, column.logical());
        message.push_str(&format!("  {kind} {name}{logical};\n"));
    }
    message.push_str("}\n");
    parse_message_type(&message)
}

const fn column(name: &'static str, kind: &'static str, source: Source) -> Column {
    Column { name, kind, source }
}

fn time(nanos: u64) -> Option<u64> {
    (nanos != 0).then_some(nanos)
}

/// Returns the due time. Zero is a valid time (the start of the test) if the exchange was sent.
fn due(row: &ExchangeRow) -> Option<u64> {
    (row.due != 0 || row.sent != 0).then_some(row.due)
}

fn connection(row: &ExchangeRow) -> Option<u32> {
    (row.connection != u32::MAX).then_some(row.connection)
}

fn status(row: &ExchangeRow) -> Option<u32> {
    (row.status != 0).then_some(row.status.into())
}

fn outcome(row: &ExchangeRow) -> Option<&'static str> {
    Some(match row.outcome {
        Outcome::Complete => "complete",
        Outcome::Failed(_) => "failed",
        Outcome::Retried(_) => "retried",
    })
}

fn failure(row: &ExchangeRow) -> Option<&'static str> {
    match row.outcome {
        Outcome::Complete => None,
        Outcome::Failed(failure) | Outcome::Retried(failure) => Some(failure.name()),
    }
}
