//! The published figures of a paper: `table,environment,variant,metric,value,unit,note`.

use crate::{Error, csv};

const FILE: &str = "figures.csv";
const COLUMNS: [&str; 7] = [
    "table",
    "environment",
    "variant",
    "metric",
    "value",
    "unit",
    "note",
];

/// One published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedFigure {
    /// The paper's table, as in `T6`.
    pub table: String,
    /// The table's environment, as in `Jigsaw WAN`.
    pub environment: String,
    /// The row.
    pub variant: String,
    /// The metric, as in `first.elapsed`.
    pub metric: String,
    /// The value; `None` if the paper gives no exact number (`<1`).
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// The source of the figure in the paper.
    pub note: String,
}

impl PublishedFigure {
    /// Whether the figure is derived: it is not printed in the paper, but follows from printed figures.
    pub fn is_derived(&self) -> bool {
        self.note.starts_with("derived")
    }
}

/// All published figures of a paper.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Published {
    figures: Vec<PublishedFigure>,
}

impl Published {
    /// Parses `figures.csv`.
    ///
    /// # Errors
    /// When the text is not RFC 4180, or its columns differ from the expected ones.
    pub fn parse(text: &str) -> Result<Published, Error> {
        let records = csv::records(text)
            .map_err(|(line, what)| Error::study(FILE, format!("line {line}: {what}")))?;
        let mut records = records.into_iter();
        let header = records.next().unwrap_or_default();
        if header != COLUMNS {
            let wanted = COLUMNS.join(",");
            return Err(Error::study(
                FILE,
                format!("the columns must be {wanted}, not {}", header.join(",")),
            ));
        }
        let figures = records
            .enumerate()
            .map(|(index, record)| {
                let fields: [String; 7] = record.try_into().map_err(|record: Vec<String>| {
                    let message = format!("record {}: {} fields of 7", index + 2, record.len());
                    Error::study(FILE, message)
                })?;
                let [table, environment, variant, metric, value, unit, note] = fields;
                Ok(PublishedFigure {
                    table,
                    environment,
                    variant,
                    metric,
                    value: value.parse().ok(),
                    unit,
                    note,
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Published { figures })
    }

    /// The figure of a table's row and metric.
    pub fn find(
        &self,
        table: &str,
        environment: &str,
        variant: &str,
        metric: &str,
    ) -> Option<&PublishedFigure> {
        self.figures.iter().find(|figure| {
            figure.table == table
                && figure.environment == environment
                && figure.variant == variant
                && figure.metric == metric
        })
    }

    /// The figures of a metric, in all tables, environments and variants.
    pub fn of_metric(&self, metric: &str) -> Vec<&PublishedFigure> {
        let figures = self.figures.iter();
        figures.filter(|figure| figure.metric == metric).collect()
    }

    /// The metrics that have figures, each once, in the order of the file.
    pub fn metrics(&self) -> Vec<&str> {
        let mut metrics: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !metrics.contains(&figure.metric.as_str()) {
                metrics.push(&figure.metric);
            }
        }
        metrics
    }
}
