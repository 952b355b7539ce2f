//! The claims of a paper as they were published: `id,claim,test,direction,threshold`.

use crate::{Error, csv};

const FILE: &str = "claims-published.csv";
const COLUMNS: [&str; 5] = ["id", "claim", "test", "direction", "threshold"];

/// One published claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedClaim {
    /// Its identifier, as in `N01`.
    pub id: String,
    /// The sentence.
    pub sentence: String,
    /// A method to test the claim.
    pub test: String,
    /// The direction of the effect.
    pub direction: String,
    /// The bound, with figures from the paper.
    pub bound: String,
}

/// All published claims of a paper.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishedClaims {
    /// The claims in the order of the file.
    pub rows: Vec<PublishedClaim>,
}

impl PublishedClaims {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// When the text is not a table with these columns.
    pub fn parse(text: &str) -> Result<PublishedClaims, Error> {
        let records = csv::records(text)
            .map_err(|(line, what)| Error::study(FILE, format!("line {line}: {what}")))?;
        let mut records = records.into_iter();
        let header = records.next().unwrap_or_default();
        if header != COLUMNS {
            let message = format!(
                "the columns are {}, not {}",
                COLUMNS.join(","),
                header.join(",")
            );
            return Err(Error::study(FILE, message));
        }
        let rows = records
            .enumerate()
            .map(|(index, record)| {
                let fields: [String; 5] = record.try_into().map_err(|record: Vec<String>| {
                    let message = format!("record {}: {} fields of 5", index + 2, record.len());
                    Error::study(FILE, message)
                })?;
                let [id, sentence, test, direction, bound] = fields;
                Ok(PublishedClaim {
                    id,
                    sentence,
                    test,
                    direction,
                    bound,
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(PublishedClaims { rows })
    }

    /// The claim with this identifier.
    pub fn row(&self, id: &str) -> Option<&PublishedClaim> {
        self.rows.iter().find(|row| row.id == id)
    }
}
